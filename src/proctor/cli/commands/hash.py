"""`proctor hash`: the digest by which a suite is published."""

from __future__ import annotations

import os

import click

from proctor.cli.config_defaults import config_of
from proctor.cli.options import is_saved, open_store, show, store_location, store_option, tell_located
from proctor.codec import hash_text
from proctor.dialects.shared.json_arrays import lines_of
from proctor.errors import SuiteError
from proctor.services.suites.load import load
from proctor.services.suites.path_arguments import Locator, NoSuchSuite
from proctor.services.suites.suite_sources import source_of


@click.command("hash")
@click.argument("suite", nargs=-1, required=True)
@click.option("--dialect", metavar="D", help="The suites' dialect, instead of finding it from the content.")
@store_option
def command(suite: tuple[str, ...], dialect: str | None, store: str | None) -> None:
    """Print `sha256:…  path` for each SUITE.

    For dialect pramana this is the hash that the dialect publishes, over the sorted cases as they are
    written; for the others it is the digest over what is sent and how it is judged. Neither depends on the
    order of the cases or on spaces.
    """
    locator = Locator(is_saved=is_saved(store), environ=os.environ, config=config_of(), dialect=dialect)
    for word in suite:
        try:
            located = locator.find(word)
        except NoSuchSuite as missing:
            show([f"{_stored(word, store, missing)}  {word}"])
            continue
        tell_located(located)
        for path in located.paths:
            loaded = load(path, dialect=dialect, options=config_of().reading(path))
            if loaded.suite.dialect == "pramana":  # over the lines as they stand: a new version needs it
                lines = b"".join(lines_of(source_of(path)))
                show([f"{hash_text(lines, str(path))}  {path}"])
                continue
            if loaded.errors:
                raise SuiteError(loaded.errors)
            show([f"{loaded.suite.digest}  {path}"])


def _stored(word: str, store: str | None, missing: NoSuchSuite) -> str:
    """The hash of a saved suite, or else its digest; raises what is given where there is no such suite."""
    from proctor.services.suites.library import stored_suite

    if not store_location(store).exists():
        raise missing
    with open_store(store) as opened:
        suite = stored_suite(opened, word)
    if suite is None:
        raise missing
    return suite.suite_hash or suite.digest
