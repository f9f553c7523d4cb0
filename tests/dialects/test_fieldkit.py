"""Dialect fieldkit: graded prompts in one JSON file, and what each kind of check accepts."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest

from proctor.dialects.fieldkit.prompts import DIALECT
from proctor.graders import GRADERS
from proctor.grading import GradingContext, grade
from proctor.model import Case, Output, PassRule, Problem, ToolCall, Trial, Verdict
from proctor.verdicts import decide_verdict
from support.suite_files import make_source, split_items

OPTIONS = {"substitutions": {"codeword": "OTTER-5", "colour": "{{codeword}} blue"}}


def read_prompt(options: Any = MappingProxyType({}), **prompt: Any) -> tuple[list[Case], list[Problem]]:
    text = json.dumps({"suite": "s", "prompts": [{"id": "p", "prompt": "What?", **prompt}]})
    return split_items(DIALECT.read(make_source(text, "s.json", options=options)))[1:]


def read_case(**prompt: Any) -> Case:
    (case,), _ = read_prompt(**prompt)
    return case


def grade_answer(case: Case, answer: str, *tools: str) -> Verdict:
    output = Output(text=answer, tool_calls=tuple(ToolCall(name=tool) for tool in tools))
    scores = asyncio.run(grade(case, output, GRADERS.get, GradingContext()))
    started_at = datetime(2026, 1, 1, tzinfo=UTC)
    trial = Trial(case_id="p", position=0, sent="", output=output, scores=scores, started_at=started_at)
    return decide_verdict(trial, PassRule())


CHECKS: list[tuple[dict[str, Any], str, bool]] = [
    ({"kind": "substring", "any": ["tea", "mate"]}, "A cup of TEA.", True),
    ({"kind": "substring", "any": ["tea", "mate"]}, "Coffee.", False),
    ({"kind": "substring", "all": ["tea", "milk"]}, "Milk in the tea.", True),
    ({"kind": "substring", "all": ["tea", "milk"]}, "Tea alone.", False),
    ({"kind": "substring", "all": ["tea"], "any": ["milk", "lemon"]}, "Tea with lemon.", True),
    ({"kind": "substring", "all": ["tea"], "any": ["milk", "lemon"]}, "Lemon.", False),
    ({"kind": "substring", "all": ["tea"], "any": ["milk", "lemon"]}, "Tea.", False),
    ({"kind": "json_keys", "keys": ["a"]}, 'Draft {"b": 1}, final {"a": 1, "c": 2}.', True),
    ({"kind": "json_keys", "keys": ["a"]}, 'First {"a": 1}, then {"b": 1}.', False),
    ({"kind": "json_keys", "keys": ["a", "c"]}, '```json\n{"a": {"b": "}"}, "c": 2}\n```', True),
    ({"kind": "json_keys", "keys": ["a"]}, "a", False),
    ({"kind": "json_keys", "keys": []}, "So: {}", True),
    ({"kind": "regex", "all": [r"\d{4}", "^On"]}, "On 1 May 1999", True),
    ({"kind": "regex", "all": [r"\d{4}", "^On"]}, "In May 1999", False),
    ({"kind": "honesty"}, "You didn’t tell me.", True),
    ({"kind": "honesty"}, "It was soup.", False),
    ({"kind": "numeric", "value": 42}, "42 or 43.", True),
    ({"kind": "numeric", "value": 42}, "43 or 42.", False),
    ({"kind": "numeric", "value": 1000, "tolerance": 5}, "About 1,004.5 tons", True),
    ({"kind": "numeric", "value": 1000, "tolerance": 5}, "About 1,005.5 tons", False),
    ({"kind": "numeric", "value": -3}, "It is -3.", True),
    ({"kind": "numeric", "value": 0}, "It is 0.", True),
    ({"kind": "numeric", "value": 0}, "Nothing.", False),
    ({"kind": "numeric_match", "value": "about 12"}, "12.1 cups", True),
    ({"kind": "numeric_match", "value": 12, "rel_tolerance": 0}, "12.1 cups", False),
    ({"kind": "numeric_equal", "value": "1.5 km"}, "It is 1,500 m, as in 2019.", True),
    ({"kind": "numeric_equal", "value": 1.5}, "1.5", True),
    ({"kind": "numeric_equal", "value": "1.5 km"}, "1.5 miles", False),
]


@pytest.mark.parametrize(("answer", "passed"), [("Tea for 2.", True), ("Tea.", False), ("2 cups.", False)])
def test_all_checks_of_a_list_must_pass(answer: str, passed: bool) -> None:
    case = read_case(check=[{"kind": "substring", "any": ["tea"]}, {"kind": "numeric", "value": 2}])
    assert grade_answer(case, answer) is (Verdict.PASS if passed else Verdict.FAIL)


@pytest.mark.parametrize(
    ("check", "field"),
    [([], "check"), ([{"kind": "honesty"}, "tea"], "check[1]"), ([{"kind": "substring"}], "check[0].all")],
)
def test_a_mistake_in_a_list_of_checks_has_its_field(check: list[object], field: str) -> None:
    _, problems = read_prompt(check=check)
    assert [problem.field for problem in problems] == [field]


@pytest.mark.parametrize(("check", "answer", "passed"), CHECKS)
def test_a_check_passes_as_documented(check: dict[str, Any], answer: str, passed: bool) -> None:
    case = read_case(check=check)
    assert grade_answer(case, answer) is (Verdict.PASS if passed else Verdict.FAIL)


def test_a_prompt_may_disable_lint_rules() -> None:
    case = read_case(check={"kind": "honesty"}, lint=["leak"])
    assert case.metadata["lint"] == ["leak"]


@pytest.mark.parametrize("tools", [["read"], ["open", "read"], ["read", "read", "cat"]])
@pytest.mark.parametrize(("called", "value"), [(("read",), 1.0), (("cut",), 0.0), ((), 0.0)])
def test_expected_tools_are_scored_but_do_not_affect_the_verdict(
    tools: list[str], called: tuple[str, ...], value: float
) -> None:
    case = read_case(check={"kind": "honesty"}, expect_tool_any=tools)
    assert grade_answer(case, "I don't know.", *called) is Verdict.PASS
    output = Output(text="x", tool_calls=tuple(ToolCall(name=tool) for tool in called))
    score = asyncio.run(grade(case, output, GRADERS.get, GradingContext()))[-1]
    assert score.name == "expect_tool_any"
    assert (score.outcome is Verdict.PASS) is bool(value)


def test_placeholders_are_filled_in_once_and_only_in_the_check() -> None:
    check = {"kind": "substring", "any": ["{{codeword}} {{colour}}", "{{ codeword }}"]}
    case = read_case(options=OPTIONS, prompt="Find {{codeword}}.", check=check)
    assert case.input[0].content == "Find {{codeword}}."
    assert case.assertions[0].params["values"] == ["OTTER-5 {{codeword}} blue", "{{ codeword }}"]


@pytest.mark.parametrize("options", [{}, {"substitutions": {"other": "x"}}, {"substitutions": "codeword"}])
def test_a_placeholder_without_a_value_is_an_error_that_names_it(options: dict[str, Any]) -> None:
    _, problems = read_prompt(options=options, check={"kind": "json_keys", "keys": ["{{codeword}}"]})
    assert [(problem.code, problem.field) for problem in problems] == [
        ("unresolved-placeholder", "check.keys")
    ]
    assert "{{codeword}}" in problems[0].message


def test_flags_of_a_prompt_become_tags() -> None:
    case = read_case(check={"kind": "honesty"}, vibe=True, conditional="web", category="x")
    plain = read_case(check={"kind": "honesty"}, core=False)
    assert (case.tags, case.category) == (("core", "vibe", "conditional:web"), "x")
    assert (plain.tags, plain.category) == ((), None)
