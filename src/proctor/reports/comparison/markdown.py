"""Renders comparisons as Markdown, for a pull request. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from proctor.comparison.compare import Comparison
from proctor.comparison.differences import PassRateDifference
from proctor.comparison.gate import gate_exit_code
from proctor.comparison.ranking import Ranking
from proctor.errors import ExitCode
from proctor.reports.comparison import sentences as words
from proctor.reports.comparison.text import ADJUSTMENT_NOTE, ComparisonReport, measure_texts, ranking_notes
from proctor.reports.formatting import NONE, interval, p_value, percent, percentage_points
from proctor.safe_text import markdown_text

_SIGNS = {ExitCode.OK: "✅", ExitCode.FAILED: "❌"}


def render(report: ComparisonReport, flips: int = 50) -> Iterator[str]:
    """Yields the verdict, the numbers, and the cases that flipped."""
    if report.rule is not None:
        for comparison in report.baseline_comparisons:
            sign = _SIGNS.get(gate_exit_code(comparison, report.rule), "⚠️")
            name = (
                "" if report.ranking is None else f"{markdown_text(words.run_label(comparison.candidate))}: "
            )
            yield f"{sign} **{name}{words.gate_sentence(comparison, report.rule)}**\n\n"
    if report.ranking is None:
        yield from _pair_section(report.comparisons[0], flips)
    else:
        yield from _ranking_section(report.ranking)
    for line in (*report.warnings, *report.judges, *words.access_notes(report.looks)):
        yield f"{markdown_text(line)}\n\n"


def _pair_section(comparison: Comparison, flips: int) -> Iterator[str]:
    yield f"**{words.verdict_sentence(comparison)}**\n\n"
    yield from _runs(comparison)
    yield from _differences(comparison)
    measures = [f"- {name}: {text}\n" for name, text in measure_texts(comparison)]
    if measures:
        yield from (*measures, "\n")
    for title, flipped in (("Broken", comparison.broken), ("Fixed", comparison.fixed)):
        if flipped:
            names = ", ".join(markdown_text(words.trial_label(flip)) for flip in flipped[:flips])
            more = f" and {len(flipped) - flips:,} more" if len(flipped) > flips else ""
            yield f"{title} ({len(flipped):,}): {names}{more}\n\n"
    for line in words.remarks(comparison):
        yield f"{markdown_text(line)}\n\n"


def _runs(comparison: Comparison) -> Iterator[str]:
    whole = comparison.whole
    what = "trials" if whole.by_case else "cases"
    yield f"| | run | passed | {what} | rate | 95 % interval |\n|---|---|--:|--:|--:|---|\n"
    for name, run, side in (
        ("baseline", comparison.baseline, whole.baseline),
        ("candidate", comparison.candidate, whole.candidate),
    ):
        rate = f"{NONE} | {NONE}" if side is None else f"{percent(side.rate)} | {interval(side.ci95)}"
        passed = NONE if side is None else f"{side.passed:,}"
        yield f"| {name} | {markdown_text(words.run_label(run))} | {passed} | {whole.pairs:,} | {rate} |\n"
    yield "\n"


def _differences(comparison: Comparison) -> Iterator[str]:
    if not comparison.whole.cases:
        return
    yield "| | cases | fixed | broken | difference | 95 % interval | p |\n|---|--:|--:|--:|--:|---|--:|\n"
    yield _row("**all**", comparison.whole)
    for part in comparison.splits:
        yield _row(markdown_text(part.name), part.difference)
    if comparison.parts:
        yield f"| **by {comparison.by}** | | | | | | |\n"
    for part in comparison.parts:
        yield _row(markdown_text(part.name), part.difference)
    yield f"\n{ADJUSTMENT_NOTE}\n\n" if comparison.splits or comparison.parts else "\n"


def _row(name: str, difference: PassRateDifference) -> str:
    value = NONE if difference.value is None else percentage_points(difference.value)
    return (
        f"| {name} | {difference.cases:,} | {difference.fixed:,} | {difference.broken:,} | {value} "
        f"| {words.interval_text(difference.ci95)} | {p_value(difference.p_adjusted)} |\n"
    )


def _ranking_section(ranking: Ranking) -> Iterator[str]:
    yield "| rank | run | passed | total | rate | 95 % interval |\n|--:|---|--:|--:|--:|---|\n"
    for ranked_run in ranking.by_rank:
        counts = ranked_run.counts
        yield (
            f"| {ranked_run.rank} | {markdown_text(words.run_label(ranked_run.run))} | {counts.passed:,} "
            f"| {counts.total:,} | {percent(counts.pass_rate)} | {interval(counts.ci95)} |\n"
        )
    yield "\n"
    yield "".join(f"{markdown_text(line)}\n\n" for line in ranking_notes(ranking))
