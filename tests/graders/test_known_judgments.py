"""Judgments of the same answer that are there already: what they stand in for, and what they do not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from proctor.codec import assertion_digest
from proctor.graders import GRADERS
from proctor.graders.composite import Composite, CompositeMember, WeightedAverage
from proctor.graders.judged.yes_no import LlmJudge
from proctor.grading import GradingContext, grade
from proctor.model import Assertion, Case, GraderResult, Message, Output, Verdict
from proctor.protocols import GradingInput, JudgeTarget
from support.judges import SteadyJudge

CASE = Case(id="rivers-1", input=(Message(role="user", content="Which river is longest?"),))
YES_NO = LlmJudge(prompt="Does it name a river?")


async def asked_often(*replies: str) -> tuple[GraderResult, SteadyJudge]:
    graded, judge = asked_again(None, *replies, repeats=len(replies))
    return await YES_NO.grade(graded), judge


def asked_again(
    earlier: GraderResult | None, *replies: str, repeats: int = 1
) -> tuple[GradingInput, SteadyJudge]:
    judge = SteadyJudge(*replies)
    graded = GradingInput(
        case=CASE,
        output=Output(text="The Nile."),
        judges=(JudgeTarget(name="judge-0", target=judge),),
        judge_repeats=repeats,
        prior_judgments=earlier.judgments if earlier else (),
    )
    return graded, judge


@pytest.mark.parametrize(
    "said", [("YES",), ("NO\nIt is a lake.", "YES", "NO"), ("YES", "perhaps", "YES\nIt is.")]
)
async def test_what_is_known_is_not_asked_again_and_makes_the_same_mark(said: tuple[str, ...]) -> None:
    first, _ = await asked_often(*said)
    readable = [one for one in said if one != "perhaps"]
    graded, judge = asked_again(first, repeats=len(readable))
    again = await YES_NO.grade(graded)
    assert judge.prompts == []
    assert (again.value, again.passed) == (first.value, first.passed)
    assert [(one.raw, one.nth, one.cached) for one in again.judgments] == [
        (raw, nth, True) for nth, raw in enumerate(readable)
    ]
    if len(readable) == len(said):
        assert (again.reason, again.details) == (first.reason, first.details)


async def test_only_what_is_not_known_is_asked_with_the_next_repeats() -> None:
    first, _ = await asked_often("YES")
    graded, judge = asked_again(first, "never", "NO", "YES", repeats=3)
    mark = await YES_NO.grade(graded)
    assert [prompt.repeat for prompt in judge.prompts] == [1, 2]
    assert [(one.raw, one.nth) for one in mark.judgments] == [("YES", 0), ("NO", 1), ("YES", 2)]
    fresh, _ = await asked_often("YES", "NO", "YES")
    assert (mark.passed, mark.value, mark.reason, mark.details) == (
        fresh.passed,
        fresh.value,
        fresh.reason,
        fresh.details,
    )


async def test_more_is_known_than_is_asked_and_the_first_count() -> None:
    first, _ = await asked_often("NO", "YES", "YES")
    graded, judge = asked_again(first)
    mark = await YES_NO.grade(graded)
    assert (mark.passed, judge.prompts, len(mark.judgments)) == (False, [], 1)


@pytest.mark.parametrize(
    "other",
    [
        {"judge": "judge-1"},
        {"evaluator": "strict"},
        {"prompt_digest": "sha256:0"},
        {"raw": "perhaps", "passed": None, "value": None},
    ],
)
async def test_what_another_said_or_nobody_can_read_is_not_taken(other: dict[str, Any]) -> None:
    first, _ = await asked_often("NO")
    known = tuple(replace(one, **other) for one in first.judgments)
    graded, judge = asked_again(replace(first, judgments=known), "YES")
    mark = await YES_NO.grade(graded)
    assert (len(judge.prompts), mark.passed, len(mark.judgments)) == (1, True, 1)


async def test_a_known_judgment_is_read_anew_by_the_threshold_of_now() -> None:
    def case(pass_at: float) -> Case:
        return Case(id="c", input=(), assertions=(Assertion(grader="llm_grader", pass_at=pass_at),))

    judges = (JudgeTarget(name="j", target=SteadyJudge('{"score": 0.6}')),)
    (strict,) = await grade(case(0.9), Output(text="x"), GRADERS.get, GradingContext(judges=judges))
    known = {assertion_digest(case(0.5).assertions[0]): strict.judgments}
    (mild,) = await grade(
        case(0.5), Output(text="x"), GRADERS.get, GradingContext(judges=judges, prior_judgments=known)
    )
    assert (strict.outcome, mild.outcome) == (Verdict.FAIL, Verdict.PASS)
    assert [(one.passed, one.cached) for one in mild.judgments] == [(True, True)]


async def test_the_members_of_a_composite_ask_anew_as_two_of_them_may_share_a_question() -> None:
    ask = Assertion(grader="llm_judge", params={"prompt": "Does it name a river?"})
    both = Composite(
        members=(CompositeMember(name="a", assertion=ask), CompositeMember(name="b", assertion=ask)),
        aggregator=WeightedAverage(),
    )
    judge = SteadyJudge("YES")
    graded = GradingInput(
        case=CASE, output=Output(text="x"), judges=(JudgeTarget(name="judge-0", target=judge),)
    )
    first = await both.grade(graded)
    again = await both.grade(replace(graded, prior_judgments=first.judgments))
    assert (len(judge.prompts), again) == (4, first)
