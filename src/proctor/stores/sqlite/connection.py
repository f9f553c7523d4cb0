"""Opens connections to stores; refuses other files and newer versions before it writes anything."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain, count
from pathlib import Path
from threading import RLock
from typing import Any
from weakref import WeakSet

from proctor.errors import StoreError
from proctor.stores.sqlite.lock_wait import BUSY_TIMEOUT_MS, LockWait, is_locked
from proctor.stores.sqlite.migrations import APPLICATION_ID, MIGRATIONS, migrate

REMEDY = (
    "`proctor store check` shows what is wrong with it, and `proctor store repair NEWFILE` saves "
    "everything that can be read to a new store."
)
_SIBLINGS = ("", "-wal", "-shm")
_DAMAGE_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# Bytes are stored as they are. Without an adapter sqlite3 looks for `__adapt__` and `__conform__` for each
# value, which takes a third of a row's time in Python.
sqlite3.register_adapter(bytes, bytes)


class SqliteConnection(sqlite3.Connection):
    """A connection that is registered while it is open, and waits for locks as its `lock_wait` says."""

    name: str
    lock_wait: LockWait

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Executes a statement; waits for a lock as `lock_wait` says."""
        try:
            return super().execute(*arguments)
        except sqlite3.OperationalError as error:
            if not is_locked(error):
                raise
        execute = super().execute
        return self.lock_wait.retry(lambda: execute(*arguments))

    def close(self) -> None:
        """Closes the connection and unregisters it."""
        super().close()
        with _OPEN_LOCK:
            _OPEN_CONNECTIONS.discard(self)


_OPEN_CONNECTIONS: WeakSet[SqliteConnection] = WeakSet()
_OPEN_LOCK = RLock()


def open_database(
    path: str, lock_wait: LockWait | None = None, notify: Callable[[str], None] = lambda _line: None
) -> sqlite3.Connection:
    """Opens a connection to a store; creates or migrates it if needed.

    A store that cannot be written is opened read-only.

    Args:
        path: the file.
        lock_wait: how it waits for locks; None for the default of commands.
        notify: called with a sentence if a store of an earlier version was backed up before its migration.

    Raises:
        StoreError: the file is not a store, is damaged, or was written by a newer version; it is not changed.
    """
    _check_before_opening(Path(path))
    with as_store_errors(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        db = connect(path, lock_wait)
        try:
            _check_opened(Path(path), db)
            if not is_read_only(db):
                migrate(db, partial(_back_up, path, notify))
                db.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            db.close()
            raise
    return db


def open_to_read(path: str) -> sqlite3.Connection:
    """Opens a connection that writes nothing, not even beside the file; reads a copy of an earlier version.

    Raises:
        StoreError: the file is not a store, is damaged, or was written by a newer version.
    """
    from proctor.stores.sqlite.read_only import connect_read_only

    _check_before_opening(Path(path), with_log=False)  # to check the log is to write beside it
    with as_store_errors(path):
        db = connect_read_only(path, _connect)
        try:
            _check_opened(Path(path), db)
        except BaseException:
            db.close()
            raise
    return db


def open_as_is(path: str) -> sqlite3.Connection:
    """Opens a read-only connection to a store of any version, without migrating it.

    Raises:
        StoreError: the file is missing or not a store, cannot be read, or was written by a newer version.
    """
    if not os.path.lexists(path):
        raise StoreError(f"There is no store at {shorter_path(path)}. Choose a store with --store.")
    if Path(path).is_file() and not Path(path).stat().st_size:
        raise StoreError(
            f"The store {shorter_path(path)} is empty. Restore it from a backup, or choose another store "
            f"with --store."
        )
    _check_before_opening(Path(path))
    with as_store_errors(path):
        db = connect(path)
        try:
            _check_opened(Path(path), db)
            db.execute("PRAGMA query_only = ON")
        except BaseException:
            db.close()
            raise
    return db


def _back_up(path: str, notify: Callable[[str], None], version: int) -> None:
    """Backs up a store of an earlier version before it is changed.

    Raises:
        StoreError: the copy cannot be written.
    """
    from proctor.stores.sqlite.file_copy import copy_store

    first = f"{path}.backup-v{version}"
    names = chain([first], (f"{first}-{number}" for number in count(2)))
    to = next(name for name in names if not os.path.lexists(name))
    try:
        with as_store_errors(path), closing(connect(path)) as source:
            copy_store(source, Path(to))
    except StoreError as error:
        raise StoreError(
            f"The store {shorter_path(path)} has version {version} and must be migrated to version "
            f"{len(MIGRATIONS)}, but "
            f"its backup {to} cannot be written: {error.__cause__ or error}. Nothing was changed. Free some "
            f"space there, or copy the store elsewhere and choose the copy with --store."
        ) from error
    now = len(MIGRATIONS)
    notify(
        f"The store {shorter_path(path)} is being migrated from version {version} to {now}. Its "
        f"backup is {to}."
    )


def _check_before_opening(path: Path, *, with_log: bool = True) -> None:
    """Reads the file's header as plain bytes, since even a read-only connection may write beside the file.

    Does nothing while this process has a connection to it: closing any other descriptor of a file releases
    all locks that the process has on it, and another process would then delete the log that the connection
    writes to.

    Sources: "Database File Format", section 1.3; "How To Corrupt An SQLite Database File", section 2.2,
    sqlite.org.
    """
    name = os.path.realpath(path)
    with _OPEN_LOCK:
        if not any(connection.name == name for connection in _OPEN_CONNECTIONS):
            _check_header(path)
            if with_log:
                _check_log(Path(name))


def _check_log(path: Path) -> None:
    log = Path(f"{path}-wal")
    if not log.exists():
        return
    from proctor.stores.sqlite.wal_check import is_foreign_log

    if path.is_file() and path.stat().st_size and is_foreign_log(path):
        raise StoreError(
            f"{log} is not the log of the store {shorter_path(path)} and would overwrite it. Nothing was "
            f"changed. Move the log away, or choose another store with --store. `proctor store repair "
            f"NEWFILE` saves the store without the log."
        )


def _check_header(path: Path) -> None:
    try:
        if path.exists() and not path.is_file():
            raise StoreError(
                f"The store {shorter_path(path)} is not a file. Choose a file, for example with --store."
            )
        with path.open("rb") as file:
            header = file.read(100)
        size = path.stat().st_size
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(
            f"The store {shorter_path(path)} cannot be read: {error.strerror}. Choose another store, for "
            f"example with --store."
        ) from None
    if not header:
        _check_not_emptied(path)
        return
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    if len(header) < 100 or not header.startswith(b"SQLite format 3\x00") or size % max(page, 1):
        raise StoreError(
            f"{shorter_path(path)} is damaged or is not a store. It was not changed. If it was a store, "
            f"`proctor store repair "
            "NEWFILE` saves everything that can be read to a new store. Otherwise choose another file with "
            "--store."
        )
    application, version = int.from_bytes(header[68:72], "big"), int.from_bytes(header[60:64], "big")
    _check_version(path, application, version, has_content=int.from_bytes(header[28:32], "big") > 1)


def _check_not_emptied(path: Path) -> None:
    """Refuses an empty file that used to be a store; any other empty file may become one."""
    real = os.path.realpath(path)
    traces = [Path(f"{real}{ending}") for ending in ("-wal", "-claims", "-catalogue")]
    trace_left = next((trace for trace in traces if trace.exists()), None)
    if trace_left is not None:
        raise StoreError(
            f"The store {shorter_path(path)} is empty, but {trace_left.name} shows that it had content. It "
            f"was not changed. Restore it from a backup, or choose another file with --store."
        )


def _check_opened(path: Path, db: sqlite3.Connection) -> None:
    """Checks the header through a connection, which also sees what is in the log beside the file."""
    db.execute("BEGIN")  # one snapshot, as another process may be creating the same store right now
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    db.rollback()
    _check_version(path, application, version, has_content=tables > 0)


def _check_version(path: Path, application: int, version: int, *, has_content: bool) -> None:
    if application != APPLICATION_ID:
        if application or version or has_content:
            raise StoreError(
                f"{shorter_path(path)} is the database of another program. Choose another file with --store."
            )
    elif version > len(MIGRATIONS):
        raise StoreError(
            f"{shorter_path(path)} was written by a newer version of Proctor (store version "
            f"{version}; this one reads "
            f"up to {len(MIGRATIONS)}). Run `pip install -U proctor`, or choose another file with --store."
        )


def connect(path: str, lock_wait: LockWait | None = None) -> SqliteConnection:
    """Opens another connection to a store that was opened before; `lock_wait` is as for `open_database`.

    Raises:
        sqlite3.Error: the file cannot be used.
    """
    # Absolute, as names such as `:memory:` have a special meaning to SQLite.
    name = str(Path(path).absolute())
    if not is_writable(name):
        from proctor.stores.sqlite.read_only import connect_read_only

        return connect_read_only(name, _connect)
    return _set_up(_connect(name), lock_wait)


def connect_to_memory(uri: str, lock_wait: LockWait | None = None) -> SqliteConnection:
    """Opens a connection to a database in memory, which lasts as long as one of its connections is open.

    Args:
        uri: `file:/NAME?vfs=memdb`; every connection of this process to that name sees the same rows.
        lock_wait: as for `open_database`.
    """
    db = _set_up(_connect(uri, uri=True), lock_wait)
    db.execute("PRAGMA temp_store = MEMORY")
    return db


def _set_up(db: SqliteConnection, lock_wait: LockWait | None) -> SqliteConnection:
    db.lock_wait = lock_wait or LockWait()
    try:
        db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        db.execute("PRAGMA synchronous = NORMAL")  # with WAL a killed process loses nothing
    except BaseException:
        db.close()
        raise
    return db


def _connect(name: str, uri: bool = False) -> SqliteConnection:
    with _OPEN_LOCK:
        db = sqlite3.connect(
            name,
            isolation_level=None,
            cached_statements=64,
            check_same_thread=False,
            factory=SqliteConnection,
            uri=uri,
        )
        db.name = os.path.realpath(name)
        db.lock_wait = LockWait()
        _OPEN_CONNECTIONS.add(db)
    return db


@contextmanager
def as_store_errors(path: str) -> Iterator[None]:
    """Raises errors of SQLite and the system as StoreErrors that name the store."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter if a table's name is damaged
        if is_locked(error):
            raise StoreError(
                f"The store {shorter_path(path)} is locked by another process. Wait until that process ends, "
                f"then try again."
            ) from error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_READONLY:
            raise StoreError(read_only_message(path)) from error
        remedy = f" {REMEDY}" if code in _DAMAGE_CODES or isinstance(error, UnicodeDecodeError) else ""
        raise StoreError(f"The store {shorter_path(path)} cannot be used: {error}.{remedy}") from error
    except OSError as error:
        if Path(path).exists() and not is_writable(path):
            raise StoreError(read_only_message(path)) from error
        raise StoreError(
            f"The store {shorter_path(path)} cannot be used: {error.strerror or error}."
        ) from error


def is_writable(path: str) -> bool:
    """Returns whether a store and the files that SQLite makes beside it can be written or created."""
    real = Path(os.path.realpath(path))
    if not real.exists():
        return True
    places = [real.parent, *(Path(f"{real}{ending}") for ending in _SIBLINGS)]
    return all(_is_writable_or_missing(place) for place in places)


def _is_writable_or_missing(path: Path) -> bool:
    """Returns whether a file can be written or does not exist.

    Other processes create and remove the log meanwhile, so a refusal counts only if the file stays the same.
    """
    effective = os.access in os.supports_effective_ids
    while True:
        try:
            before = path.stat()
            if os.access(path, os.W_OK, effective_ids=effective):
                return True
            after = path.stat()
        except FileNotFoundError:
            return True
        if (before.st_ino, before.st_ctime_ns) == (after.st_ino, after.st_ctime_ns):
            return False


def is_read_only(db: sqlite3.Connection) -> bool:
    """Returns whether a connection was opened by `connect_read_only`."""
    return bool(db.execute("PRAGMA query_only").fetchone()[0])


def shorter_path(path: str | Path) -> str:
    """Returns a path in the working directory as it is written there, and any other as it is."""
    try:
        return str(path).removeprefix(f"{Path.cwd()}{os.sep}")
    except OSError:  # the working directory was removed
        return str(path)


def read_only_message(path: str) -> str:
    """Returns the error text for writing to a store that cannot be written."""
    return (
        f"The store {shorter_path(path)} is read-only. Copy it to a folder that you can write to, and "
        f"choose the copy with --store."
    )
