"""Means of numbers: their spread, their quantiles and their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import cos, fsum, isfinite, pi, sin, sqrt, tan

from proctor.stats.proportions import Z_95


def check_finite(values: Iterable[float]) -> None:
    """Checks that all values are finite.

    Raises:
        ValueError: a value is not finite.
    """
    for value in values:
        if not isfinite(value):
            raise ValueError(f"values must be finite numbers, not {value}.")


def deviation(values: Sequence[float]) -> float | None:
    """Returns the standard deviation of a sample, over n - 1; None below two values.

    Raises:
        ValueError: a value is not finite.
        OverflowError: their squares are beyond what a float can hold.
    """
    check_finite(values)
    count = len(values)
    if count < 2:
        return None
    mean = fsum(values) / count
    return sqrt(fsum((value - mean) ** 2 for value in values) / (count - 1))


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Returns the value below which that share of sorted numbers lies, interpolated linearly; None if empty.

    Source: definition 7 of R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages",
    The American Statistician 50 (1996), 361-365.

    Raises:
        ValueError: the share is not within 0..1, or the first or last number is not finite.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must be within 0 and 1, not {share}.")
    if not ordered:
        return None
    check_finite((ordered[0], ordered[-1]))
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Returns the 95 % t-interval of the mean of independent values, as (low, high); None below two values.

    Source: Student, "The probable error of a mean", Biometrika 6 (1908), 1-25; the variance is that of a
    sample, over n - 1.

    Raises:
        ValueError: a value is not finite.
        OverflowError: their squares are beyond what a float can hold.
    """
    sigma, count = deviation(values), len(values)
    if sigma is None:
        return None
    mean, spread = fsum(values) / count, t_95(count - 1) * sigma / sqrt(count)
    return mean - spread, mean + spread


def agresti_min_interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """Returns the 95 % interval of the mean of independent differences within -1..1; None without any.

    It is the t-interval after two cases are added: +1 and -1 count as half a case each, and 0 as one. So it
    has width even if all differences are the same, and covers the truth if few cases are not 0. It always
    contains the mean.

    Source: A. Agresti and Y. Min, "Simple improved confidence intervals for comparing matched proportions",
    Statistics in Medicine 24 (2005), 729-740, who add half a pair to each of the four cells; here for shares
    of several pairs a case, and with Student's t instead of the normal distribution.
    """
    if not differences:
        return None
    count = len(differences) + 2
    mean = fsum(differences) / count
    variance = (fsum(value * value for value in differences) + 1.0) / count - mean * mean
    margin = t_95(count - 1) * sqrt(max(0.0, variance) / count)
    return max(-1.0, mean - margin), min(1.0, mean + margin)


_NORMAL_EXPANSION = (
    (Z_95**3 + Z_95) / 4,
    (5 * Z_95**5 + 16 * Z_95**3 + 3 * Z_95) / 96,
    (3 * Z_95**7 + 19 * Z_95**5 + 17 * Z_95**3 - 15 * Z_95) / 384,
)


@lru_cache(maxsize=256)
def t_95(freedom: int) -> float:
    """Returns the 97.5 % point of Student's t distribution, to ten digits.

    Args:
        freedom: its degrees of freedom, a whole number of at least 1.

    Source: the finite series 26.7.3 and 26.7.4 of M. Abramowitz and I. A. Stegun, "Handbook of Mathematical
    Functions" (1964), for the probability of |t| below sqrt(freedom) tan(angle), solved for the angle;
    beyond a freedom of 1000 the expansion 26.7.5 around the normal distribution's point.

    Raises:
        ValueError: `freedom` is below 1.
    """
    if freedom < 1:
        raise ValueError(f"freedom must be at least 1, not {freedom}.")
    if freedom > 1000:  # the series has as many terms; this one is as exact there
        return Z_95 + fsum(term / freedom**power for power, term in enumerate(_NORMAL_EXPANSION, 1))
    low, high = 0.0, pi / 2
    while low < (angle := (low + high) / 2) < high:
        if _within(angle, freedom) < 0.95:
            low = angle
        else:
            high = angle
    return sqrt(freedom) * tan(angle)


def _within(angle: float, freedom: int) -> float:
    """Returns the probability that |t| is below sqrt(freedom) tan(angle)."""
    is_odd = freedom % 2
    square = cos(angle) ** 2
    term = total = cos(angle) if is_odd else 1.0
    for place in range(2 + is_odd, freedom, 2):
        # Even: 1 + 1/2 c^2 + (1·3)/(2·4) c^4 …; odd: c + 2/3 c^3 + (2·4)/(3·5) c^5 …
        term *= square * (place - 1) / place
        total += term
    if not is_odd:
        return sin(angle) * total
    return 2 / pi * (angle + (sin(angle) * total if freedom > 1 else 0.0))
