"""The variance of pass rates, split by cases and repeats: against the definition and statsmodels."""

from __future__ import annotations

from random import Random
from statistics import fmean, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats import variance_components

SHAPES = st.dictionaries(
    st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda pair: (min(pair), max(pair))),
    st.integers(0, 5),
    max_size=8,
)


def test_equal_numbers_of_trials_give_the_textbook_estimates() -> None:
    rates = [0, 0, 1, 2, 4, 4, 4, 3]  # passed of 4 trials
    components = variance_components({(passed, 4): rates.count(passed) for passed in set(rates)})
    assert components is not None
    within = fmean(variance([1] * passed + [0] * (4 - passed)) for passed in rates)
    assert components.within == pytest.approx(within)
    assert components.between == pytest.approx(variance([passed / 4 for passed in rates]) - within / 4)
    assert (components.cases, components.repeats) == (8, 4.0)
    assert components.variance == pytest.approx(variance([passed / 4 for passed in rates]))
    assert components.between_share == pytest.approx(components.between / components.variance)


@pytest.mark.slow
def test_unequal_numbers_of_trials_give_the_mean_squares_of_statsmodels() -> None:
    pandas, formula = pytest.importorskip("pandas"), pytest.importorskip("statsmodels.formula.api")
    anova = pytest.importorskip("statsmodels.stats.anova")
    random = Random(1)
    trials = {case: [float(random.random() < case / 20) for _ in range(1 + case % 5)] for case in range(20)}
    rows = [(case, value) for case, values in trials.items() for value in values]
    model = formula.ols("value ~ C(case_)", pandas.DataFrame(rows, columns=["case_", "value"])).fit()
    between, within = anova.anova_lm(model)["mean_sq"]
    total = len(rows)
    size = (total - sum(len(values) ** 2 for values in trials.values()) / total) / 19
    shapes: dict[tuple[int, int], int] = {}
    for values in trials.values():
        shape = int(sum(values)), len(values)
        shapes[shape] = shapes.get(shape, 0) + 1
    components = variance_components(shapes)
    assert components is not None
    assert components.within == pytest.approx(within, abs=1e-12)
    assert components.between == pytest.approx((between - within) / size, abs=1e-12)


@pytest.mark.slow
def test_the_estimates_are_right_on_average() -> None:
    # A third each of cases that pass 95, 50 and 5 % of the time: variances 0.135 and 0.115.
    random, between, within = Random(2), list[float](), list[float]()
    for _ in range(400):
        shapes: dict[tuple[int, int], int] = {}
        for case in range(60):
            rate, trials = random.choice((0.95, 0.5, 0.05)), 2 + case % 3
            shape = sum(random.random() < rate for _ in range(trials)), trials
            shapes[shape] = shapes.get(shape, 0) + 1
        components = variance_components(shapes)
        assert components is not None
        between.append(components.between)
        within.append(components.within)
    assert fmean(between) == pytest.approx(0.135, rel=0.03)
    assert fmean(within) == pytest.approx(0.115, rel=0.03)


@given(SHAPES)
def test_shares_are_never_negative_and_nothing_is_estimated_from_single_trials(
    shapes: dict[tuple[int, int], int],
) -> None:
    components = variance_components(shapes)
    used_shapes = {shape: count for shape, count in shapes.items() if shape[1] and count}
    cases = sum(used_shapes.values())
    assert (components is None) == (cases < 2 or all(trials == 1 for _, trials in used_shapes))
    if components is not None:
        assert components.cases == cases
        assert min(components.between, components.within) >= 0
        assert components.between_share is None or 0 <= components.between_share <= 1


def test_cases_that_never_vary_have_no_variance_within() -> None:
    components = variance_components({(3, 3): 8, (0, 3): 2})
    assert components is not None
    assert components.within == 0
    assert components.between_share == 1
    same = variance_components({(3, 3): 8})
    assert same is not None
    assert same.between_share is None


@pytest.mark.parametrize("shapes", [{(2, 1): 1}, {(-1, 1): 1}, {(1, 1): -1}])
def test_impossible_counts_are_refused(shapes: dict[tuple[int, int], int]) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        variance_components(shapes)
