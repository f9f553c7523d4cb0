"""A cache of answers in a table of the store, by the digest of everything that they depend on.

The cache is optional: no run stops or waits long for it. A thread has its connection, so that a look-up holds
up an event loop for at most `MAX_WAIT_S`; after that the answer counts as not cached, and so do all for
`_RETRY_S`. Usually a look-up takes a round trip, some 0.3 ms on loopback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from time import monotonic, time
from typing import Any

import psycopg
from msgspec import Struct

from proctor.plurals import pluralize
from proctor.stores.postgresql.database import PostgresConnector, describe_error, translate
from proctor.stores.sql.tables import ANSWERS

MAX_WAIT_S = 1.0
"""How long a look-up waits for the database: long enough that no slow network makes anyone pay twice."""
_GET = translate("SELECT value, why_not FROM answers WHERE key = ?")
_EARLIER = translate(
    "SELECT parts FROM answers WHERE sha256(about) = sha256(?) AND about = ? AND kept_at < ? "
    "ORDER BY kept_at DESC LIMIT 50"
)
"""By a digest, as an index takes no long value."""
_SETTINGS = """SET synchronous_commit = off; SET statement_timeout = '10s'"""
"""A crash of the server may lose the last answers, and nothing waits for its disk."""
_BATCH_ROWS = 64
"""From this number on, answers are written at once."""
_GATHER_S = 0.1
"""How long answers gather before they are written."""
_RETRY_S = 5.0
"""How long a database that does not answer is left alone."""
_CLOSE_S = 2.0
"""How long closing waits for the last answers to be written."""
_MAX_WAITING = 10_000
"""At most this many answers wait to be written; later ones are not cached."""


class _WaitingAnswer(Struct, frozen=True, gc=False):
    about: bytes
    kept_at: float
    parts: bytes
    value: bytes | None
    why_not: str


class _Lookup:
    """One statement for the thread, and its rows."""

    def __init__(self, statement: Any, values: Sequence[object]) -> None:
        self.statement = statement
        self.values = values
        self.rows: list[Any] = []
        self.is_done = Event()
        self.is_abandoned = False


class PostgresAnswerCache:
    """Stores answers as opaque bytes."""

    def __init__(
        self, connector: PostgresConnector, notify: Callable[[str], None] = lambda _message: None
    ) -> None:
        """Connects, and starts the thread.

        Args:
            connector: opens the connection.
            notify: called with a sentence when the cache cannot be used.
        """
        self._connector = connector
        self._notify = notify
        self._opened_at = time()
        self._lock = Lock()
        self._waiting: dict[bytes, _WaitingAnswer] = {}
        self._writing: dict[bytes, _WaitingAnswer] = {}
        self._lost_count = 0
        self._slow_until = float("-inf")
        self._tasks: SimpleQueue[_Lookup | None] = SimpleQueue()
        self._connection: psycopg.Connection[Any] | None = None
        self._is_closed = False
        self._error: Exception | None = None
        """Why the cache cannot be used; the caller's thread reports it."""
        try:
            self._connect()
        except psycopg.OperationalError as error:
            self._error = error
        self._thread = Thread(target=self._run, name="proctor-cache", daemon=True)
        self._thread.start()

    # --- for the caller's thread ---

    def get(self, key: bytes) -> tuple[bytes | None, str] | None:
        """Returns the answer of a key, or why there is none; None if nothing is stored."""
        with self._lock:
            answer = self._waiting.get(key) or self._writing.get(key)
        if answer is not None:
            return answer.value, answer.why_not
        rows = self._fetch_all(_GET, key)
        return tuple(rows[0]) if rows else None

    def earlier_parts(self, about: str) -> list[bytes]:
        """Returns the parts stored for `about` before this cache was opened, newest first; at most 50."""
        text = _encode_text(about)
        return [parts for (parts,) in self._fetch_all(_EARLIER, text, text, self._opened_at)]

    def put(self, key: bytes, about: str, parts: bytes, value: bytes | None, why_not: str) -> None:
        """Stores an answer, or why there is none, which never replaces an answer.

        `get` returns it at once; it is in the database at the latest when the cache is closed.

        Args:
            key: the digest of everything that the answer depends on.
            about: the key of `earlier_parts`.
            parts: the value that `earlier_parts` returns.
            value: the answer; None for none.
            why_not: why there is none.
        """
        if not self._is_usable():
            return
        with self._lock:
            earlier = self._waiting.get(key) or self._writing.get(key)
            if value is None and earlier is not None and earlier.value is not None:
                return
            if len(self._waiting) >= _MAX_WAITING:
                self._lost_count += 1
                return
            self._waiting[key] = _WaitingAnswer(_encode_text(about), time(), parts, value, why_not)

    def close(self) -> None:
        """Writes pending entries and releases all resources. Safe to call twice."""
        if not self._is_usable():
            return
        self._tasks.put(None)
        self._thread.join(_CLOSE_S)
        lost_count = self._lost_count + len(self._waiting) + len(self._writing)
        if self._is_usable() and lost_count:
            self._notify(
                f"The cache of {self._connector.address} does not answer: {pluralize(lost_count, 'answer')} "
                "could not be cached."
            )
        self._is_closed = True
        self._waiting, self._writing = {}, {}

    def _is_usable(self) -> bool:
        """Returns whether the cache is open; reports an error first, after which it is closed."""
        error = self._error
        if error is not None and not self._is_closed:
            self._is_closed = True
            self._tasks.put(None)
            reason = describe_error(error) if isinstance(error, psycopg.Error) else error
            self._notify(
                f"The cache of {self._connector.address} cannot be used, so answers are no longer cached: "
                f"{reason}."
            )
        return not self._is_closed

    def _fetch_all(self, statement: Any, *values: object) -> list[Any]:
        if not self._is_usable() or monotonic() < self._slow_until:
            return []
        lookup = _Lookup(statement, values)
        self._tasks.put(lookup)
        if lookup.is_done.wait(MAX_WAIT_S):
            return lookup.rows
        lookup.is_abandoned = True
        self._slow_until = monotonic() + _RETRY_S
        return []

    # --- in the thread ---

    def _run(self) -> None:
        written_at = monotonic()
        try:
            while True:
                task = self._wait_for_task()
                if isinstance(task, _Lookup):
                    self._look_up(task)
                is_due = len(self._waiting) >= _BATCH_ROWS or monotonic() - written_at >= _GATHER_S
                if task is None or is_due:
                    self._try(self._write)
                    written_at = monotonic()
                if task is None:
                    return
        except Exception as error:  # noqa: BLE001  # whatever it is, the next call reports it
            self._error = error
        finally:
            self._disconnect()

    def _wait_for_task(self) -> _Lookup | str | None:
        try:
            return self._tasks.get(timeout=_GATHER_S)
        except Empty:
            return ""

    def _look_up(self, lookup: _Lookup) -> None:
        def fetch(connection: psycopg.Connection[Any]) -> None:
            with connection.cursor(binary=True) as cursor:
                lookup.rows = cursor.execute(lookup.statement, lookup.values).fetchall()

        try:
            if not lookup.is_abandoned:
                self._try(fetch)
        finally:
            lookup.is_done.set()

    def _write(self, connection: psycopg.Connection[Any]) -> None:
        with self._lock:
            # What a broken connection did not write goes first, so that a newer answer replaces it.
            self._writing = {**self._writing, **self._waiting}
            self._waiting = {}
        # In one order, so that two processes never wait for each other's rows.
        rows = [
            (key, entry.about, entry.kept_at, entry.parts, entry.why_not, entry.value)
            for key, entry in sorted(self._writing.items())
        ]
        if rows:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(translate(ANSWERS.insert), rows)
        with self._lock:
            self._writing = {}

    def _try(self, make: Callable[[psycopg.Connection[Any]], None]) -> None:
        """Uses the connection; one that breaks is left alone for a while, and opened again after that.

        Raises:
            psycopg.Error: the database refuses the cache.
        """
        try:
            make(self._connect())
        except psycopg.OperationalError:
            self._disconnect()
            self._slow_until = monotonic() + _RETRY_S

    def _connect(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = self._connector.connect()
            self._connection.execute(_SETTINGS)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
