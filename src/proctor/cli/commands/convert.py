"""`proctor convert`: writes a suite in another format."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from msgspec.structs import replace

from proctor.cli.config_defaults import load_cli_config
from proctor.cli.echo import echo, echo_document
from proctor.cli.options import open_store, print_problems, show, store_location, store_option
from proctor.errors import ExitCode, UsageError
from proctor.model import Problem
from proctor.plurals import pluralize
from proctor.services.suites.convert import MAIN_FILE, ConvertedSuite, convert_suite
from proctor.services.suites.save_and_open import Suites
from proctor.services.suites.write_files import write_suite_files

if TYPE_CHECKING:
    from proctor.services.suites.save_and_open import OpenedSuite


@click.command("convert")
@click.argument("suite")
@click.option("--to", metavar="DIALECT", required=True, help="The format to write.")
@click.option("-o", "--output", metavar="FILE", help="A file or folder to write to, instead of stdout.")
@click.option(
    "--lossy",
    is_flag=True,
    help="Leave out what DIALECT cannot express, and keep it as metadata of the case.",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option("--dialect", metavar="D", help="The suite's format (default: detected from the content).")
@store_option
def command(
    suite: str, to: str, output: str | None, lossy: bool, force: bool, dialect: str | None, store: str | None
) -> int:
    """Convert SUITE, a file or a suite in the store, to another format.

    If the format cannot express something, an error names the case and the field, nothing is written, and the
    exit code is 4.
    """
    with ExitStack() as stack:
        is_named = click.get_current_context().get_parameter_source("store") is ParameterSource.COMMANDLINE
        has_store = is_named or store_location(store).exists()
        opened_store = stack.enter_context(open_store(store, must_exist=True)) if has_store else None
        source = stack.enter_context(
            Suites(opened_store, os.environ, load_cli_config()).open_suite(suite, dialect=dialect)
        )
        print_problems(source.problems)
        cases = (stored_case.case for stored_case in source.cases())
        result = convert_suite(source.suite, cases, to, lossy=lossy, source=source.source)
        print_problems(replace(problem, path=suite) for problem in result.problems)
        if result.has_errors:
            _refuse(result, to, lossy)
            return ExitCode.USAGE
        if output is None:
            if result.files.keys() != {MAIN_FILE}:
                count = pluralize(len(result.files), "file")
                raise UsageError(
                    f"In format {to} the suite consists of {count}. Name a folder for them with -o FOLDER/."
                )
            echo_document(result.files[MAIN_FILE])
            return ExitCode.OK
        paths = write_suite_files(result, output, force=force)
        print_problems(_moved_warning(source, suite, paths[0].parent))
        more = f" and {pluralize(len(paths) - 1, 'more file')}" if len(paths) > 1 else ""
        count = pluralize(source.suite.case_count, "case")
        show([f"Wrote {paths[0].as_posix()}{more}: {count} in format {to}"])
    return ExitCode.OK


def _refuse(result: ConvertedSuite, to: str, lossy: bool) -> None:
    wrong = {problem.case for problem in result.problems if problem.level == "error"}
    cases = pluralize(len(wrong - {None}), "case")
    what = (
        cases
        if None not in wrong
        else f"the suite's own fields and {cases}"
        if wrong - {None}
        else "the suite"
    )
    hint = "" if lossy else " With --lossy, it is moved to the metadata of its case."
    echo(f"Nothing was written: format {to} cannot express everything in {what}.{hint}", err=True)


def _moved_warning(source: OpenedSuite, path: str, folder: Path) -> list[Problem]:
    """Returns a warning if relative paths of the cases now start in another folder."""
    before = source.suite.folder
    if not before or Path(before).resolve() == folder.resolve():
        return []
    if not any(
        stored_case.case.workspace is not None
        or any(assertion.grader == "program" for assertion in stored_case.case.assertions)
        for stored_case in source.cases()
    ):
        return []
    message = (
        f"The cases name workspaces or programs by paths relative to {before!r}. In the new file, "
        f"these paths are relative to {folder.as_posix()!r}. Write the suite to its original folder, "
        "or copy the workspaces and programs."
    )
    return [Problem(level="warning", code="moved", message=message, path=path)]
