"""The rule `contradiction`: assertions that no answer can pass together, and those that one can."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.model import Assertion, Problem
from support.linting import lint_cases, make_checked_case


def check(grader: str, *, negated: bool = False, weight: float = 1.0, **params: Any) -> Assertion:
    return Assertion(grader=grader, params=params, negated=negated, weight=weight)


EXACT = check("exact", value="Granite wall")
APART = [
    (EXACT, check("exact", value="Slate wall")),
    (EXACT, check("contains", value="slate")),
    (EXACT, check("contains", value="wall", negated=True)),
    (EXACT, check("forbidden_words", words=["wall"])),
    (EXACT, check("regex", pattern=r"\d")),
    (EXACT, check("length", max_words=1)),
    (EXACT, check("length", min_sentences=2)),
    (EXACT, check("is_json")),
    (EXACT, check("refusal")),
    (EXACT, check("number", value=7.0)),
    (EXACT, check("numeric_match", value="7")),
    (EXACT, check("numeric_equal", value="7 kg")),
    (EXACT, EXACT.__class__(grader="exact", params={"value": "Granite wall"}, negated=True)),
    (check("exact", value='{"a": 1}'), check("json_schema", schema={"required": ["b"]})),
    (check("exact", value="GRANITE", ignore_case=True), check("contains", value="slate")),
    (check("contains", value="granite"), check("contains", value="granite", negated=True)),
    (check("contains", value="granite"), check("contains", value="ran", negated=True)),
    (check("contains", value="Granite"), check("contains", value="granite", negated=True, ignore_case=True)),
    (check("contains_all", values=["a", "granite"]), check("contains_any", values=["granite"], negated=True)),
    (check("required_words", words=["granite"]), check("forbidden_words", words=["GRANITE"])),
    (check("starts_with", value="Granite"), check("regex", pattern="(?i)granite", negated=True)),
    (check("starts_with", value="Granite"), check("starts_with", value="Slate")),
    (check("ends_with", value="wall"), check("ends_with", value="roof")),
    (check("contains", value="one two three"), check("length", max_words=2)),
    (check("contains", value="granite"), check("length", max_characters=3)),
    (check("length", max_words=5), check("length", min_words=6)),
    (check("json_array", max_items=1), check("json_array", min_items=2)),
    (check("json_array"), check("json_keys", keys=["a"])),
    (check("number", value=3.0), check("number", value=4.0, tolerance=0.5)),
    (
        check("number", value=100.0, tolerance=0.1, relative=True),
        check("number", value=125.0, tolerance=0.1, relative=True),
    ),
    (check("is_json"), check("is_json", negated=True)),
]
TOGETHER = [
    (EXACT, check("contains", value="wall")),
    (EXACT, check("length", max_words=2)),
    (EXACT, check("latency", max_ms=900)),
    (EXACT, check("tool_trajectory", mode="any_order", minimums={"search": 1})),
    (EXACT, check("llm_judge", prompt="Is it kind?")),
    (EXACT, check("contains", value="slate", weight=0.0)),
    (check("exact", value="GRANITE", ignore_case=True), check("contains", value="granite")),
    (check("contains", value="granite"), check("contains", value="slate")),
    (check("contains", value="gran"), check("forbidden_words", words=["gran"])),
    (check("contains", value="granite", ignore_case=True), check("contains", value="granite", negated=True)),
    (check("contains", value="granite"), check("regex", pattern="^granite$", negated=True)),
    (check("contains_any", values=["granite", "slate"]), check("forbidden_words", words=["granite"])),
    (check("starts_with", value="Granite"), check("starts_with", value="Granite wall")),
    (check("length", max_words=5), check("length", min_words=5)),
    (check("length", max_words=5), check("length", min_sentences=6)),
    (check("number", value=3.0), check("number", value=3.2, tolerance=0.5)),
    (check("number", value=0.1, tolerance=0.7), check("number", value=0.9, tolerance=0.1)),
    (
        check("number", value=100.0, tolerance=0.1, relative=True),
        check("number", value=108.0, tolerance=0.1, relative=True),
    ),
    (
        check("number", value=-110.0, tolerance=0.0),
        check("number", value=-100.0, tolerance=0.1, relative=True),
    ),
    (check("number", value=3.0), check("number", value=4.0, which="first")),
    (check("is_json"), check("json_keys", keys=["a"])),
]


def list_contradictions(problems: list[Problem]) -> list[str]:
    return [problem.message for problem in problems if problem.code == "contradiction"]


@pytest.mark.parametrize(("first", "second"), APART)
def test_no_answer_passes_both(first: Assertion, second: Assertion) -> None:
    assert len(list_contradictions(lint_cases(make_checked_case("Which?", first, second)))) == 1
    assert len(list_contradictions(lint_cases(make_checked_case("Which?", second, first)))) == 1


@pytest.mark.parametrize(("first", "second"), TOGETHER)
def test_some_answer_may_pass_both(first: Assertion, second: Assertion) -> None:
    assert list_contradictions(lint_cases(make_checked_case("Which?", first, second))) == []
    assert list_contradictions(lint_cases(make_checked_case("Which?", second, first))) == []


def test_the_message_names_the_case_and_both_assertions() -> None:
    (message,) = list_contradictions(
        lint_cases(make_checked_case("Which?", EXACT, check("contains", value="slate"), id="wall"))
    )
    assert message.startswith("Test 'wall': no answer can pass `exact` 'Granite wall' and `contains` 'slate'")


def test_members_of_a_composite_are_held_against_the_rest() -> None:
    member = {"name": "a", "assertion": {"grader": "contains", "params": {"value": "slate"}}}
    params = {"members": [member], "aggregator": {"type": "threshold", "threshold": 1}}
    assert (
        len(list_contradictions(lint_cases(make_checked_case("Which?", EXACT, ("composite", params))))) == 1
    )
