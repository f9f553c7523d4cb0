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

from proctor.graders.judging import PASS_AT, Request, ask, json_object, least, text_in
from proctor.graders.llm_grader import filled
from proctor.graders.material import OWN, pieces_of
from proctor.graders.panel import Reading
from proctor.model import Mark
from proctor.ports import Graded, Grading
from proctor.stats import reaches

_FORM = """\
Reply with one JSON object and nothing else, in this form:
{{"reason": "one or two sentences that name what decided it", "choice": "one of the choices, word for word"}}
The choices are: {choices}"""
_PUNCTUATION = re.compile(r"[^\w\s]")


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

    Read are a JSON object whose `choice` is one, and a text in which one choice, and no other, stands alone
    on a line, as the prompts of OpenAI's evals ask for it.
    """
    parsed = json_object(reply)
    lines = [text_in(parsed, "choice") or ""] if parsed is not None else reply.splitlines()
    known = {_plain(choice): choice for choice in choices}
    chosen = {known[line] for line in map(_plain, lines) if line in known}
    if len(chosen) != 1:
        return None
    choice = chosen.pop()
    return Reading(
        value=choices[choice],
        passed=reaches(choices[choice], pass_at),
        said=f"chose {choice!r}",
        feedback=text_in(parsed, "reason") if parsed is not None else None,
        details={"choice": choice},
    )


def _plain(text: str) -> str:
    """A choice as it is compared: without punctuation, and in small letters."""
    return " ".join(_PUNCTUATION.sub("", text).split()).casefold()
