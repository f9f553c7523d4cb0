"""`proctor suites`: saved suites and their versions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import chain

import click

from proctor.cli.config_defaults import config_of
from proctor.cli.echo import say, say_json
from proctor.cli.options import open_store, show, store_location, store_option, tell_located
from proctor.errors import ExitCode, SuiteError, UsageError, suggestion
from proctor.model import Case, Problem, Suite
from proctor.plurals import counted
from proctor.protocols import Store
from proctor.reports import suites as told
from proctor.reports.problems import lines_of
from proctor.reports.suites import Kept
from proctor.safe_text import one_line
from proctor.services.suites.library import Opened, Saved, Suites, stored_suite
from proctor.services.suites.overview import described, kept
from proctor.services.suites.suite_sources import versioned
from proctor.suite_diff import diff

_STATES = {
    "new": "",
    "same": ", the same as before",
    "renewed": ", the same but for tags, metadata, order or holdout",
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
@click.option("--dialect", metavar="D", help="The suites' dialect, instead of finding it from the content.")
@store_option
def save(suite: tuple[str, ...], name: str | None, dialect: str | None, store: str | None) -> None:
    """Save each SUITE in the store, as `proctor run` does too.

    A name that is new gets v1. Other cases under the same name are its next version; the same cases are the
    same version, and those of an earlier version are that one again.
    """
    if name is not None and len(suite) > 1:
        raise UsageError("Several suites cannot have one name. Save them one by one, or leave --name out.")
    wrong: list[Problem] = []
    with open_store(store, writes=True) as opened:
        suites = Suites(opened, os.environ, config_of(), tell_located)
        for word in suite:
            try:
                for saved in suites.save(word, dialect=dialect, name=name):
                    _tell(saved.problems)
                    show([_saved(saved)])
            except SuiteError as error:
                wrong.extend(error.problems)
    if wrong:
        raise SuiteError(wrong)


def _saved(saved: Saved) -> str:
    suite = saved.suite
    cases = counted(suite.case_count, "case")
    return f"{one_line(suite.name)} {suite.version}{_STATES[saved.state]}: {cases} from {saved.path}"


def _tell(problems: tuple[Problem, ...]) -> None:
    for line in lines_of(problems):
        say(line, err=True)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every version.")
@store_option
def list_suites(as_json: bool, store: str | None) -> None:
    """One line for each saved suite."""
    with open_store(store, must_exist=True) as opened:
        found = kept(opened)
        if as_json:
            say_json(told.list_json(found))
        else:
            show(told.listed(found))


@command.command("versions")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def list_versions(name: str, as_json: bool, store: str | None) -> None:
    """One line for each version of the suite NAME, oldest first."""
    with open_store(store, must_exist=True) as opened:
        found = kept(opened, name)
        if not found:
            raise _no_such(opened, name)
        if as_json:
            say_json(told.history_json(found))
        else:
            show(told.history(found))


@command.command("show")
@click.argument("name", metavar="NAME[@v2]")
@click.option("--cases", is_flag=True, help="Every case too, one a line.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def show_suite(name: str, cases: bool, as_json: bool, store: str | None) -> None:
    """What a version is: its cases, split and runs.

    Cases are counted by category and tag; the looks at its holdout are told too.
    """
    with open_store(store, must_exist=True) as opened:
        found = described(opened, _version(opened, name))
        of_it = opened.cases(found.saved.suite.content) if cases else None
        if as_json:
            say_json(told.described_json(found, of_it))
        else:
            show(chain(told.described(found), told.case_lines(found, of_it or ())))


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
        found = Suites(None, os.environ, config_of(), tell_located)
        return _compare(found, suites, as_json=as_json, told_apart=exit_code)
    with open_store(store) as opened:
        found = Suites(opened, os.environ, config_of(), tell_located)
        return _compare(found, _two(opened, suites), as_json=as_json, told_apart=exit_code)


def _two(store: Store, words: tuple[str, ...]) -> tuple[str, str]:
    """The two suites that words stand for."""
    name, *chosen = words
    if len(chosen) == 1 and not _is_version(chosen[0]):
        return name, chosen[0]
    versions = store.versions(name)
    if not versions:
        raise _no_such(store, name)
    for word in chosen:
        if not _is_version(word):
            raise UsageError(f"{word!r} is no version. Give three words as in `NAME v1 v2`.")
    if chosen:
        current = next(one.suite.version for one in versions if one.current)
        return f"{name}@{chosen[0]}", f"{name}@{chosen[1] if len(chosen) == 2 else current}"
    if len(versions) == 1:
        raise UsageError(f"The suite {name!r} has only one version, {versions[0].suite.version}.")
    *_, before, now = sorted(versions, key=lambda one: (one.current, one.saved_at))
    return f"{name}@{before.suite.version}", f"{name}@{now.suite.version}"


def _is_version(word: str) -> bool:
    return versioned(f"suite@{word}") == ("suite", word)


def _compare(suites: Suites, words: tuple[str, ...], *, as_json: bool, told_apart: bool) -> ExitCode:
    """Tell what lies between two suites; the exit code says whether anything does, if it is to."""
    with suites.opened(words[0]) as old, suites.opened(words[1]) as new:
        _tell((*old.problems, *new.problems))
        found = diff(old.suite, _cases(old), new.suite, _cases(new))
        code = ExitCode.OK if found.is_empty or not told_apart else ExitCode.FAILED
        if as_json:
            say_json(told.compared_json(old.suite, new.suite, found, int(code)))
        else:
            show(told.compared(_called(old, words[0]), _called(new, words[1]), found))
    return code


def _called(opened: Opened, word: str) -> str:
    """A version of the store by its name, a file as the user gave it."""
    return word if opened.source is not None else f"{opened.suite.name} {opened.suite.version}"


def _cases(opened: Opened) -> Iterator[Case]:
    return (stored.case for stored in opened.cases())


@command.command("export")
@click.argument("name", metavar="NAME[@v2]")
@click.option("--to", metavar="DIALECT", default="proctor", show_default=True, help="The dialect to write.")
@click.option("-o", "--output", metavar="FILE", help="A file or folder to write to, instead of stdout.")
@click.option("--lossy", is_flag=True, help="Leave out what DIALECT cannot say, and keep it as metadata.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@store_option
@click.pass_context
def export(ctx: click.Context, /, name: str, store: str | None, **options: object) -> int:
    """Write a version to a file, in any dialect that is written.

    Dialect `proctor` can say all that a suite is: what is exported in it and saved again is the same version.
    """
    from proctor.cli.commands import convert

    with open_store(store, must_exist=True) as opened:
        suite = _version(opened, name)
    word = f"{suite.name}@{suite.version}"
    code: int = ctx.invoke(convert.command, suite=word, store=store, dialect=None, **options)
    return code


@command.command("delete")
@click.argument("name", nargs=-1, required=True, metavar="NAME[@v2]...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@store_option
def delete(name: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Forget a version, or every version of NAME, for good.

    A version that has runs stays until they are deleted. Its number is given to no other.
    """
    with open_store(store, must_exist=True, writes=True) as opened:
        for word in name:
            doomed = _doomed(opened, word)
            _check_free(doomed)
            what = ", ".join(f"{one.saved.suite.name} {one.saved.suite.version}" for one in doomed)
            if not yes:
                if not sys.stdin.isatty():
                    raise UsageError("Deleting asks first, and nobody can answer here. Add --yes.")
                click.confirm(f"Delete {what}?", abort=True, err=True)
            for one in doomed:
                opened.forget(one.saved.suite.name, one.saved.suite.digest)
            say(f"Deleted {what}.", err=True)


def _doomed(store: Store, word: str) -> list[Kept]:
    """The versions that a word names."""
    suite = _version(store, word)
    versions = kept(store, suite.name)
    if word == suite.name:
        return versions
    return [one for one in versions if one.saved.suite.digest == suite.digest]


def _check_free(versions: list[Kept]) -> None:
    held = [f"{one.saved.suite.version} has {counted(one.runs, 'run')}" for one in versions if one.runs]
    if held:
        name = versions[0].saved.suite.name
        raise UsageError(
            f"{name!r} cannot be deleted: {', '.join(held)}. Delete them first with `proctor runs delete`."
        )


# --- words -------------------------------------------------------------------------------------------------


def _version(store: Store, word: str) -> Suite:
    """The version that a word names.

    Raises:
        UsageError: there is none.
    """
    suite = stored_suite(store, word)
    if suite is None:
        raise _no_such(store, word)
    return suite


def _no_such(store: Store, name: str) -> UsageError:
    names = sorted({one.suite.name for one in store.versions()})
    return UsageError(f"There is no suite {name!r} in the store. {suggestion(name, names)}")
