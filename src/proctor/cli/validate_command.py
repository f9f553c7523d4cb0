"""`proctor validate`: every error and warning of suites, and nothing asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from proctor.cli.options import show
from proctor.cli.saying import say, say_json
from proctor.errors import ExitCode, SuiteError
from proctor.model import Problem
from proctor.reports import json
from proctor.reports.problems import lines_of
from proctor.session.finding import find
from proctor.session.loading import Loaded, load


class _Checked(Struct, frozen=True):
    path: str
    loaded: Loaded | None
    problems: tuple[Problem, ...]

    def of_level(self, level: str) -> list[Problem]:
        return [problem for problem in self.problems if problem.level == level]


@click.command("validate")
@click.argument("suite", nargs=-1, required=True)
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--dialect", metavar="D", help="The suites' dialect, instead of finding it from the content.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on stdout.")
def command(suite: tuple[str, ...], strict: bool, dialect: str | None, as_json: bool) -> int:
    """Find every error and warning in each SUITE, with file and line.

    Exit code 0 when all suites can be run, 4 when one cannot (with --strict: or has a warning).
    """
    checked = [_check(path, dialect) for word in suite for path in find(word)]
    wrong = any(one.of_level("error") or (strict and one.problems) for one in checked)
    code = ExitCode.USAGE if wrong else ExitCode.OK
    if as_json:
        say_json(json.validation([_row(one) for one in checked], code))
        return code
    for one in checked:
        for line in lines_of(one.problems):
            say(line, err=True)
    show(_line(one) for one in checked)
    return code


def _check(path: Path, dialect: str | None) -> _Checked:
    try:
        loaded = load(path, dialect=dialect)
    except SuiteError as error:
        return _Checked(str(path), None, error.problems)
    return _Checked(str(path), loaded, loaded.problems)


def _row(one: _Checked) -> dict[str, Any]:
    suite = one.loaded.suite if one.loaded else None
    return {
        "path": one.path,
        "dialect": suite.dialect if suite else None,
        "cases": suite.case_count if suite else 0,
        "errors": [json.problem_row(problem) for problem in one.of_level("error")],
        "warnings": [json.problem_row(problem) for problem in one.of_level("warning")],
    }


def _line(one: _Checked) -> str:
    errors, warnings = len(one.of_level("error")), len(one.of_level("warning"))
    counts = f"{_number(errors, 'error')}, {_number(warnings, 'warning')}"
    if one.loaded is None:
        return f"{one.path}: {counts}"
    suite = one.loaded.suite
    return f"{one.path}: {_number(suite.case_count, 'case')} of dialect {suite.dialect}, {counts}"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
