"""Uvicorn's HTTP connection with limits for slow clients and for idle connections."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from proctor.web.client_limits import ServerLimits, client_key

_SLICE_BYTES = 16 * 2**10
"""h11 checks the size of a head only while the head is incomplete, so it gets small slices."""
_TIMEOUT_RESPONSE = (
    "HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    "Content-Length: {length}\r\n\r\n{sentence}"
)

RequestPart = Literal["head", "body", "rest"]
"""A part of a request; the rest is what is left of a body when its response is complete."""


class IdleConnections:
    """The idle connections of each client, oldest first."""

    def __init__(self, max_per_client: int) -> None:
        """Starts without connections.

        Args:
            max_per_client: how many one client may have.
        """
        self._max_per_client = max_per_client
        self._by_client: dict[str, dict[LimitedProtocol, None]] = defaultdict(dict)

    def add(self, client: str, connection: LimitedProtocol) -> None:
        """Adds an idle connection; closes the client's oldest one if there are too many."""
        idle = self._by_client[client]
        idle.setdefault(connection)
        if len(idle) > self._max_per_client:
            oldest = next(iter(idle))
            del idle[oldest]
            oldest.transport.close()

    def discard(self, client: str, connection: LimitedProtocol) -> None:
        """Removes a connection that is no longer idle."""
        idle = self._by_client.get(client, {})
        idle.pop(connection, None)
        if not idle:
            self._by_client.pop(client, None)


class LimitedProtocol(H11Protocol):
    """A connection that is closed when its client sends too slowly or has too many idle ones.

    A timer runs while the server waits for a client: for the head of a request from its first byte on, which
    further bytes do not extend; and for a body, which each byte extends by a little.
    """

    def __init__(self, *, limits: ServerLimits, idle: IdleConnections, **options: Any) -> None:
        """Sets the limits; uvicorn connects it later.

        Args:
            limits: how long a client may take.
            idle: where all connections of a server are entered.
            options: what uvicorn gives.
        """
        super().__init__(**options)
        self._limits = limits
        self._idle = idle
        self._client = ""
        self._timer: asyncio.TimerHandle | None = None
        self._awaited_part: RequestPart | None = None
        """What the timer runs for."""
        self._body_bytes = 0
        self._stall_timer: asyncio.TimerHandle | None = None

    # uvicorn calls what follows

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts to wait for the first request."""
        super().connection_made(transport)
        self._client = client_key(self.client[0] if self.client else "")
        self._idle.add(self._client, self)
        self._wait_for("head", self._limits.request_head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels all timers."""
        self._idle.discard(self._client, self)
        self._stop_waiting()
        self._stop_stall_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reads part of a request, and sets the timer for what is missing."""
        if self.conn.their_state is h11.SEND_BODY:
            self._body_bytes += len(data)
        for start in range(0, len(data), _SLICE_BYTES):
            if self.transport.is_closing():
                return
            super().data_received(data[start : start + _SLICE_BYTES])
        self._update(has_data=True)

    def on_response_complete(self) -> None:
        """Becomes idle, or reads the rest of a body that the response did not wait for."""
        super().on_response_complete()
        self._update(has_data=bool(self.conn.trailing_data[0]))

    def pause_writing(self) -> None:
        """Starts the stall timer, as the client reads slower than the server writes."""
        super().pause_writing()
        self._stop_stall_timer()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Stops the stall timer."""
        super().resume_writing()
        self._stop_stall_timer()

    # limits

    def _watch_reader(self, unread_before: int | None = None) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread_before is not None and unread >= unread_before:
            self.transport.abort()
            return
        self._stall_timer = self.loop.call_later(self._limits.response_stall_s, self._watch_reader, unread)

    def _stop_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _update(self, *, has_data: bool) -> None:
        if self.transport.is_closing():
            return
        state = self.conn.their_state
        if state is h11.IDLE:
            self._idle.add(self._client, self)
        else:
            self._idle.discard(self._client, self)
        if state is h11.IDLE and has_data:
            self._wait_for("head", self._limits.request_head_s)
        elif state is h11.SEND_BODY and self.cycle.response_complete:
            self._wait_for("rest", self._limits.request_body_s)
        elif state is h11.SEND_BODY:
            self._wait_for("body", self._limits.request_body_s)
        else:
            self._stop_waiting()

    def _wait_for(self, part: RequestPart, seconds: float) -> None:
        """Start the timer, unless it already runs for the same thing."""
        if self._awaited_part == part:
            return
        self._stop_waiting()
        self._awaited_part = part
        self._body_bytes = len(self.cycle.body) if part == "body" else 0
        self._timer = self.loop.call_later(seconds, self._time_out, self.loop.time())

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._awaited_part = None

    def _time_out(self, since: float) -> None:
        if self._awaited_part == "body" and (end := self._body_deadline(since)) > self.loop.time():
            self._timer = self.loop.call_at(end, self._time_out, since)
            return
        is_begun = self._awaited_part == "head" and bool(self.conn.trailing_data[0])
        if is_begun or (self._awaited_part == "body" and not self.cycle.response_started):
            sentence = "This request took too long to arrive, so the connection is closed.\n"
            self.transport.write(_TIMEOUT_RESPONSE.format(length=len(sentence), sentence=sentence).encode())
        self._stop_waiting()
        self.transport.close()

    def _body_deadline(self, since: float) -> float:
        if self.flow.read_paused or self.cycle.waiting_for_100_continue:  # the server is the slow one
            return self.loop.time() + self._limits.request_body_s
        return since + self._limits.request_body_s + self._body_bytes / self._limits.min_body_bytes_per_s
