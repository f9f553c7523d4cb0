"""Means, quantiles and what resampling says of them: known values and laws."""

from __future__ import annotations

from math import fsum, sqrt
from statistics import fmean, quantiles, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats import (
    bca,
    bootstrap,
    bounded_interval,
    clustered_error,
    clustered_interval,
    deviation,
    mean_interval,
    quantile,
    t_95,
    wilson,
)

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40).map(sorted)


def test_quantile_of_none_is_none_and_of_one_is_that_one() -> None:
    assert quantile([], 0.5) is None
    assert [quantile([4.0], share) for share in (0, 0.5, 0.95, 1)] == [4.0] * 4


@pytest.mark.parametrize(
    ("share", "value"), [(0, 1.0), (0.25, 1.75), (0.5, 2.5), (0.95, 3.85), (1, 4.0), (1 / 3, 2.0)]
)
def test_quantile_interpolates_between_its_neighbours(share: float, value: float) -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], share) == pytest.approx(value)


@given(NUMBERS, st.integers(2, 20))
def test_quantile_is_definition_7(ascending: list[float], parts: int) -> None:
    values = [quantile(ascending, place / parts) for place in range(1, parts)]
    assert values == pytest.approx(quantiles(ascending, n=parts, method="inclusive"), abs=1e-6)


@given(NUMBERS, st.floats(0, 1), st.floats(0, 1))
def test_quantile_grows_with_the_share(ascending: list[float], share_1: float, share_2: float) -> None:
    low, high = (quantile(ascending, share) for share in sorted((share_1, share_2)))
    assert low is not None
    assert high is not None
    assert ascending[0] <= low <= high + 1e-6 <= ascending[-1] + 2e-6


@pytest.mark.parametrize(
    ("freedom", "point"),
    [
        (1, 12.706205),
        (2, 4.302653),
        (3, 3.182446),
        (4, 2.776445),
        (5, 2.570582),
        (9, 2.262157),
        (10, 2.228139),
        (29, 2.045230),
        (30, 2.042272),
        (120, 1.979930),
        (1000, 1.962339),
    ],
)
def test_t_95_is_that_of_the_tables(freedom: int, point: float) -> None:
    assert t_95(freedom) == pytest.approx(point, abs=5e-7)


def test_t_95_has_its_closed_form_for_two_degrees_of_freedom() -> None:
    assert t_95(2) == pytest.approx(0.95 * sqrt(2 / (1 - 0.95**2)), rel=1e-10)


@given(st.integers(1, 300))
def test_t_95_falls_towards_the_normal_distributions(freedom: int) -> None:
    assert t_95(freedom) > t_95(freedom + 1) > 1.95996


def test_t_95_needs_a_degree_of_freedom() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        t_95(0)


@pytest.mark.parametrize(
    ("values", "interval"),
    [
        ([1.0, 1.0, 1.0], (1.0, 1.0)),
        ([0.0, 1.0], (0.5 - 12.706205 / 2, 0.5 + 12.706205 / 2)),
        ([0.8, 0.9, 1.0], (0.9 - 4.302653 * 0.1 / sqrt(3), 0.9 + 4.302653 * 0.1 / sqrt(3))),
    ],
)
def test_a_mean_has_its_t_interval(values: list[float], interval: tuple[float, float]) -> None:
    assert mean_interval(values) == pytest.approx(interval, abs=1e-6)


def test_one_value_has_no_interval() -> None:
    assert mean_interval([1.0]) is None
    assert mean_interval([]) is None


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_an_interval_is_even_around_the_mean(values: list[float]) -> None:
    interval = mean_interval(values)
    assert interval is not None
    assert sum(interval) / 2 == pytest.approx(sum(values) / len(values), abs=1e-9)
    assert interval[0] <= interval[1]


# --- clusters ----------------------------------------------------------------------------------------------

CLUSTERED = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 5)), min_size=2, max_size=30)


@given(st.lists(st.integers(0, 100), min_size=2, max_size=20))
def test_groups_of_one_have_the_usual_error(values: list[int]) -> None:
    assert clustered_error(values, range(len(values))) == pytest.approx(
        stdev(values) / sqrt(len(values)), abs=1e-9
    )
    assert clustered_interval(values, range(len(values))) == pytest.approx(mean_interval(values), abs=1e-9)


@given(st.lists(st.integers(0, 100), min_size=2, max_size=20), st.integers(1, 5))
def test_repeats_that_always_agree_tell_no_more_than_one_of_them(values: list[int], repeats: int) -> None:
    cases = range(len(values))
    once, often = clustered_interval(values, cases), clustered_interval(values * repeats, [*cases] * repeats)
    assert often == pytest.approx(once, abs=1e-9)


@given(CLUSTERED)
def test_neither_the_order_nor_the_names_of_groups_matter(rows: list[tuple[int, int]]) -> None:
    renamed_rows = sorted((value, f"g{-group}") for value, group in rows)
    error = clustered_error([value for value, _ in rows], [group for _, group in rows])
    other_error = clustered_error([value for value, _ in renamed_rows], [group for _, group in renamed_rows])
    assert other_error == pytest.approx(error, abs=1e-9)


def test_values_that_go_together_in_groups_tell_less() -> None:
    values = [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    together, apart = clustered_error(values, [0, 0, 1, 1, 2, 2, 3, 3]), clustered_error(values, range(8))
    assert together == pytest.approx(sqrt(4 / 3 * 4) / 8)
    assert apart == pytest.approx(sqrt(8 / 7 * 2) / 8)


@pytest.mark.parametrize(("values", "groups"), [([], []), ([1.0], ["a"]), ([1.0, 0.0], ["a", "a"])])
def test_one_group_has_no_error(values: list[float], groups: list[str]) -> None:
    assert clustered_error(values, groups) is None
    assert clustered_interval(values, groups) is None


def test_each_value_must_have_its_group() -> None:
    with pytest.raises(ValueError, match="argument 2 is longer"):
        clustered_error([1.0, 2.0], ["a"])


# --- resampling --------------------------------------------------------------------------------------------


def test_the_bootstrap_is_the_same_every_time_and_another_with_another_seed() -> None:
    values = [0.0, 1.0, 1.0, 0.5, 0.25] * 8
    interval, again, other = (bootstrap(values, draws=500, seed=seed) for seed in (0, 0, 1))
    assert interval == again != other


def test_the_bootstrap_is_near_the_normal_interval_for_many_values() -> None:
    values = [float(place % 2) for place in range(400)]
    interval = bootstrap(values, draws=1000)
    assert interval is not None
    assert interval == pytest.approx((0.5 - 0.049, 0.5 + 0.049), abs=0.004)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8))
def test_the_bootstrap_stays_within_the_values(values: list[float]) -> None:
    interval = bootstrap(values, draws=50)
    assert interval is not None
    assert min(values) - 1e-6 <= interval[0] <= interval[1] <= max(values) + 1e-6
    assert deviation(values) == pytest.approx(stdev(values), abs=1e-6)


@pytest.mark.parametrize("values", [[], [1.0]])
def test_one_value_has_no_spread(values: list[float]) -> None:
    assert bootstrap(values) is None
    assert deviation(values) is None


def test_equal_values_have_an_interval_without_width() -> None:
    assert bootstrap([0.7] * 9) == pytest.approx((0.7, 0.7))
    assert fmean([0.7] * 9) == pytest.approx(0.7)


def test_the_bootstrap_draws_what_it_always_drew() -> None:
    values = [0.1, 0.9, 0.4, 0.4, 0.7, 1.0]
    assert bootstrap(values, draws=200, seed=3) == pytest.approx((0.3, 0.8504166666666667), abs=1e-12)


def test_bca_is_the_same_every_time_and_another_with_another_seed() -> None:
    values = [0.0, 1.0, 1.0, 0.5, 0.25] * 8
    interval, again, other = (bca(values, draws=500, seed=seed) for seed in (0, 0, 1))
    assert interval == again != other


def test_bca_leans_to_the_long_side_of_a_lopsided_sample() -> None:
    values = [0.0] * 30 + [0.2, 0.5, 1.0, 3.0]
    plain, better = bootstrap(values), bca(values)
    assert plain is not None
    assert better is not None
    assert better[0] > plain[0]
    assert better[1] > plain[1]


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=8).filter(lambda values: len(set(values)) > 1))
def test_bca_stays_within_the_values_around_the_mean(values: list[int]) -> None:
    interval = bca(values, draws=100)
    assert interval is not None
    assert min(values) <= interval[0] <= fmean(values) + 1e-9
    assert fmean(values) - 1e-9 <= interval[1] <= max(values)


@pytest.mark.parametrize("values", [[], [1.0], [0.7] * 9])
def test_bca_of_values_that_do_not_vary_is_none(values: list[float]) -> None:
    assert bca(values) is None


@pytest.mark.slow
def test_bca_of_many_values_is_near_the_normal_interval() -> None:
    interval = bca([float(place % 3 == 0) for place in range(3000)], draws=500)
    assert interval == pytest.approx((1 / 3 - 0.01687, 1 / 3 + 0.01687), abs=0.0025)


@given(st.lists(st.booleans(), min_size=2, max_size=60))
def test_the_bounded_interval_of_zeros_and_ones_is_wilsons(passed: list[bool]) -> None:
    interval = bounded_interval([float(is_pass) for is_pass in passed])
    assert interval == pytest.approx(wilson(sum(passed), len(passed)), abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_the_bounded_interval_has_width_contains_the_mean_and_stays_within_0_and_1(
    values: list[float],
) -> None:
    low, high = bounded_interval(values) or (1.0, 0.0)
    assert 0 <= low <= fsum(values) / len(values) + 1e-12
    assert fsum(values) / len(values) - 1e-12 <= high <= 1
    assert high - low > 0.01
    mirrored = bounded_interval([1 - value for value in values])
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-6)


def test_the_bounded_interval_of_many_values_is_students() -> None:
    values = [place % 10 / 10 for place in range(2000)]
    assert bounded_interval(values) == pytest.approx(mean_interval(values), abs=2e-4)


def test_the_bounded_interval_needs_two_values_within_0_and_1() -> None:
    assert bounded_interval([0.5]) is None
    for value in (-0.1, 1.5):
        with pytest.raises(ValueError, match="within 0 and 1"):
            bounded_interval([0.5, value])
