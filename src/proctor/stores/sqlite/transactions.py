"""Transactions, and reading of rows that may be damaged."""

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
"""How many bytes of rows are read at once."""


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
        rows: a cursor, which reads a row at a time.
        body: which column is large.
    """
    page_rows, size = [], 0
    for row in rows:
        page_rows.append(row)
        size += len(row[body]) if isinstance(row[body], bytes) else 0  # else it is damaged
        if size >= PAGE_BYTES:
            break
    return page_rows


def decode_row(path: str, make: Callable[[], T]) -> T:
    """Decodes a row, which may be damaged in any way.

    Raises:
        StoreError: it is damaged; the message names the store.
    """
    try:
        return make()
    except (DecodeError, ValueError, TypeError, AttributeError) as error:
        raise StoreError(
            f"The store {path} is damaged: a row of it cannot be read ({error}). {REMEDY}"
        ) from error
