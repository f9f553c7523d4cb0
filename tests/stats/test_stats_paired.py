"""Paired comparisons: known values and laws."""

from __future__ import annotations

from itertools import product
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats import mcnemar, newcombe, newcombe_paired, paired_bootstrap, permutation, sign_test

COUNT = st.integers(0, 300)
TABLES = st.tuples(COUNT, COUNT, COUNT, COUNT).filter(any)


def test_the_paired_interval_has_its_published_value() -> None:
    # 36 pairs passed twice, 12 only first, 2 only second: method 10 in Newcombe (1998), paired data.
    assert newcombe_paired(36, 12, 2, 0) == pytest.approx((0.0569, 0.3404), abs=5e-5)


def test_the_paired_interval_of_nothing_is_none() -> None:
    assert newcombe_paired(0, 0, 0, 0) is None


@pytest.mark.parametrize("counts", [(-1, 0, 0, 3), (3, -2, 0, 3), (3, 0, 0, -3)])
def test_the_paired_interval_refuses_negative_counts(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="counts must be 0 or more"):
        newcombe_paired(*counts)


@given(TABLES)
def test_the_paired_interval_contains_the_difference_and_turns_round(
    table: tuple[int, int, int, int],
) -> None:
    both_pass, first, second, both_fail = table
    interval, mirrored = (
        newcombe_paired(both_pass, first, second, both_fail),
        newcombe_paired(both_pass, second, first, both_fail),
    )
    assert interval is not None
    assert mirrored is not None
    difference = (first - second) / sum(table)
    assert -1 <= interval[0] <= difference + 1e-12
    assert difference - 1e-12 <= interval[1] <= 1
    assert (-mirrored[1], -mirrored[0]) == pytest.approx(interval, abs=1e-9)


def test_pairs_that_agree_tell_more_than_independent_answers_do() -> None:
    paired_interval, independent_interval = newcombe_paired(60, 8, 2, 30), newcombe(68, 100, 62, 100)
    assert paired_interval is not None
    assert independent_interval is not None
    assert paired_interval[1] - paired_interval[0] < independent_interval[1] - independent_interval[0]


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [(0, 0, 1.0), (3, 3, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (12, 2, 0.012939453125), (0, 10, 0.001953125)],
)
def test_mcnemar_has_the_probabilities_of_a_fair_coin(first: int, second: int, p: float) -> None:
    assert mcnemar(first, second) == p
    assert mcnemar(second, first) == p


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [(0, 0, 1.0), (3, 3, 1.0), (1, 0, 0.5), (5, 0, 0.03125), (12, 2, 0.00738525390625), (4, 3, 0.7265625)],
)
def test_mid_p_counts_what_was_seen_half(first: int, second: int, p: float) -> None:
    assert mcnemar(first, second, mid_p=True) == mcnemar(second, first, mid_p=True) == p


def test_mid_p_has_its_published_value() -> None:
    # 1 pair only first, 7 only second: the airway hyper-responsiveness data of Fagerland et al. (2013).
    assert mcnemar(1, 7) == pytest.approx(0.0703, abs=5e-5)
    assert mcnemar(1, 7, mid_p=True) == pytest.approx(0.0391, abs=5e-5)


@pytest.mark.parametrize("pairs", [10, 17, 40])
def test_mid_p_while_half_of_the_pairs_differ_rejects_in_at_most_5_percent(pairs: int) -> None:
    rejects = [
        sum(
            comb(differing, first)
            for first in range(differing + 1)
            if mcnemar(first, differing - first, mid_p=2 * differing <= pairs) < 0.05
        )
        / 2**differing
        for differing in range(pairs + 1)
    ]
    for share in (place / 20 for place in range(1, 21)):
        weights = [comb(pairs, n) * share**n * (1 - share) ** (pairs - n) for n in range(pairs + 1)]
        assert sum(weight * is_rejected for weight, is_rejected in zip(weights, rejects, strict=True)) <= 0.05


def test_mcnemar_refuses_negative_counts() -> None:
    with pytest.raises(ValueError, match=r"0 or more, not \(-1, 2\)"):
        mcnemar(-1, 2)


# --- signs -------------------------------------------------------------------------------------------------

CRITICAL = {
    6: 0,
    9: 1,
    12: 2,
    15: 3,
    17: 4,
    20: 5,
    23: 6,
    25: 7,
    28: 8,
    30: 9,
    33: 10,
    35: 11,
    37: 12,
    40: 13,
}
"""Pairs from which on so few of the rarer sign are significant at 5 %: table 1 of Dixon and Mood (1946)."""


@pytest.mark.parametrize(("pairs", "fewer"), CRITICAL.items())
def test_the_sign_test_has_its_published_table(pairs: int, fewer: int) -> None:
    assert sign_test(pairs - fewer, fewer) <= 0.05 < sign_test(pairs - 1 - fewer, fewer)


@given(st.integers(0, 400), st.integers(0, 400))
def test_the_sign_test_is_even_and_shrinks_with_what_is_more_one_sided(positive: int, negative: int) -> None:
    p_value = sign_test(positive, negative)
    assert p_value == sign_test(negative, positive) == mcnemar(positive, negative)
    assert 0 < p_value <= 1
    if positive >= negative:
        assert sign_test(positive + 1, negative) <= p_value


def test_many_pairs_have_the_p_value_that_whole_numbers_give() -> None:
    ways = tail = 1
    for hits in range(1200):
        ways = ways * (2501 - hits) // (hits + 1)
        tail += ways
    assert sign_test(1200, 1301) == pytest.approx(2 * tail / 2**2501, rel=1e-10)


# --- permutation -------------------------------------------------------------------------------------------

MAIZE = (49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48)
"""Darwin's: eighths of an inch that crossed plants were taller than self-fertilised ones."""


def try_every_sign(differences: list[float]) -> float:
    """The permutation test by its definition."""
    sums = [
        sum(map(float.__mul__, differences, signs)) for signs in product((1.0, -1.0), repeat=len(differences))
    ]
    threshold = abs(sum(differences)) - 1e-9
    return sum(abs(total) >= threshold for total in sums) / len(sums)


def test_the_permutation_test_has_fishers_answer() -> None:
    # Section 21 of "The Design of Experiments": 863 of 32,768 ways on either side.
    assert permutation(MAIZE) == 2 * 863 / 32768
    assert permutation([eighths / 8 for eighths in MAIZE]) == 2 * 863 / 32768


@given(st.lists(st.sampled_from([-1.0, -2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3, 1.0]), max_size=8))
def test_counting_multiples_is_trying_every_sign(differences: list[float]) -> None:
    assert permutation(differences) == pytest.approx(try_every_sign(differences), abs=1e-12)


@given(st.lists(st.floats(0.1, 1) | st.floats(-1, -0.1), max_size=7))
def test_few_differences_are_tried_with_every_sign(differences: list[float]) -> None:
    assert permutation(differences) == pytest.approx(try_every_sign(differences), abs=1e-12)


@given(st.lists(st.integers(-20, 20), max_size=60), st.integers(1, 9))
def test_neither_signs_nor_zeros_nor_the_unit_nor_the_order_matter(differences: list[int], unit: int) -> None:
    p = permutation(differences)
    assert 0 < p <= 1
    assert permutation([-value / unit for value in reversed(differences)] + [0.0]) == p


@given(st.integers(0, 60), st.integers(0, 60))
def test_of_verdicts_the_permutation_test_is_mcnemars(first: int, second: int) -> None:
    assert permutation([1.0] * first + [-1.0] * second + [0.0] * 5) == mcnemar(first, second)


@pytest.mark.slow
def test_many_unlike_differences_are_tried_at_random_and_the_same_way_again() -> None:
    differences = [(place**0.5 - 3.5) / 7 for place in range(30)]
    assert permutation(differences) == permutation(differences)
    assert permutation(differences, seed=1) == pytest.approx(permutation(differences), abs=0.02)
    coarse = [round(value, 2) for value in differences]
    assert permutation(differences) == pytest.approx(permutation(coarse), abs=0.02)


def test_random_tries_never_make_p_zero() -> None:
    assert permutation([1 + place**0.5 for place in range(200)], draws=99) == 0.01


@pytest.mark.parametrize("differences", [[], [0.0, 0.0]])
def test_no_difference_is_explained_by_chance(differences: list[float]) -> None:
    assert permutation(differences) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=f"values must be finite numbers, not {value}"):
        permutation([1.0, value])


# --- the difference, resampled -----------------------------------------------------------------------------

SCORES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12)


@given(SCORES.filter(lambda rows: len({first - second for first, second in rows}) > 1))
def test_the_resampled_interval_is_around_the_mean_difference(rows: list[tuple[int, int]]) -> None:
    interval = paired_bootstrap([first for first, _ in rows], [second for _, second in rows], draws=100)
    differences = [first - second for first, second in rows]
    assert interval is not None
    assert min(differences) <= interval[0] <= sum(differences) / len(rows) + 1e-9
    assert sum(differences) / len(rows) - 1e-9 <= interval[1] <= max(differences)


@pytest.mark.slow
def test_repeats_in_their_groups_tell_no_more_than_one_of_them() -> None:
    first, second, cases = [1.0, 0.0, 1.0, 1.0, 0.5], [0.0, 0.0, 1.0, 0.5, 0.0], list("abcde")
    once = paired_bootstrap(first, second)
    grouped = paired_bootstrap(first * 4, second * 4, cases * 4)
    assert once is not None
    assert grouped == pytest.approx(once, abs=1e-12)
    apart = paired_bootstrap(first * 4, second * 4)
    assert apart is not None
    assert apart[1] - apart[0] < once[1] - once[0]


def test_a_group_counts_by_its_pairs() -> None:
    first, second = [1.0] * 6 + [0.0, 1.0], [0.0] * 8
    interval = paired_bootstrap(first, second, [*"aaaaaa", "b", "c"])
    assert interval is not None
    assert interval[0] < 7 / 8 < interval[1]


@pytest.mark.parametrize(
    ("first", "second", "groups"),
    [([], [], None), ([1.0], [0.0], None), ([1.0, 0.5], [1.0, 0.5], None), ([1.0, 0.5], [0.0, 0.0], "aa")],
)
def test_what_does_not_vary_has_no_resampled_interval(
    first: list[float], second: list[float], groups: str | None
) -> None:
    assert paired_bootstrap(first, second, groups) is None


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired_bootstrap([1.0, 0.0], [1.0])


def test_rounding_errors_of_sums_are_no_differences() -> None:
    rounding = 0.1 + 0.2 - 0.3
    assert rounding
    differences = [1 / 3] * 20 + [-1 / 3] * 6
    assert permutation([*differences, rounding, -rounding]) == permutation(differences) == mcnemar(20, 6)
