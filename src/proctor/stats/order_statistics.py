"""What the best of several looks like by chance."""

from __future__ import annotations

from functools import lru_cache
from math import erfc, exp, fsum, pi, sqrt

_LIMIT = 12.0
"""How far from 0 the integral goes, in standard deviations."""
_STEPS = 2400


@lru_cache(maxsize=64)
def expected_maximum(count: int) -> float:
    """Returns the mean of the largest of `count` independent standard normal numbers.

    The best of `count` equal runs exceeds their mean by this many standard errors on average.

    Source: L. H. C. Tippett, "On the extreme individuals and the range of samples taken from a normal
    population", Biometrika 17 (1925), 364-387; here by the trapezoidal rule.

    Raises:
        ValueError: `count` is below 1.
    """
    if count < 1:
        raise ValueError(f"count must be 1 or more, not {count}.")
    step = 2 * _LIMIT / _STEPS
    places = [place * step - _LIMIT for place in range(_STEPS + 1)]
    densities = (
        place * exp(-place * place / 2) * (erfc(-place / sqrt(2)) / 2) ** (count - 1) for place in places
    )
    return count * step * fsum(densities) / sqrt(2 * pi)
