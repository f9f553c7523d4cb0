"""Change points: found only where they are shown, at the right place, with p-values that hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from math import comb, prod
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.drift.change_point import NO, UNKNOWN, YES, Stratum, chernoff_bound, find_split, place_weight
from proctor.drift.detector import detect_drift
from support.series import make_series


def rows(*texts: str) -> list[bytearray]:
    return [bytearray({"1": YES, "0": NO, " ": UNKNOWN}[letter] for letter in text) for text in texts]


def test_the_place_that_explains_most_is_found() -> None:
    split = find_split(rows("1111", "1111", "1111", "0001", "0001"))
    assert split is not None
    assert (split.place, split.before, split.after, split.cases) == (3, 1, 0.25, 4)


def test_cases_that_are_only_on_one_side_of_every_place_have_no_change() -> None:
    assert find_split(rows("1  ", " 10", " 01")) is None


def test_a_case_that_some_runs_lack_counts_in_the_others() -> None:
    split = find_split(rows("11 1", "1111", "00 1", "00 1"))
    assert split is not None
    assert (split.place, split.cases) == (2, 3)
    assert split.after == pytest.approx(1 / 3)
    ragged = [
        "".join(" " if (run + case) % 5 == 0 else "01"[run < 6] for case in range(10)) for run in range(10)
    ]
    split = find_split(rows(*ragged))
    assert split is not None
    assert (split.place, split.before, split.after, split.cases) == (6, 1, 0, 10)
    assert split.p_cases < 1e-6
    assert split.p_nights < 1e-6


def test_a_series_that_is_back_where_it_was_is_told_from_one_that_stays() -> None:
    before, after = "1" * 20, "0" * 12 + "1" * 8
    brief, lasting = (
        find_split(rows(before, before, after, after, before)),
        find_split(rows(before, before, before, after, after)),
    )
    assert brief is not None
    assert lasting is not None
    assert (brief.is_lasting, lasting.is_lasting) == (False, True)


@pytest.mark.parametrize("texts", [(), ("11",), ("11", "11"), ("1 ", " 1")])
def test_nothing_is_told_where_nothing_varies(texts: tuple[str, ...]) -> None:
    assert find_split(rows(*texts)) is None


@given(
    st.integers(2, 6).flatmap(
        lambda runs: st.tuples(
            st.just(runs),
            st.integers(1, runs - 1),
            st.lists(st.integers(1, runs - 1), min_size=1, max_size=4),
            st.integers(0, 20),
        )
    )
)
def test_the_bound_is_never_below_the_exact_chance(parameters: tuple[int, int, list[int], int]) -> None:
    """The exact chance convolves independent hypergeometric numbers."""
    runs, after, totals, target = parameters
    chances = {0: Fraction(1)}
    for total in totals:
        next_chances: dict[int, Fraction] = defaultdict(Fraction)
        for so_far, chance in chances.items():
            for hits in range(min(total, after) + 1):
                ways = comb(total, hits) * comb(runs - total, after - hits) if after - hits >= 0 else 0
                next_chances[so_far + hits] += chance * Fraction(ways, comb(runs, after))
        chances = next_chances
    threshold = min(target, max(sums for sums, chance in chances.items() if chance))
    threshold = max(threshold, min(sums for sums, chance in chances.items() if chance))
    above = sum(chance for sums, chance in chances.items() if sums >= threshold)
    below = sum(chance for sums, chance in chances.items() if sums <= threshold)
    exact = above if threshold * runs >= after * sum(totals) else below
    strata = Counter(Stratum(runs, after, total) for total in totals)
    assert chernoff_bound(strata, threshold) >= float(exact) - 1e-9


def test_the_bound_is_exact_at_the_end_of_what_is_possible() -> None:
    exact = prod([1 / comb(6, 3)] * 5)
    assert chernoff_bound({Stratum(6, 3, 3): 5}, 15) == pytest.approx(exact, rel=1e-6)
    assert chernoff_bound({Stratum(6, 3, 3): 5}, 0) == pytest.approx(exact, rel=1e-6)


def test_a_change_is_told_with_the_runs_around_it() -> None:
    before, after = ["yes"] * 20, ["yes!"] * 12 + ["yes"] * 8
    change_point = detect_drift(make_series(before, before, before, after, after)).change_point
    assert change_point is not None
    assert (change_point.kind, change_point.before, change_point.after) == ("first", 2, 3)
    assert (change_point.split.before, change_point.split.after) == (1, 0.4)


def test_a_change_right_after_the_first_run_is_found_by_the_last() -> None:
    change_point = detect_drift(make_series(["yes"] * 20, *[["yes!"] * 20] * 3)).change_point
    assert change_point is not None
    assert (change_point.kind, change_point.before, change_point.after) == ("last", 0, 1)


def test_errors_that_strike_another_case_each_night_do_not_hide_it() -> None:
    """Over a month no case is left that every run has."""
    nights = [
        [None if case == night % 20 else "yes!" if night > 24 else "yes" for case in range(20)]
        for night in range(30)
    ]
    drift = detect_drift(make_series(*nights))
    assert drift.change_point is not None
    assert (drift.change_point.before, drift.change_point.after) == (24, 25)
    assert drift.points[0].started_at < drift.last.started_at


def test_a_run_with_few_of_the_cases_does_not_hide_it() -> None:
    before, after = ["yes"] * 20, ["yes!"] * 20
    change_point = detect_drift(make_series(before, before, ["yes"] * 2, before, after, after)).change_point
    assert change_point is not None
    assert (change_point.before, change_point.after) == (3, 4)


def test_few_cases_show_no_change() -> None:
    assert detect_drift(make_series(["yes"] * 2, ["yes"] * 2, ["yes!"] * 2)).change_point is None


def test_two_runs_have_no_change_point_in_their_answers() -> None:
    assert detect_drift(make_series(["yes"] * 9, ["yes!"] * 9)).change_point is None


@pytest.mark.slow
def test_a_target_that_has_not_changed_seldom_has_one_and_one_that_has_is_caught(
    figures: dict[str, Any],
) -> None:
    count_changes = figures["turned"]
    false_alarms, _ = count_changes(8, None, 60)
    assert false_alarms <= 5
    assert count_changes(10, 5, 20) == (20, 20)


def test_a_shuffled_series_keeps_the_p_value_high() -> None:
    random = Random(4)
    texts = ["".join(random.choice("01") for _ in range(30)) for _ in range(10)]
    split = find_split(rows(*texts))
    assert split is not None
    assert split.p_cases / place_weight(split.place, 10 - split.place) > 0.05
