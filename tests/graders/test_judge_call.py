"""Judges that are asked: once, again for their form, as often as the run says, or not at all."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from proctor.codec import assertion_digest
from proctor.errors import CannotScore, TargetError
from proctor.graders import GRADERS
from proctor.graders.composite import Composite, CompositeMember, WeightedAverage
from proctor.graders.judged.instructions import Evaluator, Instructions
from proctor.graders.judged.judge_call import MAX_ANSWER_LENGTH, MAX_REPAIRS, MAX_REPLY_LENGTH, get_judges
from proctor.graders.judged.rubric import RubricGrader
from proctor.graders.judged.rubrics import RubricItem, Rubrics
from proctor.graders.judged.score import LlmGrader
from proctor.graders.judged.yes_no import LlmJudge
from proctor.grading import GradingContext, grade
from proctor.model import Assertion, Case, GraderResult, Output, Prompt, ToolCall, Usage, Verdict
from proctor.protocols import JudgeTarget
from support.grading import make_grader, make_input
from support.judging import CASE, ScriptedJudge, SteadyJudge, judge_answer, make_judges

YES_NO = LlmJudge(prompt="Does it name a river?")
SCALE = RubricGrader(rubric="Names the right river.")
ITEMS = Rubrics(items=(RubricItem(id="a", outcome="o"),))
STRICT = Evaluator(id="strict", system="Judge by {{ instructions }}.", user="{{ answer }}")
MILD = Evaluator(id="mild", system="Be mild.", user="To {{input}} it said {{answer}}.")
PASS = '{"pass": true, "feedback": ""}'


# --- one call ----------------------------------------------------------------------------------------------


async def test_a_verdict_becomes_a_result_with_its_judgment() -> None:
    result = await judge_answer(YES_NO, ScriptedJudge('{"verdict": "YES", "reason": "It names the Nile."}'))
    assert (result.passed, result.value, result.details) == (True, 1.0, {})
    assert result.reason == "The judge 'judge-0' said YES: It names the Nile."
    (judgment,) = result.judgments
    assert (judgment.judge, judgment.evaluator, judgment.nth) == ("judge-0", None, 0)
    assert (judgment.passed, judgment.value, judgment.feedback) == (True, 1.0, "It names the Nile.")
    assert (judgment.usage, judgment.cost_usd) == (Usage(input_tokens=7, output_tokens=2), 0.25)
    assert judgment.prompt_digest.startswith("sha256:")


async def test_what_a_judge_checked_is_its_evidence() -> None:
    reply = (
        '{"score": 0.75, "reasoning": "No end.", "assertions": [{"text": "names the idea", "passed": true, '
        '"evidence": "compare"}, {"text": "ends", "passed": false}]}'
    )
    result = await judge_answer(LlmGrader(), ScriptedJudge(reply))
    assert (result.value, result.passed) == (0.75, False)
    assert result.reason == "The judge 'judge-0' gave 0.75: No end."
    assert [(entry.text, entry.passed, entry.evidence) for entry in result.entries] == [
        ("names the idea", True, "compare"),
        ("ends", False, None),
    ]


async def test_a_rubric_keeps_its_score_and_scales_the_value() -> None:
    grader = RubricGrader(rubric="r", lowest=0, highest=10, min_score=7.5)
    result = await judge_answer(grader, ScriptedJudge('{"score": 8}'))
    assert (result.passed, result.value, result.details) == (True, 0.8, {"score": 8})


@pytest.mark.parametrize("grader", [YES_NO, SCALE, ITEMS, LlmGrader(), Instructions()])
@pytest.mark.parametrize("output", [Output(text=" \n"), Output(text="", file_changes=" ")])
async def test_an_empty_answer_fails_and_no_judge_is_asked(grader: Any, output: Output) -> None:
    judge = ScriptedJudge()
    result = await judge_answer(grader, judge, answer=output)
    assert (result.passed, result.value, judge.prompts) == (False, 0.0, [])


@pytest.mark.parametrize(
    "output", [Output(text="", file_changes="+ x"), Output(text="", tool_calls=(ToolCall(name="find"),))]
)
async def test_an_answer_without_text_may_have_done_something(output: Output) -> None:
    assert (await judge_answer(YES_NO, ScriptedJudge("YES"), answer=output)).passed


@pytest.mark.parametrize("criteria", [None, "", " \n"])
async def test_a_case_without_instructions_cannot_be_scored(criteria: str | None) -> None:
    with pytest.raises(CannotScore, match="no grading instructions"):
        await judge_answer(Instructions(), ScriptedJudge(), case=replace(CASE, criteria=criteria))


async def test_texts_beyond_the_limits_are_unscored() -> None:
    with pytest.raises(CannotScore, match="has 1,000,001 characters, but a judge can read at most 1,000,000"):
        await judge_answer(YES_NO, ScriptedJudge(), answer="a" * (MAX_ANSWER_LENGTH + 1))
    with pytest.raises(CannotScore, match="It has 1,000,003 characters, and only 1,000,000 are read"):
        await judge_answer(YES_NO, ScriptedJudge("YES" + " " * MAX_REPLY_LENGTH))


async def test_half_a_character_in_a_judges_reason_can_be_kept() -> None:
    result = await judge_answer(YES_NO, ScriptedJudge('{"verdict": "YES", "reason": "A \\ud800 river."}'))
    assert msgspec.json.encode(result)
    assert result.judgments[0].feedback == "A ? river."


async def test_without_a_judge_the_reason_says_how_to_give_one() -> None:
    with pytest.raises(CannotScore, match="--judge"):
        await judge_answer(YES_NO)


@pytest.mark.parametrize(("name", "expected"), [("own", ["own"]), ("gone", ["a", "b"]), (None, ["a", "b"])])
def test_a_named_judge_is_asked_where_there_is_one(name: str | None, expected: list[str]) -> None:
    own, a, b = (JudgeTarget(name=target_name, target=ScriptedJudge()) for target_name in ("own", "a", "b"))
    assert [
        judge.name for judge in get_judges(make_input(judges=(a, b), named_judges={"own": own}), name)
    ] == expected


@pytest.mark.parametrize(
    ("grader", "params", "reply"),
    [
        ("llm_grader", {}, '{"score": 1}'),
        ("instructions", {}, PASS),
        ("rubrics", {"items": [{"id": "a", "outcome": "o"}]}, '{"checks": [{"id": "a", "satisfied": true}]}'),
    ],
)
async def test_a_judge_of_its_own_is_asked_with_its_temperature(
    grader: str, params: dict[str, Any], reply: str
) -> None:
    own, other = ScriptedJudge(reply), ScriptedJudge(reply)
    named_judges = {"own": JudgeTarget(name="own", target=own)}
    check = make_grader(grader, {**params, "judge": "own", "temperature": 0.5})
    result = await judge_answer(check, other, named_judges=named_judges)
    assert (check.judges(), make_grader(grader, params).judges()) == (("own",), (None,))
    assert [judgment.judge for judgment in result.judgments] == ["own"]
    assert (other.prompts, own.prompts[0].temperature) == ([], 0.5)


# --- replies that cannot be read ---------------------------------------------------------------------------


async def test_an_unreadable_reply_is_repaired_with_the_reply_in_view() -> None:
    judge = ScriptedJudge("I think so", '{"verdict": "NO"}')
    result = await judge_answer(YES_NO, judge)
    assert result.passed is False
    assert [(judgment.nth, judgment.passed, judgment.raw) for judgment in result.judgments] == [
        (0, None, "I think so"),
        (1, False, '{"verdict": "NO"}'),
    ]
    second = judge.prompts[1].messages
    assert [message.role for message in second] == ["system", "user", "assistant", "user"]
    assert second[2].content == "I think so"
    assert "cannot be read" in second[3].content
    assert '"verdict"' in second[3].content
    assert [prompt.repeat for prompt in judge.prompts] == [0, 0]


@pytest.mark.parametrize(
    ("grader", "wrong", "right", "sentence"),
    [
        (LlmGrader(), '{"score": 8}', '{"score": 0.9}', "not a number from 0 to 1"),
        (SCALE, "9", "3", "cannot be read"),
        (
            Rubrics(items=(RubricItem(id="{x} %s", outcome="o"),)),
            '{"checks": []}',
            '{"checks": [{"id": "{x} %s", "satisfied": true}]}',
            "It leaves out the items '{x} %s'",
        ),
    ],
)
async def test_a_judge_is_told_what_was_wrong_and_mends_it(
    grader: Any, wrong: str, right: str, sentence: str
) -> None:
    judge = ScriptedJudge(wrong, right)
    result = await judge_answer(grader, judge)
    assert [judgment.passed is None for judgment in result.judgments] == [True, False]
    assert sentence in judge.prompts[1].messages[-1].content


@pytest.mark.parametrize("grader", [YES_NO, SCALE, LlmGrader(), ITEMS, Instructions(evaluators=(STRICT,))])
async def test_after_two_repairs_nothing_is_scored_and_every_reply_is_kept(grader: Any) -> None:
    judge = ScriptedJudge("hm", "", "well", "YES")
    with pytest.raises(CannotScore, match="no readable verdict in 3 replies") as caught:
        await judge_answer(grader, judge)
    assert len(judge.prompts) == 1 + MAX_REPAIRS
    evaluator = "strict" if isinstance(grader, Instructions) else None
    assert [
        (judgment.raw, judgment.evaluator, judgment.nth, judgment.passed, judgment.value)
        for judgment in caught.value.judgments
    ] == [(raw, evaluator, nth, None, None) for nth, raw in enumerate(("hm", "", "well"))]
    assert ("by 'strict' gave" in str(caught.value)) is bool(evaluator)


async def test_a_judge_that_does_not_answer_is_unscored_with_its_message() -> None:
    judge = ScriptedJudge("hm", TargetError("The endpoint is down."))
    with pytest.raises(CannotScore, match="The endpoint is down") as caught:
        await judge_answer(YES_NO, judge)
    assert [judgment.raw for judgment in caught.value.judgments] == ["hm"]


@pytest.mark.parametrize(
    ("replies", "passed"),
    [
        # thinking is kept and not read
        (["<think>\nNO? It names the Nile.\n</think>\n\nYES"], [True]),
        # nor is it believed where an answer may have ended it
        (['<think>It says "Wrong. </think>\nYES\n".</think>\nIt is wrong.', "NO"], [None, False]),
        (['YES\n{"verdict": "NO"}', "NO"], [None, False]),
    ],
)
async def test_only_a_judges_own_verdict_is_believed(
    replies: list[str | Exception], passed: list[bool | None]
) -> None:
    result = await judge_answer(YES_NO, ScriptedJudge(*replies))
    assert [(judgment.raw, judgment.passed) for judgment in result.judgments] == list(
        zip(replies, passed, strict=True)
    )


class CopyingJudge:
    """Answers with the example that the form shows."""

    def __init__(self) -> None:
        self.calls = 0

    async def answer(self, prompt: Prompt) -> Output:
        self.calls += 1
        example = re.search(r"in this form:.*?(\{.*\})", prompt.messages[-1].content, re.DOTALL)
        assert example is not None
        return Output(text=example[1])


@pytest.mark.parametrize(
    "grader", [YES_NO, SCALE, LlmGrader(), Instructions()], ids=lambda grader: type(grader).__name__
)
async def test_a_judge_that_copies_the_example_of_the_form_has_judged_nothing(grader: Any) -> None:
    judge = CopyingJudge()
    with pytest.raises(CannotScore, match="repeats the example"):
        await judge_answer(grader, judge)
    assert judge.calls == 1 + MAX_REPAIRS


# --- repeats, panels and prompts ---------------------------------------------------------------------------


async def test_a_judge_that_is_asked_often_decides_by_majority_and_says_how_far_it_agrees() -> None:
    judge = SteadyJudge("YES", "NO\nIt is a lake.", "YES\nIt is.", cached=True)
    result = await judge_answer(YES_NO, judge, judge_repeats=3)
    assert (result.passed, result.value) == (True, 1.0)
    counts = {"for": 2, "against": 1, "unread": 0, "judgments": 3}
    assert result.details == {"rule": "majority", "agreement": 0.67} | counts
    assert result.reason == "2 of 3 judgments pass it (majority); 'judge-0' said YES."
    assert [prompt.repeat for prompt in judge.prompts] == [0, 1, 2]
    assert [(judgment.nth, judgment.passed, judgment.cached) for judgment in result.judgments] == [
        (0, True, True),
        (1, False, True),
        (2, True, True),
    ]


async def test_a_panel_that_is_asked_often_is_one_vote_of_all() -> None:
    panel = [SteadyJudge("NO", "NO", "YES") for _ in range(2)]
    result = await judge_answer(YES_NO, *panel, judge_repeats=3)
    assert (result.details["for"], result.details["against"]) == (2, 4)
    assert result.reason.startswith("4 of 6 judgments fail it (majority); 'judge-0' said NO")
    assert [(judgment.judge, judgment.nth) for judgment in result.judgments] == [
        *(("judge-0", nth) for nth in range(3)),
        *(("judge-1", nth) for nth in range(3)),
    ]


async def test_an_unreadable_repeat_counts_for_neither_side_and_lowers_agreement() -> None:
    judge = SteadyJudge("NO", "perhaps", "NO")
    result = await judge_answer(YES_NO, judge, judge_repeats=3)
    assert (result.passed, result.details["agreement"]) == (False, 0.67)
    assert [prompt.repeat for prompt in judge.prompts] == [0, *[1] * (1 + MAX_REPAIRS), 2]


async def test_judges_are_awaited_with_the_gather_of_the_caller() -> None:
    waiting: list[int] = []

    async def at_once(judgments: Any) -> list[Any]:
        awaitables = list(judgments)
        waiting.append(len(awaitables))
        return [await awaitable for awaitable in awaitables]

    panel = [SteadyJudge("YES", "YES", "NO") for _ in range(2)]
    await judge_answer(YES_NO, *panel, judge_repeats=3, gather=at_once)
    assert waiting == [6]


class EvaluatedJudge:
    """Passes an answer by the repeats of its table for the prompt whose words it is shown."""

    def __init__(self, strict: str, mild: str) -> None:
        self.says = {"strict": strict, "mild": mild}
        self.calls: list[tuple[str, int]] = []

    async def answer(self, prompt: Prompt) -> Output:
        name = "mild" if prompt.messages[0].content.startswith("Be mild.") else "strict"
        self.calls.append((name, prompt.repeat))
        passed = self.says[name][prompt.repeat] == "Y"
        return Output(
            text=msgspec.json.encode({"pass": passed, "feedback": f"{name} {prompt.repeat}"}).decode()
        )


STRICT_AND_MILD = Instructions(evaluators=(STRICT, MILD))


def test_each_evaluator_is_a_call() -> None:
    assert STRICT_AND_MILD.judges() == (None, None)


async def test_every_judge_is_asked_by_every_prompt_as_often_as_the_run_says_and_all_is_kept_apart() -> None:
    panel = EvaluatedJudge("YN", "YY"), EvaluatedJudge("NY", "YY")
    result = await judge_answer(STRICT_AND_MILD, *panel, judge_repeats=2)
    assert [
        (judgment.judge, judgment.evaluator, judgment.nth, judgment.passed) for judgment in result.judgments
    ] == [
        ("judge-0", "strict", 0, True),
        ("judge-0", "strict", 1, False),
        ("judge-0", "mild", 0, True),
        ("judge-0", "mild", 1, True),
        ("judge-1", "strict", 0, False),
        ("judge-1", "strict", 1, True),
        ("judge-1", "mild", 0, True),
        ("judge-1", "mild", 1, True),
    ]
    assert len({judgment.prompt_digest for judgment in result.judgments}) == 2
    assert result.reason == "6 of 8 judgments pass it (majority); 'judge-0' by 'strict' says pass: strict 0"


async def test_a_prompt_with_another_text_has_another_digest_and_another_name_has_not() -> None:
    async def digest(evaluator: Evaluator, **fields: Any) -> str:
        result = await judge_answer(Instructions(evaluators=(evaluator,)), ScriptedJudge(PASS), **fields)
        return result.judgments[0].prompt_digest

    first = await digest(STRICT)
    assert await digest(replace(STRICT, id="other")) == first
    assert await digest(STRICT, answer="x", case=replace(CASE, criteria="y")) == first
    merged = Evaluator(id="strict", system=STRICT.system + STRICT.user)
    for other in (replace(STRICT, user="It: {{ answer }}"), replace(STRICT, system="Hm."), merged):
        assert await digest(other) != first


# --- judgments that are there already ----------------------------------------------------------------------


async def ask_again(
    earlier: GraderResult, *replies: str, repeats: int = 1
) -> tuple[GraderResult, SteadyJudge]:
    judge = SteadyJudge(*replies)
    result = await judge_answer(YES_NO, judge, judge_repeats=repeats, prior_judgments=earlier.judgments)
    return result, judge


async def ask_often(*replies: str) -> GraderResult:
    return await judge_answer(YES_NO, SteadyJudge(*replies), judge_repeats=len(replies))


@pytest.mark.parametrize(
    "replies", [("YES",), ("NO\nIt is a lake.", "YES", "NO"), ("YES", "perhaps", "YES\nIt is.")]
)
async def test_prior_judgments_are_not_asked_again_and_give_the_same_result(replies: tuple[str, ...]) -> None:
    first = await ask_often(*replies)
    readable = [reply for reply in replies if reply != "perhaps"]
    again, judge = await ask_again(first, repeats=len(readable))
    assert judge.prompts == []
    assert (again.value, again.passed) == (first.value, first.passed)
    assert [(judgment.raw, judgment.nth, judgment.cached) for judgment in again.judgments] == [
        (raw, nth, True) for nth, raw in enumerate(readable)
    ]
    if len(readable) == len(replies):
        assert (again.reason, again.details) == (first.reason, first.details)


async def test_only_missing_repeats_are_asked() -> None:
    result, judge = await ask_again(await ask_often("YES"), "never", "NO", "YES", repeats=3)
    assert [prompt.repeat for prompt in judge.prompts] == [1, 2]
    assert [(judgment.raw, judgment.nth) for judgment in result.judgments] == [
        ("YES", 0),
        ("NO", 1),
        ("YES", 2),
    ]
    fresh = await ask_often("YES", "NO", "YES")
    assert (result.value, result.reason, result.details) == (fresh.value, fresh.reason, fresh.details)


async def test_of_more_prior_judgments_than_repeats_the_first_count() -> None:
    result, judge = await ask_again(await ask_often("NO", "YES", "YES"))
    assert (result.passed, judge.prompts, len(result.judgments)) == (False, [], 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"judge": "judge-1"},
        {"evaluator": "strict"},
        {"prompt_digest": "sha256:0"},
        {"raw": "perhaps", "passed": None, "value": None},
    ],
)
async def test_unfitting_or_unreadable_prior_judgments_are_not_used(changes: dict[str, Any]) -> None:
    first = await ask_often("NO")
    judgments = tuple(replace(judgment, **changes) for judgment in first.judgments)
    result, judge = await ask_again(replace(first, judgments=judgments), "YES")
    assert (len(judge.prompts), result.passed, len(result.judgments)) == (1, True, 1)


async def test_of_several_prompts_only_those_that_are_new_are_asked() -> None:
    first = await judge_answer(STRICT_AND_MILD, EvaluatedJudge("Y", "Y"))
    prior: dict[str, Any] = {"prior_judgments": first.judgments}
    judge = EvaluatedJudge("?Y", "?Y")
    more = await judge_answer(STRICT_AND_MILD, judge, judge_repeats=2, **prior)
    assert judge.calls == [("strict", 1), ("mild", 1)]
    assert [(judgment.evaluator, judgment.nth, judgment.cached) for judgment in more.judgments] == [
        ("strict", 0, True),
        ("strict", 1, False),
        ("mild", 0, True),
        ("mild", 1, False),
    ]
    edited = Instructions(evaluators=(STRICT, replace(MILD, user="{{ answer }}, in short.")))
    judge = EvaluatedJudge("Y", "Y")
    await judge_answer(edited, judge, **prior)
    assert judge.calls == [("mild", 0)]


async def test_a_known_judgment_is_read_anew_by_the_threshold_of_now() -> None:
    def case(pass_at: float) -> Case:
        return Case(id="c", input=(), assertions=(Assertion(grader="llm_grader", pass_at=pass_at),))

    judges = make_judges(SteadyJudge('{"score": 0.6}'))
    (strict,) = await grade(case(0.9), Output(text="x"), GRADERS.get, GradingContext(judges=judges))
    prior_judgments = {assertion_digest(case(0.5).assertions[0]): strict.judgments}
    (mild,) = await grade(
        case(0.5),
        Output(text="x"),
        GRADERS.get,
        GradingContext(judges=judges, prior_judgments=prior_judgments),
    )
    assert (strict.outcome, mild.outcome) == (Verdict.FAIL, Verdict.PASS)
    assert [(judgment.passed, judgment.cached) for judgment in mild.judgments] == [(True, True)]


async def test_the_members_of_a_composite_ask_anew_as_two_of_them_may_share_a_question() -> None:
    ask = Assertion(grader="llm_judge", params={"prompt": "Does it name a river?"})
    composite = Composite(
        members=(CompositeMember(name="a", assertion=ask), CompositeMember(name="b", assertion=ask)),
        aggregator=WeightedAverage(),
    )
    judge = SteadyJudge("YES")
    first = await judge_answer(composite, judge)
    again = await judge_answer(composite, judge, prior_judgments=first.judgments)
    assert (len(judge.prompts), again) == (4, first)
