"""Server-sent events: the same events however the stream is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import TargetError
from proctor.targets.api.event_stream import EventParser

STREAM = (
    ': a comment\r\ndata: {"a": 1}\r\n\r\nevent: x\nid: 3\ndata: {"b":\ndata: "ü"}\n\n\n\ndata:[DONE]\n\n'
).encode()


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_do_not_depend_on_where_the_stream_is_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    parser = EventParser()
    pieces = [STREAM[start:end] for start, end in pairwise(places)]
    events = [event for piece in pieces for event in parser.feed(piece)]
    assert events == [{"a": 1}, {"b": "ü"}]
    assert parser.is_done


@pytest.mark.parametrize("event", [b"{", b"[1]", b"x", b'{"a": "\xff"}', b"[" * 100_000])
def test_an_event_that_is_no_json_object_is_an_error_of_the_protocol(event: bytes) -> None:
    with pytest.raises(TargetError, match="event that is not") as error:
        list(EventParser().feed(b"data: " + event + b"\n\n"))
    assert error.value.kind == "protocol"
