"""Transactions, and reading rows that may be damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import DecodeError

from proctor.errors import StoreError
from proctor.stores.sqlite.connection import REMEDY

T = TypeVar("T")

PAGE_BYTES = 2**22
"""The number of bytes of rows that are read at once."""


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commits everything that the block writes, or rolls it back."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.rollback()
        raise
    db.execute("COMMIT")


def fetch_page(rows: Iterable[Any], body: int) -> list[Any]:
    """Returns the first rows, up to a total of `PAGE_BYTES`.

    Args:
        rows: a cursor, which reads one row at a time.
        body: the index of the large column.
    """
    page_rows, size = [], 0
    for row in rows:
        page_rows.append(row)
        size += len(row[body]) if isinstance(row[body], bytes) else 0  # else the row is damaged
        if size >= PAGE_BYTES:
            break
    return page_rows


def decode_row(path: str, make: Callable[[], T]) -> T:
    """Decodes a row that may be damaged in any way.

    Raises:
        StoreError: the row is damaged; the message names the store.
    """
    try:
        return make()
    except (DecodeError, ValueError, TypeError, AttributeError) as error:
        raise StoreError(
            f"The store {path} is damaged: a row of it cannot be read ({error}). {REMEDY}"
        ) from error
