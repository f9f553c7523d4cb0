"""The fields that every report shares; scripts are written against their names."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.model import Attachment, Case, Message, Output, Score, Settings, ToolCall, Usage, Verdict
from proctor.reports.runs.serialize import (
    RunReport,
    failure_reason,
    question_text,
    run_record,
    trial_record,
)
from support.builders import make_case, make_report, make_score, make_trial
from support.records import plain

RUN_FIELDS = [
    "run",
    "group",
    "suite",
    "suite_version",
    "declared_version",
    "suite_digest",
    "suite_hash",
    "dialect",
    "target",
    "judges",
    "status",
    "total",
    "passed",
    "failed",
    "errors",
    "unscored",
    "cases",
    "pass_rate",
    "ci95",
    "mean_score",
    "splits",
    "split_notes",
    "looks",
    "by_category",
    "by_tag",
    "asked",
    "graded",
    "reused",
    "latency_ms",
    "usage",
    "cost_usd",
    "warnings",
    "exit_code",
]
EXTRA_RUN_FIELDS = [
    "bounds",
    "cached",
    "judge",
    "repeats_rule",
    "by_trial",
    "planned",
    "prompt",
    "refused_params",
    "prices_date",
    "tags",
    "started_at",
    "finished_at",
]
COUNT_FIELDS = ["total", "passed", "failed", "errors", "unscored", "cases", "pass_rate", "ci95", "bounds"]
TRIAL_FIELDS = [
    "run",
    "case_id",
    "target",
    "repeat",
    "verdict",
    "score",
    "scores",
    "output",
    "failure",
    "latency_ms",
    "usage",
    "cost_usd",
    "tags",
    "category",
    "split",
    "sealed",
    "started_at",
]
EXTRA_TRIAL_FIELDS = ["failed_gates", "prompt", "source_run", "suite", "suite_version"]
SCORE_FIELDS = ["grader", "name", "value", "outcome", "weight", "required", "reason", "entries", "judgments"]
EXTRA_SCORE_FIELDS = ["details", "on"]
ENTRY_FIELDS = ["text", "passed", "evidence"]


def make_trial_records(report: RunReport) -> list[dict[str, Any]]:
    return [plain(trial_record(report.run, row)) for row in report.rows()]


def test_a_run_has_the_promised_fields(mixed_report: RunReport) -> None:
    row = plain(run_record(mixed_report))
    assert sorted(row) == sorted([*RUN_FIELDS, *EXTRA_RUN_FIELDS, "params"])
    assert sorted(row["latency_ms"]) == ["answers", "left_out", "mean", "p50", "p95"]
    assert sorted(row["usage"]) == sorted(Usage.__struct_fields__)
    assert sorted(row["judge"]) == [
        *("cached", "calibrations", "calls", "cost_usd", "input_tokens", "output_tokens"),
    ]


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ("splits", ["dev", "holdout"]),
        ("by_category", ["math", "words"]),
        ("by_tag", ["@tag", "easy", "short", "| pipe |"]),
    ],
)
def test_every_part_of_a_run_has_the_same_shape(
    mixed_report: RunReport, groups: str, names: list[str]
) -> None:
    parts = plain(run_record(mixed_report))[groups]
    assert list(parts) == names
    assert {tuple(part) for part in parts.values()} == {tuple(COUNT_FIELDS)}


def test_a_runs_numbers_are_those_of_its_trials(mixed_report: RunReport) -> None:
    row = plain(run_record(mixed_report))
    assert [row[name] for name in COUNT_FIELDS[:5]] == [7, 2, 3, 1, 1]
    assert row["pass_rate"] == 0.375  # of four cases, one of which passed once of two times
    assert row["ci95"] == [0.092, 0.781]
    assert row["splits"]["holdout"] == {
        "total": 2,
        "passed": 0,
        "failed": 0,
        "errors": 1,
        "unscored": 1,
        "cases": 0,
        "pass_rate": None,
        "ci95": None,
        "bounds": [0.0, 1.0],
    }
    assert (row["asked"], row["graded"], row["reused"], row["exit_code"]) == (6, 6, 1, 3)
    assert row["judges"] == ["j-1", "j-2"]
    tokens = {"input_tokens": 5, "output_tokens": 1}
    calibrations = row["judge"].pop("calibrations")
    assert row["judge"] == {"calls": 2, "cached": 0, **tokens, "cost_usd": 0.003}
    assert [(calibration["judge"], calibration["calibration"]) for calibration in calibrations] == [
        ("j-1", None),
        ("j-2", None),
    ]
    assert (row["cost_usd"], row["cached"]) == (0.00012, 0)
    assert (row["started_at"], row["finished_at"]) == ("2026-03-01T12:00:00Z", "2026-03-01T12:00:02.500000Z")


def test_a_run_of_nothing_has_every_field_and_no_rate() -> None:
    row = plain(run_record(make_report(finished_at=None)))
    assert sorted(row) == sorted(RUN_FIELDS + EXTRA_RUN_FIELDS)
    absent = ("pass_rate", "ci95", "bounds", "mean_score", "cost_usd", "suite_hash", "finished_at")
    assert {name: row[name] for name in absent} == dict.fromkeys(absent)
    assert row["splits"] == row["by_category"] == row["by_tag"] == {}


def test_every_trial_has_the_promised_fields(mixed_report: RunReport) -> None:
    for row in make_trial_records(mixed_report):
        assert sorted(row) == sorted(TRIAL_FIELDS + EXTRA_TRIAL_FIELDS)
        for score in row["scores"]:
            assert sorted(score) == sorted(SCORE_FIELDS + EXTRA_SCORE_FIELDS)
            for entry in score["entries"]:
                assert list(entry) == ENTRY_FIELDS


def test_verdicts_and_outcomes_are_lower_case(mixed_report: RunReport) -> None:
    rows = make_trial_records(mixed_report)
    assert [row["verdict"] for row in rows] == ["pass", "fail", "fail", "error", "fail", "unscored", "pass"]
    assert {score["outcome"] for row in rows for score in row["scores"]} == {"pass", "fail", "unscored"}


def test_a_trial_that_failed_has_its_failure_and_nothing_that_an_output_has(mixed_report: RunReport) -> None:
    row = next(row for row in make_trial_records(mixed_report) if row["verdict"] == "error")
    assert row["failure"] == {"stage": "target", "kind": "timeout", "message": "Nothing came\nwithin 2 s."}
    absent = ("output", "latency_ms", "usage", "cost_usd", "score", "source_run")
    assert {name: row[name] for name in absent} == dict.fromkeys(absent)


NO_FURTHER_TOKENS = {"cache_write_tokens": 0, "reasoning_tokens": 0}


def test_an_answer_has_all_that_came_with_it(mixed_report: RunReport) -> None:
    row = make_trial_records(mixed_report)[0]
    assert row["output"]["text"] == "4"
    assert row["output"]["finish_reason"] == "stop"
    assert row["usage"] == {"input_tokens": 11, "output_tokens": 1, "cached_tokens": 8} | NO_FURTHER_TOKENS
    assert (row["latency_ms"], row["cost_usd"], row["score"]) == (120.0, 0.00012, 1.0)
    assert (row["tags"], row["category"], row["split"], row["sealed"]) == (
        ["easy", "short"],
        "math",
        "dev",
        False,
    )


def test_a_usage_has_its_tokens_also_when_they_are_0() -> None:
    run = make_report((make_trial("x", output=Output(text="", usage=Usage(input_tokens=3))), make_case()))
    (row,) = make_trial_records(run)
    assert row["usage"] == {"input_tokens": 3, "output_tokens": 0, "cached_tokens": 0} | NO_FURTHER_TOKENS


def test_a_score_at_its_defaults_has_every_field() -> None:
    score = Score(grader="exact", name="e", value=1.0, outcome=Verdict.PASS)
    (row,) = make_trial_records(make_report((make_trial("x", score), make_case())))
    assert row["scores"][0] == {
        "grader": "exact",
        "name": "e",
        "value": 1.0,
        "outcome": "pass",
        "weight": 1.0,
        "required": None,
        "reason": "",
        "entries": [],
        "judgments": [],
        "details": {},
        "on": "answer",
    }


@pytest.mark.parametrize(
    ("turns", "question"),
    [
        ([("user", "2 + 2?")], "2 + 2?"),
        ([("system", "Be brief.")], "system: Be brief."),
        ([("system", "Be brief."), ("user", "2 + 2?")], "system: Be brief.\nuser: 2 + 2?"),
    ],
)
def test_a_question_has_roles_only_where_there_is_more_than_the_user(
    turns: list[tuple[str, str]], question: str
) -> None:
    messages = tuple(Message(role=role, content=content) for role, content in turns)
    assert question_text(Case(id="c", input=messages)) == question


def test_a_question_names_what_is_attached_and_which_tools_are_called() -> None:
    files = (Attachment(kind="file", path="docs/a.md"), "Read it.", Attachment(kind="image", path="b.png"))
    question = Message(role="user", content="Read it.", parts=files)
    answer = Message(role="assistant", tool_calls=(ToolCall(name="look"), ToolCall(name="sum")))
    assert question_text(Case(id="c", input=(question,))) == "[file docs/a.md]\n\nRead it.\n\n[image b.png]"
    parts = ("Look at ", Attachment(kind="image", path="b.png"), ", please.")
    inline = Message(role="user", content="Look at , please.", parts=parts, inline=True)
    assert question_text(Case(id="c", input=(inline,))) == "Look at [image b.png], please."
    assert question_text(Case(id="c", input=(answer,))) == "assistant: [calls look] [calls sum]"


def test_why_a_trial_did_not_pass_is_its_failure_or_the_reasons_of_its_scores() -> None:
    assert failure_reason(make_trial(None)) == "timeout: Too late."
    missed = make_score(0.0, name="short", reason="12 words\nof 5")
    assert (
        failure_reason(make_trial("x", make_score(1.0), missed, make_score(None, name="kind")))
        == "short: 12 words of 5; kind: unscored"
    )


def test_a_gate_that_was_not_reached_is_named_first_with_the_score_that_is_kept() -> None:
    gated = make_score(0.5, name="safe", reason="two of four", required=0.8)
    trial = make_trial("x", make_score(1.0, weight=9.0), make_score(0.0, name="short"), gated)
    required = "required check failed: safe (0.50, at least 0.8 required)"
    assert failure_reason(trial) == f"{required}; score 0.86; short: fail; safe: two of four"
    alone = make_trial("x", make_score(0.0, name="only", weight=0.0, required=0.8))
    assert failure_reason(alone) == "required check failed: only (0.00, at least 0.8 required); only: fail"


@pytest.mark.parametrize("odd", ["\r", "\x0b", "\x0c", "\x85", "\u2028", "\x1b[2J", "\x00"])
def test_why_is_one_line_without_control_characters(odd: str) -> None:
    text = failure_reason(make_trial("x", make_score(0.0, reason=f"one{odd}two")))
    assert len(text.splitlines()) == 1
    assert text.isprintable()


@pytest.mark.parametrize(
    ("fields", "threshold"),
    [({"value": 0.6}, 0.8), ({"value": 0.6, "required": 0.7}, None), ({"value": 0.6, "weight": 0.0}, None)],
    ids=["below the threshold", "below its gate", "nothing counts"],
)
def test_a_trial_that_did_not_pass_always_has_a_reason(
    fields: dict[str, float], threshold: float | None
) -> None:
    close = Score(grader="near", name="near", outcome=Verdict.PASS, **fields)  # type: ignore[arg-type]
    run = make_report((make_trial("x", close), make_case()), settings=Settings(threshold=threshold))
    assert [bool(failure_reason(row.trial)) for row in run.rows() if row.verdict is not Verdict.PASS] == [
        True
    ]
