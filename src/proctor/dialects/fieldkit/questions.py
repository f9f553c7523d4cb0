"""Dialect fieldkit_qa: questions with one right answer, as JSON Lines or CSV.

The first row decides which of four public forms a file has: FinanceBench, patent-strategist, LegalBench, or
any file of questions and answers. 0 and false are answers; a row without a question or an answer is an error.
Other fields become metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from string import ascii_uppercase
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.shared.case_rows import read_cases
from proctor.dialects.shared.csv_rows import read_table
from proctor.dialects.shared.jsonl import file_name
from proctor.dialects.shared.signatures import get_row_field_names
from proctor.model import Assertion, Case, Message, Problem, ResponseFormat, Suite
from proctor.protocols import CaseAtLine, Dialect, DialectSetting, FileHead, SuiteSource
from proctor.validation import FieldReader, ProblemLog, json_type, quote_value

MODES: Final = ("closed", "oracle", "retrieval")
FINANCE_TOLERANCE: Final = 0.01
"""The relative tolerance of FinanceBench's numbers."""

_ANSWER_FIELDS: Final = ("answer", "expected", "gold", "label")
_PROMPT_FIELDS: Final = frozenset(("input", "prompt"))
_SUITE_FIELDS: Final = frozenset(("prompts", "tests"))
"""Fields of other dialects whose files may contain any name further inside."""
_PATENT_FIELDS: Final = frozenset(("family", "use_case", "scoring_mode"))
_FINANCE_FIELDS: Final = ("financebench_id", "gold_standard")
_DIGIT: Final = re.compile(r"\d")
_MAX_OPTIONS: Final = len(ascii_uppercase)
_MERIDIAN_ONLY: Final[Mapping[str, type | tuple[type, ...]]] = {
    "scorer": str,
    "rubric": str,
    "tags": str,
    "scoring": (str, dict),
    "num_runs": int,
    "vars": dict,
}
"""Fields that mean something in dialect meridian, with the types that they have there, and nothing here."""


class FieldkitQa(Dialect):
    """Reads question files with one right answer each."""

    endings = (".jsonl", ".ndjson", ".json", ".csv")

    def recognises(self, head: FileHead) -> str | None:
        """Recognises rows of one of the named forms, or with `question_fields` and an answer."""
        names = get_row_field_names(head)
        if names & _SUITE_FIELDS:
            return None
        for row in head.rows:
            form = detect_form(row)
            if form is not None and form is not GENERIC:
                return f"its lines have the fields of {form.name}"
        if "question" in names and names.intersection(_ANSWER_FIELDS) and not names & _PROMPT_FIELDS:
            return "its lines have `question` and an answer"
        return None

    def settings(self) -> tuple[DialectSetting, ...]:
        """Whether questions of FinanceBench are shown with their evidence, and how choices are used."""
        return (
            DialectSetting("open-book", about="Whether FinanceBench questions are sent with their evidence."),
            DialectSetting(
                "score-choices",
                about="Whether a model chooses one of `choices` by likelihood instead of writing an answer.",
            ),
        )

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        yield Suite(name=file_name(source.path).stem or "suite", dialect="fieldkit_qa")
        items = read_table(source)
        for first in items:
            if not isinstance(first, Problem):
                break
            yield first
        else:
            return
        form = detect_form(first[2]) or GENERIC
        parse = partial(_parse_case, form, source, set())
        yield from read_cases(chain((first,), items), source.path, parse, "Row")


# --- forms -------------------------------------------------------------------------------------------------


class QuestionForm(Struct, frozen=True, kw_only=True):
    """One form of rows."""

    name: str
    id_fields: tuple[str, ...]
    id_prefix: str
    """Goes before the row number in the id of a row without one; in JSON Lines, before the line number."""
    question_fields: tuple[str, ...]
    """The fields that may hold the question; the first one present is used."""
    expected_fields: tuple[str, ...]
    build_prompt: Callable[[QuestionRow], str]
    """Returns the prompt of a row."""
    build_check: Callable[[QuestionRow], tuple[str, dict[str, Any]]]
    """Returns the grader of a row, and its parameters."""
    category_field: str = "category"
    """The field with the category."""


class QuestionRow(Struct, kw_only=True):
    """A row while it is read; fields read from `fields` do not become metadata."""

    fields: FieldReader
    notes: ProblemLog
    source: SuiteSource
    warned_fields: set[str]
    """The fields of the file's earlier rows of which a warning says that they are just kept as metadata."""
    question: str = ""
    expected: str = ""
    document: Any = None
    """The source of its evidence."""
    letters: str = "ABCD"
    """The letters of its options."""
    choices: tuple[str, ...] = ()
    """The texts of which the model chooses the likeliest."""
    index: int | None = None
    """The right answer, if it is a whole number, which is the index of a choice even if one has this text."""


def detect_form(row: dict[str, Any]) -> QuestionForm | None:
    """Returns the form of a row; None if it has no question with an answer."""
    if "question" in row and any(name in row for name in _FINANCE_FIELDS):
        return FINANCE_BENCH
    if row.keys() >= _PATENT_FIELDS:
        return PATENT
    if ("text" in row and "answer" in row and not row.keys() & _PROMPT_FIELDS) or row.keys() >= {
        "input",
        "label",
    }:
        return LEGAL_BENCH
    return GENERIC if "question" in row else None


def _parse_case(
    form: QuestionForm,
    source: SuiteSource,
    warned_fields: set[str],
    notes: ProblemLog,
    raw: dict[str, Any],
    number: int,
) -> CaseAtLine:
    fields = FieldReader({name: value for name, value in raw.items() if value is not None}, notes)
    row = QuestionRow(fields=fields, notes=notes, source=source, warned_fields=warned_fields)
    row.document = raw.get("doc_name")
    notes.case = case_id = _parse_id(form, fields, number)
    row.question = _read_text(form.question_fields, row, "the question")
    _warn_of_two_answers(form, raw, fields)
    _warn_of_meridian_fields(row, raw)
    answer = next((raw[name] for name in form.expected_fields if raw.get(name) is not None), None)
    row.index = answer if type(answer) is int else None
    row.expected = _read_text(form.expected_fields, row, "the right answer")
    prompt = form.build_prompt(row)
    grader, params = ("", {}) if notes.has_errors else form.build_check(row)
    category = raw.get(form.category_field)
    tags = tuple(fields.texts("tags")) if isinstance(raw.get("tags"), list) else ()
    case = Case(
        id=case_id,
        input=(Message(role="user", content=prompt),),
        expected=row.expected,
        assertions=(Assertion(grader=grader, params=params),),
        tags=tags,
        category=category if isinstance(category, str) else None,
        form=ResponseFormat(choices=row.choices) if row.choices else None,
        metadata={name: fields.pop(name) for name in fields.remaining_names() if name != "category"},
    )
    return CaseAtLine(case, notes.line)


def _parse_id(form: QuestionForm, fields: FieldReader, number: int) -> str:
    name = next((name for name in form.id_fields if name in fields), None)
    value: Any = None if name is None else fields.pop(name)
    if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
        return str(value)
    if value is not None and value != "":
        fields.report_wrong_type(name or "", value, "text")
    return f"{form.id_prefix}{number}"


def _warn_of_two_answers(form: QuestionForm, raw: dict[str, Any], fields: FieldReader) -> None:
    """Warns if right answers differ. FinanceBench's three fields say the same in other words."""
    values = {name: str(raw[name]).strip() for name in form.expected_fields if raw.get(name) is not None}
    first, *others = [name for name, value in values.items() if value] or [""]
    for name in others if form is not FINANCE_BENCH else ():
        if values[name] != values[first]:
            message = f"differs from `{first}`, which is the one that is used. Keep one of them."
            fields.warn("two-answers", name, message)


def _warn_of_meridian_fields(row: QuestionRow, raw: dict[str, Any]) -> None:
    """Warns once for a file of each field that would have a meaning if the file were dialect meridian."""
    for name, types in _MERIDIAN_ONLY.items():
        if name not in row.warned_fields and isinstance(raw.get(name), types):
            row.warned_fields.add(name)
            message = (
                "has no effect in the format fieldkit_qa. To use it, rename the field of the question to "
                "`input` and that of the right answer to `expected`."
            )
            row.fields.warn("no-effect", name, message)


def _read_text(names: tuple[str, ...], row: QuestionRow, what: str) -> str:
    """Returns the first of these fields that is not blank, as text; an error if there is none."""
    fields = row.fields
    present = [name for name in names if name in fields]
    for name in present:
        value: Any = fields.pop(name)
        if isinstance(value, dict | list):
            fields.report_wrong_type(name, value, "text, a number, true or false")
            return ""
        text = value if isinstance(value, str) else json.dumps(value)
        if text.strip():
            return text
    if present:
        fields.error("missing-expected", present[0], f"is blank; it must be {what}.")
    else:
        fields.error("missing-field", names[0], f"is missing; it must be {what}.")
    return ""


# --- FinanceBench ------------------------------------------------------------------------------------------


def _finance_prompt(row: QuestionRow) -> str:
    evidence = _read_evidence(row)
    if not row.source.options.get("open_book", True):
        return row.question
    return with_evidence(row.question, evidence, row.document)


def with_evidence(question: str, evidence: Sequence[str], document: Any) -> str:
    """Returns a FinanceBench question after the texts that answer it, or just the question without any.

    Args:
        question: the question.
        evidence: the texts.
        document: the name of the document that they are from, if known.
    """
    if not evidence:
        return question
    name = document if isinstance(document, str) and document.strip() else "the filing"
    context = "\n\n".join(evidence)
    ending = "Answer with just the numeric value."
    return f"Context from {name}:\n\n{context}\n\nQuestion: {question}\n\n{ending}"


def _read_evidence(row: QuestionRow) -> list[str]:
    """Returns the texts that contain the answer; blank texts are left out."""
    value: Any = row.fields.pop("evidence")
    passages: list[str] = []
    items: list[Any] = value if isinstance(value, list) else [] if value is None else [value]
    for place, item in enumerate(items):
        text = item.get("evidence_text", "") if isinstance(item, dict) else item
        if not isinstance(text, str):
            row.fields.report_wrong_type(
                f"evidence[{place}]", item, "text, or an object with `evidence_text`"
            )
        elif text.strip():
            passages.append(text)
    return passages


def _finance_check(row: QuestionRow) -> tuple[str, dict[str, Any]]:
    if _DIGIT.search(row.expected) is None:
        return _make_unscored_check(row, "FinanceBench compares numbers, and the right answer has none")
    return "numeric_match", {"value": row.expected, "rel_tolerance": FINANCE_TOLERANCE}


def _make_unscored_check(row: QuestionRow, because: str) -> tuple[str, dict[str, Any]]:
    row.notes.warn("unscored-type", f"{because}; the case will be UNSCORED.")
    return "unscored", {"reason": f"{because}."}


# --- patent-strategist -------------------------------------------------------------------------------------


def _patent_prompt(row: QuestionRow) -> str:
    fields = row.fields
    mode = fields.choice("scoring_mode", MODES) if "scoring_mode" in fields else "closed"
    oracle, context = fields.pop("oracle_context"), fields.pop("context")
    context_shown: Any = (oracle or context) if mode == "oracle" else context if mode == "retrieval" else None
    if mode in ("oracle", "retrieval") and not (isinstance(context_shown, str) and context_shown.strip()):
        actual_kind = "missing" if context_shown is None else json_type(context_shown)
        fields.error(
            "missing-field", "context", f"is {actual_kind}; with scoring_mode {mode!r} it must be text."
        )
    return with_options(with_context(row.question, context_shown), _read_options(row))


def with_context(question: str, context: str | None) -> str:
    """Returns a patent-strategist question after its context, or just the question without one."""
    return f"Context:\n\n{context}\n\nQuestion: {question}" if context else question


def with_options(question: str, options: Mapping[str, str]) -> str:
    """Returns a question before its lettered options, or just the question without any."""
    option_lines = "\n".join(f"{letter}. {option}" for letter, option in options.items())
    return f"{question}\n\nOptions:\n{option_lines}" if option_lines else question


def _read_options(row: QuestionRow) -> dict[str, str]:
    """Returns the options by letter."""
    options = [option for option in row.fields.texts("options") if isinstance(option, str)]
    if not options:
        return {}
    if not 2 <= len(options) <= _MAX_OPTIONS:
        message = f"has {len(options)} texts; write 2 to {_MAX_OPTIONS}."
        row.fields.error("bad-options", "options", message)
        return {}
    row.letters = ascii_uppercase[: len(options)]
    return dict(zip(row.letters, options, strict=True))


def _patent_check(row: QuestionRow) -> tuple[str, dict[str, Any]]:
    letter = row.expected.strip(" ().:").upper()
    if len(letter) != 1 or letter not in row.letters:
        return _make_unscored_check(
            row, f"Only a letter of {row.letters} can be compared, and `gold_label` is none"
        )
    return "choice", {"value": letter} | ({} if row.letters == "ABCD" else {"options": row.letters})


# --- LegalBench, and any other -----------------------------------------------------------------------------


def _make_exact_check(row: QuestionRow) -> tuple[str, dict[str, Any]]:
    return "exact", {"value": row.expected, "ignore_case": True, "any_space": True}


FINANCE_BENCH: Final = QuestionForm(
    name="FinanceBench",
    id_fields=("financebench_id",),
    id_prefix="fb-",
    question_fields=("question",),
    expected_fields=("gold_standard", "metric_eval_text", "answer"),
    build_prompt=_finance_prompt,
    build_check=_finance_check,
    category_field="question_type",
)
PATENT: Final = QuestionForm(
    name="patent-strategist",
    id_fields=("qid",),
    id_prefix="ps-",
    question_fields=("question",),
    expected_fields=("gold_label",),
    build_prompt=_patent_prompt,
    build_check=_patent_check,
    category_field="family",
)
LEGAL_BENCH: Final = QuestionForm(
    name="LegalBench",
    id_fields=("id",),
    id_prefix="lb-",
    question_fields=("text", "input", "question"),
    expected_fields=("answer", "label"),
    build_prompt=lambda row: row.question,
    build_check=_make_exact_check,
    category_field="task",
)


_INSPECT_REMEDY: Final = "into the question, or name the fields `input`, `choices` and `target` for Inspect."
_REMEDIES: Final = {
    "choices": (
        "If the model can score choices, set `score-choices = true` in proctor.toml. Otherwise, write it "
        f"{_INSPECT_REMEDY}"
    ),
    "options": f"Write it {_INSPECT_REMEDY}",
    "context": f"Write it {_INSPECT_REMEDY}",
}
"""What to do about a field that the model is not shown."""


def _generic_prompt(row: QuestionRow) -> str:
    """Returns just the question, and warns about fields that a reader would expect with it."""
    if row.source.options.get("score_choices") and "choices" in row.fields:
        row.choices = _read_choices(row)
    for name in ("choices", "options", "context"):
        if name in row.fields and name not in row.warned_fields:
            row.warned_fields.add(name)
            row.fields.warn(
                "not-shown", name, f"is kept as metadata and is not sent to the model. {_REMEDIES[name]}"
            )
    return row.question


def _read_choices(row: QuestionRow) -> tuple[str, ...]:
    """Returns the choices: a list, or in CSV its JSON."""
    value: Any = row.fields.pop("choices")
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if isinstance(value, list) and len(value) > 1 and all(isinstance(item, str) for item in value):
        return tuple(value)
    row.fields.error("bad-choices", "choices", "must be a list of at least two texts.")
    return ()


def _generic_check(row: QuestionRow) -> tuple[str, dict[str, Any]]:
    if not row.choices:
        return _make_exact_check(row)
    if row.index is None and row.expected in row.choices:
        return "multiple_choice", {"value": row.expected}
    index = row.index
    if index is None and row.expected.isdecimal() and len(row.expected) < 10:
        index = int(row.expected)
    if index is None and len(row.expected) == 1:
        index = ascii_uppercase.find(row.expected)
    if index is None or not 0 <= index < len(row.choices):
        row.notes.error(
            "bad-choices",
            f"The right answer is {quote_value(row.expected)}; it must be one of `choices`, its letter, or "
            "its index from 0.",
            "choices",
        )
        return "", {}
    row.expected = row.choices[index]
    return "multiple_choice", {"value": index}


GENERIC: Final = QuestionForm(
    name="questions and answers",
    id_fields=("id", "qid"),
    id_prefix="q-",
    question_fields=("question", "prompt", "input"),
    expected_fields=_ANSWER_FIELDS,
    build_prompt=_generic_prompt,
    build_check=_generic_check,
)

DIALECT = FieldkitQa()
