"""Options of the commands that read a bundle: which keys are trusted, and what its suite may do."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from proctor.cli.options import keys_option, keys_path
from proctor.errors import UsageError, suggest_file

if TYPE_CHECKING:
    from proctor.services.bundles.import_records import ImportOptions

F = TypeVar("F", bound=Callable[..., Any])


def bundle_options(function: F) -> F:
    """Adds `--require-signature`, `--allow-programs` and `--keys FOLDER`."""
    function = keys_option(function)
    function = click.option(
        "--allow-programs",
        is_flag=True,
        help="Let the suite run programs on this machine, call targets that it names and read "
        "environment variables.",
    )(function)
    return click.option(
        "--require-signature", is_flag=True, help="Accept only bundles signed by a key that you trust."
    )(function)


def check_bundle_exists(path: str) -> None:
    """Refuses a path that does not exist, before a store is created for the bundle.

    Raises:
        UsageError: the path does not exist; suggests similar files.
    """
    if not os.path.lexists(path):
        raise UsageError(f"There is no bundle at {path}.{suggest_file(path)}")


def get_import_options(options: dict[str, Any], *, judged: bool = False) -> ImportOptions:
    """Returns the import options that these flags set.

    Args:
        options: the values of a command's options.
        judged: whether the user names the judges.

    Raises:
        UsageError: the trust file is damaged.
        SuiteError: the targets file is wrong.
    """
    from proctor.bundles.trust_store import load_trusted_keys
    from proctor.services.bundles.import_records import ImportOptions, read_target_names

    return ImportOptions(
        trusted_keys=load_trusted_keys(keys_path(options["keys"])),
        require_signature=options["require_signature"],
        allow_programs=options["allow_programs"],
        own_targets=read_target_names(os.environ),
        judged=judged,
    )
