"""What everything in a store's file has in common: transactions, and rows that may be damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from msgspec import DecodeError

from proctor.errors import StoreError

T = TypeVar("T")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All that the block writes, or nothing of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.rollback()
        raise
    db.execute("COMMIT")


def made(path: str, make: Callable[[], T]) -> T:
    """What is made of a row, which may be damaged in any way.

    Raises:
        StoreError: it is; the message names the store.
    """
    try:
        return make()
    except (DecodeError, ValueError, TypeError, AttributeError) as error:
        raise StoreError(
            f"The store {path} is damaged: a row of it cannot be read ({error}). "
            "Restore it from a copy, or name another file with --store."
        ) from error
