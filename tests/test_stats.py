"""Intervals and quantiles: known values and laws."""

from __future__ import annotations

from math import sqrt
from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats import mean_interval, newcombe, quantile, reaches, t_95, wilson

COUNTS = st.integers(1, 10_000).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


def bounds(passed: float, total: float, z: float | None = None) -> tuple[float, float]:
    found = wilson(passed, total) if z is None else wilson(passed, total, z)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("passed", "total", "low", "high"),
    [
        (7, 10, 0.397, 0.892),
        (6, 8, 0.4093, 0.9285),
        (0, 10, 0.0, 0.278),
        (10, 10, 0.722, 1.0),
        (1, 1, 0.207, 1.0),
        (0, 1, 0.0, 0.793),
        (50, 100, 0.404, 0.596),
        (3.5, 7, 0.2024, 0.7976),
    ],
)
def test_wilson_has_its_known_values(passed: float, total: float, low: float, high: float) -> None:
    assert bounds(passed, total) == pytest.approx((low, high), abs=5e-4)


def test_wilson_of_nothing_is_none() -> None:
    assert wilson(0, 0) is None


@pytest.mark.parametrize(("passed", "total"), [(-1, 10), (11, 10), (1, 0.5), (-0.001, 1)])
def test_wilson_refuses_a_share_outside_0_and_1(passed: float, total: float) -> None:
    with pytest.raises(ValueError, match="passed must be within 0 and"):
        wilson(passed, total)


@given(COUNTS)
def test_wilson_stays_within_0_and_1_and_contains_the_share(counts: tuple[int, int]) -> None:
    passed, total = counts
    low, high = bounds(passed, total)
    assert 0 <= low <= passed / total <= high <= 1
    assert low < high


@given(COUNTS)
def test_wilson_touches_0_and_1_only_when_none_or_all_passed(counts: tuple[int, int]) -> None:
    passed, total = counts
    low, high = bounds(passed, total)
    assert (low == 0) == (passed == 0)
    assert (high == 1) == (passed == total)


@given(COUNTS, st.integers(2, 50))
def test_wilson_narrows_when_the_same_share_is_of_more(counts: tuple[int, int], times: int) -> None:
    passed, total = counts
    low, high = bounds(passed, total)
    narrower_low, narrower_high = bounds(passed * times, total * times)
    assert narrower_high - narrower_low < high - low


@given(COUNTS)
def test_wilson_of_the_failures_is_the_mirror_image(counts: tuple[int, int]) -> None:
    passed, total = counts
    low, high = bounds(passed, total)
    assert bounds(total - passed, total) == pytest.approx((1 - high, 1 - low))


@given(COUNTS)
def test_wilson_widens_with_more_confidence(counts: tuple[int, int]) -> None:
    passed, total = counts
    low, high = bounds(passed, total, 1.0)
    wide_low, wide_high = bounds(passed, total, 3.0)
    assert wide_low <= low < high <= wide_high
    assert wide_high - wide_low > high - low


def difference(passed: float, total: float, other_passed: float, other_total: float) -> tuple[float, float]:
    found = newcombe(passed, total, other_passed, other_total)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("mine", "other", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((0, 10), (0, 10), -0.2775, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_newcombe_has_its_published_values(
    mine: tuple[int, int], other: tuple[int, int], low: float, high: float
) -> None:
    assert difference(*mine, *other) == pytest.approx((low, high), abs=6e-5)


@pytest.mark.parametrize("counts", [(0, 0, 1, 2), (1, 2, 0, 0), (0, 0, 0, 0)])
def test_newcombe_of_nothing_is_none(counts: tuple[int, int, int, int]) -> None:
    assert newcombe(*counts) is None


def test_newcombe_refuses_a_share_outside_0_and_1() -> None:
    with pytest.raises(ValueError, match="passed must be within 0 and 5"):
        newcombe(1, 2, 6, 5)


@given(COUNTS, COUNTS)
def test_newcombe_contains_the_difference_and_the_other_way_round_is_its_mirror_image(
    mine: tuple[int, int], other: tuple[int, int]
) -> None:
    low, high = difference(*mine, *other)
    assert -1 <= low <= mine[0] / mine[1] - other[0] / other[1] <= high <= 1
    assert difference(*other, *mine) == pytest.approx((-high, -low))


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_newcombe_rises_with_what_passed(total: int, other_total: int, data: st.DataObject) -> None:
    """So that a search for the least drop that shows may halve its range."""
    other = data.draw(st.integers(0, other_total))
    highs = [difference(passed, total, other, other_total)[1] for passed in range(total + 1)]
    assert highs == sorted(highs)


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
def test_quantile_is_definition_7(ordered: list[float], parts: int) -> None:
    found = [quantile(ordered, place / parts) for place in range(1, parts)]
    assert found == pytest.approx(quantiles(ordered, n=parts, method="inclusive"), abs=1e-6)


@given(NUMBERS, st.floats(0, 1), st.floats(0, 1))
def test_quantile_grows_with_the_share(ordered: list[float], one: float, other: float) -> None:
    low, high = (quantile(ordered, share) for share in sorted((one, other)))
    assert low is not None
    assert high is not None
    assert ordered[0] <= low <= high + 1e-6 <= ordered[-1] + 2e-6


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


def test_a_sum_of_weighted_thirds_reaches_one_and_what_is_truly_less_does_not() -> None:
    assert reaches(0.1 / 3 * 10 + 2 / 3 - 1e-15, 1.0)
    assert not reaches(0.99999, 1.0)
