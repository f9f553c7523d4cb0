"""Grades how fast a streamed answer came: the time to its first token, and its tokens per second.

Nothing is measured here: an answer that was not streamed is unscored. The text of the answer does not count.
"""

from __future__ import annotations

import math
from typing import ClassVar

from proctor.errors import CannotScore
from proctor.model import Evidence, GraderResult, Output
from proctor.protocols import BaseGrader, GradingInput


class Ttft(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the first token of reasoning or text came at most `max_ms` after the request was sent."""

    all_or_nothing: ClassVar[bool] = True
    reads_text: ClassVar[bool] = False

    max_ms: float

    def __post_init__(self) -> None:
        _check_limit("max_ms", self.max_ms)

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it did, else 0.

        Raises:
            CannotScore: the answer was not streamed, or it comes from the cache.
        """
        value = _streamed_first_token(grading_input.output)
        text, evidence = f"first token after at most {self.max_ms:.10g} ms", f"is {value:.4g} ms"
        entry = Evidence(text=text, passed=value <= self.max_ms, evidence=evidence)
        return _make_result(entry, {"first_token_ms": value})


class TokensPerSecond(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the tokens after the first came at `min` a second or faster."""

    all_or_nothing: ClassVar[bool] = True
    reads_text: ClassVar[bool] = False

    min: float

    def __post_init__(self) -> None:
        _check_limit("min", self.min)

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if they did, else 0.

        Raises:
            CannotScore: the answer was not streamed, comes from the cache, or has fewer than two tokens.
        """
        output = grading_input.output
        _streamed_first_token(output)
        value = output.tokens_per_second
        if value is None:
            raise CannotScore(
                "The tokens per second are unknown: the target reported fewer than two output tokens, or "
                "all of them arrived at once."
            )
        text, evidence = f"at least {self.min:.10g} tokens/s", f"is {value:.4g} tokens/s"
        entry = Evidence(text=text, passed=value >= self.min, evidence=evidence)
        return _make_result(entry, {"tokens_per_second": value})


def _check_limit(name: str, limit: float) -> None:
    if not 0 < limit < math.inf:
        raise ValueError(f"`{name}` is {limit}; it must be a finite number above 0.")


def _streamed_first_token(output: Output) -> float:
    """Returns the time to the first token in milliseconds.

    Raises:
        CannotScore: it was not measured for this trial.
    """
    if output.cached:
        raise CannotScore(
            "The answer comes from the cache, so its speed was not measured. Run without --cache."
        )
    if output.first_token_ms is None:
        raise CannotScore(
            "The answer was not streamed, so the time to its first token is unknown. Run with --stream."
        )
    return output.first_token_ms


def _make_result(entry: Evidence, details: dict[str, float]) -> GraderResult:
    passed = bool(entry.passed)
    reason = "The limit is met." if passed else f"Limit not met: {entry.text} ({entry.evidence})."
    return GraderResult(
        value=float(passed), passed=passed, reason=reason, entries=(entry,), details=dict(details)
    )
