"""Assertions and outputs to scores, with small graders that behave as real ones may."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, ClassVar

import pytest

from proctor.codec import assertion_digest
from proctor.errors import CannotScore, UnknownName
from proctor.graders import GRADERS
from proctor.grading import (
    GradingContext,
    GradingMode,
    build_grader,
    estimate_size,
    grade,
    grade_immediately,
    grade_repeats,
    grading_mode,
    score,
)
from proctor.model import (
    Assertion,
    Case,
    Evidence,
    GraderResult,
    Judgment,
    Message,
    Output,
    Prompt,
    Score,
    ToolCall,
    Verdict,
)
from proctor.protocols import BaseGrader, Embedder, GradingInput, JudgeTarget

JUDGMENT = Judgment(judge="j", prompt_digest="sha256:0", raw="maybe")


class Fixed(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Returns the result that its parameters name."""

    value: float | None
    passed: bool | None
    gate: float | None = None

    def grade(self, graded: GradingInput) -> GraderResult:
        return GraderResult(
            value=self.value, passed=self.passed, gate=self.gate, reason=f"said {graded.output.text}"
        )


class Detailed(BaseGrader, frozen=True, forbid_unknown_fields=True):
    """Returns a result with every field set."""

    def grade(self, graded: GradingInput) -> GraderResult:
        return GraderResult(
            value=0.25,
            passed=False,
            reason="a quarter",
            entries=(Evidence(text="north", passed=True, evidence="N"),),
            judgments=(JUDGMENT,),
            details={"found": [1, 2]},
        )


class Unsure(BaseGrader, frozen=True, forbid_unknown_fields=True):
    """Cannot score, and keeps what its judge replied."""

    def grade(self, graded: GradingInput) -> GraderResult:
        raise CannotScore("The judge would not say.", (JUDGMENT,))


class Broken(BaseGrader, frozen=True, forbid_unknown_fields=True):
    """Raises an exception, as foreign code may."""

    def grade(self, graded: GradingInput) -> GraderResult:
        raise ZeroDivisionError("no cases")


class Later(BaseGrader, frozen=True, forbid_unknown_fields=True):
    """Awaits its first judge, and raises an exception if there is none."""

    needs: ClassVar[str | None] = "judge"

    async def grade(self, graded: GradingInput) -> GraderResult:
        if not graded.judges:
            raise LookupError("nobody to ask")
        reply = await graded.judges[0].target.answer(Prompt(messages=()))
        return GraderResult(value=1.0, passed=True, reason=f"{graded.judges[0].name}: {reply.text}")


class Embedding(BaseGrader, frozen=True, forbid_unknown_fields=True):
    """Asks the embedder for its name."""

    needs: ClassVar[str | None] = "embedder"

    def grade(self, graded: GradingInput) -> GraderResult:
        return GraderResult(
            value=1.0, passed=True, reason=graded.embedder().name if graded.embedder else "none"
        )


class Spread(BaseGrader, frozen=True, forbid_unknown_fields=True):
    """Looks at all outputs of a case."""

    grades_repeats: ClassVar[bool] = True

    def grade(self, graded: GradingInput) -> GraderResult:
        texts = [output.text for output in graded.outputs]
        return GraderResult(value=1.0, passed=len(set(texts)) == 1, reason=" ".join(texts))


class Running(BaseGrader, frozen=True, forbid_unknown_fields=True):
    """Is asynchronous, but needs no judge, as a grader that runs a program."""

    is_async: ClassVar[bool] = True

    async def grade(self, graded: GradingInput) -> GraderResult:
        return GraderResult(value=1.0, passed=True)


class Undeclared(BaseGrader, frozen=True, forbid_unknown_fields=True):
    """Returns an awaitable without declaring that it does."""

    def grade(self, graded: GradingInput) -> Awaitable[GraderResult]:
        async def mark() -> GraderResult:
            return GraderResult(value=1.0, passed=True)

        return mark()


KINDS: dict[str, type[Any]] = {
    "fixed": Fixed,
    "detailed": Detailed,
    "unsure": Unsure,
    "broken": Broken,
    "later": Later,
    "embedding": Embedding,
    "spread": Spread,
    "running": Running,
    "undeclared": Undeclared,
}
find_grader = KINDS.__getitem__


class Yes:
    """A judge that agrees."""

    async def answer(self, prompt: Prompt) -> Output:
        return Output(text="yes")


class Flat:
    """An embedder that gives every text the same vector."""

    name = "flat"

    async def embed(self, texts: Any) -> list[list[float]]:
        return [[1.0] for _ in texts]


def flat() -> Embedder:
    return Flat()


CONTEXT = GradingContext(judges=(JudgeTarget(name="y", target=Yes()),), embedder=flat)


def make_case(*assertions: Assertion) -> Case:
    return Case(id="c", input=(Message(role="user", content="?"),), assertions=assertions)


def fixed(value: float | None, passed: bool | None, **fields: Any) -> Assertion:
    return Assertion(grader="fixed", params={"value": value, "passed": passed}, **fields)


def score_assertion(assertion: Assertion, text: str = "four") -> Score:
    (result,) = grade_immediately(make_case(assertion), Output(text=text), find_grader)
    return result


# --- from a mark to a score --------------------------------------------------------------------------------


def test_a_score_has_all_of_its_mark_and_of_its_assertion() -> None:
    assertion = Assertion(grader="detailed", weight=2.5, required=0.5, label="a quarter, please")
    assert score_assertion(assertion) == Score(
        grader="detailed",
        name="a quarter, please",
        assertion=assertion_digest(assertion),
        value=0.25,
        outcome=Verdict.FAIL,
        weight=2.5,
        required=0.5,
        reason="a quarter",
        entries=(Evidence(text="north", passed=True, evidence="N"),),
        judgments=(JUDGMENT,),
        details={"found": [1, 2]},
    )


@pytest.mark.parametrize(
    ("value", "passed", "negated", "outcome", "scored"),
    [
        (1.0, True, False, Verdict.PASS, 1.0),
        (0.0, False, False, Verdict.FAIL, 0.0),
        (0.3, True, False, Verdict.PASS, 0.3),
        (0.9, False, False, Verdict.FAIL, 0.9),
        (1.0, True, True, Verdict.FAIL, 0.0),
        (0.0, False, True, Verdict.PASS, 1.0),
        (0.25, False, True, Verdict.PASS, 0.75),
        (None, None, False, Verdict.UNSCORED, None),
        (None, None, True, Verdict.UNSCORED, None),
        (None, True, False, Verdict.UNSCORED, None),
        (None, False, True, Verdict.UNSCORED, None),
        (0.8, None, False, Verdict.UNSCORED, None),
        (0.8, None, True, Verdict.UNSCORED, None),
    ],
)
def test_negation_inverts_the_outcome_and_the_value(
    value: float | None, passed: bool | None, negated: bool, outcome: Verdict, scored: float | None
) -> None:
    result = score_assertion(fixed(value, passed, negated=negated))
    assert (result.outcome, result.value) == (outcome, scored)


@pytest.mark.parametrize(
    ("gate", "fields", "outcome", "value", "required"),
    [
        (0.8, {}, Verdict.PASS, 0.6, 0.8),
        (0.8, {"required": 0.9}, Verdict.PASS, 0.6, 0.9),
        (0.8, {"required": 0.3}, Verdict.PASS, 0.6, 0.8),
        (0.8, {"pass_at": 0.5}, Verdict.FAIL, 0.6, 0.8),
        (0.6, {"pass_at": 0.5}, Verdict.PASS, 0.6, 0.6),
        (None, {"pass_at": 0.7}, Verdict.FAIL, 0.6, None),
        (0.8, {"negated": True}, Verdict.FAIL, 1.0, None),
        (0.6, {"negated": True}, Verdict.FAIL, 0.4, None),
    ],
)
def test_a_graders_own_gate_counts_beside_the_assertions_and_is_gone_when_negated(
    gate: float | None, fields: dict[str, Any], outcome: Verdict, value: float, required: float | None
) -> None:
    params = {"value": 0.6, "passed": True, "gate": gate}
    result = score_assertion(Assertion(grader="fixed", params=params, **fields))
    assert result.value == pytest.approx(value)
    assert (result.outcome, result.required) == (outcome, required)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5, 7.0])
def test_a_value_that_is_no_share_of_1_is_unscored(value: float) -> None:
    result = score_assertion(fixed(value, True))
    assert result.outcome is Verdict.UNSCORED
    assert result.value is None
    assert repr(value) in result.reason


# --- what goes wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("negated", [False, True])
def test_a_grader_that_cannot_tell_is_unscored_also_negated_and_keeps_its_judgments(negated: bool) -> None:
    result = score_assertion(Assertion(grader="unsure", negated=negated))
    assert (result.outcome, result.value) == (Verdict.UNSCORED, None)
    assert result.reason == "The judge would not say."
    assert result.judgments == (JUDGMENT,)


@pytest.mark.parametrize("negated", [False, True])
def test_a_grader_that_breaks_is_unscored_with_what_broke(negated: bool) -> None:
    result = score_assertion(Assertion(grader="broken", negated=negated))
    assert (result.name, result.outcome) == ("broken", Verdict.UNSCORED)
    assert result.reason == "The grader 'broken' failed with ZeroDivisionError: no cases"


@pytest.mark.parametrize(
    "assertion", [Assertion(grader="later"), Assertion(grader="fixed", params={"bogus": 1})]
)
async def test_a_grader_that_breaks_while_waiting_or_before_it_begins_is_unscored(
    assertion: Assertion,
) -> None:
    (result,) = await grade(make_case(assertion), Output(text=""), find_grader, GradingContext())
    assert result.outcome is Verdict.UNSCORED
    assert result.reason.startswith(f"The grader {assertion.grader!r} failed with ")


def test_one_grader_that_breaks_leaves_the_others_alone() -> None:
    case = make_case(fixed(1.0, True), Assertion(grader="broken"), fixed(0.0, False))
    outcomes = [result.outcome for result in grade_immediately(case, Output(text=""), find_grader)]
    assert outcomes == [Verdict.PASS, Verdict.UNSCORED, Verdict.FAIL]


# --- how a case is graded ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graders", "mode"),
    [
        ([], GradingMode.IMMEDIATE),
        (["detailed", "unsure"], GradingMode.IMMEDIATE),
        (["detailed", "later"], GradingMode.ASYNC),
        (["embedding"], GradingMode.ASYNC),
        (["running", "detailed"], GradingMode.ASYNC),
        (["spread"], GradingMode.ACROSS_REPEATS),
        (["later", "spread", "detailed"], GradingMode.ACROSS_REPEATS),
        (["spread", "later"], GradingMode.ACROSS_REPEATS),
    ],
)
def test_a_case_is_graded_at_once_unless_a_grader_asks_or_wants_all_outputs(
    graders: list[str], mode: GradingMode
) -> None:
    case = make_case(*[Assertion(grader=name) for name in graders])
    assert grading_mode(case, find_grader) is mode


async def test_scores_stand_in_the_order_of_the_assertions_and_judges_are_asked() -> None:
    case = make_case(Assertion(grader="later"), fixed(1.0, True), Assertion(grader="embedding"))
    results = await grade(case, Output(text="x"), find_grader, CONTEXT)
    assert [result.reason for result in results] == ["y: yes", "said x", "flat"]


async def test_grading_at_once_and_waiting_give_the_same_scores() -> None:
    case = make_case(fixed(0.5, True), Assertion(grader="broken"), Assertion(grader="unsure", negated=True))
    output = Output(text="x")
    assert grade_immediately(case, output, find_grader) == await grade(case, output, find_grader, CONTEXT)


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
def test_grading_at_once_leaves_no_assertion_out() -> None:
    case = make_case(Assertion(grader="undeclared"), fixed(1.0, True))
    assert len(grade_immediately(case, Output(text="x"), find_grader)) == 2


async def test_a_case_without_assertions_has_no_scores() -> None:
    assert grade_immediately(make_case(), Output(text=""), find_grader) == ()
    assert await grade(make_case(), Output(text=""), find_grader, CONTEXT) == ()


# --- over repeats ------------------------------------------------------------------------------------------

SPREAD = make_case(fixed(1.0, True), Assertion(grader="spread", weight=2.0))


async def test_every_repeat_gets_the_one_mark_over_all_and_its_own_others() -> None:
    outputs = [Output(text=text) for text in ("a", "b", "a")]
    scores_by_repeat = await grade_repeats(SPREAD, outputs, find_grader, CONTEXT)
    assert [[result.reason for result in scores] for scores in scores_by_repeat] == [
        ["said a", "a b a"],
        ["said b", "a b a"],
        ["said a", "a b a"],
    ]
    assert {scores[1].outcome for scores in scores_by_repeat} == {Verdict.FAIL}
    assert {scores[1].weight for scores in scores_by_repeat} == {2.0}


async def test_one_missing_output_is_enough_to_say_nothing_over_repeats() -> None:
    (_, shared), _ = await grade_repeats(SPREAD, [Output(text="a"), None], find_grader, CONTEXT)
    assert (shared.outcome, shared.reason) == (
        Verdict.UNSCORED,
        "1 of 2 outputs of the case are missing.",
    )


@pytest.mark.parametrize("negated", [False, True])
async def test_with_an_output_missing_nothing_is_said_over_repeats(negated: bool) -> None:
    case = make_case(fixed(1.0, True), Assertion(grader="spread", negated=negated))
    outputs = [Output(text="a"), None, Output(text="a"), None]
    scores_by_repeat = await grade_repeats(case, outputs, find_grader, CONTEXT)
    assert [len(scores) for scores in scores_by_repeat] == [2, 0, 2, 0]
    for own, shared in (scores_by_repeat[0], scores_by_repeat[2]):
        assert own.outcome is Verdict.PASS
        assert shared.outcome is Verdict.UNSCORED
        assert shared.reason == "2 of 4 outputs of the case are missing."


async def test_with_every_output_missing_there_are_no_scores() -> None:
    assert await grade_repeats(SPREAD, [None, None], find_grader, CONTEXT) == [(), ()]


async def test_a_grader_that_breaks_over_repeats_is_unscored_in_each() -> None:
    kinds: dict[str, type[Any]] = KINDS | {"spread": Torn}
    scores_by_repeat = await grade_repeats(
        SPREAD, [Output(text="a"), Output(text="b")], kinds.__getitem__, CONTEXT
    )
    assert [scores[1].reason for scores in scores_by_repeat] == [
        "The grader 'spread' failed with KeyError: 'nothing'"
    ] * 2


class Torn(Spread, frozen=True, forbid_unknown_fields=True):
    """Raises an exception when it grades repeats."""

    def grade(self, graded: GradingInput) -> GraderResult:
        raise KeyError("nothing")


async def test_judges_and_the_embedder_are_there_over_repeats_too() -> None:
    case = make_case(Assertion(grader="spread"), Assertion(grader="later"), Assertion(grader="embedding"))
    (results,) = await grade_repeats(case, [Output(text="a")], find_grader, CONTEXT)
    assert [result.reason for result in results] == ["a", "y: yes", "flat"]


async def test_one_score_is_what_grading_its_case_gives() -> None:
    assertion = fixed(0.25, False, negated=True)
    graded = GradingInput(case=make_case(assertion), output=Output(text="x"))
    assert await score(assertion, graded, find_grader) == score_assertion(assertion, "x")


# --- binding -----------------------------------------------------------------------------------------------


def test_binding_puts_the_parameters_in_place() -> None:
    assert build_grader(fixed(0.5, True), find_grader) == Fixed(value=0.5, passed=True)


@pytest.mark.parametrize(
    ("grader", "params", "parts"),
    [
        ("contains", {}, ["`value`"]),
        ("contains", {"value": 3}, ["value: ", "`str`", "`int`"]),
        ("contains", {"value": "x", "folding": True}, ["'folding'", "value"]),
        ("required_words", {"words": ["a", 3]}, ["words[1]: ", "`str`", "`int`"]),
        ("required_words", {"words": "a"}, ["words: "]),
        ("length", {"min_words": -1}, ["`min_words`", "-1"]),
        ("length", {}, ["`max_words`"]),
        ("regex", {"pattern": "("}, ["'('"]),
        ("json_schema", {"schema": {"type": "nope"}}, ["$.type", "'nope'"]),
    ],
)
def test_a_wrong_parameter_is_a_sentence_that_names_it(
    grader: str, params: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(ValueError, match=r"[.?]$") as raised:
        build_grader(Assertion(grader=grader, params=params), GRADERS.get)
    message = str(raised.value)
    assert all(part in message for part in parts)
    assert " - at " not in message


def test_an_unknown_grader_is_named_with_the_nearest_ones() -> None:
    with pytest.raises(UnknownName, match=r"Unknown grader 'contain'\. Did you mean 'contains'"):
        build_grader(Assertion(grader="contain"), GRADERS.get)


# --- pass marks and negation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "passed", "pass_at", "negated", "outcome"),
    [
        (0.79, True, 0.8, False, Verdict.FAIL),
        (0.8, False, 0.8, False, Verdict.PASS),
        (0.1 + 0.7, False, 0.8, False, Verdict.PASS),
        (0.5, False, 0.4, False, Verdict.PASS),
        (0.5, False, 0.8, True, Verdict.PASS),
        (0.9, True, 0.8, True, Verdict.FAIL),
        (0.5, True, None, False, Verdict.PASS),
        (None, None, 0.8, False, Verdict.UNSCORED),
        (None, None, 0.8, True, Verdict.UNSCORED),
    ],
)
def test_a_pass_mark_decides_before_the_negation(
    value: float | None, passed: bool | None, pass_at: float | None, negated: bool, outcome: Verdict
) -> None:
    assert score_assertion(fixed(value, passed, pass_at=pass_at, negated=negated)).outcome is outcome


def test_a_negated_score_says_so_and_turns_its_entries_round() -> None:
    result = score_assertion(Assertion(grader="detailed", negated=True))
    assert (result.value, result.outcome, result.reason) == (0.75, Verdict.PASS, "Negated: a quarter")
    assert result.entries == (Evidence(text="north", passed=False, evidence="N"),)


async def test_a_grader_sees_the_programs_and_the_workspace() -> None:
    context = GradingContext(workspace="/w", judge_repeats=3)
    graded = context.input_for(make_case(), Output(text="x"))
    assert (graded.workspace, graded.judge_repeats, graded.programs) == ("/w", 3, None)


# --- how much there is to read -----------------------------------------------------------------------------


def test_an_output_is_as_large_as_its_text_and_all_that_its_tool_calls_hold() -> None:
    call = ToolCall(name="f", arguments={"a": ["x" * 1000, "y" * 1000]}, output="z" * 3000)
    assert estimate_size(Output(text="four")) == 4
    assert 5004 < estimate_size(Output(text="four", tool_calls=(call,))) < 5400
