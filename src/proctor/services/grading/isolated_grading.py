"""Runs graders: in this process if they end quickly, else in a process that is killed at its limit.

Small inputs are tried under a timer of processor time. Without such a timer (Windows, threads other than the
main one), only tiny inputs are tried.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Callable
from time import thread_time
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet, finalize

if TYPE_CHECKING:
    from proctor.services.grading.worker_pool import GradingPool, GradingProcess

T = TypeVar("T")

INLINE_LIMIT_S = 0.01
"""The processor time of one attempt, which ends at most two ticks later; an event loop is held by two of them
at most, one after the other."""
MAX_INLINE_SIZE = 200_000
"""In characters. C code cannot be interrupted, but reads this much in a few milliseconds."""
_MAX_SIZE_WITHOUT_ALARM = 4_000
_TICK_S = 0.005
"""The alarm repeats, as Python ignores exceptions raised while it frees an object."""
_FREEING_FILES = frozenset({WeakSet.__init__.__code__.co_filename, finalize.__init__.__code__.co_filename})
"""The files of the standard library with the functions that Python calls when it frees an object."""


class InlineTimeout(BaseException):
    """A computation exceeded its limit; a BaseException, so that no `except Exception` swallows it."""


class _InlineAlarm:
    """The process's timer of processor time, and the attempt that it may stop.

    The timer runs while attempts follow one another, since starting it for each would cost as much as a short
    attempt, and ends with the first tick before which none began. To read the processor time when an attempt
    begins would cost as much, so the time of an attempt counts from its first tick.
    """

    def __init__(self) -> None:
        self._users = 0
        self._previous_handler: Any = None
        self._is_ticking = False
        self._ticked_attempt = 0
        """The number of the last attempt that began before the last tick."""
        self._first_tick_at = 0.0
        """The processor time of the thread at the first tick after that attempt began."""
        self._limit_s = 0.0
        self._attempt = 0
        """The number of the last attempt."""
        self.is_armed = False
        """Whether an attempt is in progress."""

    def install(self) -> None:
        """Installs the handler, for the first user."""
        if not self._users:
            self._previous_handler = signal.signal(signal.SIGVTALRM, self._tick)
        self._users += 1

    def uninstall(self) -> None:
        """Restores the previous handler, after the last user."""
        self._users -= 1
        if not self._users:
            self.stop()
            signal.signal(signal.SIGVTALRM, self._previous_handler)

    def arm(self, limit_s: float) -> None:
        """Begins an attempt."""
        self._limit_s = limit_s
        self._attempt += 1  # first, so that a tick from now on does not stop the timer
        if not self._is_ticking:
            self._is_ticking = True
            signal.setitimer(signal.ITIMER_VIRTUAL, _TICK_S, _TICK_S)
        self.is_armed = True

    def stop(self) -> None:
        """Stops the timer."""
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        self._is_ticking = False

    def _tick(self, _number: int, frame: FrameType | None) -> None:
        now = thread_time()
        if self._attempt != self._ticked_attempt:
            self._ticked_attempt, self._first_tick_at = self._attempt, now
        elif not self.is_armed:
            self.stop()
        elif now - self._first_tick_at >= self._limit_s and not _must_not_raise(frame):
            raise InlineTimeout


_ALARM = _InlineAlarm()


class InlineLimit:
    """Stops computations after a number of seconds of processor time; C code stops when it returns."""

    def __init__(self, seconds: float) -> None:
        """Takes the limit in seconds; `install` starts it."""
        self._seconds = seconds
        self._is_installed = False
        self.is_supported = (
            hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        )

    def install(self) -> None:
        """Installs the handler of the system's timer, which all limits of the process share."""
        if self.is_supported:
            self._is_installed = True
            _ALARM.install()

    def close(self) -> None:
        """Restores the previous handler, after the last limit. Safe to call twice."""
        if self._is_installed:
            self._is_installed = False
            _ALARM.uninstall()

    def run(self, work: Callable[[], T]) -> T:
        """Returns the result of a computation.

        Raises:
            InlineTimeout: it exceeded the limit.
        """
        if not self._is_installed:
            return work()
        alarm = _ALARM
        alarm.arm(self._seconds)
        try:
            try:
                return work()
            finally:
                alarm.is_armed = False
        finally:  # also where the alarm came in the line above
            alarm.is_armed = False


def _must_not_raise(frame: FrameType | None) -> bool:
    """Whether a module is being imported, which would stay half initialized, or memory is being freed."""
    collector_hooks = [getattr(hook, "__code__", None) for hook in gc.callbacks]
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename in _FREEING_FILES or code in collector_hooks:
            return True
        if code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


class _InlineRunner:
    """Runs computations in this process under an alarm, and remembers which keys are slow."""

    def __init__(self) -> None:
        self._limit = InlineLimit(INLINE_LIMIT_S)
        self._limit.install()
        self._max_size = MAX_INLINE_SIZE if self._limit.is_supported else _MAX_SIZE_WITHOUT_ALARM
        self._slow: set[str] = set()

    def attempt(self, work: Callable[[], T], size: int, key: str | None = None) -> T | None:
        """See `protocols.Isolation`."""
        if size > self._max_size or (self._slow and key in self._slow):
            return None
        try:
            return self._limit.run(work)
        except InlineTimeout:
            if key is not None:
                self._slow.add(key)
            return None

    def close(self) -> None:
        self._limit.close()


class EventLoopIsolation(_InlineRunner):
    """`protocols.Isolation` for one event loop."""

    def __init__(self) -> None:
        """Starts no process."""
        super().__init__()
        self._pool: GradingPool | None = None
        self._attempt_lock = asyncio.Lock()
        self._waiting: set[asyncio.Task[Any]] = set()
        self._stopped = False

    async def call(self, work: Callable[[], T], size: int, key: str | None = None) -> T:
        """See `protocols.Isolation`.

        Raises:
            asyncio.CancelledError: the run was stopped.
        """
        async with self._attempt_lock:  # one attempt per iteration of the loop
            value = self.attempt(work, size, key)
            await asyncio.sleep(0)
        if value is not None:
            return value
        if self._pool is None:
            from proctor.services.grading.worker_pool import GradingPool

            self._pool = GradingPool()
        if self._stopped:
            raise asyncio.CancelledError
        task = asyncio.create_task(self._pool.call(work))
        self._waiting.add(task)
        try:
            return await task
        finally:
            self._waiting.discard(task)

    @property
    def is_waiting(self) -> bool:
        """Whether a worker has something to do."""
        return bool(self._waiting)

    def stop(self) -> None:
        """Kills the workers; quick computations still run."""
        self._stopped = True
        for task in self._waiting:
            task.cancel()
        if self._pool is not None:
            self._pool.close()

    def close(self) -> None:
        """Kills what still runs. Safe to call twice."""
        super().close()
        self.stop()


class BlockingIsolation(_InlineRunner):
    """`protocols.Isolation` for callers without an event loop."""

    def __init__(self) -> None:
        """Starts no process."""
        super().__init__()
        self._process: GradingProcess | None = None

    def call(self, work: Callable[[], T], size: int, key: str | None = None) -> T:
        """Returns the result of a computation.

        Raises:
            TimeLimitExceeded: it did not end within the limit.
        """
        value = self.attempt(work, size, key)
        if value is not None:
            return value
        from proctor.services.grading.worker_pool import GradingProcess

        if self._process is None or not self._process.is_alive:
            self.close_process()
            self._process = GradingProcess()
        return self._process.call(work)

    def close_process(self) -> None:
        """Ends the worker, if there is one."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def close(self) -> None:
        """Kills what still runs. Safe to call twice."""
        super().close()
        self.close_process()
