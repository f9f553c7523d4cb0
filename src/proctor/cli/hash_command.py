"""`proctor hash`: the digest by which a suite is published."""

from __future__ import annotations

import click

from proctor.cli.configured import config_of
from proctor.cli.options import show
from proctor.codec import hash_suite
from proctor.errors import SuiteError
from proctor.session.finding import find
from proctor.session.loading import load


@click.command("hash")
@click.argument("suite", nargs=-1, required=True)
@click.option("--dialect", metavar="D", help="The suites' dialect, instead of finding it from the content.")
def command(suite: tuple[str, ...], dialect: str | None) -> None:
    """Print `sha256:…  path` for each SUITE.

    For dialect pramana this is the hash that the dialect publishes, over the sorted cases as they are
    written; for the others it is the digest over what is sent and how it is judged. Neither depends on the
    order of the cases or on spaces.
    """
    for word in suite:
        for path in find(word):
            loaded = load(path, dialect=dialect, options=config_of().reading(path))
            if loaded.suite.dialect == "pramana":  # over the lines as they stand: a new version needs it
                show([f"{hash_suite(path)}  {path}"])
                continue
            if loaded.errors:
                raise SuiteError(loaded.errors)
            show([f"{loaded.suite.digest}  {path}"])
