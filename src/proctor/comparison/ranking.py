"""Ranks several runs by pairwise comparisons, and compares all but the first with the first.

Runs without a shown difference share a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import fsum, sqrt

from msgspec import Struct
from msgspec.structs import replace

from proctor.comparison.compare import Comparison, compare_runs
from proctor.comparison.differences import PassRateDifference, adjust_together
from proctor.comparison.outcomes import RunOutcomes, SplitName
from proctor.model import Run
from proctor.stats import expected_maximum
from proctor.verdicts import Counts


class RankedRun(Struct, frozen=True, kw_only=True):
    """A run with its rank."""

    run: Run
    counts: Counts
    """The counts of all its trials, or cases, in the split, also those that another run does not have."""
    rank: int | None
    """1 plus the number of runs that are shown to be better; None if nothing of it was measured.

    Where what was not measured could change that, it is the best rank that the run could have.
    """
    lowest_rank: int | None
    """The worst rank that the run could have; `rank` if what was not measured could not change it."""
    is_finished: bool = True
    missing: int = 0
    """The number of planned trials that have not finished."""


class Ranking(Struct, frozen=True, kw_only=True):
    """Several runs, in the order of the input, with their ranks and comparisons."""

    runs: tuple[RankedRun, ...]
    comparisons: tuple[Comparison, ...]
    """Each run with each later one as the candidate; p-values are adjusted together by Holm's method."""
    candidates: tuple[Comparison, ...]
    """Each run but the first with the first; p-values are adjusted over these comparisons alone."""

    @property
    def by_rank(self) -> list[RankedRun]:
        """The runs by rank, and by pass rate within a rank; those without a rank are last."""
        last = len(self.runs) + 1
        return sorted(
            self.runs,
            key=lambda ranked_run: (
                ranked_run.rank or last,
                ranked_run.lowest_rank or last,
                -(ranked_run.counts.pass_rate or 0.0),
            ),
        )

    @property
    def chance_lead(self) -> float | None:
        """By how much the best of as many equal runs would exceed their mean by chance; None if unknown.

        The mean of the largest of as many independent normal numbers, times the standard error of a run: its
        share of the mean variance of a difference of two runs over the same cases. So what the cases have in
        common does not count. For runs that do differ it is a little too large.
        """
        count = sum(ranked_run.rank is not None for ranked_run in self.runs)
        errors = [
            comparison.whole.error for comparison in self.comparisons if comparison.whole.error is not None
        ]
        if count < 2 or not errors:
            return None
        variance = fsum(error * error for error in errors) / len(errors) / 2
        return expected_maximum(count) * sqrt(variance)


def rank_runs(runs: Sequence[RunOutcomes], split: SplitName = "all") -> Ranking:
    """Compares two or more runs of one suite, each with every other, and ranks them.

    A run ranks above another only if it is shown to be better. So sharing a rank is not transitive:
    A may share its rank with B and B with C while A is above C. It surely ranks above another if that is
    shown however the trials that were not measured would have ended, and perhaps if it is shown for some end.
    """
    comparisons = [
        compare_runs(first, second, split=split, by=None) for first, second in combinations(runs, 2)
    ]
    candidates = _adjust_comparisons(comparisons[: len(runs) - 1])
    comparisons = _adjust_comparisons(comparisons)
    ranks = rank_differences(len(runs), [comparison.whole for comparison in comparisons])
    return Ranking(
        runs=tuple(_rank_run(facts, split, *rank) for facts, rank in zip(runs, ranks, strict=True)),
        comparisons=tuple(comparisons),
        candidates=tuple(candidates),
    )


def rank_differences(count: int, differences: Sequence[PassRateDifference]) -> list[tuple[int, int]]:
    """Returns the best and the worst rank that each of several things could have.

    Args:
        count: the number of things.
        differences: of each with each later one as the candidate, with p-values adjusted together.
    """
    surely_above, perhaps_above = [0] * count, [0] * count
    for (first, second), difference in zip(combinations(range(count), 2), differences, strict=True):
        directions = [scenario.measured_direction for scenario in difference.scenarios]
        for place, word in ((first, "better"), (second, "worse")):
            matches = [direction == word for direction in directions]
            surely_above[place] += all(matches)
            perhaps_above[place] += any(matches)
    return [(1 + surely, 1 + perhaps) for surely, perhaps in zip(surely_above, perhaps_above, strict=True)]


def _adjust_comparisons(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Returns comparisons with their p-values adjusted together."""
    wholes = adjust_together([comparison.whole for comparison in comparisons])
    return [replace(comparison, whole=whole) for comparison, whole in zip(comparisons, wholes, strict=True)]


def _rank_run(facts: RunOutcomes, split: SplitName, rank: int, lowest_rank: int) -> RankedRun:
    counts = facts.restrict_to(split).count_verdicts()
    is_measured = counts.pass_rate is not None
    return RankedRun(
        run=facts.run,
        counts=counts,
        rank=rank if is_measured else None,
        lowest_rank=lowest_rank if is_measured else None,
        is_finished=facts.is_finished,
        missing=facts.missing,
    )
