"""Writes the cases of a suite into temporary tables first, which end with their session."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from proctor.stores.postgresql.database import PostgresDatabase
from proctor.stores.sql.suite_writer import CaseBody, CasePosition

_NUMBERS = count(1)


class TemporaryCases:
    """Implements `CaseStaging`: `publish` moves the cases within one transaction."""

    def __init__(self, database: PostgresDatabase) -> None:
        """Stores its argument; writes nothing."""
        self._database = database
        number = next(_NUMBERS)
        self._cases, self._places = f"staged_cases_{number}", f"staged_places_{number}"
        self._has_tables = False

    def write(self, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> None:
        """Adds the next cases."""
        database = self._database
        if not self._has_tables:
            database.is_reusable = False
            database.execute(f"CREATE TEMP TABLE {self._cases} (digest BYTEA, body BYTEA)")
            database.execute(f"CREATE TEMP TABLE {self._places} (position BIGINT, digest BYTEA, sent BYTEA)")
            self._has_tables = True
        unique_bodies = list(dict(bodies).items())
        database.copy(self._cases, "digest, body", unique_bodies, ("bytea", "bytea"))
        database.copy(self._places, "position, digest, sent", places, ("int8", "bytea", "bytea"))

    def prepare(self, content: str, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> bool:
        """Writes the last cases into the temporary tables, unless the store has the content."""
        if self.has(content):
            return False
        self.write(bodies, places)
        return True

    def has(self, content: str) -> bool:
        """Returns whether the store has a content."""
        return self._database.fetch_one("SELECT 1 FROM contents WHERE content = ?", content) is not None

    def publish(self, content: str, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> None:
        """Moves all cases into the store, under a content. Call it inside a transaction."""
        if places:
            self.write(bodies, places)
        database = self._database
        key = database.insert("INSERT INTO contents (content) VALUES (?)", content, key="key")
        if not self._has_tables:
            return  # a suite without cases
        database.execute(
            f"INSERT INTO cases (digest, body) SELECT DISTINCT ON (digest) digest, body FROM {self._cases} "  # noqa: S608
            "ORDER BY digest ON CONFLICT (digest) DO NOTHING"
        )
        database.execute(
            "INSERT INTO suite_cases (suite, position, digest, sent) "  # noqa: S608
            f"SELECT ?, position, digest, sent FROM {self._places} ORDER BY position",
            key,
        )

    def release(self) -> None:
        """Does nothing: nobody else sees the temporary tables."""

    def remove(self) -> None:
        """Drops the temporary tables. Safe to call at any time."""
        if self._has_tables:
            self._has_tables = False
            self._database.execute(f"DROP TABLE IF EXISTS {self._cases}, {self._places}")

    def remove_leftovers(self) -> None:
        """Does nothing: temporary tables end with their session."""
