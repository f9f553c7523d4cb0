"""Executes one request for a call from Python: in the caller's thread, or beside a running event loop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from proctor.errors import ProctorError
from proctor.python.results import RunResult
from proctor.services import events
from proctor.services.project_store import ignore_in_git
from proctor.services.runs.execution.session import RunSession
from proctor.services.runs.reading.report import build_report, record_report_access
from proctor.services.runs.request import Request

if TYPE_CHECKING:
    from types import FrameType

    from proctor.stores.location import StoreLocation


class Job:
    """The execution of one request, with the results of its runs."""

    def __init__(
        self,
        request: Request,
        location: StoreLocation,
        listen: events.Listener,
        rewrite_error: Callable[[ProctorError], object] = lambda _error: None,
        *,
        reveal: bool = False,
    ) -> None:
        """Opens nothing.

        Args:
            request: the request.
            location: the store for its runs.
            listen: receives every event.
            rewrite_error: changes the text of an error before it is raised.
            reveal: results show held-out cases too.
        """
        self._request = request
        self._location = location
        self._listen = listen
        self._rewrite_error = rewrite_error
        self._reveal = reveal
        self._session: RunSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self.is_stopped = False
        """Whether it was stopped before its end."""

    def run(self) -> list[RunResult]:
        """Executes it, and returns when all runs have ended.

        Raises:
            KeyboardInterrupt: Ctrl-C stopped it; what had finished is stored.
        """
        if _is_loop_running():
            return self.run_in_thread()
        if threading.current_thread() is not threading.main_thread():
            return self._run_on_new_loop()
        with _catch_interrupts(self.stop):
            results = self._run_on_new_loop()
        if self.is_stopped:
            raise KeyboardInterrupt(self._explain_stop(results))
        return results

    def run_in_thread(self) -> list[RunResult]:
        """Executes it in another thread, because an event loop runs in this one."""
        outcome = self.start_thread()
        try:
            with _interrupt_this_thread():
                while not outcome.done.wait(0.5):
                    pass
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self.stop_thread(outcome)) from None
        return outcome.get()

    def stop_thread(self, outcome: Outcome) -> str:
        """Stops it in its thread, waits until what has finished is stored, and returns what to do next."""
        self.stop()
        try:
            outcome.done.wait()
        except KeyboardInterrupt:
            self.stop()
            outcome.done.wait()
        return self._explain_stop(outcome.results or [])

    def start_thread(self, on_done: Callable[[], object] = lambda: None) -> Outcome:
        """Starts it in another thread, which calls `on_done` at its end; returns its outcome."""
        outcome = Outcome()

        def work() -> None:
            try:
                outcome.results = self._run_on_new_loop()
            except BaseException as error:  # noqa: BLE001  # the waiting thread raises it
                outcome.error = error
            finally:
                outcome.done.set()
                on_done()

        threading.Thread(target=work, name="proctor-run", daemon=True).start()
        return outcome

    async def arun(self) -> list[RunResult]:
        """Executes it on the running loop; when it is cancelled, what has finished is stored first."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._execute())
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self.stop()
            await asyncio.wait([self._task])
            results = [] if self._task.cancelled() or self._task.exception() else self._task.result()
            self._listen(events.StatusMessage(self._explain_stop(results)))
            raise

    def stop(self) -> None:
        """Starts no further trials; those in progress get a second. A second call cancels them at once."""
        is_second, self.is_stopped = self.is_stopped, True
        if self._loop is None or self._loop.is_closed():
            return
        if is_second and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        elif self._session is not None:
            self._loop.call_soon_threadsafe(self._session.stop)

    def _run_on_new_loop(self) -> list[RunResult]:
        factory: Callable[[], asyncio.AbstractEventLoop] | None = None
        if sys.platform != "win32":
            import uvloop

            factory = uvloop.new_event_loop
        with _rare_collection, asyncio.Runner(loop_factory=factory) as runner:
            self._loop = runner.get_loop()
            results: list[RunResult] = runner.run(self._run_task())
            return results

    async def _run_task(self) -> list[RunResult]:
        task = asyncio.create_task(self._execute())
        self._task = task
        return await task

    async def _execute(self) -> list[RunResult]:
        is_new_folder = not self._location.folder.exists()
        store = self._location.open_store(lambda line: self._listen(events.StatusMessage(line)))
        try:
            if is_new_folder:
                ignore_in_git(self._location.folder)
            self._session = RunSession(store, os.environ, self._listen, folder=self._location.folder)
            if self.is_stopped:
                self._session.stop()
            results = []
            for finished in await self._session.run(self._request):
                report = build_report(store, finished.run, finished.tally, reveal=self._reveal)
                report = record_report_access(store, report, reveal=self._reveal)
                results.append(RunResult(report, self._location, reveal=self._reveal))
            return results
        except ProctorError as error:
            self._rewrite_error(error)
            raise
        finally:
            store.close()

    def _explain_stop(self, results: list[RunResult]) -> str:
        if not self._location.is_durable:
            return "Stopped. The store was in memory."
        stopped = [result for result in results if result.status == "interrupted"]
        if not stopped:
            return "".join(f"Run {result.id} had finished. " for result in results) + "Stopped."
        counts = ", ".join(f"{result.run.id} has {result.record.total:,} trials" for result in stopped)
        how = f"Continue with proctor.run(resume={stopped[0].run.id!r})."
        if stopped[0].target.kind == "function":
            how += " In a new program, pass the same target= again."
        return f"Stopped: {counts}. {how}"


class Outcome:
    """The results of a job in another thread."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.results: list[RunResult] | None = None
        self.error: BaseException | None = None

    def get(self) -> list[RunResult]:
        """Returns the results once it is done; raises what the job raised."""
        if self.error is not None:
            raise self.error
        assert self.results is not None
        return self.results


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _RareCollection:
    """Lets the garbage collector run rarely during runs, which leave hardly any cycles."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            if not self._runs:
                self._thresholds = gc.get_threshold()
                gc.set_threshold(50_000, 20, 100)
            self._runs += 1

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._runs -= 1
            if not self._runs:
                gc.set_threshold(*self._thresholds)


_rare_collection = _RareCollection()


@contextmanager
def _interrupt_this_thread() -> Iterator[None]:
    """Lets Ctrl-C interrupt this thread, where `asyncio.run` would cancel a task that cannot run now."""
    handler = signal.getsignal(signal.SIGINT)
    owner = getattr(getattr(handler, "func", None), "__self__", None)
    if threading.current_thread() is not threading.main_thread() or not isinstance(owner, asyncio.Runner):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _catch_interrupts(stop: Callable[[], None]) -> Iterator[None]:
    """Calls `stop` at Ctrl-C, unless the program has a handler of its own; the third time it interrupts."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    count = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count > 2:
            signal.default_int_handler(number, frame)
        stop()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
