"""The interval of a difference whose pairs come in groups: laws, and how often it holds."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from math import fsum
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.stats import clustered_newcombe, newcombe_paired, permutation

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation/comparison-statistics.md"

Pair = tuple[bool, bool]
PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=5)
GROUPS = st.lists(st.lists(PAIRS, min_size=1, max_size=4), min_size=1, max_size=12)


def interval(groups: Sequence[Sequence[Sequence[Pair]]]) -> tuple[float, float]:
    """The interval of groups of cases, each with its pairs."""
    cases = [case for group in groups for case in group]
    both_pass, first, second, both_fail = (
        fsum(case.count(kind) / len(case) for case in cases)
        for kind in ((True, True), (True, False), (False, True), (False, False))
    )
    sums = [(fsum(map(difference, group)), len(group)) for group in groups]
    bounds = clustered_newcombe(
        sums, (both_pass, first, second, both_fail), fsum(1 / len(case) for case in cases)
    )
    assert bounds is not None
    return bounds


def difference(case: Sequence[Pair]) -> float:
    return (case.count((True, False)) - case.count((False, True))) / len(case)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_single_pairs_in_groups_of_one_have_newcombes_interval(pairs: list[Pair]) -> None:
    counts = [pairs.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False))]
    assert interval([[[pair]] for pair in pairs]) == pytest.approx(newcombe_paired(*counts), abs=1e-9)


@given(GROUPS)
def test_the_interval_holds_the_difference_has_width_and_turns_round(groups: list[list[list[Pair]]]) -> None:
    low, high = interval(groups)
    cases = [case for group in groups for case in group]
    mean = fsum(map(difference, cases)) / len(cases)
    assert -1 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 1
    assert high - low > 0.05
    mirrored = interval([[[(second, first) for first, second in case] for case in group] for group in groups])
    assert mirrored == pytest.approx((-high, -low), abs=1e-9)


def test_groups_whose_members_are_alike_count_once() -> None:
    singles = [(True, False)] * 5 + [(False, True)] + [(True, True)] * 4 + [(False, False)] * 2
    once = newcombe_paired(4, 5, 1, 2)
    assert interval([[[pair] * 7] for pair in singles]) == pytest.approx(once)  # seven repeats of a case
    assert interval([[[pair]] * 3 for pair in singles]) == pytest.approx(once)  # three cases of a cluster
    assert interval([[[(True, False)] * 9]] * 6) == pytest.approx(newcombe_paired(0, 6, 0, 0))


def test_repeats_that_scatter_alike_count_as_so_many_pairs() -> None:
    case = [(True, False), (True, True), (False, False), (True, True)]
    assert interval([[case]] * 10) == pytest.approx(newcombe_paired(20, 10, 0, 10))


def test_nothing_has_no_interval() -> None:
    assert clustered_newcombe([], (0.0, 0.0, 0.0, 0.0), 0.0) is None


def test_what_the_test_over_cases_rejects_has_an_interval_without_zero() -> None:
    random, n_rejected, n_without_zero = Random(7), 0, 0
    for _ in range(400):
        rates = [random.betavariate(9, 0.5) for _ in range(10)]
        groups = [
            [[(random.random() < 0.75 * rate, random.random() < rate) for _ in range(5)]] for rate in rates
        ]
        if permutation([difference(case) for group in groups for case in group]) < 0.05:
            n_rejected += 1
            low, high = interval(groups)
            n_without_zero += not low <= 0 <= high
    assert n_rejected > 250
    assert n_without_zero >= 0.98 * n_rejected


# --- the page ----------------------------------------------------------------------------------------------


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import paired_figures  # type: ignore[import-not-found,unused-ignore]

    yield paired_figures
    del sys.modules["paired_figures"]


def test_the_page_has_the_exact_figures_of_now(tool: Any) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for line in (*tool.limits((5, 10)), *tool.largest_sizes((1, 2))):
        assert line in lines, f"run: python tools/paired_figures.py, and put its tables into {PAGE.name}"


@pytest.mark.slow
def test_the_page_has_the_figures_of_single_pairs(tool: Any) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for line in tool.pair_intervals((10, 20)):
        assert line in lines


@pytest.mark.slow
def test_the_page_has_the_simulated_figures_to_what_few_samples_tell(tool: Any) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for line in list(tool.intervals((5, 10, 20), 200))[2:]:
        label, size, *cells = line.strip("| ").split(" | ")
        page_line = next(candidate for candidate in lines if candidate.startswith(f"| {label} | {size} | "))
        for few, many in zip(cells, page_line.strip("| ").split(" | ")[2:5], strict=True):
            assert float(few) == pytest.approx(float(many), abs=6)
            assert float(many) >= 93.5
