"""Streamed replies of Anthropic's Messages API.

Source of the events: https://platform.claude.com/docs/en/build-with-claude/streaming.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from proctor.errors import TargetError

_PIECE_FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""The field of a delta with the piece that it adds to its block, by the delta's type."""


class _Delta(Struct, frozen=True):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Event(Struct):
    type: str
    message: dict[str, Any] = {}
    index: int = 0
    content_block: dict[str, Any] = {}
    delta: _Delta = _Delta()
    usage: dict[str, Any] | None = None


class _StreamedBlock:
    """A block of content, as it began, and the pieces that were added to it."""

    def __init__(self, block: dict[str, Any]) -> None:
        self._block = block
        self._pieces: dict[str, list[str]] = {}

    def add(self, name: str, piece: str) -> None:
        """Adds a piece to a field."""
        self._pieces.setdefault(name, []).append(piece)

    def complete(self) -> dict[str, Any]:
        """Returns the block as an unstreamed reply has it."""
        block = dict(self._block)
        for name, pieces in self._pieces.items():
            text = "".join(pieces)
            if name == "partial_json":
                block["input"] = _parse_input(text)
            else:
                block[name] = f"{block.get(name) or ''}{text}"
        return block


class StreamedMessage:
    """Puts the events of a streamed reply together to the JSON of the same reply unstreamed."""

    def __init__(self) -> None:
        """Starts before the first event."""
        self.is_complete = False
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, _StreamedBlock] = {}
        self._error: dict[str, Any] | None = None

    def add(self, event: dict[str, Any]) -> bool:
        """Adds one event; returns whether it brought reasoning, text or a part of a tool call.

        Raises:
            TargetError: the event has another form than the API's.
        """
        try:
            parsed = msgspec.convert(event, _Event)
        except msgspec.ValidationError as error:
            raise TargetError(
                f"The stream has an event that does not follow the Messages API ({error}).", kind="protocol"
            ) from None
        if parsed.type == "content_block_delta":
            return self._add_delta(parsed.index, parsed.delta)
        if parsed.type == "message_start":
            self._message = dict(parsed.message)
        elif parsed.type == "content_block_start":
            self._blocks[parsed.index] = _StreamedBlock(parsed.content_block)
        elif parsed.type == "message_delta":
            self._message["stop_reason"] = parsed.delta.stop_reason
            self._add_usage(parsed.usage or {})
        elif parsed.type == "error":
            self._error = event
        # Other events, such as `ping`, say nothing about the reply, and new ones may be added.
        self.is_complete |= parsed.type in {"message_stop", "error"}
        return False

    def body(self) -> bytes:
        """Returns the JSON of the unstreamed reply, or of the error that an event reported."""
        if self._error is not None:
            return msgspec.json.encode(self._error)
        content = [self._blocks[index].complete() for index in sorted(self._blocks)]
        return msgspec.json.encode({**self._message, "content": content})

    def _add_delta(self, index: int, delta: _Delta) -> bool:
        name = _PIECE_FIELDS.get(delta.type)
        piece = getattr(delta, name) if name else ""
        if not name or not piece:
            return False
        self._blocks.setdefault(index, _StreamedBlock({"type": "text"})).add(name, piece)
        return True

    def _add_usage(self, counts: dict[str, Any]) -> None:
        """Adds the counts at the end of a stream, which replace those of its beginning."""
        usage = self._message.get("usage")
        known = {name: count for name, count in counts.items() if count is not None}
        self._message["usage"] = {**(usage if isinstance(usage, dict) else {}), **known}


def _parse_input(text: str) -> dict[str, Any]:
    """Parses the arguments of a tool call; what is not a JSON object goes under `arguments`."""
    try:
        arguments = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        arguments = text
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}
