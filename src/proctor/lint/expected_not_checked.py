"""What a case expects and by whom it is judged: `judge-without-rubric`, `empty-expected`, `json-expected`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from proctor.lint.answer_leaks import as_json
from proctor.lint.findings import Finding, Passes, assertions_of, quoted, test_of, text_param, texts_param
from proctor.model import Assertion, Case

_JUDGES: Final = {
    "llm_judge": "prompt",
    "rubric": "rubric",
    "rubrics": "items",
    "llm_grader": "prompt",
    "instructions": "evaluators",
}
"""The graders that ask judges, each with the parameter that says by what they judge."""
_CRITERIA_GRADERS: Final = frozenset(("llm_grader", "instructions"))
"""Those for which the case's criteria do."""


def judges_without_rubric(case: Case, passes: Passes) -> Iterator[Finding]:  # noqa: ARG001  # as every rule
    """`judge-without-rubric`: a judge without anything to judge by."""
    for assertion in assertions_of(case):
        name = _JUDGES.get(assertion.grader)
        if name is None or _says_something(assertion.params.get(name)):
            continue
        if assertion.grader in _CRITERIA_GRADERS and (
            _says_something(case.criteria) or case.expected is not None
        ):
            continue
        parameter = "criteria" if assertion.grader in _CRITERIA_GRADERS else name
        message = (
            f"{test_of(case)} uses {assertion.grader} but missing 'rubric': the judge is told nothing to "
            f"judge by. Write in `{parameter}` what a good answer does."
        )
        yield Finding("judge-without-rubric", message, "assertions")


def _says_something(value: Any) -> bool:
    return bool(value.strip()) if isinstance(value, str) else bool(value)


def empty_expected(case: Case, passes: Passes) -> Iterator[Finding]:  # noqa: ARG001  # as every rule
    """`empty-expected`: an expected answer without a letter in it."""
    for assertion in assertions_of(case):
        value = text_param(assertion, "value")
        if assertion.grader == "exact" and not assertion.negated and value is not None and not value.strip():
            yield _empty(case, f"`exact` expects {value!r}, and only an empty answer passes", "assertions")
            return
    expected: Any = case.expected
    blank = isinstance(expected, str) and not expected.strip()
    if blank or (isinstance(expected, list) and not any(_says_something(item) for item in expected)):
        yield _empty(case, f"`expected` is {expected!r}", "expected")


def _empty(case: Case, what: str, field: str) -> Finding:
    message = (
        f"{test_of(case)}: no expected value - consider using scorer='llm_judge' with a rubric. {what}; "
        "write the answer, or let a judge decide."
    )
    return Finding("empty-expected", message, field)


def json_expected(case: Case, passes: Passes) -> Iterator[Finding]:  # noqa: ARG001  # as every rule
    """`json-expected`: JSON that is compared letter by letter."""
    for assertion in assertions_of(case):
        for value in () if assertion.negated else _literal_texts(assertion):
            if looks_like_json(value):
                message = (
                    f"{test_of(case)}: expected looks like JSON - consider scorer='json_schema'. "
                    f"{assertion.grader!r} compares it letter by letter, so that another order of keys or "
                    f"one space more fails: {quoted(value.strip())}."
                )
                yield Finding("json-expected", message, "expected")
                return


def _literal_texts(assertion: Assertion) -> tuple[str, ...]:
    if assertion.grader in ("exact", "contains"):
        value = text_param(assertion, "value")
        return () if value is None else (value,)
    if assertion.grader in ("contains_any", "contains_all"):
        return texts_param(assertion, "values")
    return ()


def looks_like_json(text: str) -> bool:
    """Whether a text is a JSON object or array, or an object but for a slip; `[3]` is rather a citation."""
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        return ":" in text or as_json(text) is not None
    return text.startswith("[") and not text.strip("[]").isdecimal() and as_json(text) is not None
