"""Renders runs as Markdown, for a pull request or a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proctor.model import Verdict
from proctor.reports.formatting import costs, interval, milliseconds, percent, truncate_with_count
from proctor.reports.runs.serialize import (
    CaseResult,
    RunReport,
    access_note,
    case_results,
    counts_by_tag,
    gate_note,
    interval_note,
    judge_notes,
    missing_note,
    question_text,
    repeats_note,
    reuse_notes,
)
from proctor.reports.runs.splits import split_notes
from proctor.safe_text import markdown_block, markdown_html, markdown_text, truncate
from proctor.verdicts import Counts

MAX_LENGTH = 65_000
"""Maximum length of a report; a comment on GitHub may have 65,536 characters."""
_MAX_FAILURES = 50
"""At most this many failed trials of each run are shown with prompt and answer."""
_MAX_GROUPS = 50
"""At most this many categories and tags have a line in a table."""
_MAX_RUNS = 100
"""At most this many runs have a line in the overview."""
_MAX_QUESTION_LENGTH, _MAX_ANSWER_LENGTH, _MAX_REASON_LENGTH = 1_500, 3_000, 300
"""Maximum lengths of a prompt, of an answer, and of a reason."""
_RESERVED_LENGTH = 300
"""Characters reserved for the line on what is left out."""


def render(runs: Sequence[RunReport]) -> Iterator[str]:
    """Yields a section for each run with its numbers, parts and failures, as far as they fit a comment.

    The numbers of all runs take precedence over answers; if they do not fit, tables of parts are left out,
    and finally all but one line for each run.
    """
    room = MAX_LENGTH - _RESERVED_LENGTH
    if len(runs) > 1:
        overview = "".join(_overview(runs))
        yield overview
        room -= _utf16_length(overview)
    sections = _fit_sections(runs, room)
    room -= sum(map(_utf16_length, sections))
    for number, (report, section) in enumerate(zip(runs, sections, strict=False)):
        yield section
        share = room // (len(sections) - number)
        for piece in _failures(report, share):
            yield piece
            room -= _utf16_length(piece)
    if len(sections) < len(runs):
        yield "There is no room for more: `-o report.html` has every run with its trials.\n"


def _utf16_length(text: str) -> int:
    """Returns the length of a text in UTF-16 code units, as browsers count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _fit_sections(runs: Sequence[RunReport], room: int) -> list[str]:
    """Returns the numbers of each run, without tables of parts if there is no room; empty if none fit."""
    for with_parts in (True, False):
        sections = ["".join(_numbers(report, with_parts=with_parts)) for report in runs]
        if sum(map(_utf16_length, sections)) + _RESERVED_LENGTH * len(runs) <= room:
            return sections
    return []


def _overview(runs: Sequence[RunReport]) -> Iterator[str]:
    yield "| Run | Suite and target | Passed | Total | Rate | 95 % interval |\n|---|---|--:|--:|--:|---|\n"
    for report in runs[:_MAX_RUNS]:
        run, counts = report.run, report.tally.result_counts
        name = markdown_text(truncate(f"{run.suite.title} on {run.target.name}", 120))
        yield (
            f"| `{run.id}` | {name} | {counts.passed} | {counts.total} | {percent(counts.pass_rate)} "
            f"| {interval(counts.ci95)} |\n"
        )
    yield f"\n…and {len(runs) - _MAX_RUNS} more runs.\n\n" if len(runs) > _MAX_RUNS else "\n"


def _numbers(report: RunReport, *, with_parts: bool) -> Iterator[str]:
    run, tally = report.run, report.tally
    counts, judging = tally.result_counts, tally.judge_usage
    money = costs(tally.target_cost_usd, judging.cost_usd, judging.calls)
    yield (
        f"# {markdown_text(truncate(run.suite.title, 200))} on "
        f"{markdown_text(truncate(run.target.name, 200))}\n\n"
    )
    yield (
        f"**{counts.passed} of {counts.total} passed** ({percent(counts.pass_rate)}, "
        f"95 % interval {interval(counts.ci95)}): {counts.failed} failed, {counts.errors} errors, "
        f"{counts.unscored} unscored. Median latency {milliseconds(tally.latency_ms()['p50'])}, "
        f"{', '.join((f'cost {money}', *reuse_notes(tally)))}. "
        f"Run `{run.id}`, suite `{run.suite.digest}`.\n\n"
    )
    for line in (repeats_note(report), interval_note(report), missing_note(report), gate_note(report)):
        if line is not None:
            yield f"**{line}**\n\n"
    for line in judge_notes(report):
        yield f"{markdown_text(line)}\n\n"
    yield from _table("Split", tally.splits)
    for line in (*split_notes(tally.splits), access_note(report)):
        if line is not None:
            yield f"{line}\n\n"
    if with_parts:
        yield from _table("Category", tally.categories)
        yield from _table("Tag", counts_by_tag(tally))


def _table(name: str, groups: dict[str, Counts]) -> Iterator[str]:
    if not groups:
        return
    yield f"| {name} | Passed | Total | Rate | 95 % interval |\n|---|--:|--:|--:|---|\n"
    for group in sorted(groups)[:_MAX_GROUPS]:
        counts = groups[group]
        yield (
            f"| {markdown_text(truncate(group, 120))} | {counts.passed} | {counts.total} "
            f"| {percent(counts.pass_rate)} | {interval(counts.ci95)} |\n"
        )
    yield f"\n…and {len(groups) - _MAX_GROUPS:,} more.\n\n" if len(groups) > _MAX_GROUPS else "\n"


def _failures(report: RunReport, room: int) -> Iterator[str]:
    """Yields the failures that fit into `room`, then the number of the others."""
    count = more = 0
    for result in case_results(report):
        if result.verdict is Verdict.PASS:
            continue
        entry = "" if more else _failure_details(result)
        room -= _utf16_length(entry)
        if count == _MAX_FAILURES or room < _RESERVED_LENGTH or more:
            more += 1
            continue
        if not count:
            yield "## Not passed\n\n"
        count += 1
        yield entry
    if more:
        yield (
            f"…and {more:,} more that did not pass: `proctor runs export {report.run.id} -o report.html` "
            "shows them.\n\n"
        )


def _failure_details(result: CaseResult) -> str:
    """Returns a failure: its reason in a line, with prompt and answer folded away."""
    name, reason = (
        markdown_html(truncate(text, _MAX_REASON_LENGTH)) for text in (result.name, result.reason)
    )
    line = f"<b>{result.verdict.value}</b> <code>{name}</code> {reason}"
    if result.sealed:
        return f"<div>{line}</div>\n\n"
    texts = [truncate_with_count(question_text(result.rows[0].case), _MAX_QUESTION_LENGTH)]
    answers = [row.trial.output.text for row in result.rows if row.trial.output is not None]
    texts += [truncate_with_count(answer, _MAX_ANSWER_LENGTH // len(answers)) for answer in answers]
    return f"<details><summary>{line}</summary>\n\n{''.join(map(markdown_block, texts))}</details>\n\n"
