"""A set of positions behaves as a sorted set of integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.position_set import PositionSet


@given(st.sets(st.integers(0, 99)), st.sets(st.integers(0, 99)), st.integers(100, 130))
def test_positions_are_those_that_were_given(some: set[int], others: set[int], size: int) -> None:
    positions = PositionSet(some, size)
    assert (list(positions), len(positions)) == (sorted(some), len(some))
    assert [place in positions for place in range(-3, size + 20)] == [
        place in some for place in range(-3, size + 20)
    ]
    assert (positions == PositionSet(others, 100)) is (some == others)
    assert len({positions, PositionSet(some, 100)}) == 1
    assert positions.count_common(PositionSet(others, 100)) == len(some & others)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16, 100])
def test_a_full_set_has_every_position(size: int) -> None:
    full = PositionSet.make_full(size)
    assert full == PositionSet(range(size), size)
    assert list(full) == list(range(size))
    assert len(full) == size
    assert size not in full
