"""Waits for locks that other processes hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

from proctor.stores.sql.wait_policy import NOTICE_AFTER_S, WaitPolicy, interruptible

T = TypeVar("T")

BUSY_TIMEOUT_MS = 20
"""How long SQLite itself waits; signals are not handled during that time."""
_PAUSE_S = 0.005
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL})


class LockWait(WaitPolicy):
    """How long the connections of one store wait for a lock."""

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
