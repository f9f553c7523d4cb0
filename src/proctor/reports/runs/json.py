"""Renders runs as JSON: for `proctor run --json`, and with trials for `-o FILE.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from proctor.errors import ExitCode
from proctor.model import Problem, Run
from proctor.reports.formatting import to_json
from proctor.reports.runs.serialize import RunReport, TrialResult, run_row, trial_row
from proctor.safe_text import json_text
from proctor.verdicts import worst_exit_code


def render_summary(runs: Sequence[RunReport]) -> str:
    """Returns the runs with their numbers, without trials."""
    exit_code = int(worst_exit_code(report.exit_code for report in runs))
    rows = [run_row(report) for report in runs]
    return to_json({"runs": rows, "exit_code": exit_code}) + "\n"


def render(runs: Sequence[RunReport]) -> Iterator[str]:
    """Yields the same object with the `trials` of each run."""
    yield '{"runs": ['
    for place, report in enumerate(runs):
        yield (",\n" if place else "\n") + _dumps(run_row(report))[:-1] + ', "trials": ['
        for number, row in enumerate(report.rows()):
            yield (",\n" if number else "\n") + _dumps(trial_row(report.run, row))
        yield "]}"
    exit_code = int(worst_exit_code(report.exit_code for report in runs))
    yield f'], "exit_code": {exit_code}}}\n'


def render_trials(run: Run, rows: Iterable[TrialResult]) -> str:
    """Returns some trials of a run."""
    return to_json({"trials": [trial_row(run, row) for row in rows]})


def _dumps(data: object) -> str:
    return json_text(json.dumps(data, ensure_ascii=False))


def problem_row(problem: Problem) -> dict[str, Any]:
    """Returns one problem as plain data, without its level and path."""
    return {
        "line": problem.line,
        "field": problem.field,
        "case": problem.case,
        "code": problem.code,
        "message": problem.message,
    }


def render_refusal(problems: Iterable[Problem]) -> str:
    """Returns what is printed instead of runs if a suite has errors."""
    errors = [
        {"path": problem.path, **problem_row(problem)} for problem in problems if problem.level == "error"
    ]
    return _dumps({"runs": [], "errors": errors, "exit_code": int(ExitCode.USAGE)})


def render_validation(files: Sequence[dict[str, Any]], exit_code: ExitCode) -> str:
    """Returns the output of `proctor validate --json`."""
    return to_json({"files": files, "exit_code": int(exit_code)})
