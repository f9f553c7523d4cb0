"""A service on loopback that keeps what it is asked, and openings that are closed after each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from proctor.targets.context import TargetContext
from support.endpoints import Service, serve_app
from support.waiting import PATIENCE_S


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", made.handle)
    async with serve_app(app) as made.url:
        yield made


@pytest.fixture
async def opening() -> AsyncIterator[Callable[..., TargetContext]]:
    made: list[TargetContext] = []

    def make(timeout_s: float = PATIENCE_S, **environ: str) -> TargetContext:
        made.append(TargetContext(environ, timeout_s=timeout_s))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()
