"""How many of several judgments must be for an answer: the majority, all of them, any, or their mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.errors import CannotScore, TargetError
from proctor.graders import GRADERS
from proctor.graders.judged.rubric import RubricGrader
from proctor.graders.judged.rubrics import RubricItem, Rubrics
from proctor.graders.judged.score import LlmGrader
from proctor.graders.judged.voting import JudgeReading, PanelRule, Vote, VoteCount, decide
from proctor.graders.judged.yes_no import LlmJudge
from proctor.grading import GradingContext, grade
from proctor.model import Assertion, Case, JudgeRule, Output, Score, Verdict
from proctor.stats import reaches
from support.judging import CASE, ScriptedJudge, SteadyJudge, judge_answer, make_judges

YES_NO = LlmJudge(prompt="Does it name a river?")
RULES: tuple[JudgeRule, ...] = ("majority", "all", "any")


# --- the rule ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdicts", "majority", "all_", "any_"),
    [
        ("Y", True, True, True),
        ("N", False, False, False),
        ("?", None, None, None),
        ("YY", True, True, True),
        ("YN", None, False, True),
        ("NN", False, False, False),
        ("Y?", None, None, True),
        ("N?", None, False, None),
        ("YYN", True, False, True),
        ("YNN", False, False, True),
        ("YY?", True, None, True),
        ("NN?", False, False, None),
        ("YN?", None, False, True),
        ("???", None, None, None),
    ],
)
async def test_the_rule_decides_and_what_cannot_be_read_speaks_for_neither_side(
    verdicts: str, majority: bool | None, all_: bool | None, any_: bool | None
) -> None:
    replies = [{"Y": "YES", "N": "NO", "?": "perhaps"}[verdict] for verdict in verdicts]
    for rule, passed in zip(RULES, (majority, all_, any_), strict=True):
        call = judge_answer(YES_NO, SteadyJudge(*replies), judge_repeats=len(replies), judge_rule=rule)
        if passed is None:
            with pytest.raises(CannotScore):
                await call
            continue
        result = await call
        assert (result.passed, result.value) == (passed, float(passed)), rule
        if len(verdicts) > 1:
            counts = [result.details[name] for name in ("rule", "for", "against", "unread")]
            assert counts == [rule, *(verdicts.count(verdict) for verdict in "YN?")]


def vote(judge: str, value: float | None) -> Vote:
    clause = {1.0: "says YES", 0.0: "says NO"}.get(value or 0.0, f"gave {value}")
    reading = None if value is None else JudgeReading(value=value, passed=value >= 0.8, clause=clause)
    return Vote(judge=judge, reading=reading, problem="Hm." if value is None else "", judgments=())


@pytest.mark.parametrize(
    ("rule", "verdicts", "reason"),
    [
        ("majority", "YYN", "2 of 3 judges pass it (majority); 'j0' says YES."),
        ("all", "YYN", "1 of 3 judges fail it (all must pass it); 'j2' says NO."),
        ("any", "NNY", "1 of 3 judges pass it (one pass is enough); 'j2' says YES."),
        ("mean", "YY", "2 of 2 judges pass it (mean 1.00, agreement 100%); 'j0' says YES."),
        ("mean", "YN", "1 of 2 judges pass it (mean 0.50, agreement 50%); 'j1' says NO."),
        ("mean", "YYN", "2 of 3 judges pass it (mean 0.67, agreement 67%); 'j0' says YES."),
        ("mean", "NN?", "0 of 3 judges pass it (mean 0.00, agreement 67%); 'j0' says NO."),
        ("majority", "YN", "The 2 judges have no majority: 1 for, 1 against."),
        (
            "all",
            "Y?",
            "The 2 judges do not decide it (all must pass it): 1 for, 0 against, 1 without a verdict. Hm.",
        ),
        (
            "any",
            "N?",
            "The 2 judges do not decide it (one pass is enough): 0 for, 1 against, 1 without a verdict. Hm.",
        ),
    ],
)
def test_the_reason_says_by_which_rule_how_many_decided(rule: PanelRule, verdicts: str, reason: str) -> None:
    votes = [
        vote(f"j{nth}", {"Y": 1.0, "N": 0.0, "?": None}[verdict]) for nth, verdict in enumerate(verdicts)
    ]
    try:
        actual_reason = decide(votes, rule).reason
    except CannotScore as error:
        actual_reason = str(error)
    assert actual_reason == reason


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=7), st.sampled_from(RULES))
def test_it_is_decided_exactly_where_no_unread_judgment_could_change_it(
    verdicts: list[bool | None], rule: JudgeRule
) -> None:
    def decision(votes: Sequence[bool | None]) -> bool | None:
        counts = [votes.count(verdict) for verdict in (True, False, None)]
        return VoteCount(rule=rule, in_favour=counts[0], against=counts[1], unreadable=counts[2]).decision

    choices = [[verdict] if verdict is not None else [True, False] for verdict in verdicts]
    completed = {decision(votes) for votes in product(*choices)}
    assert decision(verdicts) == (completed.pop() if len(completed) == 1 else None)


@pytest.mark.parametrize(
    "panel", [[("YES",), ("hm", "hm", "hm")], [("YES",), ("NO",), (TargetError("Down."),)]]
)
async def test_judges_without_a_majority_leave_it_unscored(panel: list[tuple[str | Exception, ...]]) -> None:
    with pytest.raises(CannotScore, match="no majority") as caught:
        await judge_answer(YES_NO, *[ScriptedJudge(*replies) for replies in panel])
    assert caught.value.judgments


async def test_a_majority_stands_although_one_judge_is_down() -> None:
    panel = [ScriptedJudge("YES"), ScriptedJudge(TargetError("Down.")), ScriptedJudge("YES")]
    assert (await judge_answer(YES_NO, *panel)).passed


# --- values and thresholds ---------------------------------------------------------------------------------


@given(st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=9))
def test_a_panel_is_never_against_the_median_of_its_values(values: list[float | None]) -> None:
    votes = [vote("j", value) for value in values]
    in_favour = sum(value is not None and value >= 0.8 for value in values)
    against = sum(value is not None and value < 0.8 for value in values)
    if max(in_favour, against) * 2 <= len(values):
        with pytest.raises(CannotScore):
            decide(votes)
        return
    result = decide(votes)
    assert result.value is not None
    assert result.passed is (result.value >= 0.8) is (in_favour > against)
    assert result.details.get("agreement", 1.0) == round(max(in_favour, against) / len(values), 2)


@given(st.permutations([0.1, 0.5, 0.85, 0.9, 0.95]))
def test_the_order_of_judgments_changes_no_value_and_no_reason(values: list[float]) -> None:
    result = decide([vote("j", value) for value in values])
    assert (result.value, result.passed) == (0.85, True)
    assert result.reason == "3 of 5 judgments pass it (majority); 'j' gave 0.85."


@pytest.mark.parametrize(
    ("grader", "replies", "value", "score"),
    [
        (RubricGrader(rubric="r"), ["5", "2", "4"], 0.75, 4),
        (LlmGrader(), ['{"score": 0.2}', '{"score": 0.85}', '{"score": 0.95}'], 0.85, None),
    ],
)
async def test_several_numbers_give_their_median(
    grader: Any, replies: list[str], value: float, score: float | None
) -> None:
    result = await judge_answer(grader, *map(ScriptedJudge, replies))
    assert (result.value, result.passed, result.details.get("score")) == (value, True, score)
    assert (result.details["for"], result.details["against"]) == (2, 1)


async def test_the_evidence_is_that_of_the_judgment_nearest_to_the_value() -> None:
    replies = [
        json.dumps({"score": score, "assertions": [{"text": f"at {score}", "passed": True}]})
        for score in (0.2, 0.85, 0.9, 0.92, 0.95)
    ]
    result = await judge_answer(LlmGrader(), *map(ScriptedJudge, replies))
    assert [entry.text for entry in result.entries] == ["at 0.9"]


@given(
    st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=7),
    st.sampled_from(RULES),
    st.sampled_from([None, 0.3, 0.5, 1.0]),
)
async def test_the_value_passes_by_the_assertions_threshold_exactly_where_the_rule_does(
    values: list[float | None], rule: JudgeRule, pass_at: float | None
) -> None:
    replies = ["no number" if value is None else json.dumps({"score": value}) for value in values]
    case = Case(id="c", input=(), assertions=(Assertion(grader="llm_grader", pass_at=pass_at),))
    context = GradingContext(
        judges=make_judges(SteadyJudge(*replies)), judge_repeats=len(values), judge_rule=rule
    )
    (score,) = await grade(case, Output(text="x"), GRADERS.get, context)
    least = 0.8 if pass_at is None else pass_at
    in_favour = sum(value is not None and reaches(value, least) for value in values)
    unread = values.count(None)
    against = len(values) - in_favour - unread
    decision = VoteCount(rule=rule, in_favour=in_favour, against=against, unreadable=unread).decision
    expected = {True: Verdict.PASS, False: Verdict.FAIL, None: Verdict.UNSCORED}[decision]
    assert score.outcome is expected
    if score.value is not None:
        assert reaches(score.value, least) is decision


async def test_a_threshold_of_the_assertion_decides_each_judgment_of_a_rubric_too() -> None:
    check = Assertion(grader="rubric", params={"rubric": "r"}, pass_at=0.5)
    context = GradingContext(
        judges=make_judges(SteadyJudge("3", "1", "?")), judge_repeats=3, judge_rule="any"
    )
    case = Case(id="c", input=(), assertions=(check,))
    (score,) = await grade(case, Output(text="x"), GRADERS.get, context)
    assert (score.outcome, score.value, score.details["for"]) == (Verdict.PASS, 0.5, 1)
    assert [judgment.passed for judgment in score.judgments] == [True, False, None, None, None]


# --- the mean ----------------------------------------------------------------------------------------------


async def score_by_mean(verdicts: str, rule: JudgeRule = "majority", **assertion: Any) -> Score:
    """The score of judges with one verdict each: Y passes the answer, N fails it, ? cannot be read."""
    replies = {"Y": '{"pass": true}', "N": '{"pass": false}', "?": "Hm."}
    judges = make_judges(*[ScriptedJudge(replies[verdict]) for verdict in verdicts])
    check = Assertion(grader="instructions", **{"params": {"rule": "mean"}} | assertion)
    context = GradingContext(judges=judges, judge_rule=rule)
    (score,) = await grade(replace(CASE, assertions=(check,)), Output(text="The Nile."), GRADERS.get, context)
    return score


@pytest.mark.parametrize(
    ("verdicts", "fields", "outcome", "value"),
    [
        ("Y", {}, Verdict.PASS, 1.0),
        ("NN", {}, Verdict.FAIL, 0.0),
        ("YN", {}, Verdict.FAIL, 0.5),
        ("YYN", {}, Verdict.PASS, 2 / 3),
        ("YNN", {}, Verdict.FAIL, 1 / 3),
        ("NN?", {}, Verdict.FAIL, 0.0),
        # an unread judgment could turn it
        ("?", {}, Verdict.UNSCORED, None),
        ("Y?", {}, Verdict.UNSCORED, None),
        ("YN?", {}, Verdict.UNSCORED, None),
        # a threshold of the assertion holds for the mean
        ("YN", {"pass_at": 0.5}, Verdict.PASS, 0.5),
        ("YYN", {"pass_at": 0.8}, Verdict.FAIL, 2 / 3),
        # a rule that the run was given stands above it
        ("YN", {"rule": "all"}, Verdict.FAIL, 0.0),
        ("YN", {"rule": "any"}, Verdict.PASS, 1.0),
        # and without a rule of the assertion there is no majority
        ("YN", {"params": {}}, Verdict.UNSCORED, None),
    ],
)
async def test_judges_that_disagree_come_to_their_mean(
    verdicts: str, fields: dict[str, Any], outcome: Verdict, value: float | None
) -> None:
    score = await score_by_mean(verdicts, **fields)
    assert score.outcome is outcome
    assert score.value == (None if value is None else pytest.approx(value))


# --- gates -------------------------------------------------------------------------------------------------

ALL, SHORT, LOW, WITHOUT = "mab", "ma", "m", "ab"
"""The items that a judge finds met: `m` is required, `a` and `b` are not."""


@pytest.mark.parametrize(
    ("rule", "met", "passed", "value", "gate"),
    [
        ("all", (ALL, ALL, ALL), True, 1.0, None),
        ("all", (ALL, SHORT, ALL), False, 2 / 3, None),
        ("all", (ALL, ALL, WITHOUT), False, 2 / 3, 1.0),
        ("all", (WITHOUT, SHORT, ALL), False, 2 / 3, 1.0),
        ("any", (WITHOUT, WITHOUT, ALL), True, 1.0, None),
        ("any", (WITHOUT, SHORT, WITHOUT), False, 2 / 3, None),
        ("any", (WITHOUT, WITHOUT, WITHOUT), False, 2 / 3, 1.0),
        # by majority a panel is below the gate where it would not fail but for a required item
        ("majority", (WITHOUT, SHORT, ALL), False, 2 / 3, 1.0),
        ("majority", (WITHOUT, WITHOUT, SHORT, ALL, ALL), False, 2 / 3, 1.0),
        ("majority", (WITHOUT, SHORT), False, 2 / 3, 1.0),
        ("majority", (WITHOUT, SHORT, LOW), False, 1 / 3, None),
        ("majority", (WITHOUT, ALL, ALL), True, 1.0, None),
        ("majority", (WITHOUT, SHORT, ALL, ALL, ALL), True, 1.0, None),
    ],
)
async def test_a_gate_holds_by_the_rule_as_well(
    rule: JudgeRule, met: tuple[str, ...], passed: bool, value: float, gate: float | None
) -> None:
    must = RubricItem(id="m", outcome="Must", required=True)
    grader = Rubrics(items=(must, RubricItem(id="a", outcome="A"), RubricItem(id="b", outcome="B")))
    replies = [
        json.dumps({"checks": [{"id": name, "satisfied": name in item_names} for name in ALL]})
        for item_names in met
    ]
    result = await judge_answer(grader, SteadyJudge(*replies), judge_repeats=len(met), judge_rule=rule)
    assert (result.passed, result.gate) == (passed, gate)
    assert result.value == pytest.approx(value)
    assert result.entries[0].passed is (gate is None)
    assert result.details.get("failed_required") == (None if gate is None else ["m"])
