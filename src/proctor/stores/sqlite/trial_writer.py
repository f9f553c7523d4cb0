"""The thread that writes trials: `put` does not wait, and rows are committed in batches.

SQLite releases the interpreter lock for every statement and must then reacquire it, which a busy event loop
allows only every few milliseconds; so each statement has many rows.

A row is dropped only if it cannot be written anywhere. While another process holds the lock, rows wait. With
`can_rescue`, rows that can no longer be written to the store's file go to a new file, with everything that
belongs to them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from time import monotonic

from proctor.errors import StoreError
from proctor.plurals import pluralize
from proctor.protocols import StoreFault
from proctor.stores.sql.trial_queue import RunState, TrialQueue, TrialRecord
from proctor.stores.sqlite.connection import connect
from proctor.stores.sqlite.file_identity import FileChanged, FileIdentity
from proctor.stores.sqlite.lock_wait import LockWait, is_locked

_CHUNKS = (512, 256, 128, 64, 32, 16, 8, 4, 2, 1)
"""Rows per statement: sizes of which any number needs few, and that SQLite's statement cache has room for."""


def _insert_statement(rows: int) -> str:
    values = ",".join(["(?,?,?,?,?)"] * rows)
    return (
        f"INSERT INTO trials (run, position, repeat, verdict, body) VALUES {values} "  # noqa: S608  # marks only
        "ON CONFLICT (run, position, repeat) DO UPDATE SET verdict = excluded.verdict, body = excluded.body "
        "WHERE trials.verdict IS NULL"
    )


_INSERT_STATEMENTS = {rows: _insert_statement(rows) for rows in _CHUNKS}


_UPDATE_RUN = "UPDATE runs SET status = ?, body = ? WHERE key = ?"
_EMPTY_TOTALS = """INSERT INTO totals (run, changes) SELECT key, 1 FROM runs WHERE key = ?
    ON CONFLICT (run) DO UPDATE SET changes = totals.changes + 1, body = NULL"""
_SAVE_TOTALS = """INSERT INTO totals (run, body) SELECT key, ? FROM runs WHERE key = ?
    ON CONFLICT (run) DO UPDATE SET body = excluded.body"""


class WriterThread(TrialQueue):
    """Writes to a file, or to the one that replaces it."""

    def __init__(
        self,
        path: str,
        open_connection: Callable[[], sqlite3.Connection],
        lock_wait: LockWait,
        main: sqlite3.Connection,
        files: Sequence[FileIdentity] = (),
    ) -> None:
        """Stores its arguments; the thread starts with the first row.

        Args:
            path: the store's file, which is open.
            open_connection: opens the writer's own connection, in its thread.
            lock_wait: how long it waits for a lock.
            main: the store's connection, which still sees a lost file when no other connection can be opened.
            files: the open files, which must not be replaced; none for a store in memory.
        """
        super().__init__(lock_wait)
        self._path = path
        self._open_connection = open_connection
        self._main_db = main
        self._files = list(files)
        self._db: sqlite3.Connection | None = None
        self._lost_trials: set[tuple[int, ...]] = set()
        """The trials that could not be written anywhere."""
        self._ungraded_trials: set[tuple[int, ...]] = set()
        """The trials of which the answer is stored and the scores are not."""
        self._cause = ""
        """Why rows no longer go to the store's file, as a sentence."""
        self._new_path: str | None = None
        """The file that they go to instead."""
        self._rescue_error: Exception | None = None

    def close(self) -> None:
        """Flushes, and ends the thread.

        Raises:
            StoreError: not all rows could be written, or the last ones only to another file.
        """
        had_fault = bool(self._cause)
        super().close()
        if self._cause and not had_fault:
            raise StoreError(self._fault_message())

    def _make_error(self, error: Exception) -> StoreError:
        return (
            self._make_wait_error()
            if is_locked(error)
            else StoreError(f"The store cannot be written: {error}.")
        )

    def _make_wait_error(self) -> StoreError:
        rows = f" {pluralize(self._row_count, 'trial')} could not be written." if self._row_count else ""
        return StoreError(
            f"The store {self._path} is locked by another process.{rows} "
            "Wait until that process ends, then try again."
        )

    def _find_fault(self) -> StoreFault | None:
        if not self._cause:
            return None
        return StoreFault(message=self._fault_message(), path=self._new_path or self._path)

    def _fault_message(self) -> str:
        if self._new_path is not None:
            message = f"{self._cause} The run and its answers are now in {self._new_path}."
        else:
            refusal = str(self._rescue_error).rstrip(".")
            message = f"{self._cause} No other file could be written ({refusal})."
        if self._lost_trials:
            answers = pluralize(len(self._lost_trials), "answer")
            message += f" {answers} could not be saved; resuming the run requests them again."
        return message

    # --- in the thread ---

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()

    def _write_rows(self, rows: Sequence[TrialRecord], states: Sequence[RunState]) -> None:
        """Writes to the store while that is possible, else to the file that replaces it."""
        try:
            if not self._cause:
                self._connect_to_store()
            if self._db is None:
                self._count_lost(rows)
                return
            self._commit(rows, states)
            if not self._cause:
                self._check_files()
        except (sqlite3.Error, OSError) as error:
            if not self.can_rescue:
                raise
            if self._cause:
                self._count_lost(rows)
            else:
                self._move_to_new_file(error, rows, states)

    def _count_lost(self, rows: Sequence[TrialRecord]) -> None:
        """Counts the trials whose answers are not stored."""
        self._lost_trials.update({row[:3] for row in rows} - self._ungraded_trials)

    def _connect_to_store(self) -> None:
        """Connects, unless the path names another file by now: SQLite would create a new one.

        Raises:
            FileChanged: the path names another file.
        """
        if self._db is None:
            self._check_files()
            self._db = self._open_connection()
            try:
                self._check_files()
            except FileChanged:
                self._db.close()
                self._db = None
                raise

    def _check_files(self) -> None:
        for file in self._files:
            file.check()

    def _commit(self, rows: Sequence[TrialRecord], states: Sequence[RunState]) -> None:
        assert self._db is not None
        db = self._db
        self._begin(db)
        try:
            _insert_rows(db, rows)
            for key in {row[0] for row in rows}:
                db.execute(_EMPTY_TOTALS, (key,))
            for state in states:
                db.execute(_UPDATE_RUN, (state.status, state.body, state.key))
                if state.totals is not None:
                    db.execute(_SAVE_TOTALS, (state.totals, state.key))
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite may have rolled back itself, such as on a full disk
                db.rollback()
            raise
        if self._ungraded_trials:
            self._ungraded_trials.difference_update([row[:3] for row in rows if row[3] is not None])
        self._ungraded_trials.update([row[:3] for row in rows if row[3] is None])
        if len(self._files) == 1 and not self._cause:
            self._files += _find_log_files(db, self._path)

    def _begin(self, db: sqlite3.Connection) -> None:
        try:
            while True:
                try:
                    db.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    if not is_locked(error) or self._wait_policy.abandoned.is_set():
                        raise
                else:
                    return
                self._waiting_since = self._waiting_since or monotonic()
        finally:
            self._waiting_since = None

    def _move_to_new_file(
        self, error: sqlite3.Error | OSError, rows: Sequence[TrialRecord], states: Sequence[RunState]
    ) -> None:
        """Continues in a new file, if one can be written."""
        from proctor.stores.sqlite.rescue import save_elsewhere

        try:
            self._check_files()
        except FileChanged as change:
            error = change
        self._cause = _describe_cause(self._path, error)
        runs = {row[0] for row in rows} | {state.key for state in states}
        old, self._db = self._db, None
        try:
            new = save_elsewhere(old or self._main_db, self._path, runs, whole=isinstance(error, FileChanged))
            self._db = connect(new)
            self._new_path = new
            self._commit(rows, states)
        except (sqlite3.Error, OSError, StoreError) as rescue_error:
            self._rescue_error = rescue_error
            self._count_lost(rows)
        finally:
            if old is not None:
                old.close()


def _describe_cause(path: str, error: sqlite3.Error | OSError) -> str:
    """Returns why a store can no longer be written, as a sentence."""
    if isinstance(error, FileChanged):
        return f"The store can no longer be used: {error} while it was open."
    if is_locked(error):
        return f"The store {path} is still locked by another process."
    return f"The store {path} cannot be written: {error}."


def _find_log_files(db: sqlite3.Connection, path: str) -> list[FileIdentity]:
    """Returns the store's log and its index, which stay the same until the last connection closes."""
    if db.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        return []
    real = os.path.realpath(path)  # SQLite names both after the file that a link leads to
    return [FileIdentity(f"{real}{ending}") for ending in ("-wal", "-shm")]


def _insert_rows(db: sqlite3.Connection, rows: Sequence[TrialRecord]) -> None:
    place = 0
    for size in _CHUNKS:
        while len(rows) - place >= size:
            chunk = rows[place : place + size]
            db.execute(_INSERT_STATEMENTS[size], list(chain.from_iterable(chunk)))
            place += size
