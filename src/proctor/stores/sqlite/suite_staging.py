"""Stages the cases of a suite that is being saved: in short transactions, and invisible until the last.

They belong to a row of `contents` whose content is `unfinished:…`, which nothing reads. The saving process
locks that row, so an unfinished row without a lock is a leftover of a process that died, and the next save
removes it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from time import monotonic, sleep

from proctor.errors import StoreError
from proctor.stores.sql.suite_writer import CaseBody, CasePosition
from proctor.stores.sql.versions import IS_UNFINISHED, UNFINISHED_PREFIX
from proctor.stores.sqlite.run_locks import RunLocks
from proctor.stores.sqlite.transactions import transaction

MAX_LOCK_S = 0.3
"""A transaction that has lasted longer takes no further rows."""
PAUSE_S = 0.01
"""The pause between two transactions, so that other processes, which poll every few ms, get the lock."""
_FIRST_LOCK = 1 << 40
"""The lock of the first unfinished row; the locks of runs come before it."""
_BATCH_ROWS = 1000
"""Rows written between two checks of the elapsed time."""
_STAGING_PRAGMAS = ("PRAGMA cache_size = -32000", "PRAGMA wal_autocheckpoint = 8000")
"""Set while cases are staged, when nearly every transaction writes every page of the indexes."""
_DEFAULT_PRAGMAS = ("PRAGMA cache_size = -2000", "PRAGMA wal_autocheckpoint = 1000")


class StagedCases:
    """Implements `CaseStaging`; cases that the store already has are not written again."""

    def __init__(self, path: str, db: sqlite3.Connection, run_locks: RunLocks) -> None:
        """Stores its arguments; writes nothing.

        Args:
            path: the store's file, for messages.
            db: a connection to it.
            run_locks: its locks.
        """
        self._path = path
        self._db = db
        self._run_locks = run_locks
        self._key: int | None = None
        self._matching_contents: list[int] | None = None
        """Stored contents that begin with all the cases so far, none of which was written yet."""
        self._skipped_count = 0
        """The number of these cases."""

    def write(self, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> None:
        """Adds the next cases, in transactions of a fraction of a second each."""
        if self._key is None and self._are_stored(places):
            return
        key = self._start()
        chunks = iter(range(0, len(places), _BATCH_ROWS))
        _in_short_transactions(
            self._db,
            chunks,
            lambda row: _insert(
                self._db, key, bodies[row : row + _BATCH_ROWS], places[row : row + _BATCH_ROWS]
            ),
        )

    def prepare(self, content: str, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> bool:
        """Writes what takes long, before the transaction of `publish`; returns whether it wrote anything.

        Args:
            content: the digest of all cases.
            bodies: the cases that were not written yet.
            places: their positions.
        """
        if self._key is None and (not self._skipped_count or self.has(content)):
            return False
        self._start()
        self.write(bodies, places)
        return True

    def has(self, content: str) -> bool:
        """Returns whether the store has a content."""
        row = self._db.execute("SELECT 1 FROM contents WHERE content = ?", (content,)).fetchone()
        return row is not None

    def publish(self, content: str, bodies: Sequence[CaseBody], places: Sequence[CasePosition]) -> None:
        """Adds the last cases and assigns all of them to a content. Call it inside a transaction.

        Raises:
            StoreError: another process has removed them.
        """
        key = self._key
        if key is None:
            if self._skipped_count:
                raise self._deleted_error()  # `prepare` found the content, and it was deleted since
            key = self._db.execute("INSERT INTO contents (content) VALUES (?)", (content,)).lastrowid
            assert key is not None
        else:
            changed = self._db.execute(
                f"UPDATE contents SET content = ? WHERE key = ? AND {IS_UNFINISHED}",  # noqa: S608
                (content, key),
            )
            if not changed.rowcount:
                raise self._deleted_error()
        _insert(self._db, key, bodies, places)

    def release(self) -> None:
        """Releases the lock, once the published rows are committed or left to the next save."""
        if self._key is not None:
            self._run_locks.unlock(_FIRST_LOCK + self._key)
            self._key = None
            for statement in _DEFAULT_PRAGMAS:
                self._db.execute(statement)

    def remove(self) -> None:
        """Deletes what was written. Safe to call at any time."""
        if self._key is not None:
            _remove(self._db, self._key)
            self.release()

    def count_leftovers(self) -> int:
        """Returns the number of suites of processes that died while they saved them."""
        return sum(not self._run_locks.is_locked(_FIRST_LOCK + key) for key in _find_unfinished(self._db))

    def remove_leftovers(self) -> None:
        """Removes the rows of processes that died while they saved a suite."""
        remove_leftovers(self._db, self._run_locks)

    def _are_stored(self, places: Sequence[CasePosition]) -> bool:
        """Returns whether the next cases follow the earlier ones in a stored content."""
        digests = [digest for _, digest, _ in places]
        if self._matching_contents is None:
            self._matching_contents = [
                key for (key,) in self._db.execute(_MATCHING_CONTENTS, (digests[0],)).fetchall()
            ]
        first = places[0][0]
        twins = [
            key
            for key in self._matching_contents
            if digests
            == [row[0] for row in self._db.execute(_DIGESTS, (key, first, first + len(digests))).fetchall()]
        ]
        if twins:
            self._matching_contents = twins
            self._skipped_count += len(places)
        return bool(twins)

    def _start(self) -> int:
        """Returns the key of the rows being written, after copying all cases skipped so far."""
        if self._key is not None:
            return self._key
        remove_leftovers(self._db, self._run_locks)
        for statement in _STAGING_PRAGMAS:
            self._db.execute(statement)
        with transaction(self._db):
            key = self._key = _new_key(self._db, self._run_locks)
        copied_count = 0

        def copy(row: int) -> None:
            nonlocal copied_count
            assert self._matching_contents
            until = min(row + _BATCH_ROWS, self._skipped_count)
            copied_count += self._db.execute(_COPY, (key, self._matching_contents[0], row, until)).rowcount

        _in_short_transactions(self._db, iter(range(0, self._skipped_count, _BATCH_ROWS)), copy)
        if copied_count != self._skipped_count:
            raise self._deleted_error()
        return key

    def _deleted_error(self) -> StoreError:
        return StoreError(
            f"Meanwhile another process deleted cases of the same suite from {self._path}. "
            "Save the suite again."
        )


_MATCHING_CONTENTS = f"""SELECT contents.key FROM contents
    JOIN suite_cases ON suite = contents.key AND position = 0
    WHERE digest = ? AND NOT ({IS_UNFINISHED}) ORDER BY contents.key DESC LIMIT 8"""  # noqa: S608
_DIGESTS = (
    "SELECT digest FROM suite_cases WHERE suite = ? AND position >= ? AND position < ? ORDER BY position"
)
_COPY = """INSERT INTO suite_cases SELECT ?, position, digest, sent FROM suite_cases
    WHERE suite = ? AND position >= ? AND position < ?"""


def _insert(
    db: sqlite3.Connection, key: int, bodies: Sequence[CaseBody], places: Sequence[CasePosition]
) -> None:
    # In index order, so that each page of the index is looked up once.
    db.executemany("INSERT OR IGNORE INTO cases (digest, body) VALUES (?, ?)", sorted(bodies))
    db.executemany("INSERT INTO suite_cases VALUES (?, ?, ?, ?)", [(key, *place) for place in places])


def _in_short_transactions(db: sqlite3.Connection, steps: Iterator[int], make: Callable[[int], None]) -> None:
    """Runs all steps, as many per transaction as fit its time; others can write in between."""
    step = next(steps, None)
    while step is not None:
        with transaction(db):
            until = monotonic() + MAX_LOCK_S
            while step is not None and monotonic() < until:
                make(step)
                step = next(steps, None)
        if step is not None:
            sleep(PAUSE_S)


def _new_key(db: sqlite3.Connection, run_locks: RunLocks) -> int:
    """Creates an unfinished row of `contents`, locked before other processes can see it.

    It records which cases are older, and whether another process was saving, so that all can be removed
    again.
    """
    (last_case,) = db.execute("SELECT coalesce(max(key), 0) FROM cases").fetchone()
    alone = 0 if _find_unfinished(db) else 1
    content = f"{UNFINISHED_PREFIX}{os.urandom(8).hex()}:{alone}:{last_case}"
    key = db.execute("INSERT INTO contents (content) VALUES (?)", (content,)).lastrowid
    assert key is not None
    run_locks.lock(_FIRST_LOCK + key)
    return key


def _find_unfinished(db: sqlite3.Connection) -> list[int]:
    return [key for (key,) in db.execute(f"SELECT key FROM contents WHERE {IS_UNFINISHED}").fetchall()]  # noqa: S608


def remove_leftovers(db: sqlite3.Connection, run_locks: RunLocks) -> None:
    """Removes the rows of processes that died while they saved a suite."""
    for key in _find_unfinished(db):
        if run_locks.lock_if_free(_FIRST_LOCK + key):
            _remove(db, key)
            run_locks.unlock(_FIRST_LOCK + key)


def _remove(db: sqlite3.Connection, key: int) -> None:
    """Removes an unfinished row with its cases, unless another suite may have them: `sweep` finds those."""
    row = db.execute(f"SELECT content FROM contents WHERE key = ? AND {IS_UNFINISHED}", (key,)).fetchone()  # noqa: S608
    if row is None:
        return
    _, _, alone, last_case = row[0].split(":")
    (end,) = db.execute(
        "SELECT coalesce(max(position), -1) FROM suite_cases WHERE suite = ?", (key,)
    ).fetchone()

    def remove_places(until: int) -> None:
        db.execute("DELETE FROM suite_cases WHERE suite = ? AND position < ?", (key, until))

    _in_short_transactions(db, iter(range(_BATCH_ROWS, end + 1 + _BATCH_ROWS, _BATCH_ROWS)), remove_places)
    (newest,) = db.execute("SELECT coalesce(max(key), 0) FROM cases").fetchone()

    def remove_cases(first: int) -> None:
        (others,) = db.execute(
            f"SELECT count(*) FROM contents WHERE key > ? OR (key <> ? AND {IS_UNFINISHED})",  # noqa: S608
            (key, key),
        ).fetchone()
        if not others:
            db.execute("DELETE FROM cases WHERE key >= ? AND key < ?", (first, first + _BATCH_ROWS))

    if alone == "1":
        _in_short_transactions(db, iter(range(int(last_case) + 1, newest + 1, _BATCH_ROWS)), remove_cases)
    db.execute(f"DELETE FROM contents WHERE key = ? AND {IS_UNFINISHED}", (key,))  # noqa: S608
