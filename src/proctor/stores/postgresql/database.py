"""A connection to a store's PostgreSQL database."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import count
from threading import RLock, Thread
from time import monotonic, sleep
from typing import Any, TypeVar, cast
from zlib import crc32

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from proctor.errors import StoreError
from proctor.stores.postgresql.address import PostgresAddress
from proctor.stores.postgresql.connection_errors import (
    explain_connection_error,
    explain_missing_right,
    explain_read_only,
    is_starting,
)
from proctor.stores.postgresql.connection_pool import ConnectionPool
from proctor.stores.postgresql.lost_connections import Backoff, abort, is_temporary, is_usable
from proctor.stores.postgresql.password_file import password_file_fields
from proctor.stores.postgresql.text_columns import adapt_text
from proctor.stores.postgresql.tls import tls_fields
from proctor.stores.sql.database import PAGE_BYTES, SqlDatabase
from proctor.stores.sql.wait_policy import DEFAULT_PATIENCE_S, NOTICE_AFTER_S, WaitPolicy, interruptible

T = TypeVar("T")

_MUTEX = 0
"""The advisory lock of `transaction`; those of runs have the keys of runs, which begin at 1."""
_CURSOR_NUMBERS = count(1)
_PAGE_STEP = 64
"""Rows that are read between two checks of their size."""
_BUSY_S = 0.05
"""A thread that uses the connection for longer waits for the server."""
_TURN_S = 0.5
"""How often a thread that waits for another one looks whether the server was given up."""
_IN_TRANSACTION = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
_DEAD_AFTER_S = 15
"""How long a peer that does not acknowledge anything is waited for, on both sides."""
_CLIENT_PARAMETERS = {
    "keepalives_idle": 6,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": _DEAD_AFTER_S * 1000,
}
_SERVER_SETTINGS = (
    "SET standard_conforming_strings = on; SET default_transaction_isolation = 'read committed'; "
    "SET tcp_keepalives_idle = 6; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3; "
    f"SET tcp_user_timeout = {_DEAD_AFTER_S * 1000}; "
)
"""What a role or a database may have set otherwise; and how the server notices that a machine has vanished,
whose locks it then releases.
"""
logging.getLogger("psycopg").addHandler(logging.NullHandler())
"""Each error is raised, too."""


class PostgresConnector:
    """Opens connections to one schema of one database."""

    def __init__(self, address: PostgresAddress, notify: Callable[[str], None] = lambda _line: None) -> None:
        """Stores its arguments.

        Args:
            address: the store's address.
            notify: called with a sentence if `open_connection` waits for the server.
        """
        self.address = address.url
        self.schema = address.schema
        self._parsed_address = address
        self._notify = notify
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
        address = self._parsed_address
        fields: dict[str, Any] = {
            **_CLIENT_PARAMETERS,
            **address.connection_fields(os.environ),
            **tls_fields(address, os.environ),
            **password_file_fields(address, os.environ),
            "client_encoding": "UTF8",
        }
        connection = psycopg.connect(make_conninfo(**fields), autocommit=True)
        try:
            adapt_text(connection)
            path = sql.SQL("SET search_path TO {}").format(sql.Identifier(self.schema))
            connection.execute(sql.SQL(_SERVER_SETTINGS) + path)
        except BaseException:
            connection.close()
            raise
        return connection

    def open_connection(self, patience_s: float = DEFAULT_PATIENCE_S) -> psycopg.Connection[Any]:
        """Opens a connection; waits for a server that is starting or shutting down.

        Args:
            patience_s: how long it waits.

        Raises:
            StoreError: it cannot be opened.
        """
        start, was_starting, has_notified, backoff = monotonic(), False, False, Backoff()
        while True:
            try:
                with interruptible():
                    connection = self.connect()
                self._check_encoding(connection)
                return connection
            except psycopg.Error as error:
                was_starting = was_starting or is_starting(str(error))
                waited_s = monotonic() - start
                if not was_starting or waited_s >= patience_s:
                    raise StoreError(explain_connection_error(str(error), self._parsed_address)) from error
            if waited_s >= NOTICE_AFTER_S and not has_notified:
                has_notified = True
                self._notify(f"Waiting for the server of {self.address}, which is starting or shutting down.")
            sleep(backoff.next_pause_s())

    def _check_encoding(self, connection: psycopg.Connection[Any]) -> None:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            connection.close()
            raise StoreError(
                f"The database of {self.address} has the encoding {encoding}, which cannot store every text. "
                f"Create a database with `createdb --encoding=UTF8 --template=template0 NAME`, and use that "
                f"database."
            )


class PostgresDatabase(SqlDatabase):
    """Implements `SqlDatabase`; a statement outside of a transaction is one by itself.

    A lost connection is opened again. What was lost with it is repeated unless that could have another result
    than once: a transaction that had already started, or an insertion without `ON CONFLICT`.
    """

    def __init__(self, connector: PostgresConnector, wait_policy: WaitPolicy) -> None:
        """Opens a connection.

        Args:
            connector: opens it.
            wait_policy: how long statements wait for locks, and for a server that does not answer.

        Raises:
            StoreError: it cannot be opened.
        """
        self.address = connector.address
        self.connector = connector
        self._wait_policy = wait_policy
        self._guard = RLock()
        """Threads use the connection in turns."""
        self.explain_stop: Callable[[], str] = lambda: f"The store {self.address} does not answer."
        """Returns the message of the error when a signal ends a wait within an event loop."""
        self._is_in_transaction = False
        self._is_closed = False
        self.is_reusable = True
        """Whether another store may use the session later: not if it has locks or tables of its own."""
        self._pool = connector.pool
        self._busy_since = 0.0
        self._opener: Thread | None = None
        """Opens a lost connection again, for `is_ready`."""
        idle = None if self._pool is None else self._pool.take()
        self.connection = idle or connector.open_connection(min(wait_policy.patience_s, DEFAULT_PATIENCE_S))

    @property
    def is_abandoned(self) -> bool:
        """Whether nothing waits for the server any more."""
        return self._wait_policy.abandoned.is_set()

    def is_ready(self) -> bool:
        """Returns whether a statement needs to wait neither long for another thread nor for a connection.

        If the connection is lost, a thread opens it again: an event loop checks here instead of waiting.
        """
        if not self._guard.acquire(blocking=False):
            self._busy_since = self._busy_since or monotonic()
            return monotonic() - self._busy_since < _BUSY_S
        try:
            self._busy_since = 0.0
            if self._is_closed or self._is_in_transaction or is_usable(self.connection):
                return True
            if self._opener is None or not self._opener.is_alive():
                self._opener = Thread(target=self._open_again, name="proctor-store-opener", daemon=True)
                self._opener.start()
            return False
        finally:
            self._guard.release()

    def _open_again(self) -> None:
        backoff = Backoff()
        while not (self._is_closed or self._wait_policy.abandoned.is_set()):
            try:
                connection = self.connector.connect()
            except psycopg.Error:
                self._wait_policy.abandoned.wait(backoff.next_pause_s())
                continue
            with self._guard:
                if self._is_closed or is_usable(self.connection):
                    connection.close()
                else:
                    self.connection.close()
                    self.connection = connection
            return

    def select(self, statement: str, *values: object) -> list[Any]:
        """Returns all rows."""
        return self._run(partial(self._select_once, statement, values), is_repeatable(statement))

    def _select_once(self, statement: str, values: Sequence[object]) -> list[Any]:
        with self.connection.cursor(binary=True) as cursor:
            return cursor.execute(translate(statement), values).fetchall()

    def select_page(self, statement: str, *values: object, body: int) -> list[Any]:
        """Returns the first rows, up to a total of `PAGE_BYTES`; `body` is the index of the large column."""
        return self._run(partial(self._select_page_once, statement, values, body))

    def _select_page_once(self, statement: str, values: Sequence[object], body: int) -> list[Any]:
        page_rows: list[Any] = []
        size = 0
        # Of a cursor the server reads the first rows by an index, even before it knows how many there are.
        with self.connection.transaction(), _server_cursor(self.connection, "page") as cursor:
            cursor.execute(translate(statement), values)
            while size < PAGE_BYTES:
                # A few first, as rows may have 16 MB each.
                rows = cursor.fetchmany(_PAGE_STEP if page_rows and size < PAGE_BYTES // 16 else 1)
                if not rows:
                    break
                page_rows += rows
                size += sum([len(row[body]) for row in rows])
        return page_rows

    def iterate(self, statement: str, *values: object) -> Iterator[Any]:
        """Yields rows without holding them all. Call it inside a `snapshot`."""
        name = f"rows_{next(_CURSOR_NUMBERS)}"
        with self.as_store_errors(), _server_cursor(self.connection, name) as cursor:
            cursor.execute(translate(statement), values)
            count = 1
            while rows := cursor.fetchmany(count):
                yield from rows
                size = sum([len(value) for row in rows for value in row if isinstance(value, bytes)])
                count = min(2 * count, _PAGE_STEP, max(1, len(rows) * PAGE_BYTES // max(size, 1)))

    def execute(self, statement: str, *values: object) -> int:
        """Executes a statement, and returns how many rows it changed."""
        return self._run(partial(self.execute_once, statement, *values), is_repeatable(statement))

    def execute_once(self, statement: str, *values: object) -> int:
        """Executes a statement without waiting for a server that does not answer.

        Raises:
            psycopg.Error: it cannot be executed.
        """
        return self.connection.execute(translate(statement), values or None).rowcount

    def try_execute(self, statement: str, *values: object) -> None:
        """Executes a statement unless another thread uses the connection, or it fails."""
        if not self._guard.acquire(blocking=False):
            return
        try:
            with suppress(psycopg.Error):
                self.execute_once(statement, *values)
        finally:
            self._guard.release()

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Executes a statement once for each row."""

        def act() -> None:
            with self.connection.cursor() as cursor:
                cursor.executemany(translate(statement), rows)

        self._run(act, is_repeatable(statement))

    def insert(self, statement: str, *values: object, key: str) -> int:
        """Inserts a row, and returns the number that its column `key` got."""
        (row,) = self.select(f"{statement} RETURNING {key}", *values)
        return int(row[0])

    @contextmanager
    def as_store_errors(self) -> Iterator[None]:
        """Raises errors of the database and the system in the block as StoreErrors that name the store."""
        try:
            yield
        except psycopg.errors.InsufficientPrivilege as error:
            reason, role = describe_error(error), self._login_role()
            raise StoreError(explain_missing_right(reason, self.address, role)) from error
        except psycopg.Error as error:
            if isinstance(error, psycopg.errors.LockNotAvailable):
                raise StoreError(
                    f"The store {self.address} is locked by another process. Wait until that process ends, "
                    f"then try again."
                ) from error
            if isinstance(error, psycopg.errors.ProgramLimitExceeded):
                raise StoreError(
                    f"The store {self.address} does not support names of more than 2,600 bytes, because "
                    f"PostgreSQL cannot index them ({describe_error(error)}). Give the suite a shorter name, "
                    f"or use a "
                    "store in a file."
                ) from error
            if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                raise StoreError(explain_read_only(self.address)) from error
            if is_temporary(error):
                raise StoreError(
                    f"The store {self.address} does not answer: {describe_error(error)}. Before you try "
                    f"again, check whether the last change was saved."
                ) from error
            raise StoreError(f"The store {self.address} cannot be used: {describe_error(error)}.") from error

    def _login_role(self) -> str:
        try:
            return self.connection.info.user
        except psycopg.Error:  # it was closed meanwhile
            return "ROLE"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits everything that the block writes, or rolls it back; one process at a time is in a block."""
        with self._in_transaction(self._begin):
            yield

    @contextmanager
    def parallel_transaction(self) -> Iterator[None]:
        """Commits everything that the block writes, or rolls it back; other processes may write meanwhile."""
        with self._in_transaction(lambda: self.connection.execute("BEGIN")):
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Lets the block read the database as it was at one moment, and write nothing."""
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
        with self._in_transaction(lambda: self.connection.execute(begin)):
            yield

    @contextmanager
    def _in_transaction(self, begin: Callable[[], object]) -> Iterator[None]:
        with self._guard, self.as_store_errors():
            self._run(begin)
            self._is_in_transaction = True
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                with suppress(psycopg.Error):
                    self.connection.execute("ROLLBACK")
                raise
            finally:
                self._is_in_transaction = False

    def _begin(self) -> None:
        """Begins a transaction, and waits for a moment until no other process is in one."""
        space = self.connector.lock_space
        wait_ms = round(min(NOTICE_AFTER_S, max(self._wait_policy.patience_s, 0.001)) * 1000)
        try:
            self.connection.execute(
                f"BEGIN; SET LOCAL lock_timeout = {wait_ms}; "
                f"SELECT pg_advisory_xact_lock({space}, {_MUTEX}); SET LOCAL lock_timeout = 0"
            )
        except BaseException:
            with suppress(psycopg.Error):
                self.connection.execute("ROLLBACK")
            raise

    def _run(self, act: Callable[[], T], repeatable: bool = True) -> T:
        """Calls a function that uses the connection, and again if that is lost or the lock is not free.

        Raises:
            StoreError: the server does not answer for longer than the patience, or refuses.
            KeyboardInterrupt: a signal arrived, and no event loop runs; from then on nothing waits.
        """
        with self._take_turn(), self.as_store_errors():
            if self._is_closed:
                raise StoreError(f"The store {self.address} is closed.")
            if self._is_in_transaction or self.connection.info.transaction_status in _IN_TRANSACTION:
                return act()
            return self.wait_for(partial(self._repeat, act, repeatable=repeatable))

    def wait_for(self, act: Callable[[], T]) -> T:
        """Returns what a function returns that may wait for the server; a signal ends the wait.

        Raises:
            StoreError: a signal arrived within an event loop.
            KeyboardInterrupt: a signal arrived, and no event loop runs; from then on nothing waits.
        """
        try:
            with interruptible():
                return act()
        except KeyboardInterrupt:
            self._wait_policy.abandoned.set()
            if _has_running_loop():  # where KeyboardInterrupt would end the loop before answers are saved
                raise StoreError(self.explain_stop()) from None
            raise

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        """Waits for other threads, but not for one that waits for a server which was given up.

        Raises:
            StoreError: another thread still waits for it.
        """
        if not self._guard.acquire(blocking=False):
            self.wait_for(self._acquire)
        try:
            yield
        finally:
            self._guard.release()

    def _acquire(self) -> None:
        while not self._guard.acquire(timeout=_TURN_S):
            if self.is_abandoned:
                raise StoreError(self.explain_stop())

    def _repeat(self, act: Callable[[], T], *, repeatable: bool) -> T:
        began, notified, backoff = monotonic(), False, Backoff()
        while True:
            has_begun = False
            try:
                if not is_usable(self.connection):
                    self._reconnect()
                has_begun = True
                return act()
            except psycopg.Error as error:
                waited_s = monotonic() - began
                is_over = waited_s >= self._wait_policy.patience_s or self.is_abandoned or self._is_closed
                if is_over or not is_temporary(error) or (has_begun and not repeatable):
                    raise
                if not isinstance(error, psycopg.errors.LockNotAvailable):
                    sleep(backoff.next_pause_s())
            if not notified and monotonic() - began >= NOTICE_AFTER_S:
                notified = True
                self._wait_policy.notify()

    def _reconnect(self) -> None:
        self.connection.close()
        self.connection = self.connector.connect()

    def copy(self, table: str, columns: str, rows: Sequence[Sequence[Any]], types: Sequence[str]) -> None:
        """Adds rows to a table by COPY.

        Args:
            table: its name.
            columns: the names of the columns, between commas.
            rows: a value for each column.
            types: the type of each column.
        """
        with self.as_store_errors():
            copy_rows(self.connection, table, columns, rows, types)

    def close(self) -> None:
        """Closes the connection, or keeps it for the next store. Safe to call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        is_free = self._guard.acquire(timeout=_TURN_S)
        if not is_free:
            abort(self.connection)  # for which another thread waits
            is_free = self._guard.acquire(timeout=_TURN_S)
        connection = self.connection
        if is_free:
            del self.connection  # which another store may have from now on
            self._guard.release()
        if self._pool is None or not self.is_reusable or not is_free:
            connection.close()
        else:
            self._pool.give_back(connection)


@contextmanager
def _server_cursor(connection: psycopg.Connection[Any], name: str) -> Iterator[psycopg.ServerCursor[Any]]:
    """Opens a cursor of the server, and closes it even if its session is lost in that moment."""
    cursor = connection.cursor(name, binary=True)
    try:
        yield cursor
    finally:
        try:
            cursor.close()
        except psycopg.Error:
            cursor.close()  # the connection is closed by now, so that the server is not asked again
            raise


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


def is_repeatable(statement: str) -> bool:
    """Returns whether a statement leaves the same rows when it is executed twice."""
    return not statement.lstrip().startswith("INSERT") or "ON CONFLICT" in statement


def _has_running_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


@cache
def translate(statement: str) -> Any:
    """Returns a statement with the marks of psycopg in place of `?`."""
    return statement.replace("%", "%%").replace("?", "%s").encode("utf-8")
