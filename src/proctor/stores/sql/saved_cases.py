"""The rows of suites that were just saved, so that a run of one need not read them back."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Final

StoredRow = tuple[bytes, bytes]
"""The body of a case and the digest of what is sent for it."""
MAX_CASES: Final = 25_000
MAX_BYTES: Final = 16 * 2**20
"""A larger suite, and the oldest of several that are larger together, is read from the database."""
_ROW_BYTES: Final = 192
"""The size of a row without its body, roughly."""


def fits_memory(count: int, body_bytes: int) -> bool:
    """Returns whether the rows of `count` cases stay in memory; `body_bytes` is the size of all bodies."""
    return count <= MAX_CASES and _size(count, body_bytes) <= MAX_BYTES


def _size(count: int, body_bytes: int) -> int:
    return body_bytes + count * _ROW_BYTES


class SavedCases:
    """The rows of suites that a store has saved, each until it is first read."""

    def __init__(self) -> None:
        """Starts without suites."""
        self._lock = Lock()
        self._suites: dict[str, tuple[int, list[StoredRow]]] = {}
        """The size and the rows of each content, in reverse order; that of the last suite comes last."""

    def add(self, content: str, rows: Iterator[StoredRow], count: int, body_bytes: int) -> None:
        """Adds the rows of a content, unless they do not fit.

        Args:
            content: the digest of all cases.
            rows: the row of each case, in reverse order.
            count: the number of cases.
            body_bytes: the size of their bodies.
        """
        if not fits_memory(count, body_bytes):
            return
        suite = _size(count, body_bytes), list(rows)
        with self._lock:
            self._suites.pop(content, None)
            self._suites[content] = suite
            while sum([size for size, _ in self._suites.values()]) > MAX_BYTES:
                del self._suites[next(iter(self._suites))]

    def take(self, content: str) -> Iterator[StoredRow] | None:
        """Returns the rows of a content in order, once, and releases each as it is read; None without any."""
        with self._lock:
            _, rows = self._suites.pop(content, (0, None))
        return None if rows is None else _release(rows)

    def clear(self) -> None:
        """Releases all rows."""
        with self._lock:
            self._suites.clear()


def _release(rows: list[StoredRow]) -> Iterator[StoredRow]:
    while rows:
        yield rows.pop()
