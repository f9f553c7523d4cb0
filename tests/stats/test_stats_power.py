"""Power and the smallest difference: against every outcome that there is, and laws."""

from __future__ import annotations

from itertools import product
from math import factorial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.stats import cases_needed, mcnemar, power_paired, smallest_difference

SHARES = st.tuples(st.floats(0.01, 1), st.floats(0, 1)).map(lambda shares: (shares[0] * shares[1], shares[0]))
"""A difference, and a share of differing pairs that is not smaller."""


def sum_every_outcome(cases: int, difference: float, discordant: float) -> float:
    """The power by its definition: the probability of all tables whose test is significant."""
    up, down = (discordant + difference) / 2, (discordant - difference) / 2
    total = 0.0
    for first, second in product(range(cases + 1), repeat=2):
        same = cases - first - second
        if same >= 0 and mcnemar(first, second) <= 0.05:
            ways = factorial(cases) // (factorial(first) * factorial(second) * factorial(same))
            total += ways * up**first * down**second * (1 - discordant) ** same
    return total


@pytest.mark.parametrize("cases", [0, 1, 5, 6, 13, 40])
@pytest.mark.parametrize(
    ("difference", "discordant"), [(0.0, 0.3), (0.1, 0.3), (-0.2, 0.2), (0.4, 0.5), (0.6, 1.0), (1.0, 1.0)]
)
def test_power_is_the_probability_of_what_is_significant(
    cases: int, difference: float, discordant: float
) -> None:
    power = power_paired(cases, difference, discordant)
    assert power == pytest.approx(sum_every_outcome(cases, difference, discordant), abs=1e-10)


@pytest.mark.slow
@given(st.integers(0, 300), SHARES)
def test_power_is_even_and_that_of_no_difference_at_most_the_level(
    cases: int, shares: tuple[float, float]
) -> None:
    difference, discordant = shares
    power = power_paired(cases, difference, discordant)
    assert 0 <= power <= 1
    assert power_paired(cases, -difference, discordant) == power
    assert power_paired(cases, 0.0, discordant) <= 0.05 + 1e-12
    assert power_paired(cases, discordant, discordant) >= power - 1e-12


@pytest.mark.slow
@settings(max_examples=12)
@given(st.integers(0, 300), SHARES.filter(lambda shares: 0.3 * shares[1] < shares[0] < 0.6 * shares[1] < 0.4))
def test_more_cases_have_more_power(cases: int, shares: tuple[float, float]) -> None:
    assert power_paired(cases + 40, *shares) >= power_paired(cases, *shares) - 1e-9


@pytest.mark.parametrize("discordant", [0.1, 0.2, 0.5])
@pytest.mark.parametrize("size", [1.5, 2.8, 3.5])
def test_the_approximation_for_many_joins_the_exact_sum(discordant: float, size: float) -> None:
    cases = int(1000 / discordant)
    difference = size * (discordant / cases) ** 0.5
    exact, near = (power_paired(many, difference, discordant) for many in (cases, cases + 1))
    assert near == pytest.approx(exact, abs=0.005)


@pytest.mark.slow
@settings(max_examples=8)  # each is a search
@given(st.integers(6, 150))
def test_the_smallest_difference_is_the_first_one_with_that_power(cases: int) -> None:
    smallest = smallest_difference(cases)
    assert smallest is not None
    assert 0 < smallest < 1
    below = smallest - 2e-6
    assert (
        power_paired(cases, smallest, (1 + smallest**2) / 2)
        >= 0.8
        > power_paired(cases, below, (1 + below**2) / 2)
    )


@pytest.mark.slow
def test_the_smallest_difference_of_known_flips() -> None:
    smallest, unknown = smallest_difference(100, 0.2), smallest_difference(100)
    assert smallest == pytest.approx(0.1277, abs=5e-5)
    assert sum_every_outcome(100, 0.1277, 0.2) == pytest.approx(0.8, abs=1e-3)
    assert unknown == pytest.approx(0.2068, abs=5e-5)


def test_the_share_that_differs_may_grow_with_the_difference() -> None:
    # As many pairs differ by chance as make a tenth, and those that make the difference besides.
    smallest = smallest_difference(100, lambda difference: min(1.0, 0.1 + difference))
    assert smallest is not None
    assert sum_every_outcome(100, smallest, 0.1 + smallest) == pytest.approx(0.8, abs=1e-3)
    assert smallest > (smallest_difference(100, lambda difference: difference) or 1)


@pytest.mark.parametrize(("cases", "discordant"), [(0, None), (5, None), (40, 0.1), (40, 0.0), (5, 1.0)])
def test_where_even_the_largest_difference_does_not_show_there_is_none(
    cases: int, discordant: float | None
) -> None:
    assert smallest_difference(cases, discordant) is None


@pytest.mark.parametrize(("difference", "discordant"), [(0.1, 0.2), (0.05, 0.1), (0.3, 0.5)])
def test_the_cases_needed_are_the_first_that_have_the_power(difference: float, discordant: float) -> None:
    cases = cases_needed(difference, discordant)
    assert cases is not None
    assert power_paired(cases, difference, discordant) >= 0.8
    assert power_paired(cases - 1, difference, discordant) < 0.8
    assert (smallest_difference(cases, discordant) or 1) <= difference


def test_no_difference_needs_more_cases_than_there_are() -> None:
    assert cases_needed(0.0, 0.3) is None
    assert cases_needed(0.0, 0.0) is None


@pytest.mark.parametrize(
    "arguments", [(-1, 0.1, 0.2), (10, 0.3, 0.2), (10, -0.3, 0.2), (10, 0.1, 1.1), (10, float("nan"), 0.2)]
)
def test_shares_that_cannot_be_are_refused(arguments: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match=f"cases={arguments[0]}, difference="):
        power_paired(*arguments)


@pytest.mark.parametrize("power", [0.0, 1.0, -0.1])
def test_a_power_that_cannot_be_is_refused(power: float) -> None:
    with pytest.raises(ValueError, match=f"power must be within 0 and 1, not {power}"):
        smallest_difference(10, power=power)
    with pytest.raises(ValueError, match="power must be"):
        cases_needed(0.1, 0.2, power)
