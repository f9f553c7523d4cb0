"""Stages cases in SQLite: the process that saves a suite has a lock on a byte for its unfinished row."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from time import monotonic, sleep

from proctor.stores.sql.case_staging import CaseBody, CasePosition, CaseStaging
from proctor.stores.sql.versions import IS_UNFINISHED, UNFINISHED_PREFIX
from proctor.stores.sqlite.database import SqliteDatabase
from proctor.stores.sqlite.run_locks import RunLocks

_MAX_LOCK_S = 0.3
"""A transaction that has lasted longer takes no further rows."""
_PAUSE_S = 0.01
"""The pause between two transactions, so that other processes, which poll every few ms, get the lock."""
_FIRST_LOCK = 1 << 40
"""The lock of the first unfinished row; the locks of runs come before it."""
_BATCH_ROWS = 1000
"""Rows written between two checks of the elapsed time."""
_STAGING_PRAGMAS = ("PRAGMA cache_size = -32000", "PRAGMA wal_autocheckpoint = 32000")
"""Set while cases are staged: of very many, each transaction writes a large part of the indexes' pages."""
_DEFAULT_PRAGMAS = ("PRAGMA cache_size = -2000", "PRAGMA wal_autocheckpoint = 1000")


class SqliteCaseStaging(CaseStaging):
    """Implements `CaseStaging`."""

    def __init__(self, database: SqliteDatabase, run_locks: RunLocks) -> None:
        """Stores its arguments; writes nothing.

        Args:
            database: a connection to the store.
            run_locks: the store's locks.
        """
        super().__init__(database)
        self._sqlite = database
        self._run_locks = run_locks

    def release(self) -> None:
        """Releases the lock, once the published rows are committed or left to the next save."""
        if self._key is not None:
            super().release()
            for statement in _DEFAULT_PRAGMAS:
                self._database.execute(statement)

    def _add_unfinished(self) -> int:
        """Records in the row which cases are older, and whether it is alone: `_remove` needs both."""
        for statement in _STAGING_PRAGMAS:
            self._database.execute(statement)
        (last_case,) = self._database.fetch_one("SELECT coalesce(max(key), 0) FROM cases")
        alone = 0 if self._find_unfinished() else 1
        content = f"{UNFINISHED_PREFIX}{os.urandom(8).hex()}:{alone}:{last_case}"
        key = self._database.insert("INSERT INTO contents (content) VALUES (?)", content, key="key")
        self._run_locks.lock(_FIRST_LOCK + key)
        return key

    def _insert(self, key: int, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> None:
        self._sqlite.insert_many("INSERT OR IGNORE INTO cases (digest, body)", "(?, ?)", bodies)
        # The transaction is rolled back if a row fails.
        self._sqlite.insert_many("INSERT OR FAIL INTO suite_cases", f"({key:d}, ?, ?, ?)", places)

    def _in_transactions(self, count: int, act: Callable[[int, int], None]) -> None:
        """Calls the function as often in a transaction as its time allows."""
        start = 0
        while start < count:
            with self._database.transaction():
                until = monotonic() + _MAX_LOCK_S
                while start < count and monotonic() < until:
                    act(start, min(start + _BATCH_ROWS, count))
                    start += _BATCH_ROWS
            if start < count:
                sleep(_PAUSE_S)

    def _remove(self, key: int) -> None:
        """Removes an unfinished row with its cases; those that another suite may have stay as unused rows."""
        database = self._database
        row = database.fetch_one(f"SELECT content FROM contents WHERE key = ? AND {IS_UNFINISHED}", key)  # noqa: S608
        if row is None:
            return
        _, _, alone, last_case = row[0].split(":")
        (last,) = database.fetch_one(
            "SELECT coalesce(max(position), -1) FROM suite_cases WHERE suite = ?", key
        )

        def remove_places(_start: int, end: int) -> None:
            database.execute("DELETE FROM suite_cases WHERE suite = ? AND position < ?", key, end)

        self._in_transactions(last + 1, remove_places)
        if alone == "1":
            first_case = int(last_case) + 1
            (newest_case,) = database.fetch_one("SELECT coalesce(max(key), 0) FROM cases")

            def remove_cases(start: int, end: int) -> None:
                (other_count,) = database.fetch_one(
                    f"SELECT count(*) FROM contents WHERE key > ? OR (key <> ? AND {IS_UNFINISHED})",  # noqa: S608
                    *(key, key),
                )
                if not other_count:
                    database.execute(
                        "DELETE FROM cases WHERE key >= ? AND key < ?", first_case + start, first_case + end
                    )

            self._in_transactions(newest_case + 1 - first_case, remove_cases)
        database.execute(f"DELETE FROM contents WHERE key = ? AND {IS_UNFINISHED}", key)  # noqa: S608

    def _is_locked(self, key: int) -> bool:
        return self._run_locks.is_locked(_FIRST_LOCK + key)

    def _lock_if_free(self, key: int) -> bool:
        return self._run_locks.lock_if_free(_FIRST_LOCK + key)

    def _unlock(self, key: int) -> None:
        self._run_locks.unlock(_FIRST_LOCK + key)
