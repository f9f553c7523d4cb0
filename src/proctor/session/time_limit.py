"""An end to what would take too long: graders that run on what somebody else wrote.

The system's timer counts the processor time of this process, so that a busy machine ends nothing sooner. It
is there on Unix-like systems and for the main thread; elsewhere only the graders' own limits hold.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class TooLong(BaseException):
    """A computation did not end in its time; no `except Exception` on the way may swallow it."""


class Limiting:
    """Ends computations after so many seconds of processor time, inside a `with` block."""

    def __init__(self, seconds: float) -> None:
        """Nothing is limited yet."""
        self._seconds = seconds
        self._before: Any = None
        self._works = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Limiting:
        if self._works:
            self._before = signal.signal(signal.SIGVTALRM, _stop)
        return self

    def __exit__(self, *_: object) -> None:
        if self._works:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, self._before)

    def run(self, work: Callable[[], T]) -> T:
        """What a computation gives.

        Raises:
            TooLong: it did not end in time.
        """
        if not self._works:
            return work()
        # Again and again, as Python ignores what is raised while it frees an object.
        signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds, 0.1)
        try:
            return work()
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise TooLong
