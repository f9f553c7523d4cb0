"""Values that come in groups, such as the repeats of one case or the cases on one document."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import fsum, sqrt
from typing import NamedTuple

from proctor.stats.means import check_finite, t_95
from proctor.stats.paired import newcombe_paired
from proctor.stats.proportions import clopper_pearson, wilson

FEW_CLUSTERS = 10
"""Below this number of groups, that these agree can be chance, and intervals over them are rough."""


class GroupVariances(NamedTuple):
    """The variance of values in groups, as two parts."""

    between: float
    """The part that the values of a group share: the covariance of two of them. Below 0 by chance if the
    values of a group are less alike than those of different groups."""
    within: float
    """The part within groups."""


def group_variances(values: Sequence[float], groups: Sequence[Hashable]) -> GroupVariances | None:
    """Estimates the variance between groups and within them, by one-way analysis of variance.

    Args:
        values: the values.
        groups: the group of each value.

    Returns:
        None below two groups, and if no group has two values.

    Source: S. R. Searle, G. Casella and C. E. McCulloch, "Variance Components" (1992), section 3.6.

    Raises:
        ValueError: the sequences are not of the same length, or a value is not finite.
    """
    check_finite(values)
    members: dict[Hashable, list[float]] = {}
    for group, value in zip(groups, values, strict=True):
        members.setdefault(group, []).append(value)
    count, total = len(members), len(values)
    if count < 2 or total == count:
        return None
    mean = fsum(values) / total
    means = [(len(group), fsum(group) / len(group)) for group in members.values()]
    between_square = fsum(size * (part - mean) ** 2 for size, part in means) / (count - 1)
    squares = [
        fsum((value - part) ** 2 for value in group)
        for group, (_, part) in zip(members.values(), means, strict=True)
    ]
    within_square = fsum(squares) / (total - count)
    size = (total - sum(size * size for size, _ in means) / total) / (count - 1)
    return GroupVariances((between_square - within_square) / size, within_square)


def clustered_error(values: Sequence[float], groups: Sequence[Hashable]) -> float | None:
    """Returns the standard error of a mean whose values come in groups, such as the repeats of one case.

    Values of a group may depend on one another in any way; groups are independent. It is the cluster-robust
    error with the correction G / (G - 1) for G groups (CR1), and of groups of one value each the usual error.

    Args:
        values: the values.
        groups: the group of each value.

    Returns:
        None below two groups.

    Source: K.-Y. Liang and S. L. Zeger, "Longitudinal data analysis using generalized linear models",
    Biometrika 73 (1986), 13-22; for evaluations E. Miller, "Adding Error Bars to Evals" (2024),
    arXiv:2411.00640, section 2.2, without the correction.

    Raises:
        ValueError: the sequences are not of the same length, or a value is not finite.
        OverflowError: their squares are beyond what a float can hold.
    """
    check_finite(values)
    members: dict[Hashable, list[float]] = {}
    for group, value in zip(groups, values, strict=True):
        members.setdefault(group, []).append(value)
    count = len(members)
    if count < 2:
        return None
    mean = fsum(values) / len(values)
    squares = fsum(fsum(value - mean for value in group) ** 2 for group in members.values())
    return sqrt(count / (count - 1) * squares) / len(values)


def clustered_interval(values: Sequence[float], groups: Sequence[Hashable]) -> tuple[float, float] | None:
    """Returns the 95 % t-interval of a mean of grouped values, as (low, high); None below two groups.

    The error is `clustered_error`, the degrees of freedom are those of the groups, less one.

    Raises:
        ValueError: the sequences are not of the same length, or a value is not finite.
        OverflowError: their squares are beyond what a float can hold.
    """
    error = clustered_error(values, groups)
    if error is None:
        return None
    mean, spread = fsum(values) / len(values), t_95(len(set(groups)) - 1) * error
    return mean - spread, mean + spread


def clustered_wilson(
    groups: Sequence[tuple[float, int, int]], inverse_repeats: float
) -> tuple[float, float] | None:
    """Returns the 95 % Wilson interval of a mean of rates in groups, with an effective number of cases.

    That is the number of independent cases of one trial each whose mean would vary as much. The variance is
    that of `clustered_error`, so that rates of a group may depend on one another in any way. The number is
    never below that of groups whose members are all alike, and never above that of the trials. Of fewer than
    `FEW_CLUSTERS` groups it is that of the groups where all have the same rate, and elsewhere at most what
    independent trials would give: few groups can agree by chance. Of single trials in groups of one it is
    their number, and the interval is `wilson`'s.

    Args:
        groups: the sum of the rates of a group, the number of its cases, and how many such groups there are.
        inverse_repeats: the sum over all cases of 1 / the number of their trials.

    Returns:
        None without groups.

    Source: E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected number of
    positive counts estimated from survey data", Survey Methodology 24 (1998), 193-201, for the number and its
    factor of t; with Wilson's interval as in C. Franco et al., "Comparative study of confidence intervals for
    proportions in complex sample surveys", Journal of Survey Statistics and Methodology 7 (2019), 334-364.
    """
    effective = effective_cases(groups, inverse_repeats)
    return None if effective is None else wilson(*effective)


def clustered_exact(
    groups: Sequence[tuple[float, int, int]], inverse_repeats: float
) -> tuple[float, float] | None:
    """Returns the 95 % interval of Clopper and Pearson for a mean of rates in groups, as `clustered_wilson`.

    Of single trials in groups of one, each of its ends is wrong at most 2.5 % of the time, whatever the mean.

    Args:
        groups: the sum of the rates of a group, the number of its cases, and how many such groups there are.
        inverse_repeats: the sum over all cases of 1 / the number of their trials.

    Returns:
        None without groups.

    Source: E. L. Korn and B. I. Graubard, as for `clustered_wilson`.
    """
    effective = effective_cases(groups, inverse_repeats)
    return None if effective is None else clopper_pearson(*effective)


def effective_cases(
    groups: Sequence[tuple[float, int, int]], inverse_repeats: float
) -> tuple[float, float] | None:
    """Returns the effective number of cases that passed, and of all, as `clustered_wilson` takes them.

    Args:
        groups: the sum of the rates of a group, the number of its cases, and how many such groups there are.
        inverse_repeats: the sum over all cases of 1 / the number of their trials.

    Returns:
        Two numbers whose ratio is the mean of the rates; None without groups.

    Source: E. L. Korn and B. I. Graubard, as for `clustered_wilson`.
    """
    cases = sum(size * count for _, size, count in groups)
    if not cases:
        return None
    total, n_groups = fsum(count * part for part, _, count in groups), sum(count for *_, count in groups)
    rate = total / cases
    fewest = cases**2 / sum(count * size**2 for _, size, count in groups)
    most = cases**2 / inverse_repeats
    squares = fsum(count * (part - size * rate) ** 2 for part, size, count in groups)
    number = fewest
    if n_groups > 1 and 0 < rate < 1:
        variance = max(1e-12, n_groups / (n_groups - 1) * squares / cases**2)
        factor = t_95(max(1, round(most) - 1)) / t_95(n_groups - 1)
        if n_groups >= FEW_CLUSTERS:
            number = min(most, max(fewest, rate * (1 - rate) / variance * factor**2))
        elif variance > 1e-12:
            number = max(fewest, min(most, rate * (1 - rate) / variance) * factor**2)
    return min(total * (number / cases), number), number


def clustered_newcombe(
    groups: Sequence[tuple[float, int]],
    table: tuple[float, float, float, float],
    inverse_repeats: float,
) -> tuple[float, float] | None:
    """Returns the 95 % interval of a mean difference of cases in groups, with an effective number of pairs.

    It is `newcombe_paired`'s for as many independent pairs, distributed as in the table, as have a difference
    that would vary as much: what `clustered_wilson` is for the rate of one run. The number is never below
    that of groups whose members are all alike, and never above that of the pairs. Of single pairs in groups
    of one it is their number.

    Args:
        groups: the sum of the differences of a group's cases, first less second, and the number of its cases.
        table: the sums over all cases of the shares of a case's pairs in which both passed, only the first,
            only the second, and neither. A case counts once, so they add up to the number of cases.
        inverse_repeats: the sum over all cases of 1 / the number of their pairs.

    Returns:
        Two differences within -1..1; None without groups.

    Source: R. G. Newcombe as for `newcombe_paired`; E. L. Korn and B. I. Graubard as for `clustered_wilson`,
    for the number; of groups of unequal size the degrees of freedom are those of the effective number of
    groups with equal variances of A. V. Carter, K. T. Schnepel and D. G. Steigerwald, "Asymptotic behavior of
    a t-test robust to cluster heterogeneity", Review of Economics and Statistics 99 (2017), 698-709.
    """
    if not groups:
        return None
    cases, n_groups = sum(size for _, size in groups), len(groups)
    mean = fsum(total for total, _ in groups) / cases
    fewest = number = cases**2 / sum(size**2 for _, size in groups)
    most = cases**2 / inverse_repeats
    spread = (table[1] + table[2]) / cases - mean * mean
    if n_groups > 1 and spread > 1e-12:
        squares = fsum((total - size * mean) ** 2 for total, size in groups)
        variance = max(1e-12, n_groups / (n_groups - 1) * squares / cases**2)
        factor = t_95(max(1, round(most) - 1)) / t_95(max(1, int(fewest) - 1))
        number = min(most, max(fewest, spread / variance * factor**2))
    both, first, second, neither = (count * (number / cases) for count in table)
    return newcombe_paired(both, first, second, neither)


def clustered_difference_interval(groups: Sequence[tuple[float, int]]) -> tuple[float, float] | None:
    """Returns the 95 % interval of the mean difference of cases in groups; None without any.

    Differences are within -1..1. It is the t-interval of the mean over groups after two groups of mean size
    are added, one without a difference, and half a group each of +1 and -1, so that it has width if all are
    the same. Its degrees of freedom are those of the effective number of groups, which is smaller if few
    groups hold most of the cases. Of groups of one case it is `agresti_min_interval`.

    Args:
        groups: the sum of the differences of a group's cases, and the number of its cases.

    Source: the variance as in `clustered_error`; the added groups as A. Agresti and Y. Min, "Simple improved
    confidence intervals for comparing matched proportions", Statistics in Medicine 24 (2005), 729-740, add
    pairs; the effective number with equal variances of A. V. Carter, K. T. Schnepel and D. G. Steigerwald,
    "Asymptotic behavior of a t-test robust to cluster heterogeneity", Review of Economics and Statistics 99
    (2017), 698-709.
    """
    if not groups:
        return None
    cases = sum(size for _, size in groups)
    size_added = cases / len(groups)
    count = cases + 2 * size_added
    mean = fsum(total for total, _ in groups) / count
    squares = fsum((total - size * mean) ** 2 for total, size in groups)
    squares += size_added**2 * (mean**2 + ((1 - mean) ** 2 + (1 + mean) ** 2) / 2)
    spread = t_95(int(cases**2 / sum(size**2 for _, size in groups)) + 1) * sqrt(squares) / count
    return max(-1.0, mean - spread), min(1.0, mean + spread)
