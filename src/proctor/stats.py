"""Statistics on plain numbers. Pure; knows no noun."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

Z_95 = 1.959963984540054
"""The 97.5 % point of the normal distribution."""


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
