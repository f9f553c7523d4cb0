"""Replies to the score of a target: what passed, and what of it counts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from proctor.conformance.checks import Check
from proctor.conformance.expectations import Reply, unanswered
from proctor.stats import reaches, wilson

GUARDS = ("arithmetic", "system prompt", "JSON mode")
"""Unless these pass, a check that one answer to everything could satisfy is not counted."""
BAR = 0.8
"""The share of the checks that has to pass for a certificate."""


class CheckVerdict(StrEnum):
    """What a check came to."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    NOT_COUNTED = "not counted"


class Checked(Struct, frozen=True, kw_only=True):
    """One check with what it came to."""

    check: Check
    replies: tuple[Reply, ...]
    verdict: CheckVerdict
    reason: str = ""
    """Why it did not pass, or does not count."""

    @property
    def latency_ms(self) -> float | None:
        """The mean latency of its answers; None without any."""
        answered = [reply.latency_ms for reply in self.replies if reply.text is not None]
        return sum(answered) / len(answered) if answered else None


class Conformance(Struct, frozen=True, kw_only=True):
    """All checks of a target."""

    checked: tuple[Checked, ...]

    @property
    def passed(self) -> int:
        """How many passed and count."""
        return sum(one.verdict is CheckVerdict.PASS for one in self.checked)

    @property
    def total(self) -> int:
        """How many there are, whatever they came to."""
        return len(self.checked)

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The 95 % Wilson interval of the share that passed."""
        return wilson(self.passed, self.total)

    @property
    def is_certified(self) -> bool:
        """Whether enough of them passed."""
        return bool(self.total) and reaches(self.passed / self.total, BAR)

    @property
    def undecided(self) -> int:
        """How many checks got no answer, or do not count since one of the guards got none."""
        came_to = {one.check.name: one.verdict for one in self.checked}
        is_open = {CheckVerdict.ERROR}
        if CheckVerdict.FAIL not in map(came_to.get, GUARDS):
            is_open.add(CheckVerdict.NOT_COUNTED)
        return sum(verdict in is_open for verdict in came_to.values())

    @property
    def is_measured(self) -> bool:
        """Whether what it came to holds, whatever the answers that are missing would have been."""
        return self.is_certified or not reaches((self.passed + self.undecided) / self.total, BAR)


def conformance(checks: Sequence[Check], replies: Sequence[Sequence[Reply]]) -> Conformance:
    """What each check came to, and which of them count.

    Args:
        checks: the checks.
        replies: those of each check, in the order of its questions.
    """
    checked = [_judged(check, tuple(got)) for check, got in zip(checks, replies, strict=True)]
    passed = {one.check.name for one in checked if one.verdict is CheckVerdict.PASS}
    missed = [name for name in GUARDS if name not in passed]
    if missed:
        checked = [_discounted(one, missed) for one in checked]
    return Conformance(checked=tuple(checked))


def _judged(check: Check, replies: tuple[Reply, ...]) -> Checked:
    error = unanswered(check.questions, replies)
    if error is not None:
        return Checked(check=check, replies=replies, verdict=CheckVerdict.ERROR, reason=error)
    reason = check.rule(check.questions, replies)
    if reason is None:
        return Checked(check=check, replies=replies, verdict=CheckVerdict.PASS)
    pairs = zip(check.questions, replies, strict=True)
    if any(reply.is_cut and question.max_tokens is None for question, reply in pairs):
        reason = f"cut off: {reason}"
    return Checked(check=check, replies=replies, verdict=CheckVerdict.FAIL, reason=reason)


def _discounted(checked: Checked, missed: Sequence[str]) -> Checked:
    if not checked.check.guarded or checked.verdict is not CheckVerdict.PASS:
        return checked
    names = " and ".join(filter(None, (", ".join(missed[:-1]), missed[-1])))
    reason = f"any answer would do; {names} did not pass"
    return replace(checked, verdict=CheckVerdict.NOT_COUNTED, reason=reason)
