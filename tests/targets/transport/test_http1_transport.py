"""Our transport: idle connections, DNS lookups and dead addresses."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from yarl import URL

from proctor.targets.transport import connection_pool
from proctor.targets.transport.address_cache import AddressCache
from proctor.targets.transport.connect import connect_socket
from proctor.targets.transport.connection import Connection
from proctor.targets.transport.connection_pool import HttpConnectionPool
from proctor.targets.transport.http1_transport import Http1Transport
from proctor.targets.transport.protocol import RequestHead, Transport
from support.certificates import NAME
from support.hostile_endpoints import start, with_headers
from support.hostile_http import Peer, breathe, hang, open_refusal, read_request, serve
from support.transports import Address, Failure, Reply, Stage, exchange

UVLOOP = Stage("http1", "uvloop")
NEXT = Reply(200, b"next")


def get_connection(transport: Transport) -> Connection:
    """The only connection of a transport."""
    assert isinstance(transport, Http1Transport)
    (pool,) = transport._pools.values()
    (connection,) = pool._connections
    return connection


@pytest.mark.parametrize("line", [b"Keep-Alive: timeout=1", b"X: y"], ids=["by-the-server", "by-default"])
def test_an_idle_connection_is_closed_in_time(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr(connection_pool, "_SWEEP_S", 0.001)

    async def main(transport: Transport) -> None:
        async with serve((read_request, with_headers(line))) as server:
            response = await transport.send(RequestHead("POST", URL(server.url), {}), b"")
            if line == b"X: y":
                get_connection(transport).idle_limit_s = 0.0
            await response.read()
            await server.wait_until_unconnected()

    UVLOOP.run(main)


def test_a_caller_that_is_cancelled_just_as_the_head_arrives_ends_its_connection() -> None:
    async def main(transport: Transport) -> None:
        async with serve((read_request, start + b"Content-Length: 2\r\n\r\no", hang)) as server:
            call = asyncio.create_task(transport.send(RequestHead("POST", URL(server.url), {}), b""))
            await server.reached.wait()
            while get_connection(transport)._response is None:
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            if not call.cancelled():
                call.result().close()
            await server.wait_until_unconnected()

    UVLOOP.run(main, collect=True)


@pytest.mark.parametrize("data", [b"", with_headers(b"X: y")], ids=["nothing", "a-reply"])
def test_a_connection_that_ends_before_its_next_request_is_written_gets_none(
    monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    async def main(transport: Transport) -> None:
        is_waiting = asyncio.Event()

        async def end_later(peer: Peer) -> None:
            await is_waiting.wait()
            await peer.send(data)  # bytes that answer no request
            peer.close()

        # The request is held back until the connection has ended.
        monkeypatch.setattr(HttpConnectionPool, "write_soon", lambda _pool, _connection: is_waiting.set())
        async with serve((read_request, with_headers(b"X: y"), end_later)) as server:
            await exchange(transport, server.url)
            assert await exchange(transport, server.url, b"next") == NEXT
            assert [request.connection for request in server.requests] == [1, 2]

    UVLOOP.run(main)


def test_a_call_that_is_cancelled_before_its_request_is_written_sends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(transport: Transport) -> None:
        waiting: asyncio.Queue[Connection] = asyncio.Queue()
        monkeypatch.setattr(
            HttpConnectionPool, "write_soon", lambda _pool, connection: waiting.put_nowait(connection)
        )
        async with serve() as server:
            await exchange(transport, server.url, b"first")
            call = asyncio.create_task(exchange(transport, server.url, b"second"))
            connection = await waiting.get()
            call.cancel()
            await asyncio.wait([call])
            connection.write_request()
            await server.wait_until_unconnected()
            assert await exchange(transport, server.url, b"next") == NEXT
            assert [request.body for request in server.requests] == [b"first", b"next"]

    UVLOOP.run(main)


def test_callers_of_a_name_share_a_lookup_and_a_failed_one_is_forgotten() -> None:
    names: list[str] = []
    ports: list[int] = []

    def resolve(name: str) -> list[Address]:
        names.append(name)
        if len(names) == 1:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [("127.0.0.1", ports[0])]

    async def main(transport: Transport) -> None:
        async with serve(name=NAME) as server:
            ports.append(server.port)
            outcomes = await asyncio.gather(*(exchange(transport, server.url) for _ in range(3)))
            assert all(isinstance(outcome, Failure) for outcome in outcomes)
            assert names == [NAME]
            for _ in range(2):
                calls = [exchange(transport, server.url, b"next") for _ in range(3)]
                assert await asyncio.gather(*calls) == [NEXT] * 3
            assert names == [NAME] * 2

    UVLOOP.run(main, resolve=resolve)


async def test_a_dead_address_costs_a_moment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    attempts: list[int] = []
    connect = loop.sock_connect

    async def record(sock: socket.socket, address: Any) -> None:
        attempts.append(address[1])
        await connect(sock, address)

    async with serve() as server:
        with open_refusal() as dead:

            async def resolve(_host: str, _port: int, **_: object) -> list[tuple[Any, ...]]:
                rows = [("127.0.0.1", port) for port in (dead, server.port)]
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", row) for row in rows]

            monkeypatch.setattr(loop, "getaddrinfo", resolve)
            monkeypatch.setattr(loop, "sock_connect", record)
            cache = AddressCache()
            for _ in range(2):
                connected, address = await connect_socket(await cache.find(NAME, server.port))
                cache.prefer(NAME, server.port, address)
                connected.close()
            await breathe()
    assert attempts == [dead, server.port, server.port]
