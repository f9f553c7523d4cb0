"""Checks of the reasoning in place of the answer: `on` of an assertion."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

import proctor
from proctor.codec import assertion_digest
from proctor.graders import GRADERS
from proctor.grading import GradingContext, build_grader, grade, grade_immediately, grade_repeats
from proctor.model import Assertion, Case, Message, Output, Prompt, Score, ToolCall, Verdict
from proctor.protocols import JudgeTarget
from proctor.reports.evidence import mark_evidence

OUTPUT = Output(text="It is 43.", reasoning="17 + 20 = 37, and 6 more.", tool_calls=(ToolCall(name="add"),))


def check(grader: str = "contains", on: Any = "reasoning", **params: Any) -> Assertion:
    return Assertion(grader=grader, params=params, on=on)


def score_assertion(assertion: Assertion, output: Output = OUTPUT) -> Score:
    (score,) = grade_immediately(Case(id="c", input=(), assertions=(assertion,)), output, GRADERS.get)
    return score


@pytest.mark.parametrize(
    ("assertion", "outcome"),
    [
        (check(value="37"), Verdict.PASS),
        (check(value="43"), Verdict.FAIL),
        (check(value="37", on="answer"), Verdict.FAIL),
        (check("regex", pattern="^17.*more"), Verdict.PASS),
        (check("length", max_words=3), Verdict.FAIL),
        (Assertion(grader="contains", params={"value": "43"}, on="reasoning", negated=True), Verdict.PASS),
    ],
)
def test_a_grader_of_texts_reads_the_reasoning_only_if_it_is_asked_to(
    assertion: Assertion, outcome: Verdict
) -> None:
    score = score_assertion(assertion)
    assert (score.outcome, score.on) == (outcome, assertion.on)
    assert ("On the reasoning: " in score.reason) is (assertion.on == "reasoning")


@pytest.mark.parametrize("reasoning", [None, ""])
def test_an_answer_without_reasoning_is_unscored(reasoning: str | None) -> None:
    score = score_assertion(check(value="37"), Output(text="37", reasoning=reasoning))
    assert (score.outcome, score.value) == (Verdict.UNSCORED, None)
    assert score.reason.startswith("This check grades the reasoning")


@pytest.mark.parametrize("grader", ["latency", "tool_trajectory", "token_usage", "ttft"])
def test_a_grader_that_reads_no_text_refuses_it_before_any_request(grader: str) -> None:
    with pytest.raises(ValueError, match=f"'{grader}' does not read text, so it cannot grade the reasoning"):
        build_grader(check(grader), GRADERS.get)


async def test_a_judge_sees_the_reasoning_in_place_of_the_answer() -> None:
    prompts: list[str] = []

    class Judge:
        async def answer(self, prompt: Prompt) -> Output:
            prompts.append("\n".join(message.content for message in prompt.messages))
            return Output(text='{"verdict": "YES", "reason": "Sound."}')

    context = GradingContext(judges=(JudgeTarget(name="j", target=Judge()),))
    question = Message(role="user", content="17 + 26?")
    assertions = (check("llm_judge", prompt="Sound?"), check("llm_judge", on="answer", prompt="Sound?"))
    await grade(Case(id="c", input=(question,), assertions=assertions), OUTPUT, GRADERS.get, context)
    reasoning, answer = prompts
    assert ("37" in reasoning, "It is 43" in reasoning) == (True, False)
    assert ("37" in answer, "It is 43" in answer) == (False, True)


def test_a_composite_and_a_check_over_repeats_read_it_too() -> None:
    inner = {"grader": "contains", "params": {"value": "37"}, "on": "reasoning"}
    params = {
        "members": [{"name": "thought", "assertion": inner}],
        "aggregator": {"type": "threshold", "threshold": 1.0},
    }
    whole = Assertion(grader="composite", params=params)
    same = check("consistency", expected="17 + 20 = 37, and 6 more.")
    case = Case(id="c", input=(), assertions=(whole, same))
    scores_by_repeat = asyncio.run(grade_repeats(case, (OUTPUT, OUTPUT), GRADERS.get, GradingContext()))
    assert [score.on for score in scores_by_repeat[0]] == ["answer", "reasoning"]
    assert scores_by_repeat[0][0].outcome is Verdict.PASS
    missing = asyncio.run(grade_repeats(case, (OUTPUT, Output(text="x")), GRADERS.get, GradingContext()))
    assert missing[0][1].outcome is Verdict.UNSCORED


def test_a_function_gets_the_reasoning_as_the_answer() -> None:
    @proctor.grader
    def mentions(answer: str) -> bool:
        return "37" in answer

    def think(question: str) -> Output:
        return OUTPUT

    for on, verdict in (("answer", Verdict.FAIL), ("reasoning", Verdict.PASS)):
        check = replace(mentions.assertion(), on=on)
        case = Case(id="c", input=(Message(role="user", content="17 + 26?"),), assertions=(check,))
        run = proctor.run([case], target=think, store=None)
        assert [trial.verdict for trial in run.trials()] == [verdict]
    assert mentions.assertion(on="reasoning").on == "reasoning"


def test_on_is_in_digests_only_if_it_is_set() -> None:
    plain = Assertion(grader="contains", params={"value": "37"})
    assert assertion_digest(plain) == assertion_digest(check(value="37", on="answer"))
    assert assertion_digest(plain) != assertion_digest(check(value="37"))


def test_evidence_is_marked_in_the_text_that_was_graded() -> None:
    scores = [score_assertion(check(value="37")), score_assertion(check(value="43", on="answer"))]
    text = "37 and 43"
    assert [part.text for part in mark_evidence(text, scores) if part.outcome] == ["43"]
    assert [part.text for part in mark_evidence(text, scores, "reasoning") if part.outcome] == ["37"]
