"""Compares two runs: the differences of all cases and of each part, and the verdicts that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.comparison.comparability import comparability_warnings
from proctor.comparison.differences import (
    MetricDifference,
    PassRateDifference,
    adjust_together,
    metric_difference,
    pass_rate_difference,
    smallest_detectable_difference,
)
from proctor.comparison.latency import LatencyDifference, latency_difference
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
    by_case = pairs.has_repeats
    runs = baseline.run, candidate.run
    whole = pass_rate_difference(pairs.cases, by_case=by_case, runs=runs)
    fixed, broken, not_measured = _find_flips(pairs.cases)
    unedited = [case for case in pairs.cases if not case.input_changed]
    comparison = Comparison(
        baseline=baseline.run,
        candidate=candidate.run,
        split=split,
        baseline_counts=baseline.restrict_to(split).count_verdicts(),
        candidate_counts=candidate.restrict_to(split).count_verdicts(),
        whole=whole,
        fixed=fixed,
        broken=broken,
        not_measured=not_measured,
        unedited=pass_rate_difference(unedited, by_case=by_case, runs=runs) if pairs.input_changed else None,
        unpaired=replace(pairs, cases=()),
        baseline_missing=baseline.missing,
        candidate_missing=candidate.missing,
        baseline_finished=baseline.is_finished,
        candidate_finished=candidate.is_finished,
        cluster_field=candidate.cluster_field or baseline.cluster_field,
        warnings=comparability_warnings(baseline, candidate),
    )
    if by is None:
        return comparison
    splits = _subset_differences(
        [(case.split, case) for case in pairs.cases if case.split is not None], by_case, runs
    )
    latency, latency_left_out = latency_difference(pairs.cases, baseline.run, candidate.run)
    return replace(
        comparison,
        smallest=smallest_detectable_difference(whole, pairs.cases),
        splits=tuple(splits) if len(splits) > 1 else (),
        by=by,
        parts=tuple(_subset_differences(list(_cases_by_name(pairs.cases, by)), by_case, runs)),
        score=_score_difference(pairs.cases),
        latency_ms=latency,
        latency_left_out=latency_left_out,
        first_token_ms=latency_difference(pairs.cases, *runs, lambda fact: fact.first_token_ms)[0],
        tokens_per_second=latency_difference(pairs.cases, *runs, lambda fact: fact.tokens_per_second)[0],
        cost_usd=metric_difference(pairs.cases, lambda fact: fact.cost_usd),
    )


def _find_flips(
    cases: Sequence[PairedCase],
) -> tuple[tuple[VerdictFlip, ...], tuple[VerdictFlip, ...], tuple[UnmeasuredOutcome, ...]]:
    fixed, broken, not_measured = list[VerdictFlip](), list[VerdictFlip](), list[UnmeasuredOutcome]()
    for case in cases:
        for before, after in case.pairs:
            if not (before.is_measured and after.is_measured):
                not_measured.append(UnmeasuredOutcome(case.id, before.repeat, before.verdict, after.verdict))
            elif before.verdict is not after.verdict:
                flips = fixed if after.verdict is Verdict.PASS else broken
                flips.append(VerdictFlip(case.id, before.repeat))
    return tuple(fixed), tuple(broken), tuple(not_measured)


def _cases_by_name(cases: Sequence[PairedCase], by: GroupBy) -> Iterator[tuple[str, PairedCase]]:
    for case in cases:
        if by == "tag":
            yield from ((tag, case) for tag in case.tags)
        elif by == "category" and case.category is not None:
            yield case.category, case


def _subset_differences(
    named_cases: Sequence[tuple[str, PairedCase]], by_case: bool, runs: tuple[Run, Run]
) -> list[SubsetDifference]:
    """Returns the differences of parts, by name, with p-values adjusted together."""
    members: dict[str, list[PairedCase]] = {}
    for name, case in named_cases:
        members.setdefault(name, []).append(case)
    names = sorted(members)
    differences = adjust_together(
        [pass_rate_difference(members[name], by_case=by_case, runs=runs) for name in names]
    )
    return [
        SubsetDifference(name=name, difference=difference)
        for name, difference in zip(names, differences, strict=True)
    ]


def _score_difference(cases: Sequence[PairedCase]) -> MetricDifference | None:
    graded = any(fact.score not in (0, 1, None) for case in cases for pair in case.pairs for fact in pair)
    return metric_difference(cases, lambda fact: fact.score, is_share=True) if graded else None
