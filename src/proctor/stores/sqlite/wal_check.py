"""Checks whether the log beside a store belongs to it, when no process that wrote it is left.

SQLite takes any log that has the store's name, and the log of another database would overwrite the store with
its pages. A log does not say which database it belongs to, so the store is read with it and without it.

Source: "How To Corrupt An SQLite Database File", section 1.4, sqlite.org.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from time import monotonic

from msgspec import Struct

from proctor.stores.sqlite.run_locks import find_lock_holder

_SHARED_BY_READERS = 128
"""The byte of the index (`-shm`) that every connection keeps locked."""
_MAX_CHECK_S = 2.0
"""The check stops after this time; the part of the store that it reached decides."""


def is_foreign_log(path: Path) -> bool:
    """Returns whether the log beside a store belongs to another database; False if a process uses it.

    Call it only while this process has no connection to the store.
    """
    log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    try:
        before = _stamp(log)
        if not log.is_file() or not before.size or _is_in_use(index):
            return False
        # A process that opened the store meanwhile holds a lock; one that closed it has changed the log.
        return _differs(path, log) and not _is_in_use(index) and _stamp(log) == before
    except FileNotFoundError:  # there is no log, or another process has just closed the store
        return False


class _Stamp(Struct, frozen=True):
    """Values that change whenever a log is written or created again."""

    size: int
    inode: int
    modified_ns: int


def _stamp(log: Path) -> _Stamp:
    stat = log.stat()
    return _Stamp(stat.st_size, stat.st_ino, stat.st_mtime_ns)


def _differs(path: Path, log: Path) -> bool:
    """Returns whether a store that is read with its log is another database than without it."""
    if _page_size(path, 16, 2) != _page_size(log, 8, 4):
        return True
    with_log, runs_with = _read_runs(path, "mode=ro")
    if with_log is None:
        return False
    without, runs_without = _read_runs(path, "immutable=1")
    # Keys are never reused, so a key always belongs to the same run.
    if any(runs_with.get(key, name) != name for key, name in runs_without.items()):
        return True
    return not with_log and bool(without)


def _page_size(path: Path, offset: int, width: int) -> int:
    with path.open("rb") as file:
        file.seek(offset)
        size = int.from_bytes(file.read(width), "big")
    return 65536 if size == 1 else size


def _is_in_use(index: Path) -> bool:
    try:
        with index.open("rb") as file:
            return find_lock_holder(file, _SHARED_BY_READERS) is not None
    except FileNotFoundError:
        return False


def _read_runs(path: Path, how: str) -> tuple[bool | None, dict[int, str]]:
    """Reads a store in one way; returns whether it is intact, None if it cannot be read, and its runs."""
    until = monotonic() + _MAX_CHECK_S
    runs: dict[int, str] = {}
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as db:
            runs.update(db.execute("SELECT key, id FROM runs"))
            db.set_progress_handler(lambda: monotonic() > until, 10_000)
            (answer,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_INTERRUPT:
            return True, runs
        return None, runs
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return False, runs
    return answer == "ok", runs
