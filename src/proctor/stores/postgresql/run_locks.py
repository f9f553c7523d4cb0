"""Locks of runs, which the server releases when their session ends, however its process dies.

A session advisory lock protects the run, and a row of `run_locks` says who has it, and whether a stop was
requested. A row counts as long as its session has the lock. The locks of one process are in one session, so
that its stores share them. A token in the row changes hands with the lock: by it a process whose session
was lost knows whether the run is still its own.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Collection
from contextlib import suppress
from secrets import randbits
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

import psycopg

from proctor.protocols import RunOwner
from proctor.safe_text import one_line
from proctor.stores.postgresql.database import PostgresConnector, PostgresDatabase
from proctor.stores.postgresql.lost_connections import abort, abort_after, close_connection, is_usable

_OF_RUN = """locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = ? AND objid::bigint = ?"""
_LOCKED = """SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid::bigint = ?"""
_OWNER = f"""SELECT owner.pid, owner.host, owner.username, owner.stop_requested FROM pg_locks
    LEFT JOIN run_locks AS owner ON owner.run = pg_locks.objid::bigint AND owner.session = pg_locks.pid
    WHERE {_OF_RUN}"""  # noqa: S608  # a constant
_REQUEST_STOP = f"""UPDATE run_locks SET stop_requested = true
    WHERE session = (SELECT pg_locks.pid FROM pg_locks WHERE {_OF_RUN}) AND run = ?"""  # noqa: S608
_SAVE_OWNER = """INSERT INTO run_locks (run, session, host, pid, username, token)
    VALUES (%s, pg_backend_pid(), %s, %s, %s, %s)
    ON CONFLICT (run) DO UPDATE SET session = excluded.session, host = excluded.host, pid = excluded.pid,
    username = excluded.username, token = excluded.token, stop_requested = false"""
_STOP_REQUESTED = "SELECT stop_requested FROM run_locks WHERE run = %s AND token = %s"
_SAVE_SESSION = "UPDATE run_locks SET session = pg_backend_pid() WHERE run = %s AND token = %s"


class PostgresRunLocks:
    """Implements `RunLockTable`."""

    def __init__(self, database: PostgresDatabase) -> None:
        """Stores its argument; the session is opened for the first lock.

        Args:
            database: the store's connection, which looks for the locks of others.
        """
        self._database = database
        self._connector = database.connector
        self._shared: _SharedLocks | None = None
        self._own_keys: set[int] = set()

    def lock(self, key: int) -> bool:
        """Locks a run for this process; returns False if another one has locked it. Safe to call twice."""
        with _GUARD:
            if key in self._own_keys and key not in self.taken_keys:
                return True
            if self._shared is None:
                self._shared = _SharedLocks.find(self._connector)
                self._shared.users += 1
            if not self._shared.lock(key):
                return False
            self._own_keys.add(key)
        return True

    @property
    def taken_keys(self) -> set[int]:
        """The runs of this process that another one has locked while there was no connection."""
        return set() if self._shared is None else self._shared.taken_keys

    def find_tokens(self, keys: Collection[int]) -> dict[int, int]:
        """Returns the tokens that the rows of locks have as long as this process has them."""
        shared = self._shared
        if shared is None:
            return {}
        return {key: shared.token for key in keys if key in shared.counts and key not in shared.taken_keys}

    def add_taken(self, keys: Collection[int]) -> None:
        """Notes runs whose locks another process has taken."""
        if self._shared is not None:
            self._shared.taken_keys.update(keys)

    def is_locked(self, key: int) -> bool:
        """Returns whether any process, even this one, has locked a run."""
        return self._find_owner_row(key) is not None

    def find_unlocked(self, keys: Collection[int]) -> set[int]:
        """Returns those of some runs that certainly no process has locked."""
        rows = self._database.select(_LOCKED, self._connector.lock_space % 2**32)
        return set(keys) - {int(key) for (key,) in rows}

    def find_owner(self, key: int) -> RunOwner | None:
        """Returns the process that has locked a run; None if certainly none has."""
        row = self._find_owner_row(key)
        if row is None:
            return None
        pid, host, user, _ = row
        if pid is None:  # it has the lock, and has not said yet who it is
            return RunOwner(pid=None, host="another machine")
        return RunOwner(pid=pid, host=one_line(host), user=one_line(user) or None)

    def request_stop(self, key: int) -> bool:
        """Requests the owner of a lock to stop its run; returns False if there is no owner."""
        return self._database.execute(_REQUEST_STOP, *self._lock_id(key), key) > 0

    def is_stop_requested(self, key: int) -> bool:
        """Returns whether a stop was requested from the owner of a lock; for any thread."""
        shared = self._shared
        if shared is not None and key in self._own_keys:
            return shared.is_stop_requested(key)
        row = self._find_owner_row(key)
        return row is not None and row[3]

    def _find_owner_row(self, key: int) -> tuple[int | None, str, str, bool] | None:
        """Returns the id, machine and user of the process, and whether a stop was requested; None if free."""
        row = self._database.fetch_one(_OWNER, *self._lock_id(key))
        return None if row is None else (row[0], row[1], row[2], bool(row[3]))

    def _lock_id(self, key: int) -> tuple[int, int]:
        """Returns the two numbers of a lock, as `pg_locks` shows them."""
        return self._connector.lock_space % 2**32, key

    def close(self) -> None:
        """Releases all locks, but waits for no server that does not answer. Safe to call twice."""
        if self._shared is not None and self._database.is_abandoned:
            self._shared.abort()
        with _GUARD:
            shared, self._shared = self._shared, None
            if shared is None:
                return
            for key in self._own_keys:
                shared.release(key)
            self._own_keys.clear()
            shared.users -= 1
            if not shared.users:
                shared.close()


class _SharedLocks:
    """The session with the locks of one store in one process.

    A thread opens a lost session again, and takes the locks of the old one, unless another process has them.
    """

    def __init__(self, name: tuple[int, str], connector: PostgresConnector) -> None:
        self._name = name
        self._connector = connector
        self._space = connector.lock_space
        self.token = randbits(63)
        """What this process writes into the rows of its locks, by which it knows them."""
        self._session = connector.connect()
        self._backend_pid = self._session.info.backend_pid
        self._is_closed = Event()
        self._busy_since = 0.0
        self.users = 0
        self.counts: dict[int, int] = {}
        """The number of open stores of this process that have locked each run, by key."""
        self.taken_keys: set[int] = set()
        """The runs of this process that another one has locked while the session was lost."""
        Thread(target=self._watch, name="proctor-locks", daemon=True).start()

    @classmethod
    def find(cls, connector: PostgresConnector) -> _SharedLocks:
        """Returns the session of this process, and opens it if there is none."""
        name = (os.getpid(), connector.address)  # a forked child does not inherit its parent's locks
        shared = _SHARED.get(name)
        if shared is None:
            shared = _SHARED[name] = cls(name, connector)
        return shared

    def lock(self, key: int) -> bool:
        """Locks a run; returns False if another session has locked it."""
        if not self.counts.get(key) or key in self.taken_keys:
            if self._is_lost():
                self._restore(self._connector.connect())
            if not self._try_lock(key):
                return False
            owner = (socket.gethostname(), os.getpid(), _get_user())
            self._session.execute(_SAVE_OWNER, (key, *owner, self.token))
            self.taken_keys.discard(key)
        self.counts[key] = self.counts.get(key, 0) + 1
        return True

    def _try_lock(self, key: int) -> bool:
        row = self._session.execute("SELECT pg_try_advisory_lock(%s, %s)", (self._space, key)).fetchone()
        return row == (True,)

    def is_stop_requested(self, key: int) -> bool:
        """Returns whether a stop was requested from this process."""
        with suppress(psycopg.Error):  # nobody can ask while the session is lost
            row = self._session.execute(_STOP_REQUESTED, (key, self.token)).fetchone()
            return row == (True,)
        return False

    def release(self, key: int) -> None:
        """Removes one store from those that have locked a run; after the last one the run is unlocked."""
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
            if key not in self.taken_keys:
                self._unlock(key)

    def _unlock(self, key: int) -> None:
        # A lost session has no locks, and the server ends those of a session that is cut.
        with suppress(psycopg.Error), abort_after(_UNLOCK_S, self._session):
            self._session.execute("DELETE FROM run_locks WHERE run = %s AND token = %s", (key, self.token))
            self._session.execute("SELECT pg_advisory_unlock(%s, %s)", (self._space, key))

    def _watch(self) -> None:
        """Opens the session again when it is lost."""
        while not self._is_closed.wait(_CHECK_EVERY_S):
            with _GUARD:
                is_lost = not self._is_closed.is_set() and self._is_lost()
            if is_lost:
                with suppress(psycopg.Error):
                    session = self._connector.connect()
                    with _GUARD:
                        self._restore(session)

    def _is_lost(self) -> bool:
        """Returns whether the session has ended, or has not answered a statement for too long."""
        session = self._session
        if not session.lock.acquire(blocking=False):
            self._busy_since = self._busy_since or monotonic()
            return monotonic() - self._busy_since > _SILENT_AFTER_S
        try:
            self._busy_since = 0.0
            return not is_usable(session)
        finally:
            session.lock.release()

    def _restore(self, session: psycopg.Connection[Any]) -> None:
        """Takes the locks of the lost session for a new one."""
        if self._is_closed.is_set():
            session.close()
            return
        lost_pid, lost_session, self._session = self._backend_pid, self._session, session
        close_connection(lost_session)
        try:
            for key in set(self.counts) - self.taken_keys:
                if not self._has_own_row(key):
                    self.taken_keys.add(key)
                    continue
                session.execute(_END_LOST_SESSION, (lost_pid, self._space % 2**32, key))
                if not self._try_lock(key):
                    raise psycopg.OperationalError("the lock is not free yet")
                if not self._has_own_row(key):
                    session.execute("SELECT pg_advisory_unlock(%s, %s)", (self._space, key))
                    self.taken_keys.add(key)
                    continue
                session.execute(_SAVE_SESSION, (key, self.token))
        except psycopg.Error:
            session.close()  # with which it is lost again, and restored by the next attempt
            raise
        self._backend_pid = session.info.backend_pid

    def _has_own_row(self, key: int) -> bool:
        row = self._session.execute("SELECT token FROM run_locks WHERE run = %s", (key,)).fetchone()
        return row == (self.token,)

    def abort(self) -> None:
        """Ends the session at once; other stores of the process get a new one."""
        abort(self._session)

    def close(self) -> None:
        """Ends the session, and with it all of its locks."""
        self._is_closed.set()
        del _SHARED[self._name]
        close_connection(self._session)


_CHECK_EVERY_S = 0.5
_UNLOCK_S = 5.0
"""How long unlocking a run waits for the server."""
_SILENT_AFTER_S = 30.0
"""After this time a session that does not answer is opened again."""
_END_LOST_SESSION = """SELECT pg_terminate_backend(pid, 1000) FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND pid = %s
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = %s AND objid::bigint = %s"""
"""Ends the lost session, if the server has not noticed yet: a vanished network tells it nothing."""


def _get_user() -> str:
    """Returns the name of the user of this process; empty if the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # as in containers
        return ""


_SHARED: dict[tuple[int, str], _SharedLocks] = {}
_GUARD = Lock()
