"""Power of a comparison whose cases come in clusters, such as questions on one document."""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

from proctor.stats.means import t_95
from proctor.stats.power import binomial_probability, check_power, fewest_cases, first_difference
from proctor.stats.proportions import Z_95
from proctor.stats.repeated_power import PairNoise, normal_below


class ClusterNoise(NamedTuple):
    """How far the cases of a cluster differ together between two runs, and how large clusters are."""

    covariance: float
    """The covariance of the differences of two cases of a cluster, where neither run is better."""
    relation: float
    """The correlation within clusters of the cases that make one run better, within 0..1."""
    mean_size: float
    """The mean number of cases in a cluster, at least 1."""
    case_size: float
    """The mean over cases of the size of their cluster, at least `mean_size`: the sum of the squared sizes
    over the number of cases."""


def power_clustered(
    cases: float, repeats: float, difference: float, noise: PairNoise, clusters: ClusterNoise
) -> float:
    """Returns the chance that a comparison over clusters of cases shows a difference of pass rates.

    The difference is shown if the permutation test over the clusters' differences is below 5 % and the
    interval `clustered_newcombe` excludes 0, as in `proctor compare`. Cases that change do so in
    groups of 1 + (s - 1) r cases, the design effect of a mean size s over cases and a correlation r within
    clusters, and the groups are counted by the binomial distribution; chance is independent from case to
    case. The rest is as in `power_repeated`, with the degrees of freedom of the clusters.

    Args:
        cases: how many cases there are.
        repeats: the number of trials of each case in each run; a mean if it is not the same.
        difference: the true pass rate of one run less that of the other, within -1..1.
        noise: how far the runs differ besides.
        clusters: how far the cases of a cluster differ together.

    Source: L. Kish, "Survey Sampling" (1965), section 5.4, for the design effect; for unequal sizes L. Kish,
    "Weighting in deft2", The Survey Statistician 17 (1987). The chance is summed as in `power_repeated`.

    Raises:
        ValueError: a number is outside its range.
    """
    size = abs(difference)
    if cases < 0 or repeats < 1 or not size <= 1 or min(noise) < 0 or min(clusters[:2]) < 0:
        raise ValueError(
            "cases must be 0 or more, repeats 1 or more, |difference| at most 1 and noise 0 or more, not "
            f"cases={cases}, repeats={repeats}, difference={difference} and noise={tuple(noise)}, "
            f"{tuple(clusters)}."
        )
    chance = noise.chance / repeats
    changed_share = min(1.0, noise.lasting + size)
    if repeats == 1:  # pairs of answers that have nothing to do with one another differ no more than this
        changed_share = max(size, min(changed_share, noise.discordant(size) - chance))
    variance = changed_share - size * size
    if cases < 2 * clusters.mean_size or variance + chance <= 0:  # one cluster shows nothing
        return 0.0
    together = min(variance, clusters.covariance + clusters.relation * (size - size * size))
    scale = 1 + (clusters.case_size - 1) * together / variance if variance else 1.0
    test = _ClusterTest(
        scale=scale,
        clusters=cases / clusters.mean_size,
        groups=max(1, round(cases / scale)),
        freedom=max(1, int(cases / clusters.case_size) - 1),
        step=1 / repeats,
    )
    return _sum_power(size, changed_share, cases * chance, test)


class _ClusterTest(NamedTuple):
    """When the sum of the differences of all cases shows a difference."""

    scale: float
    """The number of cases that change together."""
    clusters: float
    """The number of clusters."""
    groups: int
    """The number of groups of cases that change together."""
    freedom: int
    step: float
    """The smallest difference of a case: one trial of it."""

    def limit(self, squares: float) -> float:
        """Returns the sum from which on test and interval show it, by the sum of the groups' squares.

        A sum of S adds S * S * (1 / clusters - 1 / groups) to the squares, as those of clusters have more
        of their mean in them.
        """
        t = t_95(self.freedom)
        t_squared = t * t * self.clusters / max(1.0, self.clusters - 1)
        test_part = 1 - Z_95 * Z_95 * (1 / self.clusters - 1 / self.groups)
        if test_part <= 0:
            return inf
        interval_limit = sqrt(t_squared * squares / (1 + t_squared / self.groups))
        return max(interval_limit, Z_95 * sqrt(squares / test_part) + self.step)


def _sum_power(size: float, changed_share: float, chance_squares: float, test: _ClusterTest) -> float:
    """Returns the power, summed over the number of groups that change.

    Args:
        size: the true difference.
        changed_share: the share of the groups that change, to a better or worse verdict.
        chance_squares: the variance of the sum of the differences by chance.
        test: when a sum shows a difference.
    """
    groups, scale, direction = test.groups, test.scale, size / changed_share if changed_share else 0.0
    expected = groups * changed_share
    margin = 8 * sqrt(expected) + 30  # farther off are fewer than one in 10**12
    fewest, most = max(0, int(expected - margin)), min(groups, int(expected + margin))
    step = max(1, (most - fewest) // 400)
    start = fewest + (round(expected) - fewest) % step
    power = weight = 0.0
    for changed in range(start, most + 1, step):
        probability = binomial_probability(changed, groups, changed_share)
        squares = changed * scale * scale
        spread = sqrt(squares * (1 - direction * direction) + chance_squares)
        if probability > 1e-12 and spread:
            limit, mean = test.limit(squares + chance_squares), changed * scale * direction
            both_sides = normal_below((mean - limit) / spread) + normal_below((-mean - limit) / spread)
            power += probability * both_sides
            weight += probability
    return min(1.0, power / weight) if weight else 0.0


def smallest_difference_clustered(
    cases: int, repeats: float, noise: PairNoise, clusters: ClusterNoise, power: float = 0.8
) -> float | None:
    """Returns the smallest true difference of pass rates that `power_clustered` shows with that power.

    Returns:
        A share within 0..1, to a millionth; None if no difference would be shown.

    Raises:
        ValueError: as `power_clustered`, or the power is not between 0 and 1.
    """
    check_power(power)
    return first_difference(
        lambda size: power_clustered(cases, repeats, size, noise, clusters) >= power, 0.99
    )


def clusters_needed(
    difference: float, repeats: float, noise: PairNoise, clusters: ClusterNoise, power: float = 0.8
) -> int | None:
    """Returns how many clusters, of the same sizes, show a true difference of pass rates with that power.

    Returns:
        None when ten million clusters are not enough, as for no difference.

    Raises:
        ValueError: as `power_clustered`, or the power is not between 0 and 1.
    """
    check_power(power)
    return fewest_cases(
        lambda count: (
            power_clustered(count * clusters.mean_size, repeats, difference, noise, clusters) >= power
        )
    )
