"""Reads rows from the pages of an SQLite file, each page by itself, so that a damaged page affects no other.

SQLite reads a table from its root page down and gives up at the first damaged page. This module reads every
page: first those that are still reachable from the tree, then all others that are not on the list of free
pages.

Source: "Database File Format", sections 1 (pages, records), 2 (schema) and 4 (write-ahead log), sqlite.org.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAGIC = b"SQLite format 3\x00"
_PAGE_SIZES = (4096, 1024, 2048, 8192, 16384, 32768, 65536, 512)
"""Page sizes in bytes, the default first."""
_INTERIOR_INDEX, _INTERIOR_TABLE, _LEAF_INDEX, _LEAF_TABLE = 2, 5, 10, 13
_SAMPLE_BYTES = 16 * 2**20
"""The number of bytes read to guess the page size when the header is lost."""
_VALUE_WIDTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
"""The sizes of values in bytes, by serial types up to 9."""

SqliteValue = int | float | str | bytes | None


class PageRow(NamedTuple):
    """A record of a table or of an index."""

    rowid: int | None
    """None in an index and in a table without rowids."""
    values: tuple[SqliteValue, ...]


class DamagedPage(Exception):
    """Bytes that do not follow the format."""


class PageFile:
    """The pages of a database file, numbered from 1, including those committed to its log."""

    def __init__(self, path: Path, *, with_log: bool = True) -> None:
        """Reads the header and the log.

        Args:
            path: the file.
            with_log: whether to include what its log has committed.

        Raises:
            OSError: it cannot be read.
        """
        self._file = path.open("rb")
        self._size = path.stat().st_size
        log = Path(f"{path}-wal")
        self._log = log.open("rb") if with_log and log.is_file() and log.stat().st_size > 32 else None
        header = self._file.read(100)
        self.page_size = _parse_page_size(header) or self._read_log_page_size() or self._guess_page_size()
        self._frames = self._read_committed_frames()
        self.page_count = max(-(-self._size // self.page_size), *self._frames, 1)
        first = self.read_page(1)
        self.has_header = first.startswith(MAGIC) and _parse_page_size(first) == self.page_size
        self.usable_size = self.page_size - (first[20] if self.has_header else 0)

    def close(self) -> None:
        """Closes the files."""
        self._file.close()
        if self._log is not None:
            self._log.close()

    def read_page(self, number: int) -> bytes:
        """Returns the bytes of a page, padded with zeros if the file ends inside it."""
        if self._log is not None and number in self._frames:
            self._log.seek(self._frames[number])
            return self._log.read(self.page_size)
        self._file.seek((number - 1) * self.page_size)
        return self._file.read(self.page_size).ljust(self.page_size, b"\x00")

    def read_header_field(self, offset: int) -> int:
        """Returns a four-byte number of the header; 0 if the header is lost."""
        return int.from_bytes(self.read_page(1)[offset : offset + 4], "big") if self.has_header else 0

    # --- the log ---

    def _read_log_page_size(self) -> int | None:
        if self._log is None:
            return None
        self._log.seek(0)
        magic, _, size = struct.unpack(">3I", self._log.read(12))
        return size if magic & ~1 == 0x377F0682 and size in _PAGE_SIZES else None

    def _read_committed_frames(self) -> dict[int, int]:
        """Returns where the newest version of each page begins in the log, up to the last complete commit."""
        if self._log is None or self._read_log_page_size() != self.page_size:
            return {}
        self._log.seek(0)
        header = self._log.read(32)
        order = ">" if header[3] & 1 else "<"
        salts, state = header[16:24], _checksum(header[:24], (0, 0), order)
        if state != struct.unpack(">2I", header[24:32]):
            return {}
        frames: dict[int, int] = {}
        waiting: dict[int, int] = {}
        while len(frame := self._log.read(24)) == 24:
            at = self._log.tell()
            page = self._log.read(self.page_size)
            state = _checksum(page, _checksum(frame[:8], state, order), order)
            if frame[8:16] != salts or struct.unpack(">2I", frame[16:24]) != state:
                break
            number, is_commit = struct.unpack(">2I", frame[:8])
            waiting[number] = at
            if is_commit:
                frames.update(waiting)
                waiting.clear()
        return frames

    def _guess_page_size(self) -> int:
        """Returns the size at which most pages with rows are found; other sizes miss or split some."""
        self._file.seek(0)
        data = self._file.read(_SAMPLE_BYTES)

        def leaves(size: int) -> int:
            return sum(_is_leaf(data[start : start + size]) for start in range(0, len(data), size))

        return max(_PAGE_SIZES, key=leaves)


class PageTrees:
    """The trees of a database: which page belongs to which table or index, as far as known."""

    def __init__(self, pages: PageFile) -> None:
        """Walks all trees.

        Args:
            pages: the file.
        """
        self._pages = pages
        self.names: dict[int, str] = {}
        """The table or index of each page that is reachable from a root."""
        self.free_pages = self._read_free_pages()
        if pages.has_header:
            self._walk(1, "sqlite_schema")
            for number in [number for number, name in self.names.items() if name == "sqlite_schema"]:
                for row in self.read_rows(number):
                    if len(row.values) == 5 and isinstance(row.values[3], int):
                        self._walk(row.values[3], str(row.values[1]))

    def _walk(self, root: int, name: str) -> None:
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if (
                1 <= number <= self._pages.page_count
                and number not in self.names
                and number not in self.free_pages
            ):
                self.names[number] = name
                waiting.extend(_child_pages(self._pages.read_page(number), number))

    def _read_free_pages(self) -> set[int]:
        free: set[int] = set()
        trunk = self._pages.read_header_field(32)
        while 1 < trunk <= self._pages.page_count and trunk not in free:
            free.add(trunk)
            page = self._pages.read_page(trunk)
            following, count = struct.unpack(">2I", page[:8])
            if following > self._pages.page_count or count > self._pages.usable_size // 4 - 2:
                break  # the list is damaged from here on
            free.update(struct.unpack(f">{count}I", page[8 : 8 + 4 * count]))
            trunk = following
        return free

    def iter_pages(self) -> Iterator[int]:
        """Yields all pages that may have rows: those of trees first, as others may be older."""
        yield from self.names
        for number in range(1, self._pages.page_count + 1):
            if number not in self.names and number not in self.free_pages:
                yield number

    def read_rows(self, number: int) -> Iterator[PageRow]:
        """Yields the rows of a page that can be read completely."""
        page = self._pages.read_page(number)
        start = 100 if number == 1 and self._pages.has_header else 0
        kind = page[start]
        if kind not in (_LEAF_TABLE, _LEAF_INDEX, _INTERIOR_INDEX):
            return
        for offset in _cell_offsets(page, start):
            try:
                yield self._read_row(page, kind, offset)
            except (DamagedPage, IndexError, struct.error, UnicodeDecodeError):
                continue  # this row is lost; the others of its page may not be

    def _read_row(self, page: bytes, kind: int, offset: int) -> PageRow:
        if kind == _INTERIOR_INDEX:
            offset += 4
        size, offset = _read_varint(page, offset)
        rowid = None
        if kind == _LEAF_TABLE:
            rowid, offset = _read_varint(page, offset)
            rowid = rowid - 2**64 if rowid >= 2**63 else rowid
        payload = self._read_payload(page, offset, size, is_table=kind == _LEAF_TABLE)
        return PageRow(rowid, _parse_record(payload))

    def _read_payload(self, page: bytes, offset: int, size: int, *, is_table: bool) -> bytes:
        usable = self._pages.usable_size
        most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
        if size <= most:
            return _slice(page, offset, size)
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = local if local <= most else least
        parts, remaining = [_slice(page, offset, local)], size - local
        following = int.from_bytes(_slice(page, offset + local, 4), "big")
        visited: set[int] = set()
        while remaining:
            if (
                not 1 < following <= self._pages.page_count
                or following in visited
                or following in self.free_pages
            ):
                raise DamagedPage
            visited.add(following)
            more = self._pages.read_page(following)
            parts.append(more[4 : 4 + min(remaining, usable - 4)])
            remaining -= len(parts[-1])
            following = int.from_bytes(more[:4], "big")
        if following:
            raise DamagedPage
        return b"".join(parts)


# --- bytes -------------------------------------------------------------------------------------------------


def _parse_page_size(header: bytes) -> int | None:
    size = int.from_bytes(header[16:18], "big")
    size = 65536 if size == 1 else size
    return size if header.startswith(MAGIC) and size in _PAGE_SIZES else None


def _is_leaf(page: bytes) -> bool:
    return page[:1] == bytes([_LEAF_TABLE]) and bool(cells := _cell_offsets(page, 0)) and min(cells) >= 8


def _cell_offsets(page: bytes, start: int) -> tuple[int, ...]:
    """Returns the offsets of a page's cells, without those outside of the page."""
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    first = start + (12 if page[start] in (_INTERIOR_INDEX, _INTERIOR_TABLE) else 8)
    count = min(count, (len(page) - first) // 2)
    pointers = struct.unpack_from(f">{count}H", page, first)
    return tuple(pointer for pointer in dict.fromkeys(pointers) if first <= pointer < len(page))


def _child_pages(page: bytes, number: int) -> list[int]:
    start = 100 if number == 1 else 0
    if page[start] not in (_INTERIOR_INDEX, _INTERIOR_TABLE):
        return []
    cells = [int.from_bytes(page[offset : offset + 4], "big") for offset in _cell_offsets(page, start)]
    return [*cells, int.from_bytes(page[start + 8 : start + 12], "big")]


def _slice(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise DamagedPage
    return data[start : start + size]


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for place in range(8):
        byte = data[offset + place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, offset + place + 1
    return value << 8 | data[offset + 8], offset + 9


def _parse_record(payload: bytes) -> tuple[SqliteValue, ...]:
    """Returns the values of a record.

    Raises:
        DamagedPage: the payload is not exactly one record.
    """
    end, offset = _read_varint(payload, 0)
    types = []
    while offset < end:
        kind, offset = _read_varint(payload, offset)
        types.append(kind)
    if offset != end or 10 in types or 11 in types:
        raise DamagedPage
    values: list[SqliteValue] = []
    for kind in types:
        width = _VALUE_WIDTHS[kind] if kind < 10 else (kind - 12) // 2
        data = _slice(payload, offset, width)
        offset += width
        values.append(_parse_value(kind, data))
    if offset != len(payload):
        raise DamagedPage
    return tuple(values)


def _parse_value(kind: int, data: bytes) -> SqliteValue:
    if kind == 0:
        return None
    if kind == 7:
        return float(struct.unpack(">d", data)[0])
    if kind < 7:
        return int.from_bytes(data, "big", signed=True)
    if kind < 10:
        return kind - 8
    return data.decode() if kind % 2 else data


def _checksum(data: bytes, state: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = state
    numbers = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for even, odd in zip(numbers, numbers, strict=True):
        first = first + even + second & 0xFFFFFFFF
        second = second + odd + first & 0xFFFFFFFF
    return first, second
