"""The door to HTTP: what a transport offers, and how it fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from yarl import URL


class RequestHead:
    """The method, address and headers of requests; it is made once for all of them that share it."""

    __slots__ = ("headers", "method", "url")

    def __init__(self, method: str, url: URL, headers: Mapping[str, str]) -> None:
        """Takes headers without those that a transport adds, such as `Host` and `Content-Length`."""
        self.method = method
        self.url = url
        self.headers = headers


class TransportError(Exception):
    """There is no complete response; the message says why, without a full stop."""


class ConnectError(TransportError):
    """No connection was made, so that nothing was sent."""


class TlsError(ConnectError):
    """The server's certificate or its encryption was refused."""


class ProxyError(ConnectError):
    """A proxy refused to connect, with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the proxy answered {status}")
        self.status = status


class Response(Protocol):
    """The head of a response, whose body is read as it arrives."""

    @property
    def status(self) -> int:
        """The status; never an interim one (1xx)."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, found by names in any case; the first one counts where a name is repeated.

        Bytes that are not UTF-8 are surrogate escapes.
        """

    @property
    def size(self) -> int | None:
        """How many bytes the body has by its head; None if that is unknown or the body is compressed."""

    @property
    def is_read(self) -> bool:
        """Whether nothing is left to read."""

    async def read(self) -> bytes:
        """Returns the rest of the body, decompressed.

        Raises:
            TransportError: it was cut off, or cannot be decompressed.
        """

    def pieces(self) -> AsyncIterator[bytes]:
        """Yields the rest of the body as it arrives, decompressed, in pieces of at most 256 KiB or so.

        The server has to wait while nobody takes them.

        Raises:
            TransportError: it was cut off, or cannot be decompressed.
        """

    def close(self) -> None:
        """Ends the connection, unless the body has been read to its end."""


class Transport(Protocol):
    """Sends requests over connections that stay open; no request is sent twice, no redirect is followed."""

    async def send(self, head: RequestHead, body: bytes) -> Response:
        """Sends one request and returns the head of its response. A caller that is cancelled ends it.

        Raises:
            ConnectError: nothing was sent.
            TransportError: the connection ended before the head of a response, or that is no HTTP.
        """

    async def aclose(self) -> None:
        """Closes all connections."""
