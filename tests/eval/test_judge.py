"""Judges: their prompts, how their replies are read, and which objects can judge."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from proctor.eval import (
    BUILTIN_RUBRICS,
    RUBRIC_CORRECTNESS,
    RUBRIC_OFFICE_ACTION_ARGUMENT,
    RUBRIC_PATENT_CLAIM_VALIDITY,
    RUBRIC_RELEVANCE,
    Judge,
    JudgeError,
    JudgeResult,
    office_action_argument,
    patent_claim_validity,
)
from proctor.eval.judge.rubrics import RubricText
from proctor.model import Output, Prompt
from support.waiting import PATIENCE_S

FINE = '{"score": 1, "rationale": "As it should be."}'


class Client:
    """A client in the seed's shape; it repeats its last reply."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies or (FINE,))
        self.requests: list[list[dict[str, str]]] = []
        self.options: list[dict[str, Any]] = []

    def chat(self, messages: list[dict[str, str]], **options: Any) -> Any:
        self.requests.append(messages)
        self.options.append(options)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return {"choices": [{"message": {"content": reply}}]}


# --- what is asked -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "user"),
    [
        ({"prediction": "9 m"}, "Predicted answer: 9 m\n\nGrade:"),
        (
            {"prediction": "9 m", "question": "How deep?", "reference": "9 metres", "context": "A\n\nB"},
            (
                "Question: How deep?\nReference answer: 9 metres\nContext passages:\n\nA\n\nB\n"
                "Predicted answer: 9 m\n\nGrade:"
            ),
        ),
        (
            {"prediction": "", "reference": "", "context": None},
            "Reference answer: \nPredicted answer: \n\nGrade:",
        ),
    ],
)
def test_what_a_judge_is_asked(fields: dict[str, str], user: str) -> None:
    client = Client()
    result = Judge(client, "Be fair.", max_tokens=50, temperature=0.5).grade(**fields)
    assert result == JudgeResult(1.0, "As it should be.", FINE)
    assert client.requests == [[{"role": "system", "content": "Be fair."}, {"role": "user", "content": user}]]
    assert client.options == [{"max_tokens": 50, "temperature": 0.5}]


def test_the_usual_judge_grades_correctness_in_160_tokens_at_temperature_0() -> None:
    judge = Judge(Client())
    assert (judge.rubric, judge.max_tokens, judge.temperature) == (RUBRIC_CORRECTNESS, 160, 0.0)


@pytest.mark.parametrize("kind", BUILTIN_RUBRICS)
def test_a_built_in_rubric_by_name(kind: str) -> None:
    judge = Judge.builtin(Client(), kind, max_tokens=9)
    assert (judge.rubric, judge.max_tokens) == (BUILTIN_RUBRICS[kind], 9)


def test_a_rubric_that_is_not_built_in() -> None:
    with pytest.raises(
        ValueError, match=r"no built-in rubric 'style'\. The rubrics are: correctness, faithfulness, rel"
    ):
        Judge.builtin(Client(), "style")


# --- grading -----------------------------------------------------------------------------------------------


def test_content_in_parts_is_read_as_one_text() -> None:
    parts = [{"type": "text", "text": "score"}, {"type": "image"}, {"type": "text", "text": ": 3"}]
    assert Judge(Client(parts)).grade(prediction="x") == JudgeResult(3.0, "score: 3", "score: 3")
    assert Judge(Client(None)).grade(prediction="x") == JudgeResult(None, "", "")


def test_what_has_no_score_is_kept() -> None:
    judge = Judge(Client("Hm.", '{"score": 9, "rationale": "Beyond words."}', '{"score": 3}'))
    scores = [judge.grade(prediction=text).score for text in "abc"]
    assert scores == [None, None, 3]
    assert [result.raw for result in judge.unscored] == ["Hm.", '{"score": 9, "rationale": "Beyond words."}']
    assert judge.counts() == {"scored": 1, "unscored": 2, "failed": 0}


@pytest.mark.parametrize(
    ("rubric", "reply", "score"),
    [
        *((rubric, '{"score": 1, "rationale": "R"}', None) for rubric in BUILTIN_RUBRICS.values()),
        (RUBRIC_PATENT_CLAIM_VALIDITY, '```json\n{"score": 0.5, "rationale": " R"}\n```', None),
        (RUBRIC_OFFICE_ACTION_ARGUMENT, '{"score": 0.5, "rationale": "R"}', None),
        ('Reply {"score": 0-5, "rationale": "<why>"}', '{"score": 3, "rationale": "<why>"}', None),
        ('Reply {"score": 0-5, "rationale": "<why>"}', '{"score": 3, "rationale": "Late."}', 3),
        ('Such as {"score": 4, "rationale": "Late."}', '{"score": 3, "rationale": "Late."}', 3),
    ],
)
def test_the_form_given_back_is_no_verdict(rubric: str, reply: str, score: float | None) -> None:
    judge = Judge(Client(reply), rubric)
    result = judge.grade(prediction="x")
    assert (result.score, result.raw, len(judge.unscored)) == (score, reply, score is None)


def test_the_range_is_the_rubrics_unless_the_judge_has_its_own() -> None:
    assert Judge(Client(), RUBRIC_RELEVANCE).score_range == (0, 1)
    assert Judge(Client(), RUBRIC_RELEVANCE, scale=(0, 10)).score_range == (0, 10)
    assert Judge(Client(), "Be fair.").score_range is None
    assert Judge(Client("score: 11"), "Be fair.", scale=(0, 10)).grade(prediction="x").score is None
    judge = Judge(Client("score: 11"), RUBRIC_RELEVANCE)
    judge.rubric = "Be fair."
    assert judge.grade(prediction="x").score == 11
    with pytest.raises(ValueError, match="Pass the lowest and the highest score"):
        Judge(Client(), scale=(5, 0))


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (None, "not a chat completion: choices.0..message.content is not in None"),
        ({}, r"is not in {} \(KeyError\)"),
        ({"choices": []}, r"\(IndexError\)"),
        ({"choices": [{"message": {}}]}, r"\(KeyError\)"),
        ("text", r"\(TypeError\)"),
        ({"choices": [{"message": {"content": 4}}]}, "content of the judge's reply is not a text: 4"),
    ],
)
def test_a_reply_that_is_no_completion_is_an_error(reply: Any, complaint: str) -> None:
    class Odd:
        def chat(self, messages: Any, **_: Any) -> Any:
            return reply

    judge = Judge(Odd())
    with pytest.raises(JudgeError, match=complaint):
        judge.grade(prediction="x")
    assert judge.counts() == {"scored": 0, "unscored": 0, "failed": 1}


def test_whatever_the_client_raises_is_an_error_of_the_judge() -> None:
    cause = ConnectionError("the line is dead")
    with pytest.raises(
        JudgeError, match=r"The call to the judge failed: ConnectionError: the line is dead"
    ) as caught:
        Judge(Client(cause)).grade(prediction="x")
    assert caught.value.__cause__ is cause


# --- many answers ------------------------------------------------------------------------------------------


def test_many_answers_in_their_order_with_what_is_missing() -> None:
    judge = Judge(Client("score: 5", "Hm.", OSError("gone"), "score: 2"))
    graded = judge.grade_all([{"id": "a", "prediction": "x", "question": "q"}, *[{"prediction": "y"}] * 3])
    assert [(answer.id, answer.score) for answer in graded.answers] == [
        ("a", 5),
        ("2", None),
        ("3", None),
        ("4", 2),
    ]
    assert graded.answers[2].error == "The call to the judge failed: OSError: gone"
    assert graded.scores() == [5, None, None, 2]
    statistics = graded.statistics()
    assert {name: statistics[name] for name in ("n", "scored", "unscored", "failed", "mean")} == {
        "n": 4,
        "scored": 2,
        "unscored": 1,
        "failed": 1,
        "mean": 3.5,
    }
    assert statistics["ci95"][0] == pytest.approx(3.5 - 12.7062 * 1.5, rel=1e-4)
    assert graded.chart().spec["title"] == "Scores of 2 of 4 answers; 2 without"
    assert [row["label"] for row in graded.chart().spec["data"]["values"]] == ["a", "4"]


def test_a_fault_that_is_not_the_clients_is_raised() -> None:
    class Broken(Judge):
        def grade(self, **_: Any) -> JudgeResult:
            raise RuntimeError("no such model")

    with pytest.raises(RuntimeError, match="no such model"):
        Broken(Client()).grade_all([{"prediction": "x"}])


def test_workers_ask_at_the_same_time() -> None:
    together = Barrier(4, timeout=PATIENCE_S)

    class Slow(Client):
        def chat(self, messages: list[dict[str, str]], **_: Any) -> Any:
            together.wait()
            return {"choices": [{"message": {"content": f"score: {messages[1]['content'][18]}"}}]}

    judge = Judge(Slow())
    rows = [{"prediction": str(number % 5)} for number in range(8)]
    assert judge.grade_all(rows, workers=4).scores() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert judge.counts()["scored"] == 8


def test_an_answer_that_is_graded_again_has_a_bar_of_its_own() -> None:
    graded = Judge(Client("score: 5", "score: 4")).grade_all([{"id": "a", "prediction": "x"}] * 2)
    values = graded.chart().spec["data"]["values"]
    assert [(row["label"], row["value"]) for row in values] == [("a", 5), ("a (2)", 4)]


def test_many_answers_are_drawn_as_counts() -> None:
    graded = Judge(Client("score: 5", "score: 2")).grade_all([{"prediction": "x"}] * 40)
    values = graded.chart().spec["data"]["values"]
    assert [(row["label"], row["value"]) for row in values] == [("5", 1), ("2", 39)]
    with pytest.raises(ValueError, match="nothing to draw"):
        Judge(Client("Hm.")).grade_all([{"prediction": "x"}]).chart()


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (
            {"prediction": "x", "refrence": "y"},
            "Answer 2 has 'refrence'. Use `id` and any of prediction, quest",
        ),
        ({"question": "x"}, "Answer 2 has no prediction"),
        ({"prediction": None}, "Answer 2 has no prediction"),
    ],
)
def test_answers_are_checked_before_anybody_is_asked(row: dict[str, str], complaint: str) -> None:
    client = Client()
    with pytest.raises(ValueError, match=complaint):
        Judge(client).grade_all([{"prediction": "x"}, row])
    assert client.requests == []


# --- who may judge -----------------------------------------------------------------------------------------


OBJECT = '{"score": 4, "rationale": "Nearly."}'


class Answering:
    """A target of Proctor that a user wrote."""

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []

    async def answer(self, prompt: Prompt) -> Output:
        self.prompts.append(prompt)
        return Output(text=OBJECT)

    async def aclose(self) -> None:
        raise AssertionError("it belongs to whoever made it")


def test_a_target_of_proctor_judges() -> None:
    target = Answering()
    with Judge(target, temperature=0.25) as judge:
        assert judge.grade(prediction="x").score == 4
    (prompt,) = target.prompts
    assert [message.role for message in prompt.messages] == ["system", "user"]
    assert (prompt.messages[0].content, prompt.temperature) == (RUBRIC_CORRECTNESS, 0.25)
    assert prompt.response_schema is not None
    assert set(prompt.response_schema["properties"]) == {"score", "rationale"}


def test_a_judge_may_think_aloud() -> None:
    target = Answering()
    with Judge(target, json_reply=False) as judge:
        judge.grade(prediction="x")
    assert target.prompts[0].response_schema is None


def test_a_name_of_a_target_judges(tmp_path: Path) -> None:
    script = tmp_path / "judge.jsonl"
    script.write_text(
        '{"*Predicted answer: nine metres*": "{\\"score\\": 5}"}\n{"*": ["Score: 1", "Score: 2"]}\n',
        encoding="utf-8",
    )
    with Judge.builtin(f"scripted:{script}", "correctness") as judge:
        assert judge.grade(prediction="nine metres", question="How deep?").score == 5
        assert [judge.grade(prediction="a mile").score for _ in range(3)] == [1, 2, 1]
    with pytest.raises(JudgeError, match="The call to the judge failed: The client is closed"):
        judge.grade(prediction="x")


@pytest.mark.parametrize("client", [None, 4, object(), {"chat": print}])
def test_what_cannot_judge(client: Any) -> None:
    with pytest.raises(TypeError, match="A judge cannot call a value of type"):
        Judge(client)


# --- the scorers -------------------------------------------------------------------------------------------

SCORERS = [
    (patent_claim_validity, RUBRIC_PATENT_CLAIM_VALIDITY),
    (office_action_argument, RUBRIC_OFFICE_ACTION_ARGUMENT),
]


@pytest.mark.parametrize(("scorer", "rubric"), SCORERS)
def test_a_scorer_gives_the_score_and_0_for_none(scorer: Any, rubric: str) -> None:
    judge = Judge(Client('{"score": 0.75}', "Hm.", '{"score": 1.5}'), rubric)
    assert [scorer("A claim.", "Another.", judge=judge) for _ in range(3)] == [0.75, 0.0, 0.0]
    assert [result.raw for result in judge.unscored] == ["Hm.", '{"score": 1.5}']
    with pytest.raises(JudgeError):
        scorer("A claim.", "", judge=Judge(Client(OSError("gone")), rubric))


@pytest.mark.parametrize("scorer", [scorer for scorer, _ in SCORERS])
def test_hints_are_sorted_and_stand_in_the_context(scorer: Any) -> None:
    client = Client()
    hints: dict[Any, Any] = {"z": ("US1", "US2"), "b": {"y": 1, "x": [2]}, "a": None, "c": [], 1: "one"}
    scorer("A claim.", "", judge=Judge(client, "Be fair."), rubric=hints)
    assert client.requests[0][1]["content"] == (
        "Context passages:\n\nHints:\n- 1: one\n- a: None\n"
        '- b: {"x": [2], "y": 1}\n- c:\n- z:\n  - US1\n  - US2\n'
        "Predicted answer: A claim.\n\nGrade:"
    )


@pytest.mark.parametrize("hints", [None, {}])
def test_without_hints_and_reference_only_the_answer_is_shown(hints: Any) -> None:
    client = Client()
    patent_claim_validity("A claim.", "", judge=Judge(client, "Be fair."), rubric=hints)
    assert client.requests[0][1]["content"] == "Predicted answer: A claim.\n\nGrade:"


@pytest.mark.parametrize(("scorer", "rubric"), SCORERS)
@pytest.mark.parametrize("other", [*BUILTIN_RUBRICS.values(), *(rubric for _, rubric in SCORERS)])
def test_a_judge_with_another_known_rubric_is_refused(scorer: Any, rubric: str, other: str) -> None:
    if other == rubric:
        return
    client = Client()
    with pytest.raises(ValueError, match=r"The judge uses another rubric\. Create it with Judge"):
        scorer("A claim.", "", judge=Judge(client, other))
    assert client.requests == []


def test_a_judge_with_another_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="The judge grades from 0 to 10, but this score is from 0 to 1"):
        patent_claim_validity("A claim.", "", judge=Judge(Client(), RubricText("Be fair.", (0, 10))))
    assert patent_claim_validity("A claim.", "", judge=Judge(Client(), RubricText("Be fair.", (0, 1)))) == 1.0
