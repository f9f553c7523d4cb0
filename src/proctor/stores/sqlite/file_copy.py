"""Copies a database to another file, page by page: complete and durable, or not at all.

Source: "Online Backup API", sqlite.org.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from proctor.store_protocol import Progress

Verify = Callable[[Path, dict[str, int]], None]
"""Checks that a file has these numbers of rows by table; raises if it has not."""

_PAGES_PER_STEP = 2048


def copy_store(
    source: sqlite3.Connection,
    to: Path,
    on_progress: Progress = lambda _count, _total: None,
    *,
    verify: Verify | None = None,
) -> dict[str, int]:
    """Copies what a connection sees to a new file; returns the number of rows of each table.

    Args:
        source: the connection.
        to: the new file, which appears under its name once all of it is durable.
        on_progress: called with the pages copied and their total.
        verify: checks the copy before it gets its name.

    Raises:
        sqlite3.Error: the store cannot be read, or the file cannot be written.
        OSError: the file cannot be written.
    """
    with new_database(to) as part:
        # One transaction, which starts with its first read: the copy has nothing that others write meanwhile.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_master").fetchone()
        try:
            with closing(sqlite3.connect(part, isolation_level=None)) as copy:
                copy.execute("PRAGMA synchronous = OFF")  # all of it is synced at the end
                source.backup(
                    copy,
                    pages=_PAGES_PER_STEP,
                    progress=lambda _status, remaining, total: on_progress(total - remaining, total),
                )
            rows = count_rows(source)
        finally:
            source.rollback()
        if verify is not None:
            verify(part, rows)
    return rows


@contextmanager
def new_database(to: Path) -> Iterator[Path]:
    """Yields a path to write a database to; it is renamed to `to` once the block has ended and it is durable.

    Raises:
        FileExistsError: the name is taken.
    """
    part = to.absolute().with_name(f".{to.name}.{os.urandom(6).hex()}.part")
    try:
        yield part
        _sync(part)
        _rename_part(part, to)
    finally:
        remove_database(part)


def remove_database(path: Path) -> None:
    """Removes a database and the files that SQLite makes beside it."""
    for ending in ("", "-journal", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def count_rows(db: sqlite3.Connection) -> dict[str, int]:
    """Returns the number of rows of each table, in the order in which the tables were created."""
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {
        name: db.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]  # noqa: S608  # names from the schema
        for name in names
        if not name.startswith("sqlite_")
    }


def _rename_part(part: Path, to: Path) -> None:
    """Renames a finished file, and never replaces another file.

    Raises:
        FileExistsError: the name is taken.
    """
    try:
        os.link(part, to)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(to):
            raise FileExistsError(to) from None
        part.rename(to)
    _sync(to.absolute().parent)


def _sync(path: Path) -> None:
    """Waits until a file or folder is durable, as far as the system supports that for folders."""
    is_folder = path.is_dir()
    if is_folder and sys.platform == "win32":
        return  # this system cannot open folders
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    except OSError:
        if not is_folder:  # some network file systems cannot sync folders
            raise
    finally:
        os.close(descriptor)
