"""A service on loopback that keeps what it is asked, and openings that are closed after each test."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec import Struct

from patience import PATIENCE_S
from proctor.model import Message, Params, Prompt, TargetSpec
from proctor.targets.context import TargetContext


class Seen(Struct):
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Service:
    """Answers with the replies it was given, in order; the last one for ever."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.url = ""
        self._replies: list[tuple[int, bytes, dict[str, str]]] = []

    def reply(self, body: Any, status: int = 200, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._replies.append(
            (status, data, {name.replace("_", "-"): value for name, value in headers.items()})
        )

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.method, request.raw_path, headers, json.loads(body)))
        status, data, extra = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return web.Response(status=status, body=data, headers={"Content-Type": "application/json", **extra})


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", made.handle)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    made.url = f"http://127.0.0.1:{server.port}"
    yield made
    await server.close()


@pytest.fixture
async def opening() -> AsyncIterator[Callable[..., TargetContext]]:
    made: list[TargetContext] = []

    def make(timeout_s: float = PATIENCE_S, **environ: str) -> TargetContext:
        made.append(TargetContext(environ, timeout_s=timeout_s))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


@pytest.fixture
def ask() -> Callable[..., Prompt]:
    """A prompt of messages given as `role, content` pairs; one text alone is a user's."""

    def make(*turns: str | tuple[str, str] | Message, **fields: Any) -> Prompt:
        messages = tuple(_message(turn) for turn in turns)
        return Prompt(messages=messages, **fields)

    return make


def _message(turn: str | tuple[str, str] | Message) -> Message:
    if isinstance(turn, Message):
        return turn
    role, content = ("user", turn) if isinstance(turn, str) else turn
    return Message(role=role, content=content)


@pytest.fixture
def spec() -> Callable[..., TargetSpec]:
    def make(kind: str, model: str = "m", endpoint: str | None = None, **params: Any) -> TargetSpec:
        return TargetSpec(
            name=f"{kind}:{model}", kind=kind, model=model, endpoint=endpoint, params=Params(**params)
        )

    return make
