"""Stages the cases of a suite that is being saved: in short transactions, and invisible until the last.

They belong to a row of `contents` whose content is `unfinished:…`, which nothing reads. The saving process
locks that row, so an unfinished row without a lock is a leftover of a process that died, and the next save
removes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from operator import itemgetter

from proctor.errors import StoreError
from proctor.stores.sql.database import SqlDatabase
from proctor.stores.sql.versions import IS_UNFINISHED

CaseBody = tuple[bytes, bytes]
"""digest, body."""
CasePosition = tuple[int, bytes, bytes]
"""position, digest of the case, digest of what is sent."""
_MAX_LAST_CASES = 20_000
"""At most this many cases are written in the transaction that makes a suite visible."""
_MATCHING_CONTENTS = f"""SELECT contents.key FROM contents
    JOIN suite_cases ON suite = contents.key AND position = 0
    WHERE digest = ? AND NOT ({IS_UNFINISHED}) ORDER BY contents.key DESC LIMIT 8"""  # noqa: S608
_DIGESTS = (
    "SELECT digest FROM suite_cases WHERE suite = ? AND position >= ? AND position < ? ORDER BY position"
)
_COPY = """INSERT INTO suite_cases (suite, position, digest, sent)
    SELECT CAST(? AS BIGINT), position, digest, sent FROM suite_cases
    WHERE suite = ? AND position >= ? AND position < ?"""


class CaseStaging(ABC):
    """Writes the cases of one suite, in order; those of a suite that the store has are not written again."""

    def __init__(self, database: SqlDatabase) -> None:
        """Stores its argument; writes nothing."""
        self._database = database
        self._key: int | None = None
        """The key of the unfinished row; None before it is needed."""
        self._matching_contents: list[int] | None = None
        """Stored contents that begin with all the cases so far, none of which was written yet."""
        self._skipped_count = 0
        """The number of these cases."""

    def write(self, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> None:
        """Adds the next cases, in transactions of a fraction of a second each."""
        if not places or (self._key is None and self._are_stored(places)):
            return
        key = self._start()
        # In the order of the indexes, so that a transaction writes few of their pages.
        bodies, places = sorted(bodies, key=itemgetter(0)), sorted(places, key=itemgetter(2))
        self._in_transactions(
            len(places), lambda start, end: self._insert(key, bodies[start:end], places[start:end])
        )

    def prepare(self, content: str, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> bool:
        """Writes what takes long, before the transaction of `publish`; returns whether it wrote anything.

        Args:
            content: the digest of all cases.
            bodies: the cases that were not written yet.
            places: their positions.
        """
        is_small = not self._skipped_count and len(places) <= _MAX_LAST_CASES
        if self._key is None and (is_small or self.has(content)):
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
        self._insert(key, sorted(bodies, key=itemgetter(0)), places)

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
        self._matching_contents, self._skipped_count = None, 0

    def count_leftovers(self) -> int:
        """Returns the number of suites of processes that died while they saved them."""
        return sum(not self._is_locked(key) for key in self._find_unfinished())

    def remove_leftovers(self) -> None:
        """Removes the rows of processes that died while they saved a suite."""
        for key in self._find_unfinished():
            if self._lock_if_free(key):
                self._remove(key)
                self._unlock(key)

    @abstractmethod
    def _add_unfinished(self) -> int:
        """Adds an unfinished row, locked before other processes can see it; returns its key."""

    @abstractmethod
    def _insert(self, key: int, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> None:
        """Inserts cases and their positions; cases that are there stay as they are."""

    @abstractmethod
    def _in_transactions(self, count: int, act: Callable[[int, int], None]) -> None:
        """Calls a function for the start and the end of each part of a number of rows.

        It does so in transactions of a fraction of a second, between which other processes can write.
        """

    @abstractmethod
    def _remove(self, key: int) -> None:
        """Removes an unfinished row with its cases, unless another suite has them."""

    @abstractmethod
    def _is_locked(self, key: int) -> bool:
        """Returns whether a process has locked an unfinished row."""

    @abstractmethod
    def _lock_if_free(self, key: int) -> bool:
        """Locks an unfinished row; returns False if a process has locked it."""

    @abstractmethod
    def _unlock(self, key: int) -> None:
        """Releases the lock of an unfinished row."""

    def _are_stored(self, places: Sequence[CasePosition]) -> bool:
        """Returns whether the next cases follow the earlier ones in a stored content."""
        digests, select = [digest for _, digest, _ in places], self._database.select
        if self._matching_contents is None:
            self._matching_contents = [key for (key,) in select(_MATCHING_CONTENTS, digests[0])]
        start = places[0][0]
        matching_contents = [
            key
            for key in self._matching_contents
            if digests == [digest for (digest,) in select(_DIGESTS, key, start, start + len(digests))]
        ]
        if matching_contents:
            self._matching_contents = matching_contents
            self._skipped_count += len(places)
        return bool(matching_contents)

    def _start(self) -> int:
        """Returns the key of the unfinished row, after copying all cases skipped so far to it."""
        if self._key is not None:
            return self._key
        self.remove_leftovers()
        with self._database.transaction():
            key = self._key = self._add_unfinished()
        copied_count = 0

        def copy(start: int, end: int) -> None:
            nonlocal copied_count
            assert self._matching_contents
            copied_count += self._database.execute(_COPY, key, self._matching_contents[0], start, end)

        self._in_transactions(self._skipped_count, copy)
        if copied_count != self._skipped_count:
            raise self._deleted_error()
        return key

    def _find_unfinished(self) -> list[int]:
        """Returns the keys of the unfinished rows, without that of this suite."""
        rows = self._database.select(f"SELECT key FROM contents WHERE {IS_UNFINISHED}")  # noqa: S608
        return [int(key) for (key,) in rows if key != self._key]

    def _deleted_error(self) -> StoreError:
        return StoreError(
            f"Another process deleted cases of the same suite from {self._database.address} at the same "
            f"time. Save the suite again."
        )
