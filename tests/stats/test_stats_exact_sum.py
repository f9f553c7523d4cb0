"""A sum of floats is that of exact arithmetic, in any order."""

from __future__ import annotations

from math import fsum
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proctor.stats.exact_sum import add_exactly

NUMBERS = st.lists(st.floats(min_value=-1e9, max_value=1e9), max_size=40)


@given(NUMBERS, st.randoms())
def test_a_sum_is_exact_in_any_order(numbers: list[float], random: Any) -> None:
    random.shuffle(numbers)
    parts: list[float] = []
    for number in numbers:
        add_exactly(parts, number)
    assert fsum(parts) == fsum(numbers)


def test_the_parts_of_many_costs_are_few() -> None:
    parts: list[float] = []
    for number in range(10_000):
        add_exactly(parts, 0.000_123 * (number % 7) + 1e-9 * number)
    assert len(parts) < 40
