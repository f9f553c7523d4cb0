"""The report of a run that a terminal shows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from proctor.latency import LatencySummary
from proctor.model import Run, Settings, Verdict
from proctor.parameters import describe_parameters
from proctor.plurals import pluralize
from proctor.reports.document import RATE_COLUMNS, Block, Column, Heading, Paragraph, Preformatted, Table
from proctor.reports.formatting import milliseconds, percent, percentage_points, seconds, token_counts
from proctor.reports.runs.blocks import cost_text, count_notes
from proctor.reports.runs.serialize import (
    NO_LATENCY,
    CaseResult,
    RunReport,
    access_note,
    counts_by_tag,
    failed_results,
    first_failures,
    judge_notes,
    latency_scope,
    reuse_notes,
    speed_texts,
)
from proctor.reports.runs.splits import split_notes
from proctor.safe_text import display_width, one_line, truncate, truncate_middle
from proctor.verdicts import MAX_FIRST_FAILURES, Counts, Tally

_MAX_REASON_LENGTH = 120
_MAX_TAGS = 10
"""At most this many tags are listed, the most frequent; tags on a single case are not."""
_MAX_TAG_LENGTH = 40
"""Maximum length of a tag."""


def document_for(report: RunReport, *, apart: bool = False) -> Iterator[Block]:
    """Yields the blocks of the report of a run; `apart` lists failed cases and unmeasured ones apart."""
    run, tally = report.run, report.tally
    has_holdout = "holdout" in tally.splits
    if has_holdout:
        yield from _split_blocks(tally)
        yield from map(Paragraph, [*split_notes(tally.splits), *filter(None, [access_note(report)])])
    reported_models = ", ".join(sorted(tally.models - {run.target.model}))
    models = f" ({reported_models})" if reported_models else ""
    yield Heading(f"{run.suite.title} on {run.target_title}{models}")
    yield from _tables(run, tally, below_splits=has_holdout)
    yield from _failure_blocks(report) if apart else _failures(report)
    yield from map(Paragraph, (_footer(run, tally), *count_notes(report), *judge_notes(report)))
    if parameters := describe_parameters(run.target.params):
        yield Paragraph(f"Parameters: {parameters}")
    if tally.refused_params:
        names = ", ".join(sorted(tally.refused_params))
        yield Paragraph(f"Not applied, because the target does not support it: {names}")
    yield Paragraph(f"Run {run.id}")


def _split_blocks(tally: Tally) -> Iterator[Block]:
    """Yields dev beside holdout, in the form that Meridian gives it."""
    dev = tally.splits.get("dev", Counts())
    holdout = tally.splits.get("holdout", Counts())
    completed = f"Completed: Dev {dev.passed}/{dev.total} | Holdout {holdout.passed}/{holdout.total}"
    yield Preformatted([completed])
    difference = ""
    if dev.pass_rate is not None and holdout.pass_rate is not None:
        difference = f" ({percentage_points(holdout.pass_rate - dev.pass_rate)})"
    mean = tally.latency_ms().mean
    cells = {
        "Dev Accuracy": percent(dev.pass_rate),
        "Holdout Accuracy": percent(holdout.pass_rate) + difference,
        "Total Passed": str(tally.result_counts.passed),
        "Latency": "–" if mean is None else f"{mean:.0f}ms",
    }
    widths = [max(width, len(cell)) for width, cell in zip((16, 18, 13, 7), cells.values(), strict=True)]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    rows = (
        "|" + "|".join(f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True)) + "|"
        for row in (cells.keys(), cells.values())
    )
    yield Preformatted([rule, *rows, rule], only="terminal")  # the table below has the same numbers


_NUMBERS = (*RATE_COLUMNS[:2], Column("rate", "percent", 6), Column(kind="interval"))
"""Columns of counts, each of which may be left out."""


def _tables(run: Run, tally: Tally, *, below_splits: bool) -> Iterator[Table]:
    """Yields the table of the run and its parts, and that of its tags, with columns of the same widths."""
    rows, tags = list(_rows(tally, below_splits=below_splits)), counts_by_tag(tally)
    several = [name for name, counts in tags.items() if sum(counts.shapes.values()) > 1]
    most = sorted(several, key=lambda name: -tags[name].total)[:_MAX_TAGS]
    tag_rows = [_row(truncate(name, _MAX_TAG_LENGTH), tags[name]) for name in sorted(most)]
    width = max(12, *(display_width(name) for name, *_ in (*rows, *tag_rows)))
    yield Table((Column(width=width), *_NUMBERS), rows)
    if tag_rows:
        more = len(tags) - len(tag_rows)
        notes = [f"…and {pluralize(more, 'more tag')}: proctor runs show {run.id} --json"] if more else ()
        yield Table((Column("tag", width=width), *_NUMBERS), tag_rows, notes=notes)


def _rows(tally: Tally, *, below_splits: bool) -> Iterator[tuple[Any, ...]]:
    """Yields the run, its splits and categories; numbers already shown above are left out."""
    omitted = ("passed", "total", "rate") if below_splits else ()
    several = len(tally.splits) > 1
    yield _row("all", tally.result_counts, without=["passed"] if below_splits and several else omitted)
    if several:
        for name in sorted(tally.splits):
            yield _row(f"  {name}", tally.splits[name], without=omitted)
    if len(tally.categories) > 1:
        for name in sorted(tally.categories):
            yield _row(f"  {one_line(name)}", tally.categories[name])


def _row(name: str, counts: Counts, *, without: Collection[str] = ()) -> tuple[Any, ...]:
    """Returns a row; the columns in `without` stay empty."""
    numbers = {"passed": counts.passed, "total": counts.total, "rate": counts.pass_rate}
    return name, *("" if head in without else number for head, number in numbers.items()), counts


def _failures(report: RunReport) -> Iterator[Block]:
    """Yields the first trials without PASS: lines on a terminal, a table in a notebook."""
    not_passed = report.tally.result_counts.total - report.tally.result_counts.passed
    results = list(islice(first_failures(report), MAX_FIRST_FAILURES)) if not_passed else []
    more = not_passed - len(results)
    command = f"proctor runs show {report.run.id} --failures"
    lines = [*map(verdict_line, results)]
    if more:
        lines.append(f"…and {more} more: {command}")
    elif any(_short_reason(result) != one_line(result.reason) for result in results):
        lines.append(f"In full: {command}")
    yield Preformatted(lines, only="terminal")
    rows = [(result.verdict, one_line(result.name), _short_reason(result)) for result in results]
    notes = [f"…and {more} more: run.failures() has all."] * (more > 0)
    yield Table(_FAILURE_COLUMNS, rows, notes=notes, only="html")


_FAILURE_COLUMNS = (Column("verdict", "verdict"), Column("case"), Column("reason"))


def _short_reason(result: CaseResult) -> str:
    return "" if result.verdict is Verdict.PASS else truncate_middle(result.reason, _MAX_REASON_LENGTH)


def _failure_blocks(report: RunReport) -> Iterator[Block]:
    """Yields the first failed cases, and the first of those that were not measured."""
    counts = report.tally.result_counts
    listed: dict[bool, list[str]] = {True: [], False: []}
    for result in failed_results(report):
        lines = listed[result.verdict is Verdict.FAIL]
        if len(lines) < MAX_FIRST_FAILURES:
            lines.append(verdict_line(result))
        if len(lines) == MAX_FIRST_FAILURES == len(listed[result.verdict is not Verdict.FAIL]):
            break
    for title, is_failed, count in (
        ("Failed", True, counts.failed),
        ("Not measured", False, counts.errors + counts.unscored),
    ):
        if lines := listed[is_failed]:
            more = [f"…and {count - len(lines):,} more"] if count > len(lines) else []
            yield Preformatted([f"{title}:", *lines, *more])


def verdict_line(result: CaseResult) -> str:
    """Returns one line with the verdict, the case, and the reason."""
    return f"{result.verdict.value.upper():<8}  {one_line(result.name)}  {_short_reason(result)}".rstrip()


def _latency_text(latency: LatencySummary) -> str:
    if latency.p50 is None and latency.left_out:
        return f"latency {NO_LATENCY}"
    scope = latency_scope(latency)
    return f"latency p50 {milliseconds(latency.p50)}, p95 {milliseconds(latency.p95)}{scope}"


def _footer(run: Run, tally: Tally) -> str:
    counts, latency = tally.result_counts, tally.latency_ms()
    parts = [f"{counts.failed} failed"] * bool(counts.failed)  # the table has the number of passed ones
    parts += [f"{counts.errors} error{'s' * (counts.errors > 1)}"] * bool(counts.errors)
    parts += [f"{counts.unscored} unscored"] * bool(counts.unscored)
    if run.finished_at is not None:
        parts.append(f"in {seconds((run.finished_at - run.started_at).total_seconds())}")
    if run.settings.is_batch:
        parts.append("in batches at half the price")  # answers in batches have no latency
    else:
        parts.append(_latency_text(latency))
        parts += speed_texts(tally)
        if run.settings.engine != Settings().engine:
            parts.append(f"engine {run.settings.engine}")
    parts += reuse_notes(tally)
    usage = tally.target_usage
    if usage.input_tokens or usage.output_tokens:
        parts.append(token_counts(usage, " tokens"))
    parts.append(f"cost {cost_text(tally)}")
    return " · ".join(parts)
