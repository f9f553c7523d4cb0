"""`proctor validate`: prints every error and warning of suites; no request is sent."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

from proctor.cli.config_defaults import ConfigDefaultsCommand, load_cli_config
from proctor.cli.echo import echo, echo_json
from proctor.cli.options import print_located, print_problems, saved_suite_names, show
from proctor.errors import ExitCode
from proctor.lint.linter import check_codes
from proctor.plurals import pluralize
from proctor.reports.formatting import to_json
from proctor.reports.runs.json import FileValidationRecord, ValidationRecord, file_issue_records
from proctor.services.progress import Progress
from proctor.services.suites.suite_argument import SuiteLocator
from proctor.services.suites.validate import ValidationResult, find_text_files, validate_suite


class _CommandWithFileList(ConfigDefaultsCommand):
    """A command whose `--against` takes all words up to the next flag, as a shell expands a glob."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses arguments, with the flag repeated before each of its files."""
        return super().parse_args(ctx, _repeat_flag(args, "--against"))


def _repeat_flag(args: list[str], flag: str) -> list[str]:
    words: list[str] = []
    is_file_list = False
    for index, word in enumerate(args):
        if word == "--":
            return words + args[index:]
        if is_file_list and not word.startswith("-"):
            if words[-1] != flag:
                words.append(flag)
        else:
            is_file_list = word == flag or word.startswith(f"{flag}=")
        words.append(word)
    return words


@click.command("validate", cls=_CommandWithFileList)
@click.argument("suite", nargs=-1)
@click.option(
    "--strict",
    is_flag=True,
    help="Treat warnings, and files in a folder that no suite format recognises, as errors.",
)
@click.option(
    "--ignore", "ignored", multiple=True, metavar="CODE", help="Silence this lint rule. May be repeated."
)
@click.option(
    "--against",
    multiple=True,
    metavar="FILE…",
    help="Search these files and folders for the cases of the suite, to find contamination. Takes all "
    "words up to the next flag.",
)
@click.option("--dialect", metavar="D", help="The suites' format (default: detected from the content).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, and nothing else.")
def command(
    suite: tuple[str, ...],
    strict: bool,
    ignored: tuple[str, ...],
    against: tuple[str, ...],
    dialect: str | None,
    as_json: bool,
) -> int:
    """Report every error and warning in each SUITE, with file and line.

    Without SUITE, check the suites that proctor.toml names. No request is sent. Exit codes: 0 if all suites
    can be run, 4 if one cannot. With --strict, also 4 for warnings and for files in a folder that are not
    suites.
    """
    check_codes(ignored)
    others = find_text_files(against)
    config = load_cli_config()
    if not suite:
        raise config.missing_suite("proctor validate suite.jsonl")
    if "cluster" in config.flags:  # every run then says which cases are related
        ignored = (*ignored, "related-cases")
    locator = SuiteLocator(
        saved_names=saved_suite_names(None), environ=os.environ, config=config, dialect=dialect, strict=strict
    )
    words = [locator.find(word) for word in suite]
    for located in words:
        print_located(located)
    paths = dict.fromkeys(path for located in words for path in located.paths)
    progress = Progress(quiet=False, write_line=echo)
    results = [
        validate_suite(
            path,
            dialect=dialect,
            ignored=ignored,
            against=others,
            options=config.source_options(path),
            listen=progress,
        )
        for path in paths
    ]
    unrecognised = dict.fromkeys(problem for located in words for problem in located.problems)
    results += [ValidationResult(problem.path, None, (problem,)) for problem in unrecognised]
    wrong = any(result.problems_of_level("error") or (strict and result.problems) for result in results)
    code = ExitCode.USAGE if wrong else ExitCode.OK
    if as_json:
        files = tuple([_record(result) for result in results])
        echo_json(to_json(ValidationRecord(files=files, exit_code=int(code))))
        return code
    for result in results:
        print_problems(result.problems)
    has_prompt = "prompt" in config.flags
    show(line for result in results for line in _lines(result, has_prompt=has_prompt))
    return code


def _record(result: ValidationResult) -> FileValidationRecord:
    suite = result.loaded_suite.suite if result.loaded_suite else None
    return FileValidationRecord(
        path=result.path,
        dialect=suite.dialect if suite else None,
        cases=suite.case_count if suite else 0,
        errors=file_issue_records(result.problems_of_level("error")),
        warnings=file_issue_records(result.problems_of_level("warning")),
    )


def _lines(result: ValidationResult, *, has_prompt: bool) -> Iterator[str]:
    """Yields the result of one file, and what its cases need to be run if no prompt is set."""
    yield _line(result)
    if not has_prompt and not result.problems_of_level("error"):
        for sentence in result.missing_inputs:
            yield f"{result.path}: note for `proctor run`: {sentence}"


def _line(result: ValidationResult) -> str:
    errors, warnings = len(result.problems_of_level("error")), len(result.problems_of_level("warning"))
    counts = f"{pluralize(errors, 'error')}, {pluralize(warnings, 'warning')}"
    if result.loaded_suite is None:
        return f"{result.path}: {counts}"
    suite = result.loaded_suite.suite
    return f"{result.path}: {pluralize(suite.case_count, 'case')} in format {suite.dialect}, {counts}"
