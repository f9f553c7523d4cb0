"""Early stopping of a run: cases count in the order in which they were sent."""

from __future__ import annotations

from typing import Any

from proctor.model import Case, EarlyStop, Settings, Verdict
from proctor.reports.runs.gate import describe_early_stop
from proctor.services.runs.execution.early_stopping import EarlyStopping
from proctor.stats import confidence_sequence
from support.builders import make_run, make_trial


def watch(cases: int = 1000, **settings: Any) -> EarlyStopping:
    """The rule of a run whose cases are sent by position."""
    rule = EarlyStopping(make_run(settings=Settings(**settings)), cases)
    for position in range(cases):
        rule.expect(position)
    return rule


def add(rule: EarlyStopping, position: int, verdict: Verdict = Verdict.PASS, repeat: int = 0) -> bool:
    """Adds a trial, and returns whether enough is known for the first time."""
    case, was_known = Case(id=f"c{position}", input=()), rule.result is not None
    rule.add(make_trial(case.id, position=position, repeat=repeat), case, verdict)
    return rule.result is not None and not was_known


def find_stop(rule: EarlyStopping, verdicts: list[Verdict]) -> EarlyStop | None:
    """Adds these verdicts, one for each case, and returns the rule's result."""
    for position, verdict in enumerate(verdicts):
        if add(rule, position, verdict):
            break
    return rule.result


GATE: dict[str, Any] = {"min_pass_rate": 0.8, "gate_mode": "interval", "stop_when_shown": True}


def test_a_run_stops_when_its_gate_is_shown_or_ruled_out() -> None:
    stop = find_stop(watch(**GATE), [Verdict.PASS] * 999)
    assert stop is not None
    assert (stop.reason, stop.planned_cases) == ("shown", 1000)
    assert 20 < stop.cases < 50
    assert stop.interval is not None
    assert stop.interval[0] >= 0.8
    failed_stop = find_stop(watch(**GATE), [Verdict.FAIL] * 999)
    assert failed_stop is not None
    assert failed_stop.reason == "ruled out"
    assert failed_stop.cases < 10


def test_a_run_stops_when_its_sequence_is_narrow() -> None:
    verdicts = [Verdict.PASS if number % 5 else Verdict.FAIL for number in range(1000)]
    stop = find_stop(watch(until=0.05), verdicts)
    assert stop is not None
    assert stop.interval is not None
    assert stop.fixed_interval is not None
    assert (stop.interval[1] - stop.interval[0]) / 2 <= 0.05
    assert stop.fixed_interval[1] - stop.fixed_interval[0] < stop.interval[1] - stop.interval[0]
    assert 500 < stop.cases < 700


def test_cases_that_finish_early_wait_for_those_that_were_sent_before() -> None:
    rule = watch(**GATE)
    assert not any(add(rule, position) for position in range(1, 900))
    assert add(rule, 0)
    assert rule.result is not None
    assert rule.result.cases < 50


def test_a_case_counts_when_all_of_its_repeats_have_finished() -> None:
    rule = watch(repeats=2, **GATE)
    assert not any(add(rule, position) for position in range(200))
    assert [add(rule, position, repeat=1) for position in range(60)].count(True) == 1


def test_errors_count_as_failed_for_what_is_shown_and_as_passed_for_what_is_ruled_out() -> None:
    assert find_stop(watch(**GATE), [Verdict.ERROR] * 999) is None
    verdicts = [Verdict.ERROR, *[Verdict.PASS] * 3] * 240
    assert find_stop(watch(**GATE), verdicts) is None
    assert find_stop(watch(until=0.02), [Verdict.UNSCORED] * 999) is None


def test_a_run_that_ends_when_enough_is_known_did_not_stop_early() -> None:
    stop = find_stop(watch(**GATE), [Verdict.PASS] * 999)
    assert stop is not None
    assert find_stop(watch(cases=stop.cases, **GATE), [Verdict.PASS] * stop.cases) is None
    assert find_stop(watch(cases=stop.cases + 1, **GATE), [Verdict.PASS] * stop.cases) is not None


def test_a_rate_is_known_only_if_the_unmeasured_could_not_change_it() -> None:
    third = [Verdict.ERROR, *[Verdict.PASS] * 2] * 333
    assert find_stop(watch(until=0.04), third) is None
    few = [Verdict.ERROR, *[Verdict.PASS] * 49] * 19
    stop = find_stop(watch(until=0.08), few)
    assert stop is not None
    assert stop.interval is not None
    assert stop.fixed_interval is not None
    assert (stop.interval[1] - stop.interval[0]) / 2 <= 0.08
    assert stop.fixed_interval[0] < 0.98  # as the errors could have failed


def test_a_run_with_a_point_gate_keeps_the_rates_as_the_range_of_its_gate() -> None:
    stop = find_stop(watch(until=0.08), [Verdict.ERROR, *[Verdict.PASS] * 999])
    assert stop is not None
    assert stop.gate_range == (1 - 1 / stop.cases, 1.0)


# --- the result at the end ---------------------------------------------------------------------------------


def stop_and_finish(verdict: Verdict, in_flight: list[Verdict]) -> tuple[EarlyStop, EarlyStop]:
    """The result when cases of one verdict were enough, and the one after the calls in flight."""
    rule = watch(**GATE)
    stop = find_stop(rule, [verdict] * 999)
    assert stop is not None
    for position, last in enumerate(in_flight, start=stop.cases):
        assert not add(rule, position, last)
    end = rule.finish()
    assert end is not None
    assert end.interval is not None
    assert stop.interval is not None
    assert end.gate_range == end.interval
    assert end.cases == stop.cases + len(in_flight)
    return stop, end


def test_what_was_known_stays_known_whatever_calls_in_flight_show() -> None:
    stop, end = stop_and_finish(Verdict.PASS, [Verdict.FAIL] * 3)
    assert end.interval is not None
    assert end.interval[0] == stop.gate_range[0] >= 0.8
    assert end.interval[1] < 1.0
    _, end = stop_and_finish(Verdict.PASS, [Verdict.PASS] * 31)
    assert end.interval == confidence_sequence(end.cases, end.cases)


def test_an_interval_has_the_rate_also_if_many_calls_were_in_flight() -> None:
    stop, end = stop_and_finish(Verdict.FAIL, [Verdict.PASS] * 31)
    assert stop.reason == end.reason == "ruled out"
    assert end.interval is not None
    rate = 31 / end.cases
    assert stop.gate_range[1] < rate
    assert end.interval[0] < rate < end.interval[1]
    assert "80.0% was ruled out before the last calls ended" in describe_early_stop(end, Settings(**GATE))


def test_calls_that_are_given_up_end_what_is_looked_at() -> None:
    rule = watch(**GATE)
    stop = find_stop(rule, [Verdict.PASS] * 999)
    assert stop is not None
    for position in (stop.cases, stop.cases + 2, stop.cases + 3):  # the one between never finished
        add(rule, position)
    end = rule.finish()
    assert end is not None
    assert end.cases == stop.cases + 1
    assert watch(**GATE).finish() is None
