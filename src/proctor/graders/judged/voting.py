"""Combines several judgments of one answer into one result, by a rule, with their agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import CannotScore
from proctor.graders.text import clip
from proctor.model import Evidence, GraderResult, JudgeRule, Judgment

PanelRule = JudgeRule | Literal["mean"]
"""A rule of the run, or `mean`, which only an assertion can have."""


class JudgeReading(Struct, frozen=True, kw_only=True):
    """The content of a judge's readable reply."""

    value: float
    """From 0 to 1."""
    passed: bool
    clause: str
    """The verdict as a clause, such as `said YES`."""
    feedback: str | None = None
    score: float | None = None
    """On the rubric's own scale, if there is one."""
    entries: tuple[Evidence, ...] = ()
    details: dict[str, Any] = {}
    gate: float | None = None
    """As `GraderResult.gate`."""


class Vote(Struct, frozen=True, kw_only=True):
    """The result of one call to a judge."""

    judge: str
    """The judge's name."""
    evaluator: str | None = None
    """The name of the suite's own prompt, if it has one."""
    reading: JudgeReading | None
    problem: str
    """Why there is no reading, as a sentence."""
    judgments: tuple[Judgment, ...]
    """One per reply, including unreadable ones."""


class VoteCount(Struct, frozen=True, kw_only=True):
    """How many votes are for the answer, against it and unreadable, and the rule that decides."""

    rule: PanelRule
    in_favour: int
    against: int
    unreadable: int

    @property
    def total(self) -> int:
        """The number of votes."""
        return self.in_favour + self.against + self.unreadable

    @property
    def decision(self) -> bool | None:
        """Whether the answer passes, whatever the unreadable votes would say; None if that is open."""
        match self.rule:
            case "all":
                passes, fails = self.in_favour == self.total, self.against > 0
            case "any":
                passes, fails = self.in_favour > 0, self.against == self.total
            case "majority":
                passes, fails = self.in_favour * 2 > self.total, self.against * 2 > self.total
            case "mean":  # half of them are not enough
                passes, fails = self.in_favour * 2 > self.total, self.against * 2 >= self.total
        return True if passes else False if fails else None

    def is_gated(self, gated: int) -> bool:
        """Whether a failing answer fails by a gate, if this many of the votes against it have one.

        By majority it does unless the votes without a gate are a majority themselves; a mean has no gate.
        """
        match self.rule:
            case "all":
                return gated > 0
            case "any":
                return gated == self.total
            case "majority":
                return (self.against - gated) * 2 <= self.total
            case "mean":
                return False

    @property
    def agreement(self) -> float:
        """The share of all votes that are on the winning side."""
        return (self.in_favour if self.decision else self.against) / self.total

    @property
    def rule_text(self) -> str:
        """The rule in words."""
        words = {"all": "all must pass it", "any": "one pass is enough"}
        return words.get(self.rule, self.rule)

    def combine_values(self, values: list[float]) -> float:
        """Returns the combined value: it reaches a threshold exactly if the values do by the rule."""
        match self.rule:
            case "all":
                return min(values)
            case "any":
                return max(values)
            case "majority":
                return median(values)
            case "mean":
                return fmean(values)


def decide(opinions: Sequence[Vote], rule: PanelRule = "majority") -> GraderResult:
    """Returns the combined result of all votes.

    The value is the median by `majority`, the mean by `mean`, the lowest value by `all` and the highest by
    `any`. Evidence and details are those of the judgment on the winning side whose value is nearest to it. If
    a gate decides, only the judgments with a gate count; otherwise these count as 0. `agreement` is the share
    of all votes, unreadable ones included, on the winning side; a single vote has none.

    Args:
        opinions: one per call, in order.
        rule: how many of them must pass the answer.

    Raises:
        CannotScore: the readable votes do not decide.
    """
    readings = [(opinion, opinion.reading) for opinion in opinions if opinion.reading is not None]
    in_favour = sum(reading.passed for _, reading in readings)
    votes = VoteCount(
        rule=rule,
        in_favour=in_favour,
        against=len(readings) - in_favour,
        unreadable=len(opinions) - len(readings),
    )
    passed = votes.decision
    if passed is None:
        raise CannotScore(_describe_split(opinions, votes), _number_judgments(opinions))
    agreeing = [pair for pair in readings if pair[1].passed is passed]
    with_gate = [pair for pair in agreeing if pair[1].gate is not None]
    if not passed and votes.is_gated(len(with_gate)):
        value, decisive = votes.combine_values([reading.value for _, reading in with_gate]), with_gate
    else:
        value = votes.combine_values(
            [reading.value if reading.gate is None else 0.0 for _, reading in readings]
        )
        decisive = [pair for pair in agreeing if pair[1].gate is None] or agreeing
    spokesman, nearest = min(decisive, key=lambda pair: abs(pair[1].value - value))
    details, scores = dict(nearest.details), [entry.score for _, entry in readings if entry.score is not None]
    if scores:
        details["score"] = votes.combine_values(scores)
    return GraderResult(
        value=value,
        passed=passed,
        reason=_reason(opinions, votes, value, spokesman, nearest),
        entries=nearest.entries,
        judgments=_number_judgments(opinions),
        details=details | _vote_details(votes),
        gate=nearest.gate,
    )


def _reason(
    opinions: Sequence[Vote], votes: VoteCount, value: float, spokesman: Vote, nearest: JudgeReading
) -> str:
    """Returns the counts, the rule, and the reason of the judgment whose value is nearest."""
    spoken = f"{_describe_voter(spokesman)} {nearest.clause}"
    if votes.total == 1:
        spoken = f"The judge {spoken}"
    elif votes.rule == "mean":
        figures = f"(mean {value:.2f}, agreement {votes.agreement:.0%})"
        spoken = f"{votes.in_favour} of {votes.total} {_votes_noun(opinions)} pass it {figures}; {spoken}"
    else:
        count, verb = (votes.in_favour, "pass") if votes.decision else (votes.against, "fail")
        spoken = f"{count} of {votes.total} {_votes_noun(opinions)} {verb} it ({votes.rule_text}); {spoken}"
    return spoken + (f": {clip(' '.join(nearest.feedback.split()), 300)}" if nearest.feedback else ".")


def _vote_details(votes: VoteCount) -> dict[str, Any]:
    """Returns the rule and the counts for the details; empty for a single vote."""
    if votes.total == 1:
        return {}
    return {
        "rule": votes.rule,
        "for": votes.in_favour,
        "against": votes.against,
        "unread": votes.unreadable,
        "agreement": round(votes.agreement, 2),
        "judgments": votes.total,
    }


def _describe_split(opinions: Sequence[Vote], votes: VoteCount) -> str:
    problems = [opinion.problem for opinion in opinions if opinion.problem]
    if votes.total > 1:
        split = f"{votes.in_favour} for, {votes.against} against"
        split += f", {votes.unreadable} without a verdict" if votes.unreadable else ""
        what = "have no majority" if votes.rule == "majority" else f"do not decide it ({votes.rule_text})"
        problems.insert(0, f"The {votes.total} {_votes_noun(opinions)} {what}: {split}.")
    return " ".join(dict.fromkeys(problems))


def _describe_voter(opinion: Vote) -> str:
    return repr(opinion.judge) + (f" by {opinion.evaluator!r}" if opinion.evaluator else "")


def _votes_noun(opinions: Sequence[Vote]) -> str:
    """Returns the noun to count: judges, or judgments if a judge was called more than once."""
    return "judges" if len({opinion.judge for opinion in opinions}) == len(opinions) else "judgments"


def _number_judgments(opinions: Sequence[Vote]) -> tuple[Judgment, ...]:
    """Returns all judgments, numbered from 0 for each judge and evaluator."""
    counts: Counter[tuple[str, str | None]] = Counter()
    numbered = []
    for judgment in (judgment for opinion in opinions for judgment in opinion.judgments):
        judge_key = (judgment.judge, judgment.evaluator)
        numbered.append(replace(judgment, nth=counts[judge_key]))
        counts[judge_key] += 1
    return tuple(numbered)
