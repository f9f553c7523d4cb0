"""Server-sent events in their wire format."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from proctor.web.client_limits import EventStreams


def format_event(data: str, name: str = "") -> str:
    """Formats one event; each line of its data follows `data:`."""
    lines = [f"event: {name}"] * bool(name) + [f"data: {line}" for line in data.splitlines() or [""]]
    return "\n".join(lines) + "\n\n"


class EventStreamResponse(StreamingResponse):
    """A stream that counts as open until its client has disconnected."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the stream.

        Raises:
            RequestRefused: too many streams are open.
        """
        streams: EventStreams = scope["app"].state.event_streams
        with streams.reserve((scope.get("client") or ("",))[0]):
            await super().__call__(scope, receive, send)


def stream_response(events: AsyncIterator[str]) -> StreamingResponse:
    """Returns a streaming response that proxies neither cache nor buffer."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return EventStreamResponse(events, media_type="text/event-stream", headers=headers)
