"""Interval of a mean of values within 0..1."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from proctor.stats.means import check_finite
from proctor.stats.proportions import wilson

_ADDED = 0.3
"""The number of values of 0, and of 1, that are added before the variance is taken.

With more the interval of five values holds the mean too often, with less at times in under 90 %."""


def bounded_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Returns the 95 % interval of the mean of independent values within 0..1; None below two values.

    It is Wilson's interval for the number of zeros and ones whose mean would vary as much as that of the
    values. 0.3 of a 0 and 0.3 of a 1 are added for the variance, so that it is never 0; of values
    that are all 0 or 1 the number is theirs, and the interval is `wilson`'s. It is within 0..1 and contains
    the mean.

    Raises:
        ValueError: a value is not within 0..1.

    Source: E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected number of
    positive counts estimated from survey data", Survey Methodology 24 (1998), 193-201, for the number; the
    added values are those of A. Agresti and B. A. Coull, "Approximate is better than 'exact' for interval
    estimation of binomial proportions", The American Statistician 52 (1998), 119-126, who add two.
    """
    check_finite(values)
    if any(not 0 <= value <= 1 for value in values):
        raise ValueError("Each value must be within 0 and 1.")
    count = len(values)
    if count < 2:
        return None
    size = count + 2 * _ADDED
    middle = (fsum(values) + _ADDED) / size
    variance = (fsum(value * value for value in values) + _ADDED) / size - middle * middle
    number = count * middle * (1 - middle) / variance
    return wilson(min(fsum(values) / count * number, number), number)
