"""How every transport handles the replies of hostile endpoints, under every event loop."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from proctor.errors import UsageError
from proctor.targets.transport.protocol import RequestHead, Transport, TransportError
from support.hostile_endpoints import (
    AIOHTTP_FAULTS,
    ENDPOINTS,
    OK,
    Endpoint,
    chunked,
    deflate,
    encoded,
    framed,
    ok,
    with_headers,
)
from support.hostile_http import (
    Peer,
    Script,
    Step,
    breathe,
    close,
    hang,
    read_head,
    read_request,
    reply_with,
    reset,
    serve,
    settle,
)
from support.transports import (
    STAGE_PARAMS,
    STAGES,
    Failure,
    Reply,
    Stage,
    exchange,
    matches,
    may_fail_with,
    read_pieces,
    skip_fault,
)

ROWS = [
    pytest.param(
        stage,
        endpoint,
        id=f"{stage}-{endpoint.name}",
        marks=[*stage.marks, *may_fail_with(stage, AIOHTTP_FAULTS, endpoint.name)],
    )
    for stage in STAGES
    for endpoint in ENDPOINTS
]
MEBIBYTE = 2**20


@pytest.mark.parametrize(("stage", "endpoint"), ROWS)
def test_an_endpoint_gives_its_own_answer_or_an_error_and_affects_no_other_call(
    stage: Stage, endpoint: Endpoint
) -> None:
    async def main(transport: Transport) -> None:
        for by_pieces in (False, True):
            async with serve(endpoint.script) as server:
                outcome = await exchange(transport, server.url, b"mine", by_pieces=by_pieces)
                assert any(matches(outcome, expected) for expected in endpoint.outcomes), outcome
                assert not server.was_flooded
                await breathe(12)
                assert await exchange(transport, server.url, b"next") == Reply(200, b"next")
                bodies = [request.body for request in server.requests]
                assert bodies[-1] == b"next"
                assert bodies.count(b"mine") <= 1
                if endpoint.is_reusable is not None:
                    assert server.connections == (1 if endpoint.is_reusable else 2)

    stage.run(main)


# --- pieces ------------------------------------------------------------------------------------------------

WIRE_FORMS = {
    "length": with_headers(b"X: y", body=b"ok"),
    "chunks": chunked(b"1;e=1\r\no\r\n0001\r\nk\r\n0\r\nT: u\r\n\r\n"),
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + ok,
    "gzip": encoded(b"gzip", gzip.compress(b"ok", mtime=0)),
    "deflate": encoded(b"deflate", deflate(b"ok", -15)),
}


def send_in(pieces: list[bytes]) -> Script:
    """Reads a request and sends each piece by itself."""

    async def step(peer: Peer) -> None:
        for piece in pieces:
            await peer.send(piece)
            await breathe(3)

    return (read_request, step)


@pytest.mark.slow
@pytest.mark.parametrize("form", WIRE_FORMS)
def test_a_reply_that_is_split_at_any_byte_stays_the_same(stage: Stage, form: str) -> None:
    data = WIRE_FORMS[form]
    script: list[Step] = []
    for length in range(1, len(data)):
        script += send_in([data[:length], data[length:]])

    async def main(transport: Transport) -> None:
        async with serve(script) as server:
            for _ in range(1, len(data)):
                assert await exchange(transport, server.url) == OK
            assert server.connections == 1

    stage.run(main)


@pytest.mark.parametrize("stage", STAGE_PARAMS)
@given(st.data())
def test_a_reply_in_any_pieces_stays_the_same(stage: Stage, data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from(sorted(WIRE_FORMS.values())))
    cuts = data.draw(st.lists(st.integers(1, len(whole) - 1), max_size=20))
    places = [0, *sorted(set(cuts)), len(whole)]

    async def main(transport: Transport) -> None:
        async with serve(send_in([whole[start:end] for start, end in pairwise(places)])) as server:
            assert await exchange(transport, server.url) == OK
            assert await exchange(transport, server.url, b"next") == Reply(200, b"next")
            assert server.connections == 1

    stage.run(main)


def mutate(draw: st.DrawFn) -> bytes:
    """A reply in which some bytes are replaced, removed or repeated."""
    data = bytearray(draw(st.sampled_from(sorted(WIRE_FORMS.values()))))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data) - 1))
        match draw(st.sampled_from(["replace", "insert", "remove", "repeat", "cut"])):
            case "replace":
                data[place] = draw(st.integers(0, 255))
            case "insert":
                data[place:place] = draw(
                    st.sampled_from(
                        [b"\r\n", b"\n", b"\r", b" ", b"\0", b":", b"0", b"9", b"\xff", b"\r\n\r\n"]
                    )
                )
            case "remove":
                del data[place : place + draw(st.integers(1, 8))]
            case "repeat":
                data[place:place] = data[place : place + draw(st.integers(1, 40))]
            case "cut":
                del data[max(place, 1) :]
        data = data or bytearray(b"\n")
    return bytes(data)


@pytest.mark.parametrize("stage", STAGE_PARAMS)
@given(st.composite(mutate)())
def test_a_broken_reply_is_an_answer_or_an_error_and_affects_no_other_call(stage: Stage, data: bytes) -> None:
    async def main(transport: Transport) -> None:
        async with serve((read_request, data, close)) as server:
            outcome = await exchange(transport, server.url)
            assert isinstance(outcome, (Reply, Failure))
            await breathe(12)
            assert await exchange(transport, server.url, b"next") == Reply(200, b"next")

    stage.run(main)


def test_a_piece_can_be_read_as_soon_as_the_server_has_sent_it(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        is_first_read = asyncio.Event()

        async def wait_for_first_read(_: Peer) -> None:
            await is_first_read.wait()

        script = (
            read_request,
            chunked(b"5\r\nfirst\r\n"),
            wait_for_first_read,
            b"6\r\nsecond\r\n0\r\n\r\n",
        )
        async with serve(script) as server:
            response = await transport.send(RequestHead("POST", URL(server.url), {}), b"")
            pieces = response.pieces()
            assert await anext(pieces) == b"first"
            assert not response.is_read
            is_first_read.set()
            assert [piece async for piece in pieces] == [b"second"]
            assert response.is_read

    stage.run(main)


def test_pieces_are_small_and_make_up_the_whole_body(stage: Stage) -> None:
    body = bytes(range(256)) * 2**14

    async def main(transport: Transport) -> None:
        async with serve((read_request, reply_with(body))) as server:
            response = await transport.send(RequestHead("POST", URL(server.url), {}), b"")
            pieces = [piece async for piece in response.pieces()]
            assert b"".join(pieces) == body
            assert max(map(len, pieces)) <= MEBIBYTE
            assert await exchange(transport, server.url, b"next") == Reply(200, b"next")
            assert server.connections == 1

    stage.run(main)


@pytest.mark.slow
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_server_waits_while_its_reply_is_not_read(stage: Stage, is_chunked: bool) -> None:
    size = 64 * MEBIBYTE
    block = bytes(MEBIBYTE)
    head = (
        framed(b"Transfer-Encoding: chunked", body=b"")
        if is_chunked
        else framed(b"Content-Length: %d" % size, body=b"")
    )

    async def send_blocks(peer: Peer) -> None:
        for _ in range(size // MEBIBYTE):
            await peer.send(b"100000\r\n%s\r\n" % block if is_chunked else block)
        if is_chunked:
            await peer.send(b"0\r\n\r\n")

    async def main(transport: Transport) -> None:
        async with serve((read_request, head, send_blocks)) as server:
            response = await transport.send(RequestHead("POST", URL(server.url), {}), b"")
            pieces = response.pieces()
            length = len(await anext(pieces))
            # The rest is in the system's buffers, of at most 6 MiB for either end.
            assert await settle(lambda: server.sent) < 24 * MEBIBYTE
            async for piece in pieces:
                length += len(piece)
            assert length == size
            assert await exchange(transport, server.url, b"next") == Reply(200, b"next")
            assert server.connections == 1

    stage.run(main)


@pytest.mark.slow
@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
def test_a_compression_bomb_is_unpacked_no_faster_than_it_is_read(stage: Stage, coding: bytes) -> None:
    size = 8 * MEBIBYTE
    bomb = gzip.compress(bytes(size)) if coding == b"gzip" else deflate(bytes(size), 15)

    async def main(transport: Transport) -> None:
        async with serve((read_request, encoded(coding, bomb))) as server:
            response = await transport.send(RequestHead("POST", URL(server.url), {}), b"")
            tracemalloc.start()
            try:
                pieces = response.pieces()
                first = await anext(pieces)
                await breathe(50)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert len(first) <= MEBIBYTE
            assert peak < 4 * MEBIBYTE
            length = len(first)
            async for piece in pieces:
                length += len(piece)
            assert length == size

    stage.run(main)


@pytest.mark.slow
def test_a_compression_bomb_can_be_left_unread(stage: Stage) -> None:
    bomb = encoded(b"gzip", gzip.compress(bytes(8 * MEBIBYTE)))

    async def main(transport: Transport) -> None:
        async with serve((read_request, bomb)) as server:
            response = await transport.send(RequestHead("POST", URL(server.url), {}), b"")
            async for _ in response.pieces():
                break
            response.close()
            assert await exchange(transport, server.url, b"next") == Reply(200, b"next")

    stage.run(main, collect=True)


# --- responses ---------------------------------------------------------------------------------------------


def test_headers_are_found_by_any_case_the_first_counts_and_bytes_survive(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        lines = [b"x-Name: a", b"X-NAME: b", b"X-Bytes: \xc3\xa4\xff", b"X-Space: \t  c d \t", b"X-Empty:"]
        async with serve((read_request, with_headers(*lines))) as server:
            response = await transport.send(RequestHead("POST", URL(server.url), {}), b"")
            assert await response.read() == b"ok"
        assert (response.headers["X-Name"], response.headers["x-name"]) == ("a", "a")
        assert response.headers.get("X-Bytes") == "ä\udcff"
        assert response.headers["X-Space"] == "c d"
        assert response.headers["X-Empty"] == ""
        assert "X-Name" in response.headers
        assert "X-Other" not in response.headers
        assert response.headers.get("X-Other") is None

    stage.run(main)


@pytest.mark.parametrize(
    ("reply", "size"),
    [
        (ok, 2),
        (with_headers(body=b""), 0),
        (chunked(b"2\r\nok\r\n0\r\n\r\n"), None),
        (encoded(b"gzip", gzip.compress(b"ok", mtime=0)), None),
    ],
)
def test_the_size_is_that_of_the_body_or_unknown(stage: Stage, reply: bytes, size: int | None) -> None:
    async def main(transport: Transport) -> None:
        async with serve((read_request, reply)) as server:
            response = await transport.send(RequestHead("POST", URL(server.url), {}), b"")
            assert response.size == size
            await response.read()
            assert response.is_read
            response.close()
            assert await exchange(transport, server.url, b"next") == Reply(200, b"next")
            assert server.connections == 1

    stage.run(main)


def test_a_cookie_is_not_sent_back(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        async with serve((read_request, with_headers(b"Set-Cookie: a=b; Path=/"))) as server:
            await exchange(transport, server.url)
            await exchange(transport, server.url)
            assert b"cookie" not in server.heads[1].lower()

    stage.run(main)


# --- requests ----------------------------------------------------------------------------------------------


def test_a_head_arrives_as_it_was_given_with_the_host_and_the_length(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        async with serve() as server:
            url = URL(f"http://localhost:{server.port}/v1/ä b?q=%2B&r=s t#fragment")
            head = RequestHead("POST", url, {"Content-Type": "application/json", "X-Key": "schlüssel"})
            assert await exchange(transport, "", b"\0\xff", head=head) == Reply(200, b"\0\xff")
            first, *lines = server.heads[0].split(b"\r\n")
            assert first == b"POST /v1/%C3%A4%20b?q=%2B&r=s+t HTTP/1.1"
            names = [line.partition(b":")[0].lower() for line in lines]
            assert len(names) - 2 == len(set(names)) - 1  # the head ends with two empty lines
            assert b"Host: localhost:%d" % server.port in lines
            assert b"Content-Length: 2" in lines
            assert b"Content-Type: application/json" in lines
            assert "X-Key: schlüssel".encode() in lines
            accepted = next(line for line in lines if line.lower().startswith(b"accept-encoding:"))
            assert {word.strip() for word in accepted.partition(b":")[2].split(b",")} <= {
                b"gzip",
                b"deflate",
                b"br",
                b"zstd",
            }

    stage.run(main)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", b"POST / HTTP/1.1"),
        ("?", b"POST / HTTP/1.1"),
        ("/a/../b", b"POST /b HTTP/1.1"),
        ("/%2F%0d%0aX: y", b"POST /%2F%0D%0AX:%20y HTTP/1.1"),
        ("/a\r\nX: y", b"POST /aX:%20y HTTP/1.1"),
        ("/:generate?alt=sse&key=a%20b", b"POST /:generate?alt=sse&key=a%20b HTTP/1.1"),
    ],
)
def test_an_address_becomes_one_line(stage: Stage, path: str, line: bytes) -> None:
    async def main(transport: Transport) -> None:
        async with serve() as server:
            url = URL(f"http://127.0.0.1:{server.port}{path}")
            await exchange(transport, "", head=RequestHead("POST", url, {}))
            assert server.heads[0].split(b"\r\n")[0] == line

    stage.run(main)


@pytest.mark.parametrize(
    "headers",
    [{"X": "a\r\nEvil: b"}, {"X": "a\nEvil: b"}, {"X\r\nEvil": "b"}, {"X": "a\0b"}, {"X": "a\rb"}],
    ids=repr,
)
def test_a_header_cannot_smuggle_another_one(stage: Stage, headers: dict[str, str]) -> None:
    async def main(transport: Transport) -> None:
        async with serve() as server:
            with pytest.raises((ValueError, UsageError)):
                await transport.send(RequestHead("POST", URL(server.url), headers), b"")
            assert not server.heads
            assert await exchange(transport, server.url) == Reply(200, b"mine")

    stage.run(main, collect=True)


def test_a_name_and_a_password_in_an_address_become_a_header(stage: Stage) -> None:
    async def main(transport: Transport) -> None:
        async with serve() as server:
            url = URL(f"http://user:pass@127.0.0.1:{server.port}/")
            await exchange(transport, "", head=RequestHead("POST", url, {}))
            assert b"Authorization: Basic dXNlcjpwYXNz" in server.heads[0].split(b"\r\n")
            assert b"Host: 127.0.0.1:%d" % server.port in server.heads[0].split(b"\r\n")

    stage.run(main)


def test_a_head_may_say_that_the_connection_ends(stage: Stage) -> None:
    skip_fault(stage, "keeps the connection if the server does")

    async def main(transport: Transport) -> None:
        async with serve() as server:
            head = RequestHead("POST", URL(server.url), {"Connection": "close"})
            for number in (1, 2):
                assert await exchange(transport, "", b"next", head=head) == Reply(200, b"next")
                assert server.connections == number
            assert b"Connection: close" in server.heads[0].split(b"\r\n")

    stage.run(main)


@pytest.mark.parametrize("size", [0, 1, 2**16 - 1, 2**16, 2**16 + 1, MEBIBYTE, 5 * MEBIBYTE + 1])
def test_a_body_of_any_size_arrives_whole(stage: Stage, size: int) -> None:
    body = (bytes(range(251)) * (size // 251 + 1))[:size]

    async def main(transport: Transport) -> None:
        async with serve() as server:
            assert await exchange(transport, server.url, body) == Reply(200, body)
            assert await exchange(transport, server.url, b"next") == Reply(200, b"next")
            assert server.connections == 1

    stage.run(main)


REFUSAL = b"HTTP/1.1 413 Large\r\nContent-Length: 2\r\n\r\nno"
LARGE = bytes(24 * MEBIBYTE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "outcomes"),
    [
        ((close,), [Reply(413, b"no"), Failure(TransportError)]),
        ((reset,), [Reply(413, b"no"), Failure(TransportError)]),
        ((hang,), [Reply(413, b"no")]),
    ],
    ids=["closed", "reset", "open"],
)
def test_a_reply_during_a_large_upload_is_taken_and_ends_the_connection(
    stage: Stage, ends: Script, outcomes: list[Reply | Failure]
) -> None:
    async def main(transport: Transport) -> None:
        async with serve((read_head, REFUSAL, *ends)) as server:
            outcome = await exchange(transport, server.url, LARGE)
            assert any(matches(outcome, expected) for expected in outcomes), outcome
            assert await exchange(transport, server.url, b"next") == Reply(200, b"next")
            assert server.connections == 2
            assert len(server.requests) == 1

    stage.run(main, collect=True)


def test_a_whole_reply_read_by_pieces_equals_the_reply_read_at_once(stage: Stage) -> None:
    body = bytes(range(256)) * 2048

    async def main(transport: Transport) -> None:
        reply = (read_request, encoded(b"gzip", gzip.compress(body)))
        async with serve((*reply, *reply)) as server:
            response = await transport.send(RequestHead("POST", URL(server.url), {}), b"")
            start = await anext(response.pieces())
            assert start + await read_pieces(response) == body
            response = await transport.send(RequestHead("POST", URL(server.url), {}), b"")
            assert bytes(await response.read()) == body
            assert server.connections == 1

    stage.run(main)
