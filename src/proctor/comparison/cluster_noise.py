"""How far the cases of a cluster go together: what they pass, and where two runs differ. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from proctor.stats import ClusterNoise, PairNoise, group_variances


def correlation_within(values: Sequence[float], groups: Sequence[Hashable], chance: float) -> float:
    """Returns the correlation within clusters of what cases pass, or of how far they differ.

    Args:
        values: a value of each case, such as the share of its trials that passed.
        groups: the cluster of each case.
        chance: the part of the variance of a value that comes from its few trials.

    Returns:
        A number within 0..1; 1 if all values are the same, as nothing is then known of it.
    """
    variances = group_variances(values, groups)
    if variances is None or variances.between + variances.within <= chance:
        return 1.0
    return min(1.0, max(0.0, variances.between / (variances.between + variances.within - chance)))


def smooth_cluster_noise(
    covariance: float, relation: float, noise: PairNoise, cases: int, groups: Sequence[Hashable]
) -> ClusterNoise:
    """Returns how far the cases of clusters differ together, with two cases added of which one differs.

    Args:
        covariance: the covariance of the differences of two cases of a cluster; may be below 0 by chance.
        relation: the correlation within clusters of what cases pass, within 0..1.
        noise: how far the two runs differ at all, which bounds the covariance.
        cases: the number of cases that were measured.
        groups: the cluster of each case of the suite, for their sizes; there must be one.
    """
    smoothed = (max(0.0, covariance) * cases + relation) / (cases + 2)
    sizes = Counter(groups).values()
    return ClusterNoise(
        covariance=min(noise.lasting, smoothed),
        relation=relation,
        mean_size=len(groups) / len(sizes),
        case_size=sum(size * size for size in sizes) / len(groups),
    )
