"""Server-sent events of streamed replies.

Source of the format: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

from codecs import BOM_UTF8
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
        self._data_size = 0
        self._is_at_start = True
        self._ended_with_return = False
        """Whether the last piece ended with a carriage return, which a line feed may follow."""
        self.is_done = False
        """Whether OpenAI's last line, `data: [DONE]`, has arrived."""

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """Yields the events that end in a piece of the stream.

        Raises:
            TargetError: an event is not a JSON object.
        """
        if not piece:
            return
        if self._ended_with_return:
            piece = piece.removeprefix(b"\n")
        self._ended_with_return = piece.endswith(b"\r")
        self._rest += piece
        if b"\n" not in piece and b"\r" not in piece:
            return
        lines = self._rest.splitlines()
        self._rest = bytearray() if self._rest.endswith((b"\n", b"\r")) else lines.pop()
        if self._is_at_start:
            self._is_at_start = False
            lines[0] = lines[0].removeprefix(BOM_UTF8)
        for line in lines:
            if event := self._add_line(bytes(line)):
                yield event

    @property
    def pending_bytes(self) -> int:
        """The size of the event that has not ended yet."""
        return len(self._rest) + self._data_size

    def _add_line(self, line: bytes) -> dict[str, Any] | None:
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
                self._data_size += len(line)
            return None
        data, self._data, self._data_size = b"\n".join(self._data), [], 0
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
