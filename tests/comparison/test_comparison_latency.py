"""Latencies of two runs: an interval only for pairs that were asked in turn."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from proctor.comparison.compare import Comparison, compare_runs
from proctor.comparison.latency import MAX_TURN_GAP_S
from proctor.comparison.outcome_table import TrialOutcome
from proctor.comparison.outcomes import OutcomeCollector, RunOutcomes
from proctor.model import Output, Settings, Trial, Verdict
from proctor.reports.comparison.json import LatencyDifferenceRecord, comparison_record
from proctor.reports.comparison.report import ComparisonReport, measure_facts
from support.builders import NOON, make_case, make_run, make_score, make_trial
from support.outcomes import make_outcomes

IN_TURNS = Settings(interleave=True)
CASES = 12


def make_timed_run(name: str, latency_ms: float, *, offset_s: float = 0.0, **fields: Any) -> RunOutcomes:
    """A run whose calls begin a second apart, from `offset_s` after noon on."""
    numbers = {
        f"c{n}": {
            "latency_ms": latency_ms + n,
            "call_s": (n + offset_s, n + offset_s + (latency_ms + n) / 1000),
        }
        for n in range(CASES)
    }
    return make_outcomes(name, "+" * CASES, numbers=numbers, **{"settings": IN_TURNS} | fields)


def latency_row(comparison: Comparison) -> str:
    return str(dict(measure_facts(comparison).items)["latency"])


@pytest.mark.parametrize(
    "other",
    [
        make_timed_run("b", 410.0, settings=Settings()),
        make_timed_run("b", 410.0, group="another"),
    ],
    ids=["without the setting", "of another command"],
)
def test_runs_that_were_not_interleaved_have_no_interval_and_say_why(other: RunOutcomes) -> None:
    comparison = compare_runs(make_timed_run("a", 62.0), other)
    latency = comparison.latency_ms
    assert latency is not None
    assert (latency.ci95, latency.median_ci95, latency.interleaved) == (None, None, False)
    assert (latency.baseline_median, latency.candidate_median) == (67.5, 415.5)
    assert latency_row(comparison) == (
        "mean 68 ms → 416 ms · median 68 ms → 416 ms over 12 cases; no interval, because the runs were not "
        "interleaved and a difference may come from the time of day: "
        "proctor run --interleave sends each case to all targets in turn"
    )


def test_interleaved_runs_have_an_interval() -> None:
    comparison = compare_runs(make_timed_run("a", 62.0), make_timed_run("b", 410.0, offset_s=0.5))
    latency = comparison.latency_ms
    assert latency is not None
    assert (latency.median_ci95, latency.interleaved, latency.out_of_turn) == ((348.0, 348.0), True, 0)
    assert latency_row(comparison) == (
        "mean 68 ms → 416 ms · median difference +348 ms (95 % interval +348 ms to +348 ms) over 12 cases, "
        "interleaved"
    )


def test_pairs_that_an_interruption_parted_are_left_out_and_counted() -> None:
    def make_run_with_late_cases(name: str, late: set[int]) -> RunOutcomes:
        numbers = {
            f"c{n}": {"latency_ms": 50.0, "call_s": (start := n + 3600.0 * (n in late), start + 0.05)}
            for n in range(CASES)
        }
        return make_outcomes(name, "+" * CASES, numbers=numbers, settings=IN_TURNS)

    comparison = compare_runs(
        make_run_with_late_cases("a", {8, 9, 10, 11}), make_run_with_late_cases("b", {6, 7, 8, 9, 10, 11})
    )
    latency = comparison.latency_ms
    assert latency is not None
    assert (latency.cases, latency.out_of_turn, latency.median_ci95 is not None) == (10, 2, True)
    assert latency_row(comparison).endswith("over 10 cases, interleaved; 2 pairs out of turn are left out")


@pytest.mark.parametrize(("gap_s", "in_turn"), [(MAX_TURN_GAP_S - 1, True), (MAX_TURN_GAP_S + 1, False)])
def test_a_pair_is_in_turn_if_its_calls_are_at_most_a_minute_apart(gap_s: float, in_turn: bool) -> None:
    first = make_timed_run("a", 50.0)
    for other in (make_timed_run("b", 50.0, offset_s=gap_s), make_timed_run("b", 50.0, offset_s=-gap_s)):
        latency = compare_runs(first, other).latency_ms
        assert latency is not None
        assert latency.interleaved is in_turn


def test_a_run_is_not_interleaved_with_itself() -> None:
    latency = compare_runs(make_timed_run("a", 50.0), make_timed_run("a", 50.0)).latency_ms
    assert latency is not None
    assert not latency.interleaved


def answer(place: int, latency_ms: float, **fields: Any) -> tuple[Trial, Any]:
    output = Output(text="x", latency_ms=latency_ms, queue_ms=2000.0, cached=fields.pop("cached", False))
    started_at = NOON + timedelta(seconds=place)
    trial = make_trial(
        "x",
        make_score(1.0),
        case_id=f"c{place}",
        position=place,
        output=output,
        started_at=started_at,
        **fields,
    )
    return trial, make_case(f"c{place}")


def collect_outcomes(name: str, *trials: tuple[Trial, Any], **fields: Any) -> RunOutcomes:
    collector = OutcomeCollector(make_run(id=name, group="g", planned=len(trials), **fields))
    for trial, case in trials:
        collector.add(trial, Verdict.PASS, case)
    return collector.finish()


def outcome(outcomes: RunOutcomes) -> TrialOutcome:
    return outcomes.cases[0].trials[0]


def test_a_call_lasts_from_the_end_of_its_waiting_and_is_noted_in_interleaved_runs_only() -> None:
    noon = NOON.timestamp()
    assert outcome(collect_outcomes("a", answer(0, 500.0), settings=IN_TURNS)).call_s == (
        noon + 2,
        noon + 2.5,
    )
    assert outcome(collect_outcomes("a", answer(0, 500.0))).call_s is None
    assert outcome(collect_outcomes("a", answer(0, 500.0, source_run="b"), settings=IN_TURNS)).call_s is None


def test_answers_from_the_cache_and_of_other_runs_are_in_no_difference_and_counted() -> None:
    first = collect_outcomes("a", *(answer(place, 60.0) for place in range(4)))
    second = collect_outcomes(
        "b",
        answer(0, 400.0),
        answer(1, 62.0, cached=True),
        answer(2, 62.0, source_run="a"),
        answer(3, 400.0),
    )
    comparison = compare_runs(first, second)
    assert comparison.latency_ms is not None
    assert (comparison.latency_ms.candidate, comparison.latency_ms.pairs) == (400.0, 2)
    assert comparison.latency_left_out == 2
    assert latency_row(comparison).endswith(
        "; 2 pairs with an answer from the cache or another run are left out"
    )
    record = comparison_record(ComparisonReport(comparisons=(comparison,))).comparisons[0]
    assert isinstance(record.latency_ms, LatencyDifferenceRecord)
    assert (record.latency_left_out, record.latency_ms.ci95) == (2, None)


def test_without_a_pair_that_was_measured_in_both_runs_it_says_so() -> None:
    first = collect_outcomes("a", answer(0, 60.0))
    second = collect_outcomes("b", answer(0, 62.0, cached=True))
    assert latency_row(compare_runs(first, second)) == (
        "not measured in both runs: 1 pair with an answer from the cache or another run is left out"
    )


def test_speeds_are_compared_as_latencies_are_where_answers_were_streamed() -> None:
    def make_streamed_run(name: str, first_token_ms: float, settings: Settings) -> RunOutcomes:
        numbers = {
            f"c{n}": {
                "latency_ms": 900.0,
                "call_s": (float(n), n + 0.9),
                "first_token_ms": first_token_ms + n,
                "tokens_per_second": 50.0 + n,
            }
            for n in range(CASES)
        }
        return make_outcomes(name, "+" * CASES, numbers=numbers, settings=settings)

    for settings, ends in (
        (Settings(), "over 12 cases; no interval, for the same reason"),
        (IN_TURNS, "(95 % interval -100 ms to -100 ms) over 12 cases, interleaved"),
    ):
        comparison = compare_runs(
            make_streamed_run("a", 300.0, settings), make_streamed_run("b", 200.0, settings)
        )
        rows = dict(measure_facts(comparison).items)
        assert str(rows["first token"]).startswith("mean 306 ms → 206 ms · median ")
        assert str(rows["first token"]).endswith(ends)
        assert str(rows["tokens/s"]).startswith("mean 56 → 56 · median ")
        record = comparison_record(ComparisonReport(comparisons=(comparison,))).comparisons[0]
        assert isinstance(record.first_token_ms, LatencyDifferenceRecord)
        assert record.first_token_ms.interleaved is settings.interleave
    plain = compare_runs(make_timed_run("a", 62.0), make_timed_run("b", 63.0))
    assert (plain.first_token_ms, plain.tokens_per_second) == (None, None)
    assert "first token" not in dict(measure_facts(plain).items)
