"""The regularised incomplete beta function, for tails of the binomial and of Student's t distribution."""

from __future__ import annotations

from math import exp, lgamma, log, log1p

_TINY = 1e-300
_MAX_STEPS = 100_000


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Returns I_x(a, b), the probability that a Beta(a, b) variable is below x.

    Args:
        a: the first shape, above 0.
        b: the second shape, above 0.
        x: within 0..1.

    Source: the continued fraction 8.17.22 of the NIST Digital Library of Mathematical Functions, summed by
    W. J. Lentz's method, on the side of the mean where it converges fast.
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    scale = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    return scale / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """Returns 1 + d1 / (1 + d2 / (1 + …)) of 8.17.22."""
    value = upper = 1.0
    lower = 0.0
    for step in range(1, _MAX_STEPS):
        half, odd = divmod(step, 2)
        if odd:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        upper = 1.0 + term / upper or _TINY
        lower = 1.0 / (1.0 + term * lower or _TINY)
        value *= upper * lower
        if abs(upper * lower - 1.0) < 1e-15:
            break
    return value


def at_most(hits: float, draws: float, share: float) -> float:
    """Returns the probability that a Binomial(draws, share) variable is at most `hits`."""
    if hits < 0:
        return 0.0
    return 1.0 if hits >= draws else incomplete_beta(draws - hits, hits + 1, 1.0 - share)


def student_tails(value: float, freedom: float) -> float:
    """Returns the probability that Student's t is at least this far from 0, on either side.

    Args:
        value: of any sign.
        freedom: its degrees of freedom, above 0.

    Source: 26.5.27 of M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions" (1964).
    """
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value))
