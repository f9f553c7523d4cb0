"""Renders runs as text for a terminal. Pure: colour is added when the text is printed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from proctor.model import Run, Verdict
from proctor.plurals import pluralize
from proctor.reports.formatting import (
    AXIS_HEAD,
    costs,
    draw_interval,
    interval,
    milliseconds,
    percent,
    percentage_points,
    seconds,
)
from proctor.reports.runs.serialize import (
    CaseResult,
    RunReport,
    access_note,
    counts_by_tag,
    first_failures,
    gate_note,
    interval_note,
    judge_notes,
    missing_note,
    repeats_note,
    reuse_notes,
)
from proctor.reports.runs.splits import split_notes
from proctor.safe_text import display_width, one_line, pad_to_width, truncate
from proctor.verdicts import MAX_FIRST_FAILURES, Counts, Tally

_MAX_REASON_LENGTH = 100
_MAX_TAGS = 10
"""At most this many tags are listed, the most frequent; tags on a single case are not."""
_MAX_TAG_LENGTH = 40
"""Maximum length of a tag."""


def split_sizes_line(dev: int | None, holdout: int | None) -> str | None:
    """Returns a line with the sizes of dev and holdout; None for a suite that is not split."""
    if dev is None or holdout is None:
        return None
    return f"Running custom suite: {dev} dev + {holdout} holdout tests"


def render_text(report: RunReport) -> Iterator[str]:
    """Yields the lines of the report of a run."""
    run, tally = report.run, report.tally
    has_holdout = "holdout" in tally.splits
    if has_holdout:
        yield from _split_lines(tally)
        yield ""
        notes = [*split_notes(tally.splits), *filter(None, [access_note(report)])]
        if notes:
            yield from (*notes, "")
    reported_models = ", ".join(sorted(tally.models - {run.target.model}))
    yield one_line(
        f"{run.suite.title} on {run.target.name}" + (f" ({reported_models})" if reported_models else "")
    )
    yield ""
    yield from _tables(run, tally, below_splits=has_holdout)
    yield from _failure_lines(report)
    yield _footer(run, tally)
    run_notes = (repeats_note(report), interval_note(report), missing_note(report), gate_note(report))
    yield from (note for note in run_notes if note is not None)
    yield from map(one_line, judge_notes(report))
    if tally.refused_params:
        names = ", ".join(sorted(tally.refused_params))
        yield f"Not applied, as the target does not take it: {names}"
    yield f"Run {run.id}"


def overview_lines(runs: Sequence[RunReport]) -> Iterator[str]:
    """Yields a line for each of several runs, named by suite, target or both."""
    targets = {report.run.target.name for report in runs}
    suites = {report.run.suite.title for report in runs}
    rows = []
    for report in runs:
        names = (report.run.suite.title, report.run.target.name)
        name = names[1] if len(suites) == 1 else names[0] if len(targets) == 1 else " on ".join(names)
        rows.append(_row(one_line(name), report.tally.result_counts))
    yield from _table_lines(rows)


def _split_lines(tally: Tally) -> Iterator[str]:
    dev = tally.splits.get("dev", Counts())
    holdout = tally.splits.get("holdout", Counts())
    yield f"Completed: Dev {dev.passed}/{dev.total} | Holdout {holdout.passed}/{holdout.total}"
    yield ""
    difference = ""
    if dev.pass_rate is not None and holdout.pass_rate is not None:
        difference = f" ({percentage_points(holdout.pass_rate - dev.pass_rate)})"
    mean = tally.latency_ms()["mean"]
    cells = {
        "Dev Accuracy": percent(dev.pass_rate),
        "Holdout Accuracy": percent(holdout.pass_rate) + difference,
        "Total Passed": str(tally.result_counts.passed),
        "Latency": "–" if mean is None else f"{mean:.0f}ms",
    }
    widths = [max(width, len(cell)) for width, cell in zip((16, 18, 13, 7), cells.values(), strict=True)]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    yield rule
    for row in (cells.keys(), cells.values()):
        yield "|" + "|".join(f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True)) + "|"
    yield rule


class _TableRow(Struct, frozen=True):
    """A row of a table: a name, its numbers as texts, and the counts drawn on its axis."""

    name: str
    numbers: tuple[str, ...]
    counts: Counts


_NUMBER_WIDTHS = {"passed": 6, "total": 5, "rate": 6}
"""The number columns of a table, with their widths."""


def _row(name: str, counts: Counts, *, without: Collection[str] = ()) -> _TableRow:
    """Returns a row; the columns in `without` stay empty."""
    numbers = (str(counts.passed), str(counts.total), percent(counts.pass_rate))
    texts = ("" if head in without else text for head, text in zip(_NUMBER_WIDTHS, numbers, strict=True))
    return _TableRow(name, tuple(texts), counts)


def _rows(tally: Tally, *, below_splits: bool) -> Iterator[_TableRow]:
    """Yields the run, its splits and categories; numbers already shown above are left out."""
    omitted = _NUMBER_WIDTHS if below_splits else ()
    several = len(tally.splits) > 1
    yield _row("all", tally.result_counts, without=["passed"] if below_splits and several else omitted)
    if several:
        for name in sorted(tally.splits):
            yield _row(f"  {name}", tally.splits[name], without=omitted)
    if len(tally.categories) > 1:
        for name in sorted(tally.categories):
            yield _row(f"  {one_line(name)}", tally.categories[name])


def _tables(run: Run, tally: Tally, *, below_splits: bool) -> Iterator[str]:
    """Yields the table of the run and its parts and that of its tags, each followed by an empty line."""
    rows, tags = list(_rows(tally, below_splits=below_splits)), counts_by_tag(tally)
    several = [name for name, counts in tags.items() if counts.cases > 1]
    most = sorted(several, key=lambda name: -tags[name].total)[:_MAX_TAGS]
    tag_rows = [_row(truncate(name, _MAX_TAG_LENGTH), tags[name]) for name in sorted(most)]
    width = max(display_width(row.name) for row in (*rows, *tag_rows))
    yield from _table_lines(rows, width=width)
    yield ""
    if tag_rows:
        yield from _table_lines(tag_rows, head="tag", width=width)
        if more := len(tags) - len(tag_rows):
            yield f"…and {pluralize(more, 'more tag')}: proctor runs show {run.id} --json"
        yield ""


def _table_lines(rows: Sequence[_TableRow], *, head: str = "", width: int = 0) -> Iterator[str]:
    """Yields the lines of a table; empty number columns are left out."""
    width = max(12, width, *(display_width(row.name) for row in rows))
    non_empty = [any(texts) for texts in zip(*(row.numbers for row in rows), strict=True)]

    def cells(texts: Iterable[str]) -> str:
        sized = zip(texts, _NUMBER_WIDTHS.values(), non_empty, strict=True)
        return "".join(f"{text:>{size}}  " for text, size, has_numbers in sized if has_numbers)

    yield f"{head:<{width}}  {cells(_NUMBER_WIDTHS)}{AXIS_HEAD}"
    for row in rows:
        drawing = draw_interval(row.counts.pass_rate, row.counts.ci95)
        yield f"{pad_to_width(row.name, width)}  {cells(row.numbers)}{drawing}  {interval(row.counts.ci95)}"


def _failure_lines(report: RunReport) -> Iterator[str]:
    not_passed = report.tally.result_counts.total - report.tally.result_counts.passed
    if not not_passed:
        return
    lines = [verdict_line(result) for result in islice(first_failures(report), MAX_FIRST_FAILURES)]
    yield from lines
    if not_passed > len(lines):
        yield f"…and {not_passed - len(lines)} more: proctor runs show {report.run.id} --failures"
    yield ""


def verdict_line(result: CaseResult) -> str:
    """Returns one line with the verdict, the case, and why it did not pass."""
    reason = "" if result.verdict is Verdict.PASS else truncate(result.reason, _MAX_REASON_LENGTH)
    return f"{result.verdict.value.upper():<8}  {one_line(result.name)}  {reason}".rstrip()


def _footer(run: Run, tally: Tally) -> str:
    counts, latency = tally.result_counts, tally.latency_ms()
    parts = [f"{counts.failed} failed"] * bool(counts.failed)  # the table has the number of passed ones
    parts += [f"{counts.errors} error{'s' * (counts.errors > 1)}"] * bool(counts.errors)
    parts += [f"{counts.unscored} unscored"] * bool(counts.unscored)
    if run.finished_at is not None:
        parts.append(f"in {seconds((run.finished_at - run.started_at).total_seconds())}")
    parts.append(f"latency p50 {milliseconds(latency['p50'])}, p95 {milliseconds(latency['p95'])}")
    parts += reuse_notes(tally)
    usage, judging = tally.target_usage, tally.judge_usage
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    parts.append(f"cost {costs(tally.target_cost_usd, judging.cost_usd, judging.calls)}")
    return " · ".join(parts)
