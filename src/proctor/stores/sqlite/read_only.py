"""Connections to a store that cannot be written, such as one on a read-only mount.

SQLite needs a file beside a store even to read it, as its newest rows may be in a log (`-wal`). Without such
a log the store is read in place; with one it is read through the index (`-shm`) of the log's writer or, if
that is missing, from a temporary copy. Nothing is ever written through these connections.

Sources: "Write-Ahead Logging", section 5, "Read-Only Databases", and "Uniform Resource Identifiers",
sqlite.org.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from proctor.stores.sqlite.migrations import APPLICATION_ID, MIGRATIONS, migrate

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

C = TypeVar("C", bound=sqlite3.Connection)

_COPIES: dict[str, tuple[tuple[int, ...], TemporaryDirectory[str]]] = {}
"""The temporary copies of this process by the store's path, each with the stamp of what was copied."""


def connect_read_only(path: str, connect: Callable[[str, bool], C]) -> C:
    """Opens a connection that sees everything committed and writes nothing.

    A store of an earlier version is copied, and the copy is migrated.

    Args:
        path: the store's file.
        connect: opens a file, given by its path, or by a URI if the flag is set.

    Raises:
        sqlite3.Error: the file cannot be used.
        OSError: it cannot be copied.
    """
    real = os.path.realpath(path)
    db = connect_in_place(real, connect)
    if db is not None and _is_outdated(db):
        db.close()
        db = None
    if db is None:
        db = connect(_copy_store(real), False)
        if _is_outdated(db):
            migrate(db)
    db.execute("PRAGMA query_only = ON")
    return db


def connect_in_place(real: str, connect: Callable[[str, bool], C]) -> C | None:
    """Opens a connection to the file itself; None if SQLite would have to write to read it."""
    uri = Path(real).as_uri()
    if _file_size(f"{real}-journal"):
        return None
    if not _file_size(f"{real}-wal"):
        return connect(f"{uri}?immutable=1", True)
    if not _file_size(f"{real}-shm"):  # SQLite would create it
        return None
    db = connect(f"{uri}?mode=ro", True)
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:  # the log has no readable index
        db.close()
        return None
    return db


def _is_outdated(db: sqlite3.Connection) -> bool:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return bool(application == APPLICATION_ID and version < len(MIGRATIONS))


def _copy_store(real: str) -> str:
    """Returns the path of a copy of the store with its log, which is removed when this process ends."""
    import shutil
    from tempfile import TemporaryDirectory

    files = [Path(f"{real}{ending}") for ending in ("", "-wal", "-journal") if _file_size(f"{real}{ending}")]
    stamp = tuple(number for file in files for number in (file.stat().st_size, file.stat().st_mtime_ns))
    earlier = _COPIES.get(real)
    if earlier is None or earlier[0] != stamp:
        folder = TemporaryDirectory(prefix="proctor-store-")
        for file in files:
            shutil.copyfile(file, Path(folder.name) / file.name)
        earlier = _COPIES[real] = (stamp, folder)
    return str(Path(earlier[1].name) / Path(real).name)


def _file_size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0
