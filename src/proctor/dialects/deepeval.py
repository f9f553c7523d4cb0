"""Dialect deepeval: DeepEval goldens as a JSON array, JSON Lines or CSV.

A golden names no metric. A judge decides whether the answer has the content of `expected_output`, and a
warning says so; a golden without it is UNSCORED. All other fields become metadata and are not sent.
Source: DeepEval's documentation of datasets, and `dataset/dataset.py` of deepeval 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from proctor.dialects.shared.case_rows import read_cases
from proctor.dialects.shared.jsonl import file_name
from proctor.dialects.shared.report_once import report_once
from proctor.dialects.shared.signatures import is_deepeval
from proctor.lazy_pattern import lazy_pattern
from proctor.model import Assertion, Case, Message, Problem, Suite
from proctor.protocols import CaseAtLine, Dialect, FileHead, SuiteSource
from proctor.validation import FieldReader, ProblemLog

TYPES: Final = ("expected_output",)
"""The types of the format's assertions."""
UNGRADED_FIELDS: Final = ("actual_output", "expected_tools", "expectations", "expected_labels")
"""Fields that DeepEval's metrics may use, and no grader here does."""
_DEFAULT_METRIC_MESSAGE: Final = (
    "Goldens name no metric, so a judge decides whether an answer matches the "
    "content of `expected_output`. To use other checks, convert the cases to another format with "
    "`proctor convert`."
)
_EMBEDDED_FILE: Final = lazy_pattern(r"\[DEEPEVAL:(?:IMAGE|PDF):[^\]]*\]")


class DeepEval(Dialect):
    """Reads DeepEval goldens."""

    endings = (".jsonl", ".ndjson", ".json", ".csv")
    types = "proctor.dialects.deepeval:TYPES"

    def recognises(self, head: FileHead) -> str | None:
        """Recognises rows or columns with an `input` and fields that only goldens have."""
        return "it has the fields of DeepEval's goldens" if is_deepeval(head) else None

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        from proctor.dialects.shared.csv_rows import read_table  # most runs use another dialect

        yield Suite(name=file_name(source.path).stem or "suite", dialect="deepeval")
        cases = read_cases(read_table(source), source.path, _parse_case)
        yield from report_once(cases, ("default-metric", "not-graded"))


def _parse_case(notes: ProblemLog, row: dict[str, Any], number: int) -> CaseAtLine:
    fields = FieldReader(row, notes)
    fields.drop_null()
    for name in UNGRADED_FIELDS:
        if name in fields:
            message = f"`{name}` is kept as metadata and not graded; the answer of the target is graded."
            notes.warn("not-graded", message, name)
    if "expected_output" in fields:
        notes.warn("default-metric", _DEFAULT_METRIC_MESSAGE, "expected_output")
    notes.case = case_id = fields.required_text("id") if "id" in fields else f"golden-{number}"
    if "scenario" in fields:
        message = (
            "makes the golden a conversation that DeepEval simulates, but a Proctor case sends one input."
        )
        fields.error("unsupported", "scenario", message)
        return CaseAtLine(Case(id=case_id, input=()), notes.line)
    prompt = fields.required_text("input")
    if _EMBEDDED_FILE.search(prompt):
        message = "names an image or PDF that is not part of the file; write its text instead."
        fields.error("unsupported", "input", message)
    expected = fields.text("expected_output")
    case = Case(
        id=case_id,
        input=(Message(role="user", content=prompt),),
        expected=expected,
        assertions=(_make_assertion(expected, notes),),
        metadata={name: fields.pop(name) for name in fields.remaining_names()},
    )
    return CaseAtLine(case, notes.line, has_own_id="id" in row)


def _make_assertion(expected: str | None, notes: ProblemLog) -> Assertion:
    if expected is not None and expected.strip():
        from proctor.dialects.inspect.samples import make_content_question

        return Assertion(
            grader="llm_judge", params={"prompt": make_content_question([expected])}, label=TYPES[0]
        )
    if notes.has_errors:
        return Assertion(grader="")
    because = "The golden has no `expected_output`"
    notes.warn("unscored-type", f"{because}; the case will be UNSCORED.", "expected_output")
    return Assertion(grader="unscored", params={"reason": f"{because}."}, label=TYPES[0])


DIALECT = DeepEval()
