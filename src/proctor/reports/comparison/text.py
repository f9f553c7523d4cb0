"""Renders comparisons as text for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from proctor.comparison.compare import Comparison, VerdictFlip
from proctor.comparison.differences import MetricDifference, PassRateDifference, RunPassRate
from proctor.comparison.gate import GateRule, gate_exit_code, ungated_exit_code
from proctor.comparison.ranking import Ranking
from proctor.errors import ExitCode
from proctor.lint.suite_size import too_few_cases
from proctor.reports.comparison import sentences as words
from proctor.reports.formatting import (
    AXIS_HEAD,
    NONE,
    cost,
    draw_interval,
    interval,
    milliseconds,
    p_value,
    percent,
    percentage_points,
)
from proctor.safe_text import display_width, one_line, pad_to_width
from proctor.verdicts import worst_exit_code

ADJUSTMENT_NOTE = "p of a split and of a part is adjusted by Holm's method among its like; intervals are not."
"""The note below the table of differences."""
_MAX_NAME_LENGTH = 40
"""Maximum length of a name in that table."""
_HALF_WIDTH = 12
"""Width of the axis of a difference on each side of zero, in columns."""


class ComparisonReport(Struct, frozen=True, kw_only=True):
    """A comparison of two or more runs."""

    comparisons: tuple[Comparison, ...]
    """One comparison for two runs; for several, each run with each later one."""
    ranking: Ranking | None = None
    """The ranking of several runs; None for two."""
    rule: GateRule | None = None
    """The rule of the gate; None without one."""
    looks: int | None = None
    """The number of holdout accesses, this one included; None if nothing of the holdout is shown."""
    judges: tuple[str, ...] = ()
    """What is known of the judges, in sentences."""

    @property
    def shows_rates(self) -> bool:
        """Whether it contains pass rates."""
        return self.ranking is not None or bool(self.comparisons[0].whole.pairs)

    @property
    def baseline_comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons with the first run, which is the baseline of a gate."""
        return self.comparisons[: 1 if self.ranking is None else len(self.ranking.runs) - 1]

    @property
    def exit_code(self) -> ExitCode:
        """The gate's worst exit code over all candidates; without a gate, whether anything was compared."""
        if self.rule is None:
            return ungated_exit_code(self.comparisons)
        rule = self.rule
        return worst_exit_code(gate_exit_code(comparison, rule) for comparison in self.baseline_comparisons)

    @property
    def warnings(self) -> list[str]:
        """Reasons why runs may not be comparable, and too few cases, each sentence once."""
        warnings = dict.fromkeys(
            line for comparison in self.baseline_comparisons for line in comparison.warnings
        )
        if self.rule is None and self.ranking is None:  # the verdict says whether the cases are too few
            return list(warnings)
        unclear_sizes = {
            comparison.baseline.suite.name: comparison.whole.cases
            for comparison in self.comparisons
            if comparison.whole.direction not in ("better", "worse")
        }
        return [*warnings, *filter(None, [too_few_cases(unclear_sizes)])]


def render_text(report: ComparisonReport, flips: int = 10) -> Iterator[str]:
    """Yields the whole report of a comparison.

    Args:
        report: the comparison.
        flips: at most this many fixed and this many broken cases are named.
    """
    if report.ranking is None:
        yield from _pair_lines(report.comparisons[0], flips)
    else:
        yield from _ranking_lines(report.ranking)
    yield from map(one_line, report.judges)
    yield from words.access_notes(report.looks)
    if report.rule is not None:
        for comparison in report.baseline_comparisons:
            name = "" if report.ranking is None else f"{words.run_label(comparison.candidate)}: "
            yield f"{name}{words.gate_sentence(comparison, report.rule)}"


# --- two runs ----------------------------------------------------------------------------------------------


def _pair_lines(comparison: Comparison, flips: int) -> Iterator[str]:
    whole = comparison.whole
    if whole.baseline is not None and whole.candidate is not None:
        yield f"{'':<9}   passed  {' trials' if whole.by_case else '  cases'}    rate  {AXIS_HEAD}"
        yield _side_line("baseline", whole.baseline, whole)
        yield _side_line("candidate", whole.candidate, whole)
        yield ""
    yield f"baseline   {words.run_label(comparison.baseline)}"
    yield f"candidate  {words.run_label(comparison.candidate)}"
    yield ""
    yield words.verdict_sentence(comparison)
    yield ""
    if whole.cases:
        yield from _difference_lines(comparison)
        yield ""
        measure_lines = [f"{name:<9}  {text}" for name, text in measure_texts(comparison)]
        if measure_lines:
            yield from (*measure_lines, "")
    yield from _flip_lines("BROKEN", comparison.broken, flips)
    yield from _flip_lines("FIXED", comparison.fixed, flips)
    if comparison.broken or comparison.fixed:
        yield ""
    yield from words.remarks(comparison)


def _side_line(name: str, side: RunPassRate, whole: PassRateDifference) -> str:
    return (
        f"{name:<9}  {side.passed:>7,}  {whole.pairs:>7,}  {percent(side.rate):>6}  "
        f"{draw_interval(side.rate, side.ci95)}  {interval(side.ci95)}"
    )


def _difference_lines(comparison: Comparison) -> Iterator[str]:
    """Yields a row for the whole and for each part: its flips, and its difference with a drawing."""
    rows: list[tuple[str, PassRateDifference | None]] = [("all", comparison.whole)]
    rows += [(f"  {_shorten(part.name)}", part.difference) for part in comparison.splits]
    if comparison.parts:
        rows.append((f"by {_shorten(str(comparison.by))}", None))
        rows += [(f"  {_shorten(part.name)}", part.difference) for part in comparison.parts]
    reach = _axis_limit([row for _, row in rows if row is not None])
    wide = max(12, *(display_width(name) for name, _ in rows))
    head = f"{-reach:+.0f}pp{'0':^{2 * _HALF_WIDTH + 1 - 2 * len(f'{reach:+.0f}pp')}}{reach:+.0f}pp"
    yield f"{'':<{wide}}    cases    fixed   broken  difference  {head}  {'95% interval':<20}p"
    for name, difference in rows:
        yield (
            name
            if difference is None
            else f"{pad_to_width(name, wide)}  {_difference_cells(difference, reach)}"
        )
    if comparison.splits or comparison.parts:
        yield ADJUSTMENT_NOTE


def _shorten(name: str) -> str:
    """Returns a name on one line; the middle of a long one is cut."""
    line = one_line(name)
    return (
        line
        if len(line) <= _MAX_NAME_LENGTH
        else f"{line[: _MAX_NAME_LENGTH // 2]}…{line[-_MAX_NAME_LENGTH // 2 + 1 :]}"
    )


def _difference_cells(difference: PassRateDifference, reach: float) -> str:
    value = NONE if difference.value is None else percentage_points(difference.value)
    return (
        f"{difference.cases:>7,}  {difference.fixed:>7,}  {difference.broken:>7,}  {value:>10}  "
        f"{_draw_difference(difference, reach)}  {words.interval_text(difference.ci95):<20}"
        f"{p_value(difference.p_adjusted)}"
    )


def _axis_limit(rows: Sequence[PassRateDifference]) -> float:
    """Returns the limit of the axis in percentage points: the largest bound, rounded up."""
    furthest = max((abs(end) * 100 for row in rows for end in row.ci95 or ()), default=0.0)
    return next((step for step in (5, 10, 20, 30, 50, 75) if furthest <= step), 100)


def _draw_difference(difference: PassRateDifference, reach: float) -> str:
    """Draws a dot for the difference on a band for its interval, around zero."""
    if difference.value is None or difference.ci95 is None:
        return " " * (2 * _HALF_WIDTH + 1)
    low, at, high = (
        _HALF_WIDTH + round(share * 100 / reach * _HALF_WIDTH)
        for share in (difference.ci95[0], difference.value, difference.ci95[1])
    )
    axis = ["━" if low <= column <= high else "·" for column in range(2 * _HALF_WIDTH + 1)]
    axis[_HALF_WIDTH] = "┼" if low <= _HALF_WIDTH <= high else "│"
    axis[at] = "●"
    return "".join(axis)


def measure_texts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yields the names and numbers of score, latency and cost, as far as they were measured."""
    for name, measure, unit, statistic in (
        ("score", comparison.score, _score_text, "mean"),
        ("latency", comparison.latency_ms, milliseconds, "median"),
        ("cost", comparison.cost_usd, cost, "mean"),
    ):
        if measure is not None and (name == "score" or measure.baseline or measure.candidate):
            yield name, _measure_text(measure, unit, statistic)


def _score_text(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _measure_text(measure: MetricDifference, unit: Callable[[float | None], str], statistic: str) -> str:
    """Returns both means, and the mean or median difference with its interval."""
    value, bounds = (
        (measure.difference, measure.ci95) if statistic == "mean" else (measure.median, measure.median_ci95)
    )
    between = ""
    if bounds is not None:
        between = f" (95 % interval {_signed_text(bounds[0], unit)} to {_signed_text(bounds[1], unit)})"
    return (
        f"mean {unit(measure.baseline)} → {unit(measure.candidate)} · {statistic} difference "
        f"{_signed_text(value, unit)}{between} over {measure.cases:,} cases"
    )


def _signed_text(value: float, unit: Callable[[float | None], str]) -> str:
    """Formats a difference in its unit, with its sign."""
    text = unit(abs(value))
    return text if not value else f"{'-' if value < 0 else '+'}{text}"


def _flip_lines(word: str, flips: Sequence[VerdictFlip], max_flips: int) -> Iterator[str]:
    for flip in flips[:max_flips]:
        yield f"{word:<8}  {words.trial_label(flip)}"
    if len(flips) > max_flips:
        yield f"…and {len(flips) - max_flips:,} more {word.lower()}: --flips {len(flips)}"


# --- several runs ------------------------------------------------------------------------------------------


def _ranking_lines(ranking: Ranking) -> Iterator[str]:
    yield f"rank  passed  total    rate  {AXIS_HEAD}"
    for ranked_run in ranking.by_rank:
        counts = ranked_run.counts
        yield (
            f"{ranked_run.rank:>4}  {counts.passed:>6,}  {counts.total:>5,}  {percent(counts.pass_rate):>6}  "
            f"{draw_interval(counts.pass_rate, counts.ci95)}  {interval(counts.ci95):<8}  "
            f"{words.run_label(ranked_run.run)}"
        )
    yield ""
    yield from ranking_notes(ranking)


def ranking_notes(ranking: Ranking) -> Iterator[str]:
    """Yields notes on the ranks, and on what the runs do not have in common."""
    count = len(ranking.comparisons)
    distinct = sum(comparison.whole.direction in ("better", "worse") for comparison in ranking.comparisons)
    yield (
        "A rank is 1, and one more for each run that is shown to be better. "
        f"Of {count:,} pairs of runs {distinct:,} can be told apart: by a 95 % interval without zero, and "
        f"by p below 0.05, adjusted by Holm's method over all {count:,}."
    )
    for ranked_run in ranking.runs:
        if not ranked_run.is_finished:
            planned_count = ranked_run.run.planned
            unfinished_text = f"{ranked_run.missing:,} of {planned_count:,} trials are missing"
            yield f"Run {ranked_run.run.id} is not finished: {unfinished_text}."
    pairs = {comparison.pairs for comparison in ranking.comparisons}
    if len(pairs) > 1 or any(comparison.unpaired.is_partial for comparison in ranking.comparisons):
        yield (
            f"The runs do not have the same trials: two are compared on the {min(pairs):,} to {max(pairs):,} "
            "that both have."
        )
    missing = sum(len(comparison.not_measured) for comparison in ranking.comparisons)
    if missing:
        yield f"Not measured, and in no comparison: {missing:,} pairs with an ERROR or UNSCORED trial."
