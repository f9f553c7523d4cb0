"""Runs, trials and suites in one SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import TypeVar

from proctor.codec import decode, encode, settings_digest, target_digest
from proctor.errors import StoreError
from proctor.model import Case, Run, Suite, Trial, Verdict
from proctor.protocols import (
    AnswerCache,
    CaseHead,
    PriorAnswer,
    SavedSuite,
    StoredCase,
    StoredTotals,
    StoredTrial,
    StoreHealth,
    TrialUpdate,
)
from proctor.stores.sqlite.annotations import AnnotationTables
from proctor.stores.sqlite.connection import as_store_errors, connect, open_database
from proctor.stores.sqlite.file_identity import FileIdentity
from proctor.stores.sqlite.lock_wait import LockWait
from proctor.stores.sqlite.new_trials import count_and_last_turn, iter_new_trials
from proctor.stores.sqlite.prior_answers import find_prior_answers
from proctor.stores.sqlite.run_locks import RunLocks
from proctor.stores.sqlite.suite_writer import SqliteSuiteWriter
from proctor.stores.sqlite.transactions import decode_row, fetch_page, transaction
from proctor.stores.sqlite.trial_writer import RunState, WriterThread
from proctor.stores.sqlite.versions import SuiteVersions, delete_unused_contents

T = TypeVar("T")

_PAGE_ROWS = 256
"""Rows per read: short statements leave no snapshot open, so the log file can shrink meanwhile."""
_NEWEST_TAGGED = """SELECT body FROM runs WHERE EXISTS (
    SELECT 1 FROM json_each(CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END, '$.tags')
    WHERE value = ?) ORDER BY key DESC LIMIT 1"""
"""The newest run with a tag; damaged rows have none."""


_SAVE_TOTALS = """INSERT INTO totals (run, body) SELECT key, ? FROM runs WHERE key = ?
    ON CONFLICT (run) DO UPDATE SET body = excluded.body WHERE changes = ?"""


class SqliteStore(AnnotationTables):
    """Implements `Store` in one file; `proctor.stores.sqlite.migrations` has its tables."""

    is_durable = True

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
        super().__init__(path, db)
        self._lock_wait = lock_wait
        self._writer = writer
        self._run_locks = run_locks
        self._versions = SuiteVersions(path, db)
        self._keys: dict[str, int] = {}
        self._is_closed = False

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
        path = str(
            Path(path).absolute()
        )  # absolute, so that a later change of the working directory does not matter
        lock_wait = LockWait()
        db = open_database(path, lock_wait, notify)
        writer = WriterThread(
            path, lambda: connect(path, LockWait(patience_s=0)), lock_wait, db, [FileIdentity(path)]
        )
        return cls(path, db, lock_wait, writer, RunLocks(path))

    # --- suites ---

    def open_suite_writer(
        self, *, aside: bool = False, again: bool = False, name: Callable[[Suite], str] | None = None
    ) -> SqliteSuiteWriter:
        """Starts to save a suite; nothing of it is visible before `commit`.

        Args:
            aside: an existing version keeps its content, and the version last saved under the name stays the
                current one; the new content is stored for a run that is added next.
            again: restores a deleted version, with its number and its place among the others; an existing
                version stays as it is.
            name: chooses the name while no other process can save; None leaves it as it is.
        """
        return SqliteSuiteWriter(
            self.path, self._db, self._versions, self._run_locks, aside=aside, again=again, name=name
        )

    def suite(self, name: str, version: str | None = None) -> Suite | None:
        """Returns the suite of that name, or None.

        Args:
            name: its name.
            version: `v2`, or a digest or at least 6 digits of its beginning, with or without `sha256:`; None
                for the version last saved.

                es:
                StoreError: several versions have a digest that begins like that.
        """
        return self._versions.find(name, version)

    def versions(self, name: str | None = None) -> list[SavedSuite]:
        """Returns the versions of one suite or of all suites, by name and version."""
        return self._versions.list_all(name)

    def path_for_name(self, name: str) -> str | None:
        """Returns the absolute path of the file that owns a suite's name; None if no file does."""
        return self._versions.path_for_name(name)

    def names_for_path(self, path: str) -> list[str]:
        """Returns the suite names that belong to a file, given by its absolute path."""
        return self._versions.names_for_path(path)

    def claim_name(self, name: str, path: str) -> None:
        """Assigns a suite's name to a file, given by its absolute path, instead of any other file."""
        self._versions.claim_name(name, path)

    def delete_version(self, name: str, version: str) -> None:
        """Deletes one version of a suite; its number is not used again.

        Raises:
            StoreError: there is no such version, or runs of it are stored.
        """
        self._versions.delete_version(name, version)

    def cases(self, content: str, start: int = 0) -> Iterator[StoredCase]:
        """Yields the cases of a suite's content from a position on, in order, without holding them all."""
        for body, sent_digest in self._case_rows(content, start):
            yield self._read(partial(_decode_case, body, sent_digest))

    def case_heads(self, content: str) -> Iterator[CaseHead]:
        """Yields all cases of a suite's content as `cases` does, but reads only what lists show of them."""
        for body, _ in self._case_rows(content):
            yield self._read(partial(decode, body, CaseHead))

    def _case_rows(self, content: str, start: int = 0) -> Iterator[tuple[bytes, bytes]]:
        while True:
            with as_store_errors(self.path):
                rows = self._db.execute(
                    "SELECT cases.body, sent FROM contents "
                    "JOIN suite_cases ON suite_cases.suite = contents.key "
                    "JOIN cases ON cases.digest = suite_cases.digest WHERE contents.content = ? "
                    "AND position >= ? AND position < ? ORDER BY position",
                    (content, start, start + _PAGE_ROWS),
                ).fetchall()
            if not rows:
                return
            yield from rows
            start += _PAGE_ROWS

    # --- runs ---

    def add_run(self, run: Run) -> None:
        """Adds a run that is starting, and locks it for this process.

        Raises:
            StoreError: the content of its suite has been deleted since it was saved.
        """
        with as_store_errors(self.path), transaction(self._db):
            if self._fetch_one("SELECT 1 FROM contents WHERE content = ?", run.suite.content) is None:
                raise StoreError(
                    f"The cases of suite {run.suite.name!r} have just been removed from {self.path} by "
                    "another process. Run it again."
                )
            self._db.execute(
                "INSERT INTO runs (id, started_at, suite, content, target, settings, status, body) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run.id,
                    run.started_at.isoformat(),
                    run.suite.digest,
                    run.suite.content,
                    target_digest(run.target),
                    _trials_settings_digest(run),
                    run.status,
                    encode(run),
                ),
            )
            self.lock_run(run.id)  # while no other process can see it
            self.secret(run.id)  # so that copies of the store export the same bundles

    def lock_run(self, run_id: str) -> None:
        """Locks a run for this process; raises StoreError if another process has locked it."""
        with as_store_errors(self.path):
            if not self._run_locks.lock(self._key(run_id)):
                raise StoreError(
                    f"Run {run_id} is being made by another process right now. Wait for it to end, "
                    "or stop it, or begin a new run."
                )

    def update_run(self, run: Run, *, wait: bool = True, totals: bytes | None = None) -> None:
        """Saves the current state of a run, after all trials so far.

        Args:
            run: the run.
            wait: whether to return only when it is durable; otherwise call `flush`.
            totals: the totals of all of its trials, if they are known.
        """
        self._writer.put_state(RunState(self._key(run.id), run.status, encode(run), totals))
        if wait:
            self._writer.flush()

    def runs(self) -> Iterator[Run]:
        """Yields every run, newest first."""
        with as_store_errors(self.path):
            keys = self._db.execute("SELECT key FROM runs ORDER BY key DESC").fetchall()
        for (key,) in keys:
            row = self._fetch_one("SELECT body FROM runs WHERE key = ?", key)
            if row is not None:
                yield self._read(partial(decode, row[0], Run))

    def run(self, word: str) -> Run:
        """Returns the run that a word names.

        The word is, in this order, an id, `last` for the newest run, a tag, which stands for its newest run,
        or the beginning of an id.

        Raises:
            StoreError: there is none, or more than one.
        """
        body = self._fetch_one("SELECT body FROM runs WHERE id = ?", word)
        if body is None and word == "last":
            body = self._fetch_one("SELECT body FROM runs ORDER BY key DESC LIMIT 1")
        body = body or self._fetch_one(_NEWEST_TAGGED, word) or self._find_by_prefix(word)
        if body is None:
            raise StoreError(
                f"There is no run {word!r} in {self.path}. `proctor runs list` shows what is there, and "
                "`proctor runs tag` names one."
            )
        return self._read(partial(decode, body[0], Run))

    def _find_by_prefix(self, word: str) -> tuple[bytes, ...] | None:
        """Returns the only run whose id begins with the word; None if there is none."""
        with as_store_errors(self.path):
            rows = self._db.execute(
                "SELECT body, id FROM runs WHERE substr(id, 1, ?) = ? AND ? <> '' ORDER BY key DESC LIMIT 3",
                (len(word), word, word),
            ).fetchall()
        if len(rows) > 1:
            ids = ", ".join(row[1] for row in rows)
            raise StoreError(f"More than one run begins with {word!r}: {ids}. Give more of the id.")
        return rows[0] if rows else None

    def find_equivalent_runs(self, suite_digest: str, target_digest: str, settings_digest: str) -> list[Run]:
        """Returns the runs with the same suite, target and settings, newest first."""
        with as_store_errors(self.path):
            rows = self._db.execute(
                "SELECT body FROM runs WHERE suite = ? AND target = ? AND settings = ? ORDER BY key DESC",
                (suite_digest, target_digest, settings_digest),
            ).fetchall()
        return [self._read(partial(decode, body, Run)) for (body,) in rows]

    def find_prior_answers(
        self, sent_digest: str, target_digest: str, run_id: str | None = None
    ) -> Iterator[PriorAnswer]:
        """Yields trials with an output for the same request to the same target, newest run first.

        Does not hold them all. With `run_id` only trials of that run are yielded. Trials that are not durable
        yet are not found.
        """
        return find_prior_answers(self.path, self._db, sent_digest, target_digest, run_id)

    def delete_run(self, run_id: str) -> None:
        """Deletes a run and its trials; the version of the suite and the labels of its answers stay."""
        self.lock_run(run_id)
        key = self._key(run_id)
        self._writer.flush()
        with as_store_errors(self.path), transaction(self._db):
            self._db.execute("DELETE FROM trials WHERE run = ?", (key,))
            self._db.execute("DELETE FROM secrets WHERE run = ?", (key,))
            self._db.execute("DELETE FROM variables WHERE run = ?", (key,))
            self._db.execute("DELETE FROM totals WHERE run = ?", (key,))
            self._db.execute("DELETE FROM runs WHERE key = ?", (key,))
            delete_unused_contents(self._db)
        self._keys.pop(run_id, None)

    def secret(self, run_id: str) -> bytes:
        """Returns the run's own 32 random bytes, which are created at first use."""
        key, select = self._key(run_id), "SELECT secret FROM secrets WHERE run = ?"
        row = self._fetch_one(select, key)
        if row is None:  # a read-only store may already have one
            with as_store_errors(self.path):
                self._db.execute("INSERT OR IGNORE INTO secrets VALUES (?, ?)", (key, os.urandom(32)))
            row = self._fetch_one(select, key)
        assert row is not None
        return row[0]

    def save_variable_digests(self, run_id: str, digests: Mapping[str, bytes]) -> None:
        """Saves keyed digests of the values of a run's environment variables, by their names."""
        rows = [(self._key(run_id), *row) for row in digests.items()]
        with as_store_errors(self.path), transaction(self._db):
            self._db.executemany("INSERT OR REPLACE INTO variables VALUES (?, ?, ?)", rows)

    def variable_digests(self, run_id: str) -> dict[str, bytes]:
        """Returns what `save_variable_digests` saved for a run; empty for a run of an older Proctor."""
        with as_store_errors(self.path):
            rows = self._db.execute("SELECT name, digest FROM variables WHERE run = ?", (self._key(run_id),))
            return dict(rows.fetchall())

    # --- trials ---

    def save_output(self, run_id: str, trial: Trial) -> None:
        """Saves a trial with an output whose grading has not ended."""
        self._writer.put((self._key(run_id), trial.position, trial.repeat, None, encode(trial)))

    def save_trial(self, run_id: str, trial: Trial, verdict: Verdict) -> None:
        """Saves a finished trial; a second one for the same case and repeat is ignored."""
        key = self._keys.get(run_id) or self._key(run_id)
        self._writer.put((key, trial.position, trial.repeat, verdict.value, encode(trial)))

    def totals(self, run_id: str) -> StoredTotals:
        """Returns the stored totals of a run."""
        self._writer.flush()
        key = self._key(run_id)
        with as_store_errors(self.path):
            row = self._db.execute("SELECT body, changes FROM totals WHERE run = ?", (key,)).fetchone()
        body, changes = row or (None, 0)
        return StoredTotals(body, key, changes)

    def save_totals(self, run_id: str, totals: StoredTotals) -> None:
        """Saves the totals of a run if it has not changed since and the store can be written right now."""
        key = self._key(run_id)
        with suppress(sqlite3.OperationalError):  # read-only, locked or full: they are counted again
            sqlite3.Connection.execute(self._db, _SAVE_TOTALS, (totals.body, key, totals.changes))

    def count_verdicts(self, run_id: str) -> dict[Verdict | None, int]:
        """Returns the number of a run's trials by stored verdict; None for trials without one."""
        with as_store_errors(self.path):
            rows = self._db.execute(
                "SELECT verdict, count(*) FROM trials WHERE run = ? GROUP BY verdict", (self._key(run_id),)
            ).fetchall()
        return self._read(lambda: {_decode_verdict(verdict): count for verdict, count in rows})

    def count_finished_cases(self, run_id: str) -> int:
        """Returns how many cases of a run have a trial with a stored verdict, whatever their repeats."""
        with as_store_errors(self.path):
            row = self._db.execute(
                "SELECT count(DISTINCT position) FROM trials WHERE run = ? AND verdict IS NOT NULL",
                (self._key(run_id),),
            ).fetchone()
        return int(row[0])

    def trials(self, run_id: str) -> Iterator[StoredTrial]:
        """Yields a run's trials in suite order, without holding them all."""
        self._writer.flush()
        key, position, repeat = self._key(run_id), -1, 0
        while True:
            with as_store_errors(self.path):
                cursor = self._db.execute(
                    "SELECT position, repeat, verdict, body FROM trials WHERE run = ? "
                    "AND (position, repeat) > (?, ?) ORDER BY position, repeat LIMIT ?",
                    (key, position, repeat, _PAGE_ROWS),
                )
                rows = fetch_page(cursor, 3)
                cursor.close()
            if not rows:
                return
            for _, _, verdict, body in rows:
                yield self._read(partial(_decode_trial, body, verdict))
            position, repeat = rows[-1][:2]

    def trial_places(
        self,
        run_id: str,
        verdicts: Collection[str] = (),
        after: tuple[int, int] | None = None,
        limit: int = 50,
        *,
        back: bool = False,
    ) -> list[tuple[int, int]]:
        """Returns the positions and repeats of some finished trials of a run, in suite order.

        Args:
            run_id: the run.
            verdicts: the stored verdicts that they may have; none stands for all.
            after: begins after this position and repeat, or at the end of the run.
            limit: returns at most so many.
            back: goes towards the beginning of the suite.
        """
        self._writer.flush()
        is_selected = f"verdict IN ({', '.join('?' * len(verdicts))})" if verdicts else "verdict IS NOT NULL"
        is_after = "" if after is None else f"AND (position, repeat) {'<' if back else '>'} (?, ?)"
        order = "position DESC, repeat DESC" if back else "position, repeat"
        statement = (
            f"SELECT position, repeat FROM trials WHERE run = ? AND {is_selected} {is_after} "  # noqa: S608  # marks
            f"ORDER BY {order} LIMIT ?"
        )
        with as_store_errors(self.path):
            values = (self._key(run_id), *verdicts, *(after or ()), limit)
            return self._db.execute(statement, values).fetchall()

    # --- following a run ---

    def get_progress(self, run_id: str) -> tuple[int, int]:
        """Returns the number of stored trials of a run and the turn of the last, or 0. Fast for any run."""
        self._writer.flush()
        return count_and_last_turn(self.path, self._db, self._key(run_id))

    def trials_since(
        self, run_id: str, after: int = 0, waiting: Collection[int] = ()
    ) -> Iterator[TrialUpdate]:
        """Yields a run's trials in the order in which they were first stored, without holding them all.

        Args:
            run_id: the run, which may still be running in another process.
            after: yields only trials with a later turn.
            waiting: turns of earlier trials without a verdict; those that have one now are yielded again.
        """
        self._writer.flush()
        return iter_new_trials(self.path, self._db, self._key(run_id), after, waiting)

    def is_run_locked(self, run_id: str) -> bool:
        """Returns whether any process has locked the run; True if the system cannot tell."""
        with as_store_errors(self.path):
            return self._run_locks.is_locked(self._key(run_id))

    def lock_owner(self, run_id: str) -> int | None:
        """Returns the id of the process that has locked the run, which may be this process.

        None if no process has, and if the system cannot tell which one: on Windows, and for a process in
        another container.
        """
        with as_store_errors(self.path):
            return self._run_locks.find_owner(self._key(run_id))

    # --- the file ---

    def on_wait(self, tell: Callable[[str], None]) -> None:
        """Sets a callback that gets a sentence when a method has waited 2 s for another process's lock."""
        self._lock_wait.notify = lambda: tell(f"Waiting for another process, which has locked {self.path}.")

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

    def is_full(self) -> bool:
        """Returns whether too many trials are pending for new requests to be sent."""
        return self._writer.is_full()

    def health(self) -> StoreHealth:
        """Returns how far the store is behind, and what is wrong with its file."""
        return self._writer.health()

    def flush(self, timeout_s: float | None = None) -> bool:
        """Waits until everything so far is durable; returns False if that takes longer than the timeout."""
        return self._writer.flush(timeout_s)

    def open_answer_cache(self, notify: Callable[[str], None] = lambda _message: None) -> AnswerCache:
        """Opens the answer cache of this store; close it after use.

        Args:
            notify: called with a sentence if the cache is damaged or cannot be used; no run stops for that.
        """
        from proctor.stores.sqlite.answer_cache import CACHE_NAME, SqliteAnswerCache

        return SqliteAnswerCache(Path(self.path).with_name(CACHE_NAME), notify)

    def count_unused_rows(self) -> dict[str, int]:
        """Returns the number of unreferenced rows by kind, without kinds that have none."""
        from proctor.stores.sqlite import orphan_rows

        with as_store_errors(self.path):
            return orphan_rows.count_leftovers(self._db, self._run_locks)

    def delete_unused_rows(self) -> None:
        """Deletes unreferenced rows, without blocking other processes for long."""
        from proctor.stores.sqlite import orphan_rows

        with as_store_errors(self.path):
            orphan_rows.delete_leftovers(self._db, self._run_locks)

    def close(self) -> None:
        """Flushes and releases all resources. Safe to call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._writer.close()
        finally:
            self._run_locks.close()
            self._db.close()

    def _key(self, run_id: str) -> int:
        key = self._keys.get(run_id)
        if key is None:
            row = self._fetch_one("SELECT key FROM runs WHERE id = ?", run_id)
            if row is None:
                raise StoreError(f"There is no run {run_id!r} in {self.path}.")
            key = self._keys[run_id] = int(row[0])
        return key

    def _read(self, make: Callable[[], T]) -> T:
        return decode_row(self.path, make)

    def _fetch_one(self, statement: str, *values: object) -> tuple[bytes, ...] | None:
        with as_store_errors(self.path):
            row: tuple[bytes, ...] | None = self._db.execute(statement, values).fetchone()
        return row


def _decode_case(body: bytes, sent_digest: bytes) -> StoredCase:
    return StoredCase(decode(body, Case), "sha256:" + sent_digest.hex())


def _decode_trial(body: bytes, verdict: str | None) -> StoredTrial:
    return StoredTrial(decode(body, Trial), _decode_verdict(verdict))


def _decode_verdict(word: str | None) -> Verdict | None:
    return None if word is None else Verdict(word)


def _trials_settings_digest(run: Run) -> str:
    return settings_digest((run.settings.selection, run.settings.repeats))
