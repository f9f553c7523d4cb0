"""Pass rules that a conversion restates: only where no verdict changes, and with a warning."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.dialects import DIALECTS
from proctor.graders import GRADERS
from proctor.model import (
    Assertion,
    Case,
    Message,
    Output,
    PassRule,
    Problem,
    Score,
    Suite,
    SuiteDefaults,
    Trial,
    Verdict,
)
from proctor.services.suites.convert import convert_suite
from proctor.services.suites.pass_rules import RESTATED_CODE, restate_rules
from proctor.stats import reaches
from proctor.verdicts import decide_verdict


def restate(make_suite: Suite, cases: list[Case], to: str) -> tuple[Suite, list[Case], list[Problem]]:
    return restate_rules(make_suite, cases, to, DIALECTS.get(to))


WHOLE = Assertion(grader="contains", params={"value": "x"})
PARTLY = Assertion(grader="rubric", params={"rubric": "Is it kind?"})
ALL, SCORE = PassRule(), PassRule(threshold=1.0)


def make_case(*assertions: Assertion, **fields: Any) -> Case:
    return Case(id="a", input=(Message(role="user", content="Hi"),), assertions=assertions, **fields)


def make_check(**fields: Any) -> Assertion:
    return Assertion(**{"grader": "contains", "params": {"value": "x"}} | fields)


def make_suite(threshold: float | None = None) -> Suite:
    return Suite(name="tides", dialect="x", pass_rule=PassRule(threshold=threshold))


@pytest.mark.parametrize(
    ("to", "threshold", "checks", "becomes"),
    [
        ("agentv", None, (WHOLE,), 1.0),
        ("agentv", None, (WHOLE, make_check(weight=0.1, negated=True, required=1.0)), 1.0),
        ("agentv", None, (WHOLE, make_check(pass_at=0.5)), 1.0),
        ("agentv", None, (WHOLE, make_check(weight=0)), 1.0),
        ("agentv", None, (), 1.0),
        ("agentv", None, (PARTLY,), None),
        ("agentv", None, (WHOLE, PARTLY), None),
        ("agentv", None, (make_check(grader="nobody_knows"),), None),
        ("agentv", None, (make_check(pass_at=0.0),), None),
        ("agentv", None, (WHOLE, make_check(weight=0, required=0.0)), None),
        ("agentv", None, (WHOLE, make_check(weight=1e-12)), None),
        ("agentv", 0.5, (PARTLY,), 0.5),
        ("meridian", 1.0, (WHOLE, WHOLE), None),
        ("pramana", 1.0, (WHOLE,), None),
        ("ai_tester", 1.0, (WHOLE,), None),
        ("meridian", 0.8, (WHOLE,) * 4, None),
        ("meridian", 0.8, (WHOLE,) * 5, 0.8),
        ("meridian", 0.5, (WHOLE, WHOLE), 0.5),
        ("meridian", 0.0, (WHOLE,), 0.0),
        ("meridian", 0.8, (PARTLY,), 0.8),
        ("proctor", 1.0, (WHOLE,), 1.0),
        ("proctor", None, (WHOLE,), None),
    ],
)
def test_a_rule_is_said_otherwise_where_both_are_the_same(
    to: str, threshold: float | None, checks: tuple[Assertion, ...], becomes: float | None
) -> None:
    restated_suite, cases, problems = restate(make_suite(threshold), [make_case(*checks)], to)
    assert restated_suite.pass_rule.threshold == becomes
    assert cases == [make_case(*checks)]
    changed = threshold != becomes
    assert [(problem.level, problem.code, problem.case, problem.field) for problem in problems] == changed * [
        ("warning", RESTATED_CODE, None, "pass_rule")
    ]


def test_one_case_is_enough_to_keep_the_rule() -> None:
    cases = [make_case(WHOLE), make_case(PARTLY)]
    assert restate(make_suite(), cases, "agentv") == (make_suite(), cases, [])


@pytest.mark.parametrize(
    ("to", "threshold", "own", "becomes"),
    [
        ("agentv", 0.8, ALL, SCORE),
        ("agentv", None, ALL, None),
        ("agentv", 0.8, SCORE, SCORE),
        ("agentv", 0.8, PassRule(threshold=0.2), PassRule(threshold=0.2)),
        ("meridian", None, SCORE, None),
        ("meridian", None, ALL, None),
        ("meridian", None, PassRule(threshold=0.0), PassRule(threshold=0.0)),
    ],
)
def test_a_rule_of_a_case_is_said_otherwise_too(
    to: str, threshold: float | None, own: PassRule, becomes: PassRule | None
) -> None:
    _, (restated_case,), problems = restate(make_suite(threshold), [make_case(WHOLE, pass_rule=own)], to)
    assert restated_case.pass_rule == becomes
    session_events = [problem.case for problem in problems if problem.case]
    assert session_events == (["a"] if becomes != own and not (to == "meridian" and own == ALL) else [])


def test_a_rule_of_a_case_that_would_be_another_one_stays() -> None:
    _, (restated_case,), problems = restate(make_suite(0.8), [make_case(PARTLY, pass_rule=ALL)], "agentv")
    assert (restated_case.pass_rule, problems) == (ALL, [])


WEIGHTS = st.sampled_from([0.0, 1e-12, 0.1, 1.0, 3.0])
BARS = st.sampled_from([None, 0.0, 0.3, 0.5, 0.8, 1.0])
CHECKS = st.builds(make_check, weight=WEIGHTS, required=BARS, pass_at=BARS, negated=st.booleans())


@given(st.lists(CHECKS, min_size=1, max_size=3), BARS, st.sampled_from(["agentv", "meridian"]))
def test_no_answer_gets_another_verdict(checks: list[Assertion], threshold: float | None, to: str) -> None:
    before = make_suite(threshold)
    after, _, _ = restate(before, [make_case(*checks)], to)
    for values in product((0.0, 1.0, None), repeat=len(checks)):
        trial = Trial(
            case_id="a",
            position=0,
            sent="",
            output=Output(text="x"),
            scores=tuple(map(make_score, checks, values)),
            started_at=datetime(2024, 1, 1, tzinfo=UTC),
        )
        assert decide_verdict(trial, before.pass_rule) is decide_verdict(trial, after.pass_rule)


def make_score(assertion: Assertion, value: float | None) -> Score:
    """The score of an assertion with this value; unscored for None."""
    outcome = Verdict.UNSCORED
    if value is not None:
        passed = (
            reaches(value, 1.0 if assertion.pass_at is None else assertion.pass_at) is not assertion.negated
        )
        value = 1.0 - value if assertion.negated else value
        outcome = Verdict.PASS if passed else Verdict.FAIL
    return Score(
        grader="contains",
        name="x",
        assertion="",
        value=value,
        outcome=outcome,
        weight=assertion.weight,
        required=assertion.required,
    )


@pytest.mark.parametrize(("threshold", "to"), [(None, "agentv"), (1.0, "meridian")])
def test_it_is_converted_and_told(threshold: float | None, to: str) -> None:
    original = make_case(make_check(params={"value": "x", "ignore_case": True}), expected="x")
    converted = convert_suite(make_suite(threshold), [original], to, lossy=False)
    assert not converted.has_errors
    assert RESTATED_CODE in [problem.code for problem in converted.problems]


def test_what_would_change_verdicts_is_still_refused() -> None:
    called = Assertion(
        grader="tool_trajectory", params={"mode": "any_order", "minimums": {"go": 1}}, pass_at=0.8
    )
    converted = convert_suite(make_suite(), [make_case(WHOLE, called)], "agentv", lossy=False)
    assert [(problem.level, problem.field) for problem in converted.problems] == [("error", "pass_rule")]


def test_only_graders_of_this_table_may_give_a_part() -> None:
    partly = {name for name in GRADERS._builtin if not GRADERS.get(name).all_or_nothing}
    assert partly == {
        *(
            "classification",
            "composite",
            "consistency",
            "execution_metrics",
            "field_accuracy",
            "forbidden_words",
            "json_keys",
        ),
        *("length", "llm_grader", "program", "required_words", "rubric", "rubrics", "semantic_similarity"),
        "tool_trajectory",
    }


@pytest.mark.parametrize(
    ("pattern", "narrow"),
    [
        (r"^\w+\b5", r"^[A-Za-z0-9_]+(?a:\b)5"),
        (r"[\d.]\D\\d", r"[0-9.][^0-9]\\d"),
        (r"(?P<a>\B\W)(?a:\b)", r"(?P<a>(?a:\B)[^A-Za-z0-9_])(?a:\b)"),
    ],
)
def test_a_pattern_that_knows_all_of_unicode_is_told_to_know_less(pattern: str, narrow: str) -> None:
    original = make_case(Assertion(grader="regex", params={"pattern": pattern}))
    restated_suite, (restated_case,), problems = restate(make_suite(1.0), [original], "agentv")
    assert (restated_suite, restated_case.assertions[0].params) == (make_suite(1.0), {"pattern": narrow})
    assert [(problem.level, problem.code, problem.field) for problem in problems] == [
        ("warning", RESTATED_CODE, "assertions[0].params.pattern")
    ]
    assert restate(restated_suite, [restated_case], "agentv")[2] == []
    assert restate(make_suite(1.0), [original], "proctor")[1] == [original]
    assert not convert_suite(make_suite(1.0), [original], "agentv", lossy=False).has_errors


def test_a_rule_for_judgments_that_is_left_to_the_run_is_the_mean_in_markdown() -> None:
    original = make_case(Assertion(grader="instructions"), criteria="It greets.")
    header = replace(make_suite(), defaults=SuiteDefaults(reuse=True))
    restated_suite, restated_cases, problems = restate(
        header, [original, replace(original, id="b")], "ai_tester"
    )
    assert (restated_suite, [case.assertions[0].params for case in restated_cases]) == (
        header,
        [{"rule": "mean"}] * 2,
    )
    (problem,) = problems
    assert (problem.level, problem.code, problem.field) == ("warning", RESTATED_CODE, "assertions")
    assert problem.message == (
        "Suite 'tides': format ai_tester aggregates several judgments by their mean, but in this suite "
        "the run decides. With one judgment per answer, the result is the same."
    )
    assert restate(restated_suite, restated_cases, "ai_tester")[2] == []
    assert not convert_suite(header, [original], "ai_tester", lossy=False).has_errors
    assert restate(header, [original], "pramana")[1] == [original]
    restated_suite, _, problems = restate(replace(header, pass_rule=SCORE), [original], "ai_tester")
    assert (restated_suite.pass_rule, [problem.field for problem in problems]) == (
        ALL,
        ["pass_rule", "assertions"],
    )
