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
    """Cohen's kappa of two raters: 1 is full agreement, 0 is what chance gives, with its 95 % interval.

    Where the large-sample error is 0, as with full agreement, that error says nothing about few pairs: the
    interval is then the Wilson interval of the share of agreeing pairs, on kappa's scale.

    Args:
        pairs: what each of the two says of one thing after another; any hashable values.

    Returns:
        None when it is undefined: without pairs, or when both only ever say one and the same thing.

    Source: J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological
    Measurement 20 (1960), 37-46; the error is that of J. L. Fleiss, J. Cohen and B. S. Everitt, "Large sample
    standard errors of kappa and weighted kappa", Psychological Bulletin 72 (1969), 323-327.
    """
    count = len(pairs)
    cells = Counter(pairs)
    first, second = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    by_chance = sum(first[label] * second[label] for label in first)  # over count squared
    if count == 0 or by_chance == count * count:
        return None
    agreeing = sum(many for (one, other), many in cells.items() if one == other)
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
    """The standard error, equation 13 of Fleiss, Cohen and Everitt."""
    count, rest = cells.total(), 1 - value
    agreed = fsum(
        many / count * (1 - (first[one] + second[one]) / count * rest) ** 2
        for (one, other), many in cells.items()
        if one == other
    )
    differed = fsum(
        many / count * ((second[one] + first[other]) / count * rest) ** 2
        for (one, other), many in cells.items()
        if one != other
    )
    variance = agreed + differed - (value - chance * rest) ** 2
    return sqrt(max(0.0, variance) / count) / (1 - chance)


Level = Literal["nominal", "ordinal", "interval"]
"""What ratings are: names; names in an order; or numbers whose differences count."""


def alpha(ratings: Sequence[Sequence[Any | None]], level: Level = "nominal") -> float | None:
    """Krippendorff's alpha of any number of raters: 1 is full agreement, 0 is what chance gives.

    Args:
        ratings: a row for each thing that was rated, with one rating from each rater; None is one that is
            missing. Things with fewer than two ratings say nothing about agreement and are left out.
        level: what the ratings are.

    Returns:
        None when it is undefined: nothing was rated twice, or all ratings are the same.

    Source: K. Krippendorff, "Computing Krippendorff's alpha-reliability" (2011). The ordinal difference of
    two ratings is that of their mean ranks; squared differences from all others are summed by way of the
    mean, so that time is linear in the number of ratings.

    Raises:
        ValueError: a rating is NaN, or at level interval is not finite.
        OverflowError: the squares of such ratings are beyond what a float can hold.
    """
    rows = [[rating for rating in row if rating is not None] for row in ratings]
    units = [row for row in rows if len(row) > 1]
    everything = [rating for row in units for rating in row]
    numbers = (rating for rating in everything if isinstance(rating, float))
    check_finite(everything if level == "interval" else filter(isnan, numbers))
    if level == "ordinal":
        ranks = _mean_ranks(everything)
        units = [[ranks[rating] for rating in row] for row in units]
        everything = [ranks[rating] for rating in everything]
    differing = _names_differing if level == "nominal" else _numbers_differing
    expected = differing(everything) / (len(everything) - 1) if everything else 0.0
    if not expected:
        return None
    return 1 - fsum(differing(row) / (len(row) - 1) for row in units) / expected


def _mean_ranks(ratings: Sequence[Any]) -> dict[Any, float]:
    counts, below = Counter(ratings), 0
    ranks = {}
    for rating in sorted(counts):
        ranks[rating] = below + counts[rating] / 2
        below += counts[rating]
    return ranks


def _names_differing(ratings: Sequence[Any]) -> float:
    """How many ordered pairs differ."""
    return len(ratings) ** 2 - sum(many * many for many in Counter(ratings).values())


def _numbers_differing(ratings: Sequence[float]) -> float:
    """The squared differences of all ordered pairs, summed."""
    if min(ratings) == max(ratings):
        return 0.0  # and not the rounding error of the mean
    mean = fsum(ratings) / len(ratings)
    return 2 * len(ratings) * fsum((rating - mean) ** 2 for rating in ratings)
