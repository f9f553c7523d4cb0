"""Reads ZIP archives strictly: every byte of the file belongs to one entry or to the central directory.

Nothing is unpacked to disk. A bundle's archive needs only a small part of the format. Everything else is
refused, as two programs could read it in different ways, or it could hide something.

Source: PKWARE, "APPNOTE.TXT: .ZIP File Format Specification", version 6.3.10, sections 4.3 and 4.4.
"""

from __future__ import annotations

import stat
import zlib
from collections.abc import Iterator
from struct import Struct as Layout
from typing import BinaryIO

from msgspec import Struct

MAGIC = b"PK"
"""How every archive begins."""
_LOCAL_HEADER = Layout("<4s5H3I2H")
_CENTRAL_HEADER = Layout("<4s6H3I5H2I")
_END_RECORD = Layout("<4s4H2IH")
_METHOD_STORED, _METHOD_DEFLATED = 0, 8
_UTF8_FLAG = 0x800
_SPEED_FLAGS = 0x006
"""Two bits with the compression level, which have no effect."""
_TIME_FIELDS = frozenset((0x000A, 0x5455, 0x5855, 0x7875))
"""Extra fields with times and owners, as common archivers write them."""
_MAX_TIME_FIELD_BYTES = 32
"""The maximum bytes of these fields; more could hide something."""
_RATIO_CHECKED_FROM_BYTES = 16 * 2**20
_MAX_RATIO = 200
"""The maximum compression ratio of an entry over `_RATIO_CHECKED_FROM_BYTES` bytes."""
_CHUNK_BYTES = 2**18


class BadArchive(Exception):
    """The file is not an archive of a bundle; the message is a clause that follows its name."""


class ZipMember(Struct, frozen=True, kw_only=True):
    """One entry of an archive: the position of its data and their compression."""

    name: str
    start: int
    """The offset of its data in the file."""
    packed_size: int
    """The size of its data in the file."""
    size: int
    crc: int
    method: int


class _DirectoryEntry(Struct, frozen=True, kw_only=True):
    """An entry in the central directory at the end of an archive."""

    raw: bytes
    flags: int
    method: int
    crc: int
    packed_size: int
    size: int
    offset: int


def read_members(file: BinaryIO, count: int) -> list[ZipMember]:
    """Returns the entries of an archive with `count` entries, in the order of their data.

    Raises:
        BadArchive: the file is not exactly such an archive.
    """
    length = file.seek(0, 2)
    start, entries = _read_directory(file, length, count)
    place, result = 0, []
    for entry in sorted(entries, key=lambda item: item.offset):
        if entry.offset != place:
            what = "overlaps another one" if entry.offset < place else "has hidden bytes before it"
            raise BadArchive(f"is damaged: the entry {_entry_name(entry)!a} {what}")
        member = _read_member(file, entry)
        place = member.start + member.packed_size
        if place > start:
            raise BadArchive(f"is damaged: the entry {member.name!a} is longer than the archive")
        result.append(member)
    if place != start:
        raise BadArchive("has hidden bytes behind its last entry")
    return result


def _read_directory(file: BinaryIO, length: int, count: int) -> tuple[int, list[_DirectoryEntry]]:
    """Returns the offset of the central directory, and its entries."""
    if length < _END_RECORD.size:
        raise BadArchive("is cut off: it is too short for an archive")
    file.seek(length - _END_RECORD.size)
    magic, disk, first_disk, entries_here, total, size, start, comment = _END_RECORD.unpack(
        file.read(_END_RECORD.size)
    )
    if magic != b"PK\x05\x06" or comment:
        raise BadArchive("is cut off, or has bytes behind its end")
    if (
        disk
        or first_disk
        or entries_here != total
        or 0xFFFF in (entries_here, total)
        or 0xFFFFFFFF in (size, start)
    ):
        raise BadArchive("is in several parts or in the 64-bit form, as no bundle is")
    if total != count:
        raise BadArchive(f"has {total} entries instead of {count}")
    if start + size + _END_RECORD.size != length:
        raise BadArchive("has hidden bytes, or its list of entries is not where it should be")
    file.seek(start)
    remaining = file.read(size)
    entries = []
    for _ in range(count):
        entry, entry_size = _parse_entry(remaining)
        entries.append(entry)
        remaining = remaining[entry_size:]
    if remaining:
        raise BadArchive("has hidden bytes in its list of entries")
    return start, entries


def _parse_entry(data: bytes) -> tuple[_DirectoryEntry, int]:
    """Parses the first entry of a directory; returns it and its size in bytes."""
    if len(data) < _CENTRAL_HEADER.size:
        raise BadArchive("is damaged: its list of entries breaks off")
    (
        magic,
        made_by,
        _,
        flags,
        method,
        _,
        _,
        crc,
        packed_size,
        size,
        name_length,
        extra,
        comment,
        disk,
        _,
        mode,
        offset,
    ) = _CENTRAL_HEADER.unpack_from(data)
    end = _CENTRAL_HEADER.size + name_length + extra + comment
    if magic != b"PK\x01\x02" or len(data) < end:
        raise BadArchive("is damaged: its list of entries breaks off")
    raw = data[_CENTRAL_HEADER.size : _CENTRAL_HEADER.size + name_length]
    entry = _DirectoryEntry(
        raw=raw, flags=flags, method=method, crc=crc, packed_size=packed_size, size=size, offset=offset
    )
    name = ascii(_entry_name(entry))
    if comment or disk:
        raise BadArchive(f"has a comment at the entry {name}, or is in several parts, as no bundle is")
    _check_extra(name, data[_CENTRAL_HEADER.size + name_length : end])
    _check_kind(name, made_by >> 8, mode)
    _check_packing(name, entry)
    return entry, end


def _entry_name(entry: _DirectoryEntry) -> str:
    return entry.raw.decode("utf-8", "backslashreplace")


def _check_kind(name: str, system: int, mode: int) -> None:
    """Refuses links, folders and devices; only Unix-like systems store file types, in the upper half."""
    kind = stat.S_IFMT(mode >> 16) if system in (3, 19) else 0
    if kind not in (0, stat.S_IFREG) or mode & 0x10:
        raise BadArchive(f"has the entry {name}, which is a link, a folder or a device and no plain file")


def _check_extra(name: str, extra: bytes) -> None:
    while extra:
        kind, size = int.from_bytes(extra[:2], "little"), int.from_bytes(extra[2:4], "little")
        if len(extra) < 4 + size or kind not in _TIME_FIELDS or size > _MAX_TIME_FIELD_BYTES:
            raise BadArchive(f"has extra fields at the entry {name} that no bundle needs")
        extra = extra[4 + size :]


def _check_packing(name: str, entry: _DirectoryEntry) -> None:
    if entry.flags & ~(_UTF8_FLAG | _SPEED_FLAGS):
        raise BadArchive(f"has the entry {name} encrypted or streamed, as no bundle has it")
    if entry.method not in (_METHOD_STORED, _METHOD_DEFLATED):
        raise BadArchive(
            f"has the entry {name} packed by method {entry.method}; read are stored and deflated"
        )
    if entry.method == _METHOD_STORED and entry.packed_size != entry.size:
        raise BadArchive(f"is damaged: the stored entry {name} has two sizes")
    if entry.size > _RATIO_CHECKED_FROM_BYTES and entry.size > _MAX_RATIO * entry.packed_size:
        raise BadArchive(
            f"has the entry {name}, which unpacks to {entry.size // max(entry.packed_size, 1)} times its "
            "size "
            f"({entry.size} bytes), as no bundle does"
        )


def _read_member(file: BinaryIO, entry: _DirectoryEntry) -> ZipMember:
    """Reads an entry's local header, which must agree with the directory."""
    name = ascii(_entry_name(entry))
    file.seek(entry.offset)
    head = file.read(_LOCAL_HEADER.size)
    if len(head) < _LOCAL_HEADER.size or not head.startswith(b"PK\x03\x04"):
        raise BadArchive(f"is damaged: the entry {name} is not where the list says")
    _, _, flags, method, _, _, crc, packed_size, size, name_length, extra = _LOCAL_HEADER.unpack(head)
    raw, more = file.read(name_length), file.read(extra)
    if (raw, flags, method, crc, packed_size, size) != (
        *(entry.raw, entry.flags, entry.method),
        *(entry.crc, entry.packed_size, entry.size),
    ):
        raise BadArchive(f"is damaged: the entry {name} is described in two ways")
    _check_extra(name, more)
    return ZipMember(
        name=_entry_name(entry),
        start=entry.offset + _LOCAL_HEADER.size + name_length + extra,
        packed_size=packed_size,
        size=size,
        crc=crc,
        method=method,
    )


def read_chunks(file: BinaryIO, member: ZipMember) -> Iterator[bytes]:
    """Yields the content of an entry in chunks, never more than its size.

    Raises:
        BadArchive: the data do not match the entry.
    """
    crc = unpacked_size = 0
    for piece in _inflate(file, member) if member.method == _METHOD_DEFLATED else _read_raw(file, member):
        crc, unpacked_size = zlib.crc32(piece, crc), unpacked_size + len(piece)
        if unpacked_size > member.size:
            break
        yield piece
    if (crc, unpacked_size) != (member.crc, member.size):
        raise BadArchive(f"is damaged: the entry {member.name!a} is not what its header says")


def _read_raw(file: BinaryIO, member: ZipMember) -> Iterator[bytes]:
    place, end = member.start, member.start + member.packed_size
    while place < end:
        file.seek(place)  # each time, as two entries are read in step
        piece = file.read(min(_CHUNK_BYTES, end - place))
        if not piece:
            raise BadArchive(f"is cut off in the entry {member.name!a}")
        place += len(piece)
        yield piece


def _inflate(file: BinaryIO, member: ZipMember) -> Iterator[bytes]:
    """Yields the decompressed data, at most one chunk at a time."""
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        for piece in _read_raw(file, member):
            remaining = piece
            while remaining and not unpacking.eof:
                yield unpacking.decompress(remaining, _CHUNK_BYTES)
                remaining = unpacking.unconsumed_tail
            if unpacking.unused_data or (remaining and unpacking.eof):
                raise BadArchive(f"has hidden bytes in the entry {member.name!a}")
    except zlib.error:
        raise BadArchive(f"is damaged: the entry {member.name!a} cannot be unpacked") from None
    yield from _inflate_rest(unpacking)
    if not unpacking.eof:
        raise BadArchive(f"is damaged: the data of the entry {member.name!a} break off")


def _inflate_rest(unpacking: zlib._Decompress) -> Iterator[bytes]:
    """Yields the remaining decompressed data after the last input."""
    while not unpacking.eof:
        piece = unpacking.decompress(unpacking.unconsumed_tail, _CHUNK_BYTES)
        if not piece:
            return
        yield piece
