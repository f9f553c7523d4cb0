"""Runs to one JSON object: what `proctor run --json` prints, and with trials what `-o FILE.json` holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from proctor.errors import ExitCode
from proctor.model import Problem, Run
from proctor.reports.formatting import as_json
from proctor.reports.runs.serialize import Reported, Row, run_row, trial_row
from proctor.safe_text import json_text
from proctor.verdicts import worst


def summary(runs: Sequence[Reported]) -> str:
    """The runs with their numbers and without their trials."""
    exit_code = int(worst(report.exit_code for report in runs))
    rows = [run_row(report) for report in runs]
    return as_json({"runs": rows, "exit_code": exit_code}) + "\n"


def render(runs: Sequence[Reported]) -> Iterator[str]:
    """The same object; each run has its `trials` as well."""
    yield '{"runs": ['
    for place, report in enumerate(runs):
        yield (",\n" if place else "\n") + _dumps(run_row(report))[:-1] + ', "trials": ['
        for number, row in enumerate(report.rows()):
            yield (",\n" if number else "\n") + _dumps(trial_row(report.run, row))
        yield "]}"
    exit_code = int(worst(report.exit_code for report in runs))
    yield f'], "exit_code": {exit_code}}}\n'


def trials(run: Run, rows: Iterable[Row]) -> str:
    """Some trials of a run alone."""
    return as_json({"trials": [trial_row(run, row) for row in rows]})


def _dumps(data: object) -> str:
    return json_text(json.dumps(data, ensure_ascii=False))


def problem_row(problem: Problem) -> dict[str, Any]:
    """One problem, without its level and path."""
    return {
        "line": problem.line,
        "field": problem.field,
        "case": problem.case,
        "code": problem.code,
        "message": problem.message,
    }


def refusal(problems: Iterable[Problem]) -> str:
    """What is printed instead of runs when a suite is wrong."""
    errors = [
        {"path": problem.path, **problem_row(problem)} for problem in problems if problem.level == "error"
    ]
    return _dumps({"runs": [], "errors": errors, "exit_code": int(ExitCode.USAGE)})


def validation(files: Sequence[dict[str, Any]], exit_code: ExitCode) -> str:
    """What `proctor validate --json` prints."""
    return as_json({"files": files, "exit_code": int(exit_code)})
