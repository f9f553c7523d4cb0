"""A connection to a store's SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

from proctor.stores.sql.database import PAGE_BYTES, SqlDatabase
from proctor.stores.sqlite.connection import REMEDY, as_store_errors
from proctor.stores.sqlite.transactions import transaction

_STATEMENT_ROWS: Final = 32
"""The rows that one statement inserts: more are no faster."""


class SqliteDatabase(SqlDatabase):
    """Implements `SqlDatabase`; keys are row ids."""

    damage_remedy = REMEDY

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        """Stores its arguments.

        Args:
            path: the file, for messages.
            connection: a connection to it.
        """
        self.address = path
        self.connection = connection

    def select(self, statement: str, *values: object) -> list[Any]:
        """Returns all rows."""
        with as_store_errors(self.address):
            return self.connection.execute(statement, values).fetchall()

    def select_page(self, statement: str, *values: object, body: int) -> list[Any]:
        """Returns the first rows, up to a total of `PAGE_BYTES`; `body` is the index of the large column."""
        with as_store_errors(self.address):
            cursor = self.connection.execute(statement, values)
            page_rows, size = [], 0
            for row in cursor:
                page_rows.append(row)
                size += len(row[body]) if isinstance(row[body], bytes) else 0  # else the row is damaged
                if size >= PAGE_BYTES:
                    break
            cursor.close()
        return page_rows

    def fetch_one(self, statement: str, *values: object) -> Any:
        """Returns the first row; None if there is none."""
        with as_store_errors(self.address):
            return self.connection.execute(statement, values).fetchone()

    def execute(self, statement: str, *values: object) -> int:
        """Executes a statement, and returns how many rows it changed."""
        with as_store_errors(self.address):
            return self.connection.execute(statement, values).rowcount

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Executes a statement once for each row."""
        with as_store_errors(self.address):
            self.connection.executemany(statement, rows)

    def insert_many(self, statement: str, marks: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Inserts rows, many by each statement, which takes two thirds of the time of `execute_many`.

        Args:
            statement: an insertion without its `VALUES`. `OR FAIL` or `OR IGNORE` spare SQLite a copy of the
                pages that a failed statement would restore.
            marks: the values of a row, such as `(7, ?, ?)`.
            rows: what the question marks stand for.
        """
        full = len(rows) - len(rows) % _STATEMENT_ROWS
        if full:
            of_many = f"{statement} VALUES {', '.join([marks] * _STATEMENT_ROWS)}"
            for start in range(0, full, _STATEMENT_ROWS):
                self.execute(of_many, *chain.from_iterable(rows[start : start + _STATEMENT_ROWS]))
        if full < len(rows):
            self.execute_many(f"{statement} VALUES {marks}", rows[full:])

    def insert(self, statement: str, *values: object, key: str) -> int:  # noqa: ARG002
        """Inserts a row, and returns its number."""
        with as_store_errors(self.address):
            number = self.connection.execute(statement, values).lastrowid
        assert number is not None
        return number

    @contextmanager
    def as_store_errors(self) -> Iterator[None]:
        """Raises errors of SQLite and the system in the block as StoreErrors that name the store."""
        with as_store_errors(self.address):
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits everything that the block writes, or rolls it back; one process at a time is in a block."""
        with as_store_errors(self.address), transaction(self.connection):
            yield

    def close(self) -> None:
        """Closes the connection. Safe to call twice."""
        self.connection.close()
