"""The test of a difference beside how much the nights differ."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from scipy.stats import t

from proctor.drift.change_point import NO, YES
from proctor.drift.night_effect import EXPECTED_NIGHT_SD, night_p_value
from proctor.stats.incomplete_beta import student_tails


def columns(nights: list[str]) -> dict[bytes, int]:
    """The values of each case over the nights: 1, 0, or a space for a night that does not know it."""
    values = {"1": YES, "0": NO, " ": 0}
    counts: dict[bytes, int] = {}
    for case in zip(*nights, strict=True):
        column = bytes(values[value] for value in case)
        counts[column] = counts.get(column, 0) + 1
    return counts


def random_nights(count: int, cases: int = 30) -> list[str]:
    random = Random(count)
    return ["".join("01"[random.random() < 0.7] for _ in range(cases)) for _ in range(count)]


@pytest.mark.parametrize(("count", "place"), [(2, 1), (5, 1), (9, 6), (40, 39)])
def test_where_each_night_knows_each_case_it_is_students_test_of_the_nights(count: int, place: int) -> None:
    nights = random_nights(count)
    grid = np.array([[int(value) for value in night] for night in nights], dtype=float)
    sides = grid[:place], grid[place:]
    squares = sum(float(((side - side.mean(axis=0)) ** 2).sum()) for side in sides)
    freedom = grid.shape[1] * (count - 2)
    expected = EXPECTED_NIGHT_SD**2 + (squares / freedom / grid.shape[1] if freedom else 0)
    rates = [side.mean(axis=1) for side in sides]
    strays = sum(float(((rate - rate.mean()) ** 2).sum()) for rate in rates)
    variance = (2 * expected + strays) / count
    value = (rates[1].mean() - rates[0].mean()) / np.sqrt(variance * (1 / place + 1 / (count - place)))
    assert night_p_value(columns(nights), place, YES) == pytest.approx(2 * t.sf(abs(value), count))


def test_nights_that_differ_much_show_less() -> None:
    calm = ["1" * 20] * 8 + ["1" * 10 + "0" * 10] * 4
    wild = ["1" * 20, "1" * 8 + "0" * 12] * 4 + ["1" * 10 + "0" * 10] * 4
    assert night_p_value(columns(calm), 8, YES) < 1e-5
    assert night_p_value(columns(wild), 8, YES) > 0.2


def test_no_difference_is_no_evidence() -> None:
    assert night_p_value(columns(["10", "10", "10"]), 2, YES) == 1


def test_a_night_that_knows_few_cases_has_little_weight() -> None:
    nights = ["1" * 20, "1" * 20, "0" + " " * 19, "1" * 20, "1" * 20, "0" * 20, "0" * 20]
    assert night_p_value(columns(nights), 5, YES) < 0.001


def test_the_share_of_the_other_value_gives_the_same() -> None:
    nights = random_nights(10)
    counts = columns(nights)
    assert night_p_value(counts, 4, NO) == pytest.approx(night_p_value(counts, 4, YES))


@pytest.mark.parametrize("freedom", [1, 2, 3.5, 30, 1000])
@pytest.mark.parametrize("value", [0, 0.1, 1, -3, 20, 500])
def test_students_tails_are_scipys(value: float, freedom: float) -> None:
    assert student_tails(value, freedom) == pytest.approx(2 * t.sf(abs(value), freedom), rel=1e-9)
