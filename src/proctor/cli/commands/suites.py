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
    "same": ", the same as before",
    "renewed": ", the same but for tags, metadata, order, holdout or prompts",
    "earlier": ", which it was before",
}


@click.group("suites")
def command() -> None:
    """Save suites, and list, show, compare, export and delete their versions.

    NAME is the name of a saved suite, which stands for its current version; NAME@v2 and NAME@sha256:… (at
    least 6 digits) are one version of it.
    """


@command.command("save")
@click.argument("suite", nargs=-1, required=True)
@click.option(
    "--name", metavar="NAME", help="Save it under this name, instead of the one that its file gives."
)
@click.option("--dialect", metavar="D", help="The suites' format (default: detected from the content).")
@store_option
def save(suite: tuple[str, ...], name: str | None, dialect: str | None, store: str | None) -> None:
    """Save each SUITE in the store, as `proctor run` does too.

    A name that is new gets v1. Other cases under the same name are its next version; the same cases are the
    same version, and those of an earlier version are that one again.
    """
    if name is not None and len(suite) > 1:
        raise UsageError("Several suites cannot have one name. Save them one by one, or leave --name out.")
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every version.")
@store_option
def list_suites(as_json: bool, store: str | None) -> None:
    """One line for each saved suite."""
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
    """One line for each version of the suite NAME, oldest first."""
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
@click.option("--cases", is_flag=True, help="Every case too, one a line.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def show_suite(name: str, cases: bool, as_json: bool, store: str | None) -> None:
    """What a version is: its cases, split and runs.

    Cases are counted by category and tag; the accesses to its holdout are shown too.
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
@click.option("--exit-code", is_flag=True, help="Exit 1 when anything differs, and 0 when nothing does.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every value whole.")
@store_option
def compare(suites: tuple[str, ...], exit_code: bool, as_json: bool, store: str | None) -> int:
    """What changed from suite OLD to suite NEW, files or stored ones.

    With NAME alone, from the version that was current before to the one that is now; with `NAME v1`, from v1
    to the current one; with `NAME v1 v2`, from v1 to v2. Cases are added, removed, renamed, or changed field
    by field.
    """
    if len(suites) > 3:
        raise UsageError("Name two suites, or one and two versions of it.")
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
            raise UsageError(f"{word!r} is no version. Give three words as in `NAME v1 v2`.")
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
@click.option("--lossy", is_flag=True, help="Leave out what DIALECT cannot express, and keep it as metadata.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@store_option
@click.pass_context
def export(ctx: click.Context, /, name: str, store: str | None, **options: object) -> int:
    """Write a version to a file, in any format that Proctor writes.

    The format `proctor` can express everything: what is exported in it and saved again is the same version.
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
    """Forget a version, or every version of NAME, for good.

    A version that has runs stays until they are deleted. Its number is given to no other.
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
