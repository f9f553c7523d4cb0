"""Comparisons of runs as background tasks, with a cache of the facts that they read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import encode
from proctor.comparison.compare import Comparison, GroupBy, UnmeasuredOutcome, VerdictFlip
from proctor.comparison.outcomes import RunOutcomes, SplitName
from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.comparison.report import ComparisonReport
from proctor.services.analysis import compare as comparing
from proctor.web.project import Project
from proctor.web.tasks import ProgressCallback, Task, TaskRunner

_MAX_TRIALS = 300_000
"""The facts of at most this many trials are cached, some 300 bytes each."""


class ComparisonQuery(Struct, frozen=True, kw_only=True):
    """The runs to compare, and how."""

    runs: tuple[Run, ...]
    split: SplitName = "all"
    by: GroupBy | None = None
    """Without it parts are made by category if any case has one, else by tag."""
    by_digest: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """A task key: equal for the same runs in the same state."""
        return "compare", tuple(encode(run) for run in self.runs), self.split, self.by, self.by_digest

    @property
    def is_cacheable(self) -> bool:
        """Whether none of the runs can change any more."""
        return all(run.status == "finished" for run in self.runs)


class ComparisonResult(Struct, frozen=True, kw_only=True):
    """A comparison, with what the page needs besides."""

    report: ComparisonReport
    """Without holdout accesses and notes on judges, which change later."""
    holdout_runs: tuple[Run, ...]
    """The runs whose holdout pass rates the comparison shows."""
    judge_outcomes: tuple[RunOutcomes, ...]
    """The facts of the runs without cases, to look up their judges."""
    by: GroupBy = "category"
    """How its parts are made."""
    groupings: tuple[GroupBy, ...] = ()
    """Of category and tag, those that any case has."""
    has_holdout: bool = False
    """Whether any case is held out."""
    positions: Mapping[str, int] = {}
    """Positions in the baseline of cases that flipped or were not measured, by their id in the candidate."""


def submit_comparison(tasks: TaskRunner, project: Project, query: ComparisonQuery) -> Task[ComparisonResult]:
    """Returns the task that compares runs: one that is running or done, or a new one."""

    def compare_runs(on_progress: ProgressCallback) -> ComparisonResult:
        facts_cache = project.get_shared("facts cache", OutcomesCache)
        with project.open_store() as store:
            comparing.check_comparable(store, query.runs, by_digest=query.by_digest)
            facts = facts_cache.load(store, query.runs, by_digest=query.by_digest, on_progress=on_progress)
        groupings = _find_groupings(facts)
        by = query.by or (*groupings, "category")[0]
        report = comparing.compare_pairwise(facts, split=query.split, by=by)
        holdout_runs = comparing.find_holdout_runs(facts, query.split) if report.shows_rates else ()
        return ComparisonResult(
            report=report,
            holdout_runs=tuple(holdout_runs),
            judge_outcomes=tuple(replace(run_facts, cases=()) for run_facts in facts),
            by=by,
            groupings=groupings,
            has_holdout=any(run_facts.has_split("holdout") for run_facts in facts),
            positions={} if report.ranking is not None else _flip_positions(report.comparisons[0], facts[0]),
        )

    return tasks.submit(query.key, compare_runs, "trials read", cacheable=query.is_cacheable)


def _find_groupings(facts: Sequence[RunOutcomes]) -> tuple[GroupBy, ...]:
    """Returns of category and tag those that any case has."""
    groupings: list[GroupBy] = []
    if any(case.category is not None for run_facts in facts for case in run_facts.cases):
        groupings.append("category")
    if any(case.tags for run_facts in facts for case in run_facts.cases):
        groupings.append("tag")
    return tuple(groupings)


def _flip_positions(comparison: Comparison, baseline: RunOutcomes) -> dict[str, int]:
    """Returns the positions in the baseline of the cases that have a row of their own."""
    case_ids = {flip.case for kind in ("fixed", "broken", "other") for flip in select_flips(comparison, kind)}
    baseline_ids = {pair.baseline: pair.candidate for pair in comparison.unpaired.renamed}
    return {
        name: case.position
        for case in baseline.cases
        if (name := baseline_ids.get(case.id, case.id)) in case_ids
    }


def list_flips(task: Task[ComparisonResult], kind: str) -> list[tuple[str, int]]:
    """Returns the cases of one table as (id, repeat); empty while the comparison is not done."""
    if not task.has_ended or task.has_failed:
        return []
    comparison = task.result().report.comparisons[0]
    return [(flip.case, flip.repeat) for flip in select_flips(comparison, kind)]


def select_flips(comparison: Comparison, kind: str) -> Sequence[VerdictFlip | UnmeasuredOutcome]:
    """Returns the cases of one table: `broken`, `fixed`, or `other` for those not measured."""
    if kind == "broken":
        return comparison.broken
    return comparison.fixed if kind == "fixed" else comparison.not_measured if kind == "other" else ()


# --- cache -------------------------------------------------------------------------------------------------


class OutcomesCache:
    """Caches the facts of the runs compared last; unfinished runs are not cached."""

    def __init__(self, max_trials: int = _MAX_TRIALS) -> None:
        """Makes an empty cache with room for that many trials; the facts of the last run always fit."""
        self._max_trials = max_trials
        self._facts: OrderedDict[tuple[str, bool, bool], RunOutcomes] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        """The number of cached runs."""
        return len(self._facts)

    def load(
        self,
        store: Store,
        runs: Sequence[Run],
        *,
        by_digest: bool,
        on_progress: ProgressCallback = lambda _count, _total: None,
    ) -> list[RunOutcomes]:
        """Returns the facts of runs; those that are not cached are read.

        Args:
            store: where the runs are.
            runs: the runs.
            by_digest: cases are paired by their prompt and grading.
            on_progress: called with the number of trials read and their total.

        Raises:
            StoreError: the store cannot be read.
        """
        with_digests = not by_digest and comparing.has_several_suites(runs)
        kind = by_digest, with_digests
        cached = ((run.id, self._find(run, kind)) for run in runs)
        facts = {run_id: facts for run_id, facts in cached if facts is not None}
        missing = {run.id: run for run in runs if run.id not in facts}
        total, done_count = sum(run.planned for run in missing.values()), 0
        for run in missing.values():

            def report_progress(count: int, _total: int, before: int = done_count) -> None:
                on_progress(before + count, max(total, before + count))

            (run_facts,) = comparing.load_outcomes(
                store, [run], by_digest=by_digest, with_digests=with_digests, on_progress=report_progress
            )
            done_count += run_facts.trials
            facts[run.id] = run_facts
            if run.status == "finished":
                self._add(run_facts, kind)
        return [facts[run.id] for run in runs]

    def _find(self, run: Run, kind: tuple[bool, bool]) -> RunOutcomes | None:
        with self._lock:
            cached = self._facts.get((run.id, *kind))
            if cached is None or run.status != "finished":
                return None
            self._facts.move_to_end((run.id, *kind))
        return replace(cached, run=run)  # its tags may have changed

    def _add(self, facts: RunOutcomes, kind: tuple[bool, bool]) -> None:
        with self._lock:
            self._facts[(facts.run.id, *kind)] = facts
            while (
                len(self._facts) > 1
                and sum(run_facts.trials for run_facts in self._facts.values()) > self._max_trials
            ):
                self._facts.popitem(last=False)
