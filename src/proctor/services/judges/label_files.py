"""Reads files of labels: JSON Lines or CSV, one person's verdict on one answer per line.

A line either names an answer of a stored run (`case_id`), as the lines of an exported run do, or holds the
answer itself with its prompt and how it is judged. All problems are reported, with their lines.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Struct

from proctor.dialects.shared.jsonl import BOM, read_rows
from proctor.errors import SuiteError, UsageError, suggestion
from proctor.graders import GRADERS
from proctor.grading import build_grader
from proctor.model import Assertion, Case, Label, LabelDraw, Message, Output, Problem, Record
from proctor.validation import FieldReader, NumberLimit, ProblemLog, merge_repeats, quote_value

N = TypeVar("N", bound=Record)

RUN_LABEL_FIELDS = ("run", "case_id", "repeat", "label", "by", "note", "drawn", "doubt")
"""The fields of a line that names an answer of a run."""
STANDALONE_FIELDS = (
    "id",
    "input",
    "output",
    "expected",
    "criteria",
    "judge_prompt",
    "rubric",
    "label",
    "by",
    "note",
)
"""The fields of a line that holds the answer itself."""
EXPORT_FIELDS = frozenset(
    {
        *("suite", "suite_version", "target", "verdict", "score", "failed_gates", "scores", "output"),
        *("failure", "latency_ms", "usage", "cost_usd", "tags", "category", "split", "sealed", "prompt"),
        *("started_at", "source_run", "question", "why", "input_tokens", "output_tokens"),
        *("cached_tokens", "cache_write_tokens", "reasoning_tokens", "reasoning", "mean_logprob"),
        *("first_token_ms", "tokens_per_second", "finish_reason", "model", "service_tier"),
        *("response_id", "request_id", "attachments"),
    }
)
"""Further fields of an exported run; only its answer is used."""
_OTHER_NAMES = {
    **dict.fromkeys(("question", "prompt"), "input"),
    **dict.fromkeys(("answer", "response"), "output"),
    **dict.fromkeys(("reference", "expected answer", "right answer", "correct answer"), "expected"),
    **dict.fromkeys(("verdict", "rating"), "label"),
    **dict.fromkeys(("rater", "annotator", "reviewer", "labeller", "who"), "by"),
    **dict.fromkeys(("comment", "reason"), "note"),
}
"""What other tools and tables call a field."""
_VERDICT_WORDS = {"pass": True, "true": True, "fail": False, "false": False}
_ROLES = ("system", "user", "assistant", "tool")
_DRAWS: tuple[LabelDraw, ...] = get_args(LabelDraw)
_POSITIVE: NumberLimit = NumberLimit("above 0", exclusive_minimum=0)
_JUDGING_FIELDS = ("criteria", "expected", "judge_prompt", "rubric")
_REQUIRED_COLUMNS = {
    "input": "the prompt",
    "output": "the answer",
    "label": "`pass` or `fail`",
}


class StandaloneAnswer(Struct, frozen=True):
    """An answer that the file itself has, and the case that it answers."""

    case: Case
    output: Output
    has_id: bool
    """Whether the file has its id."""


class LabelLine(Struct, frozen=True, kw_only=True):
    """One label, with its line in the file."""

    line: int
    label: Label
    standalone: StandaloneAnswer | None = None
    """The answer, where the line has it."""
    answer: str | None = None
    """The run's answer according to the line, where it has one."""


class LabelSet(Struct, frozen=True):
    """The labels of a file."""

    path: str
    lines: tuple[LabelLine, ...]
    unlabelled: int
    """The number of lines without a label yet."""
    orphaned: int = 0
    """The number of labels of deleted runs."""


def read_labels(path: str) -> LabelSet:
    """Reads all labels of a file; CSV where its name ends in `.csv`, else JSON Lines.

    Raises:
        SuiteError: lines are invalid; has every problem.
        UsageError: the file cannot be read, or has no label.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"The labels {path!r} cannot be read: {error.strerror}.") from None
    is_csv = Path(path).suffix.lower() == ".csv"
    records: Iterator[tuple[int, dict[str, Any]] | Problem]
    records = _csv_rows(data, path) if is_csv else read_rows(data.split(b"\n"), path)
    labelled: list[LabelLine] = []
    problems: list[Problem] = []
    unlabelled = 0
    for item in records:
        if isinstance(item, Problem):
            problems.append(item)
            continue
        notes = ProblemLog(path, item[0])
        fields = FieldReader(item[1], notes)
        parse_label = _parse_run_label if "case_id" in fields else _parse_standalone
        label_line = parse_label(fields, notes)  # None if it has no label yet, or is invalid
        problems += notes.problems
        if label_line is not None:
            labelled.append(label_line)
        elif not notes.has_errors:
            unlabelled += 1
    if problems:
        raise SuiteError(merge_repeats(problems))
    if not labelled:
        raise UsageError(f"{path!r} has no labels. Write `pass` or `fail` as the `label` of each line.")
    return LabelSet(path, tuple(labelled), unlabelled)


# --- one line ----------------------------------------------------------------------------------------------


def _parse_run_label(fields: FieldReader, notes: ProblemLog) -> LabelLine | None:
    exported = "verdict" in fields
    output_field = fields.pop("output") if exported else None
    if exported:
        for name in EXPORT_FIELDS.intersection(fields.remaining_names()):
            fields.pop(name)
    passed = _parse_verdict(fields, must=not exported)
    fields.drop_null("repeat", "drawn", "doubt")
    label = Label(
        case_id=fields.required_text("case_id"),
        repeat=fields.integer("repeat") or 0,
        run=fields.text("run") or "",
        passed=bool(passed),
        by=(fields.text("by") or "").strip(),
        note=fields.text("note") or "",
        drawn=_parse_draw(fields),
        doubt=fields.limited_number("doubt", _POSITIVE),
    )
    fields.finish(RUN_LABEL_FIELDS)
    if passed is None or notes.has_errors:
        return None
    answer = output_field.get("text") if isinstance(output_field, dict) else output_field
    return LabelLine(line=notes.line, label=label, answer=answer if isinstance(answer, str) else None)


def _parse_draw(fields: FieldReader) -> LabelDraw | None:
    word = fields.choice("drawn", _DRAWS) if "drawn" in fields else ""
    return next((draw for draw in _DRAWS if draw == word), None)


def _parse_standalone(fields: FieldReader, notes: ProblemLog) -> LabelLine | None:
    missing = [name for name in STANDALONE_FIELDS if name not in fields]
    renames = _match_names(fields.remaining_names(), missing)
    passed = _parse_verdict(fields, must=True)
    fields.drop_null("id", "by", "note", *_JUDGING_FIELDS)
    written_id = fields.text("id")
    case_id = written_id or f"line-{notes.line}"
    messages, output = _parse_input(fields), _parse_output(fields)
    expected, criteria = fields.pop("expected"), fields.text("criteria")
    assertion = _parse_assertion(fields, judged=criteria is not None or expected is not None)
    if assertion is not None and assertion.grader != "llm_grader" and criteria is not None:
        fields.error(
            "unknown-value", "criteria", f"must be next to `{_field_name(assertion)}`. Move it there."
        )
    label = Label(
        case_id=case_id,
        passed=bool(passed),
        by=(fields.text("by") or "").strip(),
        note=fields.text("note") or "",
    )
    fields.finish(STANDALONE_FIELDS, {name: f"Rename it to `{to}`." for name, to in renames.items()})
    if passed is None or notes.has_errors or assertion is None:
        return None
    case = Case(id=case_id, input=messages, expected=expected, criteria=criteria, assertions=(assertion,))
    return LabelLine(
        line=notes.line, label=label, standalone=StandaloneAnswer(case, output, bool(written_id))
    )


def _parse_verdict(fields: FieldReader, *, must: bool) -> bool | None:
    """Parses the person's verdict; None if the field is empty or invalid."""
    if "label" not in fields:
        if must:
            fields.report_missing("label", "`pass` or `fail`")
        return None
    value = fields.pop("label")
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else value
    if word is None or word == "":
        return None
    if not isinstance(word, str) or word not in _VERDICT_WORDS:
        fields.error("unknown-value", "label", f"is {quote_value(value)}; write `pass` or `fail`.")
        return None
    return _VERDICT_WORDS[word]


def _parse_input(fields: FieldReader) -> tuple[Message, ...]:
    expected = "text, or a list of messages with `role` and `content`"
    value = fields.pop("input")
    if isinstance(value, str) and value.strip():
        return (Message(role="user", content=value),)
    if value is None or value == "":
        fields.report_missing("input", expected)
        return ()
    messages = [_convert(message, Message) for message in value] if isinstance(value, list) else []
    valid = [message for message in messages if message is not None and message.role in _ROLES]
    if not valid or len(valid) < len(messages):
        fields.report_wrong_type("input", value, expected)
    return tuple(valid)


def _parse_output(fields: FieldReader) -> Output:
    value = fields.pop("output")
    if isinstance(value, str):
        return Output(text=value)
    output = _convert(value, Output)
    if value is None:
        fields.report_missing("output", "the answer, a text")
    elif output is None:
        fields.report_wrong_type("output", value, 'the answer, a text or an object such as {"text": "4"}')
    return output or Output(text="")


def _convert(value: Any, kind: type[N]) -> N | None:
    """Converts plain data to a record; None if it has another shape or unknown fields."""
    if not isinstance(value, dict) or not value.keys() <= {*kind.__struct_fields__}:
        return None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


def _parse_assertion(fields: FieldReader, *, judged: bool) -> Assertion | None:
    """Parses how the answer is judged: by a judge prompt, a rubric, or its criteria and expected answer."""
    question, rubric = fields.text("judge_prompt"), fields.text("rubric")
    if question is not None and rubric is not None:
        fields.error("unknown-value", "rubric", "cannot be combined with `judge_prompt`. Use one of them.")
        return None
    if question is not None:
        assertion = Assertion(grader="llm_judge", params={"prompt": question})
    elif rubric is not None:
        assertion = Assertion(grader="rubric", params={"rubric": rubric})
    elif judged:
        return Assertion(grader="llm_grader")
    else:
        fields.problem_log.error(
            "missing-field",
            f"There are no grading instructions for the answer. Add one of {_quote_names(_JUDGING_FIELDS)}.",
        )
        return None
    try:
        build_grader(assertion, GRADERS.get)
    except ValueError as error:
        fields.problem_log.error("bad-assertion", str(error), _field_name(assertion))
        return None
    return assertion


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _field_name(assertion: Assertion) -> str:
    """Returns the field of a line that an assertion comes from."""
    return "judge_prompt" if assertion.grader == "llm_judge" else "rubric"


# --- CSV ---------------------------------------------------------------------------------------------------


def _csv_rows(data: bytes, path: str) -> Iterator[tuple[int, dict[str, Any]] | Problem]:
    """Yields the line number and cells by column of each row; empty ones only for label and answer."""
    try:
        text = data.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = "The line is not UTF-8. Save the file as UTF-8."
        yield Problem(code="bad-encoding", message=message, path=path, line=line)
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_guess_separator(text), strict=True)
    header: list[str] = []
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            message = f"The row is not valid CSV: {error}. Quote the cell, and double each quote inside it."
            yield Problem(code="bad-csv", message=message, path=path, line=line)
            return
        if not any(cell.strip() for cell in cells):
            continue
        if header:
            yield _csv_row(header, cells, path, line)
            continue
        header = [cell.strip().lower() for cell in cells]
        problems = list(_check_header(header))
        for message in problems:
            yield Problem(code="unknown-field", message=message, path=path, line=line)
        if problems:
            return


def _guess_separator(text: str) -> str:
    """Returns the one of `,`, `;` and tab that gives the most known columns in the first line."""
    first = text.lstrip().partition("\n")[0].lower()
    columns = {*RUN_LABEL_FIELDS, *STANDALONE_FIELDS, *_OTHER_NAMES}
    return max(",;\t", key=lambda mark: len(columns & {cell.strip(' "\r') for cell in first.split(mark)}))


def _check_header(header: list[str]) -> Iterator[str]:
    """Yields a sentence for each column that is unknown, repeated or missing."""
    names_runs = "case_id" in header
    columns = {*STANDALONE_FIELDS, *(RUN_LABEL_FIELDS if names_runs else ())}
    readable_columns = columns | (EXPORT_FIELDS if names_runs and "verdict" in header else set())
    unknown = [name for name in header if name not in readable_columns]
    missing = [name for name in STANDALONE_FIELDS if name in columns.difference(header)]
    renames = _match_names(unknown, missing)
    for index, name in enumerate(header):
        if name in header[:index]:
            yield f"The column {name!r} appears twice. Keep one of them."
        elif name in renames:
            yield f"Unknown column {name!r}. Rename it to `{renames[name]}`."
        elif name not in readable_columns:
            yield f"Unknown column {quote_value(name)}. {suggestion(name[:60], sorted(columns))}"
    present = {*header, *renames.values()}
    for name, content in _REQUIRED_COLUMNS.items():
        if name not in present and (name == "label" or not names_runs):
            yield f"There is no column `{name}`. Add one, with {content} in each row."
    if not names_runs and present.isdisjoint(_JUDGING_FIELDS):
        yield f"There is no column with grading instructions. Add one of {_quote_names(_JUDGING_FIELDS)}."


def _match_names(unknown: list[str], missing: list[str]) -> dict[str, str]:
    """Returns the field that each name stands for, where it is a usual name for a missing field."""
    renames: dict[str, str] = {}
    for name in unknown:
        field = _OTHER_NAMES.get(name.lower())
        if field in missing and field not in renames.values():
            renames[name] = field
    return renames


def _csv_row(
    header: list[str], cells: list[str], path: str, line: int
) -> tuple[int, dict[str, Any]] | Problem:
    if len(cells) > len(header):
        message = (
            f"The row has {len(cells)} cells, but the first line has {len(header)} columns. Quote "
            "cells that contain the separator."
        )
        return Problem(code="extra-cell", message=message, path=path, line=line)
    row: dict[str, Any] = {}
    for name, cell in zip(header, cells, strict=False):
        if cell.strip() or name in ("label", "output"):
            row[name] = _parse_cell(name, cell)
    return line, row


def _parse_cell(name: str, cell: str) -> str | float:
    """Returns a cell as JSON would have it; what is no number stays a text, which is a problem later."""
    if name == "repeat" and cell.strip().isdecimal():
        return int(cell)
    try:
        return float(cell) if name == "doubt" else cell
    except ValueError:
        return cell
