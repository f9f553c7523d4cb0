"""Bootstrap intervals: quantiles of resampled means."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from proctor.stats.means import check_finite, quantile


def bootstrap(values: Sequence[float], draws: int = 5000, seed: int = 0) -> tuple[float, float] | None:
    """Returns the 95 % percentile bootstrap interval of the mean; None below two values.

    Values must be independent. The same values, draws and seed give the same interval on every machine.

    Source: B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13.

    Raises:
        ValueError: a value is not finite, or `draws` is below 1.
        OverflowError: their sum is beyond what a float can hold.
    """
    from random import Random

    check_finite(values)
    check_draws(draws)
    if len(values) < 2:
        return None
    random, count = Random(seed), len(values)  # noqa: S311  # no secret
    means = sorted(fsum(random.choices(values, k=count)) / count for _ in range(draws))
    low, high = quantile(means, 0.025), quantile(means, 0.975)
    assert low is not None
    assert high is not None
    return low, high


def bca(values: Sequence[float], draws: int = 5000, seed: int = 0) -> tuple[float, float] | None:
    """Returns the 95 % bias-corrected and accelerated bootstrap interval of the mean of independent values.

    It fits a skewed sample better than `bootstrap`. The same values, draws and seed give the same
    interval on every machine.

    Returns:
        None below two values, and when all are equal: samples of such values are equal too, which is no
        evidence that the next value is.

    Source: B. Efron, "Better bootstrap confidence intervals", Journal of the American Statistical Association
    82 (1987), 171-185; the acceleration by the jackknife.

    Raises:
        ValueError: a value is not finite, or `draws` is below 1.
        OverflowError: their powers are beyond what a float can hold.
    """
    return accelerated(values, [1] * len(values), draws, seed)


def check_draws(draws: int) -> None:
    """Checks the number of draws.

    Raises:
        ValueError: `draws` is below 1.
    """
    if draws < 1:
        raise ValueError(f"draws must be at least 1, not {draws}.")


_MAX_GROUPS = 1000


def accelerated(
    sums: Sequence[float], counts: Sequence[int], draws: int, seed: int
) -> tuple[float, float] | None:
    """Returns the BCa interval of `sum(sums) / sum(counts)`, drawing groups of that sum and that count each.

    More than a thousand groups are combined at random into a thousand blocks, which are drawn whole: the
    interval hardly differs, and takes a fraction of the time.

    Raises:
        ValueError: a sum is not finite, or `draws` is below 1.
        OverflowError: their powers are beyond what a float can hold.
    """
    from random import Random
    from statistics import NormalDist

    check_finite(sums)
    check_draws(draws)
    if len(sums) > _MAX_GROUPS:
        sums, counts = _blocks(sums, counts, seed)
    total, members, n_groups = fsum(sums), sum(counts), len(sums)
    if n_groups < 2:
        return None
    jackknife_means = [
        (total - group_sum) / (members - count) for group_sum, count in zip(sums, counts, strict=True)
    ]
    middle = fsum(jackknife_means) / n_groups
    spread = fsum((middle - mean) ** 2 for mean in jackknife_means)
    if spread <= 1e-24 * max(1.0, middle * middle):
        return None
    random, places = Random(seed), range(n_groups)  # noqa: S311  # no secret
    means = []
    for _ in range(draws):
        sample = random.choices(places, k=n_groups)
        means.append(fsum(map(sums.__getitem__, sample)) / sum(map(counts.__getitem__, sample)))
    means.sort()
    acceleration = fsum((middle - mean) ** 3 for mean in jackknife_means) / (6 * spread**1.5)
    normal = NormalDist()
    bias = normal.inv_cdf(_share_below(means, total / members))

    def get_bound(share: float) -> float:
        shifted = bias + normal.inv_cdf(share)
        bound = quantile(means, normal.cdf(bias + shifted / (1 - acceleration * shifted)))
        assert bound is not None
        return bound

    return get_bound(0.025), get_bound(0.975)


def _blocks(sums: Sequence[float], counts: Sequence[int], seed: int) -> tuple[list[float], list[int]]:
    from random import Random

    order = list(range(len(sums)))
    Random(seed).shuffle(order)  # noqa: S311  # no secret
    blocks = [order[start::_MAX_GROUPS] for start in range(_MAX_GROUPS)]
    return (
        [fsum(map(sums.__getitem__, block)) for block in blocks],
        [sum(map(counts.__getitem__, block)) for block in blocks],
    )


def _share_below(values: Sequence[float], value: float) -> float:
    """Returns the share of sorted values below a value, equal ones counted half; never 0 or 1."""
    from bisect import bisect_left, bisect_right

    close = 1e-12 * max(1.0, abs(value))  # sums in another order differ by their rounding errors
    below, up_to = bisect_left(values, value - close), bisect_right(values, value + close)
    return min(max((below + up_to) / 2, 0.5), len(values) - 0.5) / len(values)
