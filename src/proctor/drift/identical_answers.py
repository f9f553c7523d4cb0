"""How many answers of two runs are identical, and how many would be if nothing had changed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import fsum
from typing import Literal

from msgspec import Struct

from proctor.drift.observations import Held, Seen
from proctor.model import Run
from proctor.stats import reaches, wilson

STABLE, WATCH = 0.95, 0.80
"""The least shares of identical answers of these names. Source: the published rule of dialect pramana."""

Level = Literal["stable", "watch", "drifting"]


class Sameness(Struct, frozen=True):
    """How many cases got identical answers; one that was asked several times counts by its share."""

    identical: float
    cases: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.identical / self.cases

    @property
    def ci95(self) -> tuple[float, float]:
        """The Wilson interval of the share, over cases."""
        return wilson(self.identical, self.cases) or (0.0, 1.0)

    @property
    def level(self) -> Level:
        """What a share of identical answers is called."""
        if reaches(self.share, STABLE):
            return "stable"
        return "watch" if reaches(self.share, WATCH) else "drifting"


def _shares(earlier: Held, later: Held) -> dict[int, float]:
    """By case, how many of the answers that both runs have are identical, each repeat beside its own."""
    case_numbers = earlier.places.case_of
    common: dict[int, int] = defaultdict(int)
    same: dict[int, int] = defaultdict(int)
    for place, (mine, others) in enumerate(zip(earlier.answers, later.answers, strict=False)):
        if mine and others:
            common[case_numbers[place]] += 1
            same[case_numbers[place]] += mine == others
    return {case: same[case] / count for case, count in common.items()}


def sameness(earlier: Held, later: Held) -> Sameness | None:
    """How many cases have identical answers in both runs; None without any case that both have."""
    shares = _shares(earlier, later)
    return Sameness(min(len(shares), fsum(shares.values())), len(shares)) if shares else None


def within(observation: Seen) -> Sameness | None:
    """How many pairs of repeats of a case are identical, on average over the cases with several."""
    answers: dict[int, list[int]] = defaultdict(list)
    for place, answer in enumerate(observation.answers):
        if answer:
            answers[observation.places.case_of[place]].append(answer)
    shares = [_pairs(case_answers) for case_answers in answers.values() if len(case_answers) > 1]
    return Sameness(min(len(shares), fsum(shares)), len(shares)) if shares else None


def _pairs(answers: Sequence[int]) -> float:
    alike = sum(count * (count - 1) for count in Counter(answers).values())
    return alike / (len(answers) * (len(answers) - 1))


def repeated(series: Sequence[Seen]) -> list[Sameness]:
    """Returns, for each run whose repeats show it, how identical two answers to one prompt are.

    It is measured within a run, so that no change from one run to another can affect it.
    """
    return [
        same
        for observation in series
        if repeats_tell(observation.run) and (same := within(observation)) is not None
    ]


def usual(repeats: Sequence[Sameness]) -> Sameness | None:
    """The first of them, or that which at least half of them reach: the more identical of the two."""
    if not repeats:
        return None
    middle = sorted(repeats, key=_share)[len(repeats) // 2]
    return max(repeats[0], middle, key=_share)


def repeats_tell(run: Run) -> bool:
    """Whether repeats of a run were asked the same: those of a seeded target have seeds of their own.

    They matter unless it is asked at temperature 0.
    """
    return run.target.params.seed is None or run.target.params.temperature == 0


def _share(same: Sameness) -> float:
    return same.share
