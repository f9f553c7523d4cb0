"""Grades the number in an answer by its distance from the expected one.

Three graders, from loose to strict: `NumericMatch` takes the first number, `Number` the one that the answer
states, `NumericEqual` reads scale words, signs and units too.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from proctor.graders.numbers.numerals import find_first_digits, find_stated_number, is_near, numeric_match
from proctor.graders.numbers.quantities import (
    DEFAULT_TOLERANCE,
    find_quantity,
    is_same_quantity,
    to_fraction,
    units_agree,
)
from proctor.graders.text import clip, quote
from proctor.model import GraderResult
from proctor.protocols import BaseGrader, GradingInput


class Number(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the number that the answer states is close enough to the expected one.

    An answer without a number fails. `find_stated_number` says which number counts.
    """

    all_or_nothing: ClassVar[bool] = True

    value: float
    tolerance: float = 1e-6
    """The largest difference that passes, in the unit of the number."""
    relative: bool = False
    """Whether `tolerance` is a share of the expected number: 0.01 for one per cent."""
    which: Literal["stated", "first"] = "stated"
    """Which number of the answer counts: the one that it states, or the first one, read as `numeric_match`
    reads it."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"`value` is {self.value}; it must be a finite number.")
        if not 0 <= self.tolerance < math.inf:
            raise ValueError(f"`tolerance` is {self.tolerance}; it must be a finite number of 0 or more.")

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it is, else 0; `details` has the number if it is finite."""
        got = (find_stated_number if self.which == "stated" else find_first_digits)(grading_input.output.text)
        if got is None:
            return _no_number_result(grading_input.output.text)
        number = float(got)
        details = {"found": number} if math.isfinite(number) else {}
        # `value` may have been written with more digits than a float keeps, and every share of 0 is 0.
        tolerance = self.tolerance if self.value or not self.relative else 0
        if number == self.value or is_near(got, repr(self.value), tolerance, relative=self.relative):
            reason = f"The answer's number is {number:.15g}."
            return GraderResult(value=1.0, passed=True, reason=reason, details=details)
        unit = " of it" if self.relative else ""
        expected = f"{self.value:.15g} ± {self.tolerance:g}{unit}"
        reason = f"The answer's number is {number:.15g}; expected {expected}."
        return GraderResult(value=0.0, passed=False, reason=reason, details=details)


class NumericMatch(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer's first number is close to the first one of `value`; see `numeric_match`.

    This is a loose check: a year is a number, and units and "million" make no difference. An answer
    without a number fails.
    """

    all_or_nothing: ClassVar[bool] = True

    value: str
    """The right answer."""
    rel_tolerance: float = DEFAULT_TOLERANCE
    """The largest difference, as a share of the expected number; if that is 0, the difference itself."""

    def __post_init__(self) -> None:
        if find_first_digits(self.value) is None:
            raise ValueError(
                f"`value` is {quote(self.value)}, which contains no digit; write the expected number."
            )
        to_fraction(self.rel_tolerance)

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it is, else 0; `details` has the number if it is finite."""
        answer = grading_input.output.text
        digits = find_first_digits(answer)
        if digits is None:
            return _no_number_result(answer)
        got, expected = float(digits), float(find_first_digits(self.value) or "nan")
        passed = numeric_match(answer, self.value, rel_tolerance=self.rel_tolerance) == 1.0
        reason = f"The answer's first number is {got:.15g}"
        reason += "." if passed else f"; expected {expected:.15g} {_format_tolerance(self.rel_tolerance)}."
        details = {"found": got} if math.isfinite(got) else {}
        return GraderResult(value=float(passed), passed=passed, reason=reason, details=details)


class NumericEqual(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer states the quantity that `value` states; see `numeric_equal`.

    An answer without a number that can be an answer fails.
    """

    all_or_nothing: ClassVar[bool] = True

    value: str
    """The right answer, with its unit."""
    rel_tolerance: float = DEFAULT_TOLERANCE
    """The largest difference, as a share of the expected number; if that is 0, only 0 passes."""

    def __post_init__(self) -> None:
        if find_quantity(self.value) is None:
            message = "which contains no number that can be an answer; write a number, such as 12 or $4.5B"
            raise ValueError(f"`value` is {quote(self.value)}, {message}.")
        to_fraction(self.rel_tolerance)

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it does, else 0; `details` has the quantity as the answer writes it."""
        answer = grading_input.output.text
        expected = find_quantity(self.value)
        got = find_quantity(answer, like=expected)
        if got is None or expected is None:
            return _no_number_result(answer)
        passed = is_same_quantity(got, expected, to_fraction(self.rel_tolerance))
        reason = f"The answer says {quote(got.source_text)}"
        if not passed:
            differ = (
                _format_tolerance(self.rel_tolerance) if units_agree(got, expected) else "in a matching unit"
            )
            reason += f"; expected {quote(expected.source_text)} {differ}"
        details = {"found": clip(got.source_text)}
        return GraderResult(value=float(passed), passed=passed, reason=f"{reason}.", details=details)


def _no_number_result(answer: str) -> GraderResult:
    return GraderResult(value=0.0, passed=False, reason=f"The answer contains no number: {quote(answer)}.")


def _format_tolerance(tolerance: float) -> str:
    return f"within {100 * tolerance:g} %"
