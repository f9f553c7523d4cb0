"""Server-sent events, as they stand on the line."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse


def event(data: str, name: str = "") -> str:
    """One event; each line of its data stands after `data:`."""
    lines = [f"event: {name}"] * bool(name) + [f"data: {line}" for line in data.splitlines() or [""]]
    return "\n".join(lines) + "\n\n"


def streamed(events: AsyncIterator[str]) -> StreamingResponse:
    """A response that sends each event as it comes, which nobody in between keeps or gathers up."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)
