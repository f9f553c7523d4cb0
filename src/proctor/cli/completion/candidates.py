"""Finds what a word on the command line may be: suites, targets, runs, tags, files.

Each function takes click's context, with the options so far, and the beginning of the word. It opens no
target, and neither creates, migrates nor writes a store.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from proctor.cli.options import store_location
from proctor.dialects import DIALECTS
from proctor.engines import ENGINES
from proctor.errors import ProctorError
from proctor.plurals import pluralize
from proctor.services.runs.planning.target_names import TargetNames
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX, TIERS, builtin_path
from proctor.services.suites.suite_argument import find_suites_folder
from proctor.services.targets.priced_models import list_priced_models, models_of
from proctor.stores.location import StoredNames
from proctor.targets import iter_kinds

MAX_SUITE_BYTES = 2**18
"""The size of the largest suite file that is read for its tags."""

Items = Iterable[CompletionItem]


def find_suites(ctx: click.Context, incomplete: str) -> Items:
    """Suites: built-in ones, those in `suites/`, those in the store, and files."""
    if not incomplete.startswith((".", "/", "~")):
        builtin = [f"{BUILTIN_PREFIX}{tier}" for tier in TIERS] if incomplete.startswith("b") else TIERS
        yield from _describe(builtin, "built-in suite")
        yield from _describe(_names_in_folder(), "file in suites/")
        yield from find_saved_suites(ctx, incomplete)
    yield from find_files(ctx, incomplete)


def find_saved_suites(ctx: click.Context, incomplete: str) -> Items:
    """Names of suites in the store; after `NAME@` its versions."""
    for name, versions in _stored_names(ctx).suites.items():
        if "@" in incomplete:
            yield from _describe((f"{name}@{version}" for version in versions), "saved suite")
        else:
            yield CompletionItem(name, help=f"saved suite with {pluralize(len(versions), 'version')}")


def find_targets(ctx: click.Context, incomplete: str) -> Items:  # noqa: ARG001  # as all of these
    """Targets: names in targets.yaml, kinds, and models with known prices."""
    kinds = list(iter_kinds())
    models = list_priced_models()
    kind_name, colon, _model = incomplete.partition(":")
    for kind in kinds:
        if colon and kind.name == kind_name:
            yield from _describe((f"{kind.name}:{name}" for name in models_of(kind, models)), "model")
    if colon:
        return
    with suppress(ProctorError):
        yield from _describe(TargetNames(os.environ).names(), "in targets.yaml")
    for kind in kinds:
        yield CompletionItem(_written(kind.name, kind.syntax), help=kind.summary)
        yield from _describe(kind.aliases, f"{kind.name} model")
        if incomplete:
            yield from _describe(models_of(kind, models), f"{kind.name} model")


def find_runs(ctx: click.Context, incomplete: str) -> Items:
    """Runs of the store: `last`, ids from the newest on, and tags."""
    names = _stored_names(ctx)
    if names.runs:
        yield CompletionItem("last", help="the newest run")
    yield from find_run_tags(ctx, incomplete)
    for run_id, description in names.runs.items():
        yield CompletionItem(run_id, help=description)


def find_run_tags(ctx: click.Context, incomplete: str) -> Items:  # noqa: ARG001
    """Tags of runs."""
    return _describe(_stored_names(ctx).run_tags, "tag")


def find_prompts(ctx: click.Context, incomplete: str) -> Items:
    """Prompts: those of stored runs, and files where one may be given."""
    yield from _describe(_stored_names(ctx).prompts, "prompt of a run")
    if ctx.command.name == "run":
        yield from find_files(ctx, incomplete)


def find_groups(ctx: click.Context, incomplete: str) -> Items:
    """Runs, and groups of runs."""
    yield from find_runs(ctx, incomplete)
    yield from _describe(_stored_names(ctx).groups, "group")


def find_tags(ctx: click.Context, incomplete: str) -> Items:
    """Tags of the cases of the suites so far; after a comma, further ones."""
    before = incomplete[: incomplete.rfind(",") + 1]
    tags, _categories = _labels_of_suites(ctx)
    return _describe((f"{before}{tag}" for tag in tags if tag not in before.split(",")), "")


def find_categories(ctx: click.Context, incomplete: str) -> Items:  # noqa: ARG001
    """Categories of the cases of the suites so far."""
    _tags, categories = _labels_of_suites(ctx)
    return _describe(categories, "")


def find_dialects(ctx: click.Context, incomplete: str) -> Items:  # noqa: ARG001
    """Formats of suites."""
    return _describe(DIALECTS.names(), "")


def find_engines(ctx: click.Context, incomplete: str) -> Items:  # noqa: ARG001
    """Engines."""
    return _describe(ENGINES.names(installed=True), "")


def find_files(ctx: click.Context, incomplete: str) -> Items:  # noqa: ARG001
    """Files, which the shell finds itself."""
    yield CompletionItem(incomplete, type="file")


def find_folders(ctx: click.Context, incomplete: str) -> Items:  # noqa: ARG001
    """Folders, which the shell finds itself."""
    yield CompletionItem(incomplete, type="dir")


def _describe(names: Iterable[str], description: str) -> Iterator[CompletionItem]:
    for name in names:
        yield CompletionItem(name, help=description or None)


def _written(name: str, syntax: str) -> str:
    """Returns a kind as typed on the command line, with a colon if something has to follow."""
    return f"{name}:" if syntax.startswith(f"{name}:") else name


def _names_in_folder() -> Iterator[str]:
    """Yields the names of the files in `suites/`."""
    with suppress(OSError):
        for entry in sorted(os.scandir(find_suites_folder() or "suites"), key=lambda entry: entry.name):
            if not entry.name.startswith(".") and entry.is_file():
                yield entry.name.split(".")[0]


def _stored_names(ctx: click.Context) -> StoredNames:
    with suppress(ProctorError):
        return store_location(ctx.params.get("store")).list_names()
    return StoredNames()


def _labels_of_suites(ctx: click.Context) -> tuple[list[str], list[str]]:
    """Returns the tags and the categories of the suites that a command names."""
    params = ctx.params
    words = [*(params.get("suite") or ()), *(params.get("more_suites") or ()), *(params.get("saved") or ())]
    tags: dict[str, None] = {}
    categories: dict[str, None] = {}
    for word in words:
        for case_tags, category in _labels_of_suite(ctx, word):
            tags |= dict.fromkeys(case_tags)
            categories |= dict.fromkeys([category] if category else [])
    return sorted(tags), sorted(categories)


def _labels_of_suite(ctx: click.Context, word: str) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Yields the tags and the category of each case of a suite, if it is small enough or saved."""
    path = _suite_file(word)
    if path is not None and path.stat().st_size > MAX_SUITE_BYTES:
        return
    if path is None:
        with suppress(ProctorError):
            yield from store_location(ctx.params.get("store")).list_case_labels(word)
        return
    from proctor.services.suites.load import load_suite

    labels: list[tuple[tuple[str, ...], str | None]] = []
    with suppress(ProctorError):
        load_suite(
            path, inspect=lambda located: labels.append((tuple(located.case.tags), located.case.category))
        )
    yield from labels


def _suite_file(word: str) -> Path | None:
    """Returns the file of a suite; None if it is in the store or nowhere."""
    tier = word.removeprefix(BUILTIN_PREFIX)
    candidates = [Path(word), *sorted(Path("suites").glob(f"{glob_escape(word)}.*"))]
    file = next((path for path in candidates if path.is_file()), None)
    return builtin_path(tier) if file is None and tier in TIERS else file


def glob_escape(word: str) -> str:
    """Returns a word with the characters that glob gives a meaning escaped."""
    import glob

    return glob.escape(word.replace("/", "").replace("\0", ""))
