"""Shares that passed: their intervals, and those of the difference of two independent shares."""

from __future__ import annotations

from math import hypot, inf, sqrt

Z_95 = 1.959963984540054
"""The 97.5 % point of the normal distribution."""


def reaches(value: float, bar: float) -> bool:
    """Whether a value is at least a bar; allows for the rounding error of a sum of weighted thirds."""
    return value >= bar - 1e-9


def wilson(passed: float, total: float, z: float = Z_95) -> tuple[float, float] | None:
    """Returns the Wilson score interval of a share, as (low, high) within 0..1; None if `total` is 0.

    Unlike the textbook interval it never leaves 0..1 and has width at 0 % and 100 %. `passed` may be
    fractional: with repeats a case counts once, by the share of its trials that passed.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    Journal of the American Statistical Association 22 (1927), 209-212.

    Raises:
        ValueError: `passed` is not within 0..total, or `total` is not finite.
    """
    if not 0 <= passed <= total < inf:
        raise ValueError(f"passed must be within 0 and {total}, not {passed}.")
    if total == 0:
        return None
    share = passed / total
    middle = share + z * z / (2 * total)
    spread = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    low = 0.0 if passed == 0 else max(0.0, (middle - spread) / scale)
    high = 1.0 if passed == total else min(1.0, (middle + spread) / scale)
    return low, high


def clopper_pearson(passed: float, total: float) -> tuple[float, float] | None:
    """Returns the 95 % exact interval of a share, as (low, high) within 0..1; None if `total` is 0.

    It contains the true share at least 95 % of the time, whatever that share is, and mostly more often.
    Both numbers may be fractional, as effective numbers of cases are.

    Source: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case
    of the binomial", Biometrika 26 (1934), 404-413.

    Raises:
        ValueError: `passed` is not within 0..total.
    """
    if not 0 <= passed <= total:
        raise ValueError(f"passed must be within 0 and {total}, not {passed}.")
    if total == 0:
        return None
    low = 1.0 - _exact_high(total - passed, total)
    return low, _exact_high(passed, total)


def _exact_high(passed: float, total: float) -> float:
    """Returns the share at which `passed` or fewer have a probability of 2.5 %."""
    from proctor.stats.incomplete_beta import at_most

    low, high = passed / total, 1.0
    if passed == total:
        return high
    while low < (share := (low + high) / 2) < high:
        if at_most(passed, total, share) > 0.025:
            low = share
        else:
            high = share
    return share


def newcombe(
    passed: float, total: float, other_passed: float, other_total: float, z: float = Z_95
) -> tuple[float, float] | None:
    """Returns the hybrid score interval of the difference of two independent shares, within -1..1.

    The difference is `passed / total - other_passed / other_total`. Unlike the textbook interval it has width
    also if both shares are 0 or 1. None if a total is 0.

    Source: method 10 of R. G. Newcombe, "Interval estimation for the difference between independent
    proportions: comparison of eleven methods", Statistics in Medicine 17 (1998), 873-890.

    Raises:
        ValueError: `passed` or `other_passed` is not within 0 and its total.
    """
    bounds, other_bounds = wilson(passed, total, z), wilson(other_passed, other_total, z)
    if bounds is None or other_bounds is None:
        return None
    share, other = passed / total, other_passed / other_total
    below = hypot(share - bounds[0], other_bounds[1] - other)
    above = hypot(bounds[1] - share, other - other_bounds[0])
    return max(-1.0, share - other - below), min(1.0, share - other + above)
