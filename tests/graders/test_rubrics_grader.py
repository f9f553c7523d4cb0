from __future__ import annotations

import json
from typing import Any

import pytest

from proctor.graders import GRADERS
from proctor.graders.judged.rubrics import RubricItem, Rubrics, ScoreRange, format_items
from proctor.grading import GradingContext, grade
from proctor.model import Assertion, Case, GraderResult, Output, PassRule, Score, Verdict
from proctor.verdicts import decide_verdict, failed_gates
from support.builders import make_trial
from support.judging import ScriptedJudge, judge_answer, make_judges

TWO = Rubrics(
    items=(
        RubricItem(id="finds", outcome="Finds the firm", weight=5),
        RubricItem(id="why", outcome="Says why", weight=3),
    )
)
RANGES = (
    ScoreRange(low=0, high=4, outcome="weak"),
    ScoreRange(low=5, high=7, outcome="fair"),
    ScoreRange(low=8, high=10, outcome="strong"),
)
SCORED = Rubrics(
    items=(RubricItem(id="depth", score_ranges=RANGES, weight=3), RubricItem(id="tone", outcome="Is kind")),
)


def reply(**checks: bool | int) -> str:
    return json.dumps(
        {
            "checks": [
                {
                    "id": name,
                    "satisfied" if isinstance(decision, bool) else "score": decision,
                    "reasoning": f"{name}!",
                }
                for name, decision in checks.items()
            ],
            "overall_reasoning": "All in all.",
        }
    )


async def judge_items(grader: Rubrics, *replies: str) -> GraderResult:
    return await judge_answer(grader, ScriptedJudge(*replies))


async def grade_items(
    params: dict[str, Any], reply_text: str, *others: Assertion, **fields: Any
) -> tuple[Score, ...]:
    """The scores of an assertion with items that a judge decides, and of others beside it."""
    check = Assertion(grader="rubrics", params=params, label="list", **fields)
    case = Case(id="c", input=(), assertions=(check, *others))
    context = GradingContext(judges=make_judges(ScriptedJudge(reply_text)))
    return await grade(case, Output(text="x"), GRADERS.get, context)


async def test_the_value_is_the_share_of_the_weights_and_each_item_an_entry() -> None:
    mark = await judge_items(TWO, reply(finds=True, why=False))
    assert (mark.value, mark.passed) == (0.625, False)
    assert [(entry.text, entry.passed, entry.evidence) for entry in mark.entries] == [
        ("[finds] Finds the firm", True, "finds!"),
        ("[why] Says why", False, "why!"),
    ]
    assert mark.reason == "The judge 'judge-0' finds 1 of 2 items met: All in all."
    assert mark.details == {}
    assert [(judgment.value, judgment.passed) for judgment in mark.judgments] == [(0.625, False)]


async def test_scored_items_count_by_tenths_and_say_what_their_score_means() -> None:
    mark = await judge_items(SCORED, reply(depth=8, tone=6))
    assert mark.value == pytest.approx((3 * 0.8 + 0.6) / 4)
    assert [(entry.text, entry.passed) for entry in mark.entries] == [
        ("[depth]: 8/10 (strong)", True),
        ("[tone] Is kind: 6/10", False),
    ]
    assert mark.details == {"raw_scores": {"depth": 8, "tone": 6}}
    items_text = "- [depth]\n    0 to 4: weak\n    5 to 7: fair\n    8 to 10: strong\n- [tone] Is kind"
    assert format_items(SCORED.items) == items_text
    assert mark.reason.startswith("The judge 'judge-0' scores the items 0.75")


async def test_an_item_that_is_met_unless_contradicted_says_so() -> None:
    item = RubricItem(id="up", outcome="Sales rose", operator="contradiction")
    mark = await judge_items(Rubrics(items=(item,)), reply(up=True))
    assert mark.entries[0].text == "[up] (unless contradicted) Sales rose"


@pytest.mark.parametrize(
    ("item", "decision", "failed"),
    [
        ({"required": True}, False, True),
        ({"required": True}, True, False),
        ({"required": True, "weight": 0}, False, True),
        ({"min_score": 0.5}, False, True),
        ({}, False, False),
        ({"required": True, "score_ranges": RANGES}, 9, True),
        ({"required": True, "score_ranges": RANGES}, 10, False),
        ({"min_score": 0.6, "score_ranges": RANGES}, 5, True),
        ({"min_score": 0.6, "score_ranges": RANGES}, 6, False),
        ({"required": True, "min_score": 0.6, "score_ranges": RANGES}, 6, False),
        ({"score_ranges": RANGES}, 0, False),
    ],
)
async def test_a_required_item_that_is_not_met_fails_whatever_the_rest_says(
    item: dict[str, Any], decision: bool | int, failed: bool
) -> None:
    other_item = RubricItem(id="rest", outcome="Everything else", weight=99)
    grader = Rubrics(items=(RubricItem(**{"id": "must", "outcome": "Must", **item}), other_item))
    met: bool | int = 10 if grader.has_scores else True
    mark = await judge_items(grader, reply(must=decision, rest=met))
    assert mark.passed is not failed
    if failed:
        share = mark.details["raw_score"]
        assert share >= 0.98
        assert (mark.value, mark.gate) == (share if share < 1 else 0.0, 1.0)
        assert mark.details["failed_required"] == ["must"]
        assert "not the required 'must'" in mark.reason
        assert mark.entries[0].passed is False
    else:
        assert mark.value is not None
        assert mark.value > 0.9
        assert "failed_required" not in mark.details


async def test_no_threshold_of_the_assertion_lets_a_failed_required_item_pass() -> None:
    params = {
        "items": [
            {"id": "must", "outcome": "Must", "required": True},
            {"id": "may", "outcome": "May", "weight": 9},
        ]
    }
    (score,) = await grade_items(params, reply(must=False, may=True), pass_at=0.1)
    assert (score.outcome, score.value, score.required) == (Verdict.FAIL, 0.9, 1.0)
    assert [(judgment.passed, judgment.value) for judgment in score.judgments] == [(False, 0.9)]


@pytest.mark.parametrize("item", [{}, {"required": True}, {"min_score": 0.5}])
async def test_the_value_is_the_share_of_what_is_met_whether_or_not_the_rest_is_required(
    item: dict[str, Any],
) -> None:
    items = [{"id": name, "outcome": name} for name in "abcd"] + [{"id": "e", "outcome": "e", **item}]
    reply_text = reply(a=True, b=True, c=True, d=True, e=False)
    (score,) = await grade_items({"items": items}, reply_text, pass_at=0.8)
    trial = make_trial("x", score)
    assert score.value == 0.8
    assert failed_gates(trial) == (["list"] if item else [])
    assert decide_verdict(trial, PassRule(threshold=0.8)) is (Verdict.FAIL if item else Verdict.PASS)


@pytest.mark.parametrize("met", [True, False])
async def test_a_negated_list_passes_where_a_required_item_is_not_met(met: bool) -> None:
    items = [
        {"id": "must", "outcome": "Must", "required": True},
        {"id": "may", "outcome": "May", "weight": 9},
    ]
    (score,) = await grade_items({"items": items}, reply(must=met, may=True), pass_at=0.8, negated=True)
    assert (score.outcome, score.value, score.required) == (
        (Verdict.FAIL, 0.0, None) if met else (Verdict.PASS, 1.0, None)
    )


@pytest.mark.parametrize(("met", "verdict"), [(False, Verdict.FAIL), (True, Verdict.PASS)])
async def test_a_required_item_that_is_not_met_fails_its_trial_however_little_it_weighs(
    met: bool, verdict: Verdict
) -> None:
    items = [{"id": "must", "outcome": "Must", "required": True}]
    words = Assertion(grader="contains", params={"value": "x"}, weight=99)
    scores = await grade_items({"items": items}, reply(must=met), words, pass_at=0.8)
    trial = make_trial("x", *scores)
    assert decide_verdict(trial, PassRule(threshold=0.8)) is verdict
    assert failed_gates(trial) == ([] if met else ["list"])
