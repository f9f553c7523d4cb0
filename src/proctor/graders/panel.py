"""What several judgments of one answer come to together: a majority, how far they agree, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import CannotScore
from proctor.graders.text import clip
from proctor.model import Entry, Judgment, Mark


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
    reading: Reading | None
    problem: str
    """Why there is no reading, as a sentence."""
    judgments: tuple[Judgment, ...]
    """One for each reply, the unreadable ones too."""


def decided(opinions: Sequence[Opinion]) -> Mark:
    """The mark of what more than half of all that were asked for say.

    The value is the median of theirs. Evidence and details are those of the judgment of the majority whose
    value is nearest to it. Where only judgments with a gate make the majority one, the value is 0, and the
    gate and all evidence are theirs. `agreement` is the share of all opinions, the unreadable ones too, that
    the majority has; one opinion alone agrees with nobody and has none.

    Raises:
        CannotScore: there is no such majority.
    """
    judgments = _numbered(opinions)
    readings = [(opinion.judge, opinion.reading) for opinion in opinions if opinion.reading is not None]
    in_favour = sum(reading.passed for _, reading in readings)
    against = len(readings) - in_favour
    passed = in_favour * 2 > len(opinions)
    if not passed and against * 2 <= len(opinions):
        raise CannotScore(_no_majority(opinions, in_favour, against), judgments)
    agreeing = [pair for pair in readings if pair[1].passed is passed]
    ungated = [pair for pair in agreeing if pair[1].gate is None]
    gated = len(ungated) * 2 <= len(opinions)
    value = 0.0 if gated else median(reading.value for _, reading in readings)
    telling = [pair for pair in agreeing if pair not in ungated] if gated else ungated
    judge, nearest = min(telling, key=lambda pair: abs(pair[1].value - value))
    said = f"The judge {judge!r} {nearest.said}"
    details = dict(nearest.details)
    scores = [reading.score for _, reading in readings if reading.score is not None]
    if scores:
        details["score"] = median(scores)
    if len(opinions) > 1:
        share = len(agreeing) / len(opinions)
        verb = "pass" if passed else "fail"
        count = f"{len(agreeing)} of {len(opinions)} {_noun(opinions)} {verb} it"
        said = f"{count} (agreement {share:.2f}); {judge!r} {nearest.said}"
        details |= {"agreement": round(share, 2), "judgments": len(opinions)}
    feedback = f": {clip(' '.join(nearest.feedback.split()), 300)}" if nearest.feedback else "."
    return Mark(
        value=value,
        passed=passed,
        reason=said + feedback,
        entries=nearest.entries,
        judgments=judgments,
        details=details,
        gate=nearest.gate,
    )


def _no_majority(opinions: Sequence[Opinion], in_favour: int, against: int) -> str:
    problems = [opinion.problem for opinion in opinions if opinion.problem]
    if len(opinions) > 1:
        unread = len(opinions) - in_favour - against
        split = f"{in_favour} for, {against} against" + (f", {unread} without a verdict" if unread else "")
        problems.insert(0, f"The {len(opinions)} {_noun(opinions)} have no majority: {split}.")
    return " ".join(dict.fromkeys(problems))


def _noun(opinions: Sequence[Opinion]) -> str:
    """What is counted: judges, or their judgments where one was asked more than once."""
    return "judges" if len({opinion.judge for opinion in opinions}) == len(opinions) else "judgments"


def _numbered(opinions: Sequence[Opinion]) -> tuple[Judgment, ...]:
    """Every judgment, counted for each judge from 0."""
    counts: dict[str, int] = {}
    numbered = []
    for judgment in (judgment for opinion in opinions for judgment in opinion.judgments):
        nth = counts.get(judgment.judge, 0)
        counts[judgment.judge] = nth + 1
        numbered.append(replace(judgment, nth=nth))
    return tuple(numbered)
