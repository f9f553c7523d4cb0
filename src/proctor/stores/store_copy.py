"""Copies all rows of a store into another one, of any kind, and computes the digest of a store.

The digest of a table is that of its rows in order, each in its canonical encoding, so that every database
gives the same for the same rows. That of a store is over the digests of its tables, without caches and
without the paths of suite files, which depend on the store's folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from hashlib import sha256

from msgspec import Struct
from msgspec.msgpack import Encoder

from proctor.errors import StoreError, UsageError
from proctor.plurals import join_names
from proctor.store_protocol import Progress
from proctor.stores.location import StoreLocation
from proctor.stores.sql.row_access import RowReader, RowWriter, StoreRows
from proctor.stores.sql.tables import ANSWERS, TABLES, Row, StoreTable
from proctor.stores.sql.versions import resolve_path, shorten_path

_encode = Encoder().encode


class StoreDigest(Struct, frozen=True, kw_only=True):
    """The content of a store in short."""

    digest: str
    """`sha256:…`, equal for stores with the same content."""
    rows: dict[str, int]
    """The number of rows that are in use, by table."""


class StoreCopy(Struct, frozen=True, kw_only=True):
    """The result of a copy."""

    source_digest: str
    copy_digest: str
    """Computed from the rows as they are in the copy."""
    rows: dict[str, int]
    """The number of rows copied, by table."""
    deleted_versions: int
    """The number of deleted versions of suites that can be restored."""
    answers: int | None
    """The number of answers in the cache that was copied; None without a cache."""


class _TableDigest:
    """The digest of a table's rows, and their number."""

    def __init__(self, table: StoreTable) -> None:
        self.table = table
        self.count = 0
        self._hasher = sha256()

    def add(self, rows: Iterable[Row]) -> None:
        encoded_rows = [_encode(row) for row in rows]
        self._hasher.update(b"".join(encoded_rows))
        self.count += len(encoded_rows)

    def hexdigest(self) -> str:
        return self._hasher.hexdigest()


class _Counter:
    """Reports how many rows have been read or written, of how many."""

    def __init__(self, on_progress: Progress, total: int) -> None:
        self._on_progress = on_progress
        self._total = total
        self._count = 0

    def add(self, rows: int) -> None:
        self._count += rows
        self._on_progress(self._count, max(self._count, self._total))


def get_store_rows(location: StoreLocation) -> StoreRows:
    """Returns the access to the rows of a store.

    Raises:
        UsageError: the store is in memory.
    """
    if location.rows is None:
        raise UsageError(
            f"{location.address} is a store in memory, which ends with the command. Choose another store."
        )
    return location.rows


def compute_digest(
    location: StoreLocation,
    on_progress: Progress = lambda _count, _total: None,
    notify: Callable[[str], None] = lambda _line: None,
) -> StoreDigest:
    """Computes the digest of a store as it is at one moment.

    Args:
        location: where the store is.
        on_progress: called with the number of rows read and their total.
        notify: called with a sentence if the store is migrated first.

    Raises:
        UsageError: the store is in memory.
        StoreError: there is no store, or it cannot be read.
    """
    with get_store_rows(location).read_rows(notify) as reader:
        counter = _Counter(on_progress, sum(reader.count_rows(table) for table in TABLES))
        digests = [_read_table(reader, table, counter) for table in TABLES]
    return StoreDigest(digest=_combine(digests), rows={digest.table.name: digest.count for digest in digests})


def copy_store(
    source: StoreLocation,
    to: StoreLocation,
    *,
    with_cache: bool = False,
    on_progress: Progress = lambda _count, _total: None,
    notify: Callable[[str], None] = lambda _line: None,
) -> StoreCopy:
    """Copies all rows of a store, as they are at one moment, into an empty or missing store.

    The deleted versions of suites are copied as well. Both are read back before the copy can be seen.

    Args:
        source: where the store is.
        to: where the copy is to be; it is complete afterwards, or unchanged.
        with_cache: whether to add the answers of the store's cache to that of the copy.
        on_progress: called with the number of rows read or written, and their total.
        notify: called with a sentence if a store is migrated first.

    Raises:
        UsageError: one of the stores is in memory.
        StoreError: a store cannot be read or written, the copy has content, or it differs from the store.
    """
    rows, copy_rows = get_store_rows(source), get_store_rows(to)
    trash, copy_trash = source.trash(), to.trash()
    with ExitStack() as readers:
        reader = readers.enter_context(rows.read_rows(notify))
        # A version that is deleted is first added to the trash, so it is in at least one of the two.
        trash_reader = (
            readers.enter_context(get_store_rows(trash).read_rows(notify)) if trash.exists() else None
        )
        sources = (reader,) if trash_reader is None else (reader, trash_reader)
        total = sum(source_reader.count_rows(table) for source_reader in sources for table in TABLES)
        counter = _Counter(on_progress, 2 * total)
        with copy_rows.write_rows() as writer:
            digests, copies = _fill(reader, writer, counter)
            # First, as a copy that lacks it could not be told from a complete one.
            deleted_versions = _copy_trash(trash_reader, copy_trash, counter)
        answers = _copy_answers(rows, copy_rows) if with_cache else None
    return StoreCopy(
        source_digest=_combine(digests),
        copy_digest=_combine(copies),
        rows={digest.table.name: digest.count for digest in digests},
        deleted_versions=deleted_versions,
        answers=answers,
    )


def _copy_trash(reader: RowReader | None, to: StoreLocation, counter: _Counter) -> int:
    """Copies the deleted versions of suites, unless a copy that did not end did; returns their number."""
    if reader is None or not any(reader.count_rows(table) for table in TABLES):
        return 0
    if not (to.exists() and _has_same_rows(reader, to, counter)):
        with get_store_rows(to).write_rows() as writer:
            _fill(reader, writer, counter)
    with closing(to.open_store()) as store:
        return len(store.versions())


def _has_same_rows(reader: RowReader, to: StoreLocation, counter: _Counter) -> bool:
    with get_store_rows(to).read_rows() as earlier:
        digests = [_read_table(reader, table, counter) for table in TABLES]
        return not _differing(digests, [_read_table(earlier, table, counter) for table in TABLES])


def _fill(
    reader: RowReader, writer: RowWriter, counter: _Counter
) -> tuple[list[_TableDigest], list[_TableDigest]]:
    """Copies all tables, and returns their digests in both stores.

    Raises:
        StoreError: they differ.
    """
    digests = [_copy_table(reader, writer, table, counter) for table in TABLES]
    copies = [_read_table(writer, table, counter) for table in TABLES]
    names = _differing(digests, copies)
    if names:
        raise StoreError(
            f"The rows of {join_names(names, 3)} in {writer.address} differ from those in {reader.address} "
            "that were copied. Nothing was copied."
        )
    return digests, copies


def _copy_table(reader: RowReader, writer: RowWriter, table: StoreTable, counter: _Counter) -> _TableDigest:
    digest = _TableDigest(table)
    for rows in reader.iter_pages(table):
        if table.path:
            rows = _resolve_paths(reader, table, rows)
            writer.write_rows(table, _shorten_paths(writer, table, rows))
        else:
            writer.write_rows(table, rows)
        digest.add(rows)
        counter.add(len(rows))
    if table.number:
        writer.set_last_number(table, reader.last_number(table))
    return digest


def _read_table(reader: RowReader, table: StoreTable, counter: _Counter) -> _TableDigest:
    digest = _TableDigest(table)
    for rows in reader.iter_pages(table):
        digest.add(_resolve_paths(reader, table, rows) if table.path else rows)
        counter.add(len(rows))
    return digest


def _resolve_paths(reader: RowReader, table: StoreTable, rows: Iterable[Row]) -> list[Row]:
    """Returns rows with absolute paths, which are the same in a copy in any folder."""
    column = table.columns.index(table.path)
    return [
        (*row[:column], os.fsencode(resolve_path(reader.folder, row[column])), *row[column + 1 :])
        for row in rows
    ]


def _shorten_paths(writer: RowWriter, table: StoreTable, rows: Iterable[Row]) -> list[Row]:
    column = table.columns.index(table.path)
    return [
        (*row[:column], shorten_path(writer.folder, os.fsdecode(row[column])), *row[column + 1 :])
        for row in rows
    ]


def _differing(digests: Iterable[_TableDigest], copies: Iterable[_TableDigest]) -> list[str]:
    """Returns the names of the tables whose rows differ."""
    return [
        digest.table.name
        for digest, copy in zip(digests, copies, strict=True)
        if digest.hexdigest() != copy.hexdigest()
    ]


def _combine(digests: Iterable[_TableDigest]) -> str:
    """Returns the digest of a store, from those of its tables."""
    hasher = sha256(b"proctor/store/1\n")
    for digest in digests:
        if digest.table.is_content:
            hasher.update(f"{digest.table.name} {digest.hexdigest()}\n".encode())
    return f"sha256:{hasher.hexdigest()}"


def _copy_answers(rows: StoreRows, to: StoreRows) -> int:
    """Adds the answers of a cache to another one, and returns their number."""
    count = 0
    with rows.read_answers() as reader:
        if reader is None:
            return 0
        with to.write_answers() as writer:
            for page in reader.iter_pages(ANSWERS):
                writer.write_rows(ANSWERS, page)
                count += len(page)
    return count
