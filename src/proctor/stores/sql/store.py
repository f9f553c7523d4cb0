"""Runs, trials and suites in an SQL database."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from proctor.codec import call_digest, decode, encode, settings_digest
from proctor.errors import StoreError
from proctor.model import Calibration, Case, Comment, HoldoutAccess, Label, Run, Suite, Trial, Verdict
from proctor.prompts.fill import fill_stored_case
from proctor.protocols import (
    CaseHead,
    CaseInRun,
    PriorAnswer,
    RunOwner,
    SameCaseRun,
    SavedSuite,
    StoredBatch,
    StoredCase,
    StoredComment,
    StoredLabel,
    StoredTotals,
    StoredTrial,
    StoreHealth,
    TrialUpdate,
)
from proctor.stores.sql.case_staging import CaseStaging
from proctor.stores.sql.database import READ_ERRORS, SqlDatabase
from proctor.stores.sql.run_lock_table import RunLockTable
from proctor.stores.sql.saved_cases import SavedCases
from proctor.stores.sql.suite_writer import SqlSuiteWriter
from proctor.stores.sql.trial_queue import RunState, TrialQueue
from proctor.stores.sql.versions import SuiteVersions, delete_unused_contents

T = TypeVar("T")

_VERDICT_ORDER = [verdict.value for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.ERROR, Verdict.UNSCORED)]
PAGE_ROWS = 256
"""Rows per read: short statements leave no snapshot open, so the log file can shrink meanwhile."""
_MAX_TURNS = 100_000
"""At most this many turns are read at once, from the index alone, which is not ordered by turn."""
_MAX_PLACES = 500
"""At most this many positions of a case in other runs are read, newest first."""
_CASES = """SELECT cases.body, sent FROM contents
    JOIN suite_cases ON suite_cases.suite = contents.key
    JOIN cases ON cases.digest = suite_cases.digest
    WHERE contents.content = ? AND position >= ? AND position < ? ORDER BY position"""
_MAX_CASES = 16
"""The number of cases whose trials are read at once for tables."""
_CASE_MARKS = ", ".join("?" * _MAX_CASES)
_CASES_IN = """SELECT position, cases.body, sent FROM contents
    JOIN suite_cases ON suite_cases.suite = contents.key
    JOIN cases ON cases.digest = suite_cases.digest
    WHERE contents.content = ? AND position IN ({})"""
_TRIALS_IN = """SELECT position, body, verdict FROM trials WHERE run = ? AND position IN ({})
    ORDER BY position, repeat"""
_COUNT_CASES = """SELECT passed, failed, errors, unscored, count(*) FROM (
        SELECT sum(CASE WHEN verdict = ? THEN 1 ELSE 0 END) AS passed,
               sum(CASE WHEN verdict = ? THEN 1 ELSE 0 END) AS failed,
               sum(CASE WHEN verdict = ? THEN 1 ELSE 0 END) AS errors,
               sum(CASE WHEN verdict = ? THEN 1 ELSE 0 END) AS unscored
        FROM trials WHERE run = ? AND verdict IS NOT NULL GROUP BY position) AS of_case
    GROUP BY passed, failed, errors, unscored"""
SAVE_TOTALS = """INSERT INTO totals (run, body) SELECT key, ? FROM runs WHERE key = ?
    ON CONFLICT (run) DO UPDATE SET body = excluded.body WHERE totals.changes = ?"""
_MAX_TOTALS = 32
"""The number of runs whose totals are read at once."""
_TOTALS_OF_RUNS = f"""SELECT runs.id, runs.key, totals.body, totals.changes FROM runs
    LEFT JOIN totals ON totals.run = runs.key WHERE runs.id IN ({", ".join("?" * _MAX_TOTALS)})"""  # noqa: S608
_PRIOR_PLACES = """SELECT runs.key, runs.id, suite_cases.position, suite_cases.digest
    FROM suite_cases JOIN contents ON contents.key = suite_cases.suite
    JOIN runs ON runs.content = contents.content AND runs.target = ?
    WHERE suite_cases.sent = ? {}
    ORDER BY runs.key DESC, suite_cases.position"""
_SAME_SENT_IN_RUNS = """SELECT runs.key, runs.body, suite_cases.position FROM suite_cases
    JOIN contents ON contents.key = suite_cases.suite
    JOIN runs ON runs.content = contents.content
    WHERE suite_cases.sent = ? AND runs.id <> ? ORDER BY runs.key DESC, suite_cases.position LIMIT ?"""
_SAME_SENT_IN_SUITE = """SELECT suite_cases.position, cases.body FROM suite_cases
    JOIN contents ON contents.key = suite_cases.suite
    JOIN cases ON cases.digest = suite_cases.digest
    WHERE suite_cases.sent = ? AND contents.content = ? ORDER BY suite_cases.position LIMIT 100"""
_TRIALS_AT = "SELECT body, verdict FROM trials WHERE run = ? AND position = ? ORDER BY repeat"
_VERDICTS_AT = "SELECT verdict FROM trials WHERE run = ? AND position = ? ORDER BY repeat"
_TRIALS_BY_TURN = """SELECT trials.rowid, trials.verdict, trials.body, cases.body FROM trials
    LEFT JOIN suite_cases ON suite_cases.suite = ? AND suite_cases.position = trials.position
    LEFT JOIN cases ON cases.digest = suite_cases.digest
    WHERE trials.rowid IN ({}) AND trials.run = ? AND (trials.rowid > ? OR trials.verdict IS NOT NULL)
    ORDER BY trials.rowid"""
_NEXT_RUNS = "SELECT key, body FROM runs WHERE key < ? ORDER BY key DESC LIMIT ?"
_FIRST_RUNS = 8
"""Few, as many callers want only the newest."""
_PAGE_RUNS = 64
_MAX_KEY = 2**63 - 1
_SAVE_BATCH = """INSERT INTO batches (run, key, batch, state, at, body) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET batch = excluded.batch, state = excluded.state"""
_BATCHES = "SELECT batch, state, body FROM batches WHERE run = ? ORDER BY number"
_COUNTING_LABELS = "SELECT max(number) FROM labels {} GROUP BY run, case_id, repeat, by"
"""The numbers of the labels that count: the newest label of each person for each answer."""


class SqlStore(ABC):
    """Implements what `Store` says of its rows; a subclass adds what concerns its database."""

    is_durable = True
    shared_address: str | None = None
    _select_turns = "SELECT rowid FROM trials WHERE run = ? AND rowid > ? ORDER BY rowid LIMIT ?"

    def __init__(
        self,
        database: SqlDatabase,
        folder: Path,
        queue: TrialQueue,
        run_locks: RunLockTable,
    ) -> None:
        """Stores its arguments.

        Args:
            database: a connection to the database, with its tables.
            folder: the absolute path of the store's folder, to which paths of suites are relative.
            queue: writes trials.
            run_locks: locks runs.
        """
        self._database = database
        self._queue = queue
        self._run_locks = run_locks
        self._versions = SuiteVersions(database, folder)
        self._saved_cases = SavedCases()
        self._keys: dict[str, int] = {}
        self._is_closed = False
        self._select, self._fetch_one, self._read = database.select, database.fetch_one, database.read

    @abstractmethod
    def _stage_cases(self) -> CaseStaging:
        """Returns what writes the cases of a suite before they are visible."""

    @abstractmethod
    def _find_newest_tagged(self, tag: str) -> Any:
        """Returns the row with the body of the newest run with a tag; None if there is none."""

    @property
    def _shown_address(self) -> str:
        """The store's address, as messages show it."""
        return self._database.address

    # --- suites ---

    def open_suite_writer(
        self, *, aside: bool = False, again: bool = False, name: Callable[[Suite], str] | None = None
    ) -> SqlSuiteWriter:
        """Starts to save a suite; nothing of it is visible before `commit`."""
        return SqlSuiteWriter(
            self._database,
            self._versions,
            self._stage_cases(),
            self._saved_cases,
            aside=aside,
            again=again,
            name=name,
        )

    def suite(self, name: str, version: str | None = None) -> Suite | None:
        """Returns the suite of that name, or None.

        Raises:
            StoreError: several versions have a digest that begins like `version`.
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
        self._saved_cases.clear()

    def cases(self, content: str, start: int = 0) -> Iterator[StoredCase]:
        """Yields the cases of a suite's content from a position on, in order, without holding them all."""
        saved_rows = None if start else self._saved_cases.take(content)
        for body, sent_digest in saved_rows or self._case_rows(content, start):
            try:
                stored_case = _decode_case(body, sent_digest)
            except READ_ERRORS as error:
                raise self._database.make_damage_error(error) from error
            yield stored_case

    def case_heads(self, content: str) -> Iterator[CaseHead]:
        """Yields all cases of a suite's content as `cases` does, but reads only what lists show of them."""
        for body, _ in self._case_rows(content):
            yield self._read(partial(decode, body, CaseHead))

    def _case_rows(self, content: str, start: int = 0) -> Iterator[tuple[bytes, bytes]]:
        while rows := self._read_cases(content, start):
            yield from rows
            start += PAGE_ROWS

    def _read_cases(self, content: str, start: int) -> list[Any]:
        return self._select(_CASES, content, start, start + PAGE_ROWS)

    def case_in_run(self, run: Run, position: int) -> CaseInRun | None:
        """Returns the case at a position of a run's suite, with its trials; None past the end."""
        return next(self.cases_in_run(run, [position]))

    def cases_in_run(self, run: Run, positions: Iterable[int]) -> Iterator[CaseInRun | None]:
        """Yields what `case_in_run` returns for each position, in that order; reads several at once."""
        remaining = iter(positions)
        while page := list(islice(remaining, _MAX_CASES)):
            if len(page) == 1:
                marks, values = "?", page
            else:  # always as many, so that the database prepares one statement
                marks, values = _CASE_MARKS, page + page[-1:] * (_MAX_CASES - len(page))
            trials: dict[int, list[StoredTrial]] = {}
            rows = self._select(_TRIALS_IN.format(marks), self._key(run.id), *values)
            for position, body, verdict in rows:
                stored_trial = self._read(partial(_decode_trial, body, verdict))
                trials.setdefault(position, []).append(stored_trial)
            cases = {}
            for position, body, sent in self._select(_CASES_IN.format(marks), run.suite.content, *values):
                stored_case = self._read(partial(_decode_case, body, sent))
                cases[position] = CaseInRun(
                    case=fill_stored_case(stored_case, run),
                    suite_case=stored_case.case,
                    trials=tuple(trials.get(position, ())),
                )
            yield from map(cases.get, page)

    def find_position(self, run: Run, sent_digest: str, case_id: str) -> int | None:
        """Returns the position of the case with that digest in the suite of a run, or None."""
        rows = self._select(_SAME_SENT_IN_SUITE, bytes.fromhex(sent_digest[7:]), run.suite.content)
        if len(rows) > 1:
            for position, body in rows:
                if self._read(partial(decode, body, Case)).id == case_id:
                    return int(position)
        return int(rows[0][0]) if rows else None

    def find_same_case(self, run: Run, sent_digest: str, limit: int) -> list[SameCaseRun]:
        """Returns the newest other runs of a suite of the same name that sent the same; at most `limit`."""
        matches: list[SameCaseRun] = []
        sent = bytes.fromhex(sent_digest[7:])
        for key, body, position in self._select(_SAME_SENT_IN_RUNS, sent, run.id, _MAX_PLACES):
            other = self._read(partial(decode, body, Run))
            if other.suite.name != run.suite.name:
                continue
            words = [word for (word,) in self._select(_VERDICTS_AT, key, position)]
            if words:
                verdicts = tuple([self._read(partial(_decode_verdict, word)) for word in words])
                matches.append(SameCaseRun(run=other, position=position, verdicts=verdicts))
            if len(matches) == limit:
                break
        return matches

    # --- runs ---

    def add_run(self, run: Run) -> None:
        """Adds a run that is starting, and locks it for this process.

        Raises:
            StoreError: the content of its suite has been deleted since it was saved.
        """
        with self._database.transaction():
            if self._fetch_one("SELECT 1 FROM contents WHERE content = ?", run.suite.content) is None:
                raise StoreError(
                    f"The cases of suite {run.suite.name!r} were just removed from {self._database.address} "
                    f"by another process. Run the suite again."
                )
            self._database.execute(
                "INSERT INTO runs (id, started_at, suite, content, target, settings, status, body) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                *(run.id, run.started_at.isoformat(), run.suite.digest, run.suite.content),
                call_digest(run.target, run.prompt),
                settings_digest((run.settings.selection, run.settings.repeats)),
                *(run.status, encode(run)),
            )
            self.lock_run(run.id)  # while no other process can see it
            self.secret(run.id)  # so that copies of the store export the same bundles

    def lock_run(self, run_id: str) -> None:
        """Locks a run for this process; raises StoreError if another process has locked it."""
        with self._database.as_store_errors():
            key = self._key(run_id)
            if not self._run_locks.lock(key):
                owner = self._run_locks.find_owner(key)
                who = "another process" if owner is None else owner.title
                raise StoreError(
                    f"Run {run_id} is already running in {who}. Wait until it ends, stop it with `proctor "
                    f"runs stop {run_id}`, or start a new run."
                )

    def update_run(self, run: Run, *, wait: bool = True, totals: bytes | None = None) -> None:
        """Saves the current state of a run, after all trials so far."""
        self._queue.put_state(RunState(self._key(run.id), run.status, encode(run), totals))
        if wait:
            self._queue.flush()

    def runs(self) -> Iterator[Run]:
        """Yields every run, newest first."""
        before, limit = _MAX_KEY, _FIRST_RUNS
        while rows := self._database.select_page(_NEXT_RUNS, before, limit, body=1):
            for key, body in rows:
                run = self._read(partial(decode, body, Run))
                self._keys[run.id] = key
                yield run
            before, limit = rows[-1][0], _PAGE_RUNS

    def run(self, word: str) -> Run:
        """Returns the run that a word names.

        Raises:
            StoreError: there is none, or more than one.
        """
        body = self._fetch_one("SELECT body FROM runs WHERE id = ?", word)
        if body is None and word == "last":
            body = self._fetch_one("SELECT body FROM runs ORDER BY key DESC LIMIT 1")
        body = body or self._find_newest_tagged(word) or self._find_by_prefix(word)
        if body is None:
            raise StoreError(
                f"There is no run {word!r} in {self._shown_address}. `proctor runs list` shows the runs, and "
                f"`proctor runs tag` gives a run a name."
            )
        return self._read(partial(decode, body[0], Run))

    def _find_by_prefix(self, word: str) -> Any:
        """Returns the only run whose id begins with the word; None if there is none."""
        rows = self._select(
            "SELECT body, id FROM runs WHERE substr(id, 1, ?) = ? AND ? <> '' ORDER BY key DESC LIMIT 3",
            *(len(word), word, word),
        )
        if len(rows) > 1:
            ids = ", ".join(row[1] for row in rows)
            raise StoreError(
                f"More than one run begins with {word!r}: {ids}. Write more characters of the id."
            )
        return rows[0] if rows else None

    def find_equivalent_runs(self, suite_digest: str, call_digest: str, settings_digest: str) -> list[Run]:
        """Returns the runs with the same suite, target and settings, newest first."""
        rows = self._select(
            "SELECT body FROM runs WHERE suite = ? AND target = ? AND settings = ? ORDER BY key DESC",
            *(suite_digest, call_digest, settings_digest),
        )
        return [self._read(partial(decode, body, Run)) for (body,) in rows]

    def find_prior_answers(
        self, sent_digest: str, call_digest: str, run_id: str | None = None
    ) -> Iterator[PriorAnswer]:
        """Yields trials with an output for the same request to the same target, newest run first.

        Trials that are not durable yet are not found. One run is read at a time.
        """
        in_run, values = ("", ()) if run_id is None else ("AND runs.id = ?", (run_id,))
        sent = bytes.fromhex(sent_digest[7:])
        places = self._select(_PRIOR_PLACES.format(in_run), call_digest, sent, *values)
        for key, name, position, digest in places:
            rows = self._select(_TRIALS_AT, key, position)
            if not rows:
                continue
            body = self._fetch_one("SELECT body FROM cases WHERE digest = ?", digest)
            case = self._read(partial(_decode_case_of_trial, body and body[0]))
            for row in rows:
                stored = self._read(partial(_decode_trial, *row))
                if stored.trial.output is not None:
                    yield PriorAnswer(run=name, trial=stored.trial, verdict=stored.verdict, case=case)

    def delete_run(self, run_id: str) -> None:
        """Deletes a run and its trials; the version of the suite and the labels of its answers stay."""
        self.lock_run(run_id)
        key = self._key(run_id)
        self._queue.flush()
        with self._database.transaction():
            for table in ("trials", "secrets", "variables", "totals", "batches"):
                self._database.execute(f"DELETE FROM {table} WHERE run = ?", key)  # noqa: S608  # names of ours
            self._database.execute("DELETE FROM runs WHERE key = ?", key)
            delete_unused_contents(self._database)
        self._saved_cases.clear()
        self._keys.pop(run_id, None)

    def secret(self, run_id: str) -> bytes:
        """Returns the run's own 32 random bytes, which are created at first use."""
        key, select = self._key(run_id), "SELECT secret FROM secrets WHERE run = ?"
        row = self._fetch_one(select, key)
        if row is None:  # a read-only store may already have one
            self._database.execute(
                "INSERT INTO secrets (run, secret) VALUES (?, ?) ON CONFLICT (run) DO NOTHING",
                *(key, os.urandom(32)),
            )
            row = self._fetch_one(select, key)
        return bytes(row[0])

    def save_variable_digests(self, run_id: str, digests: Mapping[str, bytes]) -> None:
        """Saves keyed digests of the values of a run's environment variables, by their names."""
        rows = [(self._key(run_id), *row) for row in digests.items()]
        with self._database.transaction():
            self._database.execute_many(
                "INSERT INTO variables (run, name, digest) VALUES (?, ?, ?) "
                "ON CONFLICT (run, name) DO UPDATE SET digest = excluded.digest",
                rows,
            )

    def variable_digests(self, run_id: str) -> dict[str, bytes]:
        """Returns what `save_variable_digests` saved for a run; empty for a run of an older Proctor."""
        return dict(self._select("SELECT name, digest FROM variables WHERE run = ?", self._key(run_id)))

    def save_batch(self, run_id: str, batch: StoredBatch) -> None:
        """Saves a batch of a run; one with the same key gets its id and its state."""
        at, body = batch.submitted_at.isoformat(), encode(batch)
        self._database.execute(
            _SAVE_BATCH, self._key(run_id), batch.key, batch.batch_id, batch.state, at, body
        )

    def batches(self, run_id: str) -> list[StoredBatch]:
        """Returns the batches of a run, oldest first."""
        rows = self._select(_BATCHES, self._key(run_id))
        return [self._read(partial(_decode_batch, *row)) for row in rows]

    # --- trials ---

    def save_output(self, run_id: str, trial: Trial) -> None:
        """Saves a trial with an output whose grading has not ended."""
        self._queue.put((self._key(run_id), trial.position, trial.repeat, None, encode(trial)))

    def save_trial(self, run_id: str, trial: Trial, verdict: Verdict) -> None:
        """Saves a finished trial; a second one for the same case and repeat is ignored."""
        key = self._keys.get(run_id) or self._key(run_id)
        self._queue.put((key, trial.position, trial.repeat, str(verdict), encode(trial)))

    def totals(self, run_id: str) -> StoredTotals:
        """Returns the stored totals of a run."""
        self._queue.flush()
        key = self._key(run_id)
        body, changes = self._fetch_one("SELECT body, changes FROM totals WHERE run = ?", key) or (None, 0)
        return StoredTotals(body, key, changes)

    def totals_of_runs(self, run_ids: Iterable[str]) -> dict[str, StoredTotals]:
        """Returns the stored totals of runs by id, without those that are not there; reads many at once."""
        self._queue.flush()
        totals, remaining = dict[str, StoredTotals](), iter(run_ids)
        while page := list(islice(remaining, _MAX_TOTALS)):
            page += page[-1:] * (_MAX_TOTALS - len(page))  # so that the database prepares one statement
            for run_id, key, body, changes in self._select(_TOTALS_OF_RUNS, *page):
                totals[run_id] = StoredTotals(body, key, changes or 0)
        return totals

    def save_totals(self, run_id: str, totals: StoredTotals) -> None:
        """Saves the totals of a run if it has not changed since and the store can be written right now."""
        self._try_now(SAVE_TOTALS, totals.body, self._key(run_id), totals.changes)

    def count_verdicts(self, run_id: str) -> dict[Verdict | None, int]:
        """Returns the number of a run's trials by stored verdict; None for trials without one."""
        rows = self._select(
            "SELECT verdict, count(*) FROM trials WHERE run = ? GROUP BY verdict", self._key(run_id)
        )
        return self._read(lambda: {_decode_verdict(verdict): count for verdict, count in rows})

    def count_cases(self, run_id: str) -> dict[tuple[int, int, int, int], int]:
        """Returns the number of a run's cases by how many of their trials have which stored verdict."""
        rows = self._select(_COUNT_CASES, *_VERDICT_ORDER, self._key(run_id))
        return {(passed, failed, errors, unscored): count for passed, failed, errors, unscored, count in rows}

    def trials(self, run_id: str) -> Iterator[StoredTrial]:
        """Yields a run's trials in suite order, without holding them all."""
        self._queue.flush()
        key, position, repeat = self._key(run_id), -1, 0
        while True:
            rows = self._database.select_page(
                "SELECT position, repeat, verdict, body FROM trials WHERE run = ? "
                "AND (position, repeat) > (?, ?) ORDER BY position, repeat LIMIT ?",
                *(key, position, repeat, PAGE_ROWS),
                body=3,
            )
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
        """Returns the positions and repeats of some finished trials of a run, in suite order."""
        self._queue.flush()
        is_selected = f"verdict IN ({', '.join('?' * len(verdicts))})" if verdicts else "verdict IS NOT NULL"
        is_after = "" if after is None else f"AND (position, repeat) {'<' if back else '>'} (?, ?)"
        order = "position DESC, repeat DESC" if back else "position, repeat"
        statement = (
            f"SELECT position, repeat FROM trials WHERE run = ? AND {is_selected} {is_after} "  # noqa: S608  # marks
            f"ORDER BY {order} LIMIT ?"
        )
        return self._select(statement, self._key(run_id), *verdicts, *(after or ()), limit)

    # --- following a run ---

    def get_progress(self, run_id: str) -> tuple[int, int]:
        """Returns the number of stored trials of a run and the turn of the last, or 0. Fast for any run."""
        self._queue.flush()
        select = "SELECT count(*), coalesce(max(rowid), 0) FROM trials WHERE run = ?"
        ((count, last),) = self._select(select, self._key(run_id))
        return int(count), int(last)

    def trials_since(
        self, run_id: str, after: int = 0, waiting: Collection[int] = ()
    ) -> Iterator[TrialUpdate]:
        """Yields a run's trials in the order in which they were first stored, without holding them all."""
        self._queue.flush()
        return self._iter_new_trials(self._key(run_id), after, waiting)

    def _iter_new_trials(self, key: int, after: int, waiting: Collection[int]) -> Iterator[TrialUpdate]:
        suite = self._fetch_one(
            "SELECT contents.key FROM runs JOIN contents ON contents.content = runs.content "
            "WHERE runs.key = ?",
            key,
        )
        turns = self._iter_turns(key, after, waiting)
        while some := list(islice(turns, PAGE_ROWS)):
            while some:
                rows = self._database.select_page(
                    _TRIALS_BY_TURN.format(", ".join("?" * len(some))),
                    *(suite and suite[0], *some, key, after),
                    body=2,
                )
                for row in rows:
                    yield self._read(partial(_decode_update, *row))
                some = [turn for turn in some if rows and turn > rows[-1][0]]

    def _iter_turns(self, key: int, after: int, waiting: Collection[int]) -> Iterator[int]:
        yield from sorted(waiting)
        while turns := self._select(self._select_turns, key, after, _MAX_TURNS):
            yield from (turn for (turn,) in turns)
            after = turns[-1][0]

    def is_run_locked(self, run_id: str) -> bool:
        """Returns whether any process has locked the run; True if the system cannot tell."""
        with self._database.as_store_errors():
            return self._run_locks.is_locked(self._key(run_id))

    def unlocked_runs(self) -> frozenset[str]:
        """Returns the ids of the runs that are stored as `running` and certainly locked by no process."""
        run_ids = dict(self._select("SELECT key, id FROM runs WHERE status = 'running'"))
        with self._database.as_store_errors():
            unlocked_keys = self._run_locks.find_unlocked(run_ids) if run_ids else ()
        return frozenset([run_ids[key] for key in unlocked_keys])

    def lock_owner(self, run_id: str) -> RunOwner | None:
        """Returns the process that has locked the run, which may be this process; None if none has."""
        with self._database.as_store_errors():
            return self._run_locks.find_owner(self._key(run_id))

    def request_stop(self, run_id: str) -> bool:
        """Requests the owner of the lock of a run to stop it; returns False if it cannot be reached."""
        with self._database.as_store_errors():
            return self._run_locks.request_stop(self._key(run_id))

    def is_stop_requested(self, run_id: str) -> bool:
        """Returns whether `request_stop` was called for a run since it was locked; for any thread."""
        with self._database.as_store_errors():
            return self._run_locks.is_stop_requested(self._key(run_id))

    # --- calibrations, accesses, labels and comments, which outlive the runs ---

    def add_calibration(self, calibration: Calibration) -> None:
        """Saves the calibration of a judge."""
        self._database.execute(
            "INSERT INTO calibrations (judge, body) VALUES (?, ?)", calibration.judge, encode(calibration)
        )

    def calibrations(self, judge: str) -> list[Calibration]:
        """Returns the calibrations of the judge with that target digest, oldest first."""
        rows = self._select("SELECT body FROM calibrations WHERE judge = ? ORDER BY key", judge)
        return [self._read(partial(decode, body, Calibration)) for (body,) in rows]

    @abstractmethod
    def check_can_record_access(self) -> None:
        """Raises StoreError if no holdout access can be saved."""

    def add_holdout_access(self, access: HoldoutAccess) -> None:
        """Saves an access to a holdout."""
        self.check_can_record_access()
        self._database.execute("INSERT INTO looks (suite, body) VALUES (?, ?)", access.suite, encode(access))

    def holdout_accesses(self, suite_digest: str) -> list[HoldoutAccess]:
        """Returns the accesses to the holdout of a suite, oldest first, including those of deleted runs."""
        rows = self._select("SELECT body FROM looks WHERE suite = ? ORDER BY key", suite_digest)
        return [self._read(partial(decode, body, HoldoutAccess)) for (body,) in rows]

    def add_label(self, label: Label, *, held_out: bool = False, at: datetime | None = None) -> StoredLabel:
        """Saves a label of a run's answer; it replaces the same person's earlier label."""
        at = at or datetime.now(UTC)
        number = self._database.insert(
            "INSERT INTO labels (run, case_id, repeat, by, held_out, at, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(label.run, label.case_id, label.repeat, label.by, int(held_out), at.isoformat(), encode(label)),
            key="number",
        )
        return StoredLabel(number=number, label=label, held_out=held_out, at=at)

    def remove_label(self, number: int) -> bool:
        """Removes a label, so that the one before it counts again; returns False if it is already removed."""
        return self._database.execute("DELETE FROM labels WHERE number = ?", number) > 0

    def labels(self, run_id: str | None = None) -> list[StoredLabel]:
        """Returns the labels that count, of one run or of all, oldest first."""
        one_run, values = ("WHERE run = ?", (run_id,)) if run_id is not None else ("", ())
        rows = self._select(
            "SELECT number, held_out, at, body FROM labels "  # noqa: S608  # a constant
            f"WHERE number IN ({_COUNTING_LABELS.format(one_run)}) ORDER BY number",
            *values,
        )
        return [self._read(partial(_decode_label, *row)) for row in rows]

    def count_labelled_answers(self) -> dict[str, int]:
        """Returns the number of labelled answers by run id, including deleted runs."""
        return dict(
            self._select(
                "SELECT run, count(*) FROM (SELECT DISTINCT run, case_id, repeat FROM labels) AS answers "
                "GROUP BY run"
            )
        )

    def add_comment(self, comment: Comment, *, at: datetime | None = None) -> StoredComment:
        """Saves a comment on a run's answer, of a time or of now."""
        at = at or datetime.now(UTC)
        number = self._database.insert(
            "INSERT INTO comments (run, case_id, repeat, at, body) VALUES (?, ?, ?, ?, ?)",
            *(comment.run, comment.case_id, comment.repeat, at.isoformat(), encode(comment)),
            key="number",
        )
        return StoredComment(number=number, comment=comment, at=at)

    def remove_comment(self, number: int) -> bool:
        """Removes a comment for good; returns False if it is already removed."""
        return self._database.execute("DELETE FROM comments WHERE number = ?", number) > 0

    def comments(self, run_id: str, case_id: str | None = None) -> list[StoredComment]:
        """Returns the comments on the answers of a run, or of one of its cases, oldest first."""
        one_case, values = ("", ()) if case_id is None else ("AND case_id = ?", (case_id,))
        rows = self._select(
            f"SELECT number, at, body FROM comments WHERE run = ? {one_case} ORDER BY number",  # noqa: S608
            run_id,
            *values,
        )
        return [self._read(partial(_decode_comment, *row)) for row in rows]

    # --- the database ---

    @abstractmethod
    def _try_now(self, statement: str, *values: object) -> None:
        """Executes a statement if the database can be written right now; does nothing otherwise."""

    def count_unused_rows(self) -> dict[str, int]:
        """Returns the number of unreferenced rows by kind, without kinds that have none."""
        from proctor.stores.sql.unused_rows import count_unused_rows

        with self._database.as_store_errors():
            return count_unused_rows(self._database, self._stage_cases())

    def delete_unused_rows(self) -> None:
        """Deletes unreferenced rows, without blocking other processes for long."""
        from proctor.stores.sql.unused_rows import delete_unused_rows

        with self._database.as_store_errors():
            delete_unused_rows(self._database, self._stage_cases())

    def is_full(self) -> bool:
        """Returns whether too many trials are pending for new requests to be sent."""
        return self._queue.is_full()

    def health(self) -> StoreHealth:
        """Returns how far the store is behind, and what is wrong with its file."""
        return self._queue.health()

    def flush(self, timeout_s: float | None = None) -> bool:
        """Waits until everything so far is durable; returns False if that takes longer than the timeout."""
        return self._queue.flush(timeout_s)

    def close(self) -> None:
        """Flushes and releases all resources. Safe to call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._queue.close()
        finally:
            self._run_locks.close()
            self._database.close()

    def _key(self, run_id: str) -> int:
        key = self._keys.get(run_id)
        if key is None:
            row = self._fetch_one("SELECT key FROM runs WHERE id = ?", run_id)
            if row is None:
                raise StoreError(f"There is no run {run_id!r} in {self._shown_address}.")
            key = self._keys[run_id] = int(row[0])
        return key


def _decode_case(body: bytes, sent_digest: bytes) -> StoredCase:
    return StoredCase(decode(body, Case), "sha256:" + sent_digest.hex())


def _decode_trial(body: bytes, verdict: str | None) -> StoredTrial:
    return StoredTrial(decode(body, Trial), _decode_verdict(verdict))


def _decode_update(turn: int, verdict: str | None, body: bytes, case: bytes | None) -> TrialUpdate:
    stored = _decode_trial(body, verdict)
    return TrialUpdate(turn, stored.trial, stored.verdict, _decode_case_of_trial(case))


def _decode_case_of_trial(body: bytes | None) -> Case:
    if body is None:
        raise ValueError("a case is missing")
    return decode(body, Case)


def _decode_label(number: int, held_out: int, at: str, body: bytes) -> StoredLabel:
    label = decode(body, Label)
    return StoredLabel(number=number, label=label, held_out=bool(held_out), at=datetime.fromisoformat(at))


def _decode_comment(number: int, at: str, body: bytes) -> StoredComment:
    return StoredComment(number=number, comment=decode(body, Comment), at=datetime.fromisoformat(at))


def _decode_batch(batch_id: str | None, state: str, body: bytes) -> StoredBatch:
    return replace(decode(body, StoredBatch), batch_id=batch_id, state=state)


def _decode_verdict(word: str | None) -> Verdict | None:
    return None if word is None else Verdict(word)
