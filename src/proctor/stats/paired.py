"""Two sides over the same pairs: the difference, its interval, and whether chance explains it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction
from math import fsum, lcm, sqrt
from operator import getitem

from proctor.stats.proportions import wilson


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
    return sign_test(first, second)


def sign_test(positive: int, negative: int) -> float:
    """The two-sided p-value of the exact sign test: that differences are as often above 0 as below.

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
    differing, fewer = positive + negative, min(positive, negative)
    if differing > 2000:  # whole numbers of so many digits are slow
        from proctor.stats.incomplete_beta import at_most

        return min(1.0, 2 * at_most(fewer, differing, 0.5))
    ways = tail = 1
    for hits in range(fewer):
        ways = ways * (differing - hits) // (hits + 1)
        tail += ways
    return min(1.0, 2 * tail / (1 << differing))


def permutation(differences: Sequence[float], draws: int = 10000, seed: int = 0) -> float:
    """The two-sided p-value of the paired permutation test: that each sign may as well be the other one.

    Of all ways to turn signs round, the share whose mean is as far from 0 as the one found. It is exact where
    all ways can be counted: for few differences, and for many that are multiples of one number, such as
    verdicts or scores in thirds. Otherwise `draws` random ways are tried, and the way found is one of them,
    so that p is never 0.

    Args:
        differences: first less second, of each pair.
        draws: how many ways are tried when they are too many to count.
        seed: the same seed tries the same ways.

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
    sizes = [abs(value) for value in differences if value]
    found = abs(fsum(differences))
    if not sizes:
        return 1.0
    if (steps := _steps(sizes)) is not None:
        return _counted(steps, round(found / sizes[0] * steps[0]))
    enough = found - 1e-9 * fsum(sizes)  # sums in another order differ by their rounding errors
    if 1 << len(sizes) <= draws:
        sums = _sums(sizes)
        return sum(abs(each) >= enough for each in sums) / len(sums)
    return _drawn(sizes, enough, draws, seed)


_MOST_WORK = 2_000_000_000
"""Bytes that an exact count may add up."""


def _steps(sizes: Sequence[float]) -> list[int] | None:
    """The sizes in multiples of one number, when there is one for which counting is cheap."""
    shares = {size: Fraction(size).limit_denominator(1000) for size in set(sizes)}
    if any(abs(share - size) > 1e-12 * size for size, share in shares.items()):
        return None
    unit = lcm(*(share.denominator for share in shares.values()))
    whole = {size: int(share * unit) for size, share in shares.items()}
    total, count = sum(whole[size] for size in sizes), len(sizes)
    if len(whole) > 1 and total * count * count // 16 > _MOST_WORK:
        return None
    return [whole[size] for size in sizes]


def _counted(steps: Sequence[int], found: int) -> float:
    """The share of ways to sign the steps whose sum is at least `found` from 0."""
    if len(set(steps)) == 1:
        more = (len(steps) + found // steps[0]) // 2
        return sign_test(more, len(steps) - more)
    # Way number by sum of what is positive, in the digits of one number: each step shifts and adds.
    most, width = (sum(steps) - found) // 2, len(steps) + 1
    kept = (1 << (most + 1) * width) - 1
    ways = 1
    for step in steps:
        ways += (ways << step * width) & kept
        ways &= kept
    return min(1.0, 2 * (ways % ((1 << width) - 1)) / (1 << len(steps)))


def _sums(sizes: Sequence[float]) -> list[float]:
    """The sums of the sizes with all combinations of signs."""
    sums = [0.0]
    for size in sizes:
        sums = [value + sign for sign in (size, -size) for value in sums]
    return sums


def _drawn(sizes: Sequence[float], enough: float, draws: int, seed: int) -> float:
    from collections import Counter
    from random import Random

    counts = Counter(sizes)
    alike = [(size, count) for size, count in counts.items() if count > 8]  # all of a size at once
    single = [size for size in sizes if counts[size] <= 8]
    tables = [_sums(single[start : start + 8]) for start in range(0, len(single), 8)]
    if tables:
        tables[-1] *= 256 // len(tables[-1])  # each byte that is drawn signs eight differences
    drawn, far = Random(seed), 0  # noqa: S311  # no secret
    for _ in range(draws):
        total = sum(map(getitem, tables, drawn.randbytes(len(tables))))
        total += sum(size * (2 * drawn.getrandbits(count).bit_count() - count) for size, count in alike)
        far += abs(total) >= enough
    return (far + 1) / (draws + 1)


def paired_bootstrap(
    first: Sequence[float],
    second: Sequence[float],
    groups: Sequence[Hashable] | None = None,
    draws: int = 5000,
    seed: int = 0,
) -> tuple[float, float] | None:
    """The 95 % bootstrap interval (BCa) of the mean difference, first less second, over the same pairs.

    Args:
        first: the values of one side.
        second: those of the other, in the same order.
        groups: what each pair belongs to, such as its case when there are repeats. Whole groups are drawn,
            as pairs of one group tell less than as many independent ones.
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

    differences = [one - other for one, other in zip(first, second, strict=True)]
    if groups is None:
        return accelerated(differences, [1] * len(differences), draws, seed)
    gathered: dict[Hashable, list[float]] = {}
    for group, difference in zip(groups, differences, strict=True):
        gathered.setdefault(group, []).append(difference)
    members = list(gathered.values())
    return accelerated([fsum(each) for each in members], [len(each) for each in members], draws, seed)
