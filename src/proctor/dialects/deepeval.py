"""Dialect deepeval: DeepEval goldens as a JSON array, JSON Lines or CSV.

A golden names no metric. A judge decides whether the answer has the content of `expected_output`, and a
warning says so; a golden without it is UNSCORED. All other fields become metadata and are not sent.
Source: DeepEval's documentation of datasets, and `dataset/dataset.py` of deepeval 4.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from proctor.dialects.shared.jsonl import file_name
from proctor.dialects.shared.report_once import report_once
from proctor.dialects.shared.signatures import is_deepeval
from proctor.model import Assertion, Case, Message, Problem, Suite
from proctor.protocols import CaseAtLine, Dialect, FileHead, SuiteSource
from proctor.validation import FieldReader, ProblemLog

TYPES: Final = ("expected_output",)
"""The types of the format's assertions."""
UNGRADED_FIELDS: Final = ("actual_output", "expected_tools", "expectations", "expected_labels")
"""Fields that DeepEval's metrics may use, and no grader here does."""
_DEFAULT_METRIC_MESSAGE: Final = (
    "Goldens name no metric, so a judge decides whether an answer has the content of `expected_output`. "
    "For other checks write the cases in another format with `proctor convert`."
)
_EMBEDDED_FILE: Final = re.compile(r"\[DEEPEVAL:(?:IMAGE|PDF):[^\]]*\]")


class DeepEval(Dialect):
    """Reads DeepEval goldens."""

    endings = (".jsonl", ".ndjson", ".json", ".csv")

    def recognises(self, head: FileHead) -> str | None:
        """Recognises rows or columns with an `input` and fields that only goldens have."""
        return "it has the fields of DeepEval's goldens" if is_deepeval(head) else None

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        yield Suite(name=file_name(source.path).stem or "suite", dialect="deepeval")
        yield from report_once(_read_cases(source), ("default-metric", "not-graded"))

    def assertion_types(self) -> Collection[str]:
        """Returns the types of the format's assertions."""
        return TYPES


def _read_cases(source: SuiteSource) -> Iterator[CaseAtLine | Problem]:
    from proctor.dialects.shared.csv_rows import read_table  # most runs use another dialect

    for item in read_table(source):
        if isinstance(item, Problem):
            yield item
            continue
        line, number, row = item
        notes = ProblemLog(source.path, line, of_case=True)
        case = _parse_case(FieldReader(row, notes), f"golden-{number}")
        yield from notes.problems
        if not notes.has_errors:
            yield CaseAtLine(case, line, has_own_id="id" in row)


def _parse_case(fields: FieldReader, default_id: str) -> Case:
    fields.drop_null(*fields.remaining_names())
    notes = fields.problem_log
    for name in UNGRADED_FIELDS:
        if name in fields:
            message = f"`{name}` is kept as metadata and not graded; the answer of the target is graded."
            notes.warn("not-graded", message, name)
    if "expected_output" in fields:
        notes.warn("default-metric", _DEFAULT_METRIC_MESSAGE, "expected_output")
    notes.case = case_id = fields.required_text("id") if "id" in fields else default_id
    if "scenario" in fields:
        message = "makes the golden a conversation that DeepEval simulates, and a case here sends one input."
        fields.error("unsupported", "scenario", message)
        return Case(id=case_id, input=())
    prompt = fields.required_text("input")
    if _EMBEDDED_FILE.search(prompt):
        message = "names a picture or PDF that only the program that wrote it had; write the text of it."
        fields.error("unsupported", "input", message)
    expected = fields.text("expected_output")
    return Case(
        id=case_id,
        input=(Message(role="user", content=prompt),),
        expected=expected,
        assertions=(_make_assertion(expected, notes),),
        metadata={name: fields.pop(name) for name in fields.remaining_names()},
    )


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
