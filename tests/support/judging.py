"""Judges that reply by a script, and what they were shown."""

from __future__ import annotations

import re
from typing import Any

from proctor.model import Case, GraderResult, Message, Output, Prompt, Usage
from proctor.protocols import JudgeTarget
from support.grading import make_input

CASE = Case(
    id="rivers-1",
    input=(
        Message(role="system", content="Be brief."),
        Message(role="user", content="Which river is longest?"),
    ),
    criteria="It names the Nile.\n",
)


class ScriptedJudge:
    """Replies with the next of a list, the last one again and again; an exception in the list is raised."""

    def __init__(self, *replies: str | Exception) -> None:
        self.replies = list(replies)
        self.prompts: list[Prompt] = []

    async def answer(self, prompt: Prompt) -> Output:
        self.prompts.append(prompt)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return Output(text=reply, usage=Usage(input_tokens=7, output_tokens=2), cost_usd=0.25)

    @property
    def system(self) -> str:
        """The system message of the first prompt."""
        return self.prompts[0].messages[0].content

    @property
    def user_message(self) -> str:
        """The user's message of the first prompt."""
        return self.prompts[0].messages[1].content


class SteadyJudge:
    """Answers by the number of the repeat, however many ask at once, and keeps every prompt."""

    def __init__(self, *replies: str, cached: bool = False) -> None:
        self.replies = replies
        self.cached = cached
        self.prompts: list[Prompt] = []

    async def answer(self, prompt: Prompt) -> Output:
        self.prompts.append(prompt)
        return Output(text=self.replies[prompt.repeat], cached=self.cached)


def make_judges(*targets: Any) -> tuple[JudgeTarget, ...]:
    """Judges with the names `judge-0`, `judge-1` and so on."""
    return tuple(JudgeTarget(name=f"judge-{nth}", target=target) for nth, target in enumerate(targets))


async def judge_answer(
    grader: Any, *judges: Any, answer: str | Output = "The Nile.", case: Case = CASE, **fields: Any
) -> GraderResult:
    """The result of a grader that asks these judges; the fields are those of its input."""
    result = await grader.grade(make_input(answer, case=case, judges=make_judges(*judges), **fields))
    assert isinstance(result, GraderResult)
    return result


def get_code(judge: ScriptedJudge) -> str:
    """The code that the judge is told to look for."""
    return str(re.findall(r"the code (\w{16})\.", judge.system)[-1])


def get_sections(text: str) -> dict[str, str]:
    """What stands between the marker lines of each section, by its name."""
    return dict(re.findall(r"<<<BEGIN ([^\n]*?) \w{16}>>>\n(.*?)\n<<<END ", text, re.DOTALL))


def get_skeleton(judge: ScriptedJudge) -> list[str]:
    """Both messages without what stands between lines with the code, and without the code."""
    code = get_code(judge)
    pattern = re.compile(rf"(<<<BEGIN [^\n]* {code}>>>\n).*?(\n<<<END [^\n]* {code}>>>)", re.DOTALL)
    return [pattern.sub(r"\1\2", text).replace(code, "CODE") for text in (judge.system, judge.user_message)]
