"""Answers to marks by a judge that chooses one of several named choices, each with its worth.

The prompt is the suite's own and names what it shows as `{{ name }}`, as that of `llm_grader` does. What is
put there is material: it stands between lines with a code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from proctor.graders.judged.judge_call import PASS_AT, Request, ask, least
from proctor.graders.judged.prompt_sections import OWN, pieces_of
from proctor.graders.judged.reply_parser import NO_QUOTES, Unreadable, json_object, text_in
from proctor.graders.judged.score import filled
from proctor.graders.judged.voting import Reading
from proctor.model import Mark
from proctor.protocols import Graded, Grading
from proctor.stats import reaches

_FORM = """\
Reply with one JSON object and nothing else, in this form:
{{"reason": "one or two sentences that name what decided it", "choice": "one of the choices, word for word"}}
The choices are: {choices}"""
_FRAMED = re.compile(r"\[\[ ?([^][]{1,200}) ?\]\]|\\boxed\{(?:\\text\{)?([^{}]{1,200})\}|>([^<>]{1,200})</")
"""Where a choice may stand in brackets, a box or a tag."""
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


class Classification(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when a judge puts the answer into a choice that is worth at least 0.8.

    The judge sees what the prompt names, and the answer in any case; each reply of it is kept.
    """

    needs: ClassVar[str | None] = "judge"

    prompt: str
    """A template with `{{ input }}`, `{{ output }}`, `{{ expected_output }}` or `{{ metadata.field }}`."""
    choices: dict[str, float]
    """Each choice with what it is worth, from 0 to 1."""

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise ValueError("`prompt` is empty; say what the judge is to decide.")
        if len({_plain(choice) for choice in self.choices} - {""}) != len(self.choices) or not self.choices:
            raise ValueError(
                f"`choices` are {', '.join(map(repr, self.choices)) or 'empty'}; give words that differ in "
                "letters or digits."
            )
        for choice, worth in self.choices.items():
            if not 0 <= worth <= 1:
                raise ValueError(f"The choice {choice!r} is worth {worth:g}; give a number from 0 to 1.")

    async def grade(self, graded: Graded) -> Mark:
        """Value is what the choice is worth.

        Raises:
            CannotScore: there is no judge, or no majority of judges with replies that can be read.
        """
        pieces, data = pieces_of(graded.case, graded.output), {"metadata": graded.case.metadata}
        choices = list(self.choices)
        request = Request(
            material=filled(self.prompt, pieces, data),
            heading="",
            form=_FORM.format(choices=json.dumps(choices, ensure_ascii=False)),
            schema={
                "type": "object",
                "properties": {"reason": {"type": "string"}, "choice": {"type": "string", "enum": choices}},
                "required": ["reason", "choice"],
                "additionalProperties": False,
            },
            read=partial(read_choice, choices=self.choices, pass_at=least(graded)),
            system=OWN,
            template=self.prompt,
        )
        return await ask(graded, request)


def read_choice(reply: str, choices: Mapping[str, float], pass_at: float = PASS_AT) -> Reading | None:
    """What a reply says, or None when it is not exactly one choice.

    Read are a JSON object whose `choice` is one, and a text in which one choice stands alone on a line, as
    the prompts of OpenAI's evals ask for it, and no other does, begins or ends the text, or is declared.

    Raises:
        Unreadable: it has two choices.
    """
    by_text = {_plain(choice): choice for choice in choices}
    reply_object = json_object(reply, "choice")
    if reply_object is not None:
        line = _plain(text_in(reply_object, "choice") or "")
        choices_named = {by_text[line]} if line in by_text else set()
    elif _KEY.search(reply):
        return None  # an object that is cut off, or not alone, may say something else
    else:
        choices_named = {by_text[line] for line in map(_plain, reply.splitlines()) if line in by_text}
        all_named = choices_named | {by_text[clause] for clause in _clauses(reply) if clause in by_text}
        if choices_named and len(all_named) > 1:
            raise Unreadable(f"It has {len(all_named)} different choices. {NO_QUOTES}")
    if len(choices_named) != 1:
        return None
    choice = choices_named.pop()
    return Reading(
        value=choices[choice],
        passed=reaches(choices[choice], pass_at),
        said=f"chose {choice!r}",
        feedback=text_in(reply_object, "reason") if reply_object is not None else None,
        details={"choice": choice},
    )


def _clauses(reply: str) -> list[str]:
    """Where a choice may be stated beside other words, as it is compared."""
    lines = reply.strip().splitlines() or [""]
    labelled_lines = [line[label.end() :] for line in lines if (label := _LABEL.match(line))]
    first = [_CLAUSE.split(line, maxsplit=1)[0] for line in (lines[0], *labelled_lines)]
    framed = [next(filter(None, frame)) for frame in _FRAMED.findall(reply)]
    return [
        _plain(clause)
        for clause in (*first, *labelled_lines, *framed, _CLAUSE.split(lines[-1].rstrip(_ENDS))[-1])
    ]


def _plain(text: str) -> str:
    """A choice as it is compared: without punctuation, and in small letters."""
    return " ".join(_PUNCTUATION.sub("", text).split()).casefold()
