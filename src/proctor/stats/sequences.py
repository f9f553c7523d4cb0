"""Intervals of a mean that hold however often they are looked at, for runs that stop by what they see."""

from __future__ import annotations

from bisect import bisect_left
from math import lgamma, log, log1p

_LOG_LIMIT = log(20.0)
"""The logarithm of 1 / 5 %: the evidence against a mean at which it leaves a 95 % sequence."""
_STRENGTH_SHARE = 8.2
"""The number of values at which a sequence is narrowest, divided by the strength of its prior."""
_WIDTH = 3.035
"""Half the width of a sequence where it is narrowest, in standard errors; a fixed-size interval has 1.96."""
DEFAULT_BEST_COUNT = 200
"""The number of values at which a sequence is narrowest."""
_STEPS = 40
_MAX_COUNT = 10_000_000


def confidence_sequence(
    total: float, count: int, best_count: float = DEFAULT_BEST_COUNT
) -> tuple[float, float]:
    """Returns the 95 % interval of a mean after any number of values, as (low, high) within 0..1.

    The values are independent, within 0..1 and of the same mean, and need not be 0 or 1. In 95 % of all
    series the mean is in every interval from the first value on, so that what it shows may stop a series.
    The price is width: 1.55 times that of a fixed-size interval at `best_count` values, and more elsewhere.

    An interval has the means against which there is too little evidence: the likelihood ratio of the values
    for a Beta mixture around that mean is below 20. For values of 0 or 1 it is a martingale; for others, at
    most one in expectation, as an exponential function is below its chord.

    Args:
        total: the sum of the values.
        count: the number of values.
        best_count: the number of values at which the interval should be narrowest, chosen before the first.

    Source: the two-sided beta-binomial mixture, proposition 7 of S. R. Howard et al., "Time-uniform,
    nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49 (2021), 1055-1080, after
    H. Robbins, "Statistical methods related to the law of the iterated logarithm", Annals of Mathematical
    Statistics 41 (1970), 1397-1409; section 3.5 of the former for the best number of values.

    Raises:
        ValueError: `total` is not within 0..count.
    """
    if not 0 <= total <= count:
        raise ValueError(f"total must be within 0 and {count}, not {total}.")
    if not count:
        return 0.0, 1.0
    strength = best_count / _STRENGTH_SHARE
    return _low_end(total, count, strength), 1.0 - _low_end(count - total, count, strength)


def best_count_for(half_width: float, share: float = 0.8) -> float:
    """Returns the number of values after which a sequence of a share is about that narrow, at the earliest.

    Args:
        half_width: half the width of the interval, above 0.
        share: the expected share.
    """
    return max(1.0, share * (1 - share) * (_WIDTH / half_width) ** 2)


def count_for_width(
    half_width: float, bounds: tuple[float, float], best_count: float = DEFAULT_BEST_COUNT
) -> int | None:
    """Returns after how many values a sequence is that narrow; None if never, or after more than 10 million.

    Args:
        half_width: half the width of the interval, above 0.
        bounds: the lowest and the highest mean that the values may have, within 0..1; the interval is from
            the low end for the first to the high end for the second.
        best_count: as for `confidence_sequence`.
    """

    def is_narrow(count: int) -> bool:
        low, high = (confidence_sequence(mean * count, count, best_count) for mean in bounds)
        return high[1] - low[0] <= 2 * half_width

    high = 1
    while not is_narrow(high):
        high *= 2
        if high > _MAX_COUNT:
            return None
    return bisect_left(range(high), True, lo=high // 2, key=is_narrow)


def _low_end(total: float, count: int, strength: float) -> float:
    low, high = 0.0, total / count
    if not total:
        return 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _log_evidence(total, count, middle, strength) < _LOG_LIMIT:
            high = middle
        else:
            low = middle
    return low


def _log_evidence(total: float, count: int, mean: float, strength: float) -> float:
    """Returns the logarithm of the mixture's likelihood ratio against a mean within 0..1."""
    first, second = strength * mean, strength * (1 - mean)
    if first <= 0.0 or second <= 0.0:
        return _LOG_LIMIT
    mixture = (
        (lgamma(total + first) - lgamma(first))
        + (lgamma(count - total + second) - lgamma(second))
        - (lgamma(count + strength) - lgamma(strength))
    )
    return mixture - total * log(mean) - (count - total) * log1p(-mean)
