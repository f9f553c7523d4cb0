"""What several judgments of one answer come to together by a rule, how far they agree, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import CannotScore
from proctor.graders.text import clip
from proctor.model import Entry, JudgeRule, Judgment, Mark

PanelRule = JudgeRule | Literal["mean"]
"""A rule of the run, or the one that only an assertion can have."""


class Reading(Struct, frozen=True, kw_only=True):
    """What a judge's reply says, once it can be read."""

    value: float
    """From 0 to 1."""
    passed: bool
    said: str
    """The verdict as a clause, such as `said YES`."""
    feedback: str | None = None
    score: float | None = None
    """On the rubric's own scale, where there is one."""
    entries: tuple[Entry, ...] = ()
    details: dict[str, Any] = {}
    gate: float | None = None
    """As `Mark.gate` has it."""


class Opinion(Struct, frozen=True, kw_only=True):
    """What came of asking one judge once."""

    judge: str
    """Its name."""
    evaluator: str | None = None
    """The suite's own prompt by which it was asked, where that has a name."""
    reading: Reading | None
    problem: str
    """Why there is no reading, as a sentence."""
    judgments: tuple[Judgment, ...]
    """One for each reply, the unreadable ones too."""


class Votes(Struct, frozen=True, kw_only=True):
    """How many opinions are for the answer, against it and without a verdict, and the rule that decides."""

    rule: PanelRule
    in_favour: int
    against: int
    unread: int

    @property
    def asked(self) -> int:
        """How many were asked for."""
        return self.in_favour + self.against + self.unread

    @property
    def decision(self) -> bool | None:
        """Whether the answer passes, whatever the unreadable ones would say; None where that is open."""
        match self.rule:
            case "all":
                passes, fails = self.in_favour == self.asked, self.against > 0
            case "any":
                passes, fails = self.in_favour > 0, self.against == self.asked
            case "majority":
                passes, fails = self.in_favour * 2 > self.asked, self.against * 2 > self.asked
            case "mean":  # half of them are not enough
                passes, fails = self.in_favour * 2 > self.asked, self.against * 2 >= self.asked
        return True if passes else False if fails else None

    def is_gated(self, gated: int) -> bool:
        """Whether an answer that fails does so by a gate that so many of those against it have.

        By majority, where those without a gate are not one by themselves; a mean has no gate.
        """
        match self.rule:
            case "all":
                return gated > 0
            case "any":
                return gated == self.asked
            case "majority":
                return (self.against - gated) * 2 <= self.asked
            case "mean":
                return False

    @property
    def agreement(self) -> float:
        """The share of all that were asked for on the winning side."""
        return (self.in_favour if self.decision else self.against) / self.asked

    @property
    def needed(self) -> str:
        """The rule in words."""
        words = {"all": "all must pass it", "any": "one pass is enough"}
        return words.get(self.rule, self.rule)

    def middle(self, values: list[float]) -> float:
        """The value that the rule takes for all: it reaches a bar where, by the rule, the values do."""
        match self.rule:
            case "all":
                return min(values)
            case "any":
                return max(values)
            case "majority":
                return median(values)
            case "mean":
                return fmean(values)


def decided(opinions: Sequence[Opinion], rule: PanelRule = "majority") -> Mark:
    """The mark of all that were asked for.

    The value is the median of theirs, or their mean by that rule; the lowest where all must be for the
    answer, and the highest where one is enough. Evidence and details are those of the judgment on the winning
    side whose value is nearest to it. Where a gate decides, all this is of the judgments that have one;
    elsewhere those count as 0.
    `agreement` is the share of all opinions, the unreadable ones too, on the winning side; one opinion alone
    agrees with nobody and has none.

    Args:
        opinions: one for each time a judge was asked, in order.
        rule: how many of them must be for the answer.

    Raises:
        CannotScore: what can be read does not decide.
    """
    readings = [(opinion, opinion.reading) for opinion in opinions if opinion.reading is not None]
    in_favour = sum(reading.passed for _, reading in readings)
    votes = Votes(
        rule=rule,
        in_favour=in_favour,
        against=len(readings) - in_favour,
        unread=len(opinions) - len(readings),
    )
    passed = votes.decision
    if passed is None:
        raise CannotScore(_undecided(opinions, votes), _numbered(opinions))
    agreeing = [pair for pair in readings if pair[1].passed is passed]
    with_gate = [pair for pair in agreeing if pair[1].gate is not None]
    if not passed and votes.is_gated(len(with_gate)):
        value, decisive = votes.middle([reading.value for _, reading in with_gate]), with_gate
    else:
        value = votes.middle([reading.value if reading.gate is None else 0.0 for _, reading in readings])
        decisive = [pair for pair in agreeing if pair[1].gate is None] or agreeing
    spokesman, nearest = min(decisive, key=lambda pair: abs(pair[1].value - value))
    details, scores = dict(nearest.details), [entry.score for _, entry in readings if entry.score is not None]
    if scores:
        details["score"] = votes.middle(scores)
    return Mark(
        value=value,
        passed=passed,
        reason=_reason(opinions, votes, value, spokesman, nearest),
        entries=nearest.entries,
        judgments=_numbered(opinions),
        details=details | _vote_details(votes),
        gate=nearest.gate,
    )


def _reason(
    opinions: Sequence[Opinion], votes: Votes, value: float, spokesman: Opinion, nearest: Reading
) -> str:
    """How many say so by which rule, and what the one says whose value is nearest."""
    spoken = f"{_name(spokesman)} {nearest.said}"
    if votes.asked == 1:
        spoken = f"The judge {spoken}"
    elif votes.rule == "mean":
        figures = f"(mean {value:.2f}, agreement {votes.agreement:.0%})"
        spoken = f"{votes.in_favour} of {votes.asked} {_noun(opinions)} pass it {figures}; {spoken}"
    else:
        count, verb = (votes.in_favour, "pass") if votes.decision else (votes.against, "fail")
        spoken = f"{count} of {votes.asked} {_noun(opinions)} {verb} it ({votes.needed}); {spoken}"
    return spoken + (f": {clip(' '.join(nearest.feedback.split()), 300)}" if nearest.feedback else ".")


def _vote_details(votes: Votes) -> dict[str, Any]:
    """The rule and the counts as details have them; nothing for one opinion alone."""
    if votes.asked == 1:
        return {}
    return {
        "rule": votes.rule,
        "for": votes.in_favour,
        "against": votes.against,
        "unread": votes.unread,
        "agreement": round(votes.agreement, 2),
        "judgments": votes.asked,
    }


def _undecided(opinions: Sequence[Opinion], votes: Votes) -> str:
    problems = [opinion.problem for opinion in opinions if opinion.problem]
    if votes.asked > 1:
        split = f"{votes.in_favour} for, {votes.against} against"
        split += f", {votes.unread} without a verdict" if votes.unread else ""
        what = "have no majority" if votes.rule == "majority" else f"do not decide it ({votes.needed})"
        problems.insert(0, f"The {votes.asked} {_noun(opinions)} {what}: {split}.")
    return " ".join(dict.fromkeys(problems))


def _name(opinion: Opinion) -> str:
    return repr(opinion.judge) + (f" by {opinion.evaluator!r}" if opinion.evaluator else "")


def _noun(opinions: Sequence[Opinion]) -> str:
    """What is counted: judges, or their judgments where one was asked more than once."""
    return "judges" if len({opinion.judge for opinion in opinions}) == len(opinions) else "judgments"


def _numbered(opinions: Sequence[Opinion]) -> tuple[Judgment, ...]:
    """Every judgment, counted from 0 for each judge and prompt of the suite's own."""
    counts: Counter[tuple[str, str | None]] = Counter()
    numbered = []
    for judgment in (judgment for opinion in opinions for judgment in opinion.judgments):
        judge_key = (judgment.judge, judgment.evaluator)
        numbered.append(replace(judgment, nth=counts[judge_key]))
        counts[judge_key] += 1
    return tuple(numbered)
