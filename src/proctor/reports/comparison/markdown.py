"""Comparisons to Markdown, for a pull request. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proctor.comparison.compare import Comparison, Flip
from proctor.comparison.differences import Difference
from proctor.comparison.gate import exit_code
from proctor.comparison.ranking import Ranking
from proctor.errors import ExitCode
from proctor.reports.comparison import sentences as words
from proctor.reports.comparison.text import ADJUSTED, Compared, measures, ranked
from proctor.reports.formatting import NONE, interval, p_value, percent, points
from proctor.safe_text import markdown_text

_SIGNS = {ExitCode.OK: "✅", ExitCode.FAILED: "❌"}


def render(compared: Compared, flips: int = 50) -> Iterator[str]:
    """The verdict first, then the numbers, then what flipped."""
    if compared.rule is not None:
        for found in compared.gated:
            sign = _SIGNS.get(exit_code(found, compared.rule), "⚠️")
            name = "" if compared.ranking is None else f"{markdown_text(words.called(found.candidate))}: "
            yield f"{sign} **{name}{words.gate(found, compared.rule)}**\n\n"
    if compared.ranking is None:
        yield from _of_two(compared.comparisons[0], flips)
    else:
        yield from _of_several(compared.ranking)
    for line in (*compared.doubts, *compared.judges, *words.look(compared.looks)):
        yield f"{markdown_text(line)}\n\n"


def _of_two(found: Comparison, flips: int) -> Iterator[str]:
    yield f"**{words.verdict(found)}**\n\n"
    yield from _runs(found)
    yield from _differences(found)
    for name, told in measures(found):
        yield f"- {name}: {told}\n"
    if any(True for _ in measures(found)):
        yield "\n"
    for title, flipped in (("Broken", found.broken), ("Fixed", found.fixed)):
        yield from _flips(title, flipped, flips)
    for line in words.remarks(found):
        yield f"{markdown_text(line)}\n\n"


def _runs(found: Comparison) -> Iterator[str]:
    whole = found.whole
    what = "trials" if whole.by_case else "cases"
    yield f"| | run | passed | {what} | rate | 95 % interval |\n|---|---|--:|--:|--:|---|\n"
    for name, run, side in (
        ("baseline", found.baseline, whole.baseline),
        ("candidate", found.candidate, whole.candidate),
    ):
        rate = f"{NONE} | {NONE}" if side is None else f"{percent(side.rate)} | {interval(side.ci95)}"
        passed = NONE if side is None else f"{side.passed:,}"
        yield f"| {name} | {markdown_text(words.called(run))} | {passed} | {whole.pairs:,} | {rate} |\n"
    yield "\n"


def _differences(found: Comparison) -> Iterator[str]:
    if not found.whole.cases:
        return
    yield "| | cases | fixed | broken | difference | 95 % interval | p |\n|---|--:|--:|--:|--:|---|--:|\n"
    yield _row("**all**", found.whole)
    for part in found.splits:
        yield _row(markdown_text(part.name), part.difference)
    if found.parts:
        yield f"| **by {found.by}** | | | | | | |\n"
    for part in found.parts:
        yield _row(markdown_text(part.name), part.difference)
    yield f"\n{ADJUSTED}\n\n" if found.splits or found.parts else "\n"


def _row(name: str, difference: Difference) -> str:
    value = NONE if difference.value is None else points(difference.value)
    return (
        f"| {name} | {difference.cases:,} | {difference.fixed:,} | {difference.broken:,} | {value} "
        f"| {words.span(difference.ci95)} | {p_value(difference.p_told)} |\n"
    )


def _flips(title: str, flips: Sequence[Flip], most: int) -> Iterator[str]:
    if not flips:
        return
    more = len(flips) - most
    names = ", ".join(markdown_text(words.name_of(flip)) for flip in flips[:most])
    yield f"{title} ({len(flips):,}): {names}{f' and {more:,} more' if more > 0 else ''}\n\n"


def _of_several(ranking: Ranking) -> Iterator[str]:
    yield "| rank | run | passed | total | rate | 95 % interval |\n|--:|---|--:|--:|--:|---|\n"
    for one in ranking.in_order:
        counts = one.counts
        yield (
            f"| {one.rank} | {markdown_text(words.called(one.run))} | {counts.passed:,} | {counts.total:,} "
            f"| {percent(counts.pass_rate)} | {interval(counts.ci95)} |\n"
        )
    yield "\n"
    yield "".join(f"{markdown_text(line)}\n\n" for line in ranked(ranking))
