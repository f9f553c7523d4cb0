"""Shared by the commands: options, opening the store, and printing lines."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from proctor.cli.echo import echo, echo_err, echo_line, wants_colour
from proctor.cli.number_ranges import NumberRange
from proctor.errors import UsageError
from proctor.stores import DEFAULT_STORE

if TYPE_CHECKING:
    from proctor.model import Problem
    from proctor.protocols import Store
    from proctor.services.suites.suite_argument import LocatedSuites
    from proctor.stores.location import StoreLocation

F = TypeVar("F", bound=Callable[..., Any])


class GroupedCommand(click.Command):
    """A command whose help lists its options in groups."""

    titles: Mapping[str, str] = {}
    """The title of each option's group, by the name of its parameter, in the order of the groups. An option
    without one, such as --help, belongs to the last group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options under the titles of their groups."""
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in self.titles.values()}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record:
                groups[self.titles.get(param.name or "", next(reversed(groups)))].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def store_option(function: F) -> F:
    """Adds `--store PATH`, which `proctor.toml` may set for every command."""
    return click.option(
        "--store",
        metavar="PATH",
        default=_project_store,
        help="The store: a file, postgresql://HOST/DATABASE, or :memory:.  [default: $PROCTOR_STORE or "
        f"{DEFAULT_STORE}]",
    )(function)


def concurrency_option(default: int) -> Callable[[F], F]:
    """Adds `--concurrency`."""
    return click.option(
        "--concurrency",
        type=click.IntRange(1),
        default=default,
        show_default=True,
        metavar="N",
        help="Maximum concurrent requests.",
    )


def timeout_option(function: F) -> F:
    """Adds `--timeout`."""
    return click.option(
        "--timeout",
        "timeout_s",
        type=NumberRange(0, min_open=True),
        default=120.0,
        show_default=True,
        metavar="S",
        help="Timeout per request, in seconds.",
    )(function)


def retries_option(function: F) -> F:
    """Adds `--retries`."""
    return click.option(
        "--retries",
        type=click.IntRange(0),
        default=4,
        show_default=True,
        metavar="N",
        help="Maximum retries of a failed request.",
    )(function)


def max_answer_bytes_option(function: F) -> F:
    """Adds `--max-answer-bytes N`."""
    return click.option(
        "--max-answer-bytes",
        type=click.IntRange(1, 2**29),
        default=2**24,
        show_default=True,
        metavar="N",
        help="Maximum size of an answer, in bytes. A larger answer is an error.",
    )(function)


def gate_mode_option(function: F) -> F:
    """Adds `--gate-mode`."""
    return click.option(
        "--gate-mode",
        type=click.Choice(["point", "interval"]),
        default="point",
        show_default=True,
        help="What is compared with --min-pass-rate: the pass rate (point), or its exact 95 % "
        "interval. With `interval`: exit 0 if the interval is at or above the gate, 1 if it is "
        "below, 3 if it contains the gate.",
    )(function)


def _parse_cluster(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    from proctor.clusters import check_cluster_field

    return None if value is None else check_cluster_field(value)


def cluster_option(function: F) -> F:
    """Adds `--cluster FIELD`."""
    return click.option(
        "--cluster",
        metavar="FIELD",
        callback=_parse_cluster,
        help="Treat cases with the same value as related, and compute intervals over these clusters: "
        "metadata.FIELD, tag:PREFIX, category, id (up to [ or ~), or none.  [default: what the "
        "suite's format says]",
    )(function)


def reveal_option(function: F) -> F:
    """Adds `--reveal`, which `proctor.toml` may set for every `ConfigDefaultsCommand`."""
    return click.option(
        "--reveal/--no-reveal",
        help="Show held-out cases too. This counts as a holdout access.  [default: no-reveal]",
    )(function)


def _project_store() -> str | None:
    from proctor.cli.config_defaults import load_cli_config

    store: str | None = load_cli_config().flags.get("store")
    return store


def store_location(option: str | None) -> StoreLocation:
    """Returns the location given by `--store`, else that of the project's store.

    Raises:
        UsageError: there is no such kind of store.
    """
    from proctor.services.project_store import locate_project_store

    return locate_project_store(option)


def durable_store_address(option: str | None) -> str:
    """Returns the address of the store that a server works on.

    Raises:
        UsageError: it is in memory.
    """
    location = store_location(option)
    if not location.is_durable:
        raise UsageError(
            "Runs started from a page or by an agent are separate processes, which cannot use the "
            f"store {location.address}. Name a file with --store."
        )
    return location.address


@contextmanager
def open_store(option: str | None, *, must_exist: bool = False, writes: bool = False) -> Iterator[Store]:
    """Opens the store for as long as the block lasts.

    Args:
        option: the value of `--store`.
        must_exist: whether the command needs an existing store.
        writes: whether the command writes to the store, so that a read-only one is refused at once.

    Raises:
        UsageError: `must_exist`, and the file is missing or empty.
        StoreError: it cannot be used.
    """
    from proctor.services.project_store import ignore_in_git, open_existing_store

    location = store_location(option)
    is_new_folder = not option and not location.folder.exists()
    if writes:
        location.check_writable()
    store = open_existing_store(location, echo_err) if must_exist else location.open_store(echo_err)
    store.on_wait(echo_err)
    if is_new_folder:
        ignore_in_git(location.folder)
    try:
        yield store
    finally:
        store.close()


def saved_suite_names(option: str | None) -> Callable[[str | None], list[str]]:
    """Returns `list_saved_names` for the store; a store that does not exist yet has none and stays so."""

    def list_names(name: str | None) -> list[str]:
        from proctor.services.suites.saved_names import list_saved_names

        location = store_location(option)
        if not location.exists() or location.is_empty():
            return []
        with open_store(option) as store:
            return list_saved_names(store, name)

    return list_names


def print_located(located: LocatedSuites) -> None:
    """Prints the warnings and notes on the files of a SUITE argument to stderr."""
    for line in located.warnings:
        echo_err(f"proctor: warning: {line}")
    for line in located.notes:
        echo_err(line)


def print_problems(problems: Iterable[Problem]) -> None:
    """Prints problems of suites to stderr, one a line."""
    from proctor.reports.problems import problem_lines

    for line in problem_lines(problems):
        echo(line, err=True)


def confirm_deletion(what: str) -> None:
    """Requests confirmation on the terminal to delete something, and aborts the command without it.

    Raises:
        UsageError: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError("Deleting needs a confirmation, but there is no terminal. Add --yes.")
    click.confirm(f"Delete {what}?", abort=True, err=True)


def keys_option(function: F) -> F:
    """Adds `--keys FOLDER`."""
    return click.option(
        "--keys",
        "keys",
        metavar="FOLDER",
        help="Folder with your keys and the trust file.  [default: $PROCTOR_KEYS or ~/.config/proctor/keys]",
    )(function)


def keys_path(option: str | None) -> Path:
    """Returns the folder given by `--keys`, else that of the user."""
    from proctor.bundles.keys import keys_folder

    return Path(option) if option else keys_folder(os.environ)


def keys_flag(folder: Path) -> str:
    """Returns the `--keys` flag for a suggested command; empty for the default folder."""
    return "" if folder == keys_path(None) else f" --keys {shlex.quote(str(folder))}"


def show(lines: Iterable[str]) -> None:
    """Prints lines, with colours where `wants_colour` says so."""
    if not wants_colour(sys.stdout):
        for line in lines:
            echo_line(line)
        return
    from proctor.cli.colours import print_coloured

    print_coloured(lines)
