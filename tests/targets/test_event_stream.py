"""Server-sent events: the same events however the stream is cut."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import AnswerTooLarge, TargetError
from proctor.targets import TARGETS
from proctor.targets.api.event_stream import EventParser
from proctor.targets.context import TargetContext
from support.builders import make_prompt, make_spec
from support.endpoints import serve_app

STREAM = (
    ': a comment\r\ndata: {"a": 1}\r\n\r\nevent: x\nid: 3\ndata: {"b":\ndata: "ü"}\n\n\n\ndata:[DONE]\n\n'
).encode()


@given(
    st.lists(st.integers(0, len(STREAM)), max_size=8),
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\n"]),
    st.sampled_from([b"", b"\n", b"\r", b"\r\n"]),
)
def test_events_depend_on_neither_cuts_nor_line_ends_nor_a_mark(
    cuts: list[int], start: bytes, line_end: bytes
) -> None:
    stream = start + (b"".join(line + line_end for line in STREAM.splitlines()) if line_end else STREAM)
    places = [0, *sorted(cuts), len(stream)]
    parser = EventParser()
    pieces = [stream[start:end] for start, end in pairwise(places)]
    events = [event for piece in pieces for event in parser.feed(piece)]
    assert events == [{"a": 1}, {"b": "ü"}]
    assert parser.is_done


@pytest.mark.parametrize("event", [b"{", b"[1]", b"x", b'{"a": "\xff"}', b"[" * 100_000])
def test_an_event_that_is_no_json_object_is_an_error_of_the_protocol(event: bytes) -> None:
    with pytest.raises(TargetError, match="event that is not") as error:
        list(EventParser().feed(b"data: " + event + b"\n\n"))
    assert error.value.kind == "protocol"


async def test_a_stream_is_cut_off_once_its_answer_is_too_large(
    opening: Callable[..., TargetContext],
) -> None:
    """The service never ends it."""
    byte_count = 0

    async def write(request: web.Request) -> web.StreamResponse:
        nonlocal byte_count
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        event = b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n' % (b"a" * 2**16)
        while True:
            await response.write(event)
            byte_count += len(event)

    app = web.Application()
    app.router.add_post("/chat/completions", write)
    async with serve_app(app) as url:
        context = opening()
        context.max_answer_bytes = 2**20
        target = await TARGETS.get("openai").open_target(make_spec("openai", "m", url, stream=True), context)
        with pytest.raises(AnswerTooLarge):
            await target.answer(make_prompt("hello"))
    assert byte_count < 2**25
