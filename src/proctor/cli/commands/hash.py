"""`proctor hash`: prints the digest by which a suite is published."""

from __future__ import annotations

import os

import click

from proctor.cli.config_defaults import load_cli_config
from proctor.cli.options import (
    open_store,
    print_located,
    saved_suite_names,
    show,
    store_location,
    store_option,
)
from proctor.dialects import DIALECTS
from proctor.errors import SuiteError
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.load import detect_dialect, load_source
from proctor.services.suites.suite_argument import NoSuchSuite, SuiteLocator


@click.command("hash")
@click.argument("suite", nargs=-1, required=True)
@click.option("--dialect", metavar="D", help="The suites' format (default: detected from the content).")
@store_option
def command(suite: tuple[str, ...], dialect: str | None, store: str | None) -> None:
    """Print the hash of each SUITE, as `sha256:… path`.

    In format pramana, this is the published hash, computed over the sorted cases as written. In other
    formats, it is the suite digest, computed over the inputs and the grading. Neither depends on whitespace
    or on the order of the cases.
    """
    locator = SuiteLocator(
        saved_names=saved_suite_names(store), environ=os.environ, config=load_cli_config(), dialect=dialect
    )
    for word in suite:
        try:
            located = locator.find(word)
        except NoSuchSuite as missing:
            show([f"{_stored_digest(word, store, missing)}  {word}"])
            continue
        print_located(located)
        for path in located.paths:
            source = source_from_path(path, os.environ, load_cli_config().source_options(path))
            name = dialect or detect_dialect(source)
            load_result = load_source(source, dialect=name)
            published_hash = DIALECTS.get(name).published_hash(source)
            if published_hash is not None:  # even invalid files have one, to publish a new version
                show([f"{published_hash}  {path}"])
                continue
            if load_result.errors:
                raise SuiteError(load_result.errors)
            show([f"{load_result.suite.digest}  {path}"])


def _stored_digest(word: str, store: str | None, missing: NoSuchSuite) -> str:
    """Returns the hash of a saved suite, else its digest; raises `missing` where there is no such suite."""
    from proctor.services.suites.save_and_open import find_stored_suite

    if not store_location(store).exists():
        raise missing
    with open_store(store) as store_with_suite:
        suite = find_stored_suite(store_with_suite, word)
    if suite is None:
        raise missing
    return suite.suite_hash or suite.digest
