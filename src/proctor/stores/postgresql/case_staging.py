"""Stages the cases of a suite that is being saved: in short transactions, and invisible until the last.

They belong to a row of `contents` whose content is `unfinished:…`, which nothing reads. The session that
saves has an advisory lock for that row, so an unfinished row without a lock is a leftover of a session that
ended, and the next save removes it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from proctor.errors import StoreError
from proctor.stores.postgresql.database import PostgresDatabase
from proctor.stores.sql.suite_writer import CaseBody, CasePosition
from proctor.stores.sql.versions import IS_UNFINISHED, UNFINISHED_PREFIX

_BATCH_ROWS = 5000
"""Rows of one transaction, which other processes wait for."""
_INSERT_CASES = """INSERT INTO cases (digest, body)
    SELECT digest, body FROM unnest(?::bytea[], ?::bytea[]) AS rows (digest, body) ORDER BY digest
    ON CONFLICT (digest) DO NOTHING"""
_MATCHING_CONTENTS = f"""SELECT contents.key FROM contents
    JOIN suite_cases ON suite = contents.key AND position = 0
    WHERE digest = ? AND NOT ({IS_UNFINISHED}) ORDER BY contents.key DESC LIMIT 8"""  # noqa: S608
_DIGESTS = (
    "SELECT digest FROM suite_cases WHERE suite = ? AND position >= ? AND position < ? ORDER BY position"
)
_COPY = """INSERT INTO suite_cases (suite, position, digest, sent)
    SELECT ?::bigint, position, digest, sent FROM suite_cases
    WHERE suite = ? AND position >= ? AND position < ?"""


class PostgresCases:
    """Implements `CaseStaging`; cases that the store already has are not written again."""

    def __init__(self, database: PostgresDatabase) -> None:
        """Stores its argument; writes nothing."""
        self._database = database
        self._space = database.connector.lock_space
        self._key: int | None = None
        self._matching_contents: list[int] | None = None
        """Stored contents that begin with all the cases so far, none of which was written yet."""
        self._skipped_count = 0
        """The number of these cases."""

    def write(self, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> None:
        """Adds the next cases, in transactions of a fraction of a second each."""
        if not places or (self._key is None and self._are_stored(places)):
            return
        key = self._start()
        for row in range(0, len(places), _BATCH_ROWS):
            with self._database.transaction():
                self._insert(key, bodies[row : row + _BATCH_ROWS], places[row : row + _BATCH_ROWS])

    def prepare(self, content: str, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> bool:
        """Writes what takes long, before the transaction of `publish`; returns whether it wrote anything."""
        if self._key is None and (not self._skipped_count or self.has(content)):
            return False
        self._start()
        self.write(bodies, places)
        return True

    def has(self, content: str) -> bool:
        """Returns whether the store has a content."""
        return self._database.fetch_one("SELECT 1 FROM contents WHERE content = ?", content) is not None

    def publish(self, content: str, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> None:
        """Adds the last cases and assigns all of them to a content. Call it inside a transaction.

        Raises:
            StoreError: another process has removed them.
        """
        key = self._key
        if key is None:
            if self._skipped_count:
                raise self._deleted_error()  # `prepare` found the content, and it was deleted since
            key = self._database.insert("INSERT INTO contents (content) VALUES (?)", content, key="key")
        elif not self._database.execute(
            f"UPDATE contents SET content = ? WHERE key = ? AND {IS_UNFINISHED}",  # noqa: S608
            *(content, key),
        ):
            raise self._deleted_error()
        self._insert(key, bodies, places)

    def release(self) -> None:
        """Releases the lock, once the published rows are committed or left to the next save."""
        if self._key is not None:
            self._unlock(self._key)
            self._key = None

    def remove(self) -> None:
        """Deletes what was written. Safe to call at any time."""
        if self._key is not None:
            self._remove(self._key)
            self.release()

    def count_leftovers(self) -> int:
        """Returns the number of suites of processes that died while they saved them."""
        count = 0
        for key in self._find_unfinished():
            if self._lock_if_free(key):
                count += 1
                self._unlock(key)
        return count

    def remove_leftovers(self) -> None:
        """Removes the rows of processes that died while they saved a suite."""
        for key in self._find_unfinished():
            if self._lock_if_free(key):
                self._remove(key)
                self._unlock(key)

    def _are_stored(self, places: Sequence[CasePosition]) -> bool:
        """Returns whether the next cases follow the earlier ones in a stored content."""
        digests = [digest for _, digest, _ in places]
        if self._matching_contents is None:
            rows = self._database.select(_MATCHING_CONTENTS, digests[0])
            self._matching_contents = [key for (key,) in rows]
        first = places[0][0]
        twins = [
            key
            for key in self._matching_contents
            if digests
            == [row[0] for row in self._database.select(_DIGESTS, key, first, first + len(digests))]
        ]
        if twins:
            self._matching_contents = twins
            self._skipped_count += len(places)
        return bool(twins)

    def _start(self) -> int:
        """Returns the key of the rows being written, after copying all cases skipped so far."""
        if self._key is not None:
            return self._key
        self.remove_leftovers()
        database = self._database
        database.is_reusable = False  # as its session has a lock
        with database.transaction():  # nobody else sees the row before it is locked
            key = self._key = database.insert(
                "INSERT INTO contents (content) VALUES (?)",
                f"{UNFINISHED_PREFIX}{os.urandom(8).hex()}",
                key="key",
            )
            database.select("SELECT pg_advisory_lock(?, ?)", self._space, -key)
        copied_count = 0
        for row in range(0, self._skipped_count, _BATCH_ROWS):
            assert self._matching_contents
            until = min(row + _BATCH_ROWS, self._skipped_count)
            with database.transaction():
                copied_count += database.execute(_COPY, key, self._matching_contents[0], row, until)
        if copied_count != self._skipped_count:
            raise self._deleted_error()
        return key

    def _insert(self, key: int, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> None:
        if not places:
            return
        unique_bodies = dict(bodies)
        self._database.execute(_INSERT_CASES, list(unique_bodies), list(unique_bodies.values()))
        self._database.copy(
            "suite_cases",
            "suite, position, digest, sent",
            [(key, *place) for place in places],
            ("int8", "int8", "bytea", "bytea"),
        )

    def _find_unfinished(self) -> list[int]:
        rows = self._database.select(f"SELECT key FROM contents WHERE {IS_UNFINISHED}")  # noqa: S608
        return [int(key) for (key,) in rows if key != self._key]

    def _lock_if_free(self, key: int) -> bool:
        row = self._database.fetch_one("SELECT pg_try_advisory_lock(?, ?)", self._space, -key)
        return bool(row[0])

    def _unlock(self, key: int) -> None:
        self._database.select("SELECT pg_advisory_unlock(?, ?)", self._space, -key)

    def _remove(self, key: int) -> None:
        """Removes an unfinished row, and then its cases, unless other suites have them."""
        database = self._database
        if not database.execute(f"DELETE FROM contents WHERE key = ? AND {IS_UNFINISHED}", key):  # noqa: S608
            return
        row = database.fetch_one("SELECT coalesce(max(position), -1) FROM suite_cases WHERE suite = ?", key)
        for first in range(0, row[0] + 1, _BATCH_ROWS):
            with database.transaction():
                places = database.select(
                    "DELETE FROM suite_cases WHERE suite = ? AND position >= ? AND position < ? "
                    "RETURNING digest",
                    *(key, first, first + _BATCH_ROWS),
                )
                database.execute(
                    "DELETE FROM cases WHERE digest = ANY(?::bytea[]) AND NOT EXISTS "
                    "(SELECT 1 FROM suite_cases WHERE suite_cases.digest = cases.digest)",
                    list({digest for (digest,) in places}),
                )

    def _deleted_error(self) -> StoreError:
        return StoreError(
            f"Meanwhile another process deleted cases of the same suite from {self._database.address}. "
            "Save the suite again."
        )
