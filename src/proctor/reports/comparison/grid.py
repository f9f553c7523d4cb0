"""Grids of prompts × targets as documents, and what they show in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from proctor.comparison.differences import PassRateDifference
from proctor.comparison.factors import (
    FactorComparison,
    GridComparison,
    InteractionTest,
    LevelDifference,
    LevelPart,
)
from proctor.comparison.grid import GridLevel, GridRun, PromptGrid, make_grid
from proctor.plurals import join_names, pluralize
from proctor.reports.clusters import clusters_sentence
from proctor.reports.document import (
    RATE_COLUMNS,
    Block,
    Column,
    Paragraph,
    RateEntry,
    RateGrid,
    Table,
    count_columns,
)
from proctor.reports.formatting import (
    cost,
    difference_interval,
    interval,
    milliseconds,
    percent,
    probability,
)
from proctor.reports.runs.serialize import RunReport
from proctor.safe_text import one_line

_ALPHA = 0.05
_MAX_NAMED_CELLS = 4


def grid_of_reports(reports: Iterable[RunReport]) -> PromptGrid | None:
    """Returns the grid of the runs that one command made; None if they are none of several prompts."""
    return make_grid(
        GridRun(
            run=report.run,
            counts=report.tally.result_counts,
            cost_usd=report.tally.target_cost_usd,
            latency_p50_ms=report.tally.latency_ms().p50,
        )
        for report in reports
    )


def grid_block(grid: PromptGrid) -> RateGrid:
    """Returns a row for each prompt with a rate for each target, its cost and its median latency."""
    notes = []
    if grid.missing:
        names = [f"{prompt.name} on {target.name}" for prompt, target in grid.missing]
        notes.append(f"Not run: {one_line(join_names(names, _MAX_NAMED_CELLS))}.")
    if grid.repeated:
        notes.append(
            f"{pluralize(grid.repeated, 'earlier run')} of the same prompt and target left out: only the "
            "newest counts."
        )
    return RateGrid(
        corner="prompt",
        columns=[target.name for target in grid.targets],
        rows=[
            (prompt.name, [None if cell is None else _grid_entry(cell) for cell in row])
            for prompt, row in zip(grid.prompts, grid.cells, strict=True)
        ],
        notes=notes,
    )


def _grid_entry(cell: GridRun) -> RateEntry:
    notes = [cost(cell.cost_usd)] if cell.cost_usd is not None else []
    if cell.latency_p50_ms is not None:
        notes.append(f"p50 {milliseconds(cell.latency_p50_ms)}")
    return RateEntry(cell.counts, notes)


def grid_blocks(compared: GridComparison, *, with_headline: bool = True) -> Iterator[Block]:
    """Yields the grid, which prompt and which target is better, and whether one depends on the other.

    Args:
        compared: the grid.
        with_headline: whether to say which prompt is better; a page has that above.
    """
    yield grid_block(compared.grid)
    if with_headline and compared.prompts is not None:
        yield Paragraph(factor_sentence(compared.prompts), style="strong")
    if compared.targets is not None:
        yield Paragraph(factor_sentence(compared.targets))
    if compared.interaction is not None:
        yield Paragraph(interaction_sentence(compared.interaction, compared.by_target))
    for factor in (compared.prompts, compared.targets):
        if factor is not None:
            yield factor_table(factor)
    if compared.interaction is not None:
        yield part_table(compared.by_target, "prompts for each target")
    if compared.by_prompt:
        yield part_table(compared.by_prompt, "targets for each prompt")
    yield from map(Paragraph, grid_notes(compared))


def headline(compared: GridComparison | None) -> str:
    """Returns which prompt is better, and where that depends on the target; empty if it is not compared."""
    if compared is None or compared.prompts is None:
        return ""
    test = compared.interaction
    depends = test is not None and test.p_value is not None and test.p_value < _ALPHA
    return factor_sentence(compared.prompts) + (" The difference depends on the target." if depends else "")


def factor_sentence(compared: FactorComparison) -> str:
    """Returns which prompt is better over the targets, or which target over the prompts."""
    factor, over = compared.factor, _over_text(compared)
    if not any(difference.difference.pairs for difference in compared.differences):
        return f"The {factor}s cannot be compared {over}: no case was measured with two of them."
    if len(compared.levels) == 2:
        return _pair_sentence(compared, over)
    best = [ranked.level for ranked in compared.levels if ranked.rank == 1]
    is_decided = all(ranked.rank == ranked.lowest_rank for ranked in compared.levels)
    reservation = "" if is_decided else " Unmeasured trials could change that."
    if len(best) == len(compared.levels):
        return f"No {factor} is shown to be better than another {over}.{reservation}"
    if len(best) > 1:
        names = _join_levels(best)
        return f"{len(best)} of {len(compared.levels)} {factor}s share rank 1 {over}: {names}.{reservation}"
    (first,) = (ranked for ranked in compared.levels if ranked.rank == 1)
    worse = sum(_shows_better(each, first.level) for each in compared.differences)
    return (
        f"{factor.capitalize()} {_name(first.level)} is first {over} ({percent(first.counts.pass_rate)}, "
        f"{interval(first.counts.ci95)}), and shown to be better than {worse} of {len(compared.levels) - 1} "
        f"other {factor}s.{reservation}"
    )


def _pair_sentence(compared: FactorComparison, over: str) -> str:
    (pair,) = compared.differences
    factor, difference = compared.factor, pair.difference
    assert difference.value is not None
    test = probability(difference.p_adjusted)
    direction = difference.measured_direction
    if direction == "unclear":
        sentence = (
            f"No difference between {factor}s {_name(pair.baseline)} and {_name(pair.candidate)} is shown "
            f"{over}: {difference.value * 100:+.1f} pp ({_range_text(difference)}), {test}"
        )
    else:
        winner, loser = (
            (pair.candidate, pair.baseline) if difference.value > 0 else (pair.baseline, pair.candidate)
        )
        perhaps = "perhaps " if direction.startswith("perhaps") else ""
        sentence = (
            f"{factor.capitalize()} {_name(winner)} is {perhaps}better than {_name(loser)} {over} by "
            f"{abs(difference.value) * 100:.1f} pp ({_range_text(difference)}), {test}"
        )
    if not difference.is_decided and difference.bounds is not None:
        sentence += (
            f", but {pluralize(difference.unmeasured, 'unmeasured pair')} could change that: "
            f"{difference_interval(difference.bounds)}"
        )
    return f"{sentence}."


def _range_text(difference: PassRateDifference) -> str:
    """Returns the ends of an interval; of one below zero without signs, as its value is shown then."""
    assert difference.ci95 is not None
    low, high = difference.ci95
    if high < 0:
        low, high = -high, -low
    return f"{low * 100:.1f} to {high * 100:.1f}"


def _shows_better(pair: LevelDifference, level: GridLevel) -> bool:
    direction = pair.difference.direction
    if level == pair.candidate:
        return direction == "better"
    return level == pair.baseline and direction == "worse"


def interaction_sentence(test: InteractionTest, by_target: Sequence[LevelPart]) -> str:
    """Returns whether the difference between the prompts depends on the target.

    Args:
        test: the test.
        by_target: the differences between the prompts for each target.
    """
    cases = f"{pluralize(test.cases, 'case')} measured in all {len(test.prompts) * len(test.targets)} runs"
    if test.p_value is None:
        return (
            f"With {cases}, it cannot be tested whether the prompts differ in the same way on every target."
        )
    if test.p_value < _ALPHA:
        return (
            f"The difference between the prompts depends on the target ({probability(test.p_value)}, "
            f"{cases}): {_range_over_targets(by_target) or 'choose a prompt for each target'}."
        )
    return (
        f"The difference between the prompts is not shown to depend on the target "
        f"({probability(test.p_value)}, {cases})."
    )


def _range_over_targets(by_target: Sequence[LevelPart]) -> str:
    """Returns by how much one of two prompts is ahead on every target; empty if none is."""
    pairs = [pair for part in by_target for pair in part.differences]
    values = [pair.difference.value for pair in pairs if pair.difference.value is not None]
    if (
        len({(pair.baseline, pair.candidate) for pair in pairs}) != 1
        or not values
        or min(values) * max(values) <= 0
    ):
        return ""
    ahead = pairs[0].candidate if values[0] > 0 else pairs[0].baseline
    least, most = sorted(abs(value) * 100 for value in (min(values), max(values)))
    return f"{_name(ahead)} is ahead on every target, by {least:.1f} to {most:.1f} pp"


def factor_table(compared: FactorComparison) -> Table:
    """Returns a row for each level with its rate, and its difference from the first."""
    against = {
        pair.candidate: pair.difference
        for pair in compared.differences
        if pair.baseline == first_level(compared)
    }
    rows = []
    for ranked in sorted(
        compared.levels,
        key=lambda ranked: (ranked.rank, ranked.lowest_rank, -(ranked.counts.pass_rate or 0.0)),
    ):
        counts, difference = ranked.counts, against.get(ranked.level)
        rank = "–".join(dict.fromkeys((f"{ranked.rank}", f"{ranked.lowest_rank}")))
        numbers = ("", "") if difference is None else (difference, difference.p_adjusted)
        rows.append((ranked.level.name, rank, counts.passed, counts.total, counts, *numbers))
    adjusted = len(compared.differences)
    columns = (
        Column(compared.factor, max_width=40),
        Column("rank", "number"),
        *RATE_COLUMNS,
        Column("difference", "difference"),
        Column("p", "p"),
    )
    notes = [f"Differences are relative to {_name(first_level(compared))}."]
    if adjusted > 1:
        notes.append(f"p is adjusted by Holm's method over all {adjusted:,} pairs of {compared.factor}s.")
    return Table(
        columns, rows, caption=f"{compared.factor.capitalize()}s {_over_text(compared)}", notes=notes
    )


def first_level(compared: FactorComparison) -> GridLevel:
    """Returns the level that the others are compared with in the table."""
    return compared.levels[0].level


def part_table(parts: Sequence[LevelPart], caption: str) -> Table:
    """Returns a row for each difference, below the level that it is of."""
    rows: list[tuple[object, ...]] = []
    for part in parts:
        rows.append((part.level.name, *[""] * 6))
        for pair in part.differences:
            difference = pair.difference
            counts = (difference.cases, difference.fixed, difference.broken)
            name = f"  {pair.candidate.name} against {pair.baseline.name}"
            rows.append((name, *counts, difference, difference.p_adjusted, difference.direction))
    count = sum(len(part.differences) for part in parts)
    columns = (
        Column(max_width=60),
        *count_columns("cases", "fixed", "broken", width=7),
        Column("difference", "difference"),
        Column("p", "p"),
        Column("shows"),
    )
    notes = [f"p is adjusted by Holm's method over these {count:,} differences."] if count > 1 else []
    return Table(columns, rows, caption=caption.capitalize(), notes=notes)


def grid_notes(compared: GridComparison) -> Iterator[str]:
    """Yields sentences on what the comparisons are over, and what they leave out."""
    grid = compared.grid
    for factor, name in ((compared.prompts, "prompt"), (compared.targets, "target")):
        other = "target" if name == "prompt" else "prompt"
        count = len(grid.targets if name == "prompt" else grid.prompts)
        if factor is None:
            if len(grid.targets) > 1:
                yield f"The {name}s are not compared over {other}s: no {other} was run with every {name}."
            continue
        if len(factor.over) < count:
            yield (
                f"The {name}s are compared over the {other}s that were run with every {name}: "
                f"{_join_levels(factor.over)}."
            )
        unmeasured = sum(pair.difference.unmeasured for pair in factor.differences)
        if unmeasured:
            yield (
                f"Not measured, so in no difference between {name}s: {pluralize(unmeasured, 'pair')} with "
                "an ERROR or UNSCORED trial."
            )
    test = compared.interaction
    if test is not None:
        if (len(test.prompts), len(test.targets)) != (len(grid.prompts), len(grid.targets)):
            yield (
                f"The test whether prompts depend on targets covers {_join_levels(test.prompts)} and "
                f"{_join_levels(test.targets)}, for which every run exists."
            )
        if test.left_out:
            yield (
                f"{pluralize(test.left_out, 'case')} with an ERROR or UNSCORED trial in some run "
                f"{'is' if test.left_out == 1 else 'are'} not in that test."
            )
    clusters = [
        pair.difference.clusters
        for factor in (compared.prompts, compared.targets)
        if factor is not None
        for pair in factor.differences
        if pair.difference.clusters is not None
    ]
    if clusters and compared.cluster_field is not None:
        yield clusters_sentence("Intervals and tests are", max(clusters), compared.cluster_field)
    elif clusters:
        yield "Intervals and tests are over cases: the runs of one case count as related."


def _over_text(compared: FactorComparison) -> str:
    other = "target" if compared.factor == "prompt" else "prompt"
    if len(compared.over) == 1:
        return f"{'on' if other == 'target' else 'with'} {other} {_name(compared.over[0])}"
    return f"over {len(compared.over)} {other}s"


def _name(level: GridLevel) -> str:
    return f'"{one_line(level.name)}"'


def _join_levels(levels: Sequence[GridLevel]) -> str:
    return join_names([_name(level) for level in levels], 5)
