"""The connections to one origin: idle ones are used again, the newest first."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from proctor.targets.transport.address_cache import AddressCache
from proctor.targets.transport.connect import MAX_CONNECT_S, connect_socket, translate_connect_error
from proctor.targets.transport.connection import Connection
from proctor.targets.transport.protocol import ConnectError, Origin

_SWEEP_S = 2.0
"""How often idle connections are looked at."""
_TLS_SHUTDOWN_S = 1.0
"""How long a server may take to confirm the end of an encrypted connection."""


class HttpConnectionPool:
    """Opens connections to one origin, and keeps the idle ones for a while."""

    def __init__(
        self, origin: Origin, addresses: AddressCache, get_tls_context: Callable[[], ssl.SSLContext]
    ) -> None:
        """Opens nothing."""
        self._origin = origin
        self._addresses = addresses
        self._get_tls_context = get_tls_context
        self._idle: dict[Connection, None] = {}
        """The newest is the last."""
        self._connections: set[Connection] = set()
        self._write_queue: list[Connection] = []
        """The connections whose requests are written at the next turn of the event loop."""
        self._attempts: set[asyncio.Task[Connection]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._all_lost: asyncio.Future[None] | None = None

    def take(self) -> Connection | None:
        """Returns an idle connection that seems to be open; None if there is none."""
        idle = self._idle
        while idle:
            connection, _ = idle.popitem()
            if connection.is_open():
                return connection
            connection.abort()
        return None

    def add(self, connection: Connection) -> None:
        """Notes a connection that is made."""
        self._connections.add(connection)
        if self._is_closed:
            connection.abort()

    def write_soon(self, connection: Connection) -> None:
        """Lets a connection write its request together with the others of this turn of the event loop.

        A server that sleeps is woken by each request, which costs much more than a request does. It is woken
        once if they are written one after the other, with nothing in between.
        """
        if not self._write_queue:
            asyncio.get_running_loop().call_soon(self._write_requests)
        self._write_queue.append(connection)

    def _write_requests(self) -> None:
        connections, self._write_queue = self._write_queue, []
        for connection in connections:
            connection.write_request()

    def release(self, connection: Connection) -> None:
        """Keeps a connection whose reply was read."""
        self._idle[connection] = None
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def forget(self, connection: Connection) -> None:
        """Forgets a connection that is closed."""
        self._connections.discard(connection)
        self._idle.pop(connection, None)
        if self._all_lost is not None and not self._connections and not self._all_lost.done():
            self._all_lost.set_result(None)

    async def connect(self) -> Connection:
        """Returns a new connection; raises ConnectError."""
        if self._is_closed:
            raise ConnectError("the transport is closed")
        attempt = asyncio.create_task(self._connect())
        self._attempts.add(attempt)
        attempt.add_done_callback(self._attempts.discard)
        try:
            return await attempt
        except asyncio.CancelledError:
            if attempt.done() and not attempt.cancelled() and attempt.exception() is None:
                attempt.result().abort()  # it was connected just as the caller was cancelled
            if self._is_closed:
                raise ConnectError("the transport is closed") from None
            raise

    async def _connect(self) -> Connection:
        _, host, port = self._origin
        try:
            addresses = await self._addresses.find(host, port)
            try:
                connected, address = await connect_socket(addresses)
            except OSError:
                self._addresses.forget(host, port)
                raise
            self._addresses.prefer(host, port, address)
            return await self._open(connected)
        except OSError as error:
            raise translate_connect_error(error) from error
        except UnicodeError as error:
            raise ConnectError(f"{host[:80]!r} is not a valid host name") from error

    async def _open(self, connected: socket.socket) -> Connection:
        """Returns the connection over a socket, encrypted if the origin says so."""
        loop = asyncio.get_running_loop()
        connection = Connection(self)
        try:
            if self._origin.scheme != "https":
                await loop.create_connection(lambda: connection, sock=connected)
                return connection
            await loop.create_connection(
                lambda: connection,
                sock=connected,
                ssl=self._get_tls_context(),
                server_hostname=self._origin.host.partition("%")[0].rstrip("."),
                ssl_handshake_timeout=MAX_CONNECT_S,
                ssl_shutdown_timeout=_TLS_SHUTDOWN_S,
            )
        except BaseException:
            if connected.fileno() < 0:  # uvloop has closed it, and does not tell the connection
                self.forget(connection)
            with suppress(OSError):
                # Its transport closes the socket, in asyncio only when it sees the end of it.
                connected.shutdown(socket.SHUT_RDWR)
            raise
        return connection

    async def aclose(self) -> None:
        """Ends all connections, and returns when they are closed."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        attempts = list(self._attempts)
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        for connection in list(self._connections):
            connection.abort()
        if self._connections:
            self._all_lost = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._all_lost], timeout=_TLS_SHUTDOWN_S)

    def _sweep(self) -> None:
        """Closes connections that were idle for too long."""
        self._sweeper = None
        for connection in [idle for idle in self._idle if not (idle.is_open() and idle.is_usable())]:
            del self._idle[connection]
            connection.abort()
        if self._idle:
            self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)
