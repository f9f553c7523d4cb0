"""One connection: requests are written to it, and replies read from it, one after the other."""

from __future__ import annotations

import asyncio
import re
import select
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from proctor.targets.transport.http1_response import Http1Response
from proctor.targets.transport.protocol import TransportError

MAX_HEAD = 2**16
"""The most bytes in the head of a reply, with trailers."""
MAX_HEADERS = 200
MAX_INTERIM = 2**20
"""The most bytes of interim replies, which gateways send during a long wait, and of the head after them."""
MAX_BUFFERED = 2**18
"""How many bytes of a body wait for their reader before the server has to."""
DEFAULT_IDLE_S = 15.0
"""How long an idle connection is kept if the server does not say how long it does."""
_OVERHEAD = 64
"""How many bytes of framing may come with a byte of a body in chunks."""
_MAX_JOINED = 2**16
"""A body up to this size is written together with its head."""
_WRITE_SIZE = 2**18
_LIST_HEADERS = frozenset({b"content-encoding", b"transfer-encoding"})
_TIMEOUT = re.compile(rb"timeout=(\d{1,6})\b", re.IGNORECASE)


class UnsentRequest(TransportError):
    """A connection that was used before ended before the request was written."""


class ConnectionOwner(Protocol):
    """The state of a connection between requests."""

    def add(self, connection: Connection) -> None:
        """Notes a connection that is made."""

    def write_soon(self, connection: Connection) -> None:
        """Lets a connection write its request together with the others of this turn of the loop."""

    def release(self, connection: Connection) -> None:
        """Keeps a connection whose reply was read."""

    def forget(self, connection: Connection) -> None:
        """Forgets a connection that is closed."""


class Connection(asyncio.Protocol):
    """A connection that is idle, or busy with one request."""

    def __init__(self, owner: ConnectionOwner) -> None:
        """Takes what keeps the connection while it is idle."""
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._has_input: Callable[[], object]
        self._parser: HttpResponseParser | None = None
        self._waiter: asyncio.Future[Http1Response] | None = None
        """Waits for the head of a reply."""
        self._response: Http1Response | None = None
        """The reply whose body is arriving."""
        self._headers: dict[bytes, bytes] = {}
        self._header_count = 0
        self._max_head = MAX_HEAD
        self._overhead = 0
        """How many bytes arrived that are no body."""
        self._body_size = 0
        self._is_complete = self._keeps = self._is_paused = self._ends_with_connection = False
        self._fault: TransportError | None = None
        """What is wrong with a reply."""
        self._drain: asyncio.Future[None] | None = None
        self._is_full = self._is_writing = self._is_used = False
        self._next_request: bytes | None = None
        """A request that is about to be written; what arrives before it is no reply to it."""
        self.idle_limit_s = DEFAULT_IDLE_S
        self.idle_since = 0.0

    # --- requests ------------------------------------------------------------------------------------------

    async def exchange(self, head: bytes, body: bytes, *, keeps: bool) -> Http1Response:
        """Sends a request and returns the head of its reply; a caller that is cancelled ends the connection.

        Args:
            head: the head up to the value of `Content-Length`.
            body: the body.
            keeps: whether the connection may be used again.

        Raises:
            UnsentRequest: the connection was used before, and ended before the request was written.
            TransportError: the connection ended before the head of a reply, or that is no HTTP.
        """
        is_large = len(body) > _MAX_JOINED
        if self._transport.is_closing() or (is_large and self._is_used and not self.is_usable()):
            self.abort()
            raise UnsentRequest("Server disconnected") if self._is_used else self._lost_error(None)
        waiter: asyncio.Future[Http1Response] = self._loop.create_future()
        self._waiter = waiter
        self._headers = {}
        self._header_count = self._overhead = self._body_size = 0
        self._max_head = MAX_HEAD
        self._is_complete, self._keeps = False, keeps
        try:
            if is_large:
                await self._write_large(b"%b%d\r\n\r\n" % (head, len(body)), body, waiter)
            elif self._is_used:
                self._next_request = b"%b%d\r\n\r\n%b" % (head, len(body), body)
                self._owner.write_soon(self)
            else:
                self._transport.write(b"%b%d\r\n\r\n%b" % (head, len(body), body))
            return await waiter
        except BaseException:
            if self._waiter is waiter:
                self._waiter = None
                self.abort()
            elif waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                waiter.result().close()  # it came just as the caller was cancelled
            raise

    def write_request(self) -> None:
        """Writes the request that waits for it, if its caller does and the connection can be used."""
        request, self._next_request = self._next_request, None
        if request is None or self._waiter is None or self._waiter.done():
            return
        if self.is_usable():
            self._transport.write(request)
        else:
            self._fail(UnsentRequest("Server disconnected"))

    async def _write_large(self, head: bytes, body: bytes, waiter: asyncio.Future[Http1Response]) -> None:
        """Writes as fast as the server reads, and no longer than until it replies."""
        self._is_writing = True
        self._transport.write(head)
        view = memoryview(body)
        for start in range(0, len(body), _WRITE_SIZE):
            while self._is_full and not waiter.done():
                self._drain = self._loop.create_future()
                await self._drain
            if waiter.done() or self._transport.is_closing():
                return  # `_is_writing` remains, so that the connection is not used again
            self._transport.write(view[start : start + _WRITE_SIZE])
        self._is_writing = False

    def is_open(self) -> bool:
        """Whether the connection is not known to be closed, and the server will not just now."""
        return not self._transport.is_closing() and self._loop.time() - self.idle_since <= self.idle_limit_s

    def is_usable(self) -> bool:
        """Whether a request may be sent: it is open, and nothing has arrived that was not read.

        That would be its end, or bytes that nobody asked for.
        """
        return not self._transport.is_closing() and not self._has_input()

    def abort(self) -> None:
        """Ends the connection at once."""
        self._transport.abort()

    # --- what asyncio calls --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts with an idle connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = HttpResponseParser(self)
        self._has_input = make_input_check(self._transport)
        self._owner.add(self)

    def data_received(self, data: bytes) -> None:
        """Reads a part of a reply, or all of it."""
        if (self._waiter is None and self._response is None) or self._parser is None:
            self.abort()  # nobody asked for that
            return
        if self._next_request is not None:
            self._fail(UnsentRequest("Server disconnected"))
            return
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._fault = self._fault or TransportError("the server changed to another protocol")
        except HttpParserError as error:
            self._keeps = False
            if not self._is_complete:
                self._fault = self._fault or TransportError(f"the reply is not HTTP/1.1: {error}")
        if self._is_complete:
            self._finish()
        elif self._fault is not None:
            self._fail(self._fault)
        elif self._overhead > self._max_head + _OVERHEAD * self._body_size:
            self._fail(self._size_error())
        elif self._response is not None:
            self._hand_over(self._response)

    def eof_received(self) -> None:
        """Ends a reply without a length; the connection is closed next.

        Under TLS uvloop calls this only if the server said that this is the end. asyncio calls it in any
        case, so there a reply without a length may be cut off.
        """
        self._keeps = False
        if self._response is not None and self._ends_with_connection:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fails what waits for a reply."""
        if self._waiter is not None or self._response is not None:
            self._fail(self._lost_error(exc))
        self._parser = None  # it refers to this object
        self._wake_writer()
        self._owner.forget(self)

    def pause_writing(self) -> None:
        """Stops writing a large body."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Goes on writing a large body."""
        self._is_full = False
        self._wake_writer()

    # --- what the parser calls -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Notices bytes after the end of a reply."""
        if self._is_complete:
            self._keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Adds a header; a trailer is only counted."""
        if self._is_complete:
            return
        self._header_count += 1
        if self._header_count > MAX_HEADERS:
            self._fault = TransportError(f"the reply has more than {MAX_HEADERS} headers")
        elif self._response is None:
            name = name.lower()
            if name not in self._headers:
                self._headers[name] = value
            elif name in _LIST_HEADERS:
                self._headers[name] += b", " + value

    def on_headers_complete(self) -> None:
        """Makes the response, unless it is an interim one."""
        parser, headers = self._parser, self._headers
        assert parser is not None
        if self._is_complete:
            return
        status = parser.get_status_code()
        if status < 200:
            self._headers, self._header_count = {}, 0
            self._max_head = MAX_INTERIM
            if status < 100:
                self._fault = TransportError(f"the reply has the status {status}")
            return
        length = headers.get(b"content-length")
        has_body = status not in (204, 304)
        self._ends_with_connection = False
        if length is None and has_body:
            coding = headers.get(b"transfer-encoding")
            if coding is None:
                self._ends_with_connection = True
            elif coding.strip().lower() != b"chunked":
                self._fault = TransportError("the reply has an unknown Transfer-Encoding")
        if b"keep-alive" in headers:
            self.idle_limit_s = _parse_idle_limit(headers[b"keep-alive"])
        size = (None if length is None else int(length)) if has_body else 0
        self._response = Http1Response(status, headers, size, self)

    def on_body(self, body: bytes) -> None:
        """Adds a part of the body."""
        size = len(body)
        self._overhead -= size
        self._body_size += size
        response = self._response
        if response is None or self._is_complete:
            return
        if response.add(body) > MAX_BUFFERED and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Notes the end of a reply, unless it is an interim one."""
        if self._response is not None and not self._is_complete and self._fault is None:
            self._is_complete = True
            assert self._parser is not None
            self._keeps = self._keeps and self._parser.should_keep_alive()

    # --- what becomes of a reply ---------------------------------------------------------------------------

    def _hand_over(self, response: Http1Response) -> None:
        """Gives the head of a reply to the caller, and wakes who reads its body."""
        waiter = self._waiter
        if waiter is None:
            response.wake()
        elif waiter.done():  # the caller was cancelled just now, and ends the connection
            return
        else:
            self._waiter = None
            waiter.set_result(response)
            self._wake_writer()

    def _finish(self) -> None:
        """Ends a reply, and keeps the connection if it can be used again."""
        response, waiter = self._response, self._waiter
        assert response is not None
        self._response = self._waiter = None
        response.complete()
        if self._is_paused:
            self.resume_response()
        if self._is_writing:
            self.abort()  # the server does not want the rest of the request
        elif self._keeps:
            self._is_used = True
            self.idle_since = self._loop.time()
            self._owner.release(self)
        else:
            self._transport.close()
        if waiter is not None and not waiter.done():
            waiter.set_result(response)
            if self._drain is not None:
                self._wake_writer()

    def _fail(self, error: TransportError) -> None:
        """Ends a reply before its end, and the connection."""
        response, waiter = self._response, self._waiter
        self._response = self._waiter = self._next_request = None
        if response is not None:
            response.fail(error)
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        self._wake_writer()
        self.abort()

    def end_response(self, response: Http1Response) -> None:
        """Ends the connection whose reply nobody wants."""
        if self._response is response:
            self._response = None
            self.abort()

    def resume_response(self) -> None:
        """Goes on reading a reply that its reader was too slow for."""
        if self._is_paused:
            self._is_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _wake_writer(self) -> None:
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)

    def _size_error(self) -> TransportError:
        if self._max_head == MAX_INTERIM and self._response is None:
            return TransportError("the server keeps sending interim replies")
        return TransportError("the head of the reply is too large")

    def _lost_error(self, cause: Exception | None) -> TransportError:
        if self._next_request is not None:
            return UnsentRequest("Server disconnected")
        if cause is not None:
            return TransportError(str(cause) or type(cause).__name__)
        if self._response is not None:
            return TransportError("the server closed the connection in the middle of its reply")
        return TransportError("Server disconnected")


def make_input_check(transport: asyncio.Transport) -> Callable[[], object]:
    """Returns what tells in a microsecond whether a connection has something to read."""
    descriptor = transport.get_extra_info("socket").fileno()
    if not hasattr(select, "poll"):
        return lambda: select.select([descriptor], [], [], 0)[0]
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return partial(poller.poll, 0)


def _parse_idle_limit(value: bytes) -> float:
    """Returns how long an idle connection is kept by `Keep-Alive`: a second less than the server does."""
    match = _TIMEOUT.search(value)
    return DEFAULT_IDLE_S if match is None else min(max(int(match[1]) - 1.0, 0.0), DEFAULT_IDLE_S)
