"""Grades an answer by the option letter that it chooses.

The letter is found by a heuristic in `option_letters.py`, which `proctor.eval` also uses.
"""

from __future__ import annotations

import re
from typing import ClassVar

from proctor.graders.option_letters import chosen
from proctor.graders.text import shown
from proctor.model import Mark
from proctor.protocols import Graded, Grading

_LETTERS = re.compile(r"[A-Z]{2,26}")


class Choice(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer chooses the expected letter; `chosen` says how it is found."""

    all_or_nothing: ClassVar[bool] = True

    value: str
    options: str = "ABCD"
    """The letters to choose from, in capitals."""
    anywhere: bool = True
    """A letter that stands alone counts if none is named as the answer."""

    def __post_init__(self) -> None:
        if not _LETTERS.fullmatch(self.options) or len(set(self.options)) != len(self.options):
            raise ValueError(f"`options` is {self.options!r}; give different capital letters, such as ABCD.")
        if len(self.value) != 1 or self.value not in self.options:
            raise ValueError(f"`value` is {self.value!r}; give one of the letters {self.options}.")

    def grade(self, graded: Graded) -> Mark:
        """Scores 1 if it does, else 0; `details` has the letter."""
        letter = chosen(graded.output.text, self.options, anywhere=self.anywhere)
        if letter is None:
            reason = f"The answer chooses none of {self.options}: {shown(graded.output.text)}."
            return Mark(value=0.0, passed=False, reason=reason)
        right = letter == self.value
        reason = f"The answer chooses {letter}" + ("." if right else f"; expected {self.value}.")
        return Mark(value=float(right), passed=right, reason=reason, details={"found": letter})
