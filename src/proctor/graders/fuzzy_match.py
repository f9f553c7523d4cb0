"""Grades an answer by its words, ignoring case, punctuation, English articles and white space."""

from __future__ import annotations

import re
import string
from typing import ClassVar

from proctor.graders.text import listed, refuse_empty, shown
from proctor.model import Mark
from proctor.protocols import Graded, Grading

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class FuzzyMatch(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer's words contain those of an expected text, or are contained in them.

    This is a loose check: the answer "no" is contained in "not now". An empty answer fails.
    """

    all_or_nothing: ClassVar[bool] = True

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        refuse_empty("values", self.values)
        for value in self.values:
            if not words_of(value):
                raise ValueError(f"`values` has {value!r}, which has no word left to look for; remove it.")

    def grade(self, graded: Graded) -> Mark:
        """Scores 1 if one of the texts matches, else 0; the reason names the first match."""
        answer = words_of(graded.output.text)
        for value in self.values if answer else ():
            expected_words = words_of(value)
            if expected_words in answer or answer in expected_words:
                return Mark(value=1.0, passed=True, reason=f"The answer's words match {shown(value)}.")
        reason = f"The answer's words match none of {listed(self.values)}: {shown(graded.output.text)}."
        return Mark(value=0.0, passed=False, reason=reason)


def words_of(text: str) -> str:
    """Returns the words of a text in lower case, with one space between them."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())
