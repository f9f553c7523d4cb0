"""`proctor hash`: prints the digest by which a suite is published."""

from __future__ import annotations

import os

import click

from proctor.cli.config_defaults import load_cli_config
from proctor.cli.options import is_saved, open_store, show, store_location, store_option, tell_located
from proctor.dialects import DIALECTS
from proctor.errors import SuiteError
from proctor.services.suites.file_source import source_of
from proctor.services.suites.load import dialect_of, load_source
from proctor.services.suites.suite_argument import Locator, NoSuchSuite


@click.command("hash")
@click.argument("suite", nargs=-1, required=True)
@click.option("--dialect", metavar="D", help="The suites' format (default: detected from the content).")
@store_option
def command(suite: tuple[str, ...], dialect: str | None, store: str | None) -> None:
    """Print `sha256:…  path` for each SUITE.

    For the format pramana this is the published hash, over the sorted cases as they are written; for other
    formats it is the digest over the inputs and how answers are graded. Neither depends on the order of the
    cases or on spaces.
    """
    locator = Locator(is_saved=is_saved(store), environ=os.environ, config=load_cli_config(), dialect=dialect)
    for word in suite:
        try:
            located = locator.find(word)
        except NoSuchSuite as missing:
            show([f"{_stored_digest(word, store, missing)}  {word}"])
            continue
        tell_located(located)
        for path in located.paths:
            source = source_of(path, os.environ, load_cli_config().reading(path))
            name = dialect or dialect_of(source)
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
    from proctor.services.suites.save_and_open import stored_suite

    if not store_location(store).exists():
        raise missing
    with open_store(store) as store_with_suite:
        suite = stored_suite(store_with_suite, word)
    if suite is None:
        raise missing
    return suite.suite_hash or suite.digest
