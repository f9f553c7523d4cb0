"""Grids of prompts × targets as records for JSON. Pure.

Differences, rates and their intervals are fractions of 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Struct

from proctor.comparison.factors import (
    FactorComparison,
    GridComparison,
    InteractionTest,
    LevelDifference,
    LevelPart,
)
from proctor.comparison.grid import PromptGrid
from proctor.reports.comparison.grid import factor_sentence, grid_notes, interaction_sentence
from proctor.reports.record_fields import Digest, Interval, RunId, about


class LevelRecord(Struct, frozen=True, kw_only=True):
    """A prompt or a target of a grid."""

    name: str
    digest: Annotated[Digest | None, about("Null for runs without a prompt.")]


class GridCellRecord(Struct, frozen=True, kw_only=True):
    """The run of one prompt on one target."""

    prompt: str
    target: str
    run: RunId
    cases: int
    total: int
    passed: int
    pass_rate: float | None
    ci95: Interval
    not_measured: int
    bounds: Interval
    cost_usd: float | None
    latency_p50_ms: float | None


class MissingCellRecord(Struct, frozen=True, kw_only=True):
    """A prompt and a target of which there is no run."""

    prompt: str
    target: str


class LevelDifferenceRecord(Struct, frozen=True, kw_only=True):
    """The difference of two prompts, or of two targets."""

    baseline: str
    candidate: str
    cases: Annotated[int, about("Number of pairs of a case and a prompt or target of the other kind.")]
    pairs: int
    fixed: int
    broken: int
    difference: Annotated[float | None, about("Positive if the candidate is better.")]
    ci95: Interval
    bounds: Interval
    p_value: float | None
    p_holm: Annotated[float | None, about("Corrected for the number of differences beside it (Holm).")]
    shows: str
    clusters: Annotated[int | None, about("What interval and test are over; null if each case has one pair.")]
    not_measured: int


class RankedLevelRecord(Struct, frozen=True, kw_only=True):
    """A prompt or a target with its rate over all of the others."""

    name: str
    rank: int
    lowest_rank: int
    total: int
    passed: int
    pass_rate: float | None
    ci95: Interval


class FactorRecord(Struct, frozen=True, kw_only=True):
    """The prompts over targets, or the targets over prompts."""

    verdict: Annotated[str, about("Which is better, in a sentence.")]
    over: Annotated[tuple[str, ...], about("The targets or prompts that have a run with every one.")]
    levels: tuple[RankedLevelRecord, ...]
    differences: Annotated[tuple[LevelDifferenceRecord, ...], about("Each with each later one.")]


class InteractionRecord(Struct, frozen=True, kw_only=True):
    """The test that the differences between prompts are the same on every target."""

    verdict: Annotated[str, about("Whether they depend on the target, in a sentence.")]
    prompts: tuple[str, ...]
    targets: tuple[str, ...]
    cases: int
    not_measured: Annotated[int, about("Number of cases that some of these runs did not measure.")]
    clusters: int
    contrasts: Annotated[int, about("Number of differences of differences that are tested at once.")]
    p_value: float | None


class LevelPartRecord(Struct, frozen=True, kw_only=True):
    """The prompts for one target, or the targets for one prompt."""

    name: str
    differences: tuple[LevelDifferenceRecord, ...]


class GridRecord(Struct, frozen=True, kw_only=True):
    """The runs by prompt and target."""

    prompts: tuple[LevelRecord, ...]
    targets: tuple[LevelRecord, ...]
    cells: tuple[GridCellRecord, ...]
    missing: tuple[MissingCellRecord, ...]


class GridComparisonRecord(GridRecord, frozen=True, kw_only=True):
    """A grid, and what it shows."""

    prompt: Annotated[FactorRecord | None, about("The prompts over all targets.")]
    target: Annotated[FactorRecord | None, about("The targets over all prompts.")]
    interaction: InteractionRecord | None
    by_target: Annotated[tuple[LevelPartRecord, ...], about("The prompts for each target.")]
    by_prompt: Annotated[tuple[LevelPartRecord, ...], about("The targets for each prompt, if requested.")]
    notes: tuple[str, ...]


def grid_record(compared: GridComparison) -> GridComparisonRecord:
    """Returns a grid with what it shows."""
    grid = cells_record(compared.grid)
    return GridComparisonRecord(
        prompts=grid.prompts,
        targets=grid.targets,
        cells=grid.cells,
        missing=grid.missing,
        prompt=None if compared.prompts is None else _factor_record(compared.prompts),
        target=None if compared.targets is None else _factor_record(compared.targets),
        interaction=None
        if compared.interaction is None
        else _interaction_record(compared.interaction, compared.by_target),
        by_target=tuple(map(_part_record, compared.by_target)),
        by_prompt=tuple(map(_part_record, compared.by_prompt)),
        notes=tuple(grid_notes(compared)),
    )


def cells_record(grid: PromptGrid) -> GridRecord:
    """Returns a grid as a record, such as for the runs of one command."""
    return GridRecord(
        prompts=tuple([LevelRecord(name=level.name, digest=level.digest) for level in grid.prompts]),
        targets=tuple([LevelRecord(name=level.name, digest=level.digest) for level in grid.targets]),
        cells=tuple(_cell_records(grid)),
        missing=tuple(
            [MissingCellRecord(prompt=prompt.name, target=target.name) for prompt, target in grid.missing]
        ),
    )


def _cell_records(grid: PromptGrid) -> Iterator[GridCellRecord]:
    for prompt, row in zip(grid.prompts, grid.cells, strict=True):
        for target, cell in zip(grid.targets, row, strict=True):
            if cell is not None:
                counts = cell.counts
                yield GridCellRecord(
                    prompt=prompt.name,
                    target=target.name,
                    run=cell.run.id,
                    cases=counts.cases,
                    total=counts.total,
                    passed=counts.passed,
                    pass_rate=counts.pass_rate,
                    ci95=counts.ci95,
                    not_measured=counts.unmeasured,
                    bounds=counts.bounds,
                    cost_usd=cell.cost_usd,
                    latency_p50_ms=cell.latency_p50_ms,
                )


def _factor_record(compared: FactorComparison) -> FactorRecord:
    return FactorRecord(
        verdict=factor_sentence(compared),
        over=tuple([level.name for level in compared.over]),
        levels=tuple(
            [
                RankedLevelRecord(
                    name=ranked.level.name,
                    rank=ranked.rank,
                    lowest_rank=ranked.lowest_rank,
                    total=ranked.counts.total,
                    passed=ranked.counts.passed,
                    pass_rate=ranked.counts.pass_rate,
                    ci95=ranked.counts.ci95,
                )
                for ranked in compared.levels
            ]
        ),
        differences=_difference_records(compared.differences),
    )


def _interaction_record(test: InteractionTest, by_target: Sequence[LevelPart]) -> InteractionRecord:
    return InteractionRecord(
        verdict=interaction_sentence(test, by_target),
        prompts=tuple([level.name for level in test.prompts]),
        targets=tuple([level.name for level in test.targets]),
        cases=test.cases,
        not_measured=test.left_out,
        clusters=test.clusters,
        contrasts=test.contrasts,
        p_value=test.p_value,
    )


def _part_record(part: LevelPart) -> LevelPartRecord:
    return LevelPartRecord(name=part.level.name, differences=_difference_records(part.differences))


def _difference_records(pairs: Sequence[LevelDifference]) -> tuple[LevelDifferenceRecord, ...]:
    return tuple(
        [
            LevelDifferenceRecord(
                baseline=pair.baseline.name,
                candidate=pair.candidate.name,
                cases=pair.difference.cases,
                pairs=pair.difference.pairs,
                fixed=pair.difference.fixed,
                broken=pair.difference.broken,
                difference=pair.difference.value,
                ci95=pair.difference.ci95,
                bounds=pair.difference.bounds,
                p_value=pair.difference.p_value,
                p_holm=pair.difference.p_holm,
                shows=pair.difference.direction,
                clusters=pair.difference.clusters,
                not_measured=pair.difference.unmeasured,
            )
            for pair in pairs
        ]
    )
