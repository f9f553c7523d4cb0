"""Gates on comparisons, and ranks of several runs."""

from __future__ import annotations

from math import sqrt
from random import Random
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.comparison.compare import Comparison, compare_runs
from proctor.comparison.gate import GateRule, gate_exit_code, ungated_exit_code
from proctor.comparison.ranking import rank_runs
from proctor.errors import ExitCode
from support.outcomes import make_outcomes


def between(first: str, second: str, **fields: Any) -> Comparison:
    return compare_runs(make_outcomes("a", first), make_outcomes("b", second, **fields))


# --- gates -------------------------------------------------------------------------------------------------


def exit_code(comparison: Comparison, **rule: Any) -> ExitCode:
    return gate_exit_code(comparison, GateRule(**rule))


def test_a_regression_that_is_shown_is_1_and_one_that_is_not_is_0() -> None:
    assert exit_code(between("+" * 40, "+" * 20 + "-" * 20)) is ExitCode.FAILED
    assert exit_code(between("+" * 40, "+" * 39 + "-")) is ExitCode.OK
    assert exit_code(between("-" * 40, "+" * 40)) is ExitCode.OK


def test_a_margin_forgives_a_regression_that_may_be_as_small() -> None:
    comparison = between("+" * 40, "+" * 20 + "-" * 20)
    assert comparison.whole.ci95 is not None
    high = comparison.whole.ci95[1]
    assert exit_code(comparison, max_regression=-high - 0.001) is ExitCode.FAILED
    assert exit_code(comparison, max_regression=-high + 0.001) is ExitCode.OK


def test_strict_wants_a_regression_ruled_out() -> None:
    same = between("+" * 40, "+" * 40)
    assert same.whole.ci95 is not None
    low = same.whole.ci95[0]
    assert exit_code(same, strict=True) is ExitCode.FAILED
    assert exit_code(same, strict=True, max_regression=-low - 0.001) is ExitCode.FAILED
    assert exit_code(same, strict=True, max_regression=-low + 0.001) is ExitCode.OK
    assert exit_code(between("-" * 40, "+" * 40), strict=True) is ExitCode.OK


@pytest.mark.parametrize("sign", ["!", "?"])
def test_what_was_not_measured_outranks_what_is_shown(sign: str) -> None:
    worse = between("+" * 40, "-" * 39 + sign)
    assert exit_code(worse) is ExitCode.NOT_MEASURED
    assert exit_code(worse, allow_errors=1) is ExitCode.FAILED
    better = between("-" * 38 + sign * 2, "+" * 40)
    assert exit_code(better, allow_errors=1) is ExitCode.NOT_MEASURED
    assert exit_code(better, allow_errors=2) is ExitCode.OK


def test_a_comparison_of_which_nothing_was_measured_is_never_0() -> None:
    assert exit_code(between("!!", "++"), allow_errors=9) is ExitCode.NOT_MEASURED
    assert ungated_exit_code([between("!!", "++")]) is ExitCode.NOT_MEASURED


def test_a_gate_without_any_pair_selects_nothing() -> None:
    for comparison in (between("", "++"), between("++", ""), between("", "")):
        assert exit_code(comparison, allow_errors=9) is ExitCode.NOTHING_SELECTED
        assert ungated_exit_code([comparison]) is ExitCode.NOTHING_SELECTED


@pytest.mark.parametrize("unfinished", [{"status": "interrupted"}, {"status": "running"}, {"planned": 3}])
def test_a_run_that_is_not_finished_holds_no_gate(unfinished: dict[str, Any]) -> None:
    comparison = between("--", "++", **unfinished)
    assert exit_code(comparison) is ExitCode.NOT_MEASURED
    assert ungated_exit_code([comparison]) is ExitCode.OK


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("+" * 100, "+" * 5),
        ("+" * 5, "+" * 100),
        ({"a": "++", "b": "+"}, {"a": "+", "b": "+"}),
        ({"a": "+"}, {"a": "+!"}),
    ],
)
def test_a_gate_holds_over_the_trials_of_both_runs_or_over_what_the_user_says(
    before: Any, after: Any
) -> None:
    comparison = between(before, after)
    assert exit_code(comparison) is ExitCode.NOT_MEASURED
    assert exit_code(comparison, strict=True, max_regression=1.0) is ExitCode.NOT_MEASURED
    assert exit_code(comparison, partial=True) is ExitCode.OK
    assert ungated_exit_code([comparison]) is ExitCode.OK


def test_one_split_of_both_runs_is_not_partial() -> None:
    splits = {"c0": "dev", "c1": "dev", "c2": "holdout"}
    whole, dev = make_outcomes("a", "+++", split=splits), make_outcomes("b", "++", split=splits)
    assert exit_code(compare_runs(whole, dev)) is ExitCode.NOT_MEASURED
    assert exit_code(compare_runs(whole, dev, split="dev")) is ExitCode.OK


@given(st.text("+-!?", max_size=20), st.text("+-!?", max_size=20), st.floats(0, 1), st.booleans())
def test_a_gate_that_holds_was_measured(first: str, second: str, margin: float, strict: bool) -> None:
    comparison = between(first, second)
    if exit_code(comparison, max_regression=margin, strict=strict) is ExitCode.OK:
        assert comparison.whole.pairs
        assert not comparison.not_measured
        assert len(first) == len(second)
    if exit_code(comparison, max_regression=margin, strict=True) is ExitCode.OK:
        assert exit_code(comparison, max_regression=margin) is ExitCode.OK  # what is ruled out is not shown


def test_a_gate_that_unmeasured_pairs_could_decide_either_way_is_not_decided() -> None:
    outage = between("+" * 40, "+" * 20 + "!" * 20)
    assert exit_code(outage, allow_errors=20) is ExitCode.NOT_MEASURED
    assert exit_code(outage, allow_errors=20, max_regression=0.7) is ExitCode.OK
    assert exit_code(between("+" * 40, "-" * 38 + "!!"), allow_errors=2) is ExitCode.FAILED
    strict = {"strict": True, "max_regression": 0.2, "allow_errors": 20}
    assert exit_code(between("+" * 40, "+" * 39 + "!"), **strict) is ExitCode.OK
    assert exit_code(between("+" * 40, "+" * 34 + "?" * 6), **strict) is ExitCode.NOT_MEASURED


# --- ranks -------------------------------------------------------------------------------------------------


def test_runs_that_cannot_be_told_apart_share_a_rank() -> None:
    good, alike, bad = "+" * 40, "+" * 39 + "-", "-" * 30 + "+" * 10
    ranking = rank_runs(
        [make_outcomes("bad", bad), make_outcomes("good", good), make_outcomes("alike", alike)]
    )
    assert [(rank.run.id, rank.rank) for rank in ranking.by_rank] == [("good", 1), ("alike", 1), ("bad", 3)]
    assert [rank.run.id for rank in ranking.runs] == ["bad", "good", "alike"]
    assert len(ranking.comparisons) == 3


def test_sharing_a_rank_is_not_transitive() -> None:
    top, middle, low = "+" * 100, "+" * 95 + "-" * 5, "+" * 90 + "-" * 10
    ranking = rank_runs(
        [make_outcomes("top", top), make_outcomes("middle", middle), make_outcomes("low", low)]
    )
    assert {rank.run.id: rank.rank for rank in ranking.runs} == {"top": 1, "middle": 1, "low": 2}
    directions = [comparison.whole.direction for comparison in ranking.comparisons]
    assert [direction == "worse" for direction in directions] == [False, True, False]


def test_more_runs_need_more_to_be_told_apart() -> None:
    first, second = "+" * 40, "-" * 8 + "+" * 32
    two = rank_runs([make_outcomes("a", first), make_outcomes("b", second)])
    assert [rank.rank for rank in two.runs] == [1, 2]
    others = [make_outcomes(f"x{n}", first[:39] + "-") for n in range(6)]
    many = rank_runs([make_outcomes("a", first), make_outcomes("b", second), *others])
    assert [rank.rank for rank in many.runs][:2] == [1, 1]


def test_a_run_that_shares_no_case_is_told_apart_from_none() -> None:
    ranking = rank_runs(
        [make_outcomes("a", "+" * 40), make_outcomes("none", ""), make_outcomes("b", "-" * 40)]
    )
    assert {rank.run.id: rank.rank for rank in ranking.runs} == {"a": 1, "none": None, "b": 2}


@given(st.lists(st.text("+-", min_size=12, max_size=12), min_size=2, max_size=5))
def test_a_rank_is_never_worse_than_the_place_by_pass_rate(runs: list[str]) -> None:
    ranking = rank_runs([make_outcomes(f"r{n}", signs) for n, signs in enumerate(runs)])
    assert min(rank.rank or 0 for rank in ranking.runs) == 1
    for rank in ranking.runs:
        assert rank.rank is not None
        assert rank.rank <= 1 + sum(other.counts.passed > rank.counts.passed for other in ranking.runs)


def ranks(*runs: str) -> list[tuple[int | None, int | None]]:
    ranking = rank_runs([make_outcomes(f"r{n}", signs) for n, signs in enumerate(runs)])
    return [(rank.rank, rank.lowest_rank) for rank in ranking.runs]


def test_a_rank_that_errors_could_change_is_a_range() -> None:
    good, outage = "+" * 40, "+" * 20 + "!" * 20
    assert ranks(good, outage, good) == [(1, 1), (1, 3), (1, 1)]
    assert ranks(good, "+" * 39 + "!", good) == [(1, 1)] * 3
    assert ranks("-" * 40, outage, "-" * 40) == [(2, 2), (1, 1), (2, 2)]


def test_a_run_of_which_nothing_was_measured_has_no_rank_and_may_be_any_of_the_others() -> None:
    assert ranks("+" * 40, "!" * 40, "-" * 40) == [(1, 1), (None, None), (2, 3)]


def test_candidates_are_adjusted_for_their_number_alone() -> None:
    base, better = "+" * 32 + "-" * 8, "+" * 39 + "-"
    ranking = rank_runs([make_outcomes("base", base), *[make_outcomes(f"r{n}", better) for n in range(4)]])
    (first, *_) = ranking.candidates
    assert first.whole.p_value is not None
    assert first.whole.p_holm == pytest.approx(4 * first.whole.p_value)
    assert ranking.comparisons[0].whole.p_holm == pytest.approx(10 * first.whole.p_value)
    assert [comparison.candidate.id for comparison in ranking.candidates] == ["r0", "r1", "r2", "r3"]


def test_equal_runs_lead_by_chance_as_much_as_their_answers_vary() -> None:
    random, leads, promised = Random(1), [], []
    for _ in range(40):
        hard = [
            random.random() < 0.5 for _ in range(50)
        ]  # half of the cases, in each of which chance decides
        signs = ["".join("-+"[not is_hard or random.random() < 0.5] for is_hard in hard) for _ in range(5)]
        ranking = rank_runs([make_outcomes(f"r{n}", word) for n, word in enumerate(signs)])
        rates = [rank.counts.pass_rate or 0.0 for rank in ranking.runs]
        leads.append(max(rates) - fmean(rates))
        promised.append(ranking.chance_lead or 0.0)
    assert fmean(promised) == pytest.approx(fmean(leads), abs=0.01)
    assert fmean(promised) == pytest.approx(1.163 * sqrt(0.5 * 0.25 / 50), abs=0.01)


def test_runs_that_never_differ_have_no_lead_by_chance() -> None:
    assert rank_runs([make_outcomes(name, "+" * 9 + "-") for name in "abc"]).chance_lead == 0
    assert rank_runs([make_outcomes(name, "!" * 9) for name in "abc"]).chance_lead is None
