"""Renders runs as JSON: for `proctor run --json`, and with trials for `-o FILE.json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from msgspec import UNSET, Struct, convert
from msgspec.structs import replace

from proctor.errors import ExitCode
from proctor.model import Problem, Run
from proctor.reports.formatting import to_json, to_json_line
from proctor.reports.record_fields import about
from proctor.reports.runs.serialize import RunReport, TrialResult, run_record, trial_record
from proctor.run_gate import worst_exit_code


class FileIssueRecord(Struct, frozen=True, kw_only=True):
    """An error or a warning, with its place."""

    line: Annotated[int | None, about("The line in it.", 3)] = None
    field: Annotated[str | None, about("The path of the field.", "expected")] = None
    case: Annotated[str | None, about("The id of the case.", "t1")] = None
    code: Annotated[str, about("A short stable name.", "leak")]
    message: Annotated[str, about("A full sentence that says what to do.")]


class IssueRecord(Struct, frozen=True, kw_only=True):
    """An error or a warning with its place; unknown parts are null."""

    path: Annotated[str | None, about("The file, as it was named.", "my_suite.jsonl")] = None
    line: Annotated[int | None, about("The line in it.", 3)] = None
    field: Annotated[str | None, about("The path of the field.", "expected")] = None
    case: Annotated[str | None, about("The id of the case.", "t1")] = None
    code: Annotated[str, about("A short stable name.", "unknown-field")]
    message: Annotated[str, about("A full sentence that says what to do.")]


class FileValidationRecord(Struct, frozen=True, kw_only=True):
    """The errors and warnings of one suite."""

    path: str
    dialect: Annotated[str | None, about("Null if it cannot be detected.")]
    cases: int
    errors: Annotated[tuple[FileIssueRecord, ...], about("Problems that prevent saving it.")]
    warnings: Annotated[tuple[FileIssueRecord, ...], about("Problems that do not prevent saving it.")]


class ValidationRecord(Struct, frozen=True, kw_only=True):
    """A validation, as printed by `proctor validate --json`."""

    files: tuple[FileValidationRecord, ...]
    exit_code: Annotated[int, about("0 if it can be saved, else 4.")]


def render_merged(runs: Sequence[tuple[RunReport, Sequence[str]]]) -> str:
    """Returns merged runs as `render_summary` does, each with the sentences on its merge in `notes`."""
    exit_code = int(worst_exit_code(report.exit_code for report, _ in runs))
    records = [replace(run_record(report), notes=tuple(notes) or UNSET) for report, notes in runs]
    return to_json({"runs": records, "exit_code": exit_code}) + "\n"


def render_summary(runs: Sequence[RunReport]) -> str:
    """Returns the runs with their numbers, without trials."""
    exit_code = int(worst_exit_code(report.exit_code for report in runs))
    return to_json({"runs": [run_record(report) for report in runs], "exit_code": exit_code}) + "\n"


def render(runs: Sequence[RunReport]) -> Iterator[str]:
    """Yields the same object with the `trials` of each run."""
    yield '{"runs": ['
    for place, report in enumerate(runs):
        yield (",\n" if place else "\n") + to_json_line(run_record(report))[:-1] + ', "trials": ['
        for number, row in enumerate(report.rows()):
            yield (",\n" if number else "\n") + to_json_line(trial_record(report.run, row))
        yield "]}"
    exit_code = int(worst_exit_code(report.exit_code for report in runs))
    yield f'], "exit_code": {exit_code}}}\n'


def render_trials(run: Run, rows: Iterable[TrialResult]) -> str:
    """Returns some trials of a run."""
    return to_json({"trials": [trial_record(run, row) for row in rows]})


def file_issue_records(problems: Iterable[Problem]) -> tuple[FileIssueRecord, ...]:
    """Returns problems as records, without their levels and paths."""
    return convert(tuple(problems), tuple[FileIssueRecord, ...], from_attributes=True)


def issue_records(problems: Iterable[Problem], level: str = "error") -> tuple[IssueRecord, ...]:
    """Returns the problems of one level as records, with their paths."""
    matching = [problem for problem in problems if problem.level == level]
    return convert(matching, tuple[IssueRecord, ...], from_attributes=True)


def render_refusal(problems: Iterable[Problem]) -> str:
    """Returns what is printed instead of runs if a suite has errors."""
    return to_json_line({"runs": [], "errors": issue_records(problems), "exit_code": int(ExitCode.USAGE)})
