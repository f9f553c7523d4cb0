"""Answers to marks by whether they admit that they do not know: phrases of doubt and missing facts.

A heuristic over wording, for questions whose right answer cannot be known. Not knowing is not refusing, which
is what `refusal` looks for.
"""

from __future__ import annotations

from typing import ClassVar

from proctor.graders.lexicons.hedging import HEDGE_PHRASES, hedging_words
from proctor.graders.text import refuse_empty, shown
from proctor.model import Mark
from proctor.protocols import Graded, Grading


class Hedges(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer says that it does not know, is not sure, or was not told.

    A heuristic over phrases in English, German, French, Spanish, Italian and Chinese. Case, apostrophes,
    white space and the usual spellings of one phrase ("don't", "do not") make no difference, and a phrase
    counts only as whole words. Beyond the phrases, all words of not knowing that `refusal` looks for count
    too. What the answer quotes, its code and its conditions do not. An empty answer says nothing of the kind.
    """

    all_or_nothing: ClassVar[bool] = True

    phrases: tuple[str, ...] | None = None
    """What is looked for anywhere in the answer, instead of the grader's own catalogue."""

    def __post_init__(self) -> None:
        if self.phrases is not None:
            refuse_empty("phrases", self.phrases)

    def grade(self, graded: Graded) -> Mark:
        """Value 1 when it does, else 0; the reason quotes the phrase."""
        phrase = hedging_words(graded.output.text, self.phrases or HEDGE_PHRASES)
        if phrase is not None:
            return Mark(value=1.0, passed=True, reason=f"The answer admits doubt: {shown(phrase)}.")
        reason = f"The answer asserts without doubt: {shown(graded.output.text)}."
        return Mark(value=0.0, passed=False, reason=reason)
