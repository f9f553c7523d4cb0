"""The statistics against scipy, statsmodels and krippendorff, which take a second to import."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor import stats
from proctor.stats.agreement import Level


class Library:
    """A module that is imported when it is first used, as all workers import this file."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest asks all that is in a file whether it is a fixture
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


krippendorff, np, scipy_stats = Library("krippendorff"), Library("numpy"), Library("scipy.stats")
linear_model = Library("statsmodels.regression.linear_model")
inter_rater = Library("statsmodels.stats.inter_rater")
multitest = Library("statsmodels.stats.multitest")
proportion = Library("statsmodels.stats.proportion")

pytestmark = pytest.mark.slow

COUNTS = st.integers(1, 5000).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))
VALUES = st.lists(st.integers(0, 60).map(lambda sixtieths: sixtieths / 60), min_size=3, max_size=40)


def near(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-9)


@given(COUNTS)
def test_intervals_of_a_share(counts: tuple[int, int]) -> None:
    test = scipy_stats.binomtest(*counts)
    assert stats.wilson(*counts) == near(tuple(test.proportion_ci(method="wilson")))
    assert stats.clopper_pearson(*counts) == near(proportion.proportion_confint(*counts, method="beta"))


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_the_sign_test(positive: int, negative: int) -> None:
    total = positive + negative
    expected = scipy_stats.binomtest(positive, total).pvalue if total else 1.0
    assert stats.sign_test(positive, negative) == near(expected)
    assert stats.mcnemar(positive, negative) == near(expected)


@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 30, 200, 1000, 1001, 50_000])
def test_students_t(freedom: int) -> None:
    assert stats.t_95(freedom) == near(scipy_stats.t.ppf(0.975, freedom))


@given(VALUES)
def test_the_mean_and_its_interval(values: list[float]) -> None:
    error = scipy_stats.sem(values)
    interval = stats.mean_interval(values)
    if error > 1e-9:
        expected = scipy_stats.t.interval(0.95, len(values) - 1, np.mean(values), error)
        assert interval == near(expected)
    assert stats.deviation(values) == near(np.std(values, ddof=1))
    assert stats.quantile(sorted(values), 0.3) == near(np.quantile(values, 0.3))


@given(VALUES, st.data())
def test_the_clustered_error(values: list[float], data: st.DataObject) -> None:
    size = len(values)
    groups = data.draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
    if len(set(groups)) > 1:
        model = linear_model.OLS(values, np.ones(size)).fit(
            cov_type="cluster", cov_kwds={"groups": np.array(groups)}
        )
        assert stats.clustered_error(values, groups) == pytest.approx(model.bse[0], rel=1e-9, abs=1e-9)
        expected = linear_model.OLS(values, np.ones(size)).fit(
            cov_type="cluster", cov_kwds={"groups": np.array(groups)}, use_t=True
        )
        assert stats.clustered_interval(values, groups) == near(expected.conf_int()[0])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_benjamini_hochberg(p_values: list[float]) -> None:
    assert stats.benjamini_hochberg(p_values) == near(scipy_stats.false_discovery_control(p_values))


@pytest.mark.parametrize("count", [1, 7, 40])  # each call of statsmodels collects all garbage there is
def test_adjusted_p_values(count: int) -> None:
    random = Random(count)
    p_values = [random.random() ** 4 for _ in range(count)] + [0.0, 0.01, 0.01, 1.0]
    assert stats.holm(p_values) == near(multitest.multipletests(p_values, method="holm")[1])
    assert stats.benjamini_hochberg(p_values) == near(multitest.multipletests(p_values, method="fdr_bh")[1])


@given(st.lists(st.integers(-12, 12), min_size=2, max_size=8))
def test_the_exact_permutation_test(differences: list[int]) -> None:
    expected = scipy_stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    assert stats.permutation(differences) == near(expected.pvalue)


def test_the_random_permutation_test() -> None:
    random = Random(7)
    differences = [random.gauss(0.3, 1) for _ in range(40)]
    expected = scipy_stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=10_000, axis=0, rng=1
    )
    assert stats.permutation(differences) == pytest.approx(expected.pvalue, abs=0.01)


def draw_means(values: Sequence[float], draws: int) -> list[float]:
    """The means that a bootstrap with seed 0 draws."""
    random, places = Random(0), range(len(values))
    return [
        float(np.mean([values[at] for at in random.choices(places, k=len(values))])) for _ in range(draws)
    ]


def efron(values: Sequence[float], draws: int) -> tuple[float, float]:
    """BCa, as Efron (1987) writes it."""
    means, normal = np.array(draw_means(values, draws)), scipy_stats.norm
    mean = float(np.mean(values))
    ties = np.isclose(means, mean, rtol=0, atol=1e-12)
    bias = normal.ppf((np.sum((means < mean) & ~ties) + np.sum(ties) / 2) / draws)
    without = np.array([np.mean(np.delete(values, at)) for at in range(len(values))])
    skew = np.mean(without) - without
    acceleration = np.sum(skew**3) / (6 * np.sum(skew**2) ** 1.5)
    points = bias + normal.ppf([0.025, 0.975])
    low, high = np.quantile(means, normal.cdf(bias + points / (1 - acceleration * points)))
    return float(low), float(high)


@pytest.mark.parametrize("values", [[0.1, 0.9, 0.4, 0.4, 1.0, 0.2, 0.0], [0.0] * 9 + [1.0, 0.5, 0.2]])
def test_resampled_intervals(values: list[float]) -> None:
    assert stats.bca(values, draws=500) == near(efron(values, 500))
    assert stats.bootstrap(values, draws=500) == near(np.quantile(draw_means(values, 500), [0.025, 0.975]))
    second_values = [1.0] * len(values)
    assert stats.paired_bootstrap(values, second_values, draws=500) == near(
        efron([value - 1 for value in values], 500)
    )


def test_bca_is_near_that_of_scipy() -> None:
    random = Random(3)
    values = [random.expovariate(1) for _ in range(60)]
    expected = scipy_stats.bootstrap((values,), np.mean, n_resamples=10_000, method="BCa", rng=1)
    assert stats.bca(values, draws=10_000) == pytest.approx(tuple(expected.confidence_interval), abs=0.01)


@given(st.lists(st.lists(st.integers(0, 12), min_size=3, max_size=3), min_size=3, max_size=3))
def test_cohens_kappa(table: list[list[int]]) -> None:
    pairs = [(row, at) for row in range(3) for at in range(3) for _ in range(table[row][at])]
    actual = stats.kappa(pairs)
    if actual is not None:
        with np.errstate(all="ignore"):  # it divides by 0 on the way
            expected = inter_rater.cohens_kappa(np.array(table))
        assert actual.value == near(expected.kappa)
        ratings = sorted({rating for pair in pairs for rating in pair})
        if len(pairs) > 1:
            counts = np.array(table, float)[np.ix_(ratings, ratings)] + 2 / len(ratings) ** 2
            smoothed = inter_rater.cohens_kappa(counts)
            distribution = scipy_stats.t(len(pairs) - 1) if len(ratings) > 2 else scipy_stats.norm
            spread = distribution.ppf(0.975) * smoothed.std_kappa
            assert actual.low == near(max(-1, min(actual.value, smoothed.kappa - spread)))
            assert actual.high == near(min(1, max(actual.value, smoothed.kappa + spread)))


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
@given(st.lists(st.lists(st.none() | st.integers(1, 5), min_size=3, max_size=3), min_size=2, max_size=12))
def test_krippendorffs_alpha(level: Level, ratings: list[list[int | None]]) -> None:
    actual = stats.alpha(ratings, level)
    if actual is not None:
        columns = np.array(
            [[np.nan if rating is None else rating for rating in row] for row in ratings], float
        ).T
        assert actual == near(krippendorff.alpha(reliability_data=columns, level_of_measurement=level))


@pytest.mark.parametrize(("cases", "difference", "discordant"), [(60, 0.2, 0.3), (150, 0.1, 0.25)])
def test_the_power_of_mcnemars_test(cases: int, difference: float, discordant: float) -> None:
    favoured = (1 + difference / discordant) / 2
    weights = scipy_stats.binom.pmf(range(cases + 1), cases, discordant)
    conditional = []
    for many in range(cases + 1):
        first = np.arange(many + 1)
        is_significant = 2 * scipy_stats.binom.cdf(np.minimum(first, many - first), many, 0.5) <= 0.05
        conditional.append(np.sum(scipy_stats.binom.pmf(first, many, favoured)[is_significant]))
    assert stats.power_paired(cases, difference, discordant) == near(float(np.dot(weights, conditional)))


@pytest.mark.parametrize(
    ("discordant", "off"), [(0.1, 0.001), (0.5, 0.001), (0.9, 0.001), (0.99, 0.004), (1.0, 0.014)]
)
@pytest.mark.parametrize("size", [0.0, 1.0, 2.0, 2.8])
def test_the_power_of_many_pairs(discordant: float, off: float, size: float) -> None:
    cases = int(1000 / discordant) + 1
    difference = size * (discordant / cases) ** 0.5
    favoured = (1 + difference / discordant) / 2
    many = np.arange(cases + 1)
    fewer = scipy_stats.binom.ppf(0.025, many, 0.5)
    fewer -= 2 * scipy_stats.binom.cdf(fewer, many, 0.5) > 0.05
    power_by_count = sum(scipy_stats.binom.cdf(fewer, many, share) for share in (favoured, 1 - favoured))
    expected = np.dot(scipy_stats.binom.pmf(many, cases, discordant), power_by_count)
    assert stats.power_paired(cases, difference, discordant) == pytest.approx(expected, abs=off)
