"""Grades whether an answer admits that it does not know, by phrases of doubt and of missing facts.

A heuristic over wording, for questions whose right answer cannot be known. The grader `refusal` looks for
refusals, which are something else.
"""

from __future__ import annotations

from typing import ClassVar

from proctor.graders.lexicons.hedging import HEDGE_PHRASES, find_hedge
from proctor.graders.text import quote, require_texts
from proctor.model import GraderResult
from proctor.protocols import BaseGrader, GradingInput


class Hedges(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer says that it does not know, is not sure, or lacks the information.

    A heuristic over phrases in English, German, French, Spanish, Italian and Chinese. It ignores case, kinds
    of apostrophe, white space and the usual spellings of one phrase ("don't", "do not"), and matches whole
    words only. All words of not knowing that `refusal` looks for count too. Quotations, code and conditions
    in the answer do not count. An empty answer fails.
    """

    all_or_nothing: ClassVar[bool] = True

    phrases: tuple[str, ...] | None = None
    """Phrases to look for anywhere in the answer, instead of the built-in catalogue."""

    def __post_init__(self) -> None:
        if self.phrases is not None:
            require_texts("phrases", self.phrases)

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it does, else 0; the reason quotes the phrase."""
        phrase = find_hedge(grading_input.output.text, self.phrases or HEDGE_PHRASES)
        if phrase is not None:
            return GraderResult(value=1.0, passed=True, reason=f"The answer admits doubt: {quote(phrase)}.")
        reason = f"The answer expresses no doubt: {quote(grading_input.output.text)}."
        return GraderResult(value=0.0, passed=False, reason=reason)
