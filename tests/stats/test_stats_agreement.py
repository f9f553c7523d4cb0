"""Agreement beyond chance: published values and laws."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats import Kappa, alpha, kappa
from proctor.stats.agreement import Level

LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)
RATINGS = st.lists(st.lists(st.none() | st.integers(0, 4), max_size=5), min_size=1, max_size=15)
LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")


def list_pairs(table: list[list[int]]) -> list[tuple[int, int]]:
    return [
        (first, second)
        for first, row in enumerate(table)
        for second, many in enumerate(row)
        for _ in range(many)
    ]


def get_kappa(pairs: Sequence[tuple[object, object]]) -> Kappa:
    result = kappa(pairs)
    assert result is not None
    return result


def test_kappa_has_its_published_value() -> None:
    # Two film critics: A. Agresti and L. Winner, "Evaluating agreement and disagreement among movie
    # reviewers", Chance 10 (1997), 10-14; kappa 0.389 with a standard error of 0.060.
    result = get_kappa(list_pairs([[24, 8, 13], [8, 13, 11], [10, 9, 64]]))
    assert result.value == pytest.approx(0.389, abs=5e-4)
    assert (result.high - result.low) / 2 / 1.96 == pytest.approx(0.060, abs=1e-3)


@given(LABELS)
def test_kappa_is_within_its_interval_and_even(pairs: list[tuple[int, int]]) -> None:
    result = kappa(pairs)
    if result is not None:
        assert -1 <= result.low <= result.value + 1e-9
        assert result.value - 1e-9 <= result.high <= 1
        assert result.low < result.high
        assert get_kappa([(second, first) for first, second in pairs]) == pytest.approx(result)


@given(LABELS, st.permutations("abcd"))
def test_kappa_does_not_depend_on_what_labels_are_called(
    pairs: list[tuple[int, int]], names: list[str]
) -> None:
    result = kappa(pairs)
    result_of_new_names = kappa([(names[first], names[second]) for first, second in reversed(pairs)])
    assert (result_of_new_names is None) == (result is None)
    assert result_of_new_names == pytest.approx(result)


def test_full_agreement_on_few_is_not_certain() -> None:
    few, many = get_kappa([(True, True), (False, False)]), get_kappa([(True, True), (False, False)] * 50)
    assert few.value == many.value == few.high == many.high == 1
    assert few.low < 0 < 0.9 < many.low < 1


@pytest.mark.parametrize(("passed", "agreeing", "items"), [(0.5, 0.5, 15), (0.8, 0.9, 20), (0.9, 0.95, 40)])
def test_the_interval_of_few_items_contains_the_truth_as_often_as_it_promises(
    passed: float, agreeing: float, items: int
) -> None:
    """Both raters pass the share `passed`; the second repeats the first with probability `agreeing`."""
    random, hits, samples = Random(items), 0, 400
    for _ in range(samples):
        first = [random.random() < passed for _ in range(items)]
        second = [rating if random.random() < agreeing else random.random() < passed for rating in first]
        result = kappa(list(zip(first, second, strict=True)))
        hits += result is None or result.low <= agreeing <= result.high
    assert 0.93 <= hits / samples <= 1


def test_full_disagreement_on_few_is_not_certain() -> None:
    result = get_kappa([(True, False), (False, True)])
    assert result.value == result.low == -1
    assert result.high > 0


def test_raters_who_ignore_the_question_agree_by_chance() -> None:
    assert get_kappa([(1, 1), (1, 0), (0, 1), (0, 0)]).value == 0


@pytest.mark.parametrize("pairs", [[], [("a", "a")], [("a", "a")] * 9])
def test_kappa_is_undefined_where_nothing_could_differ(pairs: list[tuple[str, str]]) -> None:
    assert kappa(pairs) is None


# Data C of K. Krippendorff, "Computing Krippendorff's alpha-reliability" (2011): four raters, twelve things.
_RATERS = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")
PUBLISHED = [[None if mark == "." else int(mark) for mark in marks] for marks in zip(*_RATERS, strict=True)]


@pytest.mark.parametrize(("level", "value"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_has_its_published_values(level: Level, value: float) -> None:
    assert alpha(PUBLISHED, level) == pytest.approx(value, abs=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@given(ratings=RATINGS, data=st.data())
def test_alpha_does_not_depend_on_any_order(
    level: Level, ratings: list[list[int | None]], data: st.DataObject
) -> None:
    expected = alpha(ratings, level)
    shuffled = [data.draw(st.permutations(row)) for row in data.draw(st.permutations(ratings))]
    assert alpha(shuffled, level) == pytest.approx(expected, abs=1e-9)
    assert expected is None or expected <= 1


@given(RATINGS)
def test_alpha_keeps_what_each_level_keeps(ratings: list[list[int | None]]) -> None:
    def map_ratings(change: dict[int, object]) -> list[list[object]]:
        return [[None if rating is None else change[rating] for rating in row] for row in ratings]

    assert alpha(map_ratings(dict(enumerate("xyabc"))), "nominal") == pytest.approx(alpha(ratings), abs=1e-9)
    squares = map_ratings({rating: rating**2 for rating in range(5)})
    assert alpha(squares, "ordinal") == pytest.approx(alpha(ratings, "ordinal"), abs=1e-9)
    linear = map_ratings({rating: 3 * rating - 7 for rating in range(5)})
    assert alpha(linear, "interval") == pytest.approx(alpha(ratings, "interval"), abs=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_full_agreement_is_one_and_what_could_not_differ_is_undefined(level: Level) -> None:
    assert alpha([[1, 1, None], [2, 2, 2]], level) == 1
    assert alpha([[0.1, 0.1], [0.1, 0.1, 0.1]], level) is None
    assert alpha([[1, None], [None, 2], []], level) is None
    assert alpha([], level) is None
