"""Grades an answer by a rubric that a judge scores on a scale of whole numbers."""

from __future__ import annotations

import re
from functools import partial
from typing import ClassVar

from proctor.graders.json_structure import NotJson
from proctor.graders.judged.judge_call import JudgeRequest, call_judges, object_schema
from proctor.graders.judged.reply_parser import (
    NO_QUOTES,
    UnreadableReply,
    first_line,
    get_text,
    parse_json_value,
    text_after_first_line,
)
from proctor.graders.judged.voting import JudgeReading
from proctor.model import GraderResult
from proctor.protocols import BaseGrader, GradingInput

_FORM = """\
{lowest} is the worst score, for an answer that does nothing of what the rubric asks; {highest} is the best,
for one that does all of it. Use the whole scale. Reply with one JSON object and nothing else, in this form:
{{"score": {highest}, "reason": "one sentence that names what decided it"}}
The score is a whole number from {lowest} to {highest}."""

_PLAIN_SCORE = re.compile(
    r"(?:(?:(?:my|the|final|overall|total)\s{1,4}){0,3}(?:score|rating|grade|verdict|answer|result)(?:\sis)?[^\w\"]{1,8})?"
    r"(-?\d{1,9}(?:\.\d{1,9})?)(?:\s{0,4}/\s{0,4}(\d{1,9}))?",
    re.IGNORECASE,
)
"""A line that is only a score."""
_FRAMED_SCORE = re.compile(r"\[\[ ?([^][]{1,60}) ?\]\]|^\s*\\boxed\{([^{}]{1,60})\}\W*$", re.MULTILINE)
_SENTENCES = re.compile(r"(?<=\w{4})[.!?][*_]{0,3}\s+")
_ABOUT_ANSWER = re.compile(r"\W*(?:the\s)?(?:answer|result)\b", re.IGNORECASE)
"""The beginning of a line that states the answer to the question."""
_KEYED_SCORE = re.compile(r'"score"\s*+:\s*+(-?\d{1,9}(?:\.\d{1,9})?)', re.IGNORECASE)


class RubricGrader(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when a judge gives the answer at least `min_score` by a rubric.

    The judge sees the case's messages, its expected answer and the answer. Every reply is kept.
    """

    needs: ClassVar[str | None] = "judge"
    shows_metadata: ClassVar[bool] = False

    rubric: str
    """What a good answer does and, if needed, what each score means."""
    lowest: int = 1
    highest: int = 5
    min_score: float = 4
    """The lowest score that passes, on the rubric's own scale."""

    def __post_init__(self) -> None:
        if not self.rubric.strip():
            raise ValueError("`rubric` is empty; describe what a good answer does.")
        if self.lowest >= self.highest:
            raise ValueError(
                f"`lowest` is {self.lowest} and `highest` is {self.highest}; `lowest` must be below "
                f"`highest`."
            )
        if not self.lowest <= self.min_score <= self.highest:
            raise ValueError(
                f"`min_score` is {self.min_score:g}; it must be a number from {self.lowest} to "
                f"{self.highest}."
            )

    async def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores the position between lowest (0) and highest (1); `details` has the judge's score.

        Raises:
            CannotScore: there is no judge, or no majority of judges with readable replies.
        """
        score = {"type": "integer", "minimum": self.lowest, "maximum": self.highest}
        request = JudgeRequest(
            heading="The rubric by which you are to score the assistant's answer:",
            question=self.rubric,
            form=_FORM.format(lowest=self.lowest, highest=self.highest),
            schema=object_schema(score=score, reason={"type": "string"}),
            read=partial(read_score, rubric=self),
        )
        return await call_judges(grading_input, request)


def read_score(reply: str, rubric: RubricGrader) -> JudgeReading | None:
    """Reads the score in a reply; returns None unless there is exactly one on the rubric's scale.

    Reads a JSON object, fenced or not, whose `score` is a whole number on the scale, or a text whose first
    line is only such a number, `4/5` or `Score: 4`, and that has no other score on a line or in an object.

    Raises:
        UnreadableReply: the reply has two scores.
    """
    try:
        reply_value = parse_json_value(reply, "score")
    except NotJson:
        return _read_plain(reply, rubric)
    if isinstance(reply_value, dict):
        score = reply_value.get("score")
        return (
            _make_reading(score, get_text(reply_value, "reason"), rubric)
            if isinstance(score, int | float)
            else None
        )
    return _make_reading(reply_value, None, rubric) if isinstance(reply_value, int | float) else None


def _read_plain(reply: str, rubric: RubricGrader) -> JudgeReading | None:
    match = _PLAIN_SCORE.fullmatch(first_line(reply))
    if match is None or (match[2] is not None and int(match[2]) != rubric.highest):
        return None
    framed = (frame[1] or frame[2] for frame in _FRAMED_SCORE.finditer(reply))
    first, *later = reply.strip().splitlines()
    lines = (first, *(line for line in later if not _ABOUT_ANSWER.match(line)))
    texts = map(first_line, (*lines, _SENTENCES.split(reply.strip())[-1], *framed))
    matches = (*filter(None, map(_PLAIN_SCORE.fullmatch, texts)), *_KEYED_SCORE.finditer(reply))
    scores = {float(score[1]) for score in matches}
    if len(scores) > 1:
        raise UnreadableReply(f"It has {len(scores)} different scores. {NO_QUOTES}")
    return _make_reading(float(match[1]), text_after_first_line(reply), rubric)


def _make_reading(score: float, feedback: str | None, rubric: RubricGrader) -> JudgeReading | None:
    if isinstance(score, bool) or not rubric.lowest <= score <= rubric.highest or score != int(score):
        return None
    return JudgeReading(
        value=(score - rubric.lowest) / (rubric.highest - rubric.lowest),
        passed=score >= rubric.min_score,
        clause=f"gave {score:g} on a scale from {rubric.lowest} to {rubric.highest}",
        feedback=feedback,
        score=int(score),
    )
