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
    """Start the MCP server (Model Context Protocol) on stdin and stdout, for coding agents.

    Add this command to the configuration of your agent, which starts it itself. The server works on the
    suites in this folder, the targets in targets.yaml and the store that the command line uses. Each run
    needs a budget. A run stops when the server does; `proctor run --resume` continues it.

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
            f"The MCP server needs the package {missing.name!r}. Install it with: pip install 'proctor[mcp]'"
        ) from None
    if sys.stdin.isatty():
        echo_err("This is an MCP server, which coding agents start themselves. Press Ctrl-C to stop it.")
    project = AgentProject(durable_store_address(store), folder=Path.cwd(), config=load_cli_config())
    run(serve, project)
