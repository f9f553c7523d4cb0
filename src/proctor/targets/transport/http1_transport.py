"""A transport of keep-alive HTTP/1.1 with TLS over an asyncio protocol: what nearly all requests take.

A request is never written twice. One that reuses a connection may meet the server just as that closes it
(RFC 9112, section 9.5); whether the server has acted is then unknown, and a POST must not be repeated without
its caller (RFC 9110, section 9.2.2). Such a call fails as any other whose connection ends, and the engine
counts its next try. So that this is rare, idle connections are closed before servers usually do, the newest
is reused first, and not if its end waits to be read, even if the event loop has not reached that yet. A
call whose connection ends before its request is written takes another one.
"""

from __future__ import annotations

import ssl

from proctor.targets.transport.address_cache import AddressCache
from proctor.targets.transport.connect import make_tls_context
from proctor.targets.transport.connection import UnsentRequest
from proctor.targets.transport.connection_pool import HttpConnectionPool
from proctor.targets.transport.http1_response import Http1Response
from proctor.targets.transport.protocol import ConnectError, Origin, RequestHead


class Http1Transport:
    """Sends over connections of its own; implements `protocol.Transport`."""

    def __init__(self, tls_context: ssl.SSLContext | None = None) -> None:
        """Takes the settings of TLS; None for the usual ones, which are made for the first https address."""
        self._addresses = AddressCache()
        self._pools: dict[Origin, HttpConnectionPool] = {}
        self._tls_context = tls_context
        self._is_closed = False

    async def send(self, head: RequestHead, body: bytes) -> Http1Response:
        """Sends one request and returns the head of its response; raises TransportError."""
        pool = self._pools.get(head.origin)
        if pool is None:
            if self._is_closed:
                raise ConnectError("the transport is closed")
            if head.origin.scheme not in {"http", "https"} or not head.origin.host:
                raise ConnectError("the URL does not look like http://HOST:PORT")
            pool = HttpConnectionPool(head.origin, self._addresses, self._get_tls_context)
            self._pools[head.origin] = pool
        while connection := pool.take():
            try:
                return await connection.exchange(head.encoded, body, keeps=head.keeps_connection)
            except UnsentRequest:
                continue  # nothing was written, and the connection has ended
        connection = await pool.connect()
        return await connection.exchange(head.encoded, body, keeps=head.keeps_connection)

    async def aclose(self) -> None:
        """Ends all connections, and returns when they are closed."""
        self._is_closed = True
        await self._addresses.aclose()
        while self._pools:
            _, pool = self._pools.popitem()
            await pool.aclose()

    def _get_tls_context(self) -> ssl.SSLContext:
        if self._tls_context is None:
            self._tls_context = make_tls_context()
        return self._tls_context
