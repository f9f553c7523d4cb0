"""Shares of identical answers, between runs and among the repeats of one run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Literal

from msgspec import Struct

from proctor.drift.observations import ObservationRows, RunObservation, TrialPlaces
from proctor.model import Run
from proctor.stats import clustered_wilson, reaches, wilson

STABLE_SHARE, WATCH_SHARE = 0.95, 0.80
"""The lowest shares of identical answers for these levels. Source: the published rule of dialect pramana."""

SimilarityLevel = Literal["stable", "watch", "drifting"]


class IdenticalShare(Struct, frozen=True):
    """The number of cases with identical answers; a case with repeats counts by its share."""

    identical: float
    cases: int
    groups: tuple[tuple[float, int, int], ...] = ()
    """The clusters of related cases: the sum of the shares of a cluster's cases, their number, and how many
    such clusters there are. Empty if the cases are independent."""

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.identical / self.cases

    @property
    def ci95(self) -> tuple[float, float]:
        """The Wilson interval of the share, over clusters if cases are related: `clustered_wilson`."""
        if self.groups:
            return clustered_wilson(self.groups, self.cases) or (0.0, 1.0)
        return wilson(self.identical, self.cases) or (0.0, 1.0)

    @property
    def clusters(self) -> int | None:
        """The number of clusters of related cases, which the interval is over; None without any."""
        return sum(count for *_, count in self.groups) or None

    @property
    def level(self) -> SimilarityLevel:
        """The level of the share."""
        if reaches(self.share, STABLE_SHARE):
            return "stable"
        return "watch" if reaches(self.share, WATCH_SHARE) else "drifting"


def _shares_by_case(earlier: ObservationRows, later: ObservationRows) -> dict[int, float]:
    """Returns by case the share of identical answers, comparing each repeat with the same repeat."""
    case_numbers = earlier.places.case_numbers
    common: dict[int, int] = defaultdict(int)
    same: dict[int, int] = defaultdict(int)
    for place, (answer, later_answer) in enumerate(zip(earlier.answers, later.answers, strict=False)):
        if answer and later_answer:
            common[case_numbers[place]] += 1
            same[case_numbers[place]] += answer == later_answer
    return {case: same[case] / count for case, count in common.items()}


def identical_share(earlier: ObservationRows, later: ObservationRows) -> IdenticalShare | None:
    """Returns the share of identical answers of two runs; None if they have no case in common."""
    return _sum_shares(_shares_by_case(earlier, later), later.places)


def _sum_shares(shares: Mapping[int, float], places: TrialPlaces) -> IdenticalShare | None:
    """Returns the share over cases, of which each has its own."""
    if not shares:
        return None
    clusters, cases = places.sum_clusters(shares), len(shares)
    counts = Counter(clusters) if len(clusters) < cases else {}
    groups = tuple([(*cluster, count) for cluster, count in sorted(counts.items())])
    return IdenticalShare(min(cases, fsum(shares.values())), cases, groups)


def share_within_run(observation: RunObservation) -> IdenticalShare | None:
    """Returns the share of identical pairs of repeats, on average over cases with repeats."""
    answers: dict[int, list[int]] = defaultdict(list)
    for place, answer in enumerate(observation.answers):
        if answer:
            answers[observation.places.case_numbers[place]].append(answer)
    shares = {
        case: _identical_pair_share(case_answers)
        for case, case_answers in answers.items()
        if len(case_answers) > 1
    }
    return _sum_shares(shares, observation.places)


def _identical_pair_share(answers: Sequence[int]) -> float:
    alike = sum(count * (count - 1) for count in Counter(answers).values())
    return alike / (len(answers) * (len(answers) - 1))


def shares_within_runs(series: Sequence[RunObservation]) -> list[IdenticalShare]:
    """Returns, for each run whose repeats show it, how identical two answers to one prompt are.

    It is measured within a run, so that no change from one run to another can affect it.
    """
    return [
        same
        for observation in series
        if repeats_show_noise(observation.run) and (same := share_within_run(observation)) is not None
    ]


def usual_share(repeats: Sequence[IdenticalShare]) -> IdenticalShare | None:
    """Returns the larger of the first share and the median share."""
    if not repeats:
        return None
    middle = sorted(repeats, key=_share)[len(repeats) // 2]
    return max(repeats[0], middle, key=_share)


def repeats_show_steadiness(repeats: Sequence[IdenticalShare]) -> bool:
    """Returns whether a target repeats its answers: in each run, and beyond doubt in all runs together.

    That takes 16 pairs: of three cases, all are identical in one run of a target that rewords a tenth of its
    answers more often than not. The pairs of a cluster in one run count as one, if all are identical.
    """
    together = IdenticalShare(
        fsum(same.identical for same in repeats),
        sum(same.cases for same in repeats),
        tuple([group for same in repeats for group in same.groups]),
    )
    return all(same.level == "stable" for same in repeats) and together.ci95[0] > WATCH_SHARE


def repeats_show_noise(run: Run) -> bool:
    """Returns whether all repeats of a run sent the same request.

    Repeats of a seeded target have different seeds, which matter unless the temperature is 0.
    """
    return run.target.params.seed is None or run.target.params.temperature == 0


def _share(same: IdenticalShare) -> float:
    return same.share
