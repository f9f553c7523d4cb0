"""A cache of answers in one SQLite file, by the digest of everything that they depend on.

The cache is optional: a damaged file is renamed, and an unusable one is ignored; both are reported, and
neither stops a run. Several processes may use the same file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, time
from typing import Any

from msgspec import Struct

from proctor.errors import StoreError
from proctor.plurals import pluralize
from proctor.stores.sqlite.connection import SqliteConnection, connect
from proctor.stores.sqlite.lock_wait import LockWait, is_locked

CACHE_NAME = "cache.db"
"""The name of the file in the folder of a store."""
APPLICATION_ID = 0x50524341
"""`PRCA`; in the file's header, so that another program's database is never taken for a cache."""
_VERSION = 1
_SCHEMA = (
    """CREATE TABLE answers (
        key BLOB NOT NULL UNIQUE, about BLOB NOT NULL, kept_at REAL NOT NULL, parts BLOB NOT NULL,
        value BLOB, why_not TEXT NOT NULL)""",
    "CREATE INDEX answers_by_about ON answers (about, kept_at)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {_VERSION}",
)
_UPSERT = """INSERT INTO answers (key, about, kept_at, parts, value, why_not) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE
    SET kept_at = excluded.kept_at, value = excluded.value, why_not = excluded.why_not
    WHERE excluded.value IS NOT NULL OR answers.value IS NULL"""
_GET = "SELECT value, why_not FROM answers WHERE key = ?"
_EARLIER = "SELECT parts FROM answers WHERE about = ? AND kept_at < ? ORDER BY kept_at DESC LIMIT 50"
_BATCH_ROWS = 64
"""The number of answers written in one transaction."""
_GATHER_S = 0.1
"""An answer waits for others only if one was written less than this long ago."""
_OPEN_TIMEOUT_S = 5.0
_RETRY_S = 1.0
"""How long a locked file is left alone before the next try, and how long closing waits for the lock."""
_MAX_WAITING = 10_000
"""At most this many answers wait for a lock; later ones are not cached."""
_DAMAGE_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class _PendingAnswer(Struct, frozen=True, gc=False):
    about: bytes
    kept_at: float
    parts: bytes
    value: bytes | None
    why_not: str


class SqliteAnswerCache:
    """Stores answers as opaque bytes."""

    def __init__(self, path: Path, notify: Callable[[str], None] = lambda _message: None) -> None:
        """Opens the file, or creates it.

        Args:
            path: the file.
            notify: called with a sentence when the file is damaged or cannot be used.
        """
        self._path = path.absolute()
        self._notify = notify
        self._opened_at = time()
        self._pending: dict[bytes, _PendingAnswer] = {}
        self._written_at = float("-inf")
        self._locked_until = float("-inf")
        self._lost_count = 0
        self._db: SqliteConnection | None = None
        self._open()

    def get(self, key: bytes) -> tuple[bytes | None, str] | None:
        """Returns the answer of a key, or why there is none; None if nothing is stored."""
        waiting = self._pending.get(key)
        if waiting is not None:
            return waiting.value, waiting.why_not
        rows = self._fetch_all(_GET, (key,))
        return rows[0] if rows else None

    def earlier_parts(self, about: str) -> list[bytes]:
        """Returns the parts stored for `about` before this cache was opened, newest first; at most 50."""
        return [parts for (parts,) in self._fetch_all(_EARLIER, (_encode_text(about), self._opened_at))]

    def put(self, key: bytes, about: str, parts: bytes, value: bytes | None, why_not: str) -> None:
        """Stores an answer, or why there is none, which never replaces an answer.

        `get` returns it at once; it is in the file at the latest when the cache is closed.

        Args:
            key: the digest of everything that the answer depends on.
            about: the key of `earlier_parts`.
            parts: the value that `earlier_parts` returns.
            value: the answer; None for none.
            why_not: why there is none.
        """
        waiting = self._pending.get(key)
        if value is None and waiting is not None and waiting.value is not None:
            return
        if len(self._pending) >= _MAX_WAITING:
            self._lost_count += 1
            return
        self._pending[key] = _PendingAnswer(_encode_text(about), time(), parts, value, why_not)
        now = monotonic()
        if now >= self._locked_until and (
            len(self._pending) >= _BATCH_ROWS or now - self._written_at >= _GATHER_S
        ):
            self._write()

    def close(self) -> None:
        """Writes pending entries and releases all resources. Safe to call twice."""
        if self._db is not None:
            self._db.lock_wait.patience_s = _RETRY_S
        self._write()
        lost_count = self._lost_count + len(self._pending)
        if lost_count and self._db is not None:
            self._notify(
                f"The cache {self._path} is locked by another process: "
                f"{pluralize(lost_count, 'answer')} could not be cached."
            )
        self._close()

    def _fetch_all(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        if self._db is None:
            return []
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            if not is_locked(error):
                self._give_up(error)
            return []

    def _write(self) -> None:
        waiting, self._pending = self._pending, {}
        if self._db is None or not waiting:
            return
        rows = [
            (key, entry.about, entry.kept_at, entry.parts, entry.value, entry.why_not)
            for key, entry in waiting.items()
        ]
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(_UPSERT, rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if is_locked(error):
                self._pending = waiting
                self._locked_until = monotonic() + _RETRY_S
            else:
                self._give_up(error)
        self._written_at = monotonic()

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._db = connect(str(self._path), LockWait(patience_s=_OPEN_TIMEOUT_S))
            _prepare(self._db)
            self._db.lock_wait.patience_s = 0  # the event loop must not wait for a cache
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)
        except _ForeignDatabase:
            self._close()
            self._notify(
                f"{self._path} is not an answer cache of this version of Proctor, so answers are not cached."
            )

    def _give_up(self, error: Exception) -> None:
        """Continues with a new file if this one is damaged, else without a cache."""
        self._close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE_CODES:
            damaged_path = self._path.with_name(
                f"{self._path.name}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S}"
            )
            try:
                self._path.rename(damaged_path)
            except OSError as refusal:
                error = refusal
            else:
                self._notify(f"The cache {self._path} is damaged: it was renamed to {damaged_path.name}.")
                self._open()
                return
        self._notify(f"The cache {self._path} cannot be used, so answers are no longer cached: {error}.")

    def _close(self) -> None:
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None


def create_cache(path: Path) -> None:
    """Creates an empty cache unless there is one.

    Raises:
        StoreError: the file is no cache of this version of Proctor.
        sqlite3.Error: it cannot be written.
        OSError: its folder cannot be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(connect(str(path), LockWait(patience_s=_OPEN_TIMEOUT_S))) as db:
        try:
            _prepare(db)
        except _ForeignDatabase:
            raise StoreError(
                f"{path} is not an answer cache of this version of Proctor. Move it away, or copy without "
                f"--cache."
            ) from None


class _ForeignDatabase(Exception):
    """The file is another program's database, or was written by a newer version."""


def _prepare(db: sqlite3.Connection) -> None:
    """Creates the tables in an empty file.

    Raises:
        _ForeignDatabase: the file has other content.
    """
    db.execute("BEGIN IMMEDIATE")
    with db:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not (application or version or tables):
            for statement in _SCHEMA:
                db.execute(statement)
        elif (application, version) != (APPLICATION_ID, _VERSION):
            raise _ForeignDatabase
    with suppress(sqlite3.OperationalError):  # another process is switching the same file right now
        db.execute("PRAGMA journal_mode = WAL")


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
