"""Power over clusters: against independent cases, against simulated comparisons, and laws."""

from __future__ import annotations

from random import Random

import pytest

from proctor.stats import (
    ClusterNoise,
    PairNoise,
    clustered_difference_interval,
    clusters_needed,
    group_variances,
    permutation,
    power_clustered,
    power_repeated,
    smallest_difference_clustered,
)

NOISE = PairNoise(0.1, 0.1)
INDEPENDENT = ClusterNoise(0.0, 0.0, 5, 5)
CORRELATED = ClusterNoise(0.03, 0.3, 5, 5)


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_clusters_of_one_case_are_cases(repeats: int) -> None:
    single = ClusterNoise(0.0, 0.0, 1, 1)
    power = power_repeated(200, repeats, 0.1, NOISE)
    assert power_clustered(200, repeats, 0.1, NOISE, single) == pytest.approx(power, abs=1e-3)


def test_clusters_whose_cases_are_all_alike_tell_as_much_as_one_case_each() -> None:
    alike = ClusterNoise(0.1, 1.0, 5, 5)
    still = PairNoise(0.0, 0.1)
    power = power_clustered(500, 3, 0.1, still, alike)
    assert power == pytest.approx(power_clustered(100, 3, 0.1, still, ClusterNoise(0, 0, 1, 1)), abs=0.03)


def test_related_cases_need_more_clusters_and_clusters_of_unequal_size_still_more() -> None:
    needed = [
        clusters_needed(0.1, 1, NOISE, clusters)
        for clusters in (INDEPENDENT, CORRELATED, CORRELATED._replace(case_size=8))
    ]
    assert needed[0] < needed[1] < needed[2]  # type: ignore[operator]


@pytest.mark.parametrize("clusters", [INDEPENDENT, CORRELATED])
def test_what_a_number_of_clusters_shows_needs_that_number(clusters: ClusterNoise) -> None:
    size = smallest_difference_clustered(200, 3, NOISE, clusters)
    assert size is not None
    assert clusters_needed(size, 3, NOISE, clusters) == pytest.approx(40, abs=1)


@pytest.mark.parametrize("cases", [0, 3, 5, 9])
def test_too_few_clusters_show_nothing(cases: int) -> None:
    assert power_clustered(cases, 1, 0.5, NOISE, CORRELATED) == 0
    assert smallest_difference_clustered(cases, 1, NOISE, CORRELATED) is None


def test_no_difference_is_shown_in_at_most_one_of_twenty() -> None:
    assert power_clustered(200, 1, 0.0, NOISE, CORRELATED) <= 0.05
    assert clusters_needed(0.0, 1, NOISE, CORRELATED) is None


@pytest.mark.parametrize(
    ("noise", "repeats", "relation", "clusters"),
    [
        (PairNoise(0.19, 0.0), 1, 0.3, 66),
        (PairNoise(0.19, 0.0), 3, 0.0, 27),
        (PairNoise(0.076, 0.1), 1, 0.3, 83),
        (PairNoise(0.076, 0.1), 3, 0.3, 73),
        (PairNoise(0.0, 0.1), 1, 0.0, 36),
    ],
)
def test_the_clusters_of_simulated_studies(
    noise: PairNoise, repeats: int, relation: float, clusters: int
) -> None:
    """`tools/study_figures.py` simulated them: 79 to 83 % of comparisons found 10 points."""
    correlated = ClusterNoise(relation * noise.lasting, relation, 5, 5)
    assert clusters_needed(0.1, repeats, noise, correlated) == pytest.approx(clusters, abs=1)


def test_simulated_comparisons_find_as_much() -> None:
    random, hits, rounds = Random(1), 0, 400
    for _ in range(rounds):
        groups = []
        for _ in range(74):
            kinds = random.choices((1.0, -1.0, 0.0), (0.15, 0.05, 0.8), k=6)
            parts = [kinds[0] if random.random() < 0.3**0.5 else kind for kind in kinds[1:]]
            groups.append((sum(parts), 5))
        interval = clustered_difference_interval(groups)
        p_value = permutation([part for part, _ in groups])
        hits += interval is not None and interval[0] > 0 and p_value is not None and p_value < 0.05
    power = power_clustered(370, 1, 0.1, PairNoise(0.0, 0.1), CORRELATED)
    assert hits / rounds == pytest.approx(power, abs=0.05)


@pytest.mark.parametrize("clusters", [ClusterNoise(-0.1, 0, 2, 2), ClusterNoise(0, -0.1, 2, 2)])
def test_noise_below_zero_cannot_be(clusters: ClusterNoise) -> None:
    with pytest.raises(ValueError, match="noise 0 or more"):
        power_clustered(10, 1, 0.1, NOISE, clusters)


def test_the_variance_of_grouped_values_is_the_analysis_of_variance() -> None:
    # By hand: group means 1, 2 and 6 around 3, squares 2 * (4 + 1 + 9) / 2 = 14 between, 2 within.
    variances = group_variances([0, 2, 1, 3, 5, 7], "aabbcc")
    assert variances == pytest.approx(((14 - 2) / 2, 2))
    assert group_variances([1, 2, 3], "abc") is None
    assert group_variances([1, 2, 3], "aaa") is None
