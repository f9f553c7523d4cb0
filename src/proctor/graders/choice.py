"""Grades an answer by the option letter that it chooses.

The letter is found by a heuristic in `option_letters.py`, which `proctor.eval` also uses.
"""

from __future__ import annotations

import re
from typing import ClassVar

from proctor.graders.option_letters import find_chosen_letter
from proctor.graders.text import quote
from proctor.model import GraderResult
from proctor.protocols import BaseGrader, GradingInput

_LETTERS = re.compile(r"[A-Z]{2,26}")


class Choice(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer chooses the expected letter; `find_chosen_letter` says how it is found."""

    all_or_nothing: ClassVar[bool] = True

    value: str
    options: str = "ABCD"
    """The letters to choose from, in capitals."""
    anywhere: bool = True
    """A single letter counts if the answer names no letter explicitly."""

    def __post_init__(self) -> None:
        if not _LETTERS.fullmatch(self.options) or len(set(self.options)) != len(self.options):
            raise ValueError(f"`options` is {self.options!r}; use different capital letters, such as ABCD.")
        if len(self.value) != 1 or self.value not in self.options:
            raise ValueError(f"`value` is {self.value!r}; use one of the letters {self.options}.")

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it does, else 0; `details` has the letter."""
        letter = find_chosen_letter(grading_input.output.text, self.options, anywhere=self.anywhere)
        if letter is None:
            reason = f"The answer chooses none of {self.options}: {quote(grading_input.output.text)}."
            return GraderResult(value=0.0, passed=False, reason=reason)
        right = letter == self.value
        reason = f"The answer chooses {letter}" + ("." if right else f"; expected {self.value}.")
        return GraderResult(value=float(right), passed=right, reason=reason, details={"found": letter})
