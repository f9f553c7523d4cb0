"""Power: which difference a number of cases can show, and how many cases show a difference."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import comb, exp, lgamma, log, log1p, sqrt

from proctor.stats.incomplete_beta import at_most
from proctor.stats.proportions import Z_95

_MAX_EXACT_PAIRS = 1000
"""Expected differing pairs up to which power is summed exactly; above, it is approximated."""
_MAX_CASES = 10_000_000


def power_paired(cases: int, difference: float, discordant: float) -> float:
    """Returns the chance that McNemar's exact test, two-sided at 5 %, shows a difference of paired shares.

    It is exact: summed over the number of differing pairs, and for each over their directions. If more than
    1,000 pairs are expected to differ it is the normal approximation with continuity correction, which then
    is right to a tenth of a point where up to nine pairs in ten differ, and to 1.4 points where all do.

    Args:
        cases: how many pairs there are.
        difference: the true share of the one less that of the other, within -discordant..discordant.
        discordant: the true share of pairs in which just one of the two passes, within 0..1.

    Source: S. W. Duffy, "Asymptotic and exact power for the McNemar test and its analogue with R controls per
    case", Biometrics 40 (1984), 1005-1015; the approximation is that of R. J. Connor, "Sample size for
    testing differences in proportions for the paired-sample design", Biometrics 43 (1987), 207-211, with
    the correction of A. L. Edwards, "Note on the correction for continuity in testing the significance of
    the difference between correlated proportions", Psychometrika 13 (1948), 185-187.

    Raises:
        ValueError: `cases` is negative, or one of the shares is outside its range.
    """
    size = abs(difference)
    if cases < 0 or not 0 <= size <= discordant <= 1:
        raise ValueError(
            "cases must be 0 or more and 0 <= |difference| <= discordant <= 1, not "
            f"cases={cases}, difference={difference} and discordant={discordant}."
        )
    if not discordant:
        return 0.0
    expected = cases * discordant
    if expected > _MAX_EXACT_PAIRS:
        return _power_of_many(cases, size, discordant)
    margin = 8 * sqrt(expected) + 30  # farther off are fewer than one in 10**12
    fewest, most = max(0, int(expected - margin)), min(cases, int(expected + margin))
    win_share, limits = (
        (1 + size / discordant) / 2,
        _limits(int(_MAX_EXACT_PAIRS + 8 * sqrt(_MAX_EXACT_PAIRS) + 30)),
    )
    power = 0.0
    for differing in range(fewest, most + 1):
        limit = limits[differing]
        significant = at_most(limit, differing, 1 - win_share) + at_most(limit, differing, win_share)
        power += binomial_probability(differing, cases, discordant) * significant
    return min(1.0, power)


def smallest_difference(
    cases: int, discordant: float | Callable[[float], float] | None = None, power: float = 0.8
) -> float | None:
    """Returns the smallest true difference of two paired shares that this number of cases shows.

    Args:
        cases: how many pairs there are.
        discordant: the true share of pairs in which just one of the two passes, or gives it for a difference
            within 0..1. None assumes the most that is sensible, and so the least power: answers that have
            nothing to do with one another, to questions of which half are passed; for a difference d that is
            (1 + d * d) / 2.
        power: the chance to show it, within 0..1.

    Returns:
        The difference within 0..1, to a millionth; None when no difference would be shown.

    Raises:
        ValueError: `cases` is negative, or one of the shares is outside 0..1.
    """
    check_power(power)
    high = 1.0 if discordant is None or callable(discordant) else discordant

    def is_shown(difference: float) -> bool:
        if discordant is None:
            differing = (1 + difference * difference) / 2
        else:
            differing = discordant(difference) if callable(discordant) else discordant
        return power_paired(cases, difference, differing) >= power

    return first_difference(is_shown, high)


def first_difference(is_shown: Callable[[float], bool], high: float = 1.0) -> float | None:
    """Returns the smallest difference within 0..`high` that is shown, to a millionth; None if none is.

    Args:
        is_shown: returns whether a difference is shown; so are all larger ones.
        high: the largest difference.
    """
    low = 0.0
    if not is_shown(high):
        return None
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return high


def cases_needed(difference: float, discordant: float, power: float = 0.8) -> int | None:
    """Returns how many pairs show a true difference of two paired shares with that power.

    Where nearly all pairs differ power rises unsteadily with their number, and a few fewer may do.

    Args:
        difference: the true share of the one less that of the other, within -discordant..discordant.
        discordant: the true share of pairs in which just one of the two passes, within 0..1.
        power: the chance to show it, within 0..1.

    Returns:
        None when ten million cases are not enough, as for no difference.

    Raises:
        ValueError: one of the shares is outside its range.
    """
    check_power(power)
    return fewest_cases(lambda cases: power_paired(cases, difference, discordant) >= power)


def fewest_cases(is_enough: Callable[[int], bool]) -> int | None:
    """Returns the smallest number of cases that is enough; None when ten million are not.

    Args:
        is_enough: returns whether a number of cases is enough; so are all larger ones.
    """
    if not is_enough(_MAX_CASES):
        return None
    low, high = 0, 1
    while not is_enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def check_power(power: float) -> None:
    """Checks that a power can be reached.

    Raises:
        ValueError: it is not between 0 and 1.
    """
    if not 0 < power < 1:
        raise ValueError(f"power must be within 0 and 1, not {power}.")


def _power_of_many(cases: int, size: float, discordant: float) -> float:
    from statistics import NormalDist

    spread = sqrt(max(discordant - size * size, 1e-300))
    edge, shift = Z_95 * sqrt(discordant) + 1 / sqrt(cases), size * sqrt(cases)
    below = NormalDist().cdf
    return below((shift - edge) / spread) + below((-shift - edge) / spread)


def binomial_probability(hits: int, draws: int, share: float) -> float:
    """Returns the probability of exactly this number of hits in independent draws.

    Args:
        hits: the number, within 0..draws.
        draws: how often is drawn.
        share: the probability of a hit, within 0..1.
    """
    if share >= 1.0:
        return float(hits == draws)
    if share <= 0.0:
        return float(hits == 0)
    ways = lgamma(draws + 1) - lgamma(hits + 1) - lgamma(draws - hits + 1)
    return exp(ways + hits * log(share) + (draws - hits) * log1p(-share))


@lru_cache(maxsize=1)
def _limits(most: int) -> list[int]:
    """Returns for 0 to `most` differing pairs how many of the rarer kind are still significant; -1 for none.

    That is the largest number for which twice the tail of a fair coin is at most 1/20.
    """
    limits, limit, tail = [], -1, 0  # the tail counts the ways to `limit` or fewer
    for differing in range(most + 1):
        if differing:
            tail = 2 * tail - (comb(differing - 1, limit) if limit >= 0 else 0)
        while 40 * (longer := tail + comb(differing, limit + 1)) <= 1 << differing:
            limit, tail = limit + 1, longer
        limits.append(limit)
    return limits
