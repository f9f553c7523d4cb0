"""The reply of `Connection`: its head, and its body as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from proctor.targets.transport.decompression import MAX_PIECE, Decompressor
from proctor.targets.transport.protocol import TransportError


@lru_cache(maxsize=256)
def _encode_name(name: str) -> bytes:
    return name.lower().encode()


@lru_cache(maxsize=64)
def _encode_names(names: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(map(_encode_name, names))


def _decode_value(value: bytes) -> str:
    return value.strip(b" \t").decode("utf-8", "surrogateescape")


class Headers(Mapping[str, str]):
    """Headers as they arrived, found by names in any case."""

    __slots__ = ("_raw",)

    def __init__(self, raw: dict[bytes, bytes]) -> None:
        """Takes values by names in small letters."""
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        return _decode_value(self._raw[_encode_name(name)])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _encode_name(name) in self._raw

    def __iter__(self) -> Iterator[str]:
        return (name.decode("ascii") for name in self._raw)

    def __len__(self) -> int:
        return len(self._raw)


class ResponseSource(Protocol):
    """Where a response comes from."""

    def resume_response(self) -> None:
        """Lets more of the body arrive, as a part of it was taken."""

    def end_response(self, response: Http1Response) -> None:
        """Ends a response of whose body nobody wants the rest."""


class Http1Response:
    """A response of `Http1Transport`; implements `protocol.Response`."""

    __slots__ = (
        "_body",
        "_decompressor",
        "_encoding",
        "_error",
        "_headers",
        "_length",
        "_reader",
        "_source",
        "is_complete",
        "status",
    )

    def __init__(
        self, status: int, headers: dict[bytes, bytes], length: int | None, source: ResponseSource
    ) -> None:
        """Starts without a body.

        Args:
            status: the status.
            headers: their values by names in small letters.
            length: how many bytes will arrive; None if the head does not say.
            source: the connection.
        """
        self.status = status
        self._headers = headers
        self.is_complete = False
        """Whether the whole body has arrived."""
        encoding = headers.get(b"content-encoding")
        self._encoding = (
            None if encoding is None or encoding.lower() == b"identity" else encoding.decode("latin-1")
        )
        self._length = length
        self._body: bytes | bytearray = b""
        """What has arrived and was not taken."""
        self._error: TransportError | None = None
        self._reader: asyncio.Future[None] | None = None
        self._source = source
        self._decompressor: Decompressor | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, found by names in any case."""
        return Headers(self._headers)

    def find_header(self, names: Sequence[str]) -> str | None:
        """Returns the value of the first of these headers that there is."""
        headers = self._headers
        for name in _encode_names(names):
            if name in headers:
                return _decode_value(headers[name])
        return None

    # --- the body arrives ----------------------------------------------------------------------------------

    def add(self, data: bytes) -> int:
        """Adds a part of the body; returns how many bytes wait to be taken."""
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            self._body = bytearray(self._body) + data
        return len(self._body)

    def complete(self) -> None:
        """Ends the body."""
        self.is_complete = True
        if self._reader is not None:
            self.wake()

    def fail(self, error: TransportError) -> None:
        """Ends the body before its end."""
        self._error = error
        self.wake()

    def wake(self) -> None:
        """Lets the reader look again."""
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # --- the body is read ----------------------------------------------------------------------------------

    @property
    def size(self) -> int | None:
        """How many bytes the body has by its head; None if that is unknown or the body is compressed."""
        return None if self._encoding is not None else self._length

    @property
    def is_read(self) -> bool:
        """Whether nothing is left to read."""
        is_decompressed = self._decompressor is None or self._decompressor.is_complete
        return self.is_complete and not self._body and is_decompressed

    def take_body(self, max_size: int) -> bytes | bytearray | None:
        """Returns the whole body, unless it needs to be awaited or decompressed, or is larger than that."""
        body = self._body
        if not self.is_complete or self._encoding is not None or len(body) > max_size:
            return None
        self._body = b""
        return body

    async def read(self) -> bytes | bytearray:
        """Returns the rest of the body, decompressed; raises TransportError."""
        if (body := self.take_body(len(self._body))) is not None:
            return body
        rest = bytearray()
        async for piece in self.pieces():
            rest += piece
        return rest

    def pieces(self) -> AsyncIterator[bytes]:
        """Yields the rest of the body as it arrives, decompressed; raises TransportError."""
        return _Pieces(self)

    async def next_piece(self) -> bytes:
        """Returns the next part of the body, nothing at its end; raises TransportError."""
        if self._decompressor is None and self._encoding is not None:
            self._decompressor = Decompressor(self._encoding)
        decompressor = self._decompressor
        while True:
            if decompressor is not None and (piece := decompressor.next_piece()):
                return piece
            if self._body:
                data = self._take()
                if decompressor is None:
                    return bytes(data)
                decompressor.feed(data)
            elif self._error is not None:
                raise self._error
            elif not self.is_complete:
                self._reader = asyncio.get_running_loop().create_future()
                await self._reader
            elif decompressor is not None and not decompressor.is_complete:
                raise TransportError("its compressed body is cut off")
            else:
                return b""

    def close(self) -> None:
        """Ends the connection, unless the body has arrived to its end."""
        if not self.is_complete:
            self._source.end_response(self)

    def _take(self) -> bytes | bytearray:
        data = self._body[:MAX_PIECE]
        self._body = self._body[MAX_PIECE:]
        if not self.is_complete:
            self._source.resume_response()
        return data


class _Pieces:
    """The parts of a body; it is no generator, which would have to be closed where a reader stops."""

    __slots__ = ("_response",)

    def __init__(self, response: Http1Response) -> None:
        self._response = response

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._response.next_piece()
        if not piece:
            raise StopAsyncIteration
        return piece
