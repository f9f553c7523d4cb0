"""Addresses → connected sockets, and what the errors of connecting mean."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence

from proctor.targets.transport.address_cache import Address
from proctor.targets.transport.protocol import ConnectError, TlsError

_ATTEMPT_DELAY_S = 0.25
"""How long an address has before the next one is tried beside it (RFC 8305, section 5)."""
MAX_CONNECT_S = 30.0
"""How long one address may take to connect, and a TLS handshake may take."""


async def connect_socket(addresses: Sequence[Address]) -> tuple[socket.socket, Address]:
    """Returns a socket that is connected to the first address that takes it; raises OSError if none does."""
    if len(addresses) == 1:
        return await _connect(addresses[0]), addresses[0]
    attempts: dict[asyncio.Task[socket.socket], Address] = {}
    error: OSError | None = None
    remaining = list(addresses)
    try:
        while remaining or attempts:
            if remaining:
                address = remaining.pop(0)
                attempts[asyncio.create_task(_connect(address))] = address
            done, _ = await asyncio.wait(
                attempts,
                timeout=_ATTEMPT_DELAY_S if remaining else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in done:
                address = attempts.pop(attempt)
                try:
                    return attempt.result(), address
                except OSError as failure:
                    error = failure
        assert error is not None
        raise error
    finally:
        await _end(list(attempts))


async def _end(attempts: list[asyncio.Task[socket.socket]]) -> None:
    for attempt in attempts:
        attempt.cancel()
    for result in await asyncio.gather(*attempts, return_exceptions=True):
        if isinstance(result, socket.socket):  # it was connected in the same moment as another one
            result.close()


async def _connect(address: Address) -> socket.socket:
    connected = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        async with asyncio.timeout(MAX_CONNECT_S):
            await asyncio.get_running_loop().sock_connect(connected, address.sockaddr)
    except BaseException:
        connected.close()
        raise
    return connected


def make_tls_context() -> ssl.SSLContext:
    """Returns the settings of TLS: the system's authorities, or those in `SSL_CERT_FILE`."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def translate_connect_error(error: OSError) -> ConnectError:
    """Returns the error for a connection that could not be made, in the system's words."""
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return TlsError(_describe_tls_error(error))
    if isinstance(error, (ssl.SSLEOFError, ConnectionResetError, ConnectionAbortedError)):
        return ConnectError("the server closed the connection before it was encrypted")
    if isinstance(error, TimeoutError) and error.errno is None:
        return ConnectError("Connection timed out")
    if isinstance(error, socket.gaierror) or error.errno is None:
        return ConnectError(error.strerror or str(error))
    return ConnectError(os.strerror(error.errno))


def _describe_tls_error(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    reason = error.reason or str(error)
    if reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"}:
        return f"the server does not use TLS ({reason})"
    if "PROTOCOL" in reason:
        return f"the server uses another version of TLS ({reason})"
    return f"the TLS handshake failed ({reason})"
