"""Brings a store's runs into its catalogue: each trial is read once, during the run or at the first view.

The numbers of a run that is not in progress are kept there, so that viewing it again reads no trial.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import copy
from threading import Lock
from time import monotonic
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import decode, encode_in_order
from proctor.errors import ExitCode
from proctor.model import Run, Verdict
from proctor.protocols import Store, TrialUpdate
from proctor.reports.record_fields import Status
from proctor.reports.runs.records import RunRecord
from proctor.reports.runs.serialize import (
    RunReport,
    access_note,
    failure_reason,
    gate_note,
    interval_note,
    judge_notes,
    missing_note,
    question_text,
    repeats_note,
    run_record,
)
from proctor.services.runs.reading.report import find_calibrations
from proctor.stores.catalogue.database import Catalogue
from proctor.stores.catalogue.records import CatalogueEntry, TrialRow
from proctor.verdicts import Counts, Tally, is_reused, pass_rules_for, run_exit_code, trial_score

_BATCH = 512
"""Trials that are added to the catalogue in one transaction."""
_MAX_PREVIEW = 240
"""The maximum characters of a prompt, an answer or a reason in its row."""
_MAX_REMEMBERED = 64
"""The maximum number of unfinished runs whose numbers are held in memory."""
_FORMAT_VERSION = 2
"""The version of the stored numbers; those of another version are counted again."""
_COUNT_NAMES = ("passed", "failed", "errors", "unscored", "cases")


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run with its numbers, as far as it is catalogued."""

    run: Run
    summary: RunRecord
    """Its numbers."""
    counts: Counts
    """The counts behind its pass rate."""
    done: int
    """The number of trials in these numbers."""
    stored: int
    """The number of trials in the store, including those that wait for judges."""
    planned: int
    """The number of planned trials."""
    whole: bool
    """Whether every finished trial in the store is in these numbers; else the next call adds more."""
    alive: bool
    """Whether a process is executing it right now."""
    graders: tuple[str, ...] = ()
    """The names of the graders that graded any of its answers."""
    notes: tuple[str, ...] = ()
    """Sentences that go with the numbers."""
    judges: tuple[str, ...] = ()
    """What is known about its judges, in sentences."""

    @property
    def status(self) -> Status:
        """`running`, `finished` or `interrupted`, which is also a run whose process died."""
        return "interrupted" if self.run.status == "running" and not self.alive else self.run.status


class _Cursor(Struct, frozen=True, kw_only=True):
    """What the catalogue stores about a run that is completely catalogued."""

    summary: RunRecord
    all_counts: tuple[int, ...]
    alone: tuple[int, ...]
    """The verdicts that depend on judgments alone."""
    prompts: dict[str, list[str]] = {}
    """The digests of the prompts of each judge."""
    panels: tuple[int, int] = (0, 0)
    """The number of scores with several judgments, and of those on which all judgments agree."""
    graders: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _ReadProgress:
    """The state of a run that is being read into the catalogue."""

    def __init__(self, run: Run, token: str) -> None:
        self.token = token
        self.tally = Tally(pass_rules_for(run), run.suite.repeats_rule, run.settings.repeats)
        self.after = 0
        self.waiting: set[int] = set()
        self.graders: set[str] = set()


class CatalogueSync:
    """Brings a catalogue up to date; safe to use from many threads at once."""

    def __init__(self, open_store: Callable[[], AbstractContextManager[Store]], catalogue: Catalogue) -> None:
        """Takes the store and its catalogue; nothing is read yet.

        Args:
            open_store: returns a context manager that opens the store.
            catalogue: the catalogue beside it.
        """
        self._open_store = open_store
        self._catalogue = catalogue
        self._lock = Lock()
        self._locks: dict[str, Lock] = {}
        self._progress: OrderedDict[str, _ReadProgress] = OrderedDict()
        self._last: OrderedDict[str, RunSummary] = OrderedDict()

    def refresh(self, run_id: str, patience_s: float = 1.0) -> RunSummary:
        """Adds the new trials of a run to the catalogue, and returns the run with its numbers.

        Args:
            run_id: the run.
            patience_s: about how long to read new trials; the next call reads the rest.

        Raises:
            StoreError: there is no such run, or the store or the catalogue cannot be used.
        """
        with self._open_store() as store:
            return self.refresh_in(store, store.run(run_id), patience_s)

    def refresh_in(self, store: Store, run: Run, patience_s: float = 1.0) -> RunSummary:
        """Does the same in an open store, for a run as it was just read."""
        until = monotonic() + patience_s
        alive = run.status == "running" and store.is_run_locked(run.id)
        trial_count, last = store.get_progress(run.id)
        stamp = f"{run.status} {run.finished_at} {trial_count} {last} {_FORMAT_VERSION}"
        if (summary := self._read_summary(store, run, trial_count, stamp)) is not None and not alive:
            return summary
        with self._lock:
            lock = self._locks.setdefault(run.id, Lock())
        if not lock.acquire(timeout=max(0.01, patience_s)):
            return self._last.get(run.id) or _summarize_started(store, run, trial_count, alive=alive)
        try:
            if (summary := self._read_summary(store, run, trial_count, stamp)) is not None and not alive:
                return summary  # another thread has read it all
            progress = self._get_progress(run, self._catalogue.add_run(run.id).token)
            whole = self._read_new_trials(store, run, progress, until)
            fresh_summary, cursor = _count_trials(store, run, progress, trial_count, whole=whole, alive=alive)
            if whole and not alive:
                self._catalogue.mark_complete(run.id, progress.token, stamp, encode_in_order(cursor))
                self._forget(run.id)
            else:
                self._remember(self._last, run.id, fresh_summary)
            return fresh_summary
        finally:
            lock.release()

    def summarize(self, store: Store, runs: Sequence[Run], patience_s: float = 0.3) -> dict[str, RunSummary]:
        """Returns the numbers of runs by id; trials that were counted before are not read again.

        Args:
            store: the store, open.
            runs: the runs as they were just read from it.
            patience_s: about how long to read runs that are not fully catalogued; the others are left out.
        """
        until, rows, run_summaries = monotonic() + patience_s, self._catalogue.runs(), {}
        for run in runs:
            row = rows.get(run.id)
            is_current = row is not None and row.stamp.startswith(f"{run.status} {run.finished_at} ")
            if row is not None and is_current and run.status != "running":
                run_summaries[run.id] = _summarize_cursor(run, decode(row.body, _Cursor))
            elif (seconds_left := until - monotonic()) > 0:
                run_summaries[run.id] = self.refresh_in(store, run, seconds_left)
        return run_summaries

    def prune(self, run_ids: Sequence[str]) -> None:
        """Removes all runs but these from the catalogue."""
        removed_ids = self._catalogue.runs().keys() - set(run_ids)
        self._catalogue.delete_runs(removed_ids)
        for run_id in removed_ids:
            self._forget(run_id)

    # --- reading ---

    def _read_summary(self, store: Store, run: Run, trial_count: int, stamp: str) -> RunSummary | None:
        """Returns a run from its stored numbers; None where it has none or has changed since."""
        row = self._catalogue.add_run(run.id)
        return (
            _summarize_complete(store, run, trial_count, decode(row.body, _Cursor))
            if row.stamp == stamp
            else None
        )

    def _get_progress(self, run: Run, token: str) -> _ReadProgress:
        with self._lock:
            progress = self._progress.get(run.id)
        if progress is None or progress.token != token:
            progress = _ReadProgress(run, token)
        self._remember(self._progress, run.id, progress)
        return progress

    def _read_new_trials(self, store: Store, run: Run, progress: _ReadProgress, until: float) -> bool:
        """Reads the new trials of a run until the time is over; returns whether all were read."""
        entries: list[CatalogueEntry] = []
        whole = False
        for count, trial in enumerate(store.trials_since(run.id, progress.after, tuple(progress.waiting)), 1):
            progress.after = max(progress.after, trial.turn)
            if trial.verdict is None:
                progress.waiting.add(trial.turn)
                continue
            progress.waiting.discard(trial.turn)
            entries.append(_make_entry(trial, run, progress))
            if len(entries) >= _BATCH:
                self._catalogue.add_trials(run.id, entries)
                entries = []
            if not count % 64 and monotonic() > until:
                break
        else:
            whole = True
        if entries:
            self._catalogue.add_trials(run.id, entries)
        return whole

    def _remember(self, table: OrderedDict[str, Any], run_id: str, what: object) -> None:
        with self._lock:
            table[run_id] = what
            table.move_to_end(run_id)
            while len(table) > _MAX_REMEMBERED:
                table.popitem(last=False)

    def _forget(self, run_id: str) -> None:
        with self._lock:
            self._progress.pop(run_id, None)
            self._last.pop(run_id, None)


# --- a trial to a line -------------------------------------------------------------------------------------


def _make_entry(stored_trial: TrialUpdate, run: Run, progress: _ReadProgress) -> CatalogueEntry:
    trial, case = stored_trial.trial, stored_trial.case
    verdict = progress.tally.add(trial, case, kept=is_reused(trial, run))
    output = trial.output
    question, answer = question_text(case), "" if output is None else output.text
    reason = "" if verdict is Verdict.PASS else failure_reason(trial)
    graders = tuple(dict.fromkeys([score.grader for score in trial.scores]))
    progress.graders.update(graders)
    missed = [score.grader for score in trial.scores if score.outcome is not Verdict.PASS]
    line = TrialRow(
        position=trial.position,
        repeat=trial.repeat,
        case_id=trial.case_id,
        verdict=verdict,
        score=trial_score(trial),
        split=trial.split,
        sealed=trial.split == "holdout",
        category=case.category,
        tags=case.tags,
        latency_ms=None if output is None else output.latency_ms,
        cost_usd=None if output is None else output.cost_usd,
        question=question[:_MAX_PREVIEW],
        answer=answer[:_MAX_PREVIEW],
        why=reason[:_MAX_PREVIEW],
    )
    text = "\n".join((question, answer, reason))
    return CatalogueEntry(row=line, text=text, graders=graders, missed=tuple(dict.fromkeys(missed)))


# --- numbers -----------------------------------------------------------------------------------------------


def _make_report(store: Store, run: Run, tally: Tally, counts: Counts) -> RunReport:
    return RunReport(
        run=run,
        tally=tally,
        exit_code=run_exit_code(counts, run.settings) if run.status == "finished" else ExitCode.INTERRUPTED,
        rows=lambda: iter(()),
        looks=None if run.suite.split_rule is None else len(store.holdout_accesses(run.suite.digest)),
        calibrations=find_calibrations(store, run) if tally.judge_stats.prompts else (),
    )


def _count_trials(
    store: Store, run: Run, progress: _ReadProgress, trial_count: int, *, whole: bool, alive: bool
) -> tuple[RunSummary, _Cursor]:
    """Returns a run with the numbers read so far, and what to store once it is complete."""
    tally = progress.tally
    report = _make_report(store, run, tally, tally.result_counts)
    figures = (
        repeats_note(report),
        interval_note(report),
        gate_note(report) if whole and not alive else None,
    )
    cursor = _Cursor(
        summary=run_record(report),
        all_counts=_counts_to_numbers(tally.all),
        alone=_counts_to_numbers(tally.judge_stats.judged_counts),
        prompts={name: sorted(digests) for name, digests in tally.judge_stats.prompts.items()},
        panels=(tally.judge_stats.panels, tally.judge_stats.unanimous),
        graders=tuple(sorted(progress.graders)),
        notes=tuple([note for note in figures if note]),
    )
    summary = RunSummary(
        run=run,
        summary=cursor.summary,
        counts=copy(tally.result_counts),  # the tally goes on counting
        done=tally.all.total,
        stored=max(trial_count, tally.all.total),
        planned=run.planned,
        whole=whole,
        alive=alive,
        graders=cursor.graders,
        notes=_list_notes(report, cursor, all_there=whole and not alive),
        judges=tuple(judge_notes(report)),
    )
    return summary, cursor


def _summarize_complete(store: Store, run: Run, trial_count: int, cursor: _Cursor) -> RunSummary:
    """Returns a run from its stored numbers, updated with what may have changed since."""
    tally = Tally(pass_rules_for(run))
    tally.all, tally.judge_stats.judged_counts = (
        _numbers_to_counts(cursor.all_counts),
        _numbers_to_counts(cursor.alone),
    )
    tally.judge_stats.prompts = {name: set(digests) for name, digests in cursor.prompts.items()}
    tally.judge_stats.panels, tally.judge_stats.unanimous = cursor.panels
    tally.splits = {name: Counts() for name in cursor.summary.splits}
    summary = _summarize_cursor(run, cursor)
    report = _make_report(store, run, tally, summary.counts)
    fresh = run_record(report)
    judge = replace(cursor.summary.judge, calibrations=fresh.judge.calibrations)
    return RunSummary(
        run=run,
        summary=replace(summary.summary, looks=report.looks, judge=judge, exit_code=fresh.exit_code),
        counts=summary.counts,
        done=summary.done,
        stored=trial_count,
        planned=run.planned,
        whole=True,
        alive=False,
        graders=cursor.graders,
        notes=_list_notes(report, cursor, all_there=True),
        judges=tuple(judge_notes(report)),
    )


def _summarize_cursor(run: Run, cursor: _Cursor) -> RunSummary:
    """Returns a run from its stored numbers alone; nothing is read from the store."""
    finished_count = sum(cursor.all_counts[:4])
    return RunSummary(
        run=run,
        summary=replace(
            cursor.summary,
            status=run.status,
            finished_at=run.finished_at,
            tags=run.tags,
            warnings=run.warnings,
        ),
        counts=_numbers_to_counts([getattr(cursor.summary, name) for name in _COUNT_NAMES]),
        done=finished_count,
        stored=finished_count,
        planned=run.planned,
        whole=True,
        alive=False,
        graders=cursor.graders,
        notes=cursor.notes,
    )


def _summarize_started(store: Store, run: Run, trial_count: int, *, alive: bool) -> RunSummary:
    """Returns a run whose first trials another thread is reading."""
    empty = _ReadProgress(run, "")
    return _count_trials(store, run, empty, trial_count, whole=False, alive=alive)[0]


def _list_notes(report: RunReport, cursor: _Cursor, *, all_there: bool) -> tuple[str, ...]:
    still = (missing_note(report) if all_there else None, access_note(report))
    return (*cursor.notes, *(note for note in still if note))


def _counts_to_numbers(counts: Counts) -> tuple[int, ...]:
    return tuple([getattr(counts, name) for name in _COUNT_NAMES])


def _numbers_to_counts(numbers: Sequence[int]) -> Counts:
    counts = Counts()
    for name, number in zip(_COUNT_NAMES, numbers, strict=True):
        setattr(counts, name, number)
    return counts
