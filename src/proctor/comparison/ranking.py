"""Ranks several runs by pairwise comparisons; runs without a shown difference share a rank."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from proctor.comparison.compare import Comparison, compare_runs
from proctor.comparison.outcomes import RunOutcomes, SplitName
from proctor.model import Run
from proctor.stats import holm
from proctor.verdicts import Counts


class RankedRun(Struct, frozen=True, kw_only=True):
    """A run with its rank."""

    run: Run
    counts: Counts
    """The counts of all its trials, or cases, in the split, also those that another run does not have."""
    rank: int
    """1 plus the number of runs that are shown to be better."""
    is_finished: bool = True
    missing: int = 0
    """The number of planned trials that have not finished."""


class Ranking(Struct, frozen=True, kw_only=True):
    """Several runs, in the order of the input, with their ranks and comparisons."""

    runs: tuple[RankedRun, ...]
    comparisons: tuple[Comparison, ...]
    """Each run with each later one as the candidate; p-values are adjusted together by Holm's method."""

    @property
    def by_rank(self) -> list[RankedRun]:
        """The runs by rank, and by pass rate within a rank."""
        return sorted(
            self.runs, key=lambda ranked_run: (ranked_run.rank, -(ranked_run.counts.pass_rate or 0.0))
        )


def rank_runs(runs: Sequence[RunOutcomes], split: SplitName = "all") -> Ranking:
    """Compares two or more runs of one suite, each with every other, and ranks them.

    A run ranks above another only if it is shown to be better. So sharing a rank is not transitive:
    A may share its rank with B and B with C while A is above C.
    """
    comparisons = [
        compare_runs(first, second, split=split, by=None) for first, second in combinations(runs, 2)
    ]
    tested_places = [
        place for place, comparison in enumerate(comparisons) if comparison.whole.p_value is not None
    ]
    adjusted = holm([comparisons[place].whole.p_value or 0.0 for place in tested_places])
    for place, p_value in zip(tested_places, adjusted, strict=True):
        comparison = comparisons[place]
        comparisons[place] = replace(comparison, whole=replace(comparison.whole, p_holm=p_value))
    above = [0] * len(runs)
    for (first, second), comparison in zip(combinations(range(len(runs)), 2), comparisons, strict=True):
        direction = comparison.whole.direction
        above[first] += direction == "better"
        above[second] += direction == "worse"
    return Ranking(
        runs=tuple(
            RankedRun(
                run=facts.run,
                counts=facts.restrict_to(split).count_verdicts(),
                rank=1 + better,
                is_finished=facts.is_finished,
                missing=facts.missing,
            )
            for facts, better in zip(runs, above, strict=True)
        ),
        comparisons=tuple(comparisons),
    )
