"""The result of a trial in one line."""

from __future__ import annotations

from msgspec.structs import replace

from proctor.model import Case, Failure, Message, Output, Score, Trial, Verdict
from proctor.reports.runs.one_line import summarize_verdict
from proctor.reports.runs.serialize import TrialResult, seal
from support.builders import NOON

CASE = Case(id="a", input=(Message(role="user", content="?"),))


def make_row(*scores: Score, verdict: Verdict = Verdict.FAIL, failure: Failure | None = None) -> TrialResult:
    output = None if failure is not None else Output(text="x")
    trial = Trial(
        case_id="a", position=0, sent="", started_at=NOON, output=output, scores=scores, failure=failure
    )
    return TrialResult(trial=trial, verdict=verdict, case=CASE)


def make_score(grader: str, outcome: Verdict, **fields: object) -> Score:
    value = {Verdict.PASS: 1.0, Verdict.FAIL: 0.0}.get(outcome)
    return Score(**{"grader": grader, "name": grader, "outcome": outcome, "value": value, **fields})  # type: ignore[arg-type]


def test_the_failed_gate_comes_first() -> None:
    row = make_row(
        make_score("length", Verdict.FAIL, reason="too long"),
        make_score("contains", Verdict.FAIL, required=1.0, reason="The answer does not contain 'hola'."),
        make_score("other", Verdict.PASS),
    )
    expected = "failed contains: The answer does not contain 'hola' (required), and 1 more"
    assert summarize_verdict(row) == expected


def test_without_a_gate_the_first_failed_check_is_named() -> None:
    assert (
        summarize_verdict(make_row(make_score("length", Verdict.FAIL, reason="too long")))
        == "failed length: too long"
    )
    unscored = make_row(make_score("rubric", Verdict.UNSCORED), verdict=Verdict.UNSCORED)
    assert summarize_verdict(unscored) == "unscored: rubric: unscored"


def test_the_answer_that_a_reason_quotes_is_left_out() -> None:
    row = make_row(make_score("contains", Verdict.FAIL, reason="The answer does not contain 'a': 'x'."))
    assert summarize_verdict(row) == "failed contains: The answer does not contain 'a'"


def test_a_trial_below_the_threshold_without_a_missed_check_says_the_score() -> None:
    row = make_row(make_score("similarity", Verdict.PASS, value=0.6))
    assert summarize_verdict(row) == "failed: no assertion failed, but the score is 0.60"


def test_an_error_says_what_went_wrong() -> None:
    failure = Failure(stage="target", kind="timeout", message="No answer in 2 s.")
    assert (
        summarize_verdict(make_row(verdict=Verdict.ERROR, failure=failure))
        == "error: timeout: No answer in 2 s."
    )


def test_a_passed_trial_says_how_many_checks_passed() -> None:
    good, bad = make_score("a", Verdict.PASS), make_score("b", Verdict.FAIL)
    assert summarize_verdict(make_row(good, verdict=Verdict.PASS)) == "passed: its only check, score 1.00"
    assert summarize_verdict(make_row(good, good, verdict=Verdict.PASS)) == "passed: all 2 checks, score 1.00"
    assert summarize_verdict(make_row(good, bad, verdict=Verdict.PASS)) == "passed: 1 of 2 checks, score 0.50"


def test_a_sealed_trial_says_only_its_verdict() -> None:
    row = make_row(make_score("contains", Verdict.FAIL, name="contains-hola", reason="no 'hola'"))
    held_out = replace(row, trial=replace(row.trial, split="holdout"))
    assert summarize_verdict(seal(held_out)) == "failed; prompt, answer and reasons are hidden (holdout)"


def test_a_reason_of_many_lines_is_one_line_and_cut() -> None:
    line = summarize_verdict(make_row(make_score("a", Verdict.FAIL, reason="line\n" * 100)))
    assert "\n" not in line
    assert len(line) < 140
