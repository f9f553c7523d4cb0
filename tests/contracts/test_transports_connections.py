"""How every transport keeps, ends and shares its connections, under every event loop."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import pytest
from msgspec import Struct
from yarl import URL

from proctor.targets.transport.protocol import RequestHead, Transport, TransportError
from support.certificates import make_client_context, make_server_context
from support.hostile_endpoints import chunked, framed, start
from support.hostile_http import (
    HostileServer,
    Peer,
    PeerGone,
    Script,
    breathe,
    close,
    hang,
    read_head,
    read_request,
    reply_with,
    reset,
    serve,
    settle,
    stay,
)
from support.transports import Failure, Reply, Stage, exchange, skip_fault

MEBIBYTE = 2**20
LARGE = bytes(24 * MEBIBYTE)
NEXT = Reply(200, b"next")
FIRST = (read_request, reply_with(b"first"))


@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "end",
    [
        (read_request, close),
        (read_request, reset),
        (read_head, reset),
        (read_request, start, close),
        (read_request, chunked(b"2\r\nok\r\n"), reset),
    ],
    ids=["closed", "reset", "reset-in-the-request", "closed-in-the-head", "reset-in-the-body"],
)
def test_a_call_whose_kept_connection_ends_fails_and_is_not_sent_again(
    stage: Stage, method: str, end: Script
) -> None:
    if method != "POST":
        skip_fault(stage, "sends a request of an idempotent method again")

    async def main(transport: Transport) -> None:
        async with serve((*FIRST, *end)) as server:
            assert await exchange(transport, server.url) == Reply(200, b"first")
            head = RequestHead(method, URL(server.url), {})
            assert isinstance(await exchange(transport, "", b"second", head=head), Failure)
            assert len(server.heads) == 2
            assert await exchange(transport, server.url, b"next") == NEXT
            assert len(server.heads) == 3
            assert server.connections == 2

    stage.run(main)


@pytest.mark.parametrize("end", [close, reset], ids=["closed", "reset"])
def test_a_connection_that_ended_while_it_was_idle_costs_no_call(
    stage: Stage, end: Callable[[Peer], Awaitable[None]]
) -> None:
    async def main(transport: Transport) -> None:
        async with serve((*FIRST, end), (*FIRST, end)) as server:
            for _ in range(2):
                assert await exchange(transport, server.url) == Reply(200, b"first")
                await breathe(12)
            assert await exchange(transport, server.url, b"next") == NEXT
            assert server.connections == 3

    stage.run(main)


@pytest.mark.parametrize("late", [reply_with(b"stolen"), b""], ids=["a-reply", "the-end"])
def test_bytes_that_arrive_between_two_calls_belong_to_neither(stage: Stage, late: bytes) -> None:
    skip_fault(stage, "does not look")

    async def main(transport: Transport) -> None:
        async with serve() as server:
            assert await exchange(transport, server.url, b"first") == Reply(200, b"first")
            server.peers[0].send_at_once(late)
            assert await exchange(transport, server.url, b"next") == NEXT
            assert server.connections == 2

    stage.run(main)


@pytest.mark.slow
def test_calls_at_once_get_their_own_answers_and_their_connections_are_used_again(stage: Stage) -> None:
    bodies = [b"%d" % number for number in range(100)]

    async def main(transport: Transport) -> None:
        async with serve() as server:
            for _ in range(2):
                replies = await asyncio.gather(*(exchange(transport, server.url, body) for body in bodies))
                assert replies == [Reply(200, body) for body in bodies]
            assert server.connections <= len(bodies)
            assert Counter(request.body for request in server.requests) == dict.fromkeys(bodies, 2)

    stage.run(main)


def end_at_random(random: Random) -> Callable[[Peer], Awaitable[None]]:
    """Answers requests until it ends the connection at some moment."""

    async def step(peer: Peer) -> None:
        while True:
            moment = random.randrange(14)
            end = reset if random.random() < 0.5 else close
            if moment == 0:
                await end(peer)
            body = (await peer.read()).body
            reply = reply_with(body)
            if moment == 1:
                await end(peer)
            if moment == 2:
                await peer.send(reply[: random.randrange(len(reply))])
                await end(peer)
            if moment == 3:
                await peer.send(reply)
                await end(peer)
            if moment == 4:
                await peer.send(reply)
                peer.close()
                raise PeerGone
            if moment == 5:
                await peer.send(chunked(b"%x\r\n%s\r\n" % (len(body), body)))
                await end(peer)
            if moment == 6:
                await peer.send(chunked(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)))
            else:
                await peer.send(reply)

    return step


@pytest.mark.slow
def test_a_thousand_calls_over_connections_that_end_at_any_moment_are_neither_lost_nor_repeated_nor_mixed(
    stage: Stage,
) -> None:
    bodies = [b"call-%d" % number for number in range(1_000)]
    random = Random(25)

    async def main(transport: Transport) -> None:
        outcomes: dict[bytes, Reply | Failure] = {}
        remaining = list(bodies)

        async def work(url: str) -> None:
            while remaining:
                body = remaining.pop()
                outcomes[body] = await exchange(transport, url, body, by_pieces=random.random() < 0.5)

        async with serve(*[(end_at_random(random),)] * len(bodies)) as server:
            await asyncio.gather(*(work(server.url) for _ in range(20)))
            counts = Counter(request.body for request in server.requests)
        assert outcomes.keys() == set(bodies)
        assert max(counts.values()) == 1
        for body, outcome in outcomes.items():
            if isinstance(outcome, Reply):
                assert outcome == Reply(200, body)
                assert counts[body] == 1
        replies = sum(isinstance(outcome, Reply) for outcome in outcomes.values())
        assert replies > len(bodies) / 2

    stage.run(main)


# --- callers that are cancelled ----------------------------------------------------------------------------


class Moment(Struct, frozen=True):
    """The state of a call while its server does nothing."""

    script: Script
    body: bytes = b"mine"
    reads: bool = False
    """Whether the head of the response has been read and its body is awaited."""


async def slowly(peer: Peer) -> None:
    """Sends one byte of a body after another, for ever."""
    peer.server.reached.set()
    while True:
        await peer.send(b"a")
        await breathe(3)


MOMENTS = {
    "sending": Moment((stay,), LARGE),
    "awaiting-the-reply": Moment((read_request, hang)),
    "after-interim": Moment((read_request, b"HTTP/1.1 100 Continue\r\n\r\n", hang)),
    "in-the-head": Moment((read_request, start + b"X: ", hang)),
    "after-the-head": Moment((read_request, start + b"Content-Length: 2\r\n\r\n", hang), reads=True),
    "in-the-body": Moment((read_request, start + b"Content-Length: 2\r\n\r\no", hang), reads=True),
    "in-chunks": Moment((read_request, chunked(b"1\r\no\r\n"), hang), reads=True),
    "in-gzip": Moment(
        (
            read_request,
            chunked(b"a\r\n" + gzip.compress(b"ok")[:10] + b"\r\n", b"Content-Encoding: gzip"),
            hang,
        ),
        reads=True,
    ),
    "in-a-body-without-length": Moment((read_request, framed(body=b"o"), hang), reads=True),
    "in-a-body-that-drips": Moment(
        (read_request, framed(b"Content-Length: 99999", body=b""), slowly), reads=True
    ),
    "in-a-large-upload-with-a-reply": Moment(
        (read_head, start + b"Content-Length: 2\r\n\r\no", stay), LARGE, reads=True
    ),
}


@pytest.fixture(params=MOMENTS)
def moment(request: pytest.FixtureRequest) -> Moment:
    """Every moment of a call."""
    return MOMENTS[request.param]


async def begin(
    transport: Transport, server: HostileServer, moment: Moment, *, by_pieces: bool = False
) -> asyncio.Task[Reply | Failure]:
    """Starts a call and waits until it has reached this moment."""
    call = asyncio.create_task(exchange(transport, server.url, moment.body, by_pieces=by_pieces))
    await server.reached.wait()
    await breathe(12)
    assert not call.done()
    return call


async def cancel(call: asyncio.Task[Reply | Failure]) -> None:
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    assert call.cancelled()


@pytest.mark.parametrize("by_pieces", [False, True])
def test_a_caller_that_is_cancelled_leaves_nothing_behind(
    stage: Stage, moment: Moment, by_pieces: bool
) -> None:
    async def main(transport: Transport) -> None:
        async with serve(moment.script) as server:
            await cancel(await begin(transport, server, moment, by_pieces=by_pieces))
            if stay not in moment.script:
                await server.wait_until_unconnected()
            assert await exchange(transport, server.url, b"next") == NEXT
            assert server.connections == 2

    stage.run(main, collect=True)


def test_a_caller_on_a_kept_connection_that_is_cancelled_ends_it(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        async with serve((*FIRST, read_request, hang)) as server:
            await exchange(transport, server.url)
            call = asyncio.create_task(exchange(transport, server.url))
            await server.reached.wait()
            await cancel(call)
            await server.wait_until_unconnected()
            assert await exchange(transport, server.url, b"next") == NEXT

    stage.run(main, collect=True)


@pytest.mark.slow
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_caller_may_be_cancelled_at_every_turn_of_the_loop(stage: Stage, is_encrypted: bool) -> None:
    async def answer(peer: Peer) -> None:
        while True:
            body = (await peer.read()).body
            if body == b"next":  # the next call opens a connection
                await peer.send(start + b"Connection: close\r\nContent-Length: 4\r\n\r\nnext")
                await close(peer)
            await peer.send(start + b"Transfer-Encoding: chunked\r\n\r\n")
            await breathe(2)
            await peer.send(b"%x\r\n" % len(body))
            await breathe(2)
            await peer.send(body + b"\r\n0\r\n")
            await breathe(2)
            await peer.send(b"\r\n")

    async def main(transport: Transport) -> None:
        ends = set()
        async with serve(*[(answer,)] * 300, tls=make_server_context() if is_encrypted else None) as server:
            for turns in range(60):
                for is_warm in (False, True):
                    if is_warm:
                        assert await exchange(transport, server.url, b"warm") == Reply(200, b"warm")
                    body = b"%d-%d" % (turns, is_warm)
                    call = asyncio.create_task(exchange(transport, server.url, body))
                    await breathe(turns)
                    call.cancel()
                    with suppress(asyncio.CancelledError):
                        assert await call == Reply(200, body)
                    ends.add(call.cancelled())
                    assert await exchange(transport, server.url, b"next") == NEXT
                    assert await settle(lambda: server.open_connections) == 0, turns
            counts = Counter(request.body for request in server.requests)
            assert all(counts[b"%d-%d" % (turns, warm)] <= 1 for turns in range(60) for warm in (0, 1))
        assert ends == {False, True}

    stage.run(main, tls=make_client_context(), collect=True)


def test_a_caller_that_leaves_a_body_unread_ends_the_connection(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        async with serve((read_request, start + b"Content-Length: 4\r\n\r\nok", hang)) as server:
            response = await transport.send(RequestHead("POST", URL(server.url), {}), b"")
            response.close()
            response.close()
            await server.wait_until_unconnected()
            assert await exchange(transport, server.url, b"next") == NEXT

    stage.run(main, collect=True)


@pytest.mark.slow
def test_an_upload_waits_for_a_server_that_does_not_read(stage: Stage) -> None:
    async def wait_for_test(peer: Peer) -> None:
        peer.server.reached.set()
        await peer.server.closing.wait()

    async def main(transport: Transport) -> None:
        async with serve((wait_for_test,)) as server:
            call = asyncio.create_task(exchange(transport, server.url, LARGE))
            await server.reached.wait()
            await settle(lambda: server.connections)
            assert not call.done()
            server.closing.set()
            assert await call == Reply(200, LARGE)

    stage.run(main)


# --- transports that are closed ----------------------------------------------------------------------------


def test_closing_a_transport_ends_its_calls_and_its_connections(stage: Stage, moment: Moment) -> None:
    if moment.reads:
        skip_fault(stage, "lets who reads a body wait for ever")

    async def main(transport: Transport) -> None:
        async with serve(moment.script) as server:
            call = await begin(transport, server, moment)
            await stage.close(transport)
            outcome = await call
            assert isinstance(outcome, Failure), outcome
            if stay not in moment.script:
                await server.wait_until_unconnected()

    stage.run(main, collect=True)


def test_closing_a_transport_ends_idle_connections(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        async with serve() as server:
            await asyncio.gather(*(exchange(transport, server.url) for _ in range(5)))
            await stage.close(transport)
            await stage.close(transport)
            await server.wait_until_unconnected()

    stage.run(main, collect=True)


def test_a_closed_transport_sends_nothing(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        async with serve() as server:
            await stage.close(transport)
            with pytest.raises((TransportError, RuntimeError)):
                await transport.send(RequestHead("POST", URL(server.url), {}), b"")
            assert not server.heads

    stage.run(main, collect=True)
