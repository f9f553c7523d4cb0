"""Answers graded in one line."""

from __future__ import annotations

from typing import Any

from proctor.model import Case, GraderResult, Output
from proctor.protocols import GradingInput


def grade_text(grader: Any, answer: str | Output, **fields: Any) -> GraderResult:
    """The result of a grader that asks nobody, for an answer to a case with those fields."""
    output = Output(text=answer) if isinstance(answer, str) else answer
    result = grader.grade(GradingInput(case=Case(**{"id": "c", "input": ()} | fields), output=output))
    assert isinstance(result, GraderResult)
    return result
