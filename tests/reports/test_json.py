"""Runs to one JSON object, with and without trials, and what is said instead of runs."""

from __future__ import annotations

import json
from pathlib import Path

from proctor.codec import encode
from proctor.model import Problem
from proctor.reports.runs.json import (
    FileValidationRecord,
    ValidationRecord,
    file_issue_records,
    render,
    render_refusal,
    render_summary,
)
from proctor.reports.runs.serialize import RunReport, run_record, trial_record
from support.builders import make_report
from support.golden import assert_golden
from support.records import plain

GOLDEN = Path(__file__).parent / "golden"


def test_the_summary_is_its_golden_file(mixed_report: RunReport) -> None:
    assert_golden(GOLDEN / "summary.json", render_summary([mixed_report]))


def test_the_file_is_its_golden_file(mixed_report: RunReport) -> None:
    assert_golden(GOLDEN / "mixed.json", "".join(render([mixed_report])))


def test_the_summary_is_one_object_of_runs_and_the_worst_exit_code(mixed_report: RunReport) -> None:
    assert json.loads(render_summary([make_report(), mixed_report])) == {
        "runs": [plain(run_record(make_report())), plain(run_record(mixed_report))],
        "exit_code": 3,
    }
    assert json.loads(render_summary([])) == {"runs": [], "exit_code": 0}


def test_the_file_is_the_summary_with_the_trials_of_each_run(mixed_report: RunReport) -> None:
    runs = [mixed_report, make_report(), mixed_report]
    whole = json.loads("".join(render(runs)))
    trials = [run.pop("trials") for run in whole["runs"]]
    assert whole == json.loads(render_summary(runs))
    expected = [[plain(trial_record(run.run, row)) for row in run.rows()] for run in runs]
    assert encode(trials) == encode(expected)


def test_the_summary_ends_with_one_line_end(mixed_report: RunReport) -> None:
    assert render_summary([mixed_report]).endswith("}\n")
    assert not render_summary([mixed_report]).endswith("\n\n")


ERROR = Problem(code="c", message="Größe is wrong.", path="s.jsonl", line=3, field="id", case="a")
WARNING = Problem(level="warning", code="w", message="Odd.", path="s.jsonl")


def test_a_refusal_lists_the_errors_with_where_they_are() -> None:
    assert json.loads(render_refusal([ERROR, WARNING, Problem(code="d", message="Gone.")])) == {
        "runs": [],
        "errors": [
            {
                "path": "s.jsonl",
                "line": 3,
                "field": "id",
                "case": "a",
                "code": "c",
                "message": "Größe is wrong.",
            },
            {"path": "", "line": None, "field": None, "case": None, "code": "d", "message": "Gone."},
        ],
        "exit_code": 4,
    }


def test_a_validation_has_its_files_and_its_exit_code() -> None:
    file = FileValidationRecord(
        path="s.jsonl", dialect="pramana", cases=2, errors=file_issue_records([ERROR]), warnings=()
    )
    record = plain(ValidationRecord(files=(file,), exit_code=4))
    assert (record["files"][0]["dialect"], record["exit_code"]) == ("pramana", 4)
    assert list(record["files"][0]["errors"][0]) == ["line", "field", "case", "code", "message"]
