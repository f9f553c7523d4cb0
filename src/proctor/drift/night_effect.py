"""Tests a difference before and after a place of a series against the usual difference of its nights."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, sqrt

from proctor.stats.incomplete_beta import student_tails

EXPECTED_NIGHT_SD = 0.05
"""The standard deviation of the effect of a night on the share, before the series shows its own."""
_EXPECTED_NIGHTS = 2
"""The number of nights as which the expectation counts, in the variance and in the degrees of freedom."""


def night_p_value(columns: Mapping[bytes, int], place: int, yes: int) -> float:
    """Returns the two-sided p-value of the difference of the shares before and after a place.

    Each night may move all of its cases together. The variance of a night's share is that of independent
    cases plus `EXPECTED_NIGHT_SD` squared, times a factor that is estimated from how far the nights of either
    side stray from their mean. So the difference is t-distributed whatever the cases of one night have in
    common, if nights do not depend on each other and their effects are about normal.

    Source: the factor of overdispersion of P. McCullagh and J. A. Nelder, "Generalized Linear Models" (1989),
    section 4.5; its expectation counts as some more degrees of freedom, as in G. K. Smyth, "Linear models and
    empirical Bayes methods for assessing differential expression in microarray experiments", Statistical
    Applications in Genetics and Molecular Biology 3 (2004), 3.

    Args:
        columns: the number of cases with these values, a byte for each night, of which 0 is unknown; each has
            a known value before the place and one from it on.
        place: the first night after the change.
        yes: the value whose share is compared.
    """
    nights, cases = len(next(iter(columns))), sum(columns.values())
    known, residuals, shares = [0] * nights, [0.0] * nights, [0.0] * nights
    squares = freedom = difference = parts = 0.0
    for column, count in columns.items():
        sign = -1
        for side in (range(place), range(place, nights)):
            side_nights = [night for night in side if column[night]]
            size = len(side_nights)
            mean = sum(column[night] == yes for night in side_nights) / size
            squares += count * size * mean * (1 - mean)
            freedom += count * (size - 1)
            difference += sign * count * mean / cases
            parts += count / size
            for night in side_nights:
                known[night] += count
                residuals[night] += count * ((column[night] == yes) - mean)
                shares[night] += count / (size * cases)
            sign = 1
    case_variance = squares / freedom if freedom else 0.0
    measured = [night for night in range(nights) if known[night]]
    distance = fsum(
        (residuals[night] / known[night]) ** 2 / (EXPECTED_NIGHT_SD**2 + case_variance / known[night])
        for night in measured
    )
    freedom = _EXPECTED_NIGHTS + len(measured) - 2
    factor = (_EXPECTED_NIGHTS + distance) / freedom
    variance = EXPECTED_NIGHT_SD**2 * fsum(share**2 for share in shares) + case_variance * parts / cases**2
    return student_tails(difference / sqrt(factor * variance), freedom)
