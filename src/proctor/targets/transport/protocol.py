"""The door to HTTP: what a transport offers, and how it fails."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from yarl import URL

from proctor import __version__
from proctor.errors import UsageError

USER_AGENT = f"proctor/{__version__}"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""What a header may be called (RFC 9110, section 5.6.2)."""
_FORBIDDEN = re.compile(r"[\r\n\0]")
_FRAMING_HEADERS = frozenset({"content-length", "transfer-encoding"})
"""They say where a body ends, which nobody but a transport knows."""


class Origin(NamedTuple):
    """The server that a request goes to."""

    scheme: str
    host: str
    port: int


class RequestHead:
    """The method, address and headers of requests; it is made once for all of them that share it."""

    __slots__ = ("_encoded", "headers", "keeps_connection", "method", "origin", "url")

    def __init__(self, method: str, url: URL, headers: Mapping[str, str]) -> None:
        """Takes headers without those that a transport adds, such as `Host` and `Content-Length`.

        The method is not HEAD, whose replies announce a body that does not come.

        Raises:
            UsageError: a header has a character that would end it.
        """
        for name, value in headers.items():
            if not _NAME.fullmatch(name) or _FORBIDDEN.search(value):
                raise UsageError(
                    f"The header {name!r} would contain a character that is not allowed in a header. Check "
                    f"the headers of the target and its key."
                )
        self.method = method
        self.url = url
        self.headers = headers
        self.origin = Origin(url.scheme, url.raw_host or "", url.port or 0)
        tokens = (value.lower() for name, value in headers.items() if name.lower() == "connection")
        self.keeps_connection = not any("close" in value for value in tokens)
        self._encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """The head in HTTP/1.1, up to the value of `Content-Length`."""
        if self._encoded is None:
            self._encoded = _encode_head(self)
        return self._encoded


def _encode_head(head: RequestHead) -> bytes:
    url = head.url
    host, port = head.origin.host.partition("%")[0].rstrip("."), head.origin.port
    host = f"[{host}]" if ":" in host else host
    headers = {
        "Host": host if url.is_default_port() else f"{host}:{port}",
        "Accept": "*/*",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": USER_AGENT,
    }
    if url.raw_user is not None or url.raw_password is not None:
        user = f"{url.user or ''}:{url.password or ''}"
        headers["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
    own_names = {name.lower() for name in head.headers}
    lines = [f"{head.method} {url.raw_path_qs} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items() if name.lower() not in own_names]
    lines += [
        f"{name}: {value}" for name, value in head.headers.items() if name.lower() not in _FRAMING_HEADERS
    ]
    return "\r\n".join([*lines, "Content-Length: "]).encode()


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

    def find_header(self, names: Sequence[str]) -> str | None:
        """Returns the value of the first of these headers that there is; None if there is none of them."""

    def take_body(self, max_size: int) -> bytes | bytearray | None:
        """Returns the whole body if it has arrived, and needs no decompression.

        None if it needs to be awaited, or has more bytes than that.
        """

    async def read(self) -> bytes | bytearray:
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
