"""Every transport under every loop, as the tests of their contract run them."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import pytest
import uvloop
from aiohttp import TCPConnector
from msgspec import Struct
from yarl import URL

from proctor.targets.transport.aiohttp_transport import AiohttpTransport, open_session
from proctor.targets.transport.http1_transport import Http1Transport
from proctor.targets.transport.protocol import RequestHead, Response, Transport, TransportError

T = TypeVar("T")
LAST_RESORT_S = 25.0
"""In seconds. What takes longer never happens; systems try to connect for longer."""
Address = tuple[str, int]
Resolve = Callable[[str], list[Address]]
"""Returns the addresses of a name, or raises `socket.gaierror`."""


class Reply(Struct, frozen=True):
    """A status and a whole body."""

    status: int
    body: bytes


class Failure(Struct, frozen=True):
    """An error of a transport, and what it says."""

    error: type[TransportError]
    message: str = ""


def _list_addresses(resolve: Resolve, host: str) -> list[tuple[Any, ...]]:
    return [
        (
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
        )
        for address, port in resolve(host)
    ]


class AsyncioLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop; names are looked up in `resolve` if it is set."""

    resolve: Resolve | None = None

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        if self.resolve is None or host[:1].isdigit() or ":" in host:
            return await super().getaddrinfo(host, port, **options)
        await asyncio.sleep(0)
        return _list_addresses(self.resolve, host)


class UvLoop(uvloop.Loop):
    """uvloop; names are looked up in `resolve` if it is set."""

    resolve: Resolve | None = None

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        if self.resolve is None or host[:1].isdigit() or ":" in host:
            return await super().getaddrinfo(host, port, **options)
        await asyncio.sleep(0)
        return _list_addresses(self.resolve, host)


LOOPS: dict[str, type[AsyncioLoop | UvLoop]] = {"asyncio": AsyncioLoop, "uvloop": UvLoop}


@asynccontextmanager
async def open_aiohttp(tls: ssl.SSLContext | None, proxy: URL | None = None) -> AsyncIterator[Transport]:
    """The transport over aiohttp; a TLS context stands for the certificates of this machine."""
    session = open_session()
    if tls is not None:
        connector = session.connector
        assert isinstance(connector, TCPConnector)
        connector._ssl = tls
    transport = AiohttpTransport(session, proxy)
    try:
        yield transport
    finally:
        await transport.aclose()
        await session.close()


@asynccontextmanager
async def open_http1(tls: ssl.SSLContext | None) -> AsyncIterator[Transport]:
    """Our own transport."""
    transport = Http1Transport(tls)
    try:
        yield transport
    finally:
        await transport.aclose()


Opener = Callable[[ssl.SSLContext | None], AbstractAsyncContextManager[Transport]]
OPENERS: dict[str, Opener] = {"aiohttp": open_aiohttp, "http1": open_http1}


class Stage:
    """One transport under one loop."""

    def __init__(self, transport: str, loop: str) -> None:
        self.transport = transport
        self.loop = loop

    def __str__(self) -> str:
        return f"{self.transport}-{self.loop}"

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """`slow`, but for the stage on which nearly all requests are sent."""
        return [] if (self.transport, self.loop) == ("http1", "uvloop") else [pytest.mark.slow]

    def run(
        self,
        main: Callable[[Transport], Awaitable[T]],
        *,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
        opener: Opener | None = None,
        collect: bool = False,
    ) -> T:
        """What `main` gives; fails if the loop was told of an error, or if a connection stays open.

        Args:
            main: gets an open transport.
            tls: stands for the certificates of this machine.
            resolve: stands for DNS.
            opener: opens the transport; None for that of this stage.
            collect: whether garbage is looked through for sockets and tasks that nobody closed.
        """
        problems: list[dict[str, Any]] = []

        async def play() -> T:
            async with asyncio.timeout(LAST_RESORT_S):
                async with (opener or OPENERS[self.transport])(tls) as transport:
                    result = await main(transport)
                await asyncio.sleep(0)
                return result

        def make_loop() -> asyncio.AbstractEventLoop:
            loop = LOOPS[self.loop]()
            loop.resolve = resolve
            loop.set_exception_handler(lambda _, context: problems.append(context))
            return loop

        with asyncio.Runner(loop_factory=make_loop) as runner:
            if collect:
                gc.freeze()  # what was there before costs no time and is not blamed on this test
            try:
                result = runner.run(play())
                if collect:
                    gc.collect()
                    runner.run(asyncio.sleep(0))
            finally:
                gc.unfreeze()
        assert not problems
        return result

    async def close(self, transport: Transport) -> None:
        """Closes a transport with its connections."""
        await transport.aclose()
        if isinstance(transport, AiohttpTransport):
            await transport._session.close()


STAGES = [Stage(transport, loop) for transport in OPENERS for loop in LOOPS]
STAGE_PARAMS = [pytest.param(stage, id=str(stage), marks=stage.marks) for stage in STAGES]


async def exchange(
    transport: Transport,
    url: str,
    body: bytes = b"mine",
    *,
    head: RequestHead | None = None,
    by_pieces: bool = False,
) -> Reply | Failure:
    """What one call gives, read whole or in pieces."""
    try:
        response = await transport.send(head or RequestHead("POST", URL(url), {}), body)
        try:
            content = await (read_pieces(response) if by_pieces else response.read())
        except BaseException:
            response.close()
            raise
    except TransportError as error:
        return Failure(type(error), str(error))
    return Reply(response.status, bytes(content))


async def read_pieces(response: Response) -> bytes:
    """The whole body, taken piece by piece."""
    return b"".join([piece async for piece in response.pieces()])


def may_fail_with(stage: Stage, faults: Mapping[str, str], name: str) -> list[pytest.MarkDecorator]:
    """The mark of a test that aiohttp may fail: `faults` says what it does instead."""
    if stage.transport != "aiohttp" or name not in faults:
        return []
    return [pytest.mark.xfail(reason=faults[name], strict=False)]


def skip_fault(stage: Stage, reason: str) -> None:
    """Skips the test of a promise that aiohttp does not keep."""
    if stage.transport == "aiohttp":
        pytest.skip(f"aiohttp {reason}")


def matches(outcome: Reply | Failure, expected: Reply | Failure) -> bool:
    """Whether a call gave what was expected: that reply, or an error of that class that says so."""
    if isinstance(expected, Reply) or isinstance(outcome, Reply):
        return outcome == expected
    return issubclass(outcome.error, expected.error) and expected.message in outcome.message
