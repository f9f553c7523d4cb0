"""Limits on the connections and event streams of one client and of all clients."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address

from msgspec import Struct

from proctor.web.security import RequestRefused

IPV6_NETWORK_BITS = 64
"""A client usually owns a whole network of this size."""


class ServerLimits(Struct, frozen=True, kw_only=True):
    """The limits of a server; a client is an IPv4 address or an IPv6 /64 network."""

    request_head_s: float = 10.0
    """From the connection, or from the first byte of the next request, to the end of the head."""
    request_body_s: float = 10.0
    """For a body, in addition to its time at `min_body_bytes_per_s`."""
    min_body_bytes_per_s: int = 1024
    response_stall_s: float = 60.0
    """How long a client may read nothing of a pending response."""
    idle_connections: int = 32
    """For one client."""
    client_event_streams: int = 64
    """For one client."""
    event_streams: int = 1_000
    """For all clients together."""
    max_head_bytes: int = 64 * 2**10
    """Heads may be long, as browsers send the cookies of every server of a host."""


DEFAULT_LIMITS = ServerLimits()


def client_key(host: str) -> str:
    """Returns what identifies a client: its IPv4 address, also when mapped to IPv6, or its IPv6 network."""
    try:
        address = ip_address(host)
    except ValueError:  # the peer of a Unix socket
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{int(address) >> (128 - IPV6_NETWORK_BITS):x}"


class EventStreams:
    """Counts open event streams; used only from the server's event loop."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._open: Counter[str] = Counter()

    @contextlib.contextmanager
    def reserve(self, host: str) -> Iterator[None]:
        """Counts one more stream of the client at that address for as long as the block lasts.

        Raises:
            RequestRefused: the client, or all clients together, have too many.
        """
        client = client_key(host)
        self._check(client)
        self._open[client] += 1
        try:
            yield
        finally:
            self._open[client] -= 1
            self._open += Counter()  # drops clients without a stream

    def _check(self, client: str) -> None:
        headers = {"retry-after": "30"}
        if self._open[client] >= self._limits.client_event_streams:
            raise RequestRefused(
                429,
                f"Your address has {self._limits.client_event_streams} live pages open, which is the "
                "limit. Close some of them, or reload this page for its current state.",
                headers,
            )
        if self._open.total() >= self._limits.event_streams:
            raise RequestRefused(
                503,
                f"This server has {self._limits.event_streams} live pages open, which is the limit. "
                "Reload this page for its current state.",
                headers,
            )
