"""Tests whether the mean of several differences is zero, all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from operator import getitem

from proctor.stats.incomplete_beta import incomplete_beta
from proctor.stats.means import check_finite
from proctor.stats.paired import permutation

_MAX_FLIPPED = 1000
"""Of more vectors the distribution of the statistic is known well enough without flipping signs."""
_TINY = 1e-12


def sign_flip_test(vectors: Sequence[Sequence[float]], draws: int = 10000, seed: int = 0) -> float:
    """Returns the p-value of the test that independent vectors have the mean zero in every place.

    The statistic is Hotelling's T², which allows for any correlation of the places, and does not change if
    the vectors are mapped by an invertible matrix. Its distribution is that of the vectors with random signs:
    exact if they are symmetric around zero, and with more and more vectors also if only their mean is zero.
    Of a single place it is `permutation`. Of more than a thousand vectors it is the distribution of T² for
    normal vectors.

    Args:
        vectors: all of the same length; sums over clusters if the values of a cluster are related.
        draws: how many combinations of signs are tried if there are too many to count.
        seed: the same seed tries the same combinations.

    Source: H. Hotelling, "The generalization of Student's ratio", Annals of Mathematical Statistics 2 (1931),
    360-378; the signs as in A. M. Winkler et al., "Permutation inference for the general linear model",
    NeuroImage 92 (2014), 381-397, and J. Hemerik, J. J. Goeman and L. Finos, "Robust testing in generalized
    linear models by sign flipping score contributions", Journal of the Royal Statistical Society B 82 (2020),
    841-864, who show that they hold without symmetry for many vectors.

    Raises:
        ValueError: a value is not finite, or the vectors are not of the same length.
    """
    for vector in vectors:
        check_finite(vector)
    if len({len(vector) for vector in vectors}) > 1:
        raise ValueError("vectors must have the same length.")
    rows = [vector for vector in vectors if any(abs(value) >= _TINY for value in vector)]
    if not rows:
        return 1.0
    columns = _whiten(rows)
    if len(columns) == 1:  # all places are multiples of one
        return permutation(next(place for place in zip(*rows, strict=True) if any(place)), draws, seed)
    observed = fsum(fsum(column) ** 2 for column in columns)
    if len(rows) > _MAX_FLIPPED:
        return _normal_tail(observed, len(columns), len(vectors))
    return _flip_signs(columns, observed - 1e-9 * len(rows), draws, seed)


def _whiten(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Returns the columns of the rows as orthogonal columns of length 1, without those that say no more.

    The squared sum of these, added up, is the sum of the rows times the inverse of the matrix of their
    products. That matrix is the same for all signs, and T² grows with the sum.
    """
    basis: list[list[float]] = []
    for column in zip(*rows, strict=True):
        length = sqrt(fsum(value * value for value in column))
        rest = list(column)
        for _ in range(2):  # once more for what rounding leaves
            for direction in basis:
                share = fsum(a * b for a, b in zip(rest, direction, strict=True))
                rest = [a - share * b for a, b in zip(rest, direction, strict=True)]
        left = sqrt(fsum(value * value for value in rest))
        if left > 1e-9 * length:
            basis.append([value / left for value in rest])
    return basis


def _normal_tail(observed: float, places: int, count: int) -> float:
    """Returns the p-value of T² for normal vectors: the statistic over their number has a beta law."""
    return incomplete_beta((count - places) / 2, places / 2, max(0.0, 1 - observed / count))


def _flip_signs(columns: Sequence[Sequence[float]], threshold: float, draws: int, seed: int) -> float:
    from random import Random

    count = len(columns[0])
    if 1 << count <= draws:
        sums = [_signed_sums(column) for column in columns]
        statistics = [fsum(value * value for value in values) for values in zip(*sums, strict=True)]
        return sum(value >= threshold for value in statistics) / len(statistics)
    tables = [[_signed_sums(column[start : start + 8]) for start in range(0, count, 8)] for column in columns]
    for column_tables in tables:
        column_tables[-1] *= 256 // len(column_tables[-1])  # each byte that is drawn signs eight vectors
    random, n_far, n_bytes = Random(seed), 0, len(tables[0])  # noqa: S311  # no secret
    for _ in range(draws):
        signs = random.randbytes(n_bytes)
        total = 0.0
        for column_tables in tables:
            part = sum(map(getitem, column_tables, signs))
            total += part * part
        n_far += total >= threshold
    return (n_far + 1) / (draws + 1)


def _signed_sums(values: Sequence[float]) -> list[float]:
    """Returns the sums of the values with all combinations of signs, these in the same order for all."""
    sums = [0.0]
    for value in values:
        sums = [total + sign for sign in (value, -value) for total in sums]
    return sums
