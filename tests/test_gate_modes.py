"""Gates on the pass rate and on its interval: what is shown, what is not, and what is ruled out."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from proctor.errors import ExitCode
from proctor.model import Case, EarlyStop, Settings
from proctor.run_gate import GateDecision, decide_gate, gate_range, run_exit_code
from proctor.stats import clopper_pearson, confidence_sequence, wilson
from proctor.verdicts import Counts, Tally, set_intervals
from support.builders import make_run, make_score, make_trial

CODES = {
    ExitCode.OK: GateDecision.SHOWN,
    ExitCode.NOT_MEASURED: GateDecision.NOT_SHOWN,
    ExitCode.FAILED: GateDecision.RULED_OUT,
}


def count_singles(passed: int, failed: int, errors: int = 0) -> Counts:
    """Counts cases with one trial each."""
    cases = {(1, 0, 0, 0): passed, (0, 1, 0, 0): failed, (0, 0, 1, 0): errors}
    return Counts.from_cases({key: count for key, count in cases.items() if count})


def gate(**settings: Any) -> Settings:
    return Settings(**{"min_pass_rate": 0.8, "gate_mode": "interval", "allow_errors": 1000, **settings})


@pytest.mark.parametrize(
    ("passed", "failed", "errors", "code"),
    [
        (16, 4, 0, ExitCode.NOT_MEASURED),  # 56 to 94 %
        (20, 0, 0, ExitCode.OK),  # from 83 %
        (11, 9, 0, ExitCode.FAILED),  # to 77 %: even the upper end is below
        (180, 20, 0, ExitCode.OK),
        (180, 15, 5, ExitCode.OK),  # all errors failed: 180 of 200
        (165, 10, 25, ExitCode.NOT_MEASURED),  # 165 of 200 do not show it, though 165 of 175 would
        (140, 60, 0, ExitCode.FAILED),
        (140, 40, 20, ExitCode.NOT_MEASURED),  # 140 of 180 is ruled out only if no error had passed
    ],
)
def test_an_interval_gate_is_shown_ruled_out_or_neither(
    passed: int, failed: int, errors: int, code: ExitCode
) -> None:
    counts = count_singles(passed, failed, errors)
    low, high = gate_range(counts, gate()) or (0.0, 1.0)
    assert run_exit_code(counts, gate()) is code
    assert decide_gate(low, high, 0.8) is CODES[code]
    total = passed + failed + errors
    assert low == pytest.approx((clopper_pearson(passed, total) or (0, 0))[0])
    assert high == pytest.approx((clopper_pearson(passed + errors, total) or (0, 0))[1])


def test_more_errors_than_are_allowed_decide_before_the_gate() -> None:
    assert run_exit_code(count_singles(199, 0, 1), gate(allow_errors=0)) is ExitCode.NOT_MEASURED


def test_the_gate_of_a_run_without_measured_trials_is_not_decided() -> None:
    for mode in ("point", "interval"):
        settings = gate(gate_mode=mode)
        assert gate_range(Counts(), settings) is None
        assert run_exit_code(Counts(), settings) is ExitCode.NOT_MEASURED


def test_settings_without_these_fields_are_stored_as_before() -> None:
    from proctor.codec import encode

    assert encode(Settings(min_pass_rate=0.8)) == b'{"min_pass_rate":0.8}'
    assert b'"gate_mode":"interval"' in encode(gate())


def test_resolved_counts_turn_what_was_not_measured_into_passes_or_failures() -> None:
    counts = Counts.from_cases({(2, 1, 1, 0): 3, (0, 0, 0, 2): 1})
    failed, passed = (counts.resolved(passed=passed) for passed in (False, True))
    assert (failed.passed, failed.failed, failed.unmeasured) == (6, 8, 0)
    assert (passed.passed, passed.failed, passed.unmeasured) == (11, 3, 0)
    assert (failed.pass_rate, passed.pass_rate) == counts.bounds
    assert failed.cases == passed.cases == 4
    assert count_singles(3, 1).resolved(passed=True) == count_singles(3, 1)


def test_clusters_stay_when_counts_are_resolved_and_the_rest_is_one_of_its_own() -> None:
    counts = count_singles(6, 2, 2)
    counts.clusters = {"one": (4.0, 4), "two": (2.0, 4)}
    failed, passed = (counts.resolved(passed=passed) for passed in (False, True))
    assert failed.clusters is not None
    assert passed.clusters is not None
    assert (sum(part for part, _ in failed.clusters.values()), len(failed.clusters)) == (6.0, 3)
    assert sum(part for part, _ in passed.clusters.values()) == pytest.approx(8.0)
    assert sum(cases for _, cases in passed.clusters.values()) == 10
    partly = Counts.from_cases({(1, 0, 1, 0): 2, (2, 0, 0, 0): 6})
    partly.clusters = {"one": (4.0, 4), "two": (4.0, 4)}
    resolved = partly.resolved(passed=False).clusters or {}
    assert sum(part for part, _ in resolved.values()) == pytest.approx(7.0)
    wide, narrow = gate_range(counts, gate()), gate_range(count_singles(6, 2, 2), gate())
    assert wide is not None
    assert narrow is not None
    assert wide[0] < narrow[0]


@pytest.mark.parametrize("settings", [{"stop_when_shown": True}, {"until": 0.02}])
def test_a_run_that_may_stop_by_what_it_shows_is_held_to_a_sequence(settings: dict[str, Any]) -> None:
    counts = count_singles(26, 0)
    assert run_exit_code(counts, gate()) is ExitCode.OK  # from 87 %
    assert run_exit_code(counts, gate(**settings)) is ExitCode.NOT_MEASURED
    if "until" not in settings:
        assert gate_range(counts, gate(**settings)) == confidence_sequence(26, 26)


def test_a_decision_of_a_sequence_is_final() -> None:
    stop = EarlyStop(
        reason="shown",
        cases=60,
        planned_cases=100,
        interval=(0.81, 0.99),
        fixed_interval=(0.9, 0.98),
        gate_range=(0.81, 0.99),
    )
    counts, settings = count_singles(60, 9), gate(stop_when_shown=True)
    assert run_exit_code(counts, settings) is ExitCode.NOT_MEASURED
    set_intervals([counts], make_run(settings=settings, early_stop=stop))
    assert counts.ci95 == (0.81, 0.99)
    assert run_exit_code(counts, settings) is ExitCode.OK


def test_totals_that_were_stored_before_have_the_sequence_of_their_run() -> None:
    fixed, watched = (make_run(settings=settings) for settings in (gate(), gate(stop_when_shown=True)))
    tally, case = Tally.for_run(fixed), Case(id="c", input=(), category="all", tags=("a",))
    for position in range(20):
        tally.add(make_trial("yes", make_score(1.0), position=position, case_id=f"c{position}"), case)
    sequence = confidence_sequence(20, 20)
    assert tally.result_counts.ci95 == wilson(20, 20)
    restored = Tally.restore(watched, tally.state())
    for counts in (restored.result_counts, restored.categories["all"], restored.tags["a"]):
        assert counts.ci95 == sequence
    stop = EarlyStop(
        reason="shown",
        cases=20,
        planned_cases=100,
        interval=(0.81, 0.99),
        fixed_interval=(0.9, 0.98),
        gate_range=(0.81, 0.99),
    )
    assert Tally.restore(replace(watched, early_stop=stop), tally.state()).result_counts.ci95 == (0.81, 0.99)
