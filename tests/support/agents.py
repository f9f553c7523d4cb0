"""A coding agent: the client of the package `mcp`, with `proctor mcp` as its child or its server in here."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

import proctor
from proctor.cli.config_defaults import load_cli_config
from proctor.mcp_server.project import AgentProject
from proctor.mcp_server.server import make_server
from proctor.stores import DEFAULT_STORE

SOURCES = str(Path(proctor.__file__).parents[1])


class CalledTool:
    """What a tool gave back."""

    def __init__(self, result: CallToolResult) -> None:
        assert isinstance(result.content[0], TextContent)
        self.text = result.content[0].text
        self.is_error = result.is_error
        self.data: Any = result.structured_content
        self.links = [str(link.uri) for link in result.content[1:] if link.type == "resource_link"]


class Agent:
    """A client that is connected."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.progress: list[tuple[float, float | None, str | None]] = []

    async def call(self, tool: str, **arguments: Any) -> CalledTool:
        """Calls a tool, whose result keeps to the schema that the tool has: the client checks it."""
        return CalledTool(await self.client.call_tool(tool, arguments, progress_callback=self._take_progress))

    async def refusal(self, tool: str, **arguments: Any) -> str:
        """Calls a tool that refuses, and returns its sentences."""
        called = await self.call(tool, **arguments)
        assert called.is_error, called.text
        assert called.data is None
        assert "Traceback" not in called.text
        return called.text

    async def _take_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))


def server_command(folder: Path, **environ: str) -> StdioServerParameters:
    """How a client starts the server in a folder."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "proctor", "mcp"],
        cwd=folder,
        env={"PYTHONPATH": SOURCES, **environ},
    )


@asynccontextmanager
async def connect(folder: Path, **environ: str) -> AsyncIterator[Agent]:
    """An agent with a server in a folder, for as long as the block lasts."""
    async with Client(server_command(folder, **environ)) as client:
        yield Agent(client)


@asynccontextmanager
async def connect_here(folder: Path) -> AsyncIterator[Agent]:
    """The same with a server in this process, which starts runs as processes, as that of `proctor mcp` does.

    The folder must be the working directory.
    """
    assert Path.cwd() == folder
    environ = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    project = AgentProject(
        DEFAULT_STORE,
        folder=folder,
        environ=environ | {"PYTHONPATH": SOURCES},
        config=load_cli_config(),
    )
    try:
        async with Client(make_server(project)) as client:
            yield Agent(client)
    finally:
        project.processes.end_children()
