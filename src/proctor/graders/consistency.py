"""Grades how far all answers to one case agree.

Compares texts after light normalization, not meanings.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, Literal

from proctor.errors import CannotScore
from proctor.graders.text import clip, quote
from proctor.model import GraderResult
from proctor.protocols import BaseGrader, GradingInput

_OPENING = "\"'“”‘’«»*`¿¡ "
_CLOSING = "\"'“”‘’«»*`.,;:!?…。！？ "
_MAX_ANSWERS = 20


class Consistency(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when enough of a case's answers are the same, and equal the expected answer if there is one.

    The comparison ignores case, collapses white space, and drops quotes, emphasis and closing punctuation at
    both ends. If two answers are equally frequent, the earlier one counts.
    """

    grades_repeats: ClassVar[bool] = True

    min_share: float = 0.8
    """From 0 (excluded) to 1: the share of all answers that the most frequent one must reach."""
    expected: str | None = None
    match: Literal["exact", "contains"] = "exact"
    """Whether the most frequent answer must be the expected text or contain it."""

    def __post_init__(self) -> None:
        if not 0 < self.min_share <= 1:
            raise ValueError(f"`min_share` is {self.min_share}; it must be above 0 and at most 1.")
        if self.expected is not None and not self.expected.strip():
            raise ValueError("`expected` is blank; write the expected answer, or remove the field.")

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores the share of the most frequent answer; 0 if that is empty or not the expected one.

        Raises:
            CannotScore: there are fewer than two answers.
        """
        outputs = grading_input.outputs
        if len(outputs) < 2:
            raise CannotScore(
                f"Consistency needs at least two answers per case and has {len(outputs)}; use a higher "
                f"--repeat."
            )
        counts = Counter(normalize_answer(output.text) for output in outputs)
        ranked = counts.most_common(_MAX_ANSWERS)
        answer, count = ranked[0]
        share = count / len(outputs)
        wrong = self._describe_error(answer)
        enough = share >= self.min_share
        reason = f"{count} of {len(outputs)} answers are {quote(answer)}"
        reason += wrong or (f"; at least {self.min_share:.0%} must agree" if not enough else "")
        return GraderResult(
            value=0.0 if wrong else share,
            passed=enough and not wrong,
            reason=reason + ".",
            details={"share": share, "answers": {clip(text): number for text, number in ranked}},
        )

    def _describe_error(self, answer: str) -> str:
        """Returns what is wrong with the most frequent answer, as a clause; empty if nothing is."""
        if not answer:
            return ", which is blank"
        if self.expected is None:
            return ""
        expected = normalize_answer(self.expected)
        right = answer == expected if self.match == "exact" else expected in answer
        return "" if right else f"; expected {quote(expected)}"


def normalize_answer(text: str) -> str:
    """Returns the text in the form in which answers are compared; punctuation alone stays as it is."""
    flat = " ".join(text.casefold().split())
    return flat.lstrip(_OPENING).rstrip(_CLOSING) or flat
