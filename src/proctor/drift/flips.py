"""Finds cases of a run that are worse or better than before."""

from __future__ import annotations

from math import fsum

from msgspec import Struct

from proctor.drift.observations import PASSED, ObservationRows
from proctor.stats import agresti_min_interval, clustered_difference_interval, newcombe_paired


class CaseFlips(Struct, frozen=True, kw_only=True):
    """The cases of a run that are worse or better than before."""

    cases: int
    worse: tuple[str, ...]
    """Ids of the cases that pass less often than before, with another answer."""
    better: tuple[str, ...]
    regraded: tuple[str, ...]
    """Ids of the cases with identical answers and other verdicts: only the grading changed."""
    before: float
    """The earlier pass rate, without changes of the grading."""
    after: float
    ci95: tuple[float, float] | None
    """The interval of the difference, as if these were the only two runs."""
    clusters: int | None = None
    """The number of clusters of related cases, which the interval is over; None if cases are independent."""

    @property
    def difference(self) -> float:
        """The change of the pass rate."""
        return self.after - self.before


def find_flips(earlier: ObservationRows, rows: ObservationRows) -> CaseFlips | None:
    """Compares the verdicts of a run with earlier ones; None if no case has both.

    A case counts once, by the mean of the repeats that both have, and as unchanged if every answer is
    identical.
    """
    ids, sums = rows.places.cases, _case_sums(earlier, rows)
    if not sums:
        return None
    changes = {case: 0.0 if case_sums.identical else case_sums.change for case, case_sums in sums.items()}
    worse = tuple([ids[case] for case, change in changes.items() if change < 0])
    better = tuple([ids[case] for case, change in changes.items() if change > 0])
    count = len(sums)
    before = fsum(case_sums.before for case_sums in sums.values()) / count
    clusters = rows.places.sum_clusters(changes)
    is_clustered = len(clusters) < count
    return CaseFlips(
        cases=count,
        worse=worse,
        better=better,
        regraded=tuple(
            [ids[case] for case, case_sums in sums.items() if case_sums.identical and case_sums.change]
        ),
        before=before,
        after=before + fsum(changes.values()) / count,
        ci95=clustered_difference_interval(clusters) if is_clustered else _interval(sums, changes),
        clusters=len(clusters) if is_clustered else None,
    )


class _CaseSums:
    """One case in both runs: first the sums over its repeats, then the means."""

    __slots__ = ("after", "before", "count", "identical")

    def __init__(self) -> None:
        self.before = self.after = 0.0
        self.count = 0
        self.identical = True

    @property
    def change(self) -> float:
        return self.after - self.before


def _case_sums(earlier: ObservationRows, rows: ObservationRows) -> dict[int, _CaseSums]:
    case_numbers = rows.places.case_numbers
    sums: dict[int, _CaseSums] = {}
    for place, (was, now) in enumerate(zip(earlier.verdicts, rows.verdicts, strict=False)):
        if was and now:  # neither is UNKNOWN
            case_sums = sums.setdefault(case_numbers[place], _CaseSums())
            case_sums.before += was == PASSED
            case_sums.after += now == PASSED
            case_sums.count += 1
    for place, (was, now) in enumerate(zip(earlier.answers, rows.answers, strict=False)):
        if was != now and case_numbers[place] in sums:
            sums[case_numbers[place]].identical = False
    for case_sums in sums.values():
        case_sums.before /= case_sums.count
        case_sums.after /= case_sums.count
    return sums


def _interval(sums: dict[int, _CaseSums], changes: dict[int, float]) -> tuple[float, float] | None:
    """Returns Newcombe's interval for one trial a case, and Agresti and Min's if a case has repeats.

    The cases are independent of one another.

    Both have width even if no case changed.
    """
    values = list(changes.values())
    if any(case_sums.count > 1 for case_sums in sums.values()):
        return agresti_min_interval(values)
    both_passed = sum(changes[case] == 0 and case_sums.before == 1 for case, case_sums in sums.items())
    better, worse = values.count(1.0), values.count(-1.0)
    return newcombe_paired(both_passed, better, worse, len(values) - both_passed - better - worse)
