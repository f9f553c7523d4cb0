"""What the 14 checks of a target came to, as text, as plain data, as Markdown and as a badge. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct

from proctor.codec import target_digest
from proctor.conformance import BAR, Checked, CheckVerdict, Conformance, Question, Reply
from proctor.model import TargetSpec
from proctor.reports.certificates.badge import Badge, escaped
from proctor.reports.formatting import cost, interval, milliseconds, percent, utc
from proctor.safe_text import cut, one_line

VERSION = 1
"""Of the fields of `data`."""
_REASON = 110
_NAMED = 3
"""So many checks that did not pass are named in the badge's title."""


class CheckedTarget(Struct, frozen=True, kw_only=True):
    """A target with what its checks came to, and what they were asked with."""

    target: TargetSpec
    found: Conformance
    seed: int
    longest_s: float
    """The longest mean latency that passes."""
    at: datetime
    proctor: str
    """The version that asked."""

    @property
    def models(self) -> list[str]:
        """The models that the endpoint reported, sorted."""
        return sorted({reply.model for reply in _replies(self.found) if reply.model})

    @property
    def cost_usd(self) -> float | None:
        """What all answers cost; None as soon as one price is unknown."""
        costs = [reply.cost_usd for reply in _replies(self.found) if reply.text is not None]
        return None if None in costs else sum(filter(None, costs))


def lines(checked: CheckedTarget) -> Iterator[str]:
    """All that a terminal shows."""
    reported = ", ".join(set(checked.models) - {checked.target.model})
    yield one_line(checked.target.name + (f" ({reported})" if reported else ""))
    yield ""
    yield f"{'verdict':<12}  {'check':<14}  {'latency':>8}  reason"
    for one in checked.found.checked:
        reason = cut(one.reason, _REASON)
        verdict = one.verdict.value.upper()
        yield f"{verdict:<12}  {one.check.name:<14}  {milliseconds(one.latency_ms):>8}  {reason}".rstrip()
    yield ""
    yield _verdict(checked.found)
    calls = sum(1 for _ in _replies(checked.found))
    yield f"{calls} questions with seed {checked.seed} · cost {cost(checked.cost_usd)}"


def _verdict(found: Conformance) -> str:
    share = found.passed / found.total
    sure = f"{percent(share)}, 95 % interval {interval(found.ci95)}"
    counted = f"{found.passed} of {found.total} checks passed ({sure})"
    if not found.is_measured:
        return f"Not measured: checks without an answer ({found.undecided}) could decide it. {counted}."
    if found.is_certified:
        return f"Certified: {counted}."
    return f"Not certified: {counted}, and {BAR:.0%} have to."


def data(checked: CheckedTarget) -> dict[str, Any]:
    """All that is known, with every question and answer; the names are a contract."""
    found = checked.found
    return {
        "proctor_certificate": VERSION,
        "of": "target",
        "certified": found.is_certified,
        "target": checked.target.name,
        "target_digest": target_digest(checked.target),
        "models": checked.models,
        "at": utc(checked.at),
        "seed": checked.seed,
        "max_latency_s": checked.longest_s,
        "proctor": checked.proctor,
        "passed": found.passed,
        "total": found.total,
        "share": found.passed / found.total,
        "ci95": None if found.ci95 is None else list(found.ci95),
        "bar": BAR,
        "cost_usd": checked.cost_usd,
        "checks": [_check_data(one) for one in found.checked],
    }


def _check_data(one: Checked) -> dict[str, Any]:
    return {
        "check": one.check.name,
        "verdict": one.verdict.value,
        "reason": one.reason,
        "guarded": one.check.guarded,
        "latency_ms": one.latency_ms,
        "questions": [
            _question_data(question, reply)
            for question, reply in zip(one.check.questions, one.replies, strict=True)
        ],
    }


def _question_data(question: Question, reply: Reply) -> dict[str, Any]:
    return {
        "asked": [{"role": message.role, "content": message.content} for message in question.messages],
        "json": question.json_answer,
        "temperature": question.temperature,
        "max_tokens": question.max_tokens,
        "wanted": question.expected.words,
        "answered": reply.text,
        "error": reply.error or None,
        "latency_ms": None if reply.text is None else reply.latency_ms,
        "cost_usd": reply.cost_usd,
    }


def markdown(checked: CheckedTarget, badge: str | None) -> Iterator[str]:
    """What fits a README.

    Args:
        checked: the target with what was found.
        badge: the Markdown of its badge, if there is one.
    """
    found = checked.found
    yield f"# {escaped(checked.target.name)}: {found.passed} of {found.total} checks\n\n"
    if badge is not None:
        yield f"{badge}\n\n"
    yield f"{_verdict(found)} Asked on {checked.at:%Y-%m-%d} with seed {checked.seed}.\n\n"
    yield "| Check | Verdict | Latency | Reason |\n|---|---|--:|---|\n"
    for one in found.checked:
        cells = (one.check.name, one.verdict.value, milliseconds(one.latency_ms), escaped(one.reason))
        yield f"| {' | '.join(cells)} |\n"


def badge_of(checked: CheckedTarget, link: str | None) -> Badge:
    """Its badge: how many of the checks passed."""
    found = checked.found
    word = "certified" if found.is_certified else "not certified" if found.is_measured else "not measured"
    missed = [one.check.name for one in found.checked if one.verdict is not CheckVerdict.PASS]
    told = f"; without {', '.join(missed)}" if 0 < len(missed) <= _NAMED else ""
    return Badge(
        label=checked.target.name,
        message=f"target {found.passed}/{found.total} · {word}",
        rate=found.passed / found.total if found.is_measured else None,
        grey="Grey: too many checks have no answer.",
        title=f"{checked.target.name}: {found.passed} of {found.total} checks passed, {word}{told}",
        link=link,
    )


def _replies(found: Conformance) -> Iterator[Reply]:
    for one in found.checked:
        yield from one.replies
