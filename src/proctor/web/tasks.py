"""What takes seconds is done beside the requests: asked for once, followed by whoever waits, and remembered.

A page asks for something under a key. What is at hand within its patience is shown at once; else the page
shows how far it is, and opens again when it is done.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from threading import Event, Lock, Semaphore, Thread
from time import monotonic
from typing import Generic, TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse

from proctor.web.project import get_project
from proctor.web.sse import event, streamed

T = TypeVar("T")
ProgressCallback = Callable[[int, int], None]
"""Told how much is done of how much."""

_AT_ONCE = 2
_REMEMBERED = 32
_FRESH_S = 10.0
"""For so long the answer about something that still changes is as good as a new one."""
_LOOKS_EVERY_S = 0.3


class Task(Generic[T]):
    """One thing that is being done, or was."""

    def __init__(self, what: str, *, lasting: bool) -> None:
        """Not begun.

        Args:
            what: what is counted, such as `trials read`.
            lasting: what it comes to stays true, unless that is an error.
        """
        self.id = secrets.token_urlsafe(12)
        self.what = what
        self.done, self.total = 0, 0
        self._lasting = lasting
        self._ended = Event()
        self._ended_at = 0.0
        self._result: T | None = None
        self._error: BaseException | None = None

    @property
    def has_ended(self) -> bool:
        """Whether there is a result, or an error."""
        return self._ended.is_set()

    @property
    def has_failed(self) -> bool:
        """Whether it ended with an error."""
        return self._error is not None

    @property
    def is_fresh(self) -> bool:
        """Whether whoever asks now may have what it came to."""
        lasting = self._lasting and self._error is None
        return not self.has_ended or lasting or monotonic() - self._ended_at < _FRESH_S

    def wait(self, patience_s: float) -> bool:
        """Wait for so long at most; whether it has ended."""
        return self._ended.wait(patience_s)

    def result(self) -> T:
        """What it came to, when it has ended.

        What was raised while it was done is raised here.
        """
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def run(self, make: Callable[[ProgressCallback], T]) -> None:
        """Do it."""
        try:
            self._result = make(self._told)
        except BaseException as error:  # noqa: BLE001  # it is raised where somebody waits for it
            self._error = error
        self._ended_at = monotonic()
        self._ended.set()

    def _told(self, done: int, total: int) -> None:
        self.done, self.total = done, total


class TaskRunner:
    """What one server does beside its requests, a few at a time; safe to use from many threads."""

    def __init__(self) -> None:
        """Nothing is to be done."""
        self._tasks: OrderedDict[Hashable, Task[object]] = OrderedDict()
        self._lock = Lock()
        self._room = Semaphore(_AT_ONCE)

    def ask(
        self, key: Hashable, make: Callable[[ProgressCallback], T], what: str, *, lasting: bool = True
    ) -> Task[T]:
        """The task of a key: the one that is there, or a new one that begins as soon as there is room.

        Args:
            key: what it is; the same key is done once.
            make: does it.
            what: what is counted while it is done.
            lasting: what it comes to stays true; else it is done again a few seconds after it ended.
        """
        with self._lock:
            known = self._tasks.get(key)
            if known is not None and known.is_fresh:
                self._tasks.move_to_end(key)
                return known  # type: ignore[return-value]
            task: Task[T] = Task(what, lasting=lasting)
            self._tasks[key] = task  # type: ignore[assignment]
            self._tasks.move_to_end(key)
            self._forget()
        Thread(target=self._run, args=(task, make), daemon=True).start()
        return task

    def _run(self, task: Task[T], make: Callable[[ProgressCallback], T]) -> None:
        with self._room:
            task.run(make)

    def find(self, task_id: str) -> Task[object] | None:
        """The task of that id, while it is remembered."""
        with self._lock:
            return next((task for task in self._tasks.values() if task.id == task_id), None)

    def _forget(self) -> None:
        ended = [key for key, task in self._tasks.items() if task.has_ended]
        for key in ended[: max(0, len(self._tasks) - _REMEMBERED)]:
            del self._tasks[key]


def get_task_runner(request: Request) -> TaskRunner:
    """The desk of the site that a request is for."""
    return get_project(request).get_shared("tasks", TaskRunner)


def stream_task(tasks: TaskRunner, task_id: str, shown: Callable[[Task[object]], str]) -> StreamingResponse:
    """A task's progress as server-sent events, of which the last one says that it is done.

    Args:
        tasks: where it is.
        task_id: its id; one that is not known is done.
        shown: the section of a page that tells how far it is.
    """

    async def events() -> AsyncIterator[str]:
        task, sent = tasks.find(task_id), None
        while task is not None and not task.has_ended:
            if sent != (task.done, task.total):
                sent = task.done, task.total
                yield event(shown(task))
            await asyncio.sleep(_LOOKS_EVERY_S)
        yield event("", "done")

    return streamed(events())
