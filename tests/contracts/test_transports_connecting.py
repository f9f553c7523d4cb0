"""How every transport connects, under every event loop: names, addresses, TLS and proxies."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest
from yarl import URL

from proctor.targets.transport.protocol import (
    ConnectError,
    ProxyError,
    RequestHead,
    TlsError,
    Transport,
    TransportError,
)
from support.certificates import (
    AUTHORITY,
    NAME,
    STRANGER,
    make_certificate,
    make_client_context,
    make_server_context,
)
from support.hostile_endpoints import OK, framed, ok, start
from support.hostile_http import (
    Peer,
    Script,
    breathe,
    close,
    hang,
    open_blackhole,
    open_refusal,
    read_head,
    read_request,
    reply_with,
    reset,
    serve,
)
from support.transports import (
    Address,
    Failure,
    Reply,
    Stage,
    exchange,
    matches,
    open_aiohttp,
    skip_fault,
)

NEXT = Reply(200, b"next")
TLS_1_1_HELLO = b"\x16\3\2\0\x2a\2\0\0\x26\3\2" + bytes(32) + b"\0\xc0\x13\0"
"""The first message of a server that knows TLS 1.1 only: version, random number and chosen cipher."""


def make_self_signed_context() -> ssl.SSLContext:
    """The TLS context of a server with a self-signed certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with STRANGER.cert_pem.tempfile() as certificate, STRANGER.private_key_pem.tempfile() as key:
        context.load_cert_chain(certificate, key)
    return context


def make_demanding_context() -> ssl.SSLContext:
    """The TLS context of a server that requires a certificate of its clients."""
    context = make_server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    AUTHORITY.configure_trust(context)
    return context


# --- TLS ---------------------------------------------------------------------------------------------------


def test_calls_over_tls_share_a_connection(stage: Stage) -> None:
    body = bytes(range(256)) * 2**13

    async def main(transport: Transport) -> None:
        async with serve((read_request, reply_with(body)), tls=make_server_context()) as server:
            assert await exchange(transport, server.url, body) == Reply(200, body)
            assert await exchange(transport, server.url, b"next") == NEXT
            assert server.connections == 1

    stage.run(main, tls=make_client_context(), collect=True)


def test_the_servers_name_is_sent_and_checked_and_no_other_protocol_is_offered(stage: Stage) -> None:
    names: list[str | None] = []
    context = make_server_context()
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    context.set_alpn_protocols(["h2"])

    async def main(transport: Transport) -> None:
        async with serve(tls=context, name=NAME) as server:
            ports.append(server.port)
            assert await exchange(transport, server.url, b"next") == NEXT

    ports: list[int] = []
    stage.run(main, tls=make_client_context(), resolve=lambda _name: [("127.0.0.1", ports[0])])
    assert names == [NAME]


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (lambda: make_server_context(make_certificate(expired=True)), "certificate has expired"),
        (
            lambda: make_server_context(make_certificate("other.example")),
            "certificate is not valid for '127.0.0.1'",
        ),
        (
            lambda: make_server_context(make_certificate(authority=STRANGER)),
            "unable to get local issuer certificate",
        ),
        (make_self_signed_context, "self-signed certificate"),
    ],
    ids=["expired", "other-name", "unknown-authority", "self-signed"],
)
def test_a_server_that_cannot_be_trusted_is_refused_in_a_sentence_before_anything_is_sent(
    stage: Stage, context: Callable[[], ssl.SSLContext], message: str
) -> None:
    async def main(transport: Transport) -> None:
        async with serve(tls=context()) as server:
            outcome = await exchange(transport, server.url)
            assert matches(outcome, Failure(TlsError)), outcome
            assert isinstance(outcome, Failure)
            assert message.lower() in outcome.message.lower()
            assert not server.heads

    stage.run(main, tls=make_client_context(), collect=True)


def test_a_server_that_wants_a_certificate_gets_none(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        async with serve(tls=make_demanding_context()) as server:
            outcome = await exchange(transport, server.url)
            assert matches(outcome, Failure(TransportError)), outcome
            assert not server.heads

    stage.run(main, tls=make_client_context())


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            (b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n", close),
            Failure(TlsError, "WRONG_VERSION_NUMBER"),
        ),
        ((b"\x15\3\3\0\2\2\x28", close), Failure(TlsError, "HANDSHAKE_FAILURE")),
        ((b"\x15\3\1\0\2\2\x46", close), Failure(TlsError, "ALERT_PROTOCOL_VERSION")),
        ((TLS_1_1_HELLO, close), Failure(TlsError, "UNSUPPORTED_PROTOCOL")),
        ((b"garbage" * 99, close), Failure(TlsError)),
        ((close,), Failure(ConnectError)),
        ((reset,), Failure(ConnectError)),
        ((b"\x16\3\3\0\x7a\2\0\0\x76\3\3", close), Failure(ConnectError)),
    ],
    ids=[
        "plain-http",
        "alert",
        "old-protocol-wanted",
        "old-protocol-chosen",
        "garbage",
        "closed",
        "reset",
        "closed-in-the-handshake",
    ],
)
def test_a_server_without_tls_behind_https_gets_no_request(
    stage: Stage, script: Script, expected: Failure
) -> None:
    async def read_hello(peer: Peer) -> None:
        await peer.read_some()

    async def main(transport: Transport) -> None:
        async with serve((read_hello, *script)) as server:
            outcome = await exchange(transport, server.url.replace("http:", "https:"))
            assert matches(outcome, expected), outcome
            assert isinstance(outcome, Failure)
            assert outcome.message
            assert not server.heads
            assert await exchange(transport, server.url, b"next") == NEXT

    stage.run(main, tls=make_client_context(), collect=True)


def test_a_caller_that_is_cancelled_in_the_handshake_leaves_nothing_behind(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        async with serve((hang,)) as server:
            url = server.url.replace("http:", "https:")
            call = asyncio.create_task(exchange(transport, url))
            await server.reached.wait()
            await breathe()
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
            assert call.cancelled()
            await server.wait_until_unconnected()
            assert await exchange(transport, server.url, b"next") == NEXT

    stage.run(main, tls=make_client_context(), collect=True)


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ((read_request, close), Failure(TransportError)),
        ((read_request, reset), Failure(TransportError)),
        ((read_request, start + b"Content-Length: 3\r\n\r\nok", close), Failure(TransportError)),
        ((read_request, start + b"Content-Length: 3\r\n\r\nok", reset), Failure(TransportError)),
        ((read_request, ok, close), OK),
        ((read_request, framed(body=b"ok"), close), OK),
    ],
    ids=["closed", "reset", "closed-in-the-body", "reset-in-the-body", "closed-after", "until-the-end"],
)
def test_a_connection_over_tls_that_ends_is_not_used_again(
    stage: Stage, script: Script, outcome: Reply | Failure
) -> None:
    async def main(transport: Transport) -> None:
        async with serve(script, tls=make_server_context()) as server:
            result = await exchange(transport, server.url)
            assert matches(result, outcome), result
            await breathe(12)
            assert await exchange(transport, server.url, b"next") == NEXT
            assert server.connections == 2

    stage.run(main, tls=make_client_context(), collect=True)


# --- names and addresses -----------------------------------------------------------------------------------


def test_a_refused_connection_is_named(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        with open_refusal() as port:
            outcome = await exchange(transport, f"http://127.0.0.1:{port}/")
        assert matches(outcome, Failure(ConnectError, "Connect")), outcome

    stage.run(main, collect=True)


@pytest.mark.parametrize("dead", ["refused", pytest.param("silent", marks=pytest.mark.slow)])
@pytest.mark.parametrize("alive", ["127.0.0.1", "::1"])
def test_a_dead_family_of_addresses_costs_no_call(stage: Stage, alive: str, dead: str) -> None:
    other = "::1" if alive == "127.0.0.1" else "127.0.0.1"
    addresses: list[Address] = []

    async def main(transport: Transport) -> None:
        with (open_refusal if dead == "refused" else open_blackhole)(other) as port:
            async with serve(host=alive, name=NAME) as server:
                addresses[:] = [(other, port), (alive, server.port)]
                assert await exchange(transport, server.url, b"next") == NEXT

    stage.run(main, resolve=lambda _name: addresses, collect=True)


def test_the_last_of_five_addresses_is_tried(stage: Stage) -> None:
    addresses: list[Address] = []

    async def main(transport: Transport) -> None:
        with ExitStack() as ports:
            async with serve(name=NAME) as server:
                hosts = ["127.0.0.1", "::1", "127.0.0.1", "::1"]
                addresses[:] = [(host, ports.enter_context(open_refusal(host))) for host in hosts]
                addresses.append(("127.0.0.1", server.port))
                assert await exchange(transport, server.url, b"next") == NEXT
                assert server.connections == 1

    stage.run(main, resolve=lambda _name: addresses, collect=True)


@pytest.mark.parametrize(
    "address",
    [
        f"http://{'a' * 70}.example/",
        "http://a..example/",
        "http://127.0.0.1:0/",
        "ftp://127.0.0.1:{port}/",
        "file:///etc/passwd",
        "/v1",
    ],
)
def test_an_address_that_leads_nowhere_is_an_error(stage: Stage, address: str) -> None:
    async def main(transport: Transport) -> None:
        async with serve() as server:
            url = URL(address.format(port=server.port))
            assert matches(
                await exchange(transport, "", head=RequestHead("POST", url, {})), Failure(TransportError)
            )
            assert not server.heads

    stage.run(main, collect=True)


def test_callers_who_share_a_lookup_do_not_share_their_end(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        async with serve(name=NAME) as server:
            ports.append(server.port)
            for turns in range(4):
                first, second, third = (
                    asyncio.create_task(exchange(transport, f"http://n{turns}.{NAME}:{server.port}/", body))
                    for body in (b"first", b"second", b"next")
                )
                await breathe(turns)
                first.cancel()
                await breathe(turns % 2)
                second.cancel()
                assert await third == NEXT
                await asyncio.wait([first, second])

    ports: list[int] = []
    stage.run(main, resolve=lambda _name: [("127.0.0.1", ports[0])], collect=True)


def test_a_name_that_is_unknown_at_first_is_looked_up_again(stage: Stage) -> None:
    calls: list[str] = []
    ports: list[int] = []

    def resolve(name: str) -> list[Address]:
        calls.append(name)
        if len(calls) == 1:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [("127.0.0.1", ports[0])]

    async def main(transport: Transport) -> None:
        async with serve(name=NAME) as server:
            ports.append(server.port)
            outcome = await exchange(transport, server.url)
            assert matches(outcome, Failure(ConnectError, "Temporary failure in name resolution")), outcome
            assert await exchange(transport, server.url, b"next") == NEXT

    stage.run(main, resolve=resolve, collect=True)


def test_a_server_that_moves_is_found_where_its_name_points_then(stage: Stage) -> None:
    skip_fault(stage, "goes on with the old addresses for five minutes")
    addresses: list[Address] = []

    async def main(transport: Transport) -> None:
        async with serve(name=NAME) as server:
            url = server.url
            addresses[:] = [("127.0.0.1", server.port)]
            assert await exchange(transport, url, b"next") == NEXT
        async with serve() as server:
            addresses[:] = [("127.0.0.1", server.port)]
            await exchange(transport, url)  # the last one over the old address, which may fail
            assert await exchange(transport, url, b"next") == NEXT

    stage.run(main, resolve=lambda _name: addresses, collect=True)


def test_a_caller_that_left_before_its_name_was_unknown_leaves_no_error(stage: Stage) -> None:
    def resolve(_name: str) -> list[Address]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def main(transport: Transport) -> None:
        for turns in range(6):
            call = asyncio.create_task(exchange(transport, f"http://{NAME}/"))
            await breathe(turns)
            call.cancel()
            await asyncio.wait([call])
        await breathe(12)

    stage.run(main, resolve=resolve, collect=True)


@pytest.mark.parametrize("where", ["lookup", "connect"])
def test_a_caller_that_is_cancelled_before_it_is_connected_leaves_nothing_behind(
    stage: Stage, where: str
) -> None:
    async def main(transport: Transport) -> None:
        async with serve(name=NAME) as server:
            with open_blackhole() as port:
                addresses[:] = [("127.0.0.1", port)]
                for turns in (0, 1, 2, 3, 5, 20) if where == "lookup" else (50,):
                    call = asyncio.create_task(exchange(transport, server.url))
                    await breathe(turns)
                    call.cancel()
                    with suppress(asyncio.CancelledError):
                        await call
                    assert call.cancelled()
            assert await exchange(transport, f"http://127.0.0.1:{server.port}", b"next") == NEXT

    addresses: list[Address] = []
    stage.run(main, resolve=lambda _name: addresses, collect=True)


def test_closing_a_transport_ends_calls_that_connect(stage: Stage) -> None:
    skip_fault(stage, "waits until the system gives up")

    async def main(transport: Transport) -> None:
        with open_blackhole() as port:
            call = asyncio.create_task(exchange(transport, f"http://127.0.0.1:{port}/"))
            await breathe(20)
            await stage.close(transport)
            assert isinstance(await call, Failure)

    stage.run(main, collect=True)


# --- proxies, which aiohttp alone speaks with --------------------------------------------------------------


@pytest.fixture(params=["uvloop", pytest.param("asyncio", marks=pytest.mark.slow)])
def proxy_stage(request: pytest.FixtureRequest) -> Stage:
    """The transport that goes through proxies, under each loop."""
    return Stage("aiohttp", request.param)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ((read_head, b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"), Failure(ProxyError, "403")),
        ((read_head, b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n"), Failure(ProxyError, "407")),
        ((read_head, b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n", close), Failure(ProxyError, "502")),
        ((read_head, close), Failure(TransportError)),
        ((read_head, reset), Failure(TransportError)),
        ((read_head, b"nonsense\r\n\r\n", close), Failure(TransportError)),
        ((read_head, b"HTTP/1.1 200 Go\r\n\r\n", close), Failure(TransportError)),
    ],
    ids=["403", "407", "502", "closed", "reset", "nonsense", "closed-behind"],
)
def test_a_proxy_that_does_not_connect_gets_no_request(
    proxy_stage: Stage, script: Script, expected: Failure
) -> None:
    async def main(_: Transport) -> None:
        async with serve(script) as proxy, open_aiohttp(None, URL(proxy.url).origin()) as transport:
            outcome = await exchange(transport, "https://models.example/v1")
            assert matches(outcome, expected), outcome
            assert [head.split(b" ")[0] for head in proxy.heads] == [b"CONNECT"]

    proxy_stage.run(main, collect=True)


def test_a_caller_whose_proxy_hangs_can_be_cancelled(proxy_stage: Stage) -> None:
    async def main(_: Transport) -> None:
        async with (
            serve((read_head, hang)) as proxy,
            open_aiohttp(None, URL(proxy.url).origin()) as transport,
        ):
            call = asyncio.create_task(exchange(transport, "https://models.example/v1"))
            await proxy.reached.wait()
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
            assert call.cancelled()
            await proxy.wait_until_unconnected()

    proxy_stage.run(main, collect=True)


def test_a_proxy_that_refuses_connections_is_named(proxy_stage: Stage) -> None:
    async def main(_: Transport) -> None:
        with open_refusal() as port:
            async with open_aiohttp(None, URL(f"http://127.0.0.1:{port}")) as transport:
                outcome = await exchange(transport, "http://models.example/v1")
                assert matches(outcome, Failure(ConnectError, "Connect")), outcome

    proxy_stage.run(main, collect=True)
