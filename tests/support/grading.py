"""Answers graded in one line."""

from __future__ import annotations

from typing import Any

import msgspec

from proctor.graders import GRADERS
from proctor.model import Case, GraderResult, Output
from proctor.protocols import GradingInput


def grade_answer(name: str, params: dict[str, Any], answer: str | Output = "", **fields: Any) -> GraderResult:
    """The result of a grader by its name and parameters; the fields are those of its input."""
    result = make_grader(name, params).grade(make_input(answer, **fields))
    assert isinstance(result, GraderResult)
    return result


def make_grader(name: str, params: dict[str, Any]) -> Any:
    """A grader with its parameters as a suite gives them."""
    return msgspec.convert(params, GRADERS.get(name))


def make_input(answer: str | Output = "", **fields: Any) -> GradingInput:
    """What a grader is given: an answer, and a case of which nothing is known."""
    output = Output(text=answer) if isinstance(answer, str) else answer
    return GradingInput(**{"case": Case(id="c", input=()), "output": output} | fields)
