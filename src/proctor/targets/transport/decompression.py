"""Compressed bodies → bytes, in pieces of limited size."""

from __future__ import annotations

import zlib

from proctor.targets.transport.protocol import TransportError

MAX_PIECE = 2**18
"""The most bytes that one piece has: a small body may unfold to more than memory holds."""
_GZIP_BITS, _ZLIB_BITS, _RAW_BITS = 31, 15, -15


class Decompressor:
    """Decompresses a body of `gzip` or `deflate` as it arrives."""

    def __init__(self, encoding: str) -> None:
        """Takes the value of `Content-Encoding`; raises TransportError if it is unknown."""
        name = encoding.strip().lower()
        if name not in {"gzip", "x-gzip", "deflate"}:
            raise TransportError(f"its body has the encoding {encoding[:40]!r}, which was not requested")
        self._is_gzip = name != "deflate"
        self._input = b""
        self._stream: zlib._Decompress | None = None
        self._has_output = False
        """Whether zlib may hold output that did not fit into the last piece."""

    @property
    def is_complete(self) -> bool:
        """Whether the pieces so far are all of a whole body, which may be empty."""
        at_end = self._stream is None or self._stream.eof
        return at_end and not self._input and not self._has_output

    def feed(self, data: bytes | bytearray) -> None:
        """Adds input; `next_piece` decompresses it."""
        self._input += data

    def next_piece(self) -> bytes:
        """Returns some of what the input unfolds to; nothing if it needs more input.

        Raises:
            TransportError: the input is not what its encoding says.
        """
        while self._input or self._has_output:
            if self._stream is None and not self._is_gzip and len(self._input) < 2:
                return b""  # the first two bytes tell which `deflate` it is
            stream = self._stream = self._stream_for_input()
            try:
                piece = stream.decompress(self._input, MAX_PIECE)
            except zlib.error as error:
                raise TransportError(f"its body cannot be decompressed ({error})") from error
            self._input = stream.unused_data or stream.unconsumed_tail
            self._has_output = len(piece) == MAX_PIECE and not stream.eof
            if piece:
                return piece
        return b""

    def _stream_for_input(self) -> zlib._Decompress:
        """Returns the stream that the input belongs to: a body of gzip may have several (RFC 1952, 2.2)."""
        if self._stream is not None and not self._stream.eof:
            return self._stream
        if self._is_gzip:
            return zlib.decompressobj(_GZIP_BITS)
        if self._stream is not None:
            raise TransportError("its body continues after the end of its compressed data")
        # What is called `deflate` is zlib's format (RFC 1950), and from some servers bare deflate.
        first, second = self._input[:2]
        is_zlib = first & 15 == 8 and (first << 8 | second) % 31 == 0
        return zlib.decompressobj(_ZLIB_BITS if is_zlib else _RAW_BITS)
