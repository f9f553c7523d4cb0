"""Checks the rows of a store that Proctor relies on: each can be read, and agrees with the others."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any

from msgspec import DecodeError, Struct

from proctor.codec import decode
from proctor.model import Calibration, Case, Comment, HoldoutAccess, Label, Run, Suite, Trial, Verdict
from proctor.plurals import join_names, pluralize
from proctor.store_protocol import Progress, StoredBatch
from proctor.stores.location import StoreProblem
from proctor.stores.sql.run_lock_table import RunLockTable
from proctor.stores.sql.versions import IS_UNFINISHED

Rows = Callable[..., Iterator[Any]]
"""Yields the rows that a statement with its values selects, without holding them all."""
_BODY_TYPES: dict[str, type] = {
    "cases": Case,
    "looks": HoldoutAccess,
    "calibrations": Calibration,
    "labels": Label,
    "comments": Comment,
    "batches": StoredBatch,
    "trials": Trial,
    "runs": Run,
    "versions": Suite,
}


class Remedies(Struct, frozen=True, kw_only=True):
    """What to do about problems, as sentences."""

    row: str
    """A damaged row."""
    suite: str
    """A suite without some of its cases."""
    run: str
    """A finished run without all of its trials; `{run}` stands for its id."""


class RowCheck:
    """Checks the rows of a store."""

    def __init__(
        self, address: str, rows: Rows, run_locks: RunLockTable, on_progress: Progress, remedies: Remedies
    ) -> None:
        """Stores its arguments.

        Args:
            address: the store's, for messages.
            rows: reads the store, as it was at one moment.
            run_locks: the locks of its runs.
            on_progress: called with the amount done and the total.
            remedies: what to do about problems.
        """
        self._address = address
        self._rows = rows
        self._run_locks = run_locks
        self._on_progress = on_progress
        self._remedies = remedies
        self._read_rows = 0

    def find_problems(self, rows: dict[str, int]) -> Iterator[StoreProblem]:
        """Yields all problems; `rows` has the number of rows of each table."""
        total = sum(rows.get(table, 0) for table in _BODY_TYPES)
        for table, kind in _BODY_TYPES.items():
            yield from self._check_bodies(table, kind, total)
        yield from self._check_contents()
        yield from self._check_references()
        yield from self._check_runs()

    def find_notes(self) -> Iterator[str]:
        """Yields remarks that are not problems."""
        for key, run_id, count, planned_count in self._iter_unfinished():
            if not self._run_locks.is_locked(key):
                yield (
                    f"Run {run_id} is unfinished: it has {count:,} of {pluralize(planned_count, 'trial')}. "
                    f"`proctor run --resume={run_id} --store {shlex.quote(self._address)}` completes it."
                )

    def _check_bodies(self, table: str, kind: type, total: int) -> Iterator[StoreProblem]:
        """Finds rows that cannot be read, or whose columns differ from their content."""
        unreadable, different = [], []
        for row in self._rows(_SELECT.get(table, f"SELECT key, body FROM {table}")):  # noqa: S608
            key, body, *columns = row
            try:
                if not isinstance(body, bytes):
                    raise TypeError(body)
                noun: Any = decode(body, kind)
            except (DecodeError, ValueError, TypeError):
                unreadable.append(str(key))
            else:
                if table in _COLUMN_CHECKS and not _COLUMN_CHECKS[table](noun, body, *columns):
                    different.append(str(key))
            self._read_rows += 1
            if not self._read_rows % 1000:
                self._on_progress(self._read_rows, total)
        for keys, fault in (
            (unreadable, "that cannot be read"),
            (different, "whose columns and content differ"),
        ):
            if keys:
                yield StoreProblem(
                    code="row",
                    message=f"Table {table} has {pluralize(len(keys), 'row')} {fault}: "
                    f"{join_names(keys, 3)}.",
                    remedy=self._remedies.row,
                )

    def _check_contents(self) -> Iterator[StoreProblem]:
        """Finds suites whose cases do not match their digest."""
        names: dict[str, str] = {}
        for body, content in self._rows("SELECT body, content FROM versions WHERE content IS NOT NULL"):
            with suppress(DecodeError, ValueError, TypeError):
                names[content] = decode(body, Suite).title
        whole = f"SELECT key, content FROM contents WHERE {_IS_WHOLE}"  # noqa: S608
        for key, content in list(self._rows(whole)):
            name = names.get(content, content[:19])
            count, digest, gaps = 0, sha256(b"proctor/content/1\n"), False
            places = "SELECT position, digest FROM suite_cases WHERE suite = ? ORDER BY position"
            for position, case in self._rows(places, key):
                gaps = gaps or position != count or not isinstance(case, bytes)
                count += 1
                digest.update(b"" if gaps else case)
            if gaps:
                yield StoreProblem(
                    code="suite",
                    message=f"Suite {name} is missing some of its cases.",
                    remedy=self._remedies.suite,
                )
            elif "sha256:" + digest.hexdigest() != content:
                yield StoreProblem(
                    code="suite",
                    message=f"The cases of suite {name} ({pluralize(count, 'case')}) "
                    "do not match its digest.",
                    remedy=self._remedies.suite,
                )

    def _check_references(self) -> Iterator[StoreProblem]:
        """Finds rows that refer to missing rows."""
        for query, code, message, noun in _REFERENCES:
            names = [str(name) for (name,) in self._rows(query)]
            if names:
                yield StoreProblem(
                    code=code,
                    message=message.format(names=join_names(names, 3), count=pluralize(len(names), noun)),
                    remedy=self._remedies.suite,
                )

    def _check_runs(self) -> Iterator[StoreProblem]:
        """Finds finished runs without all their trials."""
        for _, run_id, status, planned_count, stored_count in self._iter_runs():
            if status == "finished" and stored_count != planned_count:
                yield StoreProblem(
                    code="run",
                    message=f"Run {run_id} is marked as finished but has {stored_count:,} of "
                    f"{pluralize(planned_count, 'trial')}.",
                    remedy=self._remedies.run.format(run=run_id),
                )

    def _iter_unfinished(self) -> Iterator[tuple[int, str, int, int]]:
        for key, run_id, status, planned_count, stored_count in self._iter_runs():
            if status != "finished":
                yield key, run_id, stored_count, planned_count

    def _iter_runs(self) -> Iterator[tuple[int, str, str, int, int]]:
        counts = dict(self._rows("SELECT run, count(*) FROM trials WHERE verdict IS NOT NULL GROUP BY run"))
        for key, body in list(self._rows("SELECT key, body FROM runs ORDER BY key")):
            with suppress(DecodeError, ValueError, TypeError):
                run = decode(body, Run)
                yield key, run.id, run.status, run.planned, counts.get(key, 0)


_SELECT = {
    "cases": "SELECT key, body, digest FROM cases",
    "labels": "SELECT number, body, run, case_id, repeat, by FROM labels",
    "comments": "SELECT number, body, run, case_id, repeat FROM comments",
    "batches": "SELECT number, body, key FROM batches",
    "trials": "SELECT rowid, body, position, repeat, verdict FROM trials",
    "runs": "SELECT key, body, id, suite, content, status FROM runs",
    "versions": "SELECT name || ' v' || number, body, name, number, digest, content FROM versions "
    "WHERE content IS NOT NULL",
}
_VERDICT_WORDS = {None, *(verdict.value for verdict in Verdict)}


def _columns_match_run(run: Run, _body: bytes, *columns: Any) -> bool:
    return columns == (run.id, run.suite.digest, run.suite.content, run.status)


def _columns_match_suite(suite: Suite, _body: bytes, *columns: Any) -> bool:
    name, number, digest, content = columns
    return (suite.name, suite.version, suite.digest, suite.content) == (name, f"v{number}", digest, content)


def _columns_match_trial(trial: Trial, _body: bytes, *columns: Any) -> bool:
    position, repeat, verdict = columns
    return (trial.position, trial.repeat) == (position, repeat) and verdict in _VERDICT_WORDS


_COLUMN_CHECKS: dict[str, Callable[..., bool]] = {
    "cases": lambda _case, body, digest: sha256(body).digest() == digest,
    "labels": lambda label, _body, *columns: columns == (label.run, label.case_id, label.repeat, label.by),
    "comments": lambda comment, _body, *columns: columns == (comment.run, comment.case_id, comment.repeat),
    "batches": lambda batch, _body, key: key == batch.key,
    "trials": _columns_match_trial,
    "runs": _columns_match_run,
    "versions": _columns_match_suite,
}
"""For each table, checks whether the columns of a row match its body."""

_IS_WHOLE = f"substr(content, 1, 11) <> 'incomplete:' AND NOT ({IS_UNFINISHED})"
_MISSING_CASES = f"""SELECT DISTINCT contents.content FROM suite_cases
    JOIN contents ON contents.key = suite_cases.suite
    WHERE suite_cases.digest NOT IN (SELECT digest FROM cases) AND {_IS_WHOLE}"""  # noqa: S608
_MISSING_CONTENTS = """SELECT name || ' v' || number FROM versions
    WHERE content IS NOT NULL AND content NOT IN (SELECT content FROM contents)"""
_MISSING_SUITES = "SELECT id FROM runs WHERE content NOT IN (SELECT content FROM contents)"
_REFERENCES = (
    (_MISSING_CASES, "suite", "Cases of {count} are missing: {names}.", "suite"),
    (_MISSING_CONTENTS, "suite", "All cases of {count} are missing: {names}.", "version"),
    (_MISSING_SUITES, "run", "The suite of {count} is missing: {names}.", "run"),
)
