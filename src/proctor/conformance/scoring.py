"""Scores a target by its replies: which checks passed, and which of them count. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from proctor.conformance.checks import ConformanceCheck
from proctor.conformance.expectations import Reply, find_missing_answer
from proctor.stats import reaches, wilson

GUARD_CHECKS = ("arithmetic", "system prompt", "JSON mode")
"""Unless these pass, checks that one fixed answer could pass are not counted."""
MIN_PASS_SHARE = 0.8
"""The share of the checks that must pass for a certificate."""


class CheckVerdict(StrEnum):
    """The result of a check."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    NOT_COUNTED = "not counted"


class CheckOutcome(Struct, frozen=True, kw_only=True):
    """One check with its replies and its verdict."""

    check: ConformanceCheck
    replies: tuple[Reply, ...]
    verdict: CheckVerdict
    reason: str = ""
    """Why it did not pass, or does not count."""

    @property
    def latency_ms(self) -> float | None:
        """The mean latency of its answers; None without answers."""
        latencies = [reply.latency_ms for reply in self.replies if reply.text is not None]
        return sum(latencies) / len(latencies) if latencies else None


class Conformance(Struct, frozen=True, kw_only=True):
    """All checks of a target."""

    outcomes: tuple[CheckOutcome, ...]

    @property
    def passed(self) -> int:
        """The number of checks that passed and count."""
        return sum(result.verdict is CheckVerdict.PASS for result in self.outcomes)

    @property
    def total(self) -> int:
        """The number of checks."""
        return len(self.outcomes)

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The 95 % Wilson interval of the share that passed."""
        return wilson(self.passed, self.total)

    @property
    def is_certified(self) -> bool:
        """Whether enough of them passed."""
        return bool(self.total) and reaches(self.passed / self.total, MIN_PASS_SHARE)

    @property
    def undecided_count(self) -> int:
        """The number of checks without an answer, or not counted because a guard got no answer."""
        verdicts = {result.check.name: result.verdict for result in self.outcomes}
        is_open = {CheckVerdict.ERROR}
        if CheckVerdict.FAIL not in map(verdicts.get, GUARD_CHECKS):
            is_open.add(CheckVerdict.NOT_COUNTED)
        return sum(verdict in is_open for verdict in verdicts.values())

    @property
    def is_measured(self) -> bool:
        """Whether the result is the same whatever the missing answers would be."""
        return self.is_certified or not reaches(
            (self.passed + self.undecided_count) / self.total, MIN_PASS_SHARE
        )


def score_checks(checks: Sequence[ConformanceCheck], replies: Sequence[Sequence[Reply]]) -> Conformance:
    """Scores the replies to all checks.

    Args:
        checks: the checks.
        replies: the replies of each check, in the order of its questions.
    """
    results = [
        _grade_check(check, tuple(check_replies))
        for check, check_replies in zip(checks, replies, strict=True)
    ]
    passing = {result.check.name for result in results if result.verdict is CheckVerdict.PASS}
    failures = [name for name in GUARD_CHECKS if name not in passing]
    if failures:
        results = [_discount(result, failures) for result in results]
    return Conformance(outcomes=tuple(results))


def _grade_check(check: ConformanceCheck, replies: tuple[Reply, ...]) -> CheckOutcome:
    error = find_missing_answer(check.questions, replies)
    if error is not None:
        return CheckOutcome(check=check, replies=replies, verdict=CheckVerdict.ERROR, reason=error)
    reason = check.rule(check.questions, replies)
    if reason is None:
        return CheckOutcome(check=check, replies=replies, verdict=CheckVerdict.PASS)
    pairs = zip(check.questions, replies, strict=True)
    if any(reply.is_truncated and question.max_tokens is None for question, reply in pairs):
        reason = f"cut off: {reason}"
    return CheckOutcome(check=check, replies=replies, verdict=CheckVerdict.FAIL, reason=reason)


def _discount(result: CheckOutcome, failures: Sequence[str]) -> CheckOutcome:
    if not result.check.needs_guards or result.verdict is not CheckVerdict.PASS:
        return result
    names = " and ".join(filter(None, (", ".join(failures[:-1]), failures[-1])))
    reason = f"any answer would do; {names} did not pass"
    return replace(result, verdict=CheckVerdict.NOT_COUNTED, reason=reason)
