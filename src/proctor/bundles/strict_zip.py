"""Reads ZIP archives from untrusted sources, without unpacking anything to disk.

In an exact archive every byte belongs to one entry or to the central directory. A bundle's archive is exact
and needs only a small part of the format. Everything else is refused, as two programs could read it in
different ways, or it could hide something. The archive of an uploaded suite may come from any archiver, and
`services/suites/zip_upload.py` says what it refuses.

Source: PKWARE, "APPNOTE.TXT: .ZIP File Format Specification", version 6.3.10, sections 4.3 and 4.4.
"""

from __future__ import annotations

import stat
import zlib
from collections.abc import Iterator
from struct import Struct as Layout
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

MAGIC = b"PK"
"""How every archive begins."""
_LOCAL_HEADER = Layout("<6x2H4x3I2H")
"""Flags, method, checksum, packed size, size; then the lengths of its name and extra fields."""
_CENTRAL_HEADER = Layout("<5xB2x2H4x3I4H2x2I")
"""The system; the fields of a local header; the length of its comment, its part, its mode, its offset."""
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
    """The file is not such an archive; the message is a clause that follows its name."""


class ZipMember(Struct, frozen=True):
    """One entry of an archive as the central directory describes it, and the position of its data."""

    mode: int
    """The file type and permissions, in the upper half, and the DOS attributes in the lower."""
    offset: int
    """The offset of its local header in the file."""
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed_size: int
    """The size of its data in the file."""
    size: int
    start: int = 0
    """The offset of its data in the file."""

    @property
    def name(self) -> str:
        """Its path, in UTF-8 or code page 437; bytes that are wrong in it are shown with backslashes."""
        return self.raw_name.decode("utf-8" if self.flags & _UTF8_FLAG else "cp437", "backslashreplace")


def read_members(file: BinaryIO, count: int, *, exact: bool = True) -> list[ZipMember]:
    """Returns the entries of an archive with `count` entries, in the order of their data.

    Args:
        file: the archive, without a comment at its end.
        count: the number of its entries.
        exact: whether it must be as a bundle is. If False, as from any archiver, it may have folders, links,
            comments, extra fields, streamed entries and bytes between entries.

    Raises:
        BadArchive: the file is not exactly such an archive.
    """
    start, entries = _read_directory(file, file.seek(0, 2), count, exact)
    place, result = 0, []
    for entry in sorted(entries, key=lambda item: item.offset):
        if entry.offset < place or (exact and entry.offset > place):
            what = "overlaps another entry" if entry.offset < place else "has hidden bytes before it"
            raise BadArchive(f"is damaged: the entry {entry.name!a} {what}")
        member = _read_local_header(file, entry, exact)
        place = member.start + member.packed_size
        if place > start:
            raise BadArchive(f"is damaged: the entry {member.name!a} is longer than the archive")
        result.append(member)
    if exact and place != start:
        raise BadArchive("has hidden bytes after its last entry")
    return result


def _read_directory(file: BinaryIO, length: int, count: int, exact: bool) -> tuple[int, list[ZipMember]]:
    """Returns the offset of the central directory, and its entries."""
    if length < _END_RECORD.size:
        raise BadArchive("is cut off: it is too short for an archive")
    file.seek(length - _END_RECORD.size)
    magic, disk, first_disk, entries_here, total, size, start, comment = _END_RECORD.unpack(
        file.read(_END_RECORD.size)
    )
    if magic != b"PK\x05\x06" or comment:
        raise BadArchive("is cut off, or has bytes after its end")
    if exact and (
        disk
        or first_disk
        or entries_here != total
        or 0xFFFF in (entries_here, total)
        or 0xFFFFFFFF in (size, start)
    ):
        raise BadArchive("has several parts or the 64-bit format, which bundles do not use")
    if total != count:
        raise BadArchive(f"has {total} entries instead of {count}")
    if start + size + _END_RECORD.size != length:
        raise BadArchive("has hidden bytes, or its list of entries is not where it should be")
    file.seek(start)
    data = file.read(size)
    place, entries = 0, []
    for _ in range(count):
        entry, place = _parse_entry(data, place, exact)
        entries.append(entry)
    if place != size:
        raise BadArchive("has hidden bytes in its list of entries")
    return start, entries


def _parse_entry(data: bytes, place: int, exact: bool) -> tuple[ZipMember, int]:
    """Parses the entry at an offset of a directory; returns it and the offset of the next one."""
    header = data[place : place + _CENTRAL_HEADER.size]
    if len(header) < _CENTRAL_HEADER.size or not header.startswith(b"PK\x01\x02"):
        raise BadArchive("is damaged: its list of entries is incomplete")
    system, *common, name_length, extra_length, comment, disk, mode, offset = _CENTRAL_HEADER.unpack(header)
    name_start = place + _CENTRAL_HEADER.size
    extra_start = name_start + name_length
    end = extra_start + extra_length + comment
    if len(data) < end:
        raise BadArchive("is damaged: its list of entries is incomplete")
    entry = ZipMember(mode, offset, data[name_start:extra_start], *common)
    if exact:
        name = ascii(entry.name)
        if comment or disk:
            raise BadArchive(
                f"has a comment at the entry {name}, or has several parts, which bundles do not use"
            )
        _check_extra(name, data[extra_start:end])
        _check_kind(name, system, mode)
        _check_packing(name, entry)
    return entry, end


def _check_kind(name: str, system: int, mode: int) -> None:
    """Refuses links, folders and devices; only Unix-like systems store file types, in the upper half."""
    kind = stat.S_IFMT(mode >> 16) if system in (3, 19) else 0
    if kind not in (0, stat.S_IFREG) or mode & 0x10:
        raise BadArchive(f"has the entry {name}, which is a link, a folder or a device, not a regular file")


def _check_extra(name: str, extra: bytes) -> None:
    while extra:
        kind, size = int.from_bytes(extra[:2], "little"), int.from_bytes(extra[2:4], "little")
        if len(extra) < 4 + size or kind not in _TIME_FIELDS or size > _MAX_TIME_FIELD_BYTES:
            raise BadArchive(f"has extra fields at the entry {name} that no bundle needs")
        extra = extra[4 + size :]


def _check_packing(name: str, entry: ZipMember) -> None:
    if entry.flags & ~(_UTF8_FLAG | _SPEED_FLAGS):
        raise BadArchive(f"has the entry {name} encrypted or streamed, which bundles do not use")
    if entry.method not in (_METHOD_STORED, _METHOD_DEFLATED):
        raise BadArchive(
            f"has the entry {name} packed by method {entry.method}; only stored and deflated entries can be "
            f"read"
        )
    if entry.method == _METHOD_STORED and entry.packed_size != entry.size:
        raise BadArchive(f"is damaged: the stored entry {name} has two sizes")
    if entry.size > _RATIO_CHECKED_FROM_BYTES and entry.size > _MAX_RATIO * entry.packed_size:
        raise BadArchive(
            f"has the entry {name}, which unpacks to {entry.size // max(entry.packed_size, 1)} times its "
            "size "
            f"({entry.size} bytes), which bundles do not do"
        )


def _read_local_header(file: BinaryIO, entry: ZipMember, exact: bool) -> ZipMember:
    """Reads an entry's local header, which must agree with the directory; adds the offset of its data."""
    name = ascii(entry.name)
    file.seek(entry.offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\x03\x04"):
        raise BadArchive(f"is damaged: the entry {name} is not where the list says")
    *common, name_length, extra_length = _LOCAL_HEADER.unpack(header)
    raw_name, extra = file.read(name_length), file.read(extra_length)
    listed = [entry.flags, entry.method, entry.crc, entry.packed_size, entry.size]
    other_name = raw_name != entry.raw_name or (common[0] ^ entry.flags) & _UTF8_FLAG
    if other_name or (exact and common != listed):
        raise BadArchive(f"is damaged: the entry {name} is described in two ways")
    if exact:
        _check_extra(name, extra)
    return replace(entry, start=entry.offset + _LOCAL_HEADER.size + name_length + extra_length)


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
