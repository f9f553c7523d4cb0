"""Confidence sequences, and how often a gate on a point estimate is wrong."""

from __future__ import annotations

from math import log
from random import Random

import pytest
from scipy.special import betaln  # type: ignore[import-untyped,unused-ignore]
from scipy.stats import binom  # type: ignore[import-untyped,unused-ignore]

from proctor.stats import best_count_for, confidence_sequence, point_gate_errors, wilson
from proctor.stats.sequences import count_for_width


@pytest.mark.parametrize(("total", "count"), [(16, 20), (3, 50), (180.25, 200), (950, 1000)])
@pytest.mark.parametrize("best_count", [20, 200, 3000])
def test_the_ends_are_the_means_against_which_the_evidence_is_one_in_twenty(
    total: float, count: int, best_count: float
) -> None:
    for mean in confidence_sequence(total, count, best_count):
        strength = best_count / 8.2
        first, second = strength * mean, strength * (1 - mean)
        ratio = betaln(total + first, count - total + second) - betaln(first, second)
        ratio -= total * log(mean) + (count - total) * log(1 - mean)
        assert ratio == pytest.approx(log(20), abs=1e-6)


def test_a_sequence_is_everything_before_the_first_value_and_narrows_to_the_mean() -> None:
    assert confidence_sequence(0, 0) == (0.0, 1.0)
    assert confidence_sequence(40, 40)[1] == 1.0
    assert confidence_sequence(0, 40)[0] == 0.0
    widths = []
    for count in (10, 100, 1000, 10_000):
        low, high = confidence_sequence(0.8 * count, count)
        assert low < 0.8 < high
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    low, high = confidence_sequence(0.3 * 100, 100)
    assert (1 - high, 1 - low) == pytest.approx(confidence_sequence(0.7 * 100, 100))


@pytest.mark.parametrize(("total", "count"), [(-1, 3), (4, 3)])
def test_a_sum_beyond_the_number_of_values_is_refused(total: float, count: int) -> None:
    with pytest.raises(ValueError, match=f"within 0 and {count}"):
        confidence_sequence(total, count)


def test_the_price_of_looking_is_half_the_width_again_where_it_is_least() -> None:
    low, high = confidence_sequence(160, 200, 200)
    fixed = wilson(160, 200)
    assert fixed is not None
    assert (high - low) / (fixed[1] - fixed[0]) == pytest.approx(1.55, abs=0.01)
    count = round(best_count_for(0.02))
    low, high = confidence_sequence(0.8 * count, count, best_count_for(0.02))
    assert (high - low) / 2 == pytest.approx(0.02, abs=0.0005)


@pytest.mark.parametrize(
    ("rate", "trials"),
    [(0.5, 1), (0.9, 1), (0.8, 3)],
)
def test_the_mean_stays_in_the_sequence_at_every_look(rate: float, trials: int) -> None:
    rng, covered = Random(5), 0
    for _ in range(200):
        total = 0.0
        for count in range(1, 301):
            total += sum(rng.random() < rate for _ in range(trials)) / trials
            low, high = (0.0, 1.0) if count % 5 else confidence_sequence(total, count)
            if not low <= rate <= high:
                break
        else:
            covered += 1
    assert covered >= 186


@pytest.mark.parametrize("cases", [1, 20, 50, 1000])
@pytest.mark.parametrize("bar", [0.5, 0.8, 0.97, 1.0])
def test_the_errors_of_a_point_gate_are_binomial_tails(cases: int, bar: float) -> None:
    errors = point_gate_errors(cases, bar)
    needed = next(passed for passed in range(cases + 1) if passed / cases >= bar - 1e-9)
    assert 0 <= errors.below < bar <= errors.above <= 1
    assert errors.false_passes == pytest.approx(binom.sf(needed - 1, cases, errors.below), abs=1e-9)
    assert errors.false_failures == pytest.approx(binom.cdf(needed - 1, cases, errors.above), abs=1e-9)


def test_a_point_gate_at_80_percent_of_20_cases_passes_75_percent_in_41_of_100_runs() -> None:
    errors = point_gate_errors(20, 0.8)
    assert (errors.below, errors.above) == pytest.approx((0.75, 0.85))
    assert (round(errors.false_passes, 2), round(errors.false_failures, 2)) == (0.41, 0.17)


@pytest.mark.parametrize("bounds", [(0.9, 0.9), (0.5, 0.5), (1.0, 1.0), (0.78, 0.8)])
def test_the_count_for_a_width_is_the_first_that_has_it(bounds: tuple[float, float]) -> None:
    def half_width(count: int) -> float:
        low, high = (confidence_sequence(mean * count, count, 300) for mean in bounds)
        return (high[1] - low[0]) / 2

    count = count_for_width(0.04, bounds, 300)
    assert count is not None
    assert half_width(count) <= 0.04 < half_width(count - 1)


def test_no_count_gives_a_width_that_the_bounds_do_not_have() -> None:
    assert count_for_width(0.02, (0.7, 0.8)) is None
