"""The change point of a series: between which two runs something changed for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import exp, lgamma, log, sqrt
from typing import NamedTuple

from msgspec import Struct

from proctor.drift.night_effect import night_p_value

UNKNOWN, NO, YES = 0, 1, 2
"""The values in a row."""
CaseRow = bytearray
"""One run, with a byte for each case: whether it passed, or whether its answer is that of a certain run."""
_MAX_TILT = 40.0
"""The largest tilt that is tried for the bound; larger ones hardly improve it."""
_MIN_STEP = 1e-6
"""The smallest step of the tilt."""


class Stratum(NamedTuple):
    """A case at a place."""

    known: int
    """The number of runs that know it."""
    after: int
    """The number of these that are after the place."""
    yes: int
    """The number of those that know it in which it is YES."""
    related: int = 1
    """The number of cases of its cluster that vary, itself included."""


class SeriesSplit(Struct, frozen=True, kw_only=True):
    """A series divided in two."""

    place: int
    """The place in the series of the first run after the change."""
    before: float
    """The share of YES in the runs before it."""
    after: float
    cases: int
    """The number of cases that are known on both sides."""
    is_lasting: bool
    """Whether the last run is at least as close to the runs after the place as to those before it."""
    p_cases: float
    """An upper bound, two-sided, of this place alone, if each case by itself has its values in any order, and
    the cases of a cluster depend on one another in any way."""
    p_nights: float
    """That of the difference beside how much the nights differ, whatever the cases of a night share."""


def find_split(rows: Sequence[CaseRow], clusters: Sequence[int] | None = None) -> SeriesSplit | None:
    """Returns the division of a series that explains most of it; None if no case varies across one.

    The measure of a place is the difference of the shares before and after it in standard deviations, where
    each case by itself is as likely to have its values in any order: the Cochran-Mantel-Haenszel statistic
    with a stratum for each case (W. G. Cochran, Biometrics 10 (1954), 417-451; N. Mantel and W. Haenszel,
    Journal of the National Cancer Institute 22 (1959), 719-748). Its p-value is not taken from the normal
    distribution, which is wrong for few cases, but bounded as H. Chernoff does (Annals of Mathematical
    Statistics 23 (1952), 493-507), twice for two sides. `night_p_value` does without independent cases.

    Args:
        rows: in time order, all of one length. A case that a run does not know counts in the others.
        clusters: the cluster of each case; None if the cases are independent.
    """
    case_columns = [bytes(column) for column in zip(*rows, strict=True)]
    columns = Counter(case_columns)
    varying = {column: count for column, count in columns.items() if NO in column and YES in column}
    if not varying:
        return None
    place = _best_place(varying, len(rows))
    common = {
        column: count for column, count in columns.items() if any(column[:place]) and any(column[place:])
    }
    if not common:
        return None
    return SeriesSplit(
        place=place,
        before=_mean(common, slice(place)),
        after=_mean(common, slice(place, None)),
        cases=sum(common.values()),
        is_lasting=_is_lasting(common, place),
        p_cases=_case_p_value(case_columns, place, clusters),
        p_nights=night_p_value(common, place, YES),
    )


def place_weight(before: int, after: int) -> float:
    """Returns the share of the error that a place may use, by the number of runs before and after it.

    The shares of all places of all series that begin with the same run add up to 1. By the union bound a
    test that is made at every place after every run, each at its share of 5 %, is wrong with a chance of at
    most 5 %, however the tests depend on each other. Source: C. E. Bonferroni, "Teoria statistica delle
    classi e calcolo delle probabilità" (1936), with unequal weights.
    """
    return 1 / (before * (before + 1) * after * (after + 1))


def _count_known(column: bytes) -> int:
    return len(column) - column.count(UNKNOWN)


def _mean(columns: Mapping[bytes, int], part: slice) -> float:
    """Returns the mean over cases of their share of YES in some runs."""
    shares = [
        (column[part].count(YES) / _count_known(column[part]), count) for column, count in columns.items()
    ]
    return sum(share * count for share, count in shares) / sum(columns.values())


def _is_lasting(columns: Mapping[bytes, int], place: int) -> bool:
    last = {column: count for column, count in columns.items() if column[-1]}
    if not last:
        return False
    now, before, after = (_mean(last, part) for part in (slice(-1, None), slice(place), slice(place, None)))
    return abs(now - after) <= abs(now - before)


def _best_place(columns: Mapping[bytes, int], runs: int) -> int:
    """Returns the place whose two sides differ most."""
    excess, spread = [0.0] * runs, [0.0] * runs
    for column, count in columns.items():
        known_count, total = _count_known(column), column.count(YES)
        mean, weight = (
            total / known_count,
            count * total * (known_count - total) / (known_count * known_count * (known_count - 1)),
        )
        after = more = 0.0
        for place in range(runs - 1, 0, -1):
            if column[place]:
                after += 1
                more += count * ((column[place] == YES) - mean)
            excess[place] += more
            spread[place] += weight * after * (known_count - after)
    far = [abs(more) / sqrt(wide) if wide > 0 else 0.0 for more, wide in zip(excess, spread, strict=True)]
    return max(range(1, runs), key=lambda place: (round(far[place], 9), -place))


def _case_p_value(columns: Sequence[bytes], place: int, clusters: Sequence[int] | None) -> float:
    """Returns `SeriesSplit.p_cases` of a place, of cases with these values."""
    varying = [case for case, column in enumerate(columns) if NO in column and YES in column]
    cluster_for = range(len(columns)) if clusters is None else clusters
    related = Counter(cluster_for[case] for case in varying)
    counts = Counter((columns[case], related[cluster_for[case]]) for case in varying)
    strata: Counter[Stratum] = Counter()
    for (column, size), count in counts.items():
        known_count, after = _count_known(column), _count_known(column[place:])
        strata[Stratum(known_count, after, column.count(YES), size)] += count
    yes_count = sum(count * column.count(YES, place) for (column, _), count in counts.items())
    return min(1.0, 2 * chernoff_bound(strata, yes_count))


def chernoff_bound(strata: Mapping[Stratum, int], yes_count: int) -> float:
    """Returns an upper bound of the chance that the values after a place are YES this often, or this rarely.

    Cases of a cluster may depend on one another in any way: by O. Hölder's inequality (Nachrichten von der
    Königl. Gesellschaft der Wissenschaften zu Göttingen (1889), 38-47) the mean of a product of m factors is
    at most the product of the m-th roots of the means of their m-th powers. So m cases of a cluster that vary
    count as little as if they were all the same.

    Args:
        strata: the number of cases of each stratum.
        yes_count: how many values after the place are YES, over all cases.
    """
    expected = sum(count * case.after * case.yes / case.known for case, count in strata.items())
    if yes_count < expected:  # seldom YES is often NO
        yes_count = sum(count * case.after for case, count in strata.items()) - yes_count
        strata = {case._replace(yes=case.known - case.yes): count for case, count in strata.items()}
    tables = [
        (count, case.related, _log_chances(case.known, case.after, case.yes))
        for case, count in strata.items()
    ]

    def tilted(tilt: float) -> tuple[float, float, float]:
        """Returns the logarithm of the bound for a tilt, with its first and second derivative."""
        logarithm, slope, curve = -tilt * yes_count, -float(yes_count), 0.0
        for count, size, chances in tables:
            top = max(chance + size * tilt * hits for hits, chance in chances)
            weights = [(hits, exp(chance + size * tilt * hits - top)) for hits, chance in chances]
            weight = sum(term for _, term in weights)
            mean = sum(hits * term for hits, term in weights) / weight
            logarithm += count * (top + log(weight)) / size
            slope += count * mean
            curve += count * size * sum((hits - mean) ** 2 * term for hits, term in weights) / weight
        return logarithm, slope, curve

    low, high, tilt = 0.0, _MAX_TILT, 0.0
    while True:  # Newton's method, and halving where that leads out; every tilt gives a bound
        logarithm, slope, curve = tilted(tilt)
        low, high = (tilt, high) if slope < 0 else (low, tilt)
        ahead = tilt - slope / curve if curve > 0 else high
        ahead = ahead if low < ahead < high else (low + high) / 2
        if abs(ahead - tilt) < _MIN_STEP:
            return exp(min(0.0, logarithm))
        tilt = ahead


def _log_chances(known_count: int, after: int, total: int) -> list[tuple[int, float]]:
    """Returns the possible numbers of YES after a place, each with the logarithm of its chance."""
    possible = range(max(0, total + after - known_count), min(total, after) + 1)
    return [
        (
            hits,
            _log_combinations(total, hits)
            + _log_combinations(known_count - total, after - hits)
            - _log_combinations(known_count, after),
        )
        for hits in possible
    ]


def _log_combinations(many: int, some: int) -> float:
    """Returns the logarithm of the binomial coefficient."""
    return lgamma(many + 1) - lgamma(some + 1) - lgamma(many - some + 1)
