"""The one thread that writes trials: rows are handed over without waiting and committed in batches.

SQLite gives the interpreter lock up for every statement and must win it back afterwards, which a busy event
loop allows only every few milliseconds; so many rows go into one statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread

from proctor.errors import StoreError

Row = tuple[int, int, int, str | None, bytes]
"""run key, position, repeat, verdict, body."""

_GATHER_S = 0.03
"""How long rows gather before they are committed: well under the promised 100 ms."""
_PATIENCE_S = 0.1
_TOO_MANY = 4096
"""So many rows waiting make the next hand-over wait, which keeps memory flat."""
_CHUNKS = (512, 64, 8, 1)
"""Rows per statement: few sizes, so that SQLite's statement cache knows them all."""


def _insert(rows: int) -> str:
    values = ",".join(["(?,?,?,?,?)"] * rows)
    return (
        f"INSERT INTO trials (run, position, repeat, verdict, body) VALUES {values} "  # noqa: S608  # marks only
        "ON CONFLICT (run, position, repeat) DO UPDATE SET verdict = excluded.verdict, body = excluded.body "
        "WHERE trials.verdict IS NULL"
    )


_STATEMENTS = {rows: _insert(rows) for rows in _CHUNKS}


class Writer:
    """Takes rows from one thread and makes them durable in another, in order."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        """Starts nothing before the first row.

        Args:
            connect: opens the writer's own connection, in its thread.
        """
        self._connect = connect
        self._pending: list[Row] = []
        self._lock = Lock()
        self._some = Event()
        self._hurry = Event()
        self._idle = Event()
        self._idle.set()
        self._thread: Thread | None = None
        self._closing = False
        self._error: Exception | None = None

    def put(self, row: Row) -> None:
        """Hand a row over; waits only when thousands are waiting already."""
        self._check()
        if self._closing:
            raise StoreError("The store is closed: nothing more can be written.")
        with self._lock:
            self._pending.append(row)
            waiting = len(self._pending)
            if waiting == 1:
                self._idle.clear()
        if waiting == 1:
            if self._thread is None:
                self._thread = Thread(target=self._work, name="proctor-store", daemon=True)
                self._thread.start()
            self._some.set()
        elif waiting >= _TOO_MANY:
            self.flush()

    def flush(self) -> None:
        """Wait until every row handed over is committed."""
        self._hurry.set()
        while not self._idle.wait(_PATIENCE_S):
            self._check()  # a thread that has died tells nobody else
        self._check()

    def close(self) -> None:
        """Flush, and end the thread."""
        self._closing = True
        if self._thread is not None:
            self._some.set()
            self._hurry.set()
            self._thread.join()
            self._thread = None
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise StoreError(f"The store cannot be written: {self._error}.") from self._error

    def _work(self) -> None:
        try:
            db = self._connect()
            try:
                while not self._closing:
                    self._some.wait()
                    self._hurry.wait(_GATHER_S)
                    self._hurry.clear()
                    self._some.clear()
                    self._write(db)
                self._write(db)  # what came between the last look and the wish to close
            finally:
                db.close()
        except Exception as error:  # noqa: BLE001  # whatever it is, the next hand-over must hear of it
            self._error = error
        finally:
            self._idle.set()

    def _write(self, db: sqlite3.Connection) -> None:
        while True:
            with self._lock:
                rows, self._pending = self._pending, []
                if not rows:
                    self._idle.set()
                    return
            db.execute("BEGIN IMMEDIATE")
            try:
                _insert_all(db, rows)
                db.execute("COMMIT")
            except BaseException:
                db.rollback()
                raise


def _insert_all(db: sqlite3.Connection, rows: Sequence[Row]) -> None:
    place = 0
    for size in _CHUNKS:
        while len(rows) - place >= size:
            chunk = rows[place : place + size]
            db.execute(_STATEMENTS[size], [value for row in chunk for value in row])
            place += size
