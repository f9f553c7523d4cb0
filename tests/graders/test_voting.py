"""How many of several judgments must be for an answer: the majority, all of them, or any."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import CannotScore
from proctor.graders import GRADERS
from proctor.graders.judged.rubrics import RubricItem, Rubrics
from proctor.graders.judged.voting import JudgeReading, Vote, VoteCount, decide
from proctor.graders.judged.yes_no import LlmJudge
from proctor.grading import GradingContext, grade
from proctor.model import Assertion, Case, JudgeRule, Message, Output, Verdict
from proctor.protocols import GradingInput, JudgeTarget
from proctor.stats import reaches
from support.judges import SteadyJudge

CASE = Case(id="rivers-1", input=(Message(role="user", content="Which river is longest?"),))
YES_NO = LlmJudge(prompt="Does it name a river?")


RULES: tuple[JudgeRule, ...] = ("majority", "all", "any")


@pytest.mark.parametrize(
    ("said", "majority", "all_", "any_"),
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
    said: str, majority: bool | None, all_: bool | None, any_: bool | None
) -> None:
    replies = [{"Y": "YES", "N": "NO", "?": "perhaps"}[each] for each in said]
    for rule, passed in zip(RULES, (majority, all_, any_), strict=True):
        graded = GradingInput(
            case=CASE,
            output=Output(text="The Nile."),
            judges=(JudgeTarget(name="j", target=SteadyJudge(*replies)),),
            judge_repeats=len(replies),
            judge_rule=rule,
        )
        if passed is None:
            with pytest.raises(CannotScore):
                await YES_NO.grade(graded)
            continue
        mark = await YES_NO.grade(graded)
        assert (mark.passed, mark.value) == (passed, float(passed)), rule
        if len(said) > 1:
            counts = [mark.details[name] for name in ("rule", "for", "against", "unread")]
            assert counts == [rule, *(said.count(each) for each in "YN?")]


@pytest.mark.parametrize(
    ("rule", "said", "reason"),
    [
        ("majority", "YYN", "2 of 3 judges pass it (majority); 'j0' says YES."),
        ("all", "YYN", "1 of 3 judges fail it (all must pass it); 'j2' says NO."),
        ("any", "NNY", "1 of 3 judges pass it (one pass is enough); 'j2' says YES."),
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
def test_the_reason_says_by_which_rule_how_many_decided(rule: JudgeRule, said: str, reason: str) -> None:
    opinions = [
        Vote(
            judge=f"j{place}",
            reading=None
            if each == "?"
            else JudgeReading(
                value=float(each == "Y"), passed=each == "Y", clause={"Y": "says YES", "N": "says NO"}[each]
            ),
            problem="Hm." if each == "?" else "",
            judgments=(),
        )
        for place, each in enumerate(said)
    ]
    try:
        told = decide(opinions, rule).reason
    except CannotScore as error:
        told = str(error)
    assert told == reason


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=7), st.sampled_from(RULES))
def test_it_is_decided_exactly_where_no_unread_judgment_could_change_it(
    said: list[bool | None], rule: JudgeRule
) -> None:
    def decision(votes: Sequence[bool | None]) -> bool | None:
        counts = [votes.count(each) for each in (True, False, None)]
        return VoteCount(rule=rule, in_favour=counts[0], against=counts[1], unreadable=counts[2]).decision

    choices = [[each] if each is not None else [True, False] for each in said]
    completed = {decision(votes) for votes in product(*choices)}
    assert decision(said) == (completed.pop() if len(completed) == 1 else None)


@given(
    st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=7),
    st.sampled_from(RULES),
    st.sampled_from([None, 0.3, 0.5, 1.0]),
)
async def test_the_value_passes_by_the_assertions_threshold_exactly_where_the_rule_does(
    values: list[float | None], rule: JudgeRule, pass_at: float | None
) -> None:
    replies = ["no number" if value is None else json.dumps({"score": value}) for value in values]
    judges = (JudgeTarget(name="j", target=SteadyJudge(*replies)),)
    case = Case(id="c", input=(), assertions=(Assertion(grader="llm_grader", pass_at=pass_at),))
    help_ = GradingContext(judges=judges, judge_repeats=len(values), judge_rule=rule)
    (score,) = await grade(case, Output(text="x"), GRADERS.get, help_)
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
    case = Case(
        id="c", input=(), assertions=(Assertion(grader="rubric", params={"rubric": "r"}, pass_at=0.5),)
    )
    help_ = GradingContext(
        judges=(JudgeTarget(name="j", target=SteadyJudge("3", "1", "?")),), judge_repeats=3, judge_rule="any"
    )
    (score,) = await grade(case, Output(text="x"), GRADERS.get, help_)
    assert (score.outcome, score.value, score.details["for"]) == (Verdict.PASS, 0.5, 1)
    assert [one.passed for one in score.judgments] == [True, False, None, None, None]


# --- gates -------------------------------------------------------------------------------------------------

ALL, SHORT, WITHOUT = "mab", "ma", "ab"
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
    ],
)
async def test_a_gate_holds_by_the_rule_as_well(
    rule: JudgeRule, met: tuple[str, ...], passed: bool, value: float, gate: float | None
) -> None:
    must = RubricItem(id="m", outcome="Must", required=True)
    grader = Rubrics(items=(must, RubricItem(id="a", outcome="A"), RubricItem(id="b", outcome="B")))
    replies = [
        json.dumps({"checks": [{"id": name, "satisfied": name in said} for name in ALL]}) for said in met
    ]
    graded = GradingInput(
        case=CASE,
        output=Output(text="x"),
        judges=(JudgeTarget(name="j", target=SteadyJudge(*replies)),),
        judge_repeats=len(met),
        judge_rule=rule,
    )
    mark = await grader.grade(graded)
    assert (mark.passed, mark.gate) == (passed, gate)
    assert mark.value == pytest.approx(value)
    assert mark.entries[0].passed is (gate is None)
