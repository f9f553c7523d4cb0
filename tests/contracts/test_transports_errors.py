"""The messages that users read when an endpoint fails, for every transport and event loop."""

from __future__ import annotations

import gzip
import ssl
from collections.abc import Callable
from functools import cache

import pytest
import trustme
from yarl import URL

from proctor.errors import AnswerTooLarge, EndpointFault, TargetError
from proctor.targets.api.http import JsonEndpoint
from proctor.targets.context import TargetContext
from proctor.targets.transport.protocol import Transport
from support.hostile_endpoints import chunked, encoded, framed, start
from support.hostile_http import Script, close, open_refusal, read_request, reset, serve
from support.transports import Stage

MAX_ANSWER = 2**20


class OneTransport(TargetContext):
    """A context whose transport is the one under test."""

    def __init__(self, transport: Transport) -> None:
        super().__init__({}, max_answer_bytes=MAX_ANSWER)
        self._transport = transport

    def get_transport(self, proxy: URL | None) -> Transport:
        """Returns the transport under test."""
        assert proxy is None
        return self._transport


async def post(transport: Transport, url: str) -> bytes:
    """The body of a reply to a JSON request; raises TargetError."""
    endpoint = JsonEndpoint(
        OneTransport(transport), URL(url), {"Authorization": "Bearer sk-0123456789abcdef"}
    )
    reply = await endpoint.send(lambda _: b"{}", ())
    return bytes(reply.body)


async def fail(transport: Transport, url: str) -> TargetError:
    """The error of a JSON request."""
    with pytest.raises(TargetError) as caught:
        await post(transport, url)
    return caught.value


@pytest.mark.parametrize(
    "script",
    [
        (close,),
        (read_request, close),
        (read_request, reset),
        (read_request, start, reset),
        (read_request, start + b"Content-Length: 3\r\n\r\nok", close),
        (read_request, chunked(b"2\r\nok\r\n"), reset),
        (read_request, b"nonsense\r\n\r\n"),
        (read_request, b"HTTP/1.1 abc\r\n\r\n"),
        (read_request, framed(b"Content-Length: 2", b"Content-Length: 3", body=b"ok"), close),
        (read_request, encoded(b"gzip", b"no gzip at all")),
        (read_request, encoded(b"br", b"\x0b\x00\x80ok\x03")),
    ],
    ids=lambda script: "",
)
def test_a_reply_that_breaks_off_or_is_no_http_is_a_transient_fault_of_the_server(
    stage: Stage, script: Script
) -> None:
    async def main(transport: Transport) -> None:
        async with serve(script) as server:
            error = await fail(transport, server.url)
            assert str(error).startswith(f"No answer from {server.url}: ")
            assert str(error).endswith(".")
            assert not str(error).endswith((": .", ".."))
            assert "\n" not in str(error)
            assert (error.kind, error.transient, error.fault) == ("connection", True, EndpointFault.SERVER)
            assert error.remedy == "Check the server."

    stage.run(main)


def test_a_refused_connection_says_where_nobody_listens(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        with open_refusal() as port:
            error = await fail(transport, f"http://127.0.0.1:{port}/v1")
            assert str(error).startswith(f"Cannot connect to http://127.0.0.1:{port}/v1: Connect")
            assert str(error).endswith(". Is a server listening there?")
            assert (error.transient, error.fault) == (True, EndpointFault.UNREACHABLE)

    stage.run(main)


@cache
def make_foreign_context() -> ssl.SSLContext:
    """The TLS context of a server with the certificate of an unknown authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA).configure_cert(context)
    return context


@pytest.mark.parametrize(
    ("context", "script", "reason"),
    [
        (make_foreign_context, (), "certificate"),
        (lambda: None, (b"HTTP/1.1 400 Bad\r\n\r\n", close), "WRONG_VERSION_NUMBER"),
    ],
    ids=["unknown-authority", "plain-http"],
)
def test_a_server_that_cannot_be_trusted_is_not_asked_again(
    stage: Stage, context: Callable[[], ssl.SSLContext | None], script: Script, reason: str
) -> None:
    async def main(transport: Transport) -> None:
        async with serve(script, tls=context()) as server:
            url = server.url.replace("http:", "https:")
            error = await fail(transport, url)
            assert str(error).startswith(f"Cannot open an encrypted connection to {url}: ")
            assert reason in str(error)
            assert (error.kind, error.transient, error.fault) == (
                "connection",
                False,
                EndpointFault.PERMANENT,
            )
            assert error.remedy == "Check the URL and its certificate."
            assert not server.heads

    stage.run(main, tls=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_error_and_the_key_stays_here(stage: Stage, status: int) -> None:
    async def main(transport: Transport) -> None:
        async with serve() as other:
            reply = b"HTTP/1.1 %d Elsewhere\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
            async with serve((read_request, reply % (status, other.url.encode()))) as server:
                error = await fail(transport, server.url)
                assert f"it points to {other.url}, which is not followed" in str(error)
            assert other.connections == 0

    stage.run(main)


@pytest.mark.parametrize(
    "reply",
    [
        encoded(b"gzip", gzip.compress(bytes(8 * MAX_ANSWER))),
        framed(b"Content-Length: %d" % (8 * MAX_ANSWER), body=b""),
        chunked(b"%x\r\n%s" % (2 * MAX_ANSWER, bytes(2 * MAX_ANSWER))),
        framed(body=bytes(2 * MAX_ANSWER)),
    ],
    ids=["bomb", "length", "chunks", "until-the-end"],
)
def test_a_reply_that_is_larger_than_any_answer_is_cut_off(stage: Stage, reply: bytes) -> None:
    async def main(transport: Transport) -> None:
        async with serve((read_request, reply)) as server:
            with pytest.raises(AnswerTooLarge):
                await post(transport, server.url)
            assert await post(transport, server.url) == b"{}"

    stage.run(main, collect=True)


def test_a_large_error_is_read_in_part_and_spoils_no_other_call(stage: Stage) -> None:
    body = b"sorry " * MAX_ANSWER

    async def main(transport: Transport) -> None:
        head = b"HTTP/1.1 500 Oh\r\nContent-Length: %d\r\n\r\n" % len(body)
        async with serve((read_request, head + body)) as server:
            assert "sorry sorry" in str(await fail(transport, server.url))
            assert await post(transport, server.url) == b"{}"

    stage.run(main, collect=True)
