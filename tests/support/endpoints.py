"""Servers on loopback that stand for services: run in this event loop, or in a thread of their own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec import Struct


@asynccontextmanager
async def serve_app(app: web.Application) -> AsyncIterator[str]:
    """The address of an application that is served in this event loop for as long as the block lasts."""
    async with TestServer(app, host="127.0.0.1") as server:
        yield f"http://127.0.0.1:{server.port}"


class ThreadServer(ThreadingHTTPServer):
    """A server that handles each request in a thread of its own."""

    daemon_threads = True
    request_queue_size = 64  # more at once than wait here would try again after a second

    def handle_error(self, *_: object) -> None:
        """A run that stops closes its connections: what cannot be answered then is no fault."""


@contextmanager
def serve_in_thread(
    handler: type[BaseHTTPRequestHandler], kind: type[ThreadServer] = ThreadServer
) -> Iterator[Any]:
    """A server whose requests threads of their own handle, for as long as the block lasts."""
    server = kind(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class JsonHandler(BaseHTTPRequestHandler):
    """Reads and writes JSON, and logs nothing; `handle_json` gets the body of each request."""

    def do_POST(self) -> None:
        self.handle_json(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def handle_json(self, body: Any) -> None:
        """Replies to a request with `send_json`."""
        raise NotImplementedError

    def send_json(self, body: Any, status: int = 200, **headers: str) -> None:
        """Replies with a body; in the names of headers, `_` stands for `-`."""
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content_Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing goes to stderr."""


class ReceivedRequest(Struct):
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Service:
    """Answers with the replies it was given, in order; the last one for ever."""

    def __init__(self) -> None:
        self.requests: list[ReceivedRequest] = []
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
        self.requests.append(
            ReceivedRequest(request.method, request.raw_path, headers, json.loads(body or "null"))
        )
        status, data, extra = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return web.Response(status=status, body=data, headers={"Content-Type": "application/json", **extra})
