"""Compares the prompts of a grid over targets, its targets over prompts, and tests interaction. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import fsum
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.comparison.differences import PassRateDifference, adjust_together, pass_rate_difference
from proctor.comparison.grid import GridLevel, PromptGrid, grid_cell, make_grid
from proctor.comparison.outcome_table import CaseOutcomes
from proctor.comparison.outcomes import RunOutcomes, SplitName
from proctor.comparison.pairing import PairedCase, pair_trials
from proctor.comparison.ranking import rank_differences
from proctor.model import Verdict
from proctor.stats import sign_flip_test
from proctor.verdicts import NO_TRIALS, Counts

FactorName = Literal["prompt", "target"]


class RankedLevel(Struct, frozen=True, kw_only=True):
    """A prompt over several targets, or a target over several prompts."""

    level: GridLevel
    counts: Counts
    """Of all its trials; the interval is over cases, or over their clusters."""
    rank: int
    """1 plus the number of others that are shown to be better; the best that it could be."""
    lowest_rank: int
    """The worst that it could be, if what was not measured could change it."""


class LevelDifference(Struct, frozen=True, kw_only=True):
    """The difference of two prompts, or of two targets."""

    baseline: GridLevel
    candidate: GridLevel
    difference: PassRateDifference
    """Its `cases` are pairs of a case and a level of the other factor."""


class FactorComparison(Struct, frozen=True, kw_only=True):
    """The prompts, compared over targets, or the targets over prompts."""

    factor: FactorName
    over: tuple[GridLevel, ...]
    """The levels of the other factor that have a run with each of these."""
    levels: tuple[RankedLevel, ...]
    differences: tuple[LevelDifference, ...]
    """Of each with each later one; p-values are adjusted together by Holm's method."""


class InteractionTest(Struct, frozen=True, kw_only=True):
    """The test that the differences between prompts are the same on every target."""

    prompts: tuple[GridLevel, ...]
    targets: tuple[GridLevel, ...]
    cases: int
    """The number of cases that are measured in every one of these runs."""
    left_out: int
    """The number of other cases that all of these runs have."""
    clusters: int
    """The number of independent clusters: of the cases, unless these are related."""
    contrasts: int
    """How many differences of differences are tested at once."""
    p_value: float | None
    """None below two clusters."""


class LevelPart(Struct, frozen=True, kw_only=True):
    """The targets compared for one prompt, or the prompts for one target."""

    level: GridLevel
    differences: tuple[LevelDifference, ...]
    """Of the first with each other one."""


class GridComparison(Struct, frozen=True, kw_only=True):
    """A grid, and what it shows."""

    grid: PromptGrid
    prompts: FactorComparison | None = None
    """None if no target was run with every prompt, or there is only one target."""
    targets: FactorComparison | None = None
    interaction: InteractionTest | None = None
    """None if no two prompts and two targets have all four runs."""
    by_target: tuple[LevelPart, ...] = ()
    """The prompts for each target; all p-values are adjusted together."""
    by_prompt: tuple[LevelPart, ...] = ()
    """The targets for each prompt; all p-values are adjusted together."""
    cluster_field: str | None = None
    """The field that clusters of related cases are named by; None if each case is a cluster by itself."""


class _GridReader:
    """Pairs the runs of a grid."""

    def __init__(self, grid: PromptGrid, runs: Sequence[RunOutcomes], split: SplitName) -> None:
        self._runs = {facts.run.id: facts for facts in runs}
        self._grid = grid
        self._split: SplitName = split
        self.has_repeats = any(len(case.trials) > 1 for facts in runs for case in facts.cases)

    def outcomes(self, prompt: int, target: int) -> RunOutcomes:
        cell = self._grid.cells[prompt][target]
        assert cell is not None
        return self._runs[cell.run.id]

    def pairs(self, before: tuple[int, int], after: tuple[int, int]) -> list[PairedCase]:
        """Returns the pairs of two cells; each case is a cluster, unless it is in one already."""
        runs = [self.outcomes(*before), self.outcomes(*after)]
        paired = pair_trials(runs[0], runs[1], self._split)
        return [case if case.cluster is not None else replace(case, cluster=case.id) for case in paired.cases]

    def counts(self, cells: Sequence[tuple[int, int]]) -> Counts:
        """Counts the trials of several runs, whose trials of a case are related."""
        counts = Counts()
        for cell in cells:
            for case in self.outcomes(*cell).restrict_to(self._split).cases:
                shape = NO_TRIALS
                for fact in case.trials:
                    shape = counts.add(fact.verdict, shape, case.cluster or case.id)
        return counts

    def rates(self, prompt: int, target: int) -> tuple[dict[str, float], dict[str, str]]:
        """Returns the share of measured trials that passed, and the cluster, of each case; by its key.

        A case without a measured trial has no rate, and a cluster all the same.
        """
        cases = self.outcomes(prompt, target).restrict_to(self._split).cases
        clusters = {case.key: case.cluster or case.id for case in cases}
        return {case.key: rate for case in cases if (rate := _pass_share(case)) is not None}, clusters


def compare_grid(
    runs: Sequence[RunOutcomes], split: SplitName = "all", *, by_prompt: bool = False
) -> GridComparison | None:
    """Compares the prompts of several runs over their targets, and their targets over their prompts.

    Pairs are of the same case and repeat, and of the same target or prompt. Intervals and tests are over the
    cases, since the trials of one case are related, or over clusters of cases. Prompts are compared only over
    targets that were run with each of them, and targets likewise. Runs of several suites make no grid.

    Args:
        runs: the runs.
        split: one split of the suite, or all of it.
        by_prompt: whether to compare the targets for each prompt, too.
    """
    if len({facts.run.suite.digest for facts in runs}) > 1:
        return None
    grid = make_grid(grid_cell(facts, split) for facts in runs)
    if grid is None:
        return None
    reader = _GridReader(grid, runs, split)
    fields = [facts.cluster_field for facts in runs if facts.cluster_field is not None]
    compared = GridComparison(grid=grid, cluster_field=fields[0] if fields else None)
    if len(grid.targets) < 2:
        return compared
    return replace(
        compared,
        prompts=_compare_factor(reader, grid, "prompt"),
        targets=_compare_factor(reader, grid, "target"),
        interaction=_test_interaction(reader, grid),
        by_target=_compare_within(reader, grid, "prompt"),
        by_prompt=_compare_within(reader, grid, "target") if by_prompt else (),
    )


def _cell_at(factor: FactorName) -> Callable[[int, int], tuple[int, int]]:
    """Returns the place in a grid of a level of a factor and one of the other factor."""
    return (
        (lambda level, other: (level, other)) if factor == "prompt" else (lambda level, other: (other, level))
    )


def _compare_factor(reader: _GridReader, grid: PromptGrid, factor: FactorName) -> FactorComparison | None:
    levels, others, common = (
        (grid.prompts, grid.targets, grid.full_targets)
        if factor == "prompt"
        else (grid.targets, grid.prompts, grid.full_prompts)
    )
    if not common:
        return None
    cell_at = _cell_at(factor)
    pairs = list(combinations(range(len(levels)), 2))
    differences = adjust_together(
        [
            pass_rate_difference(
                [
                    case
                    for other in common
                    for case in reader.pairs(cell_at(first, other), cell_at(second, other))
                ],
                by_case=reader.has_repeats,
            )
            for first, second in pairs
        ]
    )
    ranks = rank_differences(len(levels), differences)
    return FactorComparison(
        factor=factor,
        over=tuple([others[other] for other in common]),
        levels=tuple(
            [
                RankedLevel(
                    level=level,
                    counts=reader.counts([cell_at(place, other) for other in common]),
                    rank=rank,
                    lowest_rank=lowest_rank,
                )
                for place, (level, (rank, lowest_rank)) in enumerate(zip(levels, ranks, strict=True))
            ]
        ),
        differences=tuple(
            [
                LevelDifference(baseline=levels[first], candidate=levels[second], difference=difference)
                for (first, second), difference in zip(pairs, differences, strict=True)
            ]
        ),
    )


def _compare_within(reader: _GridReader, grid: PromptGrid, factor: FactorName) -> tuple[LevelPart, ...]:
    """Returns the differences of a factor's levels from the first, for each level of the other factor."""
    levels, others = (grid.prompts, grid.targets) if factor == "prompt" else (grid.targets, grid.prompts)
    cell_at = _cell_at(factor)

    def has_run(level: int, other: int) -> bool:
        prompt, target = cell_at(level, other)
        return grid.cells[prompt][target] is not None

    triples = []
    for other in range(len(others)):
        first, *rest = [level for level in range(len(levels)) if has_run(level, other)] or [0]
        triples += [(other, first, level) for level in rest]
    differences = adjust_together(
        [
            pass_rate_difference(
                reader.pairs(cell_at(first, other), cell_at(level, other)), by_case=reader.has_repeats
            )
            for other, first, level in triples
        ]
    )
    parts: dict[int, list[LevelDifference]] = {}
    for (other, first, level), difference in zip(triples, differences, strict=True):
        parts.setdefault(other, []).append(
            LevelDifference(baseline=levels[first], candidate=levels[level], difference=difference)
        )
    return tuple([LevelPart(level=others[other], differences=tuple(part)) for other, part in parts.items()])


def _test_interaction(reader: _GridReader, grid: PromptGrid) -> InteractionTest | None:
    """Tests that the differences between prompts do not depend on the target.

    The differences of each case between every prompt and the first, on every target less those on the first
    target, have the mean zero if so. They are summed over clusters. What is tested does not depend on which
    prompt and which target is first. The scale is percentage points.
    """
    prompts, targets = _complete_part(grid)
    if len(prompts) < 2 or len(targets) < 2:
        return None
    cells = {(prompt, target): reader.rates(prompt, target) for prompt in prompts for target in targets}
    clusters: dict[str, str] = {}
    for _, cell_clusters in cells.values():
        clusters |= cell_clusters
    common = [key for key in clusters if all(key in names for _, names in cells.values())]
    measured = [key for key in common if all(key in rates for rates, _ in cells.values())]
    sums: dict[str, list[list[float]]] = {}
    for key in measured:
        rates = {place: cell_rates[key] for place, (cell_rates, _) in cells.items()}
        sums.setdefault(clusters[key], []).append(list(_contrasts(rates, prompts, targets)))
    # Sorted, so that the signs that are tried do not depend on the order of the cases.
    vectors = [[fsum(column) for column in zip(*sums[name], strict=True)] for name in sorted(sums)]
    return InteractionTest(
        prompts=tuple([grid.prompts[place] for place in prompts]),
        targets=tuple([grid.targets[place] for place in targets]),
        cases=len(measured),
        left_out=len(common) - len(measured),
        clusters=len(vectors),
        contrasts=(len(prompts) - 1) * (len(targets) - 1),
        p_value=sign_flip_test(vectors) if len(vectors) > 1 else None,
    )


def _complete_part(grid: PromptGrid) -> tuple[list[int], list[int]]:
    """Returns the prompts and targets of the larger part of the grid that has every run."""
    every_prompt, every_target = list(range(len(grid.prompts))), list(range(len(grid.targets)))
    parts = [(every_prompt, grid.full_targets), (grid.full_prompts, every_target)]
    return max(parts, key=lambda part: (len(part[0]) - 1) * (len(part[1]) - 1) if part[0] and part[1] else 0)


def _contrasts(
    rates: Mapping[tuple[int, int], float], prompts: Sequence[int], targets: Sequence[int]
) -> Iterator[float]:
    first_prompt, first_target = prompts[0], targets[0]
    for prompt in prompts[1:]:
        for target in targets[1:]:
            difference = rates[prompt, target] - rates[first_prompt, target]
            yield difference - (rates[prompt, first_target] - rates[first_prompt, first_target])


def _pass_share(case: CaseOutcomes) -> float | None:
    measured = [trial.verdict is Verdict.PASS for trial in case.trials if trial.is_measured]
    return sum(measured) / len(measured) if measured else None
