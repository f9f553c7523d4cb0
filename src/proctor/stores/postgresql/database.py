"""A connection to a store's PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, cast
from zlib import crc32

import psycopg
from psycopg import sql

from proctor.errors import StoreError
from proctor.stores.postgresql.connection_pool import ConnectionPool
from proctor.stores.postgresql.text_columns import adapt_text
from proctor.stores.sql.database import PAGE_BYTES, SqlDatabase
from proctor.stores.sql.patience import Patience

_MUTEX = 0
"""The advisory lock of `transaction`; those of runs have the keys of runs, which begin at 1."""
_PAGE_STEP = 64
"""Rows that are read between two checks of their size."""


class PostgresConnector:
    """Opens connections to one schema of one database."""

    def __init__(self, conninfo: str, address: str, schema: str) -> None:
        """Stores its arguments.

        Args:
            conninfo: the parameters of a connection, as libpq takes them.
            address: the store's address, without a password.
            schema: the schema of its tables.
        """
        self.address = address
        self.schema = schema
        self._conninfo = conninfo
        self.pool: ConnectionPool | None = None
        """Keeps the connections of closed stores for the next ones; None if they are closed, too."""

    @property
    def lock_space(self) -> int:
        """The first number of the store's advisory locks, which are those of the whole database."""
        number = crc32(self.schema.encode("utf-8"))
        return number - 2**32 if number >= 2**31 else number

    def connect(self) -> psycopg.Connection[Any]:
        """Opens a connection.

        Raises:
            psycopg.Error: it cannot be opened.
        """
        connection = psycopg.connect(self._conninfo, autocommit=True)
        adapt_text(connection)
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(self.schema)))
        return connection


class PostgresDatabase(SqlDatabase):
    """Implements `SqlDatabase`; a statement outside of a transaction is one by itself."""

    def __init__(self, connector: PostgresConnector, patience: Patience) -> None:
        """Opens a connection.

        Args:
            connector: opens it.
            patience: how long statements wait for locks.

        Raises:
            StoreError: it cannot be opened.
        """
        self.address = connector.address
        self.connector = connector
        self._patience = patience
        self.is_reusable = True
        """Whether another store may use the session later: not if it has locks or tables of its own."""
        self._pool = connector.pool
        self._is_closed = False
        with self.as_store_errors():
            self.connection = connector.connect() if self._pool is None else self._pool.take()

    def select(self, statement: str, *values: object) -> list[Any]:
        """Returns all rows."""
        with self.as_store_errors(), self.connection.cursor(binary=True) as cursor:
            return cursor.execute(_translate(statement), values).fetchall()

    def select_page(self, statement: str, *values: object, body: int) -> list[Any]:
        """Returns the first rows, up to a total of `PAGE_BYTES`; `body` is the index of the large column."""
        page_rows: list[Any] = []
        size = 0
        with (
            self.as_store_errors(),
            self.connection.transaction(),
            self.connection.cursor("page", binary=True) as cursor,
        ):
            cursor.execute(_translate(statement), values)
            while size < PAGE_BYTES:
                rows = cursor.fetchmany(_PAGE_STEP)
                for row in rows:
                    page_rows.append(row)
                    size += len(row[body])
                    if size >= PAGE_BYTES:
                        break
                if len(rows) < _PAGE_STEP:
                    break
        return page_rows

    def execute(self, statement: str, *values: object) -> int:
        """Executes a statement, and returns how many rows it changed."""
        with self.as_store_errors():
            return self.connection.execute(_translate(statement), values or None).rowcount

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Executes a statement once for each row."""
        with self.as_store_errors(), self.connection.cursor() as cursor:
            cursor.executemany(_translate(statement), rows)

    def insert(self, statement: str, *values: object, key: str) -> int:
        """Inserts a row, and returns the number that its column `key` got."""
        (row,) = self.select(f"{statement} RETURNING {key}", *values)
        return int(row[0])

    @contextmanager
    def as_store_errors(self) -> Iterator[None]:
        """Raises errors of the database and the system in the block as StoreErrors that name the store."""
        try:
            yield
        except psycopg.Error as error:
            raise StoreError(f"The store {self.address} cannot be used: {describe_error(error)}.") from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits everything that the block writes, or rolls it back; one process at a time is in a block."""
        with self.as_store_errors(), self.connection.transaction():
            self.connection.execute(
                "SELECT pg_advisory_xact_lock(%s, %s)", (self.connector.lock_space, _MUTEX)
            )
            yield

    def copy(self, table: str, columns: str, rows: Sequence[Sequence[Any]], types: Sequence[str]) -> None:
        """Adds rows to a table by COPY.

        Args:
            table: its name.
            columns: the names of the columns, between commas.
            rows: a value for each column.
            types: the type of each column.
        """
        copy_rows(self.connection, table, columns, rows, types)

    def close(self) -> None:
        """Closes the connection, or keeps it for the next store. Safe to call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        connection = self.connection
        del self.connection  # which another store may have from now on
        if self._pool is None or not self.is_reusable:
            connection.close()
        else:
            self._pool.give_back(connection)


def copy_rows(
    connection: psycopg.Connection[Any],
    table: str,
    columns: str,
    rows: Sequence[Sequence[Any]],
    types: Sequence[str],
) -> None:
    """Adds rows to a table by COPY in its binary format.

    Args:
        connection: a connection.
        table: the table's name.
        columns: the names of the columns, between commas.
        rows: a value for each column.
        types: the type of each column.
    """
    statement = cast("Any", f"COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)")
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)


def describe_error(error: psycopg.Error) -> str:
    """Returns the first line of an error's text, without a full stop."""
    text = error.diag.message_primary or str(error)
    return next(iter(text.strip().splitlines()), type(error).__name__).rstrip(".")


@cache
def _translate(statement: str) -> Any:
    """Returns a statement with the marks of psycopg in place of `?`."""
    return statement.replace("%", "%%").replace("?", "%s").encode("utf-8")
