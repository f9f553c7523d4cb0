"""Answers to marks by the letter they choose: text to one of a few options.

Which letter is meant is a heuristic, described at `chosen`. It knows English words only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar, NamedTuple

from proctor.graders.text import shown
from proctor.graders.thoughts import without_thoughts
from proctor.model import Mark
from proctor.ports import Graded, Grading

_AROUND = " \t\r\n.,;:!?()[]{}*_`\"'-"
_LETTERS = re.compile(r"[A-Z]{2,26}")


class Choice(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer chooses the expected letter; see `chosen` for how it is found."""

    all_or_nothing: ClassVar[bool] = True

    value: str
    options: str = "ABCD"
    """The letters that there are to choose from, in capitals."""
    anywhere: bool = True
    """A letter that stands alone counts where none is named as the answer."""

    def __post_init__(self) -> None:
        if not _LETTERS.fullmatch(self.options) or len(set(self.options)) != len(self.options):
            raise ValueError(f"`options` is {self.options!r}; give different capital letters, such as ABCD.")
        if len(self.value) != 1 or self.value not in self.options:
            raise ValueError(f"`value` is {self.value!r}; give one of the letters {self.options}.")

    def grade(self, graded: Graded) -> Mark:
        """Value 1 when it does, else 0; `details` has the letter found."""
        letter = chosen(graded.output.text, self.options, anywhere=self.anywhere)
        if letter is None:
            reason = f"The answer chooses none of {self.options}: {shown(graded.output.text)}."
            return Mark(value=0.0, passed=False, reason=reason)
        right = letter == self.value
        reason = f"The answer chooses {letter}" + ("." if right else f"; expected {self.value}.")
        return Mark(value=float(right), passed=right, reason=reason, details={"found": letter})


def chosen(text: str, options: str = "ABCD", *, anywhere: bool = True) -> str | None:
    """The letter that a text chooses, in capitals; None when there is none.

    The first of these that there is, after `<think>` parts are left out:

    1. the text itself, when it is one letter and punctuation;
    2. the letter after the last "answer:" or "answer is";
    3. the letter after the last "option" or "choice";
    4. the first letter that stands alone, if it may stand `anywhere`.

    A small letter before another word counts as that word's article.
    """
    text = without_thoughts(text)
    alone = text.strip(_AROUND).upper()
    if len(alone) == 1 and alone in options:
        return alone
    patterns = _patterns(options)
    answers = list(_letters(patterns.answer, text)) or list(_letters(patterns.option, text))
    if answers or not anywhere:
        return answers[-1] if answers else None
    return next(_letters(patterns.alone, text), None)


class _Patterns(NamedTuple):
    answer: re.Pattern[str]
    option: re.Pattern[str]
    alone: re.Pattern[str]


@lru_cache(maxsize=64)
def _patterns(options: str) -> _Patterns:
    # Every filler is bounded, so that an answer full of spaces cannot take quadratic time.
    letter = rf"(?<![\w'’])([{options}])(?![\w'’])"
    option = r"\b(?:options?|choices?|letter)\b\W{0,10}"
    verb = r"(?:\s{1,4}(?:is|was|must be|should be|would be))?"
    answer = rf"\banswers?\b{verb}\W{{0,20}}(?:{option})?"
    return _Patterns(
        answer=re.compile(answer + letter, re.IGNORECASE),
        option=re.compile(option + letter, re.IGNORECASE),
        alone=re.compile(letter, re.IGNORECASE),
    )


def _letters(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for found in pattern.finditer(text):
        article = found[1].islower() and text[found.end() : found.end() + 2].strip().isalpha()
        if not article:
            yield found[1].upper()
