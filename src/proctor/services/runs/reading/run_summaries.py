"""The numbers of runs for pages: from stored totals, or counted from the trials, as far as they are read.

Each trial of a run in progress is read once. The totals of a run without them are stored once all is counted.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from threading import Lock
from time import monotonic
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.model import Run
from proctor.protocols import RunOwner, Store
from proctor.reports.runs.blocks import variance_note
from proctor.reports.runs.records import RunRecord
from proctor.reports.runs.serialize import (
    RunReport,
    access_note,
    early_stop_note,
    gate_note,
    interval_note,
    judge_notes,
    merge_note,
    missing_note,
    repeats_note,
    run_record,
    shard_note,
    unmeasured_note,
)
from proctor.services.runs.reading.report import make_report
from proctor.services.runs.reading.totals import RunTotals, copy_totals, decode_totals, encode_totals
from proctor.verdicts import Counts, Tally, is_reused

_MAX_UNFINISHED = 64
"""The maximum number of unfinished runs whose numbers are held in memory."""
_MAX_NEWEST = 8
"""The number of trials of an unfinished run that are known as its newest."""
_MAX_DECODED = 1_000
"""The maximum number of runs whose stored totals are held in memory."""


class RunSummary(Struct, frozen=True, kw_only=True, dict=True):
    """A run with its numbers, as far as its trials are counted."""

    report: RunReport
    totals: RunTotals
    stored: int
    """The number of trials in the store, including those that wait for judges."""
    whole: bool
    """Whether every finished trial in the store is in these numbers; else the next call adds more."""
    owner: RunOwner | None = None
    """The process that is executing it right now."""
    newest: tuple[tuple[int, int], ...] = ()
    """The trials that were finished last, newest first, each as position and repeat; none if its totals are
    stored."""

    @property
    def run(self) -> Run:
        """The run."""
        return self.report.run

    @property
    def alive(self) -> bool:
        """Whether a process is executing it right now."""
        return self.owner is not None

    @cached_property
    def summary(self) -> RunRecord:
        """Its numbers as a record."""
        return run_record(self.report)

    @property
    def counts(self) -> Counts:
        """The counts behind its pass rate."""
        return self.totals.tally.result_counts

    @property
    def done(self) -> int:
        """The number of trials in these numbers."""
        return self.totals.tally.all.total

    @property
    def planned(self) -> int:
        """The number of planned trials."""
        return self.run.planned

    @property
    def graders(self) -> tuple[str, ...]:
        """The names of the graders that graded any of its answers."""
        return tuple(sorted(self.totals.tally.graders))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that go with the numbers."""
        report, is_complete = self.report, self.whole and not self.alive
        notes = (
            shard_note(report),
            merge_note(report),
            repeats_note(report),
            interval_note(report),
            variance_note(report),
            unmeasured_note(report),
            gate_note(report) if is_complete else None,
            missing_note(report) if is_complete else None,
            early_stop_note(report),
            access_note(report),
        )
        return tuple([note for note in notes if note])

    @property
    def judges(self) -> tuple[str, ...]:
        """What is known about its judges, in sentences."""
        return tuple(judge_notes(self.report))

    @property
    def status(self) -> str:
        """`running`, `finished` or `interrupted`, which is also a run whose process died."""
        return self.run.status


class _ReadProgress:
    """The state of a run whose trials are being counted."""

    def __init__(self, run: Run, key: int) -> None:
        self.key = key
        self.tally = Tally.for_run(run)
        self.after = 0
        self.waiting: set[int] = set()
        self.newest: deque[tuple[int, int]] = deque(maxlen=_MAX_NEWEST)


class SummaryReader:
    """Reads the numbers of runs; safe to use from many threads at once."""

    def __init__(self, open_store: Callable[[], AbstractContextManager[Store]]) -> None:
        """Takes the store; nothing is read yet.

        Args:
            open_store: returns a context manager that opens the store.
        """
        self._open_store = open_store
        self._lock = Lock()
        self._locks: dict[str, Lock] = {}
        self._progress: OrderedDict[str, _ReadProgress] = OrderedDict()
        self._last: OrderedDict[str, RunSummary] = OrderedDict()
        self._decoded: OrderedDict[str, tuple[bytes | None, RunTotals]] = OrderedDict()
        """Stored totals, as stored and as read."""

    def refresh(self, run_id: str, patience_s: float = 1.0) -> RunSummary:
        """Returns a run with its numbers, and counts its new trials if it has no stored totals.

        Args:
            run_id: the run.
            patience_s: about how long to read trials; the next call reads the rest.

        Raises:
            StoreError: there is no such run, or the store cannot be used.
        """
        with self._open_store() as store:
            return self.refresh_in(store, store.run(run_id), patience_s)

    def refresh_in(self, store: Store, run: Run, patience_s: float = 1.0) -> RunSummary:
        """Does the same in an open store, for a run as it was just read."""
        until = monotonic() + patience_s
        owner = store.lock_owner(run.id) if run.status == "running" else None
        if run.status == "running" and owner is None:  # as `current_status` says
            run = replace(run, status="interrupted")
        if owner is None and (totals := self._load_totals(store, run)) is not None:
            stored = 0 if run.status == "finished" else store.get_progress(run.id)[0]
            return _summarize(store, run, totals, stored=stored)
        with self._lock:
            lock = self._locks.setdefault(run.id, Lock())
        if not lock.acquire(timeout=max(0.01, patience_s)):
            return self._last.get(run.id) or _summarize_progress(
                store, run, _ReadProgress(run, 0), owner=owner
            )
        try:
            stored_totals = store.totals(run.id)
            progress = self._get_progress(run, stored_totals.key)
            whole = _read_new_trials(store, run, progress, until)
            summary = _summarize_progress(store, run, progress, whole=whole, owner=owner)
            if whole and owner is None:
                store.save_totals(run.id, replace(stored_totals, body=encode_totals(progress.tally)))
            self._remember(self._last, run.id, summary, _MAX_UNFINISHED)
            return summary
        finally:
            lock.release()

    def read_totals(self, store: Store, runs: Sequence[Run], patience_s: float = 0.3) -> dict[str, RunTotals]:
        """Returns the totals of runs by id.

        Args:
            store: the store, open.
            runs: the runs as they were just read from it.
            patience_s: about how long to read runs without stored totals; the others are left out.
        """
        until, totals_by_run = monotonic() + patience_s, dict[str, RunTotals]()
        stored = store.totals_of_runs([run.id for run in runs if run.status != "running"])
        for run in runs:
            totals = self._decode_totals(run, stored[run.id].body) if run.id in stored else None
            if totals is None and (seconds_left := until - monotonic()) > 0:
                totals = self.refresh_in(store, run, seconds_left).totals
            if totals is not None:
                totals_by_run[run.id] = totals
        return totals_by_run

    def _load_totals(self, store: Store, run: Run) -> RunTotals | None:
        return self._decode_totals(run, store.totals(run.id).body)

    def _decode_totals(self, run: Run, body: bytes | None) -> RunTotals | None:
        stored_body, totals = self._decoded.get(run.id, (None, None))
        if totals is None or stored_body != body:
            totals = decode_totals(run, body)
            if totals is not None:
                self._remember(self._decoded, run.id, (body, totals), _MAX_DECODED)
        return totals

    def _get_progress(self, run: Run, key: int) -> _ReadProgress:
        with self._lock:
            progress = self._progress.get(run.id)
        if progress is None or progress.key != key:
            progress = _ReadProgress(run, key)
        self._remember(self._progress, run.id, progress, _MAX_UNFINISHED)
        return progress

    def _remember(self, table: OrderedDict[str, Any], run_id: str, what: object, max_runs: int) -> None:
        with self._lock:
            table[run_id] = what
            table.move_to_end(run_id)
            while len(table) > max_runs:
                table.popitem(last=False)


def _summarize(
    store: Store,
    run: Run,
    totals: RunTotals,
    *,
    stored: int = 0,
    whole: bool = True,
    owner: RunOwner | None = None,
) -> RunSummary:
    return RunSummary(
        report=make_report(store, run, totals.tally),
        totals=totals,
        stored=max(stored, totals.tally.all.total),
        whole=whole,
        owner=owner,
    )


def _summarize_progress(
    store: Store, run: Run, progress: _ReadProgress, *, whole: bool = False, owner: RunOwner | None
) -> RunSummary:
    if whole:  # then no trial has to be counted, which may take long
        trial_count = progress.tally.all.total + len(progress.waiting)
    else:
        trial_count, _ = store.get_progress(run.id)
    totals = copy_totals(run, progress.tally)
    summary = _summarize(store, run, totals, stored=trial_count, whole=whole, owner=owner)
    return replace(summary, newest=tuple(progress.newest))


def _read_new_trials(store: Store, run: Run, progress: _ReadProgress, until: float) -> bool:
    """Counts the new trials of a run until the time is over; returns whether all were read."""
    new_trials = store.trials_since(run.id, progress.after, tuple(progress.waiting))
    for count, update in enumerate(new_trials, 1):
        progress.after = max(progress.after, update.turn)
        if update.verdict is None:
            progress.waiting.add(update.turn)
            continue
        progress.waiting.discard(update.turn)
        progress.tally.add(update.trial, update.case, kept=is_reused(update.trial, run))
        progress.newest.appendleft((update.trial.position, update.trial.repeat))
        if not count % 64 and monotonic() > until:
            return False
    return True
