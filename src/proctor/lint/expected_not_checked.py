"""Expected answers and their graders: `judge-without-rubric`, `empty-expected`, `json-expected`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from proctor.lint.answer_leaks import parse_json_container
from proctor.lint.findings import (
    Finding,
    PassesAssertion,
    case_label,
    counting_assertions,
    expected_texts,
    get_traits,
    quote_text,
    text_param,
)
from proctor.model import Case

JUDGE_PARAMS: Final = {
    "llm_judge": "prompt",
    "rubric": "rubric",
    "rubrics": "items",
    "llm_grader": "prompt",
    "instructions": "evaluators",
}
"""The graders that call judges, each with the parameter that has the grading instructions."""
_CRITERIA_GRADERS: Final = frozenset(("llm_grader", "instructions"))
"""The graders that can use the case's criteria instead."""


def find_judges_without_rubric(case: Case, passes: PassesAssertion) -> Iterator[Finding]:  # noqa: ARG001  # as every rule
    """`judge-without-rubric`: a judge without grading instructions."""
    for assertion in counting_assertions(case):
        name = JUDGE_PARAMS.get(assertion.grader)
        if name is None or _has_content(assertion.params.get(name)):
            continue
        if assertion.grader in _CRITERIA_GRADERS and (
            _has_content(case.criteria) or case.expected is not None
        ):
            continue
        parameter = "criteria" if assertion.grader in _CRITERIA_GRADERS else name
        message = (
            f"{case_label(case)} uses {assertion.grader} but missing 'rubric': the judge has no "
            f"criteria. Describe in `{parameter}` what a good answer does."
        )
        yield Finding("judge-without-rubric", message, "assertions")


def _has_content(value: Any) -> bool:
    return bool(value.strip()) if isinstance(value, str) else bool(value)


def find_empty_expected(case: Case, passes: PassesAssertion) -> Iterator[Finding]:  # noqa: ARG001  # as every rule
    """`empty-expected`: an expected answer without a letter in it."""
    for assertion in counting_assertions(case):
        value = text_param(assertion, "value") if assertion.grader == "exact" else None
        if value is not None and not assertion.negated and not value.strip():
            yield _empty_finding(
                case, f"`exact` expects {value!r}, so only an empty answer passes", "assertions"
            )
            return
    expected: Any = case.expected
    blank = isinstance(expected, str) and not expected.strip()
    if blank or (isinstance(expected, list) and not any(_has_content(item) for item in expected)):
        yield _empty_finding(case, f"`expected` is {expected!r}", "expected")


def _empty_finding(case: Case, what: str, field: str) -> Finding:
    message = (
        f"{case_label(case)}: no expected value - consider using scorer='llm_judge' with a rubric. "
        f"{what}; write the expected answer, or use a judge."
    )
    return Finding("empty-expected", message, field)


def find_json_expected(case: Case, passes: PassesAssertion) -> Iterator[Finding]:  # noqa: ARG001  # as every rule
    """`json-expected`: JSON that is compared as text."""
    for assertion in counting_assertions(case):
        is_literal = get_traits(assertion).literal and not assertion.negated
        for value in expected_texts(assertion) if is_literal else ():
            if looks_like_json(value):
                message = (
                    f"{case_label(case)}: expected looks like JSON - consider scorer='json_schema'. "
                    f"{assertion.grader!r} compares it character by character, so a different order of keys "
                    f"or one extra space fails: {quote_text(value.strip())}."
                )
                yield Finding("json-expected", message, "expected")
                return


def looks_like_json(text: str) -> bool:
    """Returns whether a text is a JSON object or array, or nearly an object; `[3]` counts as a citation."""
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        return ":" in text or parse_json_container(text) is not None
    return (
        text.startswith("[") and not text.strip("[]").isdecimal() and parse_json_container(text) is not None
    )
