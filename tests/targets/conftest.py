"""A service on loopback that records its requests, and contexts for targets, closed after each test."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from proctor.targets.context import TargetContext
from support.apis import Api
from support.endpoints import serve_app
from support.processes import list_living
from support.waiting import PATIENCE_S


@pytest.fixture
async def opening() -> AsyncIterator[Callable[..., TargetContext]]:
    contexts: list[TargetContext] = []

    def make(timeout_s: float = PATIENCE_S, **environ: str) -> TargetContext:
        contexts.append(TargetContext(environ, timeout_s=timeout_s))
        return contexts[-1]

    yield make
    for context in contexts:
        await context.aclose()


@pytest.fixture
async def api(opening: Callable[..., TargetContext]) -> AsyncIterator[Api]:
    api = Api(opening)
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", api.handle)
    async with serve_app(app) as api.url:
        yield api


@pytest.fixture
async def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Path]:
    """The working directory, where a family of processes runs; the test kills those that are left."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for pid in await list_living(tmp_path, 3) if (tmp_path / "pids").exists() else []:
        os.kill(pid, signal.SIGKILL)
