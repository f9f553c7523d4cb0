"""Agreement of raters beyond chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import fsum, isnan, sqrt
from typing import Any, Literal, NamedTuple

from proctor.stats.means import check_finite
from proctor.stats.proportions import Z_95, wilson


class Kappa(NamedTuple):
    """Agreement beyond chance, with its 95 % interval; each within -1..1."""

    value: float
    low: float
    high: float


def kappa(pairs: Sequence[tuple[Any, Any]]) -> Kappa | None:
    """Returns Cohen's kappa of two raters with its 95 % interval: 1 is full agreement, 0 is chance.

    If the large-sample error is 0, as with full agreement, that error says nothing about few pairs: the
    interval is then the Wilson interval of the share of agreeing pairs, on kappa's scale.

    Args:
        pairs: the two ratings of each item; any hashable values.

    Returns:
        None if it is undefined: without pairs, or if both raters only ever give the same single rating.

    Source: J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological
    Measurement 20 (1960), 37-46; the error is that of J. L. Fleiss, J. Cohen and B. S. Everitt, "Large sample
    standard errors of kappa and weighted kappa", Psychological Bulletin 72 (1969), 323-327.
    """
    count = len(pairs)
    cells = Counter(pairs)
    first, second = Counter(rating for rating, _ in pairs), Counter(rating for _, rating in pairs)
    by_chance = sum(first[label] * second[label] for label in first)  # over count squared
    if count == 0 or by_chance == count * count:
        return None
    agreeing = sum(number for (a, b), number in cells.items() if a == b)
    chance = by_chance / count**2
    value = (agreeing / count - chance) / (1 - chance)
    error = _error(cells, first, second, value, chance)
    if error > 1e-9:
        return Kappa(value, max(-1.0, value - Z_95 * error), min(1.0, value + Z_95 * error))
    ends = wilson(agreeing, count)
    assert ends is not None
    low, high = ((end - chance) / (1 - chance) for end in ends)
    return Kappa(value, max(-1.0, low), min(1.0, high))


def _error(
    cells: Counter[tuple[Any, Any]], first: Counter[Any], second: Counter[Any], value: float, chance: float
) -> float:
    """Returns the standard error, equation 13 of Fleiss, Cohen and Everitt."""
    count, shortfall = cells.total(), 1 - value
    agreed = fsum(
        number / count * (1 - (first[a] + second[a]) / count * shortfall) ** 2
        for (a, b), number in cells.items()
        if a == b
    )
    differed = fsum(
        number / count * ((second[a] + first[b]) / count * shortfall) ** 2
        for (a, b), number in cells.items()
        if a != b
    )
    variance = agreed + differed - (value - chance * shortfall) ** 2
    return sqrt(max(0.0, variance) / count) / (1 - chance)


Level = Literal["nominal", "ordinal", "interval"]
"""The level of ratings: names; ordered names; or numbers whose differences count."""


def alpha(ratings: Sequence[Sequence[Any | None]], level: Level = "nominal") -> float | None:
    """Returns Krippendorff's alpha of any number of raters: 1 is full agreement, 0 is chance.

    Args:
        ratings: a row for each item, with one rating from each rater; None is a missing rating. Items with
            fewer than two ratings say nothing about agreement and are left out.
        level: the level of the ratings.

    Returns:
        None if it is undefined: no item was rated twice, or all ratings are the same.

    Source: K. Krippendorff, "Computing Krippendorff's alpha-reliability" (2011). The ordinal difference of
    two ratings is that of their mean ranks; squared differences from all others are summed by way of the
    mean, so that time is linear in the number of ratings.

    Raises:
        ValueError: a rating is NaN, or at level interval is not finite.
        OverflowError: the squares of such ratings are beyond what a float can hold.
    """
    rows = [[rating for rating in row if rating is not None] for row in ratings]
    units = [row for row in rows if len(row) > 1]
    all_ratings = [rating for row in units for rating in row]
    numbers = (rating for rating in all_ratings if isinstance(rating, float))
    check_finite(all_ratings if level == "interval" else filter(isnan, numbers))
    if level == "ordinal":
        ranks = _mean_ranks(all_ratings)
        units = [[ranks[rating] for rating in row] for row in units]
        all_ratings = [ranks[rating] for rating in all_ratings]
    disagreement = _count_differing_pairs if level == "nominal" else _sum_squared_differences
    expected = disagreement(all_ratings) / (len(all_ratings) - 1) if all_ratings else 0.0
    if not expected:
        return None
    return 1 - fsum(disagreement(row) / (len(row) - 1) for row in units) / expected


def _mean_ranks(ratings: Sequence[Any]) -> dict[Any, float]:
    counts, below = Counter(ratings), 0
    ranks = {}
    for rating in sorted(counts):
        ranks[rating] = below + counts[rating] / 2
        below += counts[rating]
    return ranks


def _count_differing_pairs(ratings: Sequence[Any]) -> float:
    """Returns how many ordered pairs differ."""
    return len(ratings) ** 2 - sum(number * number for number in Counter(ratings).values())


def _sum_squared_differences(ratings: Sequence[float]) -> float:
    """Returns the sum of the squared differences of all ordered pairs."""
    if min(ratings) == max(ratings):
        return 0.0  # and not the rounding error of the mean
    mean = fsum(ratings) / len(ratings)
    return 2 * len(ratings) * fsum((rating - mean) ** 2 for rating in ratings)
