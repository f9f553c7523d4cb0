"""`proctor mcp`: the server for coding agents and editors."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from proctor.cli.config_defaults import load_cli_config
from proctor.cli.echo import echo_err
from proctor.cli.options import durable_store_address, store_option
from proctor.errors import UsageError


@click.command("mcp")
@store_option
def command(store: str | None) -> None:
    """Serve coding agents over stdin and stdout, by the Model Context Protocol.

    An agent starts this command itself: put it into the agent's configuration. It works on the suites below
    this folder, the targets of targets.yaml and the store of the command line. A run takes a budget, and ends
    with the server; `proctor run --resume` continues it.

    \b
    proctor mcp
    """  # noqa: D301  # click wants the character \b itself
    try:
        import mcp as _mcp  # noqa: F401  # the package to name, before what it depends on
        from anyio import run

        from proctor.mcp_server.project import AgentProject
        from proctor.mcp_server.server import serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "proctor":
            raise
        raise UsageError(
            f"The server for coding agents needs the package {missing.name!r}. Install it: "
            "pip install 'proctor[mcp]'."
        ) from None
    if sys.stdin.isatty():
        echo_err("This is a server for coding agents, which start it themselves. Ctrl-C stops it.")
    project = AgentProject(durable_store_address(store), folder=Path.cwd(), config=load_cli_config())
    run(serve, project)
