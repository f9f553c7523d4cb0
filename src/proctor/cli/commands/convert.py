"""`proctor convert`: a suite written in another dialect."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from msgspec.structs import replace

from proctor.cli.config_defaults import config_of
from proctor.cli.echo import say, say_document
from proctor.cli.options import open_store, show, store_location, store_option
from proctor.errors import ExitCode, UsageError
from proctor.model import Problem
from proctor.plurals import counted
from proctor.reports.problems import lines_of
from proctor.services.suites.convert import MAIN, Converted, converted
from proctor.services.suites.library import Suites
from proctor.services.suites.write_files import write

if TYPE_CHECKING:
    from proctor.services.suites.library import Opened


@click.command("convert")
@click.argument("suite")
@click.option("--to", metavar="DIALECT", required=True, help="The dialect that is written.")
@click.option("-o", "--output", metavar="FILE", help="A file or folder to write to, instead of stdout.")
@click.option("--lossy", is_flag=True, help="Leave out what DIALECT cannot say, and keep it as metadata.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@click.option("--dialect", metavar="D", help="The suite's dialect, instead of finding it from the content.")
@store_option
def command(
    suite: str, to: str, output: str | None, lossy: bool, force: bool, dialect: str | None, store: str | None
) -> int:
    """Write SUITE, in a file or in the store, in another dialect.

    What the dialect cannot say is an error that names case and field: exit code 4, and nothing is written.
    """
    with ExitStack() as stack:
        named = click.get_current_context().get_parameter_source("store") is ParameterSource.COMMANDLINE
        stored = named or store_location(store).exists()
        kept = stack.enter_context(open_store(store, must_exist=True)) if stored else None
        opened = stack.enter_context(Suites(kept, os.environ, config_of()).opened(suite, dialect=dialect))
        _tell(opened.problems)
        cases = (one.case for one in opened.cases())
        made = converted(opened.suite, cases, to, lossy=lossy, source=opened.source)
        _tell(replace(problem, path=suite) for problem in made.problems)
        if made.failed:
            _refuse(made, to, lossy)
            return ExitCode.USAGE
        if output is None:
            _print(made, to)
            return ExitCode.OK
        written = write(made, output, force=force)
        _tell(_moved(opened, suite, written[0].parent))
        _sum_up(written, opened.suite.case_count, to)
    return ExitCode.OK


def _tell(problems: Iterable[Problem]) -> None:
    for line in lines_of(problems):
        say(line, err=True)


def _refuse(made: Converted, to: str, lossy: bool) -> None:
    wrong = {problem.case for problem in made.problems if problem.level == "error"}
    cases = counted(len(wrong - {None}), "case")
    what = (
        cases
        if None not in wrong
        else f"the suite's own fields and {cases}"
        if wrong - {None}
        else "the suite"
    )
    hint = "" if lossy else " With --lossy it is left out, and kept in the metadata of its case."
    say(f"Nothing was written: dialect {to} cannot say everything of {what}.{hint}", err=True)


def _print(made: Converted, to: str) -> None:
    if made.files.keys() != {MAIN}:
        files = counted(len(made.files), "file")
        raise UsageError(f"As dialect {to} the suite is {files}. Name a folder for them with -o FOLDER/.")
    say_document(made.files[MAIN])


def _moved(opened: Opened, path: str, folder: Path) -> list[Problem]:
    """A warning where paths of the suite's cases begin in another folder than before."""
    before = opened.suite.folder
    if not before or Path(before).resolve() == folder.resolve():
        return []
    if not any(
        one.case.workspace is not None or any(check.grader == "program" for check in one.case.assertions)
        for one in opened.cases()
    ):
        return []
    message = (
        f"Workspaces or programs of its cases are named relative to {before!r}; from now on they are looked "
        f"for in {folder.as_posix()!r}. Write the suite into the folder where it was, or copy what it names."
    )
    return [Problem(level="warning", code="moved", message=message, path=path)]


def _sum_up(written: list[Path], cases: int, to: str) -> None:
    more = f" and {counted(len(written) - 1, 'file')} beside it" if len(written) > 1 else ""
    show([f"wrote {written[0].as_posix()}{more}: {counted(cases, 'case')} of dialect {to}"])
