"""Two sides over the same pairs: the difference, its interval, and tests against chance."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import fsum, lcm, sqrt
from operator import getitem

from proctor.stats.proportions import wilson


def newcombe_paired(both: float, first: float, second: float, neither: float) -> tuple[float, float] | None:
    """Returns the 95 % hybrid score interval of the difference of two shares over the same pairs.

    The difference is `(first - second) / pairs`, the interval within -1..1. None without pairs. Counts may be
    fractional, as effective numbers of pairs are.

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
    bounds, other_bounds = wilson(both + first, pairs), wilson(both + second, pairs)
    if bounds is None or other_bounds is None:
        return None
    share, other = (both + first) / pairs, (both + second) / pairs
    correlation = _corrected_phi(both, first, second, neither)
    below = _combine_distances(share - bounds[0], other_bounds[1] - other, correlation)
    above = _combine_distances(bounds[1] - share, other - other_bounds[0], correlation)
    return max(-1.0, share - other - below), min(1.0, share - other + above)


def _combine_distances(first: float, second: float, correlation: float) -> float:
    return sqrt(max(0.0, first * first - 2 * correlation * first * second + second * second))


def _corrected_phi(both: float, first: float, second: float, neither: float) -> float:
    """Returns the correlation of the pairs, corrected towards 0 if it is positive."""
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    if not margins:
        return 0.0
    excess = both * neither - first * second
    if excess > 0:
        excess = max(0.0, excess - (both + first + second + neither) / 2)
    return excess / sqrt(margins)


def mcnemar(first: int, second: int, *, mid_p: bool = False) -> float:
    """Returns the two-sided p-value of McNemar's test: that pairs differ one way as often as the other.

    The exact test never rejects too often, and with few differing pairs far too seldom. With `mid_p` only
    half the probability of the observed counts is in the tail, so that it finds more. It stays below 5 % as
    long as at most half of all pairs differ; where nearly all do, it can reach 8 %.

    Args:
        first: pairs in which only the first passed.
        second: pairs in which only the second passed.
        mid_p: whether to return the mid-p-value instead of the exact one.

    Source: Q. McNemar, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12 (1947), 153-157, with the binomial distribution instead of the normal. The
    mid-p-value is twice the one-sided one of M. W. Fagerland, S. Lydersen and P. Laake, "The McNemar test for
    binary matched-pairs data: mid-p and asymptotic are better than exact conditional", BMC Medical Research
    Methodology 13 (2013), 91.

    Raises:
        ValueError: a count is negative.
    """
    exact = sign_test(first, second)
    if not mid_p or first == second:
        return exact
    fewer, more = sorted((first, second))
    beyond = sign_test(fewer - 1, more + 1) if fewer else 0.0
    return (exact + beyond) / 2


def sign_test(positive: int, negative: int) -> float:
    """Returns the two-sided p-value of the exact sign test: that differences are as often above 0 as below.

    Args:
        positive: differences above 0.
        negative: differences below 0; those that are 0 are left out of the test.

    Source: W. J. Dixon and A. M. Mood, "The statistical sign test", Journal of the American Statistical
    Association 41 (1946), 557-566.

    Raises:
        ValueError: a count is negative.
    """
    if positive < 0 or negative < 0:
        raise ValueError(f"counts must be 0 or more, not {(positive, negative)}.")
    n_differing, smaller_count = positive + negative, min(positive, negative)
    if n_differing > 2000:  # integers with thousands of digits are slow
        from proctor.stats.incomplete_beta import at_most

        return min(1.0, 2 * at_most(smaller_count, n_differing, 0.5))
    ways = tail = 1
    for hits in range(smaller_count):
        ways = ways * (n_differing - hits) // (hits + 1)
        tail += ways
    return min(1.0, 2 * tail / (1 << n_differing))


def permutation(differences: Sequence[float], draws: int = 10000, seed: int = 0) -> float:
    """Returns the two-sided p-value of the paired permutation test: that signs are arbitrary.

    The p-value is the share of all sign combinations whose mean is at least as far from 0 as the observed
    one. It is exact if all combinations can be counted: for few differences, and for many that are multiples
    of one number, such as verdicts or scores in thirds. Otherwise `draws` random combinations are tried, and
    the observed one is counted among them, so that p is never 0.

    Args:
        differences: first less second, of each pair. Below 1e-12 they are rounding errors of sums, and 0.
        draws: how many combinations are tried if there are too many to count.
        seed: the same seed tries the same combinations.

    Source: R. A. Fisher, "The Design of Experiments" (1935), section 21; the count of random ways as in
    B. Phipson and G. K. Smyth, "Permutation p-values should never be zero", Statistical Applications in
    Genetics and Molecular Biology 9 (2010), 39.

    Raises:
        ValueError: a difference is not finite, or `draws` is below 1.
        OverflowError: their sum is beyond what a float can hold.
    """
    from proctor.stats.means import check_finite
    from proctor.stats.resampling import check_draws

    check_finite(differences)
    check_draws(draws)
    sizes = [size for value in differences if (size := abs(value)) >= _MIN_SIZE]
    observed = abs(fsum(value for value in differences if abs(value) >= _MIN_SIZE))
    if not sizes:
        return 1.0
    if (steps := _steps(sizes)) is not None:
        return _count_signs(steps, round(observed / sizes[0] * steps[0]))
    threshold = observed - 1e-9 * fsum(sizes)  # sums in another order differ by their rounding errors
    if 1 << len(sizes) <= draws:
        sums = _sums(sizes)
        return sum(abs(total) >= threshold for total in sums) / len(sums)
    return _draw_signs(sizes, threshold, draws, seed)


_MIN_SIZE = 1e-12
"""A smaller difference is a rounding error."""
_MAX_WORK_BYTES = 2_000_000_000
"""How many bytes an exact count may add up."""


def _steps(sizes: Sequence[float]) -> list[int] | None:
    """Returns the sizes as multiples of one number, if there is one for which counting is cheap."""
    from fractions import Fraction

    shares = {size: Fraction(size).limit_denominator(1000) for size in set(sizes)}
    if any(abs(share - size) > 1e-12 * size for size, share in shares.items()):
        return None
    unit = lcm(*(share.denominator for share in shares.values()))
    multiples = {size: int(share * unit) for size, share in shares.items()}
    total, count = sum(multiples[size] for size in sizes), len(sizes)
    if len(multiples) > 1 and total * count * count // 16 > _MAX_WORK_BYTES:
        return None
    return [multiples[size] for size in sizes]


def _count_signs(steps: Sequence[int], observed: int) -> float:
    """Returns the share of ways to sign the steps whose sum is at least `observed` from 0."""
    if len(set(steps)) == 1:
        more = (len(steps) + observed // steps[0]) // 2
        return sign_test(more, len(steps) - more)
    # The number of ways for each positive sum, in the digits of one integer: each step shifts and adds.
    max_sum, width = (sum(steps) - observed) // 2, len(steps) + 1
    mask = (1 << (max_sum + 1) * width) - 1
    ways = 1
    for step in steps:
        ways += (ways << step * width) & mask
        ways &= mask
    return min(1.0, 2 * (ways % ((1 << width) - 1)) / (1 << len(steps)))


def _sums(sizes: Sequence[float]) -> list[float]:
    """Returns the sums of the sizes with all combinations of signs."""
    sums = [0.0]
    for size in sizes:
        sums = [value + sign for sign in (size, -size) for value in sums]
    return sums


def _draw_signs(sizes: Sequence[float], threshold: float, draws: int, seed: int) -> float:
    from collections import Counter
    from random import Random

    counts = Counter(sizes)
    repeated = [(size, count) for size, count in counts.items() if count > 8]  # all of a size at once
    remaining = [size for size in sizes if counts[size] <= 8]
    tables = [_sums(remaining[start : start + 8]) for start in range(0, len(remaining), 8)]
    if tables:
        tables[-1] *= 256 // len(tables[-1])  # each byte that is drawn signs eight differences
    random, n_far = Random(seed), 0  # noqa: S311  # no secret
    for _ in range(draws):
        total = sum(map(getitem, tables, random.randbytes(len(tables))))
        total += sum(size * (2 * random.getrandbits(count).bit_count() - count) for size, count in repeated)
        n_far += abs(total) >= threshold
    return (n_far + 1) / (draws + 1)


def paired_bootstrap(
    first: Sequence[float],
    second: Sequence[float],
    groups: Sequence[Hashable] | None = None,
    draws: int = 5000,
    seed: int = 0,
) -> tuple[float, float] | None:
    """Returns the 95 % bootstrap interval (BCa) of the mean difference, first minus second, of pairs.

    Args:
        first: the values of one side.
        second: those of the other, in the same order.
        groups: the group of each pair, such as its case if there are repeats. Whole groups are drawn, as
            pairs of one group say less than the same number of independent pairs.
        draws: how many samples are drawn.
        seed: the same values, draws and seed give the same interval on every machine.

    Returns:
        None when there is nothing to draw from: fewer than two groups, or no difference between them.

    Source: as `proctor.stats.bca`; groups as in A. C. Davison and D. V. Hinkley, "Bootstrap Methods and their
    Application" (1997), section 3.8.

    Raises:
        ValueError: the sequences are not of the same length, a value is not finite, or `draws` is below 1.
        OverflowError: powers of the differences are beyond what a float can hold.
    """
    from proctor.stats.resampling import accelerated

    differences = [left - right for left, right in zip(first, second, strict=True)]
    if groups is None:
        return accelerated(differences, [1] * len(differences), draws, seed)
    grouped: dict[Hashable, list[float]] = {}
    for group, difference in zip(groups, differences, strict=True):
        grouped.setdefault(group, []).append(difference)
    members = list(grouped.values())
    return accelerated([fsum(group) for group in members], [len(group) for group in members], draws, seed)
