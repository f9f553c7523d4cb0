"""Several answers, several tests, several repeats: known values and laws."""

from __future__ import annotations

from fractions import Fraction
from math import comb, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats import benjamini_hochberg, flake_rate, holm, pass_at_k, pass_hat_k

DRAWS = st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


# --- pass@k ------------------------------------------------------------------------------------------------


@given(DRAWS)
def test_pass_at_k_and_pass_hat_k_are_the_shares_of_draws(counts: tuple[int, int, int]) -> None:
    n, c, k = counts
    assert isclose(pass_at_k(n, c, k), 1 - Fraction(comb(n - c, k), comb(n, k)), abs_tol=1e-12)
    assert isclose(pass_hat_k(n, c, k), Fraction(comb(c, k), comb(n, k)), abs_tol=1e-12)


@given(DRAWS)
def test_all_of_k_pass_no_more_often_than_one_of_them(counts: tuple[int, int, int]) -> None:
    n, c, k = counts
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


# --- several tests -----------------------------------------------------------------------------------------

PUBLISHED = [
    *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459),
    *(0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
]  # fmt: skip
"""Of the 15 comparisons in section 3.2 of Benjamini and Hochberg (1995)."""
P_VALUES = st.lists(st.floats(0, 1), max_size=20)


def test_the_published_example_has_its_published_answer() -> None:
    # "rejects the three hypotheses which correspond to the smallest p-values"; the other "four".
    assert [p <= 0.05 for p in holm(PUBLISHED)] == [True] * 3 + [False] * 12
    assert [p <= 0.05 for p in benjamini_hochberg(PUBLISHED)] == [True] * 4 + [False] * 11
    assert holm(PUBLISHED)[:3] == pytest.approx([0.0015, 0.0056, 0.0247])
    assert benjamini_hochberg(PUBLISHED)[3] == pytest.approx(0.0095 * 15 / 4)


@given(P_VALUES)
def test_adjusting_makes_no_p_value_smaller_and_holm_is_the_stricter(p_values: list[float]) -> None:
    for p, discoveries, alarms in zip(p_values, benjamini_hochberg(p_values), holm(p_values), strict=True):
        assert p <= discoveries * (1 + 1e-12) <= alarms * (1 + 1e-9) <= 1 + 1e-9


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
@given(p_values=P_VALUES, data=st.data())
def test_adjusting_keeps_the_order_and_does_not_depend_on_it(
    adjust: type, p_values: list[float], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(p_values))))
    adjusted_values = adjust(p_values)
    assert adjust([p_values[place] for place in order]) == [adjusted_values[place] for place in order]
    ascending = sorted(zip(p_values, adjusted_values, strict=True))
    assert [p for _, p in ascending] == sorted(adjusted_values)


@pytest.mark.parametrize("adjusted", [holm, benjamini_hochberg])
def test_one_test_needs_no_adjusting(adjusted: type) -> None:
    assert adjusted([0.03]) == [0.03]
    assert adjusted([]) == []


@pytest.mark.parametrize("adjusted", [holm, benjamini_hochberg])
@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(adjusted: type, p: float) -> None:
    with pytest.raises(ValueError, match=f"within 0 and 1, not {p}"):
        adjusted([0.5, p])


# --- repeats -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcomes", "rate"),
    [
        ([[True, True], [False, False]], 0.0),
        ([[True, False], [False, False]], 0.5),
        ([[True, False, True], [True], [], [False, True]], 1.0),
        ([[True], [False]], None),
        ([], None),
    ],
)
def test_flakes_are_the_cases_whose_repeats_do_not_all_agree(
    outcomes: list[list[bool]], rate: float | None
) -> None:
    assert flake_rate(outcomes) == rate
