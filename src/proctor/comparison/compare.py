"""Compares two runs: the differences of all cases and of each part, and the verdicts that changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.comparison.comparability import comparability_warnings
from proctor.comparison.differences import (
    MetricDifference,
    MetricPairs,
    PairTallies,
    PassRateDifference,
    adjust_together,
    read_metric,
    smallest_detectable_difference,
)
from proctor.comparison.latency import LatencyDifference, LatencyPairs
from proctor.comparison.outcome_table import TrialOutcome
from proctor.comparison.outcomes import RunOutcomes, SplitName
from proctor.comparison.pairing import PairedCase, PairedRuns, pair_trials
from proctor.model import Run, Verdict
from proctor.verdicts import Counts

GroupBy = Literal["category", "tag", "prompt"]
"""How parts are made: of cases by category or tag, or of several runs by their prompts."""


class VerdictFlip(Struct, frozen=True, gc=False):
    """A pair with one passed and one failed trial."""

    case: str
    repeat: int


class UnmeasuredOutcome(Struct, frozen=True, gc=False):
    """A pair with a trial that is ERROR or UNSCORED."""

    case: str
    repeat: int
    baseline: Verdict
    candidate: Verdict


class SubsetDifference(Struct, frozen=True, kw_only=True):
    """The difference over the cases of one split, category or tag."""

    name: str
    difference: PassRateDifference


class Comparison(Struct, frozen=True, kw_only=True):
    """The comparison of a candidate with a baseline."""

    baseline: Run
    candidate: Run
    split: SplitName
    baseline_counts: Counts
    """All trials, or cases, of the baseline in the split, also those that the candidate does not have."""
    candidate_counts: Counts
    whole: PassRateDifference
    smallest: float | None = None
    """The smallest difference that would probably be found, as a share; None if none would."""
    splits: tuple[SubsetDifference, ...] = ()
    """Dev and holdout, if both have pairs; their p-values are adjusted together."""
    by: GroupBy = "category"
    parts: tuple[SubsetDifference, ...] = ()
    """Every category or tag by name; their p-values are adjusted together."""
    score: MetricDifference | None = None
    """The difference of the trials' scores, if any is neither 0 nor 1."""
    latency_ms: LatencyDifference | None = None
    latency_left_out: int = 0
    """The number of measured pairs without a latency that was measured in both runs."""
    first_token_ms: LatencyDifference | None = None
    """None without pairs of streamed answers."""
    tokens_per_second: LatencyDifference | None = None
    cost_usd: MetricDifference | None = None
    fixed: tuple[VerdictFlip, ...] = ()
    broken: tuple[VerdictFlip, ...] = ()
    not_measured: tuple[UnmeasuredOutcome, ...] = ()
    unedited: PassRateDifference | None = None
    """The difference without the cases whose input changed; None if there are none."""
    unpaired: PairedRuns = PairedRuns()
    """The cases and trials without a partner, and renamed and edited cases; `cases` is empty."""
    baseline_missing: int = 0
    """The number of planned trials that an unfinished run does not have."""
    candidate_missing: int = 0
    baseline_finished: bool = True
    candidate_finished: bool = True
    cluster_field: str | None = None
    """The field that clusters of related cases are named by; None if the cases are independent."""
    warnings: tuple[str, ...] = ()
    """Sentences that say why the two may not be comparable."""

    @property
    def pairs(self) -> int:
        """All pairs, measured or not."""
        return self.whole.pairs + len(self.not_measured)


def compare_runs(
    baseline: RunOutcomes,
    candidate: RunOutcomes,
    *,
    split: SplitName = "all",
    by: GroupBy | None = "category",
) -> Comparison:
    """Compares two runs, pair by pair.

    Args:
        baseline: the reference run.
        candidate: the run whose differences are reported.
        split: compares only the cases of this split.
        by: the grouping of `parts`; None computes only the whole difference, for a table of many runs.
    """
    pairs = pair_trials(baseline, candidate, split)
    runs = baseline.run, candidate.run
    parts = _PairedParts(by)
    metrics = None if by is None else _PairedMetrics(runs)
    for case in pairs.cases:
        parts.add(case)
        if metrics is not None:
            metrics.add(case)
    by_case = pairs.has_repeats
    whole = parts.whole.difference(by_case=by_case, runs=runs)
    comparison = Comparison(
        baseline=baseline.run,
        candidate=candidate.run,
        split=split,
        baseline_counts=baseline.restrict_to(split).count_verdicts(),
        candidate_counts=candidate.restrict_to(split).count_verdicts(),
        whole=whole,
        fixed=tuple(parts.fixed),
        broken=tuple(parts.broken),
        not_measured=tuple(parts.not_measured),
        unedited=parts.unedited.difference(by_case=by_case, runs=runs) if pairs.input_changed else None,
        unpaired=replace(pairs, cases=()),
        baseline_missing=baseline.missing,
        candidate_missing=candidate.missing,
        baseline_finished=baseline.is_finished,
        candidate_finished=candidate.is_finished,
        cluster_field=candidate.cluster_field or baseline.cluster_field,
        warnings=comparability_warnings(baseline, candidate),
    )
    if by is None or metrics is None:
        return comparison
    splits = _subset_differences(parts.splits, by_case, runs)
    return replace(
        comparison,
        smallest=smallest_detectable_difference(whole, parts.whole),
        splits=tuple(splits) if len(splits) > 1 else (),
        by=by,
        parts=tuple(_subset_differences(parts.named, by_case, runs)),
        score=metrics.score(),
        latency_ms=metrics.latency.difference(),
        latency_left_out=metrics.latency.left_out,
        first_token_ms=metrics.first_token.difference(),
        tokens_per_second=metrics.token_rate.difference(),
        cost_usd=metrics.cost.difference(),
    )


class _PairedParts:
    """The tallies of paired cases, of all and of each part, and the pairs that a report lists."""

    def __init__(self, by: GroupBy | None) -> None:
        self._by = by
        self.whole, self.unedited = PairTallies(), PairTallies()
        self.splits: dict[str, PairTallies] = {}
        self.named: dict[str, PairTallies] = {}
        self.fixed: list[VerdictFlip] = []
        self.broken: list[VerdictFlip] = []
        self.not_measured: list[UnmeasuredOutcome] = []

    def add(self, case: PairedCase) -> None:
        self.whole.add(case)
        if not case.input_changed:
            self.unedited.add(case)
        if self._by is not None:
            if case.split is not None:
                self.splits.setdefault(case.split, PairTallies()).add(case)
            for name in self._names(case):
                self.named.setdefault(name, PairTallies()).add(case)
        for before, after in case.pairs:
            if not (before.is_measured and after.is_measured):
                outcome = UnmeasuredOutcome(case.id, before.repeat, before.verdict, after.verdict)
                self.not_measured.append(outcome)
            elif before.verdict is not after.verdict:
                flips = self.fixed if after.verdict is Verdict.PASS else self.broken
                flips.append(VerdictFlip(case.id, before.repeat))

    def _names(self, case: PairedCase) -> tuple[str, ...]:
        if self._by == "tag":
            return case.tags
        return () if self._by != "category" or case.category is None else (case.category,)


class _PairedMetrics:
    """The metrics of paired cases."""

    def __init__(self, runs: tuple[Run, Run]) -> None:
        self._scores = MetricPairs()
        self._is_graded = False
        self.latency = LatencyPairs(*runs)
        self.first_token = LatencyPairs(*runs, lambda outcome: outcome.first_token_ms)
        self.token_rate = LatencyPairs(*runs, lambda outcome: outcome.tokens_per_second)
        self.cost = MetricPairs()

    def add(self, case: PairedCase) -> None:
        self._is_graded = self._is_graded or any(
            outcome.score not in (0, 1, None) for pair in case.pairs for outcome in pair
        )
        for pairs, metric in ((self._scores, _score), (self.cost, _cost)):
            if values := read_metric(case, metric):
                pairs.add(values, case.cluster)
        for latencies in (self.latency, self.first_token, self.token_rate):
            latencies.add(case)

    def score(self) -> MetricDifference | None:
        """Returns the difference of the scores; None if each is 0 or 1."""
        return self._scores.difference(is_share=True) if self._is_graded else None


def _score(outcome: TrialOutcome) -> float | None:
    return outcome.score


def _cost(outcome: TrialOutcome) -> float | None:
    return outcome.cost_usd


def _subset_differences(
    members: Mapping[str, PairTallies], by_case: bool, runs: tuple[Run, Run]
) -> list[SubsetDifference]:
    """Returns the differences of parts, by name, with p-values adjusted together."""
    names = sorted(members)
    differences = adjust_together([members[name].difference(by_case=by_case, runs=runs) for name in names])
    return [
        SubsetDifference(name=name, difference=difference)
        for name, difference in zip(names, differences, strict=True)
    ]
