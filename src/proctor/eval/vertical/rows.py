"""Reads files of questions with one right answer, in four forms of rows.

The forms, their fields and prompts are those of dialect `fieldkit_qa`. It refuses a suite for a bad row; here
a bad row is left out and listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from proctor.eval.jsonl_rows import DroppedRow, read_object_rows

if TYPE_CHECKING:
    from proctor.dialects.fieldkit.questions import QuestionForm

FORMATS = ("financebench", "legalbench", "patent-strategist", "generic")

_TAGS = {
    "financebench": ("company", "doc_period", "doc_type", "question_type"),
    "legalbench": ("task", "subtask"),
    "patent-strategist": ("family", "use_case"),
    "generic": (),
}
"""The fields of each form that become tags, where a row has them."""
_EXTRA_ID_FIELDS = {"legalbench": ("index",)}
_FORMAT_FIELDS = {
    "financebench": ({"financebench_id"}, {"gold_standard"}),
    "patent-strategist": ({"family", "use_case", "scoring_mode"},),
    "legalbench": ({"text", "answer"}, {"input", "label"}),
}
"""The fields by which a form is recognized; one set is enough. The dialect requires more fields."""


@dataclass(frozen=True, slots=True)
class VerticalQA:
    """One question with its right answer."""

    qid: str
    question: str
    """The prompt: the question with the context and options of the row."""
    expected: str
    """The right answer; as JSON if it is not a text."""
    tags: dict[str, Any] = field(default_factory=dict)
    """Values by which results can be grouped."""


@dataclass(frozen=True, slots=True)
class HintedQA(VerticalQA):
    """A question whose row has hints for a judge."""

    rubric: dict[str, Any] = field(default_factory=dict)
    """The row's `rubric`, for scorers with a parameter of that name."""


@dataclass(slots=True)
class QuestionFile:
    """The questions of a file, and what was left out."""

    format: str
    """One of `FORMATS`."""
    questions: list[VerticalQA] = field(default_factory=list)
    dropped: list[DroppedRow] = field(default_factory=list)
    not_in_subset: int = 0
    """How many rows the subset left out."""


def read_questions(
    path: str | Path,
    *,
    format: str,  # noqa: A002  # the name that callers know
    limit: int | None,
    open_book: bool | None,
    subset: str | None,
) -> QuestionFile:
    """Reads a file until there are `limit` questions; the parameters are those of `VerticalBench.from_jsonl`.

    Raises:
        OSError: the file cannot be read.
        ValueError: the format is unknown, or `limit` is negative.
    """
    from proctor.errors import suggestion

    if format not in (*FORMATS, "auto"):
        raise ValueError(f"There is no format {format!r}. {suggestion(format, (*FORMATS, 'auto'))}")
    max_questions = check_limit(limit)
    dropped: list[DroppedRow] = []
    rows = read_object_rows(path, dropped)
    if format == "auto":
        format, rows = _detect_format(rows)  # noqa: A001
    file = QuestionFile(format, dropped=dropped)
    while max_questions is None or len(file.questions) < max_questions:
        line, row = next(rows, (0, None))
        if row is None:
            break
        if subset is not None and format == "financebench" and row.get("question_type") != subset:
            file.not_in_subset += 1
            continue
        try:
            file.questions.append(_parse_question(line, row, format, open_book=open_book is not False))
        except ValueError as error:
            dropped.append(DroppedRow(line, str(error)))
    return file


def check_limit(limit: int | None) -> int | None:
    """Returns the limit.

    Raises:
        ValueError: the limit is negative.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, or None for all, not {limit}.")
    return limit


def _detect_format(
    rows: Iterator[tuple[int, dict[str, Any]]],
) -> tuple[str, Iterator[tuple[int, dict[str, Any]]]]:
    """Returns the format of the first row with question and answer, else of the first row; and all rows."""
    before = []
    for line, row in rows:
        before.append((line, row))
        format = _guess_format(row)  # noqa: A001
        with suppress(ValueError):
            _parse_question(line, row, format, open_book=False)
            return format, chain(before, rows)
    return _guess_format(before[0][1]) if before else "generic", iter(before)


def _guess_format(row: dict[str, Any]) -> str:
    matches = (
        name
        for name, field_sets in _FORMAT_FIELDS.items()
        if any(fields <= row.keys() for fields in field_sets)
    )
    return next(matches, "generic")


@cache
def _get_form(name: str) -> QuestionForm:
    from proctor.dialects.fieldkit import questions as fieldkit_qa  # 60 ms, and only files need it

    forms = (fieldkit_qa.FINANCE_BENCH, fieldkit_qa.LEGAL_BENCH, fieldkit_qa.PATENT, fieldkit_qa.GENERIC)
    return dict(zip(FORMATS, forms, strict=True))[name]


def _parse_question(line: int, row: dict[str, Any], format: str, *, open_book: bool) -> VerticalQA:  # noqa: A002
    """Returns the question of a row.

    Raises:
        ValueError: the row has no question or no right answer, or too many options.
    """
    form = _get_form(format)
    name, question = _first_value(row, form.question_fields)
    if isinstance(question, list | dict):
        raise ValueError(f"The question in `{name}` is a list or an object, and must be text.")
    if question is None:
        raise ValueError(f"The row has no question: {_describe_fields(form.question_fields)}.")
    _, expected = _first_value(row, form.expected_fields)
    if expected is None:
        raise ValueError(f"The row has no right answer: {_describe_fields(form.expected_fields)}.")
    options = row.get("options")
    if format == "patent-strategist" and isinstance(options, list) and len(options) > len(ascii_uppercase):
        raise ValueError(f"The row has {len(options)} options, and there are {len(ascii_uppercase)} letters.")
    _, row_id = _first_value(row, (*form.id_fields, *_EXTRA_ID_FIELDS.get(format, ())))
    # ids that are made up have always counted lines from 0
    qid = f"{form.id_prefix}{line - 1}" if row_id is None else _to_text(row_id)
    prompt = _build_prompt(row, _to_text(question), format, open_book=open_book)
    tags, rubric = _get_tags(row, format), row.get("rubric")
    if isinstance(rubric, dict) and rubric:
        return HintedQA(qid, prompt, _to_text(expected), tags, rubric)
    return VerticalQA(qid, prompt, _to_text(expected), tags)


def _build_prompt(row: dict[str, Any], question: str, format: str, *, open_book: bool) -> str:  # noqa: A002
    from proctor.dialects.fieldkit import questions as fieldkit_qa

    if format == "financebench" and open_book:
        return fieldkit_qa.with_evidence(question, _evidence_texts(row.get("evidence")), row.get("doc_name"))
    if format == "patent-strategist":
        return fieldkit_qa.with_options(
            fieldkit_qa.with_context(question, _get_context(row)), _options_by_letter(row)
        )
    return question


def _get_tags(row: dict[str, Any], format: str) -> dict[str, Any]:  # noqa: A002
    tags = {name: row[name] for name in _TAGS[format] if row.get(name) is not None}
    if format == "patent-strategist":
        row_tags = row.get("tags")
        tags |= {"scoring_mode": row.get("scoring_mode") or "closed", "reviewed": bool(row.get("reviewed"))}
        tags |= row_tags if isinstance(row_tags, dict) else {}
    return tags


def _first_value(row: dict[str, Any], names: Iterable[str]) -> tuple[str, Any]:
    """Returns the first of these fields with a value; 0 and false are values, blank text is none."""
    for name in names:
        value = row.get(name)
        if value is not None and value not in ([], {}) and not (isinstance(value, str) and not value.strip()):
            return name, value
    return "", None


def _describe_fields(names: Sequence[str]) -> str:
    return f"{' or '.join(f'`{name}`' for name in names)} must say something"


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _evidence_texts(value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    texts = (item.get("evidence_text") if isinstance(item, dict) else item for item in items)
    return [text for text in texts if isinstance(text, str) and text.strip()]


def _get_context(row: dict[str, Any]) -> str | None:
    mode = row.get("scoring_mode")
    names = {"oracle": ("oracle_context", "context"), "retrieval": ("context",)}
    context = _first_value(row, names.get(mode, ()) if isinstance(mode, str) else ())[1]
    return None if context is None else _to_text(context)


def _options_by_letter(row: dict[str, Any]) -> dict[str, str]:
    """Returns the options by letter; an option that is not text is left out, and its letter stays unused."""
    options = row.get("options")
    pairs = zip(ascii_uppercase, options if isinstance(options, list) else (), strict=False)
    return {letter: option for letter, option in pairs if isinstance(option, str)}
