"""Our transport: connections that are kept, callers that go away, bodies that do not fit."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from yarl import URL

from proctor.targets.transport import connection_pool
from proctor.targets.transport.addresses import AddressBook
from proctor.targets.transport.connecting import connect_socket
from proctor.targets.transport.connection import Connection
from proctor.targets.transport.connection_pool import HttpConnectionPool
from proctor.targets.transport.http1_transport import Http1Transport
from proctor.targets.transport.protocol import ConnectError, RequestHead, TransportError
from support.waiting import PATIENCE_S

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def until(ready: Callable[[], bool]) -> None:
    """Lets the loop go on until that is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not ready():
            await asyncio.sleep(0.001)


class Server:
    """Counts its connections, and which of them have ended."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.opened = self.closed = 0
        self.head = RequestHead("POST", URL("http://127.0.0.1"), {})

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            await self._handler(reader, writer)
            while await reader.read(2**16):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.closed += 1
            writer.close()


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[Server]:
    server = Server(handler)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server.head = RequestHead("POST", URL(f"http://127.0.0.1:{port}/"), {})
    try:
        yield server
    finally:
        listening.close()


@pytest.fixture
async def transport() -> AsyncIterator[Http1Transport]:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    made = Http1Transport()
    yield made
    await made.aclose()
    gc.collect()
    await asyncio.sleep(0)
    assert not problems


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    return await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))


def reply_with(reply: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(reply)

    return handle


async def ask(transport: Http1Transport, server: Server, body: bytes = b"x") -> bytes:
    response = await transport.send(server.head, body)
    return bytes(await response.read())


async def test_calls_one_after_the_other_share_a_connection(transport: Http1Transport) -> None:
    async with serve(reply_with(OK)) as server:
        assert [await ask(transport, server) for _ in range(5)] == [b"ok"] * 5
        assert server.opened == 1
        await asyncio.gather(*(ask(transport, server) for _ in range(4)))
        assert server.opened == 4


async def test_a_head_with_an_end_in_it_uses_its_connection_once(transport: Http1Transport) -> None:
    async with serve(reply_with(OK)) as server:
        server.head = RequestHead("POST", server.head.url, {"Connection": "close"})
        assert [await ask(transport, server) for _ in range(2)] == [b"ok"] * 2
        assert server.opened == 2


@pytest.mark.parametrize("rest", [b"", OK])
async def test_a_connection_that_ends_before_its_next_request_is_written_gets_none(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch, rest: bytes
) -> None:
    is_waiting = asyncio.Event()
    bodies = list[bytes]()

    async def end_later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bodies.append(await read_request(reader))
        writer.write(OK)
        await is_waiting.wait()
        writer.write(rest)  # nobody asked for that
        writer.close()

    # The request is held back until the connection has ended.
    monkeypatch.setattr(HttpConnectionPool, "write_soon", lambda _pool, _connection: is_waiting.set())
    async with serve(end_later) as server:
        assert await ask(transport, server, b"1") == b"ok"
        assert await ask(transport, server, b"2") == b"ok"
        assert bodies == [b"1", b"2"]
        assert server.opened == 2


async def test_a_call_that_is_cancelled_before_its_request_is_written_sends_nothing(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = list[bytes]()
    waiting = list[Connection]()

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            bodies.append(await read_request(reader))
            writer.write(OK)

    monkeypatch.setattr(
        HttpConnectionPool, "write_soon", lambda _pool, connection: waiting.append(connection)
    )
    async with serve(count) as server:
        assert await ask(transport, server, b"1") == b"ok"
        call = asyncio.create_task(ask(transport, server, b"2"))
        await until(lambda: bool(waiting))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        waiting[0].write_request()
        await until(lambda: server.closed == 1)
        assert await ask(transport, server, b"3") == b"ok"
        assert bodies == [b"1", b"3"]


@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 0\r\n\r\n", OK]
)
async def test_an_idle_connection_is_closed_in_time(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch, reply: bytes
) -> None:
    monkeypatch.setattr(connection_pool, "_SWEEP_S", 0.001)
    async with serve(reply_with(reply)) as server:
        response = await transport.send(server.head, b"")
        await response.read()
        if reply is OK:
            monkeypatch.setattr(
                next(iter(next(iter(transport._pools.values()))._connections)), "idle_limit_s", 0.0
            )
        await until(lambda: server.closed == 1)


async def test_a_connection_that_the_server_closed_is_not_used_again(transport: Http1Transport) -> None:
    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        writer.close()

    async with serve(answer_once) as server:
        for count in range(1, 6):
            assert await ask(transport, server) == b"ok"
            await until(lambda: server.closed == count)  # noqa: B023
            await asyncio.sleep(0)
            assert server.opened == count


@pytest.mark.parametrize("beginning", [b"", OK[:20], OK[:-1]])
async def test_a_caller_that_goes_away_ends_its_connection(
    transport: Http1Transport, beginning: bytes
) -> None:
    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(beginning)

    async with serve(begin) as server:
        call = asyncio.create_task(ask_and_close(transport, server))
        await until(lambda: server.opened == 1)
        await asyncio.sleep(0.002)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: server.closed == 1)


async def ask_and_close(transport: Http1Transport, server: Server) -> None:
    response = await transport.send(server.head, b"x")
    try:
        await response.read()
    finally:
        response.close()


async def test_a_caller_that_goes_away_just_as_the_head_arrives_ends_its_connection(
    transport: Http1Transport,
) -> None:
    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK[:-1])

    async with serve(begin) as server:
        call = asyncio.create_task(transport.send(server.head, b"x"))
        await until(lambda: bool(transport._pools))
        (pool,) = transport._pools.values()
        await until(lambda: bool(pool._connections))
        (connection,) = pool._connections
        await until(lambda: connection._response is not None)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        if not call.cancelled():
            call.result().close()
        await until(lambda: server.closed == 1)


async def test_a_large_body_arrives_whole_and_a_reply_ends_it_early(transport: Http1Transport) -> None:
    sizes = []

    async def measure(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sizes.append(len(await read_request(reader)))
        writer.write(OK)

    body = b"0" * 5_000_000
    async with serve(measure) as server:
        assert await ask(transport, server, body) == b"ok"
    assert sizes == [len(body)]

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await writer.drain()

    async with serve(refuse) as server:
        response = await transport.send(server.head, b"0" * 50_000_000)
        assert (response.status, bytes(await response.read())) == (413, b"no")
        await asyncio.sleep(0)
        (*_, pool) = transport._pools.values()
        await until(lambda: not pool._connections)


async def test_the_server_waits_while_nobody_reads(transport: Http1Transport) -> None:
    size, sent = 20 * 2**20, 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(b"0" * 2**16)
            sent += 2**16
            await writer.drain()

    async with serve(pour) as server:
        response = await transport.send(server.head, b"")
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.01)
        assert sent < size
        assert len(response._body) <= 2**19
        assert sum([len(piece) async for piece in response.pieces()]) == size
        assert response.is_read


async def test_closing_ends_what_is_under_way_and_leaves_no_socket(transport: Http1Transport) -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async with serve(hang) as server, serve(reply_with(OK)) as kind:
        await ask(transport, kind)
        calls = [asyncio.create_task(ask(transport, server)) for _ in range(3)]
        await until(lambda: server.opened == 3)
        pools = list(transport._pools.values())
        await transport.aclose()
        assert not any(pool._connections or pool._idle for pool in pools)
        with pytest.raises(TransportError, match="closed"):
            await ask(transport, kind)
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, TransportError)
        await until(lambda: (server.closed, kind.closed) == (3, 1))


async def test_one_lookup_serves_all_who_ask_and_failed_ones_are_forgotten(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups: list[str] = []
    fails = True

    async def resolve(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
        lookups.append(host)
        await asyncio.sleep(0)
        if fails:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async with serve(reply_with(OK)) as server:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        server.head = RequestHead("POST", server.head.url.with_host("models.example"), {})
        outcomes = await asyncio.gather(*(ask(transport, server) for _ in range(3)), return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["Name or service not known"] * 3
        assert all(isinstance(outcome, ConnectError) for outcome in outcomes)
        assert len(lookups) == 1
        fails = False
        await asyncio.gather(*(ask(transport, server) for _ in range(3)))
        await asyncio.gather(*(ask(transport, server) for _ in range(9)))
        assert len(lookups) == 2


async def test_a_dead_address_costs_a_moment_once(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    async with serve(reply_with(OK)) as server:
        port = server.head.origin.port
        loop = asyncio.get_running_loop()
        tried = []
        connect = loop.sock_connect

        async def record(sock: socket.socket, address: Any) -> None:
            tried.append(address[1])
            await connect(sock, address)

        async def resolve(host: str, port_: int, **_: object) -> list[tuple[Any, ...]]:
            rows = [("127.0.0.1", unused_tcp_port), ("127.0.0.1", port)]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", row) for row in rows]

        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        monkeypatch.setattr(loop, "sock_connect", record)
        book = AddressBook()
        for _ in range(2):
            connected, address = await connect_socket(await book.find("models.example", port))
            book.prefer("models.example", port, address)
            connected.close()
        assert tried == [unused_tcp_port, port, port]
