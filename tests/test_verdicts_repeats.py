"""The verdict of a case over all of its trials, and a run whose cases count once."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.errors import ExitCode
from proctor.model import PassRule, Score, Settings, Suite, Trial, Verdict
from proctor.reports.document import render_terminal
from proctor.reports.runs import console, junit, markdown
from proctor.reports.runs.serialize import RunReport, case_results, run_record
from proctor.run_gate import run_exit_code
from proctor.stats import wilson
from proctor.verdicts import CaseRepeats, RepeatsRule, Tally, decide_verdict
from support.builders import make_case, make_report, make_trial
from support.records import plain

PASS, FAIL, ERROR, UNSCORED = Verdict.PASS, Verdict.FAIL, Verdict.ERROR, Verdict.UNSCORED
MOST = PassRule(threshold=0.8)
ALL = PassRule()
Value = float | str | None
"""A score's value; None: unscored; `gate`: full marks below a gate; `error`: no output."""


def make_value_trial(value: Value, repeat: int = 0, position: int = 0) -> Trial:
    place = {"repeat": repeat, "position": position, "case_id": f"c{position}"}
    if value == "error":
        return make_trial(None, **place)
    if value == "gate":
        gate = Score(grader="g", name="g", value=0.5, outcome=FAIL, weight=0, required=0.8)
        full = Score(grader="g", name="g", value=1.0, outcome=PASS)
        return make_trial("x", gate, full, **place)
    assert not isinstance(value, str)
    outcome = UNSCORED if value is None else PASS if value >= 0.8 else FAIL
    return make_trial("x", Score(grader="g", name="g", value=value, outcome=outcome), **place)


def decide_case(how: RepeatsRule, values: list[Value], rule: PassRule = MOST) -> Verdict:
    repeats = CaseRepeats(rule)
    for value in values:
        trial = make_value_trial(value)
        repeats.add(trial, decide_verdict(trial, rule))
    return repeats.verdict(how)


@pytest.mark.parametrize(
    ("values", "by_any", "by_mean", "by_lower_bound"),
    [
        ([1.0, 1.0, 1.0], PASS, PASS, PASS),
        ([1.0, 0.0, 0.0], PASS, FAIL, FAIL),
        ([0.0, 0.0, 0.0], FAIL, FAIL, FAIL),
        ([0.7, 0.9, 0.8], PASS, PASS, FAIL),
        ([0.79, 0.79, 0.79], FAIL, FAIL, FAIL),
        ([0.8, 0.8, 0.8], PASS, PASS, PASS),
        # the lower end is 0.9 - 4.30 · 0.1 / √3 = 0.65, and 0.97 - 4.30 · 0.02 / √3 = 0.92
        ([0.8, 0.9, 1.0], PASS, PASS, FAIL),
        ([0.95, 0.97, 0.99], PASS, PASS, PASS),
        # one that was not measured leaves the mean unknown
        ([1.0, 1.0, "error"], PASS, ERROR, ERROR),
        ([1.0, 1.0, None], PASS, UNSCORED, UNSCORED),
        ([None, 1.0, "error"], PASS, ERROR, ERROR),
        ([0.0, None, "error"], ERROR, ERROR, ERROR),
        ([0.0, None, 0.0], UNSCORED, UNSCORED, UNSCORED),
        # below a gate a trial fails and is worth nothing
        (["gate", 1.0, 1.0], PASS, FAIL, FAIL),
        (["gate", "gate"], FAIL, FAIL, FAIL),
        # a single trial decides alone
        ([1.0], PASS, PASS, PASS),
        ([0.0], FAIL, FAIL, FAIL),
        (["error"], ERROR, ERROR, ERROR),
        ([None], UNSCORED, UNSCORED, UNSCORED),
    ],
)
def test_a_case_follows_the_suites_rule_in_any_order(
    values: list[Value], by_any: Verdict, by_mean: Verdict, by_lower_bound: Verdict
) -> None:
    for order in permutations(values):
        assert decide_case("any", list(order)) is by_any
        assert decide_case("mean", list(order)) is by_mean
        assert decide_case("lower_bound", list(order)) is by_lower_bound


@pytest.mark.parametrize("how", ["mean", "lower_bound"])
def test_where_every_assertion_must_pass_so_must_every_trial(how: RepeatsRule) -> None:
    # 0.8 passes by its grader, and is then as good as 1
    assert decide_case(how, [1.0, 0.8, 0.8], ALL) is PASS
    assert decide_case(how, [1.0, 1.0, 0.7], ALL) is FAIL


def test_a_threshold_of_zero_is_reached_by_every_interval() -> None:
    assert decide_case("lower_bound", [0.0, 1.0], PassRule(threshold=0.0)) is PASS


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0, 1))
def test_the_lower_bound_is_the_harder_rule(values: list[float], threshold: float) -> None:
    rule = PassRule(threshold=threshold)
    if decide_case("lower_bound", list(values), rule) is PASS:
        assert decide_case("mean", list(values), rule) is PASS


def decide_gated_case(how: RepeatsRule, values: list[float], rule: PassRule) -> Verdict:
    """Decides a case whose assertions are gates at 0.5 without weight, so that no trial has a score."""
    repeats = CaseRepeats(rule)
    for value in values:
        trial = make_trial(
            "x", Score(grader="g", name="g", value=value, outcome=PASS, weight=0, required=0.5)
        )
        repeats.add(trial, decide_verdict(trial, rule))
    return repeats.verdict(how)


@pytest.mark.parametrize("how", ["mean", "lower_bound"])
@given(values=st.lists(st.floats(0.5, 1), min_size=1, max_size=6), threshold=st.none() | st.floats(0, 1))
def test_trials_that_pass_by_gates_alone_make_a_case_that_passes(
    how: RepeatsRule, values: list[float], threshold: float | None
) -> None:
    assert decide_gated_case(how, values, PassRule(threshold=threshold)) is PASS


def test_a_trial_below_a_gate_that_weighs_nothing_counts_as_0() -> None:
    assert decide_gated_case("mean", [0.9, 0.9, 0.2], MOST) is FAIL
    assert decide_gated_case("mean", [0.9, 0.9, 0.2], PassRule(threshold=0.6)) is PASS
    assert decide_gated_case("lower_bound", [0.9, 0.9, 0.2], PassRule(threshold=0.6)) is FAIL


@pytest.mark.slow
@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=6), threshold=st.none() | st.floats(0, 1))
def test_a_case_whose_every_trial_passes_never_fails_by_their_mean(
    values: list[float], threshold: float | None
) -> None:
    rule = PassRule(threshold=threshold)
    if all(decide_verdict(make_value_trial(value), rule) is PASS for value in values):
        assert decide_case("mean", list(values), rule) is PASS


# --- a run -------------------------------------------------------------------------------------------------


def make_tally(how: RepeatsRule, *rows: list[Value]) -> Tally:
    """Tallies cases whose trials alternate: all first repeats, then all second ones, …"""
    tally = Tally(lambda _case: MOST, how, 3)
    for repeat in range(3):
        for position, values in enumerate(rows):
            case = make_case(f"c{position}", category="math", tags=("easy",))
            tally.add(make_value_trial(values[repeat], repeat, position), case)
    return tally


def test_each_counts_trials_and_has_no_cases() -> None:
    tally = make_tally("each", [1.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    assert tally.cases is None
    assert tally.result_counts is tally.all
    assert (tally.result_counts.passed, tally.result_counts.failed) == (1, 5)


def test_a_case_counts_once_and_so_do_all_its_parts() -> None:
    tally = make_tally("any", [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], ["error", 0.0, 1.0])
    assert tally.cases is tally.result_counts
    for counts in (tally.result_counts, tally.categories["math"], tally.tags["easy"]):
        assert (counts.passed, counts.failed, counts.total, counts.cases) == (2, 1, 3, 3)
    assert (tally.all.passed, tally.all.failed, tally.all.errors, tally.all.total) == (2, 6, 1, 9)
    assert tally.result_counts.ci95 == wilson(2, 3)


def test_a_case_with_missing_trials_does_not_count_yet() -> None:
    tally = Tally(lambda _case: MOST, "any", 2)
    tally.add(make_value_trial(1.0), make_case())
    assert (tally.all.total, tally.result_counts.total) == (1, 0)
    tally.add(make_value_trial(0.0, repeat=1), make_case())
    assert (tally.all.total, tally.result_counts.total) == (2, 1)


def test_a_case_may_ask_for_more_repeats_than_the_run() -> None:
    tally = Tally(lambda _case: MOST, "mean")
    for repeat in range(3):
        assert tally.result_counts.total == 0
        tally.add(make_value_trial(1.0, repeat), make_case(repeats=3))
    assert tally.result_counts.passed == 1


def test_the_trials_of_a_case_are_released_when_it_is_complete() -> None:
    full: list[Value] = [1.0, 1.0, 1.0]
    tally = make_tally("mean", *[full] * 50)
    assert tally.result_counts.passed == 50
    assert tally._open_cases == {}


@pytest.mark.parametrize(
    ("how", "code"), [("each", ExitCode.FAILED), ("any", ExitCode.OK), ("mean", ExitCode.FAILED)]
)
def test_the_exit_code_follows_the_counts_of_the_rule(how: RepeatsRule, code: ExitCode) -> None:
    tally = make_tally(how, [1.0, 0.0, 1.0])
    assert run_exit_code(tally.result_counts, Settings()) is code


# --- reports -----------------------------------------------------------------------------------------------


@pytest.fixture
def any_of_two() -> RunReport:
    """Two cases, asked twice each: one passes once, one never."""
    values = [[1.0, 0.0], [0.0, 0.0]]
    pairs = [
        (make_value_trial(value, repeat, position), make_case(f"c{position}", tags=("easy",)))
        for position, row in enumerate(values)
        for repeat, value in enumerate(row)
    ]
    suite = Suite(name="s", dialect="agentv", pass_rule=MOST, repeats_rule="any")
    return make_report(*pairs, suite=suite, settings=Settings(repeats=2, min_pass_rate=0.5))


SENTENCE = "Each case counts once: it passes if any of its trials passes; 1 of 4 trials passed."


def test_a_run_has_its_numbers_by_case(any_of_two: RunReport) -> None:
    row = plain(run_record(any_of_two))
    assert (row["repeats_rule"], row["pass_rate"], row["exit_code"]) == ("any", 0.5, 0)
    assert (row["total"], row["passed"], row["failed"]) == (2, 1, 1)
    assert row["by_tag"]["easy"] == {name: row[name] for name in row["by_tag"]["easy"]}
    by_trial = row["by_trial"]
    assert (by_trial["total"], by_trial["passed"], by_trial["failed"]) == (4, 1, 3)


def test_every_report_lists_the_cases_that_its_numbers_count(any_of_two: RunReport) -> None:
    missed = "0 of 2 trials passed; repeat 0: g: fail; repeat 1: g: fail"
    assert [line for line in render_terminal(console.document_for(any_of_two)) if "FAIL" in line] == [
        f"FAIL      c1  {missed}"
    ]
    summaries = re.findall("<summary>(.*?)</summary>", "".join(markdown.render([any_of_two])))
    assert summaries == [f"<b>fail</b> <code>c1</code> {missed}"]
    (suite,) = ET.fromstring("".join(junit.render([any_of_two]))).iter("testsuite")
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "1")
    (failure,) = suite.iter("failure")
    assert failure.attrib["message"] == missed


def test_a_case_with_missing_trials_is_in_no_report(any_of_two: RunReport) -> None:
    first = list(any_of_two.rows())[:3]
    partial_report = replace(any_of_two, rows=lambda: iter(first))
    assert [(result.name, result.verdict) for result in case_results(partial_report)] == [
        ("c0", Verdict.PASS)
    ]


def test_a_run_that_counts_single_trials_has_no_counts_by_case() -> None:
    row = plain(run_record(make_report()))
    assert (row["repeats_rule"], row["by_trial"]) == ("each", None)


def test_the_terminal_and_markdown_tell_how_repeats_count(any_of_two: RunReport) -> None:
    lines = list(render_terminal(console.document_for(any_of_two)))
    assert SENTENCE in lines
    assert any(
        line.startswith("The gate passed: the pass rate is 50.00%, and at least 50.00% ") for line in lines
    )
    assert any(line.startswith("all                1      2   50.0%") for line in lines)
    text = "".join(markdown.render([any_of_two]))
    assert f"**{SENTENCE}**" in text
    assert "**1 of 2 passed** (50.0%" in text


def test_a_plain_run_says_nothing_of_repeats() -> None:
    assert "counts once" not in "".join(
        [*render_terminal(console.document_for(make_report())), *markdown.render([make_report()])]
    )
