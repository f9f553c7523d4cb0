"""A transport over aiohttp, for proxies and for whatever else is unusual."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from io import BytesIO

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientResponse,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)
from yarl import URL

from proctor.targets.transport.protocol import (
    USER_AGENT,
    ConnectError,
    ProxyError,
    RequestHead,
    TlsError,
    TransportError,
)

# aiohttp warns about a body of more than a MiB in one piece.
_MAX_CHUNK = 2**20
_DNS_LIFETIME_S = 300


def open_session() -> ClientSession:
    """Returns a session without limits on connections and times; needs a running event loop."""
    return ClientSession(
        connector=TCPConnector(limit=0, ttl_dns_cache=_DNS_LIFETIME_S),
        cookie_jar=DummyCookieJar(),
        headers={"User-Agent": USER_AGENT},
        timeout=ClientTimeout(total=None),
        trust_env=False,
        auto_decompress=True,
    )


class AiohttpTransport:
    """Sends by a session of aiohttp; implements `protocol.Transport`."""

    def __init__(self, session: ClientSession, proxy: URL | None = None) -> None:
        """Takes a session, which it does not close, and the proxy for all requests."""
        self._session = session
        self._proxy = proxy

    async def send(self, head: RequestHead, body: bytes) -> AiohttpResponse:
        """Sends one request and returns the head of its response; raises TransportError."""
        try:
            response = await self._session.request(
                head.method,
                head.url,
                data=body if len(body) < _MAX_CHUNK else BytesIO(body),
                headers=head.headers,
                proxy=self._proxy,
                allow_redirects=False,
            )
        except (ClientError, OSError) as error:
            raise _translate(error) from error
        except UnicodeError as error:
            raise ConnectError(f"{(head.url.host or '')[:80]!r} is not a valid host name") from error
        return AiohttpResponse(response)

    async def aclose(self) -> None:
        """Does nothing: the session belongs to its maker."""


class AiohttpResponse:
    """A response of aiohttp; implements `protocol.Response`."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    @property
    def size(self) -> int | None:
        """How many bytes the body has; None if its head does not say."""
        # With a Content-Encoding it is the compressed size, which says nothing about the real one.
        return None if "Content-Encoding" in self.headers else self._response.content_length

    @property
    def is_read(self) -> bool:
        """Whether nothing is left to read."""
        return self._response.content.at_eof()

    def find_header(self, names: Sequence[str]) -> str | None:
        """Returns the value of the first of these headers that there is."""
        return next((self.headers[name] for name in names if name in self.headers), None)

    def take_body(self, max_size: int) -> None:
        """Returns None: aiohttp does not tell whether the whole body has arrived."""

    async def read(self) -> bytes:
        """Returns the rest of the body; raises TransportError."""
        try:
            return await self._response.read()
        except (ClientError, OSError) as error:
            raise _translate(error) from error

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the rest of the body as it arrives; raises TransportError."""
        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except (ClientError, OSError) as error:
            raise _translate(error) from error

    def close(self) -> None:
        """Ends the connection, unless the body has been read to its end."""
        self._response.close()


def _translate(error: ClientError | OSError) -> TransportError:
    why = str(error) or type(error).__name__
    if isinstance(error, (ClientConnectorCertificateError, ClientSSLError)):
        return TlsError(why)
    if isinstance(error, ClientHttpProxyError):
        return ProxyError(error.status)
    if isinstance(error, ClientConnectorError):
        why = error.os_error.strerror or str(error.os_error)
        return ConnectError(why or "the server closed the connection before it was encrypted")
    return TransportError(why)
