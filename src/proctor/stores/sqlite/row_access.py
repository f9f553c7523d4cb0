"""Reads and writes all rows of a store in an SQLite file; see `proctor.stores.sql.row_access`."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from proctor.errors import StoreError
from proctor.stores.sql.row_access import check_empty, split_pages
from proctor.stores.sql.tables import Row, StoreTable
from proctor.stores.sqlite.connection import as_store_errors, connect, open_database, shorter_path
from proctor.stores.sqlite.file_copy import new_database
from proctor.stores.sqlite.migrations import migrate
from proctor.stores.sqlite.transactions import transaction

_CACHE_KB = 65_536
"""The pages in memory while rows are written: digests of cases come in no order."""


class SqliteRows:
    """Implements `RowReader` and `RowWriter` in the transaction of a connection."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        """Stores its arguments.

        Args:
            path: the store's file.
            connection: a connection in a transaction.
        """
        self.address = shorter_path(path)
        self.folder = Path(path).absolute().parent
        self._path = path
        self._db = connection

    def count_rows(self, table: StoreTable) -> int:
        """Returns the number of rows of a table, including those that nothing refers to."""
        with as_store_errors(self._path):
            (count,) = self._db.execute(f"SELECT count(*) FROM {table.name}").fetchone()  # noqa: S608
        return int(count)

    def iter_pages(self, table: StoreTable) -> Iterator[list[Row]]:
        """Yields the rows of a table in order, a few megabytes at a time."""
        hint = " NOT INDEXED" if table.order == table.number else ""  # row ids are in order without an index
        with as_store_errors(self._path), closing(self._db.execute(table.make_select(hint))) as cursor:
            yield from split_pages(cursor)

    def last_number(self, table: StoreTable) -> int:
        """Returns the largest number that a row of the table ever had, as far as it is known; 0 for none."""
        with as_store_errors(self._path):
            (highest,) = self._db.execute(
                f"SELECT coalesce(max({table.number}), 0) FROM {table.name}"  # noqa: S608  # names of ours
            ).fetchone()
            row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table.name,)).fetchone()
        return max(int(highest), int(row[0]) if row else 0)

    def write_rows(self, table: StoreTable, rows: Sequence[Row]) -> None:
        """Adds rows."""
        with as_store_errors(self._path):
            try:
                self._db.executemany(table.insert, rows)
            except UnicodeEncodeError as error:
                raise StoreError(
                    f"A row of {table.name} contains text that SQLite cannot store: {error}. Nothing was "
                    f"copied."
                ) from error

    def set_last_number(self, table: StoreTable, number: int) -> None:
        """Makes the numbers of the next rows of a table larger than one, if they are never used again."""
        if table.is_reused:
            return  # SQLite chooses the number after the largest
        with as_store_errors(self._path):
            self._db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
            self._db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, number))


@contextmanager
def read_store(path: str, notify: Callable[[str], None] = lambda _line: None) -> Iterator[SqliteRows]:
    """Opens the rows of a store; see `StoreRows.read_rows`."""
    if not os.path.lexists(path):
        raise StoreError(f"There is no store at {shorter_path(path)}.")
    with closing(open_database(path, notify=notify)) as db, _snapshot(path, db):
        yield SqliteRows(path, db)


@contextmanager
def _snapshot(path: str, db: sqlite3.Connection) -> Iterator[None]:
    with as_store_errors(path):
        db.execute("BEGIN")
        db.execute(
            "SELECT count(*) FROM sqlite_master"
        ).fetchone()  # the transaction starts with its first read
    try:
        yield
    finally:
        db.rollback()


@contextmanager
def fill_store(path: str) -> Iterator[SqliteRows]:
    """Opens an empty store to be filled; see `StoreRows.write_rows`.

    A missing store is written to another file, which gets its name at the end.
    """
    if os.path.lexists(path):
        with closing(open_database(path)) as db, as_store_errors(path), transaction(db):
            db.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
            rows = SqliteRows(path, db)
            check_empty(rows)
            yield rows
        return
    with as_store_errors(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            with (
                new_database(Path(path)) as part,
                closing(sqlite3.connect(part, isolation_level=None)) as db,
            ):
                for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_CACHE_KB}"):
                    db.execute(f"PRAGMA {setting}")
                migrate(db)
                db.execute("BEGIN")
                yield SqliteRows(path, db)
                db.execute("COMMIT")
        except FileExistsError:
            raise StoreError(
                f"Another process has just created {shorter_path(path)}, so nothing was copied."
            ) from None


@contextmanager
def read_cache(path: Path) -> Iterator[SqliteRows | None]:
    """Opens the answers of a cache; see `StoreRows.read_answers`."""
    if not path.exists():
        yield None
        return
    with as_store_errors(str(path)):
        db = connect(str(path))
    with closing(db), _snapshot(str(path), db):
        yield SqliteRows(str(path), db)


@contextmanager
def extend_cache(path: Path) -> Iterator[SqliteRows]:
    """Opens a cache to be extended; see `StoreRows.write_answers`."""
    from proctor.stores.sqlite.answer_cache import create_cache

    with as_store_errors(str(path)):
        create_cache(path)
        db = connect(str(path))
    with closing(db), as_store_errors(str(path)), transaction(db):
        yield SqliteRows(str(path), db)
