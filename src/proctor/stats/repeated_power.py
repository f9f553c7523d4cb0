"""Power of a comparison whose cases have several pairs: what repeats add to more cases."""

from __future__ import annotations

from math import erfc, sqrt
from typing import NamedTuple

from proctor.stats.means import t_95
from proctor.stats.power import (
    binomial_probability,
    check_power,
    fewest_cases,
    first_difference,
    power_paired,
)
from proctor.stats.proportions import Z_95


class PairNoise(NamedTuple):
    """How far two runs of the same cases differ where neither is better, as shares of the cases.

    Two runs with one trial of each case differ in `chance + lasting` of them. With k trials of each case,
    the mean square of the differences between the shares of its trials that passed is `chance / k + lasting`.
    """

    chance: float
    """The part that repeats average out: twice the variance of one trial of a case."""
    lasting: float
    """The share of cases that one run passes and the other fails however often they are repeated."""

    def discordant(self, difference: float) -> float:
        """Returns the share of single pairs that differ if one run passes that share more of the cases.

        The pairs that make the difference are added, up to the share of answers that have nothing to do with
        one another: (1 + d * d) / 2 for a difference d, where the pass rates are d / 2 above and below half.
        """
        noise, size = self.chance + self.lasting, abs(difference)
        return min(1.0, noise + size, max(noise, (1 + size * size) / 2))


def power_repeated(cases: int, repeats: float, difference: float, noise: PairNoise) -> float:
    """Returns the chance that a comparison over cases with several pairs shows a difference of pass rates.

    The difference is shown if the permutation test over the cases' differences is below 5 % and the interval
    `clustered_newcombe` excludes 0, as in `proctor compare`. The cases that make the difference are taken to
    change altogether, so that a difference spread over many cases is shown more often. With one pair for
    each case, or without chance, it is `power_paired`. Otherwise the cases that change are counted by the
    binomial distribution, and the sum of all others is normal with variance `cases * chance / repeats`.

    Args:
        cases: how many cases there are.
        repeats: the number of trials of each case in each run; a mean if it is not the same.
        difference: the true pass rate of one run less that of the other, within -1..1.
        noise: how far the runs differ besides.

    Source: the variance of the difference is that of E. Miller, "Adding Error Bars to Evals" (2024),
    arXiv:2411.00640, section 5; the sum over the number of changed cases is that of `power_paired`.

    Raises:
        ValueError: `cases` is negative, `repeats` is below 1, or a share is outside its range.
    """
    chance, lasting, size = noise.chance, noise.lasting, abs(difference)
    if cases < 0 or repeats < 1 or not 0 <= size <= 1 or min(noise) < 0:
        raise ValueError(
            "cases must be 0 or more, repeats 1 or more, |difference| at most 1 and noise 0 or more, not "
            f"cases={cases}, repeats={repeats}, difference={difference} and noise={tuple(noise)}."
        )
    if repeats == 1 or not chance or not cases:
        return power_paired(cases, size, noise.discordant(size))
    changed_share = min(1.0, lasting + size)
    direction = size / changed_share if changed_share else 0.0
    chance_squares = cases * chance / repeats
    expected = cases * changed_share
    margin = 8 * sqrt(expected) + 30  # farther off are fewer than one in 10**12
    fewest, most = max(0, int(expected - margin)), min(cases, int(expected + margin))
    step = max(1, (most - fewest) // 400)  # the power changes little from one number to the next of many
    start = fewest + (round(expected) - fewest) % step  # so that the most probable number is among them
    power = weight = 0.0
    for changed in range(start, most + 1, step):
        probability = binomial_probability(changed, cases, changed_share)
        if probability > 1e-12:
            limit = _significant_sum(changed, chance_squares, cases, repeats)
            spread = sqrt(changed * (1 - direction * direction) + chance_squares)
            mean = changed * direction
            power += probability * (
                normal_below((mean - limit) / spread) + normal_below((-mean - limit) / spread)
            )
            weight += probability
    return min(1.0, power / weight)


def smallest_difference_repeated(
    cases: int, repeats: float, noise: PairNoise, power: float = 0.8
) -> float | None:
    """Returns the smallest true difference of pass rates that `power_repeated` shows with that power.

    Returns:
        A share within 0..1, to a millionth; None if no difference would be shown.

    Raises:
        ValueError: as `power_repeated`, or the power is not between 0 and 1.
    """
    check_power(power)
    return first_difference(lambda size: power_repeated(cases, repeats, size, noise) >= power)


def cases_needed_repeated(
    difference: float, repeats: float, noise: PairNoise, power: float = 0.8
) -> int | None:
    """Returns how many cases, each with that many trials in each run, show a true difference with that power.

    Returns:
        None when ten million cases are not enough, as for no difference.

    Raises:
        ValueError: as `power_repeated`, or the power is not between 0 and 1.
    """
    check_power(power)
    return fewest_cases(lambda cases: power_repeated(cases, repeats, difference, noise) >= power)


def normal_below(z: float) -> float:
    """Returns the share of a normal distribution that is below z standard deviations."""
    return erfc(-z / 1.4142135623730951) / 2


def _significant_sum(changed: int, chance_squares: float, cases: int, repeats: float) -> float:
    """Returns the sum of differences from which on both the permutation test and the interval show it.

    Args:
        changed: the number of cases with a difference of 1 or -1.
        chance_squares: the sum of the squared differences of all other cases.
        cases: the number of all cases.
        repeats: the number of trials of each case.
    """
    squares = changed + chance_squares
    t_squared = t_95(max(1, cases - 1)) ** 2 * cases / max(1, cases - 1)
    interval_limit = sqrt(t_squared * squares / (1 + t_squared / cases))
    # The sums of other signs are 2 / repeats apart; half of that corrects for continuity.
    return max(interval_limit, Z_95 * sqrt(squares) + 1 / repeats)
