"""`judge-without-rubric`, `empty-expected` and `json-expected`."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.model import Assertion
from support.linting import lint_cases, lint_codes, make_checked_case


@pytest.mark.parametrize(
    ("grader", "params", "fields", "lacks_rubric"),
    [
        ("llm_grader", {}, {}, True),
        ("llm_grader", {}, {"criteria": "  "}, True),
        ("llm_grader", {"prompt": "Is it kind?"}, {}, False),
        ("llm_grader", {}, {"criteria": "Is kind."}, False),
        ("llm_grader", {}, {"expected": "Dear Ada"}, False),
        ("llm_judge", {"prompt": "Is it kind?"}, {}, False),
        ("rubric", {"rubric": "Is kind."}, {}, False),
        ("exact", {"value": "Dear Ada"}, {}, False),
    ],
)
def test_a_judge_must_be_told_what_to_judge_by(
    grader: str, params: dict[str, Any], fields: dict[str, Any], lacks_rubric: bool
) -> None:
    codes = lint_codes(make_checked_case("Write a letter.", (grader, params), **fields))
    assert ("judge-without-rubric" in codes) is lacks_rubric


def test_the_message_about_a_judge_begins_as_the_format_says() -> None:
    (problem,) = lint_cases(make_checked_case("Write a letter.", ("llm_grader", {}), id="letter_3"))
    assert problem.message.startswith("Test 'letter_3' uses llm_grader but missing 'rubric'")


@pytest.mark.parametrize(
    ("check", "expected", "is_reported"),
    [
        (("exact", {"value": " \n"}), " \n", True),
        (("exact", {"value": ""}), None, True),
        (("llm_grader", {"prompt": "Is it kind?"}), "", True),
        (("llm_grader", {"prompt": "Is it kind?"}), [""], True),
        (("llm_grader", {"prompt": "Is it kind?"}), None, False),
        (("exact", {"value": "0"}), "0", False),
        (Assertion(grader="exact", params={"value": ""}, negated=True), None, False),
    ],
)
def test_an_empty_expected_answer_suggests_a_judge(check: Any, expected: Any, is_reported: bool) -> None:
    problems = [
        problem
        for problem in lint_cases(make_checked_case("Write a letter.", check, expected=expected))
        if problem.code == "empty-expected"
    ]
    assert len(problems) == is_reported
    for problem in problems:
        assert "no expected value - consider using scorer='llm_judge' with a rubric" in problem.message


@pytest.mark.parametrize(
    ("grader", "value", "is_reported"),
    [
        ("exact", '{"name": "Ada"}', True),
        ("contains", ' ["Ada", "Eve"] ', True),
        ("exact", "{'name': 'Ada'}", True),
        ("exact", "{}", True),
        ("exact", "{name}", False),
        ("exact", "[Ada]", False),
        ("contains", "[3]", False),
        ("contains", "[3, 4]", True),
        ("exact", '"Ada"', False),
        ("exact", "7", False),
        ("starts_with", '{"name": "Ada"}', False),
    ],
)
def test_json_that_is_compared_letter_by_letter_suggests_a_schema(
    grader: str, value: str, is_reported: bool
) -> None:
    problems = [
        problem
        for problem in lint_cases(make_checked_case("Who?", (grader, {"value": value})))
        if problem.code == "json-expected"
    ]
    assert len(problems) == is_reported
    for problem in problems:
        assert "expected looks like JSON - consider scorer='json_schema'" in problem.message
