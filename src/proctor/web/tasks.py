"""Background tasks for work that takes seconds; each is submitted under a key, followed and cached.

A result that is ready within the timeout of a page is shown at once; else the page shows the progress, and
reloads when the task is done.
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

from proctor.web.project import Project, get_project
from proctor.web.sse import format_event, stream_response
from proctor.web.templates_env import render_fragment

T = TypeVar("T")
ProgressCallback = Callable[[int, int], None]
"""Called with how much is done, and the total."""

_MAX_CONCURRENT = 2
_MAX_TASKS = 32
_FRESH_FOR_S = 10.0
"""How long the result of a task that is not cacheable counts as current."""
_POLL_INTERVAL_S = 0.3


class TaskStopped(Exception):
    """The server stops, and does not wait for the task."""


class Task(Generic[T]):
    """A background task and its result."""

    def __init__(self, unit: str, *, cacheable: bool) -> None:
        """Does not start it.

        Args:
            unit: what its progress counts, such as `trials read`.
            cacheable: whether the result stays valid, unless it is an error.
        """
        self.id = secrets.token_urlsafe(12)
        self.unit = unit
        self.done_count, self.total = 0, 0
        self._cacheable = cacheable
        self._must_stop = False
        self._end_event = Event()
        self._ended_at = 0.0
        self._result: T | None = None
        self._error: BaseException | None = None

    @property
    def has_ended(self) -> bool:
        """Whether there is a result or an error."""
        return self._end_event.is_set()

    @property
    def has_failed(self) -> bool:
        """Whether it ended with an error."""
        return self._error is not None

    @property
    def is_fresh(self) -> bool:
        """Whether its result is still valid for new requests."""
        cacheable = self._cacheable and self._error is None
        return not self.has_ended or cacheable or monotonic() - self._ended_at < _FRESH_FOR_S

    def wait(self, timeout_s: float) -> bool:
        """Waits up to that long; returns whether the task has ended."""
        return self._end_event.wait(timeout_s)

    def stop(self) -> None:
        """Ends the task when it next reports its progress."""
        self._must_stop = True

    def result(self) -> T:
        """Returns the result of a task that has ended.

        What was raised while it was done is raised here.
        """
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def run(self, work: Callable[[ProgressCallback], T]) -> None:
        """Runs the work and stores its result or error."""
        try:
            self._check_stop()
            self._result = work(self._set_progress)
        except BaseException as error:  # noqa: BLE001  # raised again by `result`
            self._error = error
        self._ended_at = monotonic()
        self._end_event.set()

    def _set_progress(self, done_count: int, total: int) -> None:
        self._check_stop()
        self.done_count, self.total = done_count, total

    def _check_stop(self) -> None:
        if self._must_stop:
            raise TaskStopped


class TaskRunner:
    """Runs background tasks, a few at a time; safe to use from many threads."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[Hashable, Task[object]] = OrderedDict()
        self._lock = Lock()
        self._slots = Semaphore(_MAX_CONCURRENT)

    def submit(
        self, key: Hashable, work: Callable[[ProgressCallback], T], unit: str, *, cacheable: bool = True
    ) -> Task[T]:
        """Returns the task of a key: an existing one, or a new one that starts when a slot is free.

        Args:
            key: identifies the work; the same key is done once.
            work: does the work.
            unit: what its progress counts.
            cacheable: whether the result stays valid; else it is done again a few seconds after it ended.
        """
        with self._lock:
            existing = self._tasks.get(key)
            if existing is not None and existing.is_fresh:
                self._tasks.move_to_end(key)
                return existing  # type: ignore[return-value]
            task: Task[T] = Task(unit, cacheable=cacheable)
            self._tasks[key] = task  # type: ignore[assignment]
            self._tasks.move_to_end(key)
            self._forget()
        Thread(target=self._run, args=(task, work), daemon=True).start()
        return task

    def _run(self, task: Task[T], work: Callable[[ProgressCallback], T]) -> None:
        with self._slots:
            task.run(work)

    def find(self, task_id: str) -> Task[object] | None:
        """Returns the task of that id while it is remembered, or None."""
        with self._lock:
            return next((task for task in self._tasks.values() if task.id == task_id), None)

    def stop(self, timeout_s: float) -> None:
        """Stops all tasks, so that they close their stores, and waits for them up to that long."""
        until = monotonic() + timeout_s
        with self._lock:
            tasks = list(self._tasks.values())
        for task in tasks:
            task.stop()
        for task in tasks:
            task.wait(max(0.0, until - monotonic()))

    def _forget(self) -> None:
        ended_keys = [key for key, task in self._tasks.items() if task.has_ended]
        for key in ended_keys[: max(0, len(self._tasks) - _MAX_TASKS)]:
            del self._tasks[key]


def get_task_runner(request: Request) -> TaskRunner:
    """Returns the task runner of a request's project."""
    return get_tasks(get_project(request))


def get_tasks(project: Project) -> TaskRunner:
    """Returns the task runner of a project."""
    return project.get_shared("tasks", TaskRunner)


def stream_reading(request: Request, task_id: str) -> StreamingResponse:
    """Streams the progress of a task that reads, as pages show it with `reading_section.html`."""
    return stream_task(
        get_task_runner(request),
        task_id,
        lambda task: render_fragment(request, "reading_section.html", task=task),
    )


def stream_task(tasks: TaskRunner, task_id: str, render: Callable[[Task[object]], str]) -> StreamingResponse:
    """Streams the progress of a task as server-sent events; the last event is `done`.

    Args:
        tasks: the runner of the task.
        task_id: its id; an unknown one counts as done.
        render: renders the section of the page with the progress.
    """

    async def events() -> AsyncIterator[str]:
        task, sent_progress = tasks.find(task_id), None
        while task is not None and not task.has_ended:
            if sent_progress != (task.done_count, task.total):
                sent_progress = task.done_count, task.total
                yield format_event(render(task))
            await asyncio.sleep(_POLL_INTERVAL_S)
        yield format_event("", "done")

    return stream_response(events())
