"""An HTTP server on loopback that keeps to a script of bytes, pauses and ends, also over TLS.

It runs in the loop of the client, so that a pause is a few turns of that loop and never a time.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from msgspec import Struct

_TURNS = 6
"""The turns of the loop that take a piece from one end of a connection on loopback to the other."""
_STILL = 200
"""A number of turns of the loop; what has not moved in them waits for somebody."""
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


async def breathe(turns: int = _TURNS) -> None:
    """Lets what is under way in this loop happen."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def settle(read: Callable[[], int]) -> int:
    """The number that `read` gives as soon as it has stopped to change."""
    last, still = read(), 0
    while still < _STILL:
        await asyncio.sleep(0)
        now = read()
        last, still = now, still + 1 if now == last else 0
    return last


class SeenRequest(Struct, frozen=True):
    """One request as it arrived, with the number of its connection, from 1."""

    connection: int
    head: bytes
    body: bytes


class PeerGone(Exception):
    """The client has closed the connection, or the script has."""


class Peer:
    """One connection as the server's script sees it."""

    def __init__(
        self,
        server: HostileServer,
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.server = server
        self.number = number
        self._reader = reader
        self._writer = writer

    async def read_head(self) -> bytes:
        """The next head; raises PeerGone."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError) as error:
            raise PeerGone from error
        self.server.heads.append(head)
        return head

    async def read(self) -> SeenRequest:
        """The next request, whole; raises PeerGone."""
        head = await self.read_head()
        length = _LENGTH.search(head)
        try:
            body = await self._reader.readexactly(int(length[1]) if length else 0)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise PeerGone from error
        request = SeenRequest(self.number, head, body)
        self.server.requests.append(request)
        return request

    async def read_some(self) -> None:
        """Throws away what comes first."""
        with suppress(OSError):
            await self._reader.read(2**16)

    async def send(self, data: bytes) -> None:
        """Sends as fast as the client takes it; raises PeerGone."""
        if self._writer.transport.is_closing():
            raise PeerGone
        self._writer.write(data)
        self.server.sent += len(data)
        try:
            await self._writer.drain()
        except OSError as error:
            raise PeerGone from error

    def send_at_once(self, data: bytes) -> None:
        """Puts some bytes into the client's buffers before its loop turns; none stand for the end."""
        descriptor = self._writer.get_extra_info("socket").fileno()
        if data:
            os.write(descriptor, data)
        else:
            with socket.socket(fileno=os.dup(descriptor)) as copy:
                copy.shutdown(socket.SHUT_WR)

    async def wait_for_end(self) -> None:
        """Returns when the client has closed the connection; what it sends is thrown away."""
        with suppress(OSError):
            while await self._reader.read(2**16):
                pass

    def end_output(self) -> None:
        """Closes this half of the connection."""
        with suppress(OSError):
            self._writer.write_eof()

    def close(self) -> None:
        """Closes the connection in peace."""
        self._writer.close()

    def reset(self) -> None:
        """Ends the connection at once, with a reset."""
        with suppress(OSError):
            self._writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
            )
        self._writer.transport.abort()


Step = bytes | Callable[[Peer], Awaitable[None]]
"""Bytes to send, or what else to do."""
Script = Sequence[Step]


async def read_request(peer: Peer) -> None:
    """Reads a whole request."""
    await peer.read()


async def read_head(peer: Peer) -> None:
    """Reads the head of a request, and leaves its body."""
    await peer.read_head()


async def pause(_: Peer) -> None:
    """Lets the client take what was sent."""
    await breathe()


async def hang(peer: Peer) -> None:
    """Does nothing until the client closes the connection."""
    peer.server.reached.set()
    await peer.wait_for_end()
    raise PeerGone


async def stay(peer: Peer) -> None:
    """Does nothing and reads nothing, until the server ends."""
    peer.server.reached.set()
    await peer.server.closing.wait()
    raise PeerGone


async def reset(peer: Peer) -> None:
    """Resets the connection once the client has taken what was sent."""
    await breathe()
    peer.reset()
    raise PeerGone


async def close(peer: Peer) -> None:
    """Closes the connection once the client has taken what was sent."""
    await breathe()
    peer.close()
    raise PeerGone


async def half_close(peer: Peer) -> None:
    """Sends nothing more, and waits for the client."""
    await breathe()
    peer.end_output()
    await peer.wait_for_end()
    raise PeerGone


def drip(data: bytes, size: int = 1) -> Step:
    """Sends pieces of some bytes, each by itself."""

    async def step(peer: Peer) -> None:
        for start in range(0, len(data), size):
            await peer.send(data[start : start + size])
            await breathe(3)

    return step


def flood(beginning: bytes, piece: bytes, most: int = 2**22) -> Step:
    """Sends the same piece again and again until the client closes the connection, or until `most` bytes."""

    async def step(peer: Peer) -> None:
        await peer.send(beginning)
        block = piece * max(1, 2**14 // len(piece))
        for _ in range(most // len(block)):
            await peer.send(block)
            await asyncio.sleep(0)
        peer.server.was_flooded = True
        peer.reset()
        raise PeerGone

    return step


def reply_with(body: bytes) -> bytes:
    """A plain response."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


class HostileServer:
    """Plays one script on each of its first connections, and after it echoes what each request says."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        self.port = 0
        self.url = ""
        self.requests: list[SeenRequest] = []
        self.heads: list[bytes] = []
        """The heads of requests, also of those whose body did not arrive."""
        self.peers: list[Peer] = []
        self.connections = 0
        """How many were made, over TLS with a handshake."""
        self.sent = 0
        """How many bytes scripts have sent."""
        self.was_flooded = False
        """Whether a client took a flood to its end."""
        self.reached = asyncio.Event()
        """Set when a script has come to where it hangs."""
        self.closing = asyncio.Event()
        self._scripts = list(scripts)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection."""
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        self.connections += 1
        peer = Peer(self, self.connections, reader, writer)
        self.peers.append(peer)
        script = self._scripts.pop(0) if self._scripts else ()
        try:
            for step in script:
                await (peer.send(step) if isinstance(step, bytes) else step(peer))
            while True:
                request = await peer.read()
                await peer.send(reply_with(request.body))
        except (PeerGone, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(task)

    @property
    def open_connections(self) -> int:
        """How many connections neither side has closed."""
        return len(self._tasks)

    async def wait_until_unconnected(self) -> None:
        """Returns when every client has closed its connections."""
        await breathe()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Ends all connections."""
        self.closing.set()
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)


@asynccontextmanager
async def serve(
    *scripts: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", name: str = ""
) -> AsyncIterator[HostileServer]:
    """A server for as long as the block lasts; its address has `name` as host, if that is given."""
    hostile = HostileServer(scripts)
    server = await asyncio.start_server(hostile.handle, host, 0, ssl=tls)
    hostile.port = server.sockets[0].getsockname()[1]
    host_name = name or (f"[{host}]" if ":" in host else host)
    hostile.url = f"{'https' if tls else 'http'}://{host_name}:{hostile.port}/v1"
    try:
        yield hostile
    finally:
        server.close()
        await hostile.close()


@contextmanager
def open_blackhole(host: str = "127.0.0.1") -> Iterator[int]:
    """A port of which nobody answers: its queue of connections is full."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener, socket.socket(family) as first:
        listener.bind((host, 0))
        listener.listen(0)
        first.connect(listener.getsockname())
        yield listener.getsockname()[1]


@contextmanager
def open_refusal(host: str = "127.0.0.1") -> Iterator[int]:
    """A port that refuses connections: nobody listens on it, and nobody else can."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as unused:
        unused.bind((host, 0))
        yield unused.getsockname()[1]
