"""Answers to marks by a question that a judge answers with YES or NO."""

from __future__ import annotations

from typing import ClassVar

from proctor.errors import CannotScore
from proctor.graders.judging import Request, ask, first_line, rest, text_in
from proctor.graders.panel import Reading
from proctor.graders.structure import NotJson, parse_json
from proctor.model import Mark
from proctor.ports import Graded, Grading

_FORM = """\
Reply with one JSON object and nothing else, in this form:
{"verdict": "YES", "reason": "one sentence that names what decided it"}
The verdict is YES if the question is to be answered with yes for this answer. It is NO if it is
not, or only in part."""

_SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["YES", "NO"]}, "reason": {"type": "string"}},
    "required": ["verdict", "reason"],
    "additionalProperties": False,
}


class LlmJudge(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when a judge answers YES to a question about the answer.

    The judge sees the case's messages, its expected answer and the answer; each reply of it is kept.
    """

    needs: ClassVar[str | None] = "judge"
    shows_metadata: ClassVar[bool] = False
    all_or_nothing: ClassVar[bool] = True

    prompt: str
    """The question, such as "Does the answer name both causes?"."""

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise ValueError("`prompt` is empty; give a question that YES or NO answers.")

    async def grade(self, graded: Graded) -> Mark:
        """Value 1 for YES, 0 for NO.

        Raises:
            CannotScore: there is no judge, or no majority of judges with replies that can be read.
        """
        request = Request(
            heading="The question about the assistant's answer that you are to decide:",
            question=self.prompt,
            form=_FORM,
            schema=_SCHEMA,
            read=read_verdict,
        )
        return await ask(graded, request)


def read_verdict(reply: str) -> Reading | None:
    """What a reply says, or None when it is not exactly a verdict.

    Read are a JSON object, also fenced, whose `verdict` is YES or NO in any case, and a text whose first line
    is that word alone, with or without emphasis and punctuation. "Yesterday" and "YES, because" are neither.
    """
    try:
        parsed = parse_json(reply)
    except (NotJson, CannotScore):
        if "{" in reply or any(_word(line) for line in reply.strip().split("\n")[1:]):
            return None  # a second verdict may stand there
        return _reading(_word(reply), rest(reply))
    if isinstance(parsed, dict):
        verdict = parsed.get("verdict")
        return _reading(
            verdict.strip().upper() if isinstance(verdict, str) else None, text_in(parsed, "reason")
        )
    return _reading(_word(parsed), None) if isinstance(parsed, str) else None


def _word(text: str) -> str | None:
    """YES or NO when the first line of a text is that word alone."""
    word = first_line(text).upper()
    return word if word in ("YES", "NO") else None


def _reading(verdict: str | None, feedback: str | None) -> Reading | None:
    if verdict not in ("YES", "NO"):
        return None
    passed = verdict == "YES"
    return Reading(value=float(passed), passed=passed, said=f"said {verdict}", feedback=feedback)
