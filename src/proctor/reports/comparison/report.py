"""Comparisons of runs, and their documents. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from math import floor, log10
from typing import Any

from msgspec import Struct

from proctor.comparison.compare import Comparison
from proctor.comparison.differences import MetricDifference, PassRateDifference
from proctor.comparison.factors import GridComparison
from proctor.comparison.gate import GateRule, gate_exit_code, ungated_exit_code
from proctor.comparison.latency import LatencyDifference
from proctor.comparison.ranking import RankedRun, Ranking
from proctor.errors import ExitCode
from proctor.lint.suite_size import too_few_cases
from proctor.plurals import join_names, pluralize
from proctor.reports.comparison import sentences as words
from proctor.reports.comparison.grid import grid_blocks
from proctor.reports.comparison.prompt_diff import group_prompt_blocks, prompt_diff_blocks
from proctor.reports.document import (
    RATE_COLUMNS,
    Block,
    Column,
    Facts,
    Paragraph,
    Strong,
    Table,
    count_columns,
)
from proctor.reports.formatting import NONE, cost, milliseconds, rate
from proctor.run_gate import worst_exit_code
from proctor.safe_text import one_line

ADJUSTMENT_NOTE = (
    "p is adjusted by Holm's method, separately over splits and over parts; intervals are not adjusted."
)
"""The note below the table of differences."""
_MAX_SIDE_WIDTH = 40
_GATE_SIGNS = {ExitCode.OK: "✅", ExitCode.FAILED: "❌"}


class ComparisonReport(Struct, frozen=True, kw_only=True):
    """A comparison of two or more runs."""

    comparisons: tuple[Comparison, ...]
    """One comparison for two runs; for several, each run with each later one."""
    ranking: Ranking | None = None
    """The ranking of several runs; None for two."""
    grid: GridComparison | None = None
    """What several runs show of their prompts and targets; None for two, and without several prompts."""
    rule: GateRule | None = None
    """The rule of the gate; None without one."""
    looks: int | None = None
    """The number of holdout accesses, this one included; None if nothing of the holdout is shown."""
    judges: tuple[str, ...] = ()
    """What is known of the judges, in sentences."""

    @property
    def shows_rates(self) -> bool:
        """Whether it contains pass rates."""
        first = self.comparisons[0]
        return self.ranking is not None or bool(first.baseline_counts.total or first.candidate_counts.total)

    @property
    def baseline_comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons with the first run, which is the baseline of a gate."""
        return self.comparisons if self.ranking is None else self.ranking.candidates

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


def document_for(report: ComparisonReport, flips: int = 50) -> Iterator[Block]:
    """Yields the blocks of a comparison: the verdict, its evidence, and what was left out.

    Args:
        report: the comparison.
        flips: at most this many fixed and this many broken cases are named.
    """
    # The gate is what one sees first in a pull request, and last on a terminal.
    for sign, sentence in _gate_sentences(report):
        yield Paragraph((f"{sign} ", Strong(sentence)), only="markdown")
    if report.ranking is None:
        yield from _pair_blocks(report.comparisons[0], flips)
    else:
        if report.grid is not None:
            yield from grid_blocks(report.grid)
            yield from group_prompt_blocks([ranked.run for ranked in report.ranking.runs])
        yield ranking_table(report.ranking)
        yield from map(Paragraph, ranking_notes(report.ranking))
        if report.rule is not None or report.grid is None or report.grid.prompts is None:
            yield candidate_table(report.ranking)
    yield from (Paragraph(warning, only="markdown") for warning in report.warnings)
    yield from map(Paragraph, (*report.judges, *words.access_notes(report.looks)))
    for _, sentence in _gate_sentences(report):
        yield Paragraph(sentence, only="terminal")


def _gate_sentences(report: ComparisonReport) -> Iterator[tuple[str, str]]:
    """Yields a sign and a sentence for each candidate; nothing without a gate."""
    if report.rule is None:
        return
    for comparison in report.baseline_comparisons:
        name = "" if report.ranking is None else f"{words.run_label(comparison.candidate)}: "
        sign = _GATE_SIGNS.get(gate_exit_code(comparison, report.rule), "⚠️")
        yield sign, f"{name}{words.gate_sentence(comparison, report.rule)}"


def _pair_blocks(comparison: Comparison, flips: int) -> Iterator[Block]:
    yield Paragraph(words.verdict_sentence(comparison), style="strong")
    yield side_table(comparison)
    notes = (words.pair_rates_note(comparison), words.clusters_note(comparison))
    yield from map(Paragraph, filter(None, notes))
    runs = (("baseline", comparison.baseline), ("candidate", comparison.candidate))
    yield Facts([(name, words.run_label(run)) for name, run in runs])
    if comparison.pairs:
        yield difference_table(comparison)
        yield measure_facts(comparison)
    yield from prompt_diff_blocks(comparison.baseline, comparison.candidate)
    yield from _flip_blocks(comparison, flips)
    yield from map(Paragraph, words.remarks(comparison))


def side_table(comparison: Comparison) -> Table:
    """Returns a row for each run, with its own counts and rate; names the prompts if they differ."""
    prompts = [
        "" if run.prompt is None else run.prompt.name for run in (comparison.baseline, comparison.candidate)
    ]
    names = ["baseline", "candidate"]
    if all(prompts) and prompts[0] != prompts[1]:
        names = [f"{name} {one_line(prompt)}" for name, prompt in zip(names, prompts, strict=True)]
    sides = zip(names, (comparison.baseline_counts, comparison.candidate_counts), strict=True)
    rows = [(name, counts.passed, counts.total, counts) for name, counts in sides if counts.total]
    return Table((Column(width=9, max_width=_MAX_SIDE_WIDTH), *RATE_COLUMNS), rows)


def difference_table(comparison: Comparison) -> Table:
    """Returns a row for the whole and for each part: its flips, and the difference."""
    parts = [("all", comparison.whole)]
    if comparison.unedited is not None:
        parts.append(("  input unchanged", comparison.unedited))
    parts += [(f"  {part.name}", part.difference) for part in comparison.splits]
    rows = [_difference_row(*part) for part in parts]
    if comparison.parts:
        rows.append((f"by {comparison.by}", *[""] * 5))
        rows += [_difference_row(f"  {part.name}", part.difference) for part in comparison.parts]
    name, counts = Column(width=12, max_width=40), count_columns("cases", "fixed", "broken", width=7)
    columns = (name, *counts, Column("difference", "difference"), Column("p", "p"))
    return Table(columns, rows, notes=[ADJUSTMENT_NOTE] if len(rows) > 1 else ())


def _difference_row(name: str, difference: PassRateDifference) -> tuple[Any, ...]:
    return name, difference.cases, difference.fixed, difference.broken, difference, difference.p_adjusted


def _flip_blocks(comparison: Comparison, max_flips: int) -> Iterator[Block]:
    """Yields the flipped cases: a line for each on a terminal, and else a sentence for each kind."""
    kinds = [
        (name, flips) for name, flips in (("broken", comparison.broken), ("fixed", comparison.fixed)) if flips
    ]
    for name, flips in kinds:
        names = join_names([words.trial_label(flip) for flip in flips], max_flips)
        yield Paragraph(f"{name.capitalize()} ({len(flips):,}): {names}", only="markdown")
    notes = [
        f"…and {len(flips) - max_flips:,} more {name}: --flips {len(flips)}"
        for name, flips in kinds
        if len(flips) > max_flips
    ]
    if kinds and max_flips:
        case = shlex.quote(kinds[0][1][0].case)
        runs = (comparison.baseline, comparison.candidate)
        commands = "; ".join(one_line(f"proctor runs show {run.id} --case {case}") for run in runs)
        notes.append(f"To see both answers of a case: {commands}")
    yield Table(
        columns=(Column(kind="verdict", width=8), Column()),
        rows=[(name, words.trial_label(flip)) for name, flips in kinds for flip in flips[:max_flips]],
        notes=notes,
        only="terminal",
    )


def ranking_table(ranking: Ranking) -> Table:
    """Returns a row for each run, the best first."""
    rows = []
    for ranked in ranking.by_rank:
        counts = ranked.counts
        rows.append((rank_text(ranked), counts.passed, counts.total, counts, words.run_label(ranked.run)))
    return Table((*count_columns("rank"), *RATE_COLUMNS, Column("run")), rows)


def rank_text(ranked: RankedRun) -> str:
    """Returns the rank of a run: `2`, `1–2` if what was not measured decides, or a dash without any."""
    if ranked.rank is None or ranked.lowest_rank is None:
        return NONE
    highest, lowest = f"{ranked.rank:,}", f"{ranked.lowest_rank:,}"
    return highest if highest == lowest else f"{highest}–{lowest}"


def candidate_table(ranking: Ranking) -> Table:
    """Returns a row for each run but the first, with its difference to the first, the baseline."""
    rows = []
    for comparison in ranking.candidates:
        run, whole = comparison.candidate, comparison.whole
        counts = (whole.cases, whole.fixed, whole.broken)
        rows.append((words.target_label(run), *counts, whole, whole.p_adjusted, whole.direction))
    return Table(
        (
            Column("candidate", max_width=60),
            *count_columns("cases", "fixed", "broken", width=7),
            Column("difference", "difference"),
            Column("p", "p"),
            Column("shows"),
        ),
        rows,
        caption=f"Against {words.target_label(ranking.candidates[0].baseline)}",
        notes=[f"p is adjusted by Holm's method over these {len(rows):,} candidates; intervals are not."],
    )


def ranking_notes(ranking: Ranking) -> Iterator[str]:
    """Yields notes on the ranks, and on what the runs do not have in common."""
    count = len(ranking.comparisons)
    distinct = sum(comparison.whole.direction in ("better", "worse") for comparison in ranking.comparisons)
    yield (
        "The rank of a run is 1 plus the number of runs that are shown to be better. "
        f"{distinct:,} of {count:,} pairs of runs can be told apart: their 95 % interval excludes zero, "
        f"and p is below 0.05, adjusted by Holm's method over all {count:,}."
    )
    if any(ranked_run.rank != ranked_run.lowest_rank for ranked_run in ranking.runs):
        yield "If a rank has two numbers, unmeasured trials decide between them."
    lead = ranking.chance_lead
    if lead:
        count = sum(ranked_run.rank is not None for ranked_run in ranking.runs)
        yield (
            f"The best of {count:,} equal runs would look {lead * 100:.1f} points better than their mean by "
            "luck alone."
        )
    for ranked_run in ranking.runs:
        if ranked_run.rank is None:
            yield f"Run {ranked_run.run.id} has no rank: none of its trials was measured."
        if not ranked_run.is_finished:
            planned_count = ranked_run.run.planned
            unfinished_text = f"{ranked_run.missing:,} of {planned_count:,} trials are missing"
            yield f"Run {ranked_run.run.id} is not finished: {unfinished_text}."
        if note := words.early_stop_note(f"Run {ranked_run.run.id}", ranked_run.run):
            yield note
    yield from dict.fromkeys(filter(None, map(words.clusters_note, ranking.comparisons)))
    pairs = {comparison.pairs for comparison in ranking.comparisons}
    if len(pairs) > 1 or any(comparison.unpaired.is_partial for comparison in ranking.comparisons):
        yield (
            f"The runs do not have the same trials. Each pair is compared on the {min(pairs):,} to "
            f"{max(pairs):,} trials that both have."
        )
    edited = [comparison.unpaired for comparison in ranking.comparisons]
    if any(unpaired.input_changed or unpaired.checks_changed for unpaired in edited):
        changed = max(len(unpaired.input_changed) for unpaired in edited)
        unpaired_count = max(len(unpaired.checks_changed) for unpaired in edited)
        yield (
            "The suites of the runs differ. Each pair includes up to "
            f"{pluralize(changed, 'case')} whose input changed, and leaves out up to "
            f"{pluralize(unpaired_count, 'case')} whose checks changed. Compare two runs to see which."
        )
    missing = sum(len(comparison.not_measured) for comparison in ranking.comparisons)
    if missing:
        yield f"Not measured, so in no comparison: {missing:,} pairs with an ERROR or UNSCORED trial."


def measure_facts(comparison: Comparison) -> Facts:
    """Returns the numbers of score, latency, speed and cost, as far as they were measured."""
    facts = list(_measures(comparison))
    return Facts(facts, width=max(9, *(len(name) for name, _ in facts)) if facts else 9)


def _measures(comparison: Comparison) -> Iterator[tuple[str, str]]:
    score, latency, costs = comparison.score, comparison.latency_ms, comparison.cost_usd
    if score is not None:
        yield "score", _measure_text(score, _score_text, "mean")
    if latency is None and comparison.latency_left_out:
        yield "latency", f"not measured in both runs: {_left_out_text(comparison.latency_left_out)}"
    elif latency is not None and (latency.baseline or latency.candidate):
        parts = [_latency_text(latency, milliseconds)]
        parts += [_left_out_text(comparison.latency_left_out)] * bool(comparison.latency_left_out)
        yield "latency", "; ".join(parts)
    if comparison.first_token_ms is not None:
        yield "first token", _latency_text(comparison.first_token_ms, milliseconds, explained=True)
    if comparison.tokens_per_second is not None:
        yield "tokens/s", _latency_text(comparison.tokens_per_second, rate, explained=True)
    if costs is not None and (costs.baseline or costs.candidate):
        yield "cost", _measure_text(costs, cost, "mean")


def _left_out_text(pairs: int) -> str:
    verb = "is" if pairs == 1 else "are"
    return f"{pluralize(pairs, 'pair')} with an answer from the cache or another run {verb} left out"


def _latency_text(
    latency: LatencyDifference, unit: Callable[[float | None], str], *, explained: bool = False
) -> str:
    """Returns the latencies with an interval; without one, why there is none, for runs that took no turns.

    Args:
        latency: the latencies, or speeds.
        unit: formats one.
        explained: whether an earlier line already explains why there is no interval.
    """
    if latency.interleaved:
        text = f"{_measure_text(latency, unit, 'median')}, interleaved"
        if not latency.out_of_turn:
            return text
        verb = "is" if latency.out_of_turn == 1 else "are"
        return f"{text}; {pluralize(latency.out_of_turn, 'pair')} out of turn {verb} left out"
    text = (
        f"mean {unit(latency.baseline)} → {unit(latency.candidate)} · "
        f"median {unit(latency.baseline_median)} → {unit(latency.candidate_median)} "
        f"over {pluralize(latency.cases, 'case')}"
    )
    if explained:
        return f"{text}; no interval, for the same reason"
    return (
        f"{text}; no interval, because the runs were not interleaved and a difference may come from the "
        "time of day: proctor run --interleave sends each case to all targets in turn"
    )


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
    """Formats a difference in its unit, with its sign; a tiny one in two digits."""
    text = unit(abs(value))
    if unit is cost and 0 < abs(value) < 0.0001:
        text = f"${abs(value):.{min(12, 1 - floor(log10(abs(value))))}f}"
    return text if not value else f"{'-' if value < 0 else '+'}{text}"
