"""Labels of some and predictions of all: laws, worked examples, and how often the interval holds."""

from __future__ import annotations

from itertools import product
from math import fsum
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats import LabelledItem, prediction_powered, wilson

SHARES = st.sampled_from((0.0, 0.25, 0.5, 1.0))
ITEMS = st.lists(
    st.builds(
        LabelledItem,
        SHARES,
        SHARES,
        st.floats(0.5, 4),
        st.none() | st.integers(0, 9),
        st.none() | SHARES,
        st.none() | st.floats(0.01, 1),
    ),
    min_size=2,
    max_size=30,
)


def table(counts: dict[tuple[int, int], int]) -> list[LabelledItem]:
    """Items by the count of each label and prediction."""
    return [LabelledItem(float(y), float(f)) for (y, f), count in counts.items() for _ in range(count)]


def test_the_value_is_that_of_the_paper_with_the_power_of_a_regression() -> None:
    # Of 40 labelled items, 30 are predicted to pass, of which 24 do; of 10 that are not, 2 do.
    items = table({(1, 1): 24, (0, 1): 6, (1, 0): 2, (0, 0): 8})
    estimate = prediction_powered(items, 0.7, 200)
    assert estimate is not None
    # With half an item more in each cell, labels pass with 24.5 of 31 where predicted, and 2.5 of 11 else.
    assert estimate.power == pytest.approx(24.5 / 31 - 2.5 / 11)
    assert estimate.value == pytest.approx(26 / 40 + estimate.power * (0.7 - 30 / 40))
    assert estimate.high - estimate.low < 0.9 * (0.7872 - 0.4951)  # Wilson's of 26 of 40


@given(ITEMS, st.floats(0, 1), st.integers(1, 500))
def test_the_value_lies_in_its_interval_and_within_0_and_1(
    items: list[LabelledItem], mean: float, predictions: int
) -> None:
    estimate = prediction_powered(items, mean, predictions)
    if estimate is not None:
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
        assert 0 <= estimate.power <= 1
        assert estimate.high - estimate.low > 0.001


@given(ITEMS, st.floats(0, 1))
def test_pass_and_fail_are_alike_and_so_are_units_of_weight(items: list[LabelledItem], mean: float) -> None:
    estimate = prediction_powered(items, mean, 100)
    mirrored_items = [
        item._replace(
            label=1 - item.label,
            prediction=1 - item.prediction,
            group_prediction=None if item.group_prediction is None else 1 - item.group_prediction,
        )
        for item in items
    ]
    mirrored = prediction_powered(mirrored_items, 1 - mean, 100)
    heavier = prediction_powered([item._replace(weight=7 * item.weight) for item in items], mean, 100)
    assert heavier == pytest.approx(estimate)
    if estimate is not None:
        assert mirrored is not None
        assert (mirrored.value, mirrored.power) == pytest.approx(
            (1 - estimate.value, estimate.power), abs=1e-9
        )
        assert (mirrored.low, mirrored.high) == pytest.approx((1 - estimate.high, 1 - estimate.low), abs=1e-6)


def test_predictions_that_say_nothing_leave_the_labels_alone() -> None:
    estimate = prediction_powered(table({(1, 1): 14, (1, 0): 14, (0, 1): 6, (0, 0): 6}), 0.9, 10_000)
    assert estimate is not None
    assert (estimate.value, estimate.power) == pytest.approx((0.7, 0.0), abs=1e-9)
    assert (estimate.low, estimate.high) == pytest.approx(wilson(28, 40), abs=0.01)


def test_predictions_without_a_mistake_are_not_certain() -> None:
    estimate = prediction_powered(table({(1, 1): 14, (0, 0): 6}), 0.7, 10_000)
    assert estimate is not None
    assert estimate.value == pytest.approx(0.7)
    assert estimate.low < 0.65 < 0.75 < estimate.high


def test_an_item_that_was_drawn_rarely_stands_for_many() -> None:
    often = [LabelledItem(0.0, 1.0, 1.0)] * 15 + [LabelledItem(1.0, 1.0, 1.0)] * 5
    rarely = [LabelledItem(1.0, 1.0, 8.0)] * 20
    estimate = prediction_powered(often + rarely, 1.0, 180)
    assert estimate is not None
    assert estimate.value == pytest.approx(165 / 180)


def test_items_of_a_group_count_as_few() -> None:
    alone = table({(1, 1): 20, (1, 0): 4, (0, 1): 4, (0, 0): 12})
    grouped = [item._replace(group=place // 4) for place, item in enumerate(alone)]
    narrow, wide = prediction_powered(alone, 0.6, 200), prediction_powered(grouped, 0.6, 200)
    assert narrow is not None
    assert wide is not None
    assert wide.value == pytest.approx(narrow.value, abs=0.02)
    assert wide.high - wide.low > 1.3 * (narrow.high - narrow.low)


def test_there_is_none_below_two_labelled_items_and_wrong_numbers_are_refused() -> None:
    assert prediction_powered([], 0.5, 10) is None
    assert prediction_powered([LabelledItem(1.0, 1.0)], 0.5, 10) is None
    assert prediction_powered([LabelledItem(1.0, 1.0, group="a")] * 9, 0.5, 10) is None
    with pytest.raises(ValueError, match="weight must be above 0"):
        prediction_powered([LabelledItem(1.0, 1.0, 0.0)] * 3, 0.5, 10)
    with pytest.raises(ValueError, match="within 0 and 1"):
        prediction_powered([LabelledItem(1.5, 1.0)] * 3, 0.5, 10)
    with pytest.raises(ValueError, match="within 0 and 1"):
        prediction_powered([LabelledItem(1.0, 1.0)] * 3, 1.5, 10)


@pytest.mark.parametrize("labels", [10, 20, 40])
def test_the_interval_contains_the_truth_as_often_as_it_promises_and_no_more(labels: int) -> None:
    """Judges that are good, useless and nearly perfect, and five pass rates, which are as good as any."""
    random, hits, samples = Random(labels), 0, 0
    for right, wrong in ((0.9, 0.8), (0.6, 0.6), (0.98, 0.98)):
        for truth, _ in product((0.35, 0.5, 0.62, 0.75, 0.87), range(100)):
            passed = [random.random() < truth for _ in range(200)]
            judged = [float(random.random() < (right if is_pass else 1 - wrong)) for is_pass in passed]
            items = [LabelledItem(float(passed[place]), judged[place]) for place in range(labels)]
            rate = prediction_powered(items, fsum(judged) / 200, 200)
            hits += rate is not None and rate.low <= truth <= rate.high
            samples += 1
    assert 0.935 <= hits / samples <= 0.965


def test_judgments_of_many_repeats_say_more_than_those_of_few() -> None:
    """40 labels of 40 cases, and the judge's verdicts on one repeat of each of 50 cases, or on five."""
    once = [
        item._replace(group=place, group_prediction=item.prediction, group_share=1 / 50)
        for place, item in enumerate(table({(1, 1): 22, (1, 0): 3, (0, 1): 3, (0, 0): 12}))
    ]
    five_times = [item._replace(group_prediction=0.36 + 0.4 * item.prediction) for item in once]
    few, many = prediction_powered(once, 0.6, 50), prediction_powered(five_times, 0.6, 110)
    assert few is not None
    assert many is not None
    assert many.high - many.low < 0.95 * (few.high - few.low)


def test_repeats_that_are_much_alike_tell_less_of_the_labels() -> None:
    """As many judgments alone do not say how far the labels and all verdicts move together."""
    items = [item._replace(group=place) for place, item in enumerate(table({(1, 1): 22, (0, 0): 18}))]
    alike = [item._replace(group_prediction=item.prediction, group_share=1 / 50) for item in items]
    apart = [item._replace(group_prediction=0.55, group_share=1 / 50) for item in items]
    wide, narrow = prediction_powered(alike, 0.6, 110), prediction_powered(apart, 0.6, 110)
    assert wide is not None
    assert narrow is not None
    assert wide.high - wide.low > 1.05 * (narrow.high - narrow.low)
