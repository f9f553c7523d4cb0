"""Renders runs as Markdown, for a pull request or a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from proctor.model import Verdict
from proctor.parameters import describe_parameters
from proctor.plurals import pluralize
from proctor.reports.document import (
    RATE_COLUMNS,
    Block,
    Code,
    Column,
    Heading,
    Paragraph,
    Strong,
    Table,
    render_markdown,
)
from proctor.reports.formatting import interval, milliseconds, percent, truncate_with_count
from proctor.reports.runs.blocks import cost_text, count_notes, count_row, gates_sentence, group_tables
from proctor.reports.runs.serialize import (
    NO_LATENCY,
    CaseResult,
    RunReport,
    access_note,
    case_results,
    counts_by_tag,
    judge_notes,
    latency_scope,
    question_text,
    reuse_notes,
    speed_texts,
)
from proctor.reports.runs.splits import split_notes
from proctor.safe_text import markdown_block, markdown_html, truncate

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
        overview = _to_markdown(_overview(runs))
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
        yield "The rest does not fit: `-o report.html` has every run with its trials.\n"


def _utf16_length(text: str) -> int:
    """Returns the length of a text in UTF-16 code units, as browsers count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _fit_sections(runs: Sequence[RunReport], room: int) -> list[str]:
    """Returns the numbers of each run, without tables of parts if there is no room; empty if none fit."""
    for with_parts in (True, False):
        sections = [_to_markdown(_numbers(report, with_parts=with_parts)) for report in runs]
        if sum(map(_utf16_length, sections)) + _RESERVED_LENGTH * len(runs) <= room:
            return sections
    return []


def _overview(runs: Sequence[RunReport]) -> Iterator[Block]:
    more = len(runs) - _MAX_RUNS
    rows = []
    for report in runs[:_MAX_RUNS]:
        name = f"{report.run.suite.title} on {report.run.target_title}"
        rows.append((report.run.id, *count_row(name, report.tally.result_counts)))
    yield Table(
        columns=(Column("run", "run"), Column("suite and target"), *RATE_COLUMNS),
        rows=rows,
        notes=[f"…and {more} more runs."] if more > 0 else (),
    )
    if sentence := gates_sentence(runs):
        yield Paragraph(sentence)


def _numbers(report: RunReport, *, with_parts: bool) -> Iterator[Block]:
    run, tally = report.run, report.tally
    counts = tally.result_counts
    yield Heading(f"{truncate(run.suite.title, 200)} on {truncate(run.target_title, 200)}")
    passed = Strong(f"{counts.passed} of {counts.total} passed")
    rate = "no pass rate, because nothing was measured"
    if counts.pass_rate is not None:
        rate = f"{percent(counts.pass_rate)}, 95 % interval {interval(counts.ci95)}"
    not_passed = f"{counts.failed} failed, {pluralize(counts.errors, 'error')}, {counts.unscored} unscored"
    latency = tally.latency_ms()
    median = f"Median latency {milliseconds(latency.p50)}{latency_scope(latency)}"
    if latency.p50 is None and latency.left_out:
        median = f"Latency {NO_LATENCY}"
    if run.settings.is_batch:
        median = "Sent in batches at half the price"
    speeds = speed_texts(tally)
    cost = ", ".join((f"cost {cost_text(tally)}", *reuse_notes(tally)))
    sentences = f" ({rate}): {not_passed}. {', '.join((median, *speeds, cost))}. Run "
    yield Paragraph((passed, sentences, Code(run.id), ", suite ", Code(run.suite.digest), "."))
    if parameters := describe_parameters(run.target.params):
        yield Paragraph(f"Parameters: {parameters}")
    yield from (Paragraph(note, style="strong") for note in count_notes(report))
    yield from map(Paragraph, judge_notes(report))
    yield from group_tables("split", tally.splits, _MAX_GROUPS)
    yield from map(Paragraph, filter(None, (*split_notes(tally.splits), access_note(report))))
    if with_parts:
        yield from group_tables("category", tally.categories, _MAX_GROUPS)
        yield from group_tables("tag", counts_by_tag(tally), _MAX_GROUPS)


def _to_markdown(blocks: Iterable[Block]) -> str:
    return "".join(render_markdown(blocks)) + "\n"


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
            yield "## Failed and errored\n\n"
        count += 1
        yield entry
    if more:
        yield (f"…and {more:,} more: `proctor runs export {report.run.id} -o report.html` shows them.\n\n")


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
