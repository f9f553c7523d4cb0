"""A store's runs to its catalogue: each trial is read once, while a run is made or when somebody first looks.

The numbers of a run that is not being made are kept in the catalogue, so that a second look reads no trial.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from time import monotonic
from typing import Any

from msgspec import Struct

from proctor.codec import as_written, decode
from proctor.errors import ExitCode
from proctor.model import Run, Verdict
from proctor.protocols import Followed, Store
from proctor.reports.formatting import utc
from proctor.reports.runs.serialize import (
    Reported,
    about_judges,
    by_case,
    gate,
    missing,
    over_cases,
    question_of,
    run_row,
    which_look,
    why,
)
from proctor.services.runs.reading.report import calibrations_of
from proctor.stores.catalogue.database import Catalogue
from proctor.stores.catalogue.records import Entry, Line
from proctor.verdicts import Counts, Tally, exit_code, rules_of, score_of, taken_over

_BATCH = 512
"""Trials that are added to the catalogue in one transaction."""
_MAX_PREVIEW = 240
"""Characters of a question, an answer or a reason in its line."""
_MAX_REMEMBERED = 64
"""Unfinished runs whose numbers so far are held in memory."""
_FORM = 2
"""The number of the form in which numbers are kept; those in another form are counted again."""
_COUNTS = ("passed", "failed", "errors", "unscored", "cases")


class Looked(Struct, frozen=True, kw_only=True):
    """A run as far as it is catalogued."""

    run: Run
    summary: dict[str, Any]
    """Its numbers as `reports.rows.run_row` has them."""
    counts: Counts
    """What its pass rate is of."""
    done: int
    """How many of its trials are in these numbers."""
    stored: int
    """How many it has in the store, those that wait for their judges too."""
    planned: int
    """How many it is to have."""
    whole: bool
    """Every finished trial that is stored is in these numbers; else another look takes some more."""
    alive: bool
    """A process is making it right now."""
    graders: tuple[str, ...] = ()
    """Those that graded any of its answers, by name."""
    notes: tuple[str, ...] = ()
    """Sentences that go with the numbers."""
    judges: tuple[str, ...] = ()
    """What is known of its judges, in sentences."""

    @property
    def status(self) -> str:
        """`running`, `finished` or `interrupted`, which is also a run whose process died."""
        return "interrupted" if self.run.status == "running" and not self.alive else self.run.status


class _Cursor(Struct, frozen=True, kw_only=True):
    """What the catalogue keeps of a run that is all there."""

    summary: dict[str, Any]
    all_counts: tuple[int, ...]
    alone: tuple[int, ...]
    """The verdicts that rest on judgments alone."""
    prompts: dict[str, list[str]] = {}
    """The digests of the prompts of each judge."""
    panels: tuple[int, int] = (0, 0)
    """The scores of several judgments, and those of them on which all agree."""
    graders: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Progress:
    """A run on its way into the catalogue."""

    def __init__(self, run: Run, token: str) -> None:
        self.token = token
        self.tally = Tally(rules_of(run), run.suite.repeats_rule, run.settings.repeats)
        self.after = 0
        self.waiting: set[int] = set()
        self.graders: set[str] = set()


class Cataloguer:
    """Brings a catalogue up to date; safe to use from many threads at once."""

    def __init__(self, open_store: Callable[[], AbstractContextManager[Store]], catalogue: Catalogue) -> None:
        """Reads nothing.

        Args:
            open_store: opens the store, for as long as a block lasts.
            catalogue: the catalogue beside it.
        """
        self._open_store = open_store
        self._catalogue = catalogue
        self._lock = Lock()
        self._locks: dict[str, Lock] = {}
        self._progress: OrderedDict[str, _Progress] = OrderedDict()
        self._last: OrderedDict[str, Looked] = OrderedDict()

    def look(self, run_id: str, patience_s: float = 1.0) -> Looked:
        """A run with its numbers, after the catalogue has taken what is new of it.

        Args:
            run_id: the run.
            patience_s: about how long new trials are read; what is left is for the next look.

        Raises:
            StoreError: there is no such run, or the store or the catalogue cannot be used.
        """
        with self._open_store() as store:
            return self.look_in(store, store.run(run_id), patience_s)

    def look_in(self, store: Store, run: Run, patience_s: float = 1.0) -> Looked:
        """The same in a store that is open, for a run as it was just read from it."""
        until = monotonic() + patience_s
        alive = run.status == "running" and store.claimed(run.id)
        trial_count, last = store.reach(run.id)
        stamp = f"{run.status} {run.finished_at} {trial_count} {last} {_FORM}"
        if (summary := self._read_summary(store, run, trial_count, stamp)) is not None and not alive:
            return summary
        lock = self._get_lock(run.id)
        if not lock.acquire(timeout=max(0.01, patience_s)):
            return self._last.get(run.id) or _started(store, run, trial_count, alive=alive)
        try:
            if (summary := self._read_summary(store, run, trial_count, stamp)) is not None and not alive:
                return summary  # whoever had the lock has read it all
            progress = self._begin(run, self._catalogue.enter(run.id).token)
            whole = self._follow(store, run, progress, until)
            fresh_summary, cursor = _count_trials(store, run, progress, trial_count, whole=whole, alive=alive)
            if whole and not alive:
                self._catalogue.keep(run.id, progress.token, stamp, as_written(cursor))
                self._drop(run.id)
            else:
                self._remember(self._last, run.id, fresh_summary)
            return fresh_summary
        finally:
            lock.release()

    def summaries(self, store: Store, runs: Sequence[Run], patience_s: float = 0.3) -> dict[str, Looked]:
        """What is known of runs, by their ids, without counting the trials of any that was counted before.

        Args:
            store: the store, open.
            runs: the runs as they were just read from it.
            patience_s: about how long runs that are not all catalogued are looked at; beyond it they miss.
        """
        until, rows, run_summaries = monotonic() + patience_s, self._catalogue.seen(), {}
        for run in runs:
            row = rows.get(run.id)
            is_current = row is not None and row.stamp.startswith(f"{run.status} {run.finished_at} ")
            if row is not None and is_current and run.status != "running":
                run_summaries[run.id] = _summarize_cursor(run, decode(row.body, _Cursor))
            elif (seconds_left := until - monotonic()) > 0:
                run_summaries[run.id] = self.look_in(store, run, seconds_left)
        return run_summaries

    def tidy(self, run_ids: Sequence[str]) -> None:
        """Forget all runs but these."""
        removed_ids = self._catalogue.seen().keys() - set(run_ids)
        self._catalogue.forget(removed_ids)
        for run_id in removed_ids:
            self._drop(run_id)

    # --- reading ---

    def _read_summary(self, store: Store, run: Run, trial_count: int, stamp: str) -> Looked | None:
        """A run by what was kept of it; None where it has changed since, or nothing was."""
        row = self._catalogue.enter(run.id)
        return (
            _summarize_known(store, run, trial_count, decode(row.body, _Cursor))
            if row.stamp == stamp
            else None
        )

    def _begin(self, run: Run, token: str) -> _Progress:
        with self._lock:
            progress = self._progress.get(run.id)
        if progress is None or progress.token != token:
            progress = _Progress(run, token)
        self._remember(self._progress, run.id, progress)
        return progress

    def _follow(self, store: Store, run: Run, progress: _Progress, until: float) -> bool:
        """Take what is new of a run until the time is over; whether that was all."""
        entries: list[Entry] = []
        whole = False
        for count, trial in enumerate(store.changed(run.id, progress.after, tuple(progress.waiting)), 1):
            progress.after = max(progress.after, trial.turn)
            if trial.verdict is None:
                progress.waiting.add(trial.turn)
                continue
            progress.waiting.discard(trial.turn)
            entries.append(_entry(trial, run, progress))
            if len(entries) >= _BATCH:
                self._catalogue.add(run.id, entries)
                entries = []
            if not count % 64 and monotonic() > until:
                break
        else:
            whole = True
        if entries:
            self._catalogue.add(run.id, entries)
        return whole

    def _get_lock(self, run_id: str) -> Lock:
        with self._lock:
            return self._locks.setdefault(run_id, Lock())

    def _remember(self, table: OrderedDict[str, Any], run_id: str, what: object) -> None:
        with self._lock:
            table[run_id] = what
            table.move_to_end(run_id)
            while len(table) > _MAX_REMEMBERED:
                table.popitem(last=False)

    def _drop(self, run_id: str) -> None:
        with self._lock:
            self._progress.pop(run_id, None)
            self._last.pop(run_id, None)


# --- a trial to a line -------------------------------------------------------------------------------------


def _entry(stored_trial: Followed, run: Run, progress: _Progress) -> Entry:
    trial, case = stored_trial.trial, stored_trial.case
    verdict = progress.tally.add(trial, case, kept=taken_over(trial, run))
    output = trial.output
    question, answer = question_of(case), "" if output is None else output.text
    reason = "" if verdict is Verdict.PASS else why(trial)
    graders = tuple(dict.fromkeys([score.grader for score in trial.scores]))
    progress.graders.update(graders)
    missed = [score.grader for score in trial.scores if score.outcome is not Verdict.PASS]
    line = Line(
        position=trial.position,
        repeat=trial.repeat,
        case_id=trial.case_id,
        verdict=verdict,
        score=score_of(trial),
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
    return Entry(line=line, text=text, graders=graders, missed=tuple(dict.fromkeys(missed)))


# --- numbers -----------------------------------------------------------------------------------------------


def _make_report(store: Store, run: Run, tally: Tally, counts: Counts) -> Reported:
    return Reported(
        run=run,
        tally=tally,
        exit_code=exit_code(counts, run.settings) if run.status == "finished" else ExitCode.INTERRUPTED,
        rows=lambda: iter(()),
        looks=None if run.suite.split_rule is None else len(store.looks(run.suite.digest)),
        calibrations=calibrations_of(store, run) if tally.judging.prompts else (),
    )


def _count_trials(
    store: Store, run: Run, progress: _Progress, trial_count: int, *, whole: bool, alive: bool
) -> tuple[Looked, _Cursor]:
    """A run by what has been read of it, and what may be kept of that when it is all."""
    tally = progress.tally
    report = _make_report(store, run, tally, tally.counted)
    figures = (by_case(report), over_cases(report), gate(report) if whole and not alive else None)
    cursor = _Cursor(
        summary=run_row(report),
        all_counts=_numbers(tally.all),
        alone=_numbers(tally.judging.alone),
        prompts={name: sorted(digests) for name, digests in tally.judging.prompts.items()},
        panels=(tally.judging.panels, tally.judging.unanimous),
        graders=tuple(sorted(progress.graders)),
        notes=tuple([note for note in figures if note]),
    )
    summary = Looked(
        run=run,
        summary=cursor.summary,
        counts=_copy_counts(tally.counted),
        done=tally.all.total,
        stored=max(trial_count, tally.all.total),
        planned=run.planned,
        whole=whole,
        alive=alive,
        graders=cursor.graders,
        notes=_notes(report, cursor, all_there=whole and not alive),
        judges=tuple(about_judges(report)),
    )
    return summary, cursor


def _summarize_known(store: Store, run: Run, trial_count: int, cursor: _Cursor) -> Looked:
    """A run by what was kept of it, with what may have changed since."""
    tally = Tally(rules_of(run))
    tally.all, tally.judging.alone = _counts(cursor.all_counts), _counts(cursor.alone)
    tally.judging.prompts = {name: set(digests) for name, digests in cursor.prompts.items()}
    tally.judging.panels, tally.judging.unanimous = cursor.panels
    tally.splits = {name: Counts() for name in cursor.summary["splits"]}
    summary = _summarize_cursor(run, cursor)
    report = _make_report(store, run, tally, summary.counts)
    fresh = run_row(report)
    judge = {**cursor.summary["judge"], "calibrations": fresh["judge"]["calibrations"]}
    return Looked(
        run=run,
        summary={**summary.summary, "looks": report.looks, "judge": judge, "exit_code": fresh["exit_code"]},
        counts=summary.counts,
        done=summary.done,
        stored=trial_count,
        planned=run.planned,
        whole=True,
        alive=False,
        graders=cursor.graders,
        notes=_notes(report, cursor, all_there=True),
        judges=tuple(about_judges(report)),
    )


def _summarize_cursor(run: Run, cursor: _Cursor) -> Looked:
    """A run by what was kept of it, and nothing read from the store."""
    finished_count = sum(cursor.all_counts[:4])
    finished_at = None if run.finished_at is None else utc(run.finished_at)
    mutable = {"status": run.status, "finished_at": finished_at, "tags": list(run.tags)}
    return Looked(
        run=run,
        summary={**cursor.summary, **mutable, "warnings": list(run.warnings)},
        counts=_counts([cursor.summary[name] for name in _COUNTS]),
        done=finished_count,
        stored=finished_count,
        planned=run.planned,
        whole=True,
        alive=False,
        graders=cursor.graders,
        notes=cursor.notes,
    )


def _started(store: Store, run: Run, trial_count: int, *, alive: bool) -> Looked:
    """A run of which another thread is reading the first trials."""
    empty = _Progress(run, "")
    return _count_trials(store, run, empty, trial_count, whole=False, alive=alive)[0]


def _notes(report: Reported, cursor: _Cursor, *, all_there: bool) -> tuple[str, ...]:
    still = (missing(report) if all_there else None, which_look(report))
    return (*cursor.notes, *(note for note in still if note))


def _numbers(counts: Counts) -> tuple[int, ...]:
    return tuple([getattr(counts, name) for name in _COUNTS])


def _counts(numbers: Sequence[int]) -> Counts:
    counts = Counts()
    for name, number in zip(_COUNTS, numbers, strict=True):
        setattr(counts, name, number)
    return counts


def _copy_counts(counts: Counts) -> Counts:
    return _counts(_numbers(counts))
