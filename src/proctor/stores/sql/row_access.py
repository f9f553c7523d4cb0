"""Reading and writing all rows of a store, table by table: what `proctor store copy` needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from proctor.errors import StoreError
from proctor.stores.sql.database import PAGE_BYTES
from proctor.stores.sql.tables import TABLES, Row, StoreTable

_ROW_BYTES = 256
"""The size of a row without its last column, roughly."""


class RowReader(Protocol):
    """The rows of a store as they were at one moment; each method raises StoreError if the database fails."""

    address: str
    """The store's address for messages, without a password."""
    folder: Path
    """The absolute path of the folder to which paths in the store are relative."""

    def count_rows(self, table: StoreTable) -> int:
        """Returns the number of rows of a table, including those that nothing refers to."""

    def iter_pages(self, table: StoreTable) -> Iterator[list[Row]]:
        """Yields the rows of a table in order, a few megabytes at a time."""

    def last_number(self, table: StoreTable) -> int:
        """Returns the largest number that a row of the table ever had, as far as it is known; 0 for none."""


class RowWriter(RowReader, Protocol):
    """A store that is being filled: what is written can be read at once, and others see it at the end."""

    def write_rows(self, table: StoreTable, rows: Sequence[Row]) -> None:
        """Adds rows."""

    def set_last_number(self, table: StoreTable, number: int) -> None:
        """Makes the numbers of the next rows of a table larger than one."""


class StoreRows(Protocol):
    """All rows of a store and of its answer cache, for `proctor store copy` and `digest`."""

    def read_rows(self, notify: Callable[[str], None] = ...) -> AbstractContextManager[RowReader]:
        """Opens the rows of the store at this moment for the block.

        Args:
            notify: called with a sentence if the store is migrated first.

        Raises:
            StoreError: there is no store, or it cannot be read.
        """

    def write_rows(self) -> AbstractContextManager[RowWriter]:
        """Opens an empty store to be filled in the block; an exception leaves it as it was.

        Raises:
            StoreError: the store cannot be written, or has content.
        """

    def read_answers(self) -> AbstractContextManager[RowReader | None]:
        """Opens the answer cache at this moment for the block; None if there is none."""

    def write_answers(self) -> AbstractContextManager[RowWriter]:
        """Opens the answer cache, in which other answers stay, to be extended in the block.

        Raises:
            StoreError: it cannot be written.
        """


def check_empty(rows: RowReader) -> None:
    """Checks that a store has no rows.

    Raises:
        StoreError: it has some.
    """
    if any(rows.count_rows(table) for table in TABLES):
        raise StoreError(
            f"The store {rows.address} already has content, but a copy needs an empty or missing store. "
            f"Nothing was copied."
        )


def split_pages(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yields rows in lists of a few megabytes."""
    page: list[Row] = []
    size = 0
    for row in rows:
        page.append(row)
        body = row[-1]
        size += _ROW_BYTES + (len(body) if isinstance(body, (bytes, str)) else 0)
        if size >= PAGE_BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page
