"""A second file beside a store, with flat rows, for fast lists and searches of large runs.

Everything in it comes from the store, so it may be deleted at any time. A run has one row with its totals;
each of its trials has a short row. Every query reads all rows of one run: 100,000 take about 10 ms, and an
index for each order would take long to write.

Several processes and threads may use it at once. What two of them add for the same run is identical.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from zlib import crc32

from msgspec import Struct

from proctor import __version__
from proctor.errors import StoreError
from proctor.stores.catalogue import queries, text_search
from proctor.stores.catalogue.records import Entry, Page, Sort, Wanted
from proctor.stores.sqlite.connection import as_store_errors, connect
from proctor.stores.sqlite.transactions import transaction

APPLICATION_ID = 0x50524354
"""`PRCT`; in the file's header, so that another program's database is never taken for a catalogue."""
_TABLES = (
    """CREATE TABLE runs (
        key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, token TEXT NOT NULL,
        stamp TEXT NOT NULL DEFAULT '', body BLOB NOT NULL DEFAULT x'')""",
    *queries.TABLES,
    text_search.TABLE,
    text_search.INDEX,
)
_VERSION = crc32("\n".join((*_TABLES, __version__)).encode()) & 0x7FFFFFFF
"""Of the tables and of Proctor, which may count and say otherwise in another version."""
_ENTER = "INSERT OR IGNORE INTO runs (id, token) VALUES (?, ?)"
_SELECT_RUN = "SELECT token, stamp, body FROM runs WHERE id = ?"
_ENTRIES = 256
"""How many texts are kept in one row."""
_AT_ONCE = 500
"""How many places are written by one statement, which takes a third of the time that one each would."""
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class Seen(Struct, frozen=True, kw_only=True):
    """What a catalogue knows of a run."""

    token: str
    """Of these lines of the run; another one when they were forgotten in between."""
    stamp: str = ""
    """What the run was like when all of it was there; empty before."""
    body: bytes = b""
    """What was kept of it then."""


class Connection:
    """One connection to the file, used by one thread at a time."""

    def __init__(self, db: sqlite3.Connection, file: tuple[int, int]) -> None:
        self.db = db
        self.file = file
        self.found: tuple[object, ...] = ()
        """What was looked for last; the places are in its table `found`."""


class Catalogue:
    """Looks through the trials of runs; see this module."""

    def __init__(self, path: str, open_connection: Callable[[], sqlite3.Connection] | None = None) -> None:
        """Opens nothing yet.

        Args:
            path: the file; it is made when it is first used.
            open_connection: opens the database, where that is no file; `path` is then only for messages.
        """
        self.path = path if open_connection else str(Path(path).absolute())
        self._connect = open_connection or partial(connect, self.path)
        self._free: list[Connection] = []
        self._lock = Lock()

    # --- runs ---

    def enter(self, run_id: str) -> Seen:
        """What is known of a run, which from now on has a row."""
        with self._open() as connection:
            row = connection.db.execute(_SELECT_RUN, (run_id,)).fetchone()
            if row is None:
                connection.db.execute(_ENTER, (run_id, secrets.token_hex(8)))
                row = connection.db.execute(_SELECT_RUN, (run_id,)).fetchone()
        return Seen(token=row[0], stamp=row[1], body=row[2])

    def seen(self) -> dict[str, Seen]:
        """What is known of every run, by its id."""
        with self._open() as connection:
            rows = connection.db.execute("SELECT id, token, stamp, body FROM runs").fetchall()
        return {name: Seen(token=token, stamp=stamp, body=body) for name, token, stamp, body in rows}

    def keep(self, run_id: str, token: str, stamp: str, body: bytes) -> None:
        """Keeps that all of a run is there, unless its lines were forgotten meanwhile."""
        with self._open() as connection:
            connection.db.execute(
                "UPDATE runs SET stamp = ?, body = ? WHERE id = ? AND token = ?", (stamp, body, run_id, token)
            )

    def forget(self, run_ids: Collection[str]) -> None:
        """Forgets runs with their lines."""
        for run_id in run_ids:
            with self._open() as connection, transaction(connection.db):
                key = _key(connection.db, run_id)
                for table in ("lines", "shown", "texts"):
                    connection.db.execute(f"DELETE FROM {table} WHERE run = ?", (key,))  # noqa: S608  # names of ours
                connection.db.execute("DELETE FROM runs WHERE id = ?", (run_id,))

    # --- lines ---

    def add(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Adds trials of a run that has a row; those that are there already take their new form."""
        with self._open() as connection, transaction(connection.db):
            key = _key(connection.db, run_id)
            if key is None:
                return  # deleted meanwhile: the next reader starts again
            queries.add(connection.db, key, entries)
            for start in range(0, len(entries), _ENTRIES):
                some = entries[start : start + _ENTRIES]
                text_search.add(connection.db, key, [_open_text(entry) for entry in some], sealed=False)
                sealed_texts = [(_place(entry), entry.text) for entry in some if entry.line.sealed]
                text_search.add(connection.db, key, sealed_texts, sealed=True)

    def page(
        self,
        run_id: str,
        trial_filter: Wanted,
        sort: str = "position",
        after: str = "",
        limit: int = 50,
        *,
        revealed: bool = False,
    ) -> Page:
        """Some trials of a run.

        Args:
            run_id: the run; one that is not catalogued has none.
            trial_filter: which.
            sort: a `Sort`, with `-` before it for the other way around.
            after: what another page calls `next` or `previous`; empty for the first one.
            limit: how many at most.
            revealed: what is held out is shown and searched too.
        """
        with self._query(run_id, trial_filter, revealed=revealed) as query:
            return query.page(sort, after, limit)

    def around(
        self, run_id: str, trial_filter: Wanted, sort: str, place: tuple[int, int], *, revealed: bool = False
    ) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """The trials before and after one, each by position and repeat; None where there is none.

        Args:
            run_id: the run.
            trial_filter: which trials are looked at.
            sort: as for `page`.
            place: the position and the repeat of that one.
            revealed: as for `page`.
        """
        with self._query(run_id, trial_filter, revealed=revealed) as query:
            return query.beside(sort, place, back=True), query.beside(sort, place, back=False)

    def numbers(self, run_id: str, column: Sort) -> list[float]:
        """The latencies, costs or scores of a run's trials as far as they are known, those held out too."""
        with self._query(run_id, Wanted(), revealed=True) as query:
            return query.numbers(column)

    # --- the file ---

    def close(self) -> None:
        """Releases everything. Safe to call twice; what is used afterwards is opened again."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.db.close()

    @contextmanager
    def _query(self, run_id: str, trial_filter: Wanted, *, revealed: bool) -> Iterator[queries.Asking]:
        with self._open() as connection:
            key = _key(connection.db, run_id)
            connection.db.execute("BEGIN")  # all that is read is of one moment
            try:
                if trial_filter.text:
                    _find(connection, -1 if key is None else key, trial_filter.text, revealed=revealed)
                yield queries.Asking(
                    connection.db, -1 if key is None else key, trial_filter, revealed=revealed
                )
            finally:
                if connection.db.in_transaction:
                    connection.db.execute("COMMIT")  # of what was found, which is kept for the next page

    @contextmanager
    def _open(self) -> Iterator[Connection]:
        with as_store_errors(self.path):
            connection = self._pop_free() or self._open_new()
        try:
            with as_store_errors(self.path):
                yield connection
        except BaseException as error:
            with suppress(sqlite3.Error):
                connection.db.close()
            self._mend(error)
            raise
        with self._lock:
            self._free.append(connection)

    def _pop_free(self) -> Connection | None:
        """A connection that is free and still to the file that is there."""
        file = _file(self.path)
        while True:
            with self._lock:
                if not self._free:
                    return None
                connection = self._free.pop()
            if connection.file == file:
                return connection
            connection.db.close()

    def _open_new(self) -> Connection:
        for attempts_left in (1, 0):
            try:
                db = self._connect()
                try:
                    _prepare(self.path, db)
                except BaseException:
                    db.close()
                    raise
                return Connection(db, _file(self.path))
            except sqlite3.DatabaseError as error:
                if not attempts_left or not self._mend(error):
                    raise
        raise AssertionError

    def _mend(self, error: BaseException | None) -> bool:
        """Removes a file that is damaged, as all of it can be had again."""
        while error is not None and not isinstance(error, sqlite3.DatabaseError):
            error = error.__cause__
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
            return False
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self.path}{ending}").unlink(missing_ok=True)
        return True


def _file(path: str) -> tuple[int, int]:
    try:
        status = Path(path).stat()
    except OSError:
        return (0, 0)
    return status.st_dev, status.st_ino


def _prepare(path: str, db: sqlite3.Connection) -> None:
    """Makes the tables in an empty file or in one of another version.

    Raises:
        StoreError: it is another program's.
    """
    db.execute("PRAGMA page_size = 16384")
    db.execute("PRAGMA temp_store = MEMORY")
    db.execute("PRAGMA mmap_size = 1073741824")
    db.execute("CREATE TEMP TABLE found (place INTEGER PRIMARY KEY)")
    if _read_version(db) == (APPLICATION_ID, _VERSION):
        return
    with transaction(db):
        application, version = _read_version(db)
        if (application, version) == (APPLICATION_ID, _VERSION):
            return
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if application != APPLICATION_ID and (application or tables):
            raise StoreError(
                f"{path} is another program's database. Move it away: it is in a catalogue's place."
            )
        for (name,) in tables:
            if not name.startswith("sqlite_"):
                db.execute(f'DROP TABLE "{name}"')
        for statement in (*_TABLES, f"PRAGMA application_id = {APPLICATION_ID}"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {_VERSION}")
    with suppress(sqlite3.OperationalError):  # another process is switching the same file at this moment
        db.execute("PRAGMA journal_mode = WAL")


def _read_version(db: sqlite3.Connection) -> tuple[int, int]:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return application, version


def _key(db: sqlite3.Connection, run_id: str) -> int | None:
    row = db.execute("SELECT key FROM runs WHERE id = ?", (run_id,)).fetchone()
    return None if row is None else int(row[0])


def _find(connection: Connection, run: int, text: str, *, revealed: bool) -> None:
    """Fills the table `found`, unless it is of the same question and nothing was added since."""
    (newest,) = connection.db.execute("SELECT max(key) FROM texts").fetchone()
    question = (run, text, revealed, newest)
    if connection.found == question:
        return
    connection.found = ()
    connection.db.execute("DELETE FROM found")
    places = text_search.find(connection.db, run, text, revealed=revealed)
    while some := list(islice(places, _AT_ONCE)):
        marks = ", ".join(["(?)"] * len(some))
        connection.db.execute(f"INSERT OR IGNORE INTO found VALUES {marks}", some)  # noqa: S608  # marks only
    connection.found = question


def _place(entry: Entry) -> int:
    return queries.place_of(entry.line.position, entry.line.repeat)


def _open_text(entry: Entry) -> tuple[int, str]:
    """What everybody may look for."""
    line = entry.line
    return _place(entry), line.case_id if line.sealed else f"{line.case_id}\n{entry.text}"
