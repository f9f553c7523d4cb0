"""Statistics on plain numbers. Pure; knows no noun."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb, cos, fsum, hypot, pi, prod, sin, sqrt, tan

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


def newcombe_paired(both: int, first: int, second: int, neither: int) -> tuple[float, float] | None:
    """The 95 % hybrid score interval of the difference of two shares over the same pairs, within -1..1.

    The difference is `(first - second) / pairs`. None of no pairs.

    Args:
        both: pairs in which both passed.
        first: pairs in which only the first passed.
        second: pairs in which only the second passed.
        neither: pairs in which neither passed.

    Source: method 10 of R. G. Newcombe, "Improved confidence intervals for the difference between binomial
    proportions based on paired data", Statistics in Medicine 17 (1998), 2635-2650.

    Raises:
        ValueError: a count is negative.
    """
    if min(both, first, second, neither) < 0:
        raise ValueError(f"counts must be 0 or more, not {(both, first, second, neither)}.")
    pairs = both + first + second + neither
    mine, others = wilson(both + first, pairs), wilson(both + second, pairs)
    if mine is None or others is None:
        return None
    share, other = (both + first) / pairs, (both + second) / pairs
    correlation = _corrected_phi(both, first, second, neither)
    below = _joined(share - mine[0], others[1] - other, correlation)
    above = _joined(mine[1] - share, other - others[0], correlation)
    return max(-1.0, share - other - below), min(1.0, share - other + above)


def _joined(one: float, two: float, correlation: float) -> float:
    return sqrt(max(0.0, one * one - 2 * correlation * one * two + two * two))


def _corrected_phi(both: int, first: int, second: int, neither: int) -> float:
    """The correlation of the pairs, corrected towards 0 where it is positive."""
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    if not margins:
        return 0.0
    excess = float(both * neither - first * second)
    if excess > 0:
        excess = max(0.0, excess - (both + first + second + neither) / 2)
    return excess / sqrt(margins)


def mcnemar(first: int, second: int) -> float:
    """The two-sided p-value of McNemar's exact test: that pairs differ one way as often as the other.

    Args:
        first: pairs in which only the first passed.
        second: pairs in which only the second passed.

    Source: Q. McNemar, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12 (1947), 153-157, with the binomial distribution instead of the normal.

    Raises:
        ValueError: a count is negative.
    """
    if first < 0 or second < 0:
        raise ValueError(f"counts must be 0 or more, not {(first, second)}.")
    differing = first + second
    tail = sum(comb(differing, hits) for hits in range(min(first, second) + 1))
    return min(1.0, 2 * tail / (1 << differing))


def pass_at_k(n: int, c: int, k: int) -> float:
    """The unbiased estimate that at least one of k answers passes, from n answers of which c passed.

    `1 - C(n-c, k) / C(n, k)` as a product, which neither overflows nor cancels for large n.

    Source: M. Chen et al., "Evaluating Large Language Models Trained on Code" (2021), arXiv:2107.03374.

    Raises:
        ValueError: not 1 <= k <= n, or not 0 <= c <= n.
    """
    _check_drawn(n, c, k)
    if n - c < k:
        return 1.0
    fewer = min(c, k)  # the product has as many factors as the smaller of the two, by symmetry
    more = max(c, k)
    return 1.0 - prod((n - more - place) / (n - place) for place in range(fewer))


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The unbiased estimate that all of k answers pass, from n answers of which c passed: C(c, k) / C(n, k).

    Source: S. Yao et al., "τ-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains"
    (2024), arXiv:2406.12045, where it is called pass^k.

    Raises:
        ValueError: not 1 <= k <= n, or not 0 <= c <= n.
    """
    _check_drawn(n, c, k)
    return prod((c - place) / (n - place) for place in range(k)) if k <= c else 0.0


def _check_drawn(n: int, c: int, k: int) -> None:
    if n < 1 or k < 1:
        raise ValueError(f"k and n must be at least 1, not n={n} and k={k}.")
    if not 0 <= c <= n:
        raise ValueError(f"c must be within 0 and n, not n={n} and c={c}.")
    if k > n:
        raise ValueError(f"k must be at most n, not n={n} and k={k}: {n} answers say nothing of {k}.")


def bootstrap(values: Sequence[float], draws: int = 5000, seed: int = 0) -> tuple[float, float] | None:
    """The 95 % percentile bootstrap interval of the mean of independent values; None below two values.

    The same values, draws and seed give the same interval on every machine.

    Source: B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13.
    """
    from random import Random

    if len(values) < 2:
        return None
    drawn, count = Random(seed), len(values)  # noqa: S311  # no secret
    means = sorted(fsum(drawn.choices(values, k=count)) / count for _ in range(draws))
    low, high = quantile(means, 0.025), quantile(means, 0.975)
    assert low is not None
    assert high is not None
    return low, high


def deviation(values: Sequence[float]) -> float | None:
    """The standard deviation of a sample, over n - 1; None below two values."""
    count = len(values)
    if count < 2:
        return None
    mean = fsum(values) / count
    return sqrt(fsum((value - mean) ** 2 for value in values) / (count - 1))


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
    mean, sigma = fsum(values) / count, deviation(values)
    assert sigma is not None
    spread = t_95(count - 1) * sigma / sqrt(count)
    return mean - spread, mean + spread


_NEAR_NORMAL = (
    (Z_95**3 + Z_95) / 4,
    (5 * Z_95**5 + 16 * Z_95**3 + 3 * Z_95) / 96,
    (3 * Z_95**7 + 19 * Z_95**5 + 17 * Z_95**3 - 15 * Z_95) / 384,
)


@lru_cache(maxsize=256)
def t_95(freedom: int) -> float:
    """The 97.5 % point of Student's t distribution, to ten digits.

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
        return Z_95 + fsum(term / freedom**power for power, term in enumerate(_NEAR_NORMAL, 1))
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
