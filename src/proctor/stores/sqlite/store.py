"""A store in one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

from proctor.errors import ReadOnlyStore
from proctor.protocols import AnswerCache
from proctor.stores.sql.store import SqlStore
from proctor.stores.sqlite.case_staging import SqliteCaseStaging
from proctor.stores.sqlite.connection import (
    connect,
    is_read_only,
    open_database,
    open_to_read,
    shorter_path,
)
from proctor.stores.sqlite.database import SqliteDatabase
from proctor.stores.sqlite.file_identity import FileIdentity
from proctor.stores.sqlite.lock_wait import LockWait
from proctor.stores.sqlite.run_locks import RunLocks
from proctor.stores.sqlite.trial_writer import WriterThread

_NEWEST_TAGGED = """SELECT body FROM runs WHERE EXISTS (
    SELECT 1 FROM json_each(CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END, '$.tags')
    WHERE value = ?) ORDER BY key DESC LIMIT 1"""
"""The newest run with a tag; damaged rows have none."""


class SqliteStore(SqlStore):
    """Implements `Store`, which says what its methods do; `migrations.py` has its tables."""

    # The sign keeps SQLite from reading the trials of all runs in the order of their rows.
    _select_turns = "SELECT rowid FROM trials WHERE run = ? AND +rowid > ? ORDER BY rowid LIMIT ?"

    def __init__(
        self,
        path: str,
        db: sqlite3.Connection,
        lock_wait: LockWait,
        writer: WriterThread,
        run_locks: RunLocks,
    ) -> None:
        """Use `SqliteStore.open_file`.

        Args:
            path: the file; also used in messages.
            db: a connection to it, migrated.
            lock_wait: how the connection waits for locks.
            writer: writes trials to it.
            run_locks: the locks of its runs.
        """
        self._sqlite = SqliteDatabase(path, db)
        super().__init__(self._sqlite, Path(path).absolute().parent, writer, run_locks)
        self.path = path
        self._db = db
        self._lock_wait = lock_wait
        self._writer = writer
        self._byte_locks = run_locks

    @classmethod
    def open_file(cls, path: str, notify: Callable[[str], None] = lambda _line: None) -> SqliteStore:
        """Opens the store in a file, and creates it if needed.

        Args:
            path: the file.
            notify: called with a sentence if a store of an earlier version was backed up first.

        Raises:
            StoreError: the file is not a store, is damaged or was written by a newer version; it is not
                changed.
        """
        path = str(Path(path).absolute())  # as the working directory may change
        lock_wait = LockWait()
        return cls._open(path, open_database(path, lock_wait, notify), lock_wait)

    @classmethod
    def open_file_to_read(cls, path: str) -> SqliteStore:
        """Opens the store in a file, which is never written; raises as `open_file` does."""
        path = str(Path(path).absolute())
        return cls._open(path, open_to_read(path), LockWait())

    @classmethod
    def _open(cls, path: str, db: sqlite3.Connection, lock_wait: LockWait) -> SqliteStore:
        writer = WriterThread(
            path, lambda: connect(path, LockWait(patience_s=0)), lock_wait, db, [FileIdentity(path)]
        )
        return cls(path, db, lock_wait, writer, RunLocks(path))

    def _stage_cases(self) -> SqliteCaseStaging:
        return SqliteCaseStaging(self._sqlite, self._byte_locks)

    def _find_newest_tagged(self, tag: str) -> Any:
        return self._fetch_one(_NEWEST_TAGGED, tag)

    @property
    def _shown_address(self) -> str:
        return shorter_path(self.path)

    def _try_now(self, statement: str, *values: object) -> None:
        with suppress(sqlite3.OperationalError):  # read-only, locked or full
            sqlite3.Connection.execute(self._db, statement, values)

    def check_can_record_access(self) -> None:
        """Raises StoreError if no holdout access can be saved."""
        if is_read_only(self._db):
            raise ReadOnlyStore(
                f"This command shows holdout cases, and the store must count each holdout access. But "
                f"{self.path} is read-only, so nothing is shown. Copy the store to a folder that you can "
                f"write to, and choose the copy with --store."
            )

    def on_wait(self, tell: Callable[[str], None]) -> None:
        """Sets a callback that gets a sentence when a method has waited 2 s for another process's lock."""
        self._lock_wait.notify = lambda: tell(f"Waiting for another process that has locked {self.path}.")

    def protect(self) -> None:
        """Makes sure from now on that no trial is lost: waits for locks, and saves elsewhere if need be.

        `save_output` and `save_trial` then accept trials whatever happens to the file, and `health` reports
        it.
        """
        self._lock_wait.patience_s = inf
        self._writer.can_rescue = True

    def abandon_lock(self) -> None:
        """Stops waiting for locks; after `protect`, pending trials are saved elsewhere."""
        self._lock_wait.abandoned.set()

    def open_answer_cache(self, notify: Callable[[str], None] = lambda _message: None) -> AnswerCache:
        """Opens the answer cache of this store; close it after use."""
        from proctor.stores.sqlite.answer_cache import CACHE_NAME, SqliteAnswerCache

        return SqliteAnswerCache(Path(self.path).with_name(CACHE_NAME), notify)
