"""Compressed bodies, cut into any pieces."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.targets.transport.decompression import MAX_PIECE, Decompressor
from proctor.targets.transport.protocol import TransportError


def compress(data: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.compress(data)
    packer = zlib.compressobj(wbits=-15 if encoding == "raw" else 15)
    return packer.compress(data) + packer.flush()


def decompress(pieces: list[bytes], encoding: str) -> bytes:
    decompressor, body = Decompressor("gzip" if encoding == "gzip" else "deflate"), b""
    for piece in pieces:
        decompressor.feed(piece)
        while output := decompressor.next_piece():
            assert len(output) <= MAX_PIECE
            body += output
    if not decompressor.is_complete:
        raise TransportError("cut off")
    return body


def split_data(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted(place % (len(data) + 1) for place in places)
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


ENCODINGS = st.sampled_from(["gzip", "deflate", "raw"])
PLACES = st.lists(st.integers(0, 10**6), max_size=6)


@given(st.binary(max_size=400), ENCODINGS, PLACES)
def test_a_body_comes_back_however_it_is_cut(data: bytes, encoding: str, places: list[int]) -> None:
    assert decompress(split_data(compress(data, encoding), places), encoding) == data


@given(st.binary(min_size=1, max_size=400), ENCODINGS, st.integers(1, 10**6), PLACES)
def test_a_body_without_its_end_is_never_taken_for_whole(
    data: bytes, encoding: str, missing: int, places: list[int]
) -> None:
    compressed = compress(data, encoding)
    short = compressed[: -(1 + missing % (len(compressed) - 1))]
    with pytest.raises(TransportError):
        decompress(split_data(short, places), encoding)


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate"]))
def test_any_bytes_give_a_body_or_an_error_of_transport(data: bytes, encoding: str) -> None:
    with suppress(TransportError):
        decompress([data], encoding)


@given(st.binary(max_size=99), st.binary(max_size=99), PLACES)
def test_gzip_may_have_several_members(first: bytes, second: bytes, places: list[int]) -> None:
    body = gzip.compress(first) + gzip.compress(second)
    assert decompress(split_data(body, places), "gzip") == first + second


@pytest.mark.parametrize("size", [MAX_PIECE - 1, MAX_PIECE, MAX_PIECE + 1, 3 * MAX_PIECE])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw"])
def test_what_unfolds_a_thousandfold_comes_in_limited_pieces(encoding: str, size: int) -> None:
    assert decompress([compress(b"0" * size, encoding)], encoding) == b"0" * size


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "", "zstd"])
def test_an_encoding_that_was_not_asked_for_is_named(encoding: str) -> None:
    with pytest.raises(TransportError, match="not requested"):
        Decompressor(encoding)
