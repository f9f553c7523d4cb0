"""Assertions and outputs to scores, with graders of a few lines that do what real ones may do."""

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
    """The mark that its parameters say."""

    value: float | None
    passed: bool | None
    gate: float | None = None

    def grade(self, graded: GradingInput) -> GraderResult:
        return GraderResult(
            value=self.value, passed=self.passed, gate=self.gate, reason=f"said {graded.output.text}"
        )


class Detailed(BaseGrader, frozen=True, forbid_unknown_fields=True):
    """A mark with everything in it."""

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
    """Cannot tell, and keeps what its judge said."""

    def grade(self, graded: GradingInput) -> GraderResult:
        raise CannotScore("The judge would not say.", (JUDGMENT,))


class Broken(BaseGrader, frozen=True, forbid_unknown_fields=True):
    """Breaks as foreign code does."""

    def grade(self, graded: GradingInput) -> GraderResult:
        raise ZeroDivisionError("no cases")


class Later(BaseGrader, frozen=True, forbid_unknown_fields=True):
    """Awaits its first judge, or breaks while waiting when there is none."""

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
    """Runs a program, which nobody else is needed for."""

    is_async: ClassVar[bool] = True

    async def grade(self, graded: GradingInput) -> GraderResult:
        return GraderResult(value=1.0, passed=True)


class Untold(BaseGrader, frozen=True, forbid_unknown_fields=True):
    """Awaits something without asking anybody, as one that runs a program would."""

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
    "untold": Untold,
}
GRADERS_HERE = KINDS.__getitem__


class Yes:
    """A judge that agrees."""

    async def answer(self, prompt: Prompt) -> Output:
        return Output(text="yes")


class Flat:
    """Something that embeds."""

    name = "flat"

    async def embed(self, texts: Any) -> list[list[float]]:
        return [[1.0] for _ in texts]


def flat() -> Embedder:
    return Flat()


HELP = GradingContext(judges=(JudgeTarget(name="y", target=Yes()),), embedder=flat)


def asking(*assertions: Assertion) -> Case:
    return Case(id="c", input=(Message(role="user", content="?"),), assertions=assertions)


def fixed(value: float | None, passed: bool | None, **fields: Any) -> Assertion:
    return Assertion(grader="fixed", params={"value": value, "passed": passed}, **fields)


def score_of(assertion: Assertion, text: str = "four") -> Score:
    (found,) = grade_immediately(asking(assertion), Output(text=text), GRADERS_HERE)
    return found


# --- from a mark to a score --------------------------------------------------------------------------------


def test_a_score_has_all_of_its_mark_and_of_its_assertion() -> None:
    assertion = Assertion(grader="detailed", weight=2.5, required=0.5, label="a quarter, please")
    assert score_of(assertion) == Score(
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
def test_an_outcome_is_what_the_mark_says_turned_round_if_negated(
    value: float | None, passed: bool | None, negated: bool, outcome: Verdict, scored: float | None
) -> None:
    found = score_of(fixed(value, passed, negated=negated))
    assert (found.outcome, found.value) == (outcome, scored)


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
    found = score_of(Assertion(grader="fixed", params=params, **fields))
    assert found.value == pytest.approx(value)
    assert (found.outcome, found.required) == (outcome, required)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5, 7.0])
def test_a_value_that_is_no_share_of_1_is_unscored(value: float) -> None:
    found = score_of(fixed(value, True))
    assert found.outcome is Verdict.UNSCORED
    assert found.value is None
    assert repr(value) in found.reason


# --- what goes wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("negated", [False, True])
def test_a_grader_that_cannot_tell_is_unscored_also_negated_and_keeps_its_judgments(negated: bool) -> None:
    found = score_of(Assertion(grader="unsure", negated=negated))
    assert (found.outcome, found.value) == (Verdict.UNSCORED, None)
    assert found.reason == "The judge would not say."
    assert found.judgments == (JUDGMENT,)


@pytest.mark.parametrize("negated", [False, True])
def test_a_grader_that_breaks_is_unscored_with_what_broke(negated: bool) -> None:
    found = score_of(Assertion(grader="broken", negated=negated))
    assert (found.name, found.outcome) == ("broken", Verdict.UNSCORED)
    assert found.reason == "The grader 'broken' failed with ZeroDivisionError: no cases"


@pytest.mark.parametrize(
    "assertion", [Assertion(grader="later"), Assertion(grader="fixed", params={"bogus": 1})]
)
async def test_a_grader_that_breaks_while_waiting_or_before_it_begins_is_unscored(
    assertion: Assertion,
) -> None:
    (found,) = await grade(asking(assertion), Output(text=""), GRADERS_HERE, GradingContext())
    assert found.outcome is Verdict.UNSCORED
    assert found.reason.startswith(f"The grader {assertion.grader!r} failed with ")


def test_one_grader_that_breaks_leaves_the_others_alone() -> None:
    case = asking(fixed(1.0, True), Assertion(grader="broken"), fixed(0.0, False))
    outcomes = [found.outcome for found in grade_immediately(case, Output(text=""), GRADERS_HERE)]
    assert outcomes == [Verdict.PASS, Verdict.UNSCORED, Verdict.FAIL]


# --- how a case is graded ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graders", "manner"),
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
    graders: list[str], manner: GradingMode
) -> None:
    case = asking(*[Assertion(grader=name) for name in graders])
    assert grading_mode(case, GRADERS_HERE) is manner


async def test_scores_stand_in_the_order_of_the_assertions_and_judges_are_asked() -> None:
    case = asking(Assertion(grader="later"), fixed(1.0, True), Assertion(grader="embedding"))
    found = await grade(case, Output(text="x"), GRADERS_HERE, HELP)
    assert [each.reason for each in found] == ["y: yes", "said x", "flat"]


async def test_grading_at_once_and_waiting_give_the_same_scores() -> None:
    case = asking(fixed(0.5, True), Assertion(grader="broken"), Assertion(grader="unsure", negated=True))
    output = Output(text="x")
    assert grade_immediately(case, output, GRADERS_HERE) == await grade(case, output, GRADERS_HERE, HELP)


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
def test_grading_at_once_leaves_no_assertion_out() -> None:
    case = asking(Assertion(grader="untold"), fixed(1.0, True))
    assert len(grade_immediately(case, Output(text="x"), GRADERS_HERE)) == 2


async def test_a_case_without_assertions_has_no_scores() -> None:
    assert grade_immediately(asking(), Output(text=""), GRADERS_HERE) == ()
    assert await grade(asking(), Output(text=""), GRADERS_HERE, HELP) == ()


# --- over repeats ------------------------------------------------------------------------------------------

SPREAD = asking(fixed(1.0, True), Assertion(grader="spread", weight=2.0))


async def test_every_repeat_gets_the_one_mark_over_all_and_its_own_others() -> None:
    outputs = [Output(text=text) for text in ("a", "b", "a")]
    found = await grade_repeats(SPREAD, outputs, GRADERS_HERE, HELP)
    assert [[each.reason for each in scores] for scores in found] == [
        ["said a", "a b a"],
        ["said b", "a b a"],
        ["said a", "a b a"],
    ]
    assert {scores[1].outcome for scores in found} == {Verdict.FAIL}
    assert {scores[1].weight for scores in found} == {2.0}


async def test_one_missing_output_is_enough_to_say_nothing_over_repeats() -> None:
    (_, shared), _ = await grade_repeats(SPREAD, [Output(text="a"), None], GRADERS_HERE, HELP)
    assert (shared.outcome, shared.reason) == (
        Verdict.UNSCORED,
        "1 of 2 outputs of the case are missing.",
    )


@pytest.mark.parametrize("negated", [False, True])
async def test_with_an_output_missing_nothing_is_said_over_repeats(negated: bool) -> None:
    case = asking(fixed(1.0, True), Assertion(grader="spread", negated=negated))
    outputs = [Output(text="a"), None, Output(text="a"), None]
    found = await grade_repeats(case, outputs, GRADERS_HERE, HELP)
    assert [len(scores) for scores in found] == [2, 0, 2, 0]
    for own, shared in (found[0], found[2]):
        assert own.outcome is Verdict.PASS
        assert shared.outcome is Verdict.UNSCORED
        assert shared.reason == "2 of 4 outputs of the case are missing."


async def test_with_every_output_missing_there_are_no_scores() -> None:
    assert await grade_repeats(SPREAD, [None, None], GRADERS_HERE, HELP) == [(), ()]


async def test_a_grader_that_breaks_over_repeats_is_unscored_in_each() -> None:
    kinds: dict[str, type[Any]] = KINDS | {"spread": Torn}
    found = await grade_repeats(SPREAD, [Output(text="a"), Output(text="b")], kinds.__getitem__, HELP)
    assert [scores[1].reason for scores in found] == [
        "The grader 'spread' failed with KeyError: 'nothing'"
    ] * 2


class Torn(Spread, frozen=True, forbid_unknown_fields=True):
    """Breaks over repeats."""

    def grade(self, graded: GradingInput) -> GraderResult:
        raise KeyError("nothing")


async def test_judges_and_the_embedder_are_there_over_repeats_too() -> None:
    case = asking(Assertion(grader="spread"), Assertion(grader="later"), Assertion(grader="embedding"))
    (found,) = await grade_repeats(case, [Output(text="a")], GRADERS_HERE, HELP)
    assert [each.reason for each in found] == ["a", "y: yes", "flat"]


async def test_one_score_is_what_grading_its_case_gives() -> None:
    assertion = fixed(0.25, False, negated=True)
    graded = GradingInput(case=asking(assertion), output=Output(text="x"))
    assert await score(assertion, graded, GRADERS_HERE) == score_of(assertion, "x")


# --- binding -----------------------------------------------------------------------------------------------


def test_binding_puts_the_parameters_in_place() -> None:
    assert build_grader(fixed(0.5, True), GRADERS_HERE) == Fixed(value=0.5, passed=True)


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
    ("value", "said", "pass_at", "negated", "outcome"),
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
    value: float | None, said: bool | None, pass_at: float | None, negated: bool, outcome: Verdict
) -> None:
    assert score_of(fixed(value, said, pass_at=pass_at, negated=negated)).outcome is outcome


def test_a_negated_score_says_so_and_turns_its_entries_round() -> None:
    found = score_of(Assertion(grader="detailed", negated=True))
    assert (found.value, found.outcome, found.reason) == (0.75, Verdict.PASS, "Negated: a quarter")
    assert found.entries == (Evidence(text="north", passed=False, evidence="N"),)


async def test_a_grader_sees_the_programs_and_the_workspace() -> None:
    help_ = GradingContext(workspace="/w", judge_repeats=3)
    graded = help_.input_for(asking(), Output(text="x"))
    assert (graded.workspace, graded.judge_repeats, graded.programs) == ("/w", 3, None)


# --- how much there is to read -----------------------------------------------------------------------------


def test_an_output_is_as_large_as_its_text_and_all_that_its_tool_calls_hold() -> None:
    call = ToolCall(name="f", arguments={"a": ["x" * 1000, "y" * 1000]}, output="z" * 3000)
    assert estimate_size(Output(text="four")) == 4
    assert 5004 < estimate_size(Output(text="four", tool_calls=(call,))) < 5400
