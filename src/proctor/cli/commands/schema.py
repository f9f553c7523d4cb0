"""`proctor schema`: prints the JSON Schemas by which editors complete and check files."""

from __future__ import annotations

from pathlib import Path

import click

from proctor.cli.echo import echo_json
from proctor.cli.options import show
from proctor.cli.schemas import SCHEMAS, render_schema
from proctor.errors import UsageError


@click.command("schema")
@click.argument("name", type=click.Choice(list(SCHEMAS)))
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of stdout.")
def command(name: str, output: str | None) -> None:
    """Print the JSON Schema (2020-12) of a file, for completion and checks in editors.

    The names are: agentv for a suite in YAML, proctor for a line of a suite in Proctor's own format, targets
    for targets.yaml, and config for proctor.toml.

    \b
    proctor schema targets
    proctor schema agentv -o .proctor/schemas/agentv.schema.json
    """  # noqa: D301  # click wants the character \b itself
    text = render_schema(name)
    if output is None:
        echo_json(text.rstrip())
        return
    path = Path(output)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output!r} cannot be written: {error.strerror}.") from None
    show([f"Wrote {path.as_posix()}"])
