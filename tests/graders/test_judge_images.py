"""Images beside a judge's prompt: those that its text names, in that order, and no others."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.graders.judged.classification import Classification
from proctor.graders.judged.instructions import Evaluator, Instructions
from proctor.graders.judged.rubric import RubricGrader
from proctor.graders.judged.rubrics import RubricItem, Rubrics
from proctor.graders.judged.score import LlmGrader
from proctor.graders.judged.yes_no import LlmJudge
from proctor.model import Attachment, Case, Message, Output, Prompt
from proctor.protocols import GradingInput, JudgeTarget


def image(path: str) -> Attachment:
    return Attachment(kind="image", path=path, media_type="image/png", data=path.encode())


ASKED, ANSWERED = image("asked.png"), image("answered.png")
CASE = Case(
    id="c",
    input=(Message(role="user", content="What is it?", parts=("What is it?", ASKED)),),
    criteria="It says a ferry.",
)
PLAIN = Output(text="A ferry.")
DRAWN = Output(
    text="A ferry.",
    messages=(Message(role="assistant", content="A ferry.", parts=("A ferry.", ANSWERED)),),
)

SHOWING_ALL: dict[str, Any] = {
    "llm_judge": LlmJudge(prompt="Is it right?"),
    "rubric": RubricGrader(rubric="It is right."),
    "llm_grader": LlmGrader(),
    "rubrics": Rubrics(items=(RubricItem(id="a", outcome="It is right."),)),
    "instructions": Instructions(),
    "template": LlmGrader(prompt="{{ input }} {{ output }}"),
    "choices": Classification(prompt="{{ input }} {{ output }}", choices={"yes": 1, "no": 0}),
    "evaluator": Instructions(evaluators=(Evaluator(id="e", user="{{input}} {{answer}}"),)),
    "system": Instructions(evaluators=(Evaluator(id="e", system="{{ input }}", user="{{ answer }}"),)),
}
SHOWING_ANSWERS: dict[str, Any] = {
    "template": LlmGrader(prompt="Right? {{ output }}"),
    "choices": Classification(prompt="Right? {{ output }}", choices={"yes": 1, "no": 0}),
    "evaluator": Instructions(evaluators=(Evaluator(id="e", user="{{instructions}} {{answer}}"),)),
}


class Keeping:
    """Keeps every prompt and says nothing that can be read."""

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []

    async def answer(self, prompt: Prompt) -> Output:
        self.prompts.append(prompt)
        return Output(text="?")


async def sent_to_judge(grader: Any, output: Output, *, turned: bool = False) -> tuple[str, list[str]]:
    """The text of a judge's first prompt, and the paths of the images beside it."""
    judge = Keeping()
    graded = GradingInput(
        case=CASE, output=output, judges=(JudgeTarget(name="j", target=judge),), reverse_sections=turned
    )
    with pytest.raises(Exception, match="no verdict that can be read"):
        await grader.grade(graded)
    messages = judge.prompts[0].messages
    images = [part.path for message in messages for part in message.parts if isinstance(part, Attachment)]
    return "\n".join(message.content for message in messages), images


@pytest.mark.parametrize("output", [PLAIN, DRAWN], ids=["plain", "drawn"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", SHOWING_ALL)
async def test_a_judge_gets_the_images_that_its_prompt_names(name: str, output: Output, turned: bool) -> None:
    text, images = await sent_to_judge(SHOWING_ALL[name], output, turned=turned)
    assert images == re.findall(r"\[image (\S+)\]", text)
    assert sorted(images) == sorted(["asked.png", *(["answered.png"] if output is DRAWN else [])])


@pytest.mark.parametrize("name", SHOWING_ANSWERS)
async def test_images_of_a_question_that_is_not_shown_stay_away_from_the_judge(name: str) -> None:
    text, images = await sent_to_judge(SHOWING_ANSWERS[name], PLAIN)
    assert ("asked.png" in text, images) == (False, [])
    text, images = await sent_to_judge(SHOWING_ANSWERS[name], DRAWN)
    assert images == ["answered.png"] == re.findall(r"\[image (\S+)\]", text)


async def test_a_running_text_with_files_is_shown_to_the_judge_as_it_runs() -> None:
    facts = Attachment(kind="file", path="facts.txt", text="It floats.")
    parts = ("Is (", ASKED, ") in ", facts, " a ferry?")
    asked = Message(role="user", content="Is () in  a ferry?", parts=parts, inline=True)
    judge = Keeping()
    graded = GradingInput(
        case=replace(CASE, input=(asked,)), output=PLAIN, judges=(JudgeTarget(name="j", target=judge),)
    )
    with pytest.raises(Exception, match="no verdict"):
        await SHOWING_ALL["rubric"].grade(graded)
    shown = "Is ([image asked.png]) in [file facts.txt]\nIt floats.\n[end of facts.txt] a ferry?"
    assert f"\n{shown}\n<<<END" in judge.prompts[0].messages[1].content


async def test_a_prompt_without_images_is_a_text_alone() -> None:
    judge = Keeping()
    graded = GradingInput(case=CASE, output=PLAIN, judges=(JudgeTarget(name="j", target=judge),))
    with pytest.raises(Exception, match="no verdict"):
        await SHOWING_ANSWERS["evaluator"].grade(graded)
    assert [message.parts for message in judge.prompts[0].messages] == [(), ()]
