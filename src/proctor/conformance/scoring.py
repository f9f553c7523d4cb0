"""Scores a target by its replies: which checks passed, and which of them count. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from proctor.conformance.checks import ConformanceCheck
from proctor.conformance.expectations import Reply, find_missing_answer
from proctor.model import GateMode
from proctor.run_gate import GateDecision, decide_gate
from proctor.stats import clopper_pearson, wilson

GUARD_CHECKS = ("arithmetic", "system prompt", "JSON mode")
"""Unless these pass, checks that one fixed answer could pass are not counted."""
MIN_PASS_SHARE = 0.8
"""The share of the checks that must pass for a certificate."""
INTERVAL_ROUNDS = 3
"""The default number of rounds in the mode `interval`: one shows too little even if every check passes."""


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
    """Why it failed, or does not count."""
    round: int = 1
    """The round of the checks that it belongs to, from 1."""

    @property
    def latency_ms(self) -> float | None:
        """The mean latency of its answers; None without answers."""
        latencies = [reply.latency_ms for reply in self.replies if reply.text is not None]
        return sum(latencies) / len(latencies) if latencies else None


class Conformance(Struct, frozen=True, kw_only=True):
    """All checks of a target."""

    outcomes: tuple[CheckOutcome, ...]
    gate_mode: GateMode = "point"
    """What is compared with `MIN_PASS_SHARE`: the share that passed, or its 95 % interval."""

    @property
    def passed(self) -> int:
        """The number of checks that passed and count."""
        return sum(result.verdict is CheckVerdict.PASS for result in self.outcomes)

    @property
    def total(self) -> int:
        """The number of checks."""
        return len(self.outcomes)

    @property
    def rounds(self) -> int:
        """The number of rounds of all checks."""
        return max((result.round for result in self.outcomes), default=0)

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The 95 % Wilson interval of the share that passed."""
        return wilson(self.passed, self.total)

    @property
    def gate_range(self) -> tuple[float, float]:
        """The least and the largest share that count: if no undecided check had passed, and if all had.

        In the mode `interval` these are the lower and the upper end of their exact intervals.
        """
        if not self.total:
            return 0.0, 0.0
        most = self.passed + self.undecided_count
        if self.gate_mode == "point":
            return self.passed / self.total, most / self.total
        low, high = clopper_pearson(self.passed, self.total), clopper_pearson(most, self.total)
        return (low or (0.0, 1.0))[0], (high or (0.0, 1.0))[1]

    @property
    def decision(self) -> GateDecision:
        """Whether it is shown that enough checks pass, or ruled out."""
        return decide_gate(*self.gate_range, MIN_PASS_SHARE)

    @property
    def is_certified(self) -> bool:
        """Whether enough of them passed."""
        return self.decision is GateDecision.SHOWN

    @property
    def undecided_count(self) -> int:
        """The number of checks without an answer, or not counted because a guard got no answer."""
        return sum(
            _count_undecided([result for result in self.outcomes if result.round == number])
            for number in {result.round for result in self.outcomes}
        )

    @property
    def is_measured(self) -> bool:
        """Whether the result is the same whatever the missing answers would be."""
        return self.decision is not GateDecision.NOT_SHOWN


def _count_undecided(outcomes: Sequence[CheckOutcome]) -> int:
    """Returns how many checks of one round have no answer, or are not counted as a guard got none."""
    verdicts = {result.check.name: result.verdict for result in outcomes}
    is_open = {CheckVerdict.ERROR}
    if CheckVerdict.FAIL not in map(verdicts.get, GUARD_CHECKS):
        is_open.add(CheckVerdict.NOT_COUNTED)
    return sum(verdict in is_open for verdict in verdicts.values())


def join_rounds(rounds: Sequence[Conformance], gate_mode: GateMode) -> Conformance:
    """Returns several rounds of all checks as one result.

    Args:
        rounds: the rounds, each with questions of its own.
        gate_mode: what is compared with `MIN_PASS_SHARE`.
    """
    outcomes = [
        replace(result, round=number)
        for number, conformance in enumerate(rounds, 1)
        for result in conformance.outcomes
    ]
    return Conformance(outcomes=tuple(outcomes), gate_mode=gate_mode)


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
    reason = f"any answer would pass; {names} failed"
    return replace(result, verdict=CheckVerdict.NOT_COUNTED, reason=reason)
