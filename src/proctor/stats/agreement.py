"""Agreement of raters beyond chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from math import fsum, isnan, sqrt
from typing import Any, Literal, NamedTuple

from proctor.stats.means import check_finite, t_95
from proctor.stats.proportions import Z_95

_ADDED_PAIRS = 2.0
"""The number of pairs of ratings that are added for the interval of kappa."""


class Kappa(NamedTuple):
    """Agreement beyond chance, with its 95 % interval; each within -1..1."""

    value: float
    low: float
    high: float


def kappa(pairs: Sequence[tuple[Any, Any]]) -> Kappa | None:
    """Returns Cohen's kappa of two raters with its 95 % interval: 1 is full agreement, 0 is chance.

    The interval is that of the large-sample error after two pairs are added, spread evenly over all pairs of
    ratings. So it has width at full agreement too, and covers the truth if there are few pairs or one rating
    is rare. It always contains the value, to which no pair is added. With three or more ratings each pair of
    them gets less of what is added, and Student's t takes the place of the normal point.

    Args:
        pairs: the two ratings of each item; any hashable values.

    Returns:
        None if it is undefined: without pairs, or if both raters only ever give the same single rating.

    Source: J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological
    Measurement 20 (1960), 37-46; the error is that of J. L. Fleiss, J. Cohen and B. S. Everitt, "Large sample
    standard errors of kappa and weighted kappa", Psychological Bulletin 72 (1969), 323-327. Half a pair a
    cell for two ratings, with the normal point, is what A. Agresti and Y. Min add, "Simple improved
    confidence intervals for comparing matched proportions", Statistics in Medicine 24 (2005), 729-740.
    """
    ratings = {rating for pair in pairs for rating in pair}
    if len(ratings) < 2:
        return None
    counts = Counter(pairs)
    value, _ = _value_and_error(counts)
    share = _ADDED_PAIRS / len(ratings) ** 2
    cells = {pair: counts[pair] + share for pair in product(ratings, repeat=2)}
    middle, error = _value_and_error(cells)
    point = Z_95 if len(ratings) == 2 else t_95(max(1, len(pairs) - 1))
    spread = point * error if len(pairs) > 1 else 2.0
    return Kappa(value, max(-1.0, min(value, middle - spread)), min(1.0, max(value, middle + spread)))


def _value_and_error(cells: Mapping[tuple[Any, Any], float]) -> tuple[float, float]:
    """Returns kappa and its standard error, equation 13 of Fleiss, Cohen and Everitt.

    Args:
        cells: the number of items by their two ratings, which may be fractional.
    """
    count = fsum(cells.values())
    first, second = dict[Any, float](), dict[Any, float]()
    for (a, b), number in cells.items():
        first[a] = first.get(a, 0.0) + number / count
        second[b] = second.get(b, 0.0) + number / count
    chance = fsum(first[rating] * second.get(rating, 0.0) for rating in first)
    value = (fsum(number for (a, b), number in cells.items() if a == b) / count - chance) / (1 - chance)
    shortfall = 1 - value
    squares = fsum(
        number / count * ((a == b) - (second.get(a, 0.0) + first.get(b, 0.0)) * shortfall) ** 2
        for (a, b), number in cells.items()
    )
    variance = squares - (value - chance * shortfall) ** 2
    return value, sqrt(max(0.0, variance) / count) / (1 - chance)


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
