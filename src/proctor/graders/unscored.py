"""Leaves an answer unscored, for checks of a suite that nothing can measure."""

from __future__ import annotations

from typing import ClassVar

from proctor.model import GraderResult
from proctor.protocols import BaseGrader, GradingInput


class Unscored(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leaves every answer unscored and says why."""

    all_or_nothing: ClassVar[bool] = True

    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError("`reason` is empty; write a sentence that says why the answer cannot be graded.")

    def grade(self, grading_input: GradingInput) -> GraderResult:  # noqa: ARG002  # every grader is given the answer
        """Returns no value, with the reason."""
        return GraderResult(value=None, passed=None, reason=self.reason)
