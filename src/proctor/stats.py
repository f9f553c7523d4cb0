"""Statistics on plain numbers. Pure; knows no noun."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import cos, fsum, hypot, pi, sin, sqrt, tan

Z_95 = 1.959963984540054
"""The 97.5 % point of the normal distribution."""


def reaches(value: float, bar: float) -> bool:
    """Whether a value is at least a bar; the rounding error of a sum of weighted thirds is forgiven."""
    return value >= bar - 1e-9


def wilson(passed: float, total: float, z: float = Z_95) -> tuple[float, float] | None:
    """The Wilson score interval of a share, as (low, high) within 0..1; None when there is nothing to count.

    Unlike the textbook interval it never leaves 0..1 and has width at 0 % and 100 %. `passed` may be
    fractional: with repeats a case counts once, by the share of its trials that passed.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    Journal of the American Statistical Association 22 (1927), 209-212.

    Raises:
        ValueError: `passed` is not within 0..total.
    """
    if total == 0:
        return None
    if not 0 <= passed <= total:
        raise ValueError(f"passed must be within 0 and {total}, not {passed}.")
    share = passed / total
    middle = share + z * z / (2 * total)
    spread = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    low = 0.0 if passed == 0 else max(0.0, (middle - spread) / scale)
    high = 1.0 if passed == total else min(1.0, (middle + spread) / scale)
    return low, high


def newcombe(
    passed: float, total: float, other_passed: float, other_total: float, z: float = Z_95
) -> tuple[float, float] | None:
    """The hybrid score interval of the difference of two independent shares, as (low, high) within -1..1.

    The difference is `passed / total - other_passed / other_total`. Unlike the textbook interval it has width
    also where both shares are 0 or 1. None when one of them is of nothing.

    Source: method 10 of R. G. Newcombe, "Interval estimation for the difference between independent
    proportions: comparison of eleven methods", Statistics in Medicine 17 (1998), 873-890.

    Raises:
        ValueError: `passed` or `other_passed` is not within 0 and its total.
    """
    mine, others = wilson(passed, total, z), wilson(other_passed, other_total, z)
    if mine is None or others is None:
        return None
    share, other = passed / total, other_passed / other_total
    below = hypot(share - mine[0], others[1] - other)
    above = hypot(mine[1] - share, other - others[0])
    return max(-1.0, share - other - below), min(1.0, share - other + above)


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which that share of sorted numbers lies, interpolated linearly; None of none.

    Source: definition 7 of R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages",
    The American Statistician 50 (1996), 361-365.
    """
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % t-interval of the mean of independent values, as (low, high); None below two values.

    Source: Student, "The probable error of a mean", Biometrika 6 (1908), 1-25; the variance is that of a
    sample, over n - 1.
    """
    count = len(values)
    if count < 2:
        return None
    mean = fsum(values) / count
    variance = fsum((value - mean) ** 2 for value in values) / (count - 1)
    spread = t_95(count - 1) * sqrt(variance / count)
    return mean - spread, mean + spread


@lru_cache(maxsize=256)
def t_95(freedom: int) -> float:
    """The 97.5 % point of Student's t distribution, to ten digits.

    Args:
        freedom: its degrees of freedom, a whole number of at least 1.

    Source: the finite series 26.7.3 and 26.7.4 of M. Abramowitz and I. A. Stegun, "Handbook of Mathematical
    Functions" (1964), for the probability of |t| below sqrt(freedom) tan(angle), solved for the angle.

    Raises:
        ValueError: `freedom` is below 1.
    """
    if freedom < 1:
        raise ValueError(f"freedom must be at least 1, not {freedom}.")
    low, high = 0.0, pi / 2
    while low < (angle := (low + high) / 2) < high:
        if _within(angle, freedom) < 0.95:
            low = angle
        else:
            high = angle
    return sqrt(freedom) * tan(angle)


def _within(angle: float, freedom: int) -> float:
    """The probability that |t| is below sqrt(freedom) tan(angle)."""
    odd = freedom % 2
    square = cos(angle) ** 2
    term = total = cos(angle) if odd else 1.0
    for place in range(2 + odd, freedom, 2):
        # Even: 1 + 1/2 c^2 + (1·3)/(2·4) c^4 …; odd: c + 2/3 c^3 + (2·4)/(3·5) c^5 …
        term *= square * (place - 1) / place
        total += term
    if not odd:
        return sin(angle) * total
    return 2 / pi * (angle + (sin(angle) * total if freedom > 1 else 0.0))
