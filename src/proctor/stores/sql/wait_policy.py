"""How long a store waits for other processes and for its database, and how signals end a wait."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from types import FrameType

DEFAULT_PATIENCE_S = 30.0
"""How long a command waits; a run waits without a limit."""
NOTICE_AFTER_S = 2.0
"""A longer wait is reported."""


class WaitPolicy:
    """How long the connections of one store wait; the store may change it while they do."""

    def __init__(self, patience_s: float | None = None) -> None:
        """Creates it without a callback; set `notify` to get one.

        Args:
            patience_s: how long a statement waits; None for `DEFAULT_PATIENCE_S`.
        """
        self.patience_s = DEFAULT_PATIENCE_S if patience_s is None else patience_s
        self.notify: Callable[[], None] = lambda: None
        """Called once per wait, after `NOTICE_AFTER_S`, in the waiting thread."""
        self.abandoned = Event()
        """Once set, nothing waits."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Lets signals end a wait in the main thread, where an event loop would handle them only afterwards."""
    if current_thread() is not main_thread():
        yield
        return
    numbers = [
        number
        for name in ("SIGINT", "SIGTERM", "SIGHUP")
        if (number := getattr(signal, name, None)) is not None
        and callable(handler := signal.getsignal(number))
        and handler is not signal.default_int_handler
    ]
    handlers = {number: signal.signal(number, _interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
