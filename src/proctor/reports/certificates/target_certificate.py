"""Renders the results of a target's 14 checks as a document, plain data and a badge. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct

from proctor.codec import target_digest
from proctor.conformance import MIN_PASS_SHARE, CheckOutcome, CheckVerdict, Conformance, Question, Reply
from proctor.model import TargetSpec
from proctor.plurals import pluralize
from proctor.reports.certificates.badge import Badge
from proctor.reports.document import Block, Column, Heading, Image, Paragraph, Table
from proctor.reports.formatting import cost, format_utc, interval, percent
from proctor.run_gate import GateDecision
from proctor.safe_text import truncate
from proctor.stats import point_gate_errors

VERSION = 1
"""The version of the fields of `to_dict`."""
_MAX_REASON_LENGTH = 110
_MAX_NAMED_CHECKS = 3
"""At most this many failed checks are named in the badge's title."""


class TargetReport(Struct, frozen=True, kw_only=True):
    """A target with the results of its checks and the parameters of the calls."""

    target: TargetSpec
    conformance: Conformance
    seed: int
    max_latency_s: float
    """The maximum mean latency that passes."""
    at: datetime
    proctor: str
    """The version of Proctor that made the calls."""

    @property
    def models(self) -> list[str]:
        """The models that the endpoint reported, sorted."""
        return sorted({reply.model for reply in _replies(self.conformance) if reply.model})

    @property
    def cost_usd(self) -> float | None:
        """The cost of all answers; None if any price is unknown."""
        costs = [reply.cost_usd for reply in _replies(self.conformance) if reply.text is not None]
        return None if None in costs else sum(filter(None, costs))


def document_for(report: TargetReport, badge: Image | None = None) -> Iterator[Block]:
    """Yields the result of each check, and whether the target is certified."""
    other_models = ", ".join(set(report.models) - {report.target.model})
    yield Heading(report.target.name + (f" ({other_models})" if other_models else ""))
    if badge is not None:
        yield badge
    has_rounds = report.conformance.rounds > 1
    yield Table(
        columns=(
            Column("verdict", "verdict", 12),
            *((Column("round"),) if has_rounds else ()),
            Column("check", width=14),
            Column("latency", "milliseconds", 8),
            Column("reason"),
        ),
        rows=[
            (
                result.verdict.value,
                *((str(result.round),) if has_rounds else ()),
                result.check.name,
                result.latency_ms,
                truncate(result.reason, _MAX_REASON_LENGTH),
            )
            for result in report.conformance.outcomes
        ],
    )
    yield Paragraph(_verdict_sentence(report.conformance))
    if report.conformance.gate_mode == "point":
        yield Paragraph(_errors_sentence(report.conformance.total))
    calls = sum(1 for _ in _replies(report.conformance))
    requests = f"{calls} requests with seed {report.seed} on {report.at:%Y-%m-%d}"
    yield Paragraph(f"{requests} · cost {cost(report.cost_usd)}")


def _verdict_sentence(conformance: Conformance) -> str:
    share = conformance.passed / conformance.total
    sure = f"{percent(share)}, 95 % interval {interval(conformance.ci95)}"
    summary = f"{conformance.passed} of {conformance.total} checks passed ({sure})"
    if conformance.gate_mode == "interval":
        return _interval_sentence(conformance, summary)
    if not conformance.is_measured:
        return (
            f"Not measured: checks without an answer ({conformance.undecided_count}) could change the "
            f"result. {summary}."
        )
    if conformance.is_certified:
        return f"Certified: {summary}."
    return f"Not certified: {summary}, but at least {MIN_PASS_SHARE:.0%} must pass."


def _interval_sentence(conformance: Conformance, summary: str) -> str:
    bar, (low, high) = f"{MIN_PASS_SHARE:.0%}", conformance.gate_range
    exact = f"the exact 95 % interval is {percent(low)} to {percent(high)}"
    if conformance.undecided_count:
        exact += (
            f", whatever the results of {pluralize(conformance.undecided_count, 'check')} without an answer"
        )
    ends = {
        GateDecision.SHOWN: f"Certified, because it is shown that at least {bar} pass",
        GateDecision.NOT_SHOWN: "Not certified, because it is neither shown nor ruled out that at least "
        f"{bar} pass",
        GateDecision.RULED_OUT: f"Not certified, because it is ruled out that at least {bar} pass",
    }
    advice = " Use more --rounds to decide it." if conformance.decision is GateDecision.NOT_SHOWN else ""
    return f"{ends[conformance.decision]}: {exact}. {summary}.{advice}"


def _errors_sentence(checks: int) -> str:
    """Returns how often a share of `checks` checks decides wrongly."""
    errors = point_gate_errors(checks, MIN_PASS_SHARE)
    return (
        f"With {checks} checks, a target that passes {errors.below:.0%} of such checks is certified in "
        f"{errors.false_passes:.0%} of tries, and one that passes {errors.above:.0%} is refused in "
        f"{errors.false_failures:.0%}. With `--gate-mode interval`, the whole 95 % interval "
        f"must reach {MIN_PASS_SHARE:.0%}."
    )


def to_dict(report: TargetReport) -> dict[str, Any]:
    """Returns everything as plain data, with each question and answer; the keys are a contract."""
    conformance = report.conformance
    return {
        "proctor_certificate": VERSION,
        "of": "target",
        "certified": conformance.is_certified,
        "target": report.target.name,
        "target_digest": target_digest(report.target),
        "models": report.models,
        "at": format_utc(report.at),
        "seed": report.seed,
        "max_latency_s": report.max_latency_s,
        "proctor": report.proctor,
        "passed": conformance.passed,
        "total": conformance.total,
        "share": conformance.passed / conformance.total,
        "ci95": None if conformance.ci95 is None else list(conformance.ci95),
        "bar": MIN_PASS_SHARE,
        "gate_mode": conformance.gate_mode,
        "decision": conformance.decision.value,
        "rounds": conformance.rounds,
        "cost_usd": report.cost_usd,
        "checks": [_check_data(result) for result in conformance.outcomes],
    }


def _check_data(result: CheckOutcome) -> dict[str, Any]:
    return {
        "check": result.check.name,
        "round": result.round,
        "verdict": result.verdict.value,
        "reason": result.reason,
        "guarded": result.check.needs_guards,
        "latency_ms": result.latency_ms,
        "questions": [
            _question_data(question, reply)
            for question, reply in zip(result.check.questions, result.replies, strict=True)
        ],
    }


def _question_data(question: Question, reply: Reply) -> dict[str, Any]:
    return {
        "asked": [{"role": message.role, "content": message.content} for message in question.messages],
        "json": question.json_answer,
        "temperature": question.temperature,
        "max_tokens": question.max_tokens,
        "wanted": question.expected.description,
        "answered": reply.text,
        "error": reply.error or None,
        "latency_ms": None if reply.text is None else reply.latency_ms,
        "cost_usd": reply.cost_usd,
    }


def make_badge(report: TargetReport, link: str | None) -> Badge:
    """Returns a badge with the number of passed checks."""
    conformance = report.conformance
    words = {
        GateDecision.SHOWN: "certified",
        GateDecision.NOT_SHOWN: "not measured" if conformance.gate_mode == "point" else "not shown",
        GateDecision.RULED_OUT: "not certified",
    }
    word = words[conformance.decision]
    missed = [result.check.name for result in conformance.outcomes if result.verdict is not CheckVerdict.PASS]
    missed_text = f"; without {', '.join(missed)}" if 0 < len(missed) <= _MAX_NAMED_CHECKS else ""
    return Badge(
        label=report.target.name,
        message=f"target {conformance.passed}/{conformance.total} · {word}",
        rate=conformance.passed / conformance.total if conformance.is_measured else None,
        grey_reason="Grey: too many checks have no answer."
        if conformance.gate_mode == "point"
        else "Grey: too few checks to show it.",
        title=f"{report.target.name}: {conformance.passed} of {conformance.total} checks passed, "
        f"{word}{missed_text}",
        link=link,
    )


def _replies(conformance: Conformance) -> Iterator[Reply]:
    for result in conformance.outcomes:
        yield from result.replies
