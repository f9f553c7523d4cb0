"""Shares and their intervals: known values and laws."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats import clopper_pearson, newcombe, reaches, wilson

COUNTS = st.integers(1, 10_000).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


def bounds(passed: float, total: float, z: float | None = None) -> tuple[float, float]:
    interval = wilson(passed, total) if z is None else wilson(passed, total, z)
    assert interval is not None
    return interval


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


def exact(passed: int, total: int) -> tuple[float, float]:
    interval = clopper_pearson(passed, total)
    assert interval is not None
    return interval


@pytest.mark.parametrize(
    ("passed", "total", "score", "strict"),
    [
        (81, 263, (0.2553, 0.3662), (0.2527, 0.3676)),
        (15, 148, (0.0624, 0.1605), (0.0578, 0.1617)),
        (0, 20, (0.0, 0.1611), (0.0, 0.1684)),
        (1, 29, (0.0061, 0.1718), (0.0009, 0.1776)),
    ],
)
def test_the_intervals_of_a_share_have_their_published_values(
    passed: int, total: int, score: tuple[float, float], strict: tuple[float, float]
) -> None:
    # Table I of R. G. Newcombe, "Two-sided confidence intervals for the single proportion: comparison of
    # seven methods", Statistics in Medicine 17 (1998), 857-872: methods 3 and 5.
    assert bounds(passed, total) == pytest.approx(score, abs=5e-5)
    assert exact(passed, total) == pytest.approx(strict, abs=5e-5)


@pytest.mark.parametrize("total", [1, 2, 10, 300, 1_000_000])
def test_the_exact_interval_has_its_closed_form_when_none_or_all_passed(total: int) -> None:
    high = 1 - 0.025 ** (1 / total)
    assert exact(0, total) == pytest.approx((0, high), rel=1e-9)
    assert exact(total, total) == pytest.approx((1 - high, 1), rel=1e-9)


@pytest.mark.slow
@given(COUNTS)
def test_the_exact_interval_contains_the_share_and_mirrors_the_failures(counts: tuple[int, int]) -> None:
    passed, total = counts
    low, high = exact(passed, total)
    assert 0 <= low <= passed / total <= high <= 1
    assert exact(total - passed, total) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@given(st.integers(1, 40).flatmap(lambda total: st.tuples(st.integers(1, total), st.just(total))))
def test_at_the_low_end_so_many_or_more_come_once_in_forty_times(counts: tuple[int, int]) -> None:
    passed, total = counts
    low = exact(passed, total)[0]
    tail = sum(
        comb(total, hits) * low**hits * (1 - low) ** (total - hits) for hits in range(passed, total + 1)
    )
    assert tail == pytest.approx(0.025, rel=1e-9)


@given(st.integers(1, 200), st.data())
def test_the_exact_interval_rises_with_what_passed(total: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, total - 1))
    (low, high), (more_low, more_high) = exact(passed, total), exact(passed + 1, total)
    assert low < more_low
    assert high < more_high


def test_the_exact_interval_of_nothing_is_none() -> None:
    assert clopper_pearson(0, 0) is None


@pytest.mark.parametrize(("passed", "total"), [(-1, 10), (11, 10), (1, 0)])
def test_the_exact_interval_refuses_a_share_outside_0_and_1(passed: int, total: int) -> None:
    with pytest.raises(ValueError, match=f"passed must be within 0 and {total}, not {passed}"):
        clopper_pearson(passed, total)


def difference(passed: float, total: float, other_passed: float, other_total: float) -> tuple[float, float]:
    interval = newcombe(passed, total, other_passed, other_total)
    assert interval is not None
    return interval


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


def test_a_sum_of_weighted_thirds_reaches_one_and_what_is_truly_less_does_not() -> None:
    assert reaches(0.1 / 3 * 10 + 2 / 3 - 1e-15, 1.0)
    assert not reaches(0.99999, 1.0)
