"""A path to a connection: what is no store of this version is refused before anything is written to it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from time import sleep
from weakref import WeakSet

from proctor.errors import StoreError
from proctor.stores.schema import APPLICATION_ID, MIGRATIONS, migrate


class _Connection(sqlite3.Connection):
    """A connection that is known for as long as it is open."""

    name: str

    def close(self) -> None:
        super().close()
        with _OPENING:
            _OPEN.discard(self)


_OPEN: WeakSet[_Connection] = WeakSet()
_OPENING = RLock()


def opened(path: str) -> sqlite3.Connection:
    """A connection to the store in that file, which is made or migrated if need be.

    Raises:
        StoreError: the file is no store, is damaged, or was written by a newer version; it is left as it is.
    """
    _look_before_touching(Path(path))
    with as_store_errors(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        db = connect(path)
        try:
            _look_again(Path(path), db)
            migrate(db)
            _use_log(db)
        except BaseException:
            db.close()
            raise
    return db


def _use_log(db: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite does not wait for the lock that this takes, so it is tried again for a while."""
    for left in reversed(range(200)):
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if not left:
                raise
            sleep(0.02)
        else:
            return


def _look_before_touching(path: Path) -> None:
    """Read the file's header as plain bytes, for even a read-only connection may write beside the file.

    Not while this process has a connection to it: closing any other descriptor of a file lets go of all locks
    that the process has on it, and another process would take away the log that the connection writes to.

    Sources: "Database File Format", section 1.3; "How To Corrupt An SQLite Database File", section 2.2,
    sqlite.org.
    """
    name = os.path.realpath(path)
    with _OPENING:
        if not any(one.name == name for one in _OPEN):
            _look(path)


def _look(path: Path) -> None:
    try:
        if path.exists() and not path.is_file():
            raise StoreError(f"The store {path} is not a file. Name another one with --store.")
        with path.open("rb") as file:
            header = file.read(100)
        size = path.stat().st_size
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"The store {path} cannot be read: {error.strerror}.") from None
    if not header:
        return
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    if len(header) < 100 or not header.startswith(b"SQLite format 3\x00") or size % max(page, 1):
        raise StoreError(
            f"{path} is damaged or not a store: it was left as it is. "
            "Name another file with --store, or restore it from a copy."
        )
    application, version = int.from_bytes(header[68:72], "big"), int.from_bytes(header[60:64], "big")
    _refuse(path, application, version, has_content=int.from_bytes(header[28:32], "big") > 1)


def _look_again(path: Path, db: sqlite3.Connection) -> None:
    """The same through a connection, which also sees what waits in a log file beside the file."""
    db.execute("BEGIN")  # one look, as another process may be making the same store at this moment
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    db.rollback()
    _refuse(path, application, version, has_content=tables > 0)


def _refuse(path: Path, application: int, version: int, *, has_content: bool) -> None:
    if application != APPLICATION_ID:
        if application or version or has_content:
            raise StoreError(f"{path} is another program's database. Name another file with --store.")
    elif version > len(MIGRATIONS):
        raise StoreError(
            f"{path} was written by a newer version of Proctor (store version {version}; this one reads "
            f"up to {len(MIGRATIONS)}). Run `pip install -U proctor`, or name another file with --store."
        )


def connect(path: str) -> sqlite3.Connection:
    """One more connection to a store that was opened.

    Raises:
        sqlite3.Error: the file cannot be used.
    """
    # Absolute, as SQLite gives names such as `:memory:` a meaning of their own.
    name = str(Path(path).absolute())
    with _OPENING:
        db = sqlite3.connect(
            name, isolation_level=None, cached_statements=64, check_same_thread=False, factory=_Connection
        )
        db.name = os.path.realpath(name)
        _OPEN.add(db)
    try:
        db.execute("PRAGMA busy_timeout = 30000")
        db.execute("PRAGMA synchronous = NORMAL")  # with WAL a killed process loses nothing
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def as_store_errors(path: str) -> Iterator[None]:
    """Turns what SQLite and the system raise into a StoreError that names the store."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter where a table's name is damaged
        raise StoreError(f"The store {path} cannot be used: {error}.") from error
    except OSError as error:
        raise StoreError(f"The store {path} cannot be used: {error.strerror or error}.") from error
