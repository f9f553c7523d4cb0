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
    case_counts, residuals, weights = [0] * nights, [0.0] * nights, [0.0] * nights
    squares = case_freedom = difference = case_weights = 0.0
    for column, count in columns.items():
        for side, sign in ((range(place), -1), (range(place, nights), 1)):
            side_nights = [night for night in side if column[night]]
            size = len(side_nights)
            mean = sum(column[night] == yes for night in side_nights) / size
            squares += count * size * mean * (1 - mean)
            case_freedom += count * (size - 1)
            difference += sign * count * mean / cases
            case_weights += count / size / cases**2
            for night in side_nights:
                case_counts[night] += count
                residuals[night] += count * ((column[night] == yes) - mean)
                weights[night] += count / size / cases
    case_variance, night_variance = squares / case_freedom if case_freedom else 0.0, EXPECTED_NIGHT_SD**2
    measured = [night for night in range(nights) if case_counts[night]]
    night_squares = fsum(
        (residuals[night] / case_counts[night]) ** 2 / (night_variance + case_variance / case_counts[night])
        for night in measured
    )
    freedom = _EXPECTED_NIGHTS + len(measured) - 2
    overdispersion = (_EXPECTED_NIGHTS + night_squares) / freedom
    variance = night_variance * fsum(weight**2 for weight in weights) + case_variance * case_weights
    return student_tails(difference / sqrt(overdispersion * variance), freedom)
