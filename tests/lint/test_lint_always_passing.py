"""`vacuous-empty`, `vacuous-refusal` and `vacuous-echo`: cases that pass for answers without content."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.model import Assertion, PassRule
from support.linting import lint_cases, lint_codes, make_checked_case

SAY = ("contains", {"value": "granite"})
QUICK = ("latency", {"max_ms": 900})


def negated(grader: str, **params: Any) -> Assertion:
    return Assertion(grader=grader, params=params, negated=True)


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        ([SAY], []),
        ([("forbidden_words", {"words": ["slate"]})], ["vacuous-empty"]),
        ([negated("contains", value="slate")], ["vacuous-empty"]),
        ([negated("contains", value="slate"), SAY], []),
        ([("length", {"max_words": 40})], ["vacuous-empty"]),
        ([("length", {"min_words": 3, "max_words": 40})], ["vacuous-refusal"]),
        ([("contains", {"value": "stone"})], ["leak"]),
        ([("contains_any", {"values": ["yes", "no"]})], []),
        ([("regex", {"pattern": "[a-z]+"})], ["vacuous-refusal"]),
        ([("is_json", {})], []),
        ([("llm_judge", {"prompt": "Is it kind?"})], []),
        ([("rubric", {"rubric": "Is kind."}), ("length", {"max_words": 40})], []),
        ([QUICK], []),
        ([QUICK, SAY], []),
        ([("unscored", {"reason": "no rule can tell"})], []),
        ([("consistency", {})], []),
    ],
)
def test_answers_that_say_nothing(checks: list[Any], expected: list[str]) -> None:
    assert lint_codes(make_checked_case("Which stone is the wall made of?", *checks)) == expected


def test_an_echo_that_passes_though_nothing_leaks_is_told() -> None:
    question_case = make_checked_case("Say yes or no: is granite a stone?", ("contains", {"value": "yes"}))
    assert lint_codes(question_case) == ["vacuous-echo"]
    (problem,) = lint_cases(question_case)
    assert problem.message.endswith("Compare with `exact`, or limit the answer's length.")


def test_the_message_names_all_that_passes() -> None:
    (problem,) = lint_cases(make_checked_case("Describe the wall.", ("length", {"max_words": 40}), id="wall"))
    assert problem.message.startswith(
        "Test 'wall' passes on an empty answer, a plain refusal (\"I'm sorry, but I can't help with that.\") "
        "and an answer that only repeats the prompt."
    )


@pytest.mark.parametrize(
    ("checks", "fields"),
    [
        ([("refusal", {})], {}),
        ([("abstention", {})], {}),
        ([("contains_any", {"values": ["cannot", "can't"]})], {}),
        ([("regex", {"pattern": "(?i)sorry|unable"})], {}),
        ([("length", {"min_words": 3})], {"category": "safety"}),
        ([("length", {"min_words": 3})], {"tags": ("Refusal",)}),
    ],
)
def test_where_a_refusal_is_wanted_it_may_pass(checks: list[Any], fields: dict[str, Any]) -> None:
    assert "vacuous-refusal" not in lint_codes(make_checked_case("Why?", *checks, **fields))


def test_not_refusing_is_vacuous_on_an_empty_answer() -> None:
    assert lint_codes(make_checked_case("Describe the wall.", ("refusal", {"expected": False}))) == [
        "vacuous-empty"
    ]


@pytest.mark.parametrize(
    ("case_rule", "suite_rule", "is_vacuous"),
    [
        (None, PassRule(), False),
        (None, PassRule(threshold=0.5), True),
        (None, PassRule(threshold=0.6), False),
        (PassRule(threshold=0.4), PassRule(), True),
        (PassRule(), PassRule(threshold=0.4), False),
    ],
)
def test_the_pass_rule_that_counts_decides(
    case_rule: PassRule | None, suite_rule: PassRule, is_vacuous: bool
) -> None:
    half = make_checked_case("Describe the wall.", SAY, ("length", {"max_words": 40}), pass_rule=case_rule)
    assert ("vacuous-empty" in lint_codes(half, rule=suite_rule)) is is_vacuous


def test_a_gate_that_an_empty_answer_fails_is_enough() -> None:
    gate = Assertion(grader="contains", params={"value": "granite"}, required=1.0, weight=0.1)
    gated = make_checked_case("Describe the wall.", gate, ("length", {"max_words": 40}))
    assert lint_codes(gated, rule=PassRule(threshold=0.5)) == []


def test_members_of_a_composite_that_ask_nobody_are_graded() -> None:
    member = {"name": "a", "assertion": {"grader": "length", "params": {"max_words": 9}}}
    params = {"members": [member], "aggregator": {"type": "threshold", "threshold": 1}}
    assert lint_codes(make_checked_case("Describe the wall.", ("composite", params))) == ["vacuous-empty"]
