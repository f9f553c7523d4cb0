"""Reads and writes all rows of a store in PostgreSQL, by COPY; see `proctor.stores.sql.row_access`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

from proctor.stores.postgresql.database import PostgresConnector, PostgresDatabase
from proctor.stores.postgresql.schema import check_version
from proctor.stores.sql.patience import Patience
from proctor.stores.sql.row_access import check_empty, split_pages
from proctor.stores.sql.tables import TABLES, Row, StoreTable

_TYPES = """SELECT attname::text, typname::text FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
    WHERE attrelid = to_regclass(?) AND attnum > 0"""
_LAST_NUMBER = """SELECT max(last_value) FROM pg_sequences
    JOIN pg_namespace ON nspname = schemaname
    JOIN pg_class ON relnamespace = pg_namespace.oid AND relname = sequencename
    WHERE pg_class.oid = pg_get_serial_sequence(?, ?)::regclass"""
"""NULL without the right to read it."""


class PostgresRows:
    """Implements `RowReader` and `RowWriter` in the transaction of a connection."""

    def __init__(self, database: PostgresDatabase, folder: Path) -> None:
        """Stores its arguments.

        Args:
            database: a connection in a transaction.
            folder: the absolute path of the project's folder.
        """
        self.address = database.address
        self.folder = folder
        self._database = database

    def count_rows(self, table: StoreTable) -> int:
        """Returns the number of rows of a table, including those that nothing refers to."""
        return int(self._database.fetch_one(f"SELECT count(*) FROM {table.name}")[0])  # noqa: S608

    def iter_pages(self, table: StoreTable) -> Iterator[list[Row]]:
        """Yields the rows of a table in order, a few megabytes at a time."""
        statement = cast("Any", f"COPY ({table.make_select()}) TO STDOUT (FORMAT BINARY)")
        types = self._column_types(table)
        with (
            self._database.as_store_errors(),
            self._database.connection.cursor() as cursor,
            cursor.copy(statement) as copy,
        ):
            copy.set_types(types)
            yield from split_pages(copy.rows())

    def last_number(self, table: StoreTable) -> int:
        """Returns the largest number that a row of the table ever had, as far as it is known; 0 for none."""
        (highest,) = self._database.fetch_one(f"SELECT max({table.number}) FROM {table.name}")  # noqa: S608
        (last,) = self._database.fetch_one(_LAST_NUMBER, table.name, table.number)
        return max(highest or 0, last or 0)

    def write_rows(self, table: StoreTable, rows: Sequence[Row]) -> None:
        """Adds rows."""
        if table.upsert:
            self._database.execute_many(table.insert, rows)
            return
        with self._database.as_store_errors():
            columns = ", ".join(table.columns)
            self._database.copy(table.name, columns, rows, self._column_types(table))

    def set_last_number(self, table: StoreTable, number: int) -> None:
        """Makes the numbers of the next rows of a table larger than one."""
        if number > 0:
            self._database.select(
                "SELECT setval(pg_get_serial_sequence(?, ?)::regclass, ?)", table.name, table.number, number
            )

    def _column_types(self, table: StoreTable) -> list[str]:
        types = dict(self._database.select(_TYPES, table.name))
        return [types[column] for column in table.columns]


@contextmanager
def read_store(connector: PostgresConnector, folder: Path) -> Iterator[PostgresRows]:
    """Opens the rows of a store; see `StoreRows.read_rows`."""
    with closing(PostgresDatabase(connector, Patience())) as database:
        check_version(database)
        with database.snapshot():
            _read_in_order(database)
            yield PostgresRows(database, folder)


@contextmanager
def fill_store(connector: PostgresConnector, folder: Path) -> Iterator[PostgresRows]:
    """Opens an empty store to be filled; see `StoreRows.write_rows`. All of it is one transaction."""
    with closing(PostgresDatabase(connector, Patience())) as database:
        check_version(database)
        with database.transaction():
            names = ", ".join(table.name for table in TABLES)
            database.execute(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE")
            _read_in_order(database)
            rows = PostgresRows(database, folder)
            check_empty(rows)
            yield rows


@contextmanager
def extend_answers(connector: PostgresConnector, folder: Path) -> Iterator[PostgresRows]:
    """Opens the answers of a store to be extended; see `StoreRows.write_answers`."""
    with closing(PostgresDatabase(connector, Patience())) as database:
        check_version(database)
        with database.parallel_transaction():
            yield PostgresRows(database, folder)


def _read_in_order(database: PostgresDatabase) -> None:
    """Makes the transaction read by indexes, as the server would sort all trials on its disk."""
    database.execute("SET LOCAL enable_sort = off")
