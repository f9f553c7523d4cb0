"""Paired comparisons, pass@k and the bootstrap: known values and laws."""

from __future__ import annotations

from fractions import Fraction
from math import comb, isclose
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats import bootstrap, deviation, mcnemar, newcombe, newcombe_paired, pass_at_k, pass_hat_k

COUNT = st.integers(0, 300)
TABLES = st.tuples(COUNT, COUNT, COUNT, COUNT).filter(any)
DRAWS = st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


# --- pairs -------------------------------------------------------------------------------------------------


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
    both, first, second, neither = table
    found, turned = (
        newcombe_paired(both, first, second, neither),
        newcombe_paired(both, second, first, neither),
    )
    assert found is not None
    assert turned is not None
    difference = (first - second) / sum(table)
    assert -1 <= found[0] <= difference + 1e-12
    assert difference - 1e-12 <= found[1] <= 1
    assert (-turned[1], -turned[0]) == pytest.approx(found, abs=1e-9)


def test_pairs_that_agree_tell_more_than_independent_answers_do() -> None:
    paired, independent = newcombe_paired(60, 8, 2, 30), newcombe(68, 100, 62, 100)
    assert paired is not None
    assert independent is not None
    assert paired[1] - paired[0] < independent[1] - independent[0]


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [(0, 0, 1.0), (3, 3, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (12, 2, 0.012939453125), (0, 10, 0.001953125)],
)
def test_mcnemar_has_the_probabilities_of_a_fair_coin(first: int, second: int, p: float) -> None:
    assert mcnemar(first, second) == p
    assert mcnemar(second, first) == p


def test_mcnemar_refuses_negative_counts() -> None:
    with pytest.raises(ValueError, match=r"0 or more, not \(-1, 2\)"):
        mcnemar(-1, 2)


# --- pass@k ------------------------------------------------------------------------------------------------


@given(DRAWS)
def test_pass_at_k_and_pass_hat_k_are_the_shares_of_draws(drawn: tuple[int, int, int]) -> None:
    n, c, k = drawn
    assert isclose(pass_at_k(n, c, k), 1 - Fraction(comb(n - c, k), comb(n, k)), abs_tol=1e-12)
    assert isclose(pass_hat_k(n, c, k), Fraction(comb(c, k), comb(n, k)), abs_tol=1e-12)


@given(DRAWS)
def test_all_of_k_pass_no_more_often_than_one_of_them(drawn: tuple[int, int, int]) -> None:
    n, c, k = drawn
    assert 0 <= pass_hat_k(n, c, k) <= c / n + 1e-12
    assert c / n - 1e-12 <= pass_at_k(n, c, k) <= 1


def test_pass_at_k_is_stable_where_factorials_are_not() -> None:
    assert pass_at_k(1_000_000, 5, 10) == pytest.approx(1 - (1 - 5e-6) ** 10, rel=1e-4)
    assert pass_hat_k(1_000_000, 999_999, 500_000) == pytest.approx(0.5)


@pytest.mark.parametrize("function", [pass_at_k, pass_hat_k])
@pytest.mark.parametrize(
    ("n", "c", "k", "message"),
    [
        (0, 0, 1, "at least 1, not n=0 and k=1"),
        (3, 1, 0, "at least 1, not n=3 and k=0"),
        (3, 4, 1, "c must be within 0 and n, not n=3 and c=4"),
        (3, -1, 1, "c must be within 0 and n, not n=3 and c=-1"),
        (3, 0, 4, "k must be at most n, not n=3 and k=4"),
    ],
)  # fmt: skip
def test_draws_that_cannot_be_are_refused(function: type, n: int, c: int, k: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(n, c, k)


# --- means -------------------------------------------------------------------------------------------------


def test_the_bootstrap_is_the_same_every_time_and_another_with_another_seed() -> None:
    values = [0.0, 1.0, 1.0, 0.5, 0.25] * 8
    assert bootstrap(values) == bootstrap(values)
    assert bootstrap(values, seed=1) != bootstrap(values)


def test_the_bootstrap_is_near_the_normal_interval_for_many_values() -> None:
    values = [float(place % 2) for place in range(400)]
    found = bootstrap(values)
    assert found is not None
    assert found == pytest.approx((0.5 - 0.049, 0.5 + 0.049), abs=0.004)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8))
def test_the_bootstrap_stays_within_the_values(values: list[float]) -> None:
    found = bootstrap(values, draws=50)
    assert found is not None
    assert min(values) - 1e-6 <= found[0] <= found[1] <= max(values) + 1e-6
    assert deviation(values) == pytest.approx(stdev(values), abs=1e-6)


@pytest.mark.parametrize("values", [[], [1.0]])
def test_one_value_has_no_spread(values: list[float]) -> None:
    assert bootstrap(values) is None
    assert deviation(values) is None


def test_equal_values_have_an_interval_without_width() -> None:
    assert bootstrap([0.7] * 9) == pytest.approx((0.7, 0.7))
    assert fmean([0.7] * 9) == pytest.approx(0.7)
