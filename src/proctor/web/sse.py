"""Server-sent events, as they stand on the line."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from proctor.web.client_limits import EventStreams


def event(data: str, name: str = "") -> str:
    """One event; each line of its data stands after `data:`."""
    lines = [f"event: {name}"] * bool(name) + [f"data: {line}" for line in data.splitlines() or [""]]
    return "\n".join(lines) + "\n\n"


class EventStreamResponse(StreamingResponse):
    """A stream that counts as open from before its first byte until its client has gone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it.

        Raises:
            Refused: too many streams are open.
        """
        streams: EventStreams = scope["app"].state.event_streams
        with streams.reserve((scope.get("client") or ("",))[0]):
            await super().__call__(scope, receive, send)


def streamed(events: AsyncIterator[str]) -> StreamingResponse:
    """A response that sends each event as it comes, which nobody in between keeps or gathers up."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return EventStreamResponse(events, media_type="text/event-stream", headers=headers)
