"""Waits for locks that other processes hold: how long, who is notified, and how signals end a wait."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from time import monotonic, sleep
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

DEFAULT_PATIENCE_S = 30.0
"""How long a command waits for a lock; a run waits without a limit."""
NOTICE_AFTER_S = 2.0
"""A longer wait is reported."""
BUSY_TIMEOUT_MS = 20
"""How long SQLite itself waits; signals are not handled during that time."""
_PAUSE_S = 0.005
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL})


class LockWait:
    """How long the connections of one store wait for a lock."""

    def __init__(self, patience_s: float | None = None) -> None:
        """Creates it without a callback; set `notify` to get one.

        Args:
            patience_s: how long a statement waits; None for `DEFAULT_PATIENCE_S`.
        """
        self.patience_s = DEFAULT_PATIENCE_S if patience_s is None else patience_s
        self.notify: Callable[[], None] = lambda: None
        """Called once per wait, after `NOTICE_AFTER_S`, in the waiting thread."""
        self.abandoned = Event()
        """Once set, nothing waits for locks."""

    def retry(self, execute: Callable[[], T]) -> T:
        """Executes a statement that a lock refused again until it succeeds, and returns its result.

        Raises:
            sqlite3.OperationalError: it is still locked after `patience_s`, or waiting was abandoned.
            KeyboardInterrupt: a signal arrived; from then on nothing waits.
        """
        began, notified = monotonic(), False
        try:
            with interruptible():
                while True:
                    try:
                        return execute()
                    except sqlite3.OperationalError as error:
                        waited = monotonic() - began
                        if not is_locked(error) or waited >= self.patience_s or self.abandoned.is_set():
                            raise
                    if not notified and waited >= NOTICE_AFTER_S:
                        notified = True
                        self.notify()
                    sleep(_PAUSE_S)  # SQLite itself does not wait for some locks
        except KeyboardInterrupt:
            self.abandoned.set()
            raise


def is_locked(error: BaseException) -> bool:
    """Returns whether a statement failed only because another connection holds a lock."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in _BUSY_CODES and code != sqlite3.SQLITE_BUSY_SNAPSHOT


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
