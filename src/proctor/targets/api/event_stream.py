"""Server-sent events of streamed replies.

Source of the format: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from proctor.errors import TargetError

_DECODER = msgspec.json.Decoder()
UNREADABLE_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding JSON raises: for another form, for bytes that are not UTF-8, and for too deep nesting."""


class StreamedReply(Protocol):
    """Puts the events of one streamed reply together to the JSON that the same reply has unstreamed."""

    is_complete: bool
    """Whether the event that ends a reply has arrived; a stream that ends without it was cut off."""

    def add(self, event: dict[str, Any]) -> bool:
        """Adds one event; returns whether it brought reasoning or text."""

    def body(self) -> bytes:
        """Returns the JSON of the unstreamed reply, or of the error that an event reported."""


class EventParser:
    """Splits a stream of bytes into events with JSON."""

    def __init__(self) -> None:
        """Starts at the beginning of a stream."""
        self._rest = bytearray()
        self._data: list[bytes] = []
        self.is_done = False
        """Whether OpenAI's last line, `data: [DONE]`, has arrived."""

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """Yields the events that end in a piece of the stream.

        Raises:
            TargetError: an event is not a JSON object.
        """
        self._rest += piece
        if b"\n" not in piece and b"\r" not in piece:
            return
        lines = self._rest.replace(b"\r\n", b"\n").split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if event := self._add_line(bytes(line)):
                yield event

    def _add_line(self, line: bytes) -> dict[str, Any] | None:
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            return None
        data, self._data = b"\n".join(self._data), []
        if data.strip() == b"[DONE]":
            self.is_done = True
            return None
        if not data.strip():
            return None
        try:
            event = _DECODER.decode(data)
        except UNREADABLE_JSON as error:
            raise TargetError(
                f"The stream has an event that is not JSON ({error}).", kind="protocol"
            ) from None
        if not isinstance(event, dict):
            raise TargetError("The stream has an event that is not a JSON object.", kind="protocol")
        return event
