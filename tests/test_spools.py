"""Rows and numbers that go to a temporary file when they are many come back as if they were in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor import spools
from proctor.errors import StoreError
from proctor.spools import NumberSpool, RowSorter, RowSpool
from proctor.stats import quantile

ROWS = st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=2), st.integers(0, 9)), max_size=60)
Row = tuple[str, bytes, int]
few = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every limit so small that a few rows are many."""
    for name, limit in (("MAX_ROWS", 5), ("_BLOCK_ROWS", 2), ("MAX_NUMBERS", 5), ("_BLOCK_NUMBERS", 2)):
        monkeypatch.setattr(spools, name, limit)


@few
@given(ROWS)
def test_rows_come_back_in_their_order(rows: list[Row]) -> None:
    spool = RowSpool[Row](Row)
    for row in rows:
        spool.append(row)
    assert list(spool) == list(spool) == rows


@few
@given(ROWS)
def test_rows_are_sorted_as_a_list_is(rows: list[Row]) -> None:
    sorter = RowSorter[Row](Row)
    for row in rows:
        sorter.add(row)
    assert list(sorter) == list(sorter) == sorted(rows)


@few
@given(st.lists(st.floats(-1e9, 1e9), max_size=60), st.integers(0, 60))
def test_numbers_are_sorted_as_a_list_is(numbers: list[float], count: int) -> None:
    spool = NumberSpool()
    for number in numbers[:count]:
        spool.append(number)
    first = spool.copy()
    for number in numbers[count:]:
        spool.append(number)
    assert list(first.sort()) == sorted(first) == sorted(numbers[:count])
    sorted_numbers = spool.sort()
    assert (len(spool), len(sorted_numbers)) == (len(numbers), len(numbers))
    assert list(sorted_numbers) == sorted(spool) == sorted(numbers)
    assert [sorted_numbers[place] for place in range(-len(numbers), len(numbers))] == sorted(numbers) * 2
    assert list(sorted_numbers[1:4]) == sorted(numbers)[1:4]
    assert quantile(sorted_numbers, 0.95) == quantile(sorted(numbers), 0.95)


def test_a_number_that_comes_after_sorting_is_sorted_too() -> None:
    spool = NumberSpool()
    for number in range(12):
        spool.append(number)
    assert spool.sort()[-1] == 11
    spool.append(20)
    assert spool.sort()[-1] == 20
    with pytest.raises(IndexError):
        spool.sort()[13]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    spool = RowSpool[Row](Row)
    for number in range(4):
        spool.append(("a", b"", number))
    with pytest.raises(StoreError, match=r"missing cannot be written: No such file.*TMPDIR"):
        spool.append(("a", b"", 4))
