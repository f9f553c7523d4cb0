"""Stages cases in PostgreSQL: the session that saves a suite has an advisory lock for its unfinished row."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from proctor.stores.postgresql.database import PostgresDatabase
from proctor.stores.sql.case_staging import CaseBody, CasePosition, CaseStaging
from proctor.stores.sql.versions import IS_UNFINISHED, UNFINISHED_PREFIX

_BATCH_ROWS = 5000
"""Rows of one transaction, which other processes wait for."""
_INSERT_CASES = """INSERT INTO cases (digest, body)
    SELECT digest, body FROM unnest(?::bytea[], ?::bytea[]) AS rows (digest, body) ORDER BY digest
    ON CONFLICT (digest) DO NOTHING"""


class PostgresCaseStaging(CaseStaging):
    """Implements `CaseStaging`."""

    def __init__(self, database: PostgresDatabase) -> None:
        """Stores its argument; writes nothing."""
        super().__init__(database)
        self._postgres = database

    def _add_unfinished(self) -> int:
        database = self._postgres
        database.is_reusable = False  # as its session has a lock
        content = f"{UNFINISHED_PREFIX}{os.urandom(8).hex()}"
        key = database.insert("INSERT INTO contents (content) VALUES (?)", content, key="key")
        database.select("SELECT pg_advisory_lock(?, ?)", *self._lock_id(key))
        return key

    def _insert(self, key: int, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> None:
        if not places:
            return
        unique_bodies = dict(bodies)
        self._postgres.execute(_INSERT_CASES, list(unique_bodies), list(unique_bodies.values()))
        self._postgres.copy(
            "suite_cases",
            "suite, position, digest, sent",
            [(key, *place) for place in places],
            ("int8", "int8", "bytea", "bytea"),
        )

    def _in_transactions(self, count: int, act: Callable[[int, int], None]) -> None:
        for start in range(0, count, _BATCH_ROWS):
            with self._postgres.transaction():
                act(start, min(start + _BATCH_ROWS, count))

    def _remove(self, key: int) -> None:
        database = self._postgres
        if not database.execute(f"DELETE FROM contents WHERE key = ? AND {IS_UNFINISHED}", key):  # noqa: S608
            return
        (last,) = database.fetch_one(
            "SELECT coalesce(max(position), -1) FROM suite_cases WHERE suite = ?", key
        )

        def remove_places(start: int, end: int) -> None:
            places = database.select(
                "DELETE FROM suite_cases WHERE suite = ? AND position >= ? AND position < ? RETURNING digest",
                *(key, start, end),
            )
            database.execute(
                "DELETE FROM cases WHERE digest = ANY(?::bytea[]) AND NOT EXISTS "
                "(SELECT 1 FROM suite_cases WHERE suite_cases.digest = cases.digest)",
                list({digest for (digest,) in places}),
            )

        self._in_transactions(last + 1, remove_places)

    def _is_locked(self, key: int) -> bool:
        if not self._lock_if_free(key):
            return True
        self._unlock(key)
        return False

    def _lock_if_free(self, key: int) -> bool:
        row = self._postgres.fetch_one("SELECT pg_try_advisory_lock(?, ?)", *self._lock_id(key))
        return bool(row[0])

    def _unlock(self, key: int) -> None:
        self._postgres.select("SELECT pg_advisory_unlock(?, ?)", *self._lock_id(key))

    def _lock_id(self, key: int) -> tuple[int, int]:
        """Returns the two numbers of a lock; the locks of runs have positive ones."""
        return self._postgres.connector.lock_space, -key
