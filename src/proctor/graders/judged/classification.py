"""Grades an answer by the choice that a judge makes among several, each worth a score.

The prompt is the suite's own, with variables such as `{{ output }}`, as for `llm_grader`. Their values are
set off by lines with a code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from proctor.graders.judged.judge_call import (
    DEFAULT_PASS_AT,
    JudgeRequest,
    call_judges,
    get_pass_at,
    object_schema,
)
from proctor.graders.judged.prompt_sections import SUITE_SYSTEM_PROMPT, build_sections
from proctor.graders.judged.reply_parser import NO_QUOTES, UnreadableReply, get_text, parse_json_object
from proctor.graders.judged.score import fill_prompt
from proctor.graders.judged.voting import JudgeReading
from proctor.model import GraderResult
from proctor.protocols import BaseGrader, GradingInput
from proctor.stats import reaches

_FORM = """\
Reply with one JSON object and nothing else, in this form:
{{"reason": "one or two sentences that name what decided it", "choice": "one of the choices, word for word"}}
The choices are: {choices}"""
_FRAMED_CHOICE = re.compile(
    r"\[\[ ?([^][]{1,200}) ?\]\]|\\boxed\{(?:\\text\{)?([^{}]{1,200})\}|>([^<>]{1,200})</"
)
"""A choice in brackets, a box or a tag."""
_KEY = re.compile(r"([\"'])(?:c|\\u0063)hoice\1", re.IGNORECASE)
_PUNCTUATION = re.compile(r"[^\w\s]")
_CLAUSE = re.compile(r"[.,:;!?\"(–—-](?!\w)|\bis\b")
_ENDS = " \t.!*_`\"'"
_LABEL = re.compile(
    r"\W{0,8}(?:(?:so|therefore|my|the|final|overall)\W{1,4}){0,4}(?:answer|verdict|choice|result|grade)"
    r"(?:\W{1,4}is\b)?\W{1,8}",
    re.IGNORECASE,
)
"""Words that declare a choice at the beginning of a line."""


class Classification(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the judge's choice is worth at least 0.8.

    The judge sees what the prompt names, and always the answer. Every reply is kept.
    """

    needs: ClassVar[str | None] = "judge"

    prompt: str
    """A template with `{{ input }}`, `{{ output }}`, `{{ expected_output }}` or `{{ metadata.field }}`."""
    choices: dict[str, float]
    """Each choice with its score, from 0 to 1."""

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise ValueError("`prompt` is empty; describe what the judge should decide.")
        if (
            len({_normalize_choice(choice) for choice in self.choices} - {""}) != len(self.choices)
            or not self.choices
        ):
            raise ValueError(
                f"`choices` are {', '.join(map(repr, self.choices)) or 'empty'}; use words that differ in "
                f"letters or digits."
            )
        for choice, worth in self.choices.items():
            if not 0 <= worth <= 1:
                raise ValueError(
                    f"The choice {choice!r} is worth {worth:g}; it must be a number from 0 to 1."
                )

    async def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores what the choice is worth.

        Raises:
            CannotScore: there is no judge, or no majority of judges with readable replies.
        """
        pieces = build_sections(grading_input.case, grading_input.output)
        data = {"metadata": grading_input.case.metadata}
        choices = list(self.choices)
        request = JudgeRequest(
            material=fill_prompt(self.prompt, pieces, data),
            heading="",
            form=_FORM.format(choices=json.dumps(choices, ensure_ascii=False)),
            schema=object_schema(reason={"type": "string"}, choice={"type": "string", "enum": choices}),
            read=partial(read_choice, choices=self.choices, pass_at=get_pass_at(grading_input)),
            system=SUITE_SYSTEM_PROMPT,
            template=self.prompt,
        )
        return await call_judges(grading_input, request)


def read_choice(
    reply: str, choices: Mapping[str, float], pass_at: float = DEFAULT_PASS_AT
) -> JudgeReading | None:
    """Reads the choice in a reply; returns None unless there is exactly one.

    Reads a JSON object with a valid `choice`, or a text in which one choice stands alone on a line, as the
    prompts of OpenAI's evals request, and no other choice is on a line, at either end, or declared.

    Raises:
        UnreadableReply: the reply has two choices.
    """
    by_text = {_normalize_choice(choice): choice for choice in choices}
    reply_object = parse_json_object(reply, "choice")
    if reply_object is not None:
        line = _normalize_choice(get_text(reply_object, "choice") or "")
        choices_named = {by_text[line]} if line in by_text else set()
    elif _KEY.search(reply):
        return None  # an object that is cut off, or not alone, may say something else
    else:
        choices_named = {
            by_text[line] for line in map(_normalize_choice, reply.splitlines()) if line in by_text
        }
        all_named = choices_named | {by_text[clause] for clause in _split_clauses(reply) if clause in by_text}
        if choices_named and len(all_named) > 1:
            raise UnreadableReply(f"It has {len(all_named)} different choices. {NO_QUOTES}")
    if len(choices_named) != 1:
        return None
    choice = choices_named.pop()
    return JudgeReading(
        value=choices[choice],
        passed=reaches(choices[choice], pass_at),
        clause=f"chose {choice!r}",
        feedback=get_text(reply_object, "reason") if reply_object is not None else None,
        details={"choice": choice},
    )


def _split_clauses(reply: str) -> list[str]:
    """Returns the parts of a reply that may state a choice beside other words, in comparable form."""
    lines = reply.strip().splitlines() or [""]
    labelled_lines = [line[label.end() :] for line in lines if (label := _LABEL.match(line))]
    first = [_CLAUSE.split(line, maxsplit=1)[0] for line in (lines[0], *labelled_lines)]
    framed = [next(filter(None, frame)) for frame in _FRAMED_CHOICE.findall(reply)]
    return [
        _normalize_choice(clause)
        for clause in (*first, *labelled_lines, *framed, _CLAUSE.split(lines[-1].rstrip(_ENDS))[-1])
    ]


def _normalize_choice(text: str) -> str:
    """Returns a choice in comparable form: without punctuation, in lower case."""
    return " ".join(_PUNCTUATION.sub("", text).split()).casefold()
