"""A second file beside a store, with flat rows, for fast lists and searches of large runs.

Everything in it is derived from the store, so it may be deleted at any time. A run has one row with its
totals; each of its trials has a short row. Every query reads all rows of one run: 100,000 rows take about 10
ms, and an index for each order would take long to write.

Several processes and threads may use it at once. Rows that two of them add for the same run are identical.
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
from proctor.stores.catalogue.records import CatalogueEntry, Sort, TrialFilter, TrialPage
from proctor.stores.sqlite.connection import as_store_errors, connect
from proctor.stores.sqlite.transactions import transaction

APPLICATION_ID = 0x50524354
"""`PRCT`, stored in the file's header, so that no other program's database is mistaken for a catalogue."""
_TABLES = (
    """CREATE TABLE runs (
        key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, token TEXT NOT NULL,
        stamp TEXT NOT NULL DEFAULT '', body BLOB NOT NULL DEFAULT x'')""",
    *queries.TABLES,
    text_search.TABLE,
    text_search.INDEX,
)
_VERSION = crc32("\n".join((*_TABLES, __version__)).encode()) & 0x7FFFFFFF
"""Covers the tables and the version of Proctor, as another version may compute other rows."""
_ADD_RUN = "INSERT OR IGNORE INTO runs (id, token) VALUES (?, ?)"
_SELECT_RUN = "SELECT token, stamp, body FROM runs WHERE id = ?"
_TEXTS_PER_ROW = 256
"""The number of texts in one row."""
_PLACES_PER_STATEMENT = 500
"""The number of places written by one statement; one statement for each takes three times as long."""
_DAMAGE_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class CataloguedRun(Struct, frozen=True, kw_only=True):
    """What a catalogue has stored about a run."""

    token: str
    """Identifies these rows of the run; it changes when they are deleted and added again."""
    stamp: str = ""
    """The state of the run when it was marked as complete; empty before."""
    body: bytes = b""
    """The data stored when it was marked as complete."""


class CatalogueConnection:
    """One connection to the file, used by one thread at a time."""

    def __init__(self, db: sqlite3.Connection, file: tuple[int, int]) -> None:
        self.db = db
        self.file_id = file
        self.last_search: tuple[object, ...] = ()
        """The last search, whose results are in the table `found`."""


class Catalogue:
    """Lists and searches the trials of runs."""

    def __init__(self, path: str, open_connection: Callable[[], sqlite3.Connection] | None = None) -> None:
        """Stores its arguments; opens nothing.

        Args:
            path: the file; it is created when it is first used.
            open_connection: opens the database if it is not a file; `path` is then only for messages.
        """
        self.path = path if open_connection else str(Path(path).absolute())
        self._connect = open_connection or partial(connect, self.path)
        self._free_connections: list[CatalogueConnection] = []
        self._lock = Lock()

    # --- runs ---

    def add_run(self, run_id: str) -> CataloguedRun:
        """Adds a row for a run if it has none; returns what is stored about the run."""
        with self._open() as connection:
            row = connection.db.execute(_SELECT_RUN, (run_id,)).fetchone()
            if row is None:
                connection.db.execute(_ADD_RUN, (run_id, secrets.token_hex(8)))
                row = connection.db.execute(_SELECT_RUN, (run_id,)).fetchone()
        return CataloguedRun(token=row[0], stamp=row[1], body=row[2])

    def runs(self) -> dict[str, CataloguedRun]:
        """Returns what is stored about every run, by run id."""
        with self._open() as connection:
            rows = connection.db.execute("SELECT id, token, stamp, body FROM runs").fetchall()
        return {name: CataloguedRun(token=token, stamp=stamp, body=body) for name, token, stamp, body in rows}

    def mark_complete(self, run_id: str, token: str, stamp: str, body: bytes) -> None:
        """Marks a run as complete, with its state and data, unless its rows were deleted meanwhile."""
        with self._open() as connection:
            connection.db.execute(
                "UPDATE runs SET stamp = ?, body = ? WHERE id = ? AND token = ?", (stamp, body, run_id, token)
            )

    def delete_runs(self, run_ids: Collection[str]) -> None:
        """Deletes runs with their rows."""
        for run_id in run_ids:
            with self._open() as connection, transaction(connection.db):
                key = _find_key(connection.db, run_id)
                for table in ("lines", "shown", "texts"):
                    connection.db.execute(f"DELETE FROM {table} WHERE run = ?", (key,))  # noqa: S608  # names of ours
                connection.db.execute("DELETE FROM runs WHERE id = ?", (run_id,))

    # --- trials ---

    def add_trials(self, run_id: str, entries: Sequence[CatalogueEntry]) -> None:
        """Adds trials of a run that has a row; trials that are already there are replaced."""
        with self._open() as connection, transaction(connection.db):
            key = _find_key(connection.db, run_id)
            if key is None:
                return  # deleted meanwhile: the next reader starts over
            queries.add_rows(connection.db, key, entries)
            for start in range(0, len(entries), _TEXTS_PER_ROW):
                some = entries[start : start + _TEXTS_PER_ROW]
                text_search.add_texts(
                    connection.db, key, [_visible_text(entry) for entry in some], sealed=False
                )
                sealed_texts = [(_encode_place(entry), entry.text) for entry in some if entry.row.sealed]
                text_search.add_texts(connection.db, key, sealed_texts, sealed=True)

    def page(
        self,
        run_id: str,
        trial_filter: TrialFilter,
        sort: str = "position",
        after: str = "",
        limit: int = 50,
        *,
        revealed: bool = False,
    ) -> TrialPage:
        """Returns one page of a run's trials.

        Args:
            run_id: the run; a run without a row has no trials.
            trial_filter: selects the trials.
            sort: a `Sort`, with `-` before it for descending order.
            after: `next` or `previous` of another page; empty for the first page.
            limit: the maximum number of trials.
            revealed: whether held-out trials are shown in full and searched.
        """
        with self._query(run_id, trial_filter, revealed=revealed) as query:
            return query.page(sort, after, limit)

    def neighbours(
        self,
        run_id: str,
        trial_filter: TrialFilter,
        sort: str,
        place: tuple[int, int],
        *,
        revealed: bool = False,
    ) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """Returns the trials before and after one, by position and repeat; None if there is none.

        Args:
            run_id: the run.
            trial_filter: selects the trials.
            sort: as for `page`.
            place: the position and the repeat of the trial.
            revealed: as for `page`.
        """
        with self._query(run_id, trial_filter, revealed=revealed) as query:
            return query.neighbour(sort, place, back=True), query.neighbour(sort, place, back=False)

    def column_values(self, run_id: str, column: Sort) -> list[float]:
        """Returns the known latencies, costs or scores of a run's trials, including held-out ones."""
        with self._query(run_id, TrialFilter(), revealed=True) as query:
            return query.column_values(column)

    # --- the file ---

    def close(self) -> None:
        """Releases all resources. Safe to call twice; later calls open the file again."""
        with self._lock:
            free, self._free_connections = self._free_connections, []
        for connection in free:
            connection.db.close()

    @contextmanager
    def _query(
        self, run_id: str, trial_filter: TrialFilter, *, revealed: bool
    ) -> Iterator[queries.CatalogueQuery]:
        with self._open() as connection:
            key = _find_key(connection.db, run_id)
            connection.db.execute("BEGIN")  # one snapshot for all reads
            try:
                if trial_filter.text:
                    _search_text(connection, -1 if key is None else key, trial_filter.text, revealed=revealed)
                yield queries.CatalogueQuery(
                    connection.db, -1 if key is None else key, trial_filter, revealed=revealed
                )
            finally:
                if connection.db.in_transaction:
                    connection.db.execute("COMMIT")  # keeps the table `found` for the next page

    @contextmanager
    def _open(self) -> Iterator[CatalogueConnection]:
        with as_store_errors(self.path):
            connection = self._pop_free() or self._open_new()
        try:
            with as_store_errors(self.path):
                yield connection
        except BaseException as error:
            with suppress(sqlite3.Error):
                connection.db.close()
            self._delete_if_damaged(error)
            raise
        with self._lock:
            self._free_connections.append(connection)

    def _pop_free(self) -> CatalogueConnection | None:
        """Returns a free connection that is still to the current file."""
        file = _file_id(self.path)
        while True:
            with self._lock:
                if not self._free_connections:
                    return None
                connection = self._free_connections.pop()
            if connection.file_id == file:
                return connection
            connection.db.close()

    def _open_new(self) -> CatalogueConnection:
        for attempts_left in (1, 0):
            try:
                db = self._connect()
                try:
                    _create_tables(self.path, db)
                except BaseException:
                    db.close()
                    raise
                return CatalogueConnection(db, _file_id(self.path))
            except sqlite3.DatabaseError as error:
                if not attempts_left or not self._delete_if_damaged(error):
                    raise
        raise AssertionError

    def _delete_if_damaged(self, error: BaseException | None) -> bool:
        """Deletes a damaged file, as everything in it can be derived again."""
        while error is not None and not isinstance(error, sqlite3.DatabaseError):
            error = error.__cause__
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE_CODES:
            return False
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self.path}{ending}").unlink(missing_ok=True)
        return True


def _file_id(path: str) -> tuple[int, int]:
    try:
        status = Path(path).stat()
    except OSError:
        return (0, 0)
    return status.st_dev, status.st_ino


def _create_tables(path: str, db: sqlite3.Connection) -> None:
    """Creates the tables in an empty file or in one of another version.

    Raises:
        StoreError: the file is another program's database.
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
    with suppress(sqlite3.OperationalError):  # another process is switching the same file right now
        db.execute("PRAGMA journal_mode = WAL")


def _read_version(db: sqlite3.Connection) -> tuple[int, int]:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return application, version


def _find_key(db: sqlite3.Connection, run_id: str) -> int | None:
    row = db.execute("SELECT key FROM runs WHERE id = ?", (run_id,)).fetchone()
    return None if row is None else int(row[0])


def _search_text(connection: CatalogueConnection, run: int, text: str, *, revealed: bool) -> None:
    """Fills the table `found`, unless it has the same search and no row was added since."""
    (newest,) = connection.db.execute("SELECT max(key) FROM texts").fetchone()
    question = (run, text, revealed, newest)
    if connection.last_search == question:
        return
    connection.last_search = ()
    connection.db.execute("DELETE FROM found")
    places = text_search.find_text(connection.db, run, text, revealed=revealed)
    while some := list(islice(places, _PLACES_PER_STATEMENT)):
        marks = ", ".join(["(?)"] * len(some))
        connection.db.execute(f"INSERT OR IGNORE INTO found VALUES {marks}", some)  # noqa: S608  # marks only
    connection.last_search = question


def _encode_place(entry: CatalogueEntry) -> int:
    return queries.encode_place(entry.row.position, entry.row.repeat)


def _visible_text(entry: CatalogueEntry) -> tuple[int, str]:
    """Returns the text that everyone may search."""
    line = entry.row
    return _encode_place(entry), line.case_id if line.sealed else f"{line.case_id}\n{entry.text}"
