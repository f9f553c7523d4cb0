"""`proctor suites`: saves, lists, shows, compares, exports and deletes suites and their versions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain

import click

from proctor.cli.config_defaults import load_cli_config
from proctor.cli.echo import echo, echo_json
from proctor.cli.options import (
    confirm_deletion,
    open_store,
    print_located,
    print_problems,
    show,
    store_location,
    store_option,
)
from proctor.errors import ExitCode, SuiteError, UsageError
from proctor.model import Case, Problem
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.reports import suites as reports
from proctor.reports.document import render_terminal
from proctor.reports.formatting import to_json
from proctor.reports.suites import VersionEntry
from proctor.safe_text import one_line
from proctor.services.suites.overview import check_without_runs, describe_version, list_saved_versions
from proctor.services.suites.save_and_open import OpenedSuite, Suites, get_stored_suite, no_such_suite
from proctor.services.suites.saved_names import split_version
from proctor.suite_diff import diff_suites

_STATES = {
    "new": "",
    "same": ", unchanged",
    "renewed": ", unchanged except for tags, metadata, order, holdout or prompts",
    "earlier": ", the same as this earlier version",
}


@click.group("suites")
def command() -> None:
    """Save, list, show, compare, export and delete suites.

    NAME is a saved suite, in its current version. NAME@v2 or NAME@sha256:… (at least 6 digits) is a certain
    version of it.
    """


@command.command("save")
@click.argument("suite", nargs=-1, required=True)
@click.option(
    "--name", metavar="NAME", help="Name of the suite in the store.  [default: the name that its file gives]"
)
@click.option("--dialect", metavar="D", help="The suites' format (default: detected from the content).")
@store_option
def save(suite: tuple[str, ...], name: str | None, dialect: str | None, store: str | None) -> None:
    """Save each SUITE in the store. `proctor run` does this too.

    A new name starts with v1. If the cases differ from all saved versions of the name, they become its next
    version. If they are the same as in an earlier version, that version becomes the current one.
    """
    if name is not None and len(suite) > 1:
        raise UsageError("--name applies to a single suite. Save the suites one by one, or remove --name.")
    problems: list[Problem] = []
    with open_store(store, writes=True) as suite_store:
        suites = Suites(suite_store, os.environ, load_cli_config(), print_located)
        for word in suite:
            try:
                for saved in suites.save(word, dialect=dialect, name=name):
                    print_problems(saved.problems)
                    title = f"{one_line(saved.suite.name)} {saved.suite.version}{_STATES[saved.state]}"
                    cases = pluralize(saved.suite.case_count, "case")
                    show([f"{title}: {cases} from {saved.path}"])
            except SuiteError as error:
                problems.extend(error.problems)
    if problems:
        raise SuiteError(problems)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all versions.")
@store_option
def list_suites(as_json: bool, store: str | None) -> None:
    """List the saved suites."""
    with open_store(store, must_exist=True) as suite_store:
        rows = list_saved_versions(suite_store)
        if as_json:
            echo_json(to_json(reports.list_record(rows)))
        else:
            show(render_terminal(reports.list_blocks(rows)))


@command.command("versions")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def list_versions(name: str, as_json: bool, store: str | None) -> None:
    """List the versions of the suite NAME, oldest first."""
    with open_store(store, must_exist=True) as suite_store:
        rows = list_saved_versions(suite_store, name)
        if not rows:
            raise no_such_suite(suite_store, name)
        if as_json:
            echo_json(to_json(reports.history_record(rows)))
        else:
            show(render_terminal([reports.history_table(rows)]))


@command.command("show")
@click.argument("name", metavar="NAME[@v2]")
@click.option("--cases", is_flag=True, help="Also list the cases, one per line.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def show_suite(name: str, cases: bool, as_json: bool, store: str | None) -> None:
    """Show the cases, split and runs of a version.

    The output counts cases by category and tag, and shows the holdout accesses.
    """
    with open_store(store, must_exist=True) as suite_store:
        detail = describe_version(suite_store, get_stored_suite(suite_store, name))
        cases_of_version = suite_store.cases(detail.saved.suite.content) if cases else None
        if as_json:
            echo_json(to_json(reports.detail_record(detail, cases_of_version)))
        else:
            show(chain(reports.render_detail(detail), reports.case_lines(detail, cases_of_version or ())))


@command.command("diff")
@click.argument("suites", nargs=-1, required=True, metavar="OLD NEW | NAME [v1 [v2]]")
@click.option("--exit-code", is_flag=True, help="Exit 1 if the suites differ, else 0.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with complete values.")
@store_option
def compare(suites: tuple[str, ...], exit_code: bool, as_json: bool, store: str | None) -> int:
    """Show what changed from suite OLD to suite NEW.

    Both can be files or suites in the store. `NAME` compares the previous version with the current one, `NAME
    v1` compares v1 with the current one, and `NAME v1 v2` compares v1 with v2. The output lists the cases
    that were added, removed, renamed or changed, field by field.
    """
    if len(suites) > 3:
        raise UsageError("Give two suites, or one suite and up to two of its versions.")
    is_there = store_location(store).exists()
    if not is_there and len(suites) != 2:
        raise UsageError(
            f"There is no store at {store_location(store).address}, so there are no versions to compare."
        )
    if not is_there:
        library = Suites(None, os.environ, load_cli_config(), print_located)
        return _compare(library, suites, as_json=as_json, use_exit_code=exit_code)
    with open_store(store) as suite_store:
        library = Suites(suite_store, os.environ, load_cli_config(), print_located)
        return _compare(library, _parse_pair(suite_store, suites), as_json=as_json, use_exit_code=exit_code)


def _parse_pair(store: Store, words: tuple[str, ...]) -> tuple[str, str]:
    """Returns the two suites that the arguments name."""
    name, *versions_named = words
    if len(versions_named) == 1 and not _is_version(versions_named[0]):
        return name, versions_named[0]
    versions = store.versions(name)
    if not versions:
        raise no_such_suite(store, name)
    for word in versions_named:
        if not _is_version(word):
            raise UsageError(f"{word!r} is not a version. To compare two versions, write `NAME v1 v2`.")
    if versions_named:
        current = next(version.suite.version for version in versions if version.current)
        return (
            f"{name}@{versions_named[0]}",
            f"{name}@{versions_named[1] if len(versions_named) == 2 else current}",
        )
    if len(versions) == 1:
        raise UsageError(f"The suite {name!r} has only one version, {versions[0].suite.version}.")
    *_, before, now = sorted(versions, key=lambda version: (version.current, version.saved_at))
    return f"{name}@{before.suite.version}", f"{name}@{now.suite.version}"


def _is_version(word: str) -> bool:
    return split_version(f"suite@{word}") == ("suite", word)


def _compare(suites: Suites, words: tuple[str, ...], *, as_json: bool, use_exit_code: bool) -> ExitCode:
    """Prints how two suites differ; with `use_exit_code` the exit code is 1 if they do."""
    with suites.open_suite(words[0]) as old, suites.open_suite(words[1]) as new:
        print_problems((*old.problems, *new.problems))
        difference = diff_suites(old.suite, _cases(old), new.suite, _cases(new))
        code = ExitCode.OK if difference.is_empty or not use_exit_code else ExitCode.FAILED
        if as_json:
            echo_json(to_json(reports.diff_record(old.suite, new.suite, difference, int(code))))
        else:
            show(reports.render_diff(_display_name(old, words[0]), _display_name(new, words[1]), difference))
    return code


def _display_name(opened_suite: OpenedSuite, word: str) -> str:
    """Returns how to call a suite: a stored version by its name, a file as the user gave it."""
    return (
        word if opened_suite.source is not None else f"{opened_suite.suite.name} {opened_suite.suite.version}"
    )


def _cases(opened_suite: OpenedSuite) -> Iterator[Case]:
    return (stored_case.case for stored_case in opened_suite.cases())


@command.command("export")
@click.argument("name", metavar="NAME[@v2]")
@click.option("--to", metavar="DIALECT", default="proctor", show_default=True, help="The format to write.")
@click.option("-o", "--output", metavar="FILE", help="A file or folder to write to, instead of stdout.")
@click.option(
    "--lossy",
    is_flag=True,
    help="Leave out what DIALECT cannot express, and keep it as metadata of the case.",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
@store_option
@click.pass_context
def export(ctx: click.Context, /, name: str, store: str | None, **options: object) -> int:
    """Write a version to a file, in any format that Proctor can write.

    The format `proctor` can express everything: if you export a version in it and save the file again, you
    get the same version.
    """
    from proctor.cli.commands import convert

    with open_store(store, must_exist=True) as suite_store:
        suite = get_stored_suite(suite_store, name)
    word = f"{suite.name}@{suite.version}"
    code: int = ctx.invoke(convert.command, suite=word, store=store, dialect=None, **options)
    return code


@command.command("delete")
@click.argument("name", nargs=-1, required=True, metavar="NAME[@v2]...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@store_option
def delete(name: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Delete a version, or all versions of NAME.

    A version that has runs cannot be deleted before its runs. Version numbers are never reused.
    """
    with open_store(store, must_exist=True, writes=True) as suite_store:
        for word in name:
            versions = _versions_to_delete(suite_store, word)
            check_without_runs(versions)
            what = ", ".join(
                f"{version.saved.suite.name} {version.saved.suite.version}" for version in versions
            )
            if not yes:
                confirm_deletion(what)
            for version in versions:
                suite_store.delete_version(version.saved.suite.name, version.saved.suite.digest)
            echo(f"Deleted {what}.", err=True)


def _versions_to_delete(store: Store, word: str) -> list[VersionEntry]:
    """Returns the versions that a word names."""
    suite = get_stored_suite(store, word)
    versions = list_saved_versions(store, suite.name)
    if word == suite.name:
        return versions
    return [version for version in versions if version.saved.suite.digest == suite.digest]
