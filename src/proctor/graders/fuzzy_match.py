"""Grades an answer by its words, ignoring case, punctuation, English articles and white space."""

from __future__ import annotations

import re
import string
from typing import ClassVar

from proctor.graders.text import quote, quote_list, require_texts
from proctor.model import GraderResult
from proctor.protocols import BaseGrader, GradingInput

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class FuzzyMatch(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer's words contain those of an expected text, or are contained in them.

    This is a loose check: the answer "no" is contained in "not now". An empty answer fails.
    """

    all_or_nothing: ClassVar[bool] = True

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        require_texts("values", self.values)
        for value in self.values:
            if not normalize_words(value):
                raise ValueError(f"`values` has {value!r}, which contains no word to search for; remove it.")

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if one of the texts matches, else 0; the reason names the first match."""
        answer = normalize_words(grading_input.output.text)
        for value in self.values if answer else ():
            expected_words = normalize_words(value)
            if expected_words in answer or answer in expected_words:
                return GraderResult(
                    value=1.0, passed=True, reason=f"The answer's words match {quote(value)}."
                )
        reason = (
            f"The answer's words match none of {quote_list(self.values)}: {quote(grading_input.output.text)}."
        )
        return GraderResult(value=0.0, passed=False, reason=reason)


def normalize_words(text: str) -> str:
    """Returns the words of a text in lower case, with one space between them."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())
