"""What a trial came to in one line."""

from __future__ import annotations

from msgspec.structs import replace

from proctor.model import Case, Failure, Message, Output, Score, Trial, Verdict
from proctor.reports.runs.one_line import summarize_verdict
from proctor.reports.runs.serialize import TrialResult, seal
from support.builders import NOON

CASE = Case(id="a", input=(Message(role="user", content="?"),))


def row(*scores: Score, verdict: Verdict = Verdict.FAIL, failure: Failure | None = None) -> TrialResult:
    output = None if failure is not None else Output(text="x")
    trial = Trial(
        case_id="a", position=0, sent="", started_at=NOON, output=output, scores=scores, failure=failure
    )
    return TrialResult(trial=trial, verdict=verdict, case=CASE)


def score(grader: str, outcome: Verdict, **fields: object) -> Score:
    value = {Verdict.PASS: 1.0, Verdict.FAIL: 0.0}.get(outcome)
    return Score(**{"grader": grader, "name": grader, "outcome": outcome, "value": value, **fields})  # type: ignore[arg-type]


def test_the_gate_that_was_missed_comes_before_all_else() -> None:
    found = row(
        score("length", Verdict.FAIL, reason="too long"),
        score("contains", Verdict.FAIL, required=1.0, reason="The answer does not contain 'hola'."),
        score("other", Verdict.PASS),
    )
    said = "failed contains: The answer does not contain 'hola' (required), and 1 more"
    assert summarize_verdict(found) == said


def test_without_a_gate_the_first_that_was_missed_is_told() -> None:
    assert (
        summarize_verdict(row(score("length", Verdict.FAIL, reason="too long"))) == "failed length: too long"
    )
    unscored = row(score("rubric", Verdict.UNSCORED), verdict=Verdict.UNSCORED)
    assert summarize_verdict(unscored) == "unscored: rubric: unscored"


def test_the_answer_that_a_reason_quotes_is_left_out() -> None:
    found = row(score("contains", Verdict.FAIL, reason="The answer does not contain 'a': 'x'."))
    assert summarize_verdict(found) == "failed contains: The answer does not contain 'a'"


def test_one_below_the_threshold_without_a_missed_check_says_the_score() -> None:
    found = row(score("similarity", Verdict.PASS, value=0.6))
    assert summarize_verdict(found) == "failed: no assertion failed, but the score is 0.60"


def test_an_error_says_what_went_wrong() -> None:
    failure = Failure(stage="target", kind="timeout", message="No answer in 2 s.")
    assert (
        summarize_verdict(row(verdict=Verdict.ERROR, failure=failure)) == "error: timeout: No answer in 2 s."
    )


def test_one_that_passed_says_by_how_many_checks() -> None:
    good, bad = score("a", Verdict.PASS), score("b", Verdict.FAIL)
    assert summarize_verdict(row(good, verdict=Verdict.PASS)) == "passed: its only check, score 1.00"
    assert summarize_verdict(row(good, good, verdict=Verdict.PASS)) == "passed: all 2 checks, score 1.00"
    assert summarize_verdict(row(good, bad, verdict=Verdict.PASS)) == "passed: 1 of 2 checks, score 0.50"


def test_one_that_is_sealed_says_no_more() -> None:
    found = row(score("contains", Verdict.FAIL, name="contains-hola", reason="no 'hola'"))
    held_out = replace(found, trial=replace(found.trial, split="holdout"))
    assert summarize_verdict(seal(held_out)) == "failed; prompt, answer and reasons are hidden (holdout)"


def test_a_reason_of_many_lines_is_one_line_and_cut() -> None:
    found = summarize_verdict(row(score("a", Verdict.FAIL, reason="line\n" * 100)))
    assert "\n" not in found
    assert len(found) < 140
