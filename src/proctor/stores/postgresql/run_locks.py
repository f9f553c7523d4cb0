"""Locks of runs, which the server releases when their session ends, however its process dies.

A session advisory lock protects the run, and a row of `run_locks` says who has it, and whether it was asked
to stop. A row counts as long as its session has the lock. The locks of one process are in one session, so
that its stores share them.
"""

from __future__ import annotations

import getpass
import os
import socket
from threading import Lock

from proctor.protocols import RunOwner
from proctor.safe_text import one_line
from proctor.stores.postgresql.database import PostgresConnector, PostgresDatabase
from proctor.stores.sql.patience import Patience

_OF_RUN = """locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = ? AND objid::bigint = ?"""
_HOLDER = f"""SELECT owner.pid, owner.host, owner.username, owner.stop_requested FROM pg_locks
    LEFT JOIN run_locks AS owner ON owner.run = pg_locks.objid::bigint AND owner.session = pg_locks.pid
    WHERE {_OF_RUN}"""  # noqa: S608  # a constant
_REQUEST_STOP = f"""UPDATE run_locks SET stop_requested = true
    WHERE session = (SELECT pg_locks.pid FROM pg_locks WHERE {_OF_RUN}) AND run = ?"""  # noqa: S608
_SAVE_OWNER = """INSERT INTO run_locks (run, session, host, pid, username)
    VALUES (?, pg_backend_pid(), ?, ?, ?)
    ON CONFLICT (run) DO UPDATE SET session = excluded.session, host = excluded.host, pid = excluded.pid,
    username = excluded.username, stop_requested = false"""


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
            if key in self._own_keys:
                return True
            if self._shared is None:
                self._shared = _SharedLocks.find(self._connector)
                self._shared.users += 1
            if not self._shared.lock(key):
                return False
            self._own_keys.add(key)
        return True

    def is_locked(self, key: int) -> bool:
        """Returns whether any process, even this one, has locked a run."""
        return self._find_holder(key) is not None

    def find_owner(self, key: int) -> RunOwner | None:
        """Returns the process that has locked a run; None if certainly none has."""
        holder = self._find_holder(key)
        if holder is None:
            return None
        pid, host, user, _ = holder
        if pid is None:  # it has the lock, and has not said yet who it is
            return RunOwner(pid=None, host="another machine")
        return RunOwner(pid=pid, host=one_line(host), user=one_line(user) or None)

    def request_stop(self, key: int) -> bool:
        """Asks the owner of a lock to stop its run; returns False if there is none."""
        return self._database.execute(_REQUEST_STOP, *self._lock_id(key), key) > 0

    def is_stop_requested(self, key: int) -> bool:
        """Returns whether the owner of a lock was asked to stop; for any thread."""
        shared = self._shared
        if shared is not None and key in self._own_keys:
            return shared.is_stop_requested(key)
        holder = self._find_holder(key)
        return holder is not None and bool(holder[3])

    def _find_holder(self, key: int) -> tuple[int | None, str, str, bool] | None:
        holder: tuple[int | None, str, str, bool] | None
        holder = self._database.fetch_one(_HOLDER, *self._lock_id(key))
        return holder

    def _lock_id(self, key: int) -> tuple[int, int]:
        """Returns the two numbers of a lock, as `pg_locks` shows them."""
        return self._connector.lock_space % 2**32, key

    def close(self) -> None:
        """Releases all locks. Safe to call twice."""
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
    """The session with the locks of one store in one process."""

    def __init__(self, name: tuple[int, str], connector: PostgresConnector) -> None:
        self._name = name
        self._space = connector.lock_space
        self._database = PostgresDatabase(connector, Patience())
        self._database.is_reusable = False
        self.users = 0
        self.counts: dict[int, int] = {}
        """The number of open stores of this process that have locked each run, by key."""

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
        if not self.counts.get(key):
            if self._database.fetch_one("SELECT pg_try_advisory_lock(?, ?)", self._space, key) != (True,):
                return False
            self._database.execute(_SAVE_OWNER, key, socket.gethostname(), os.getpid(), _get_user())
        self.counts[key] = self.counts.get(key, 0) + 1
        return True

    def is_stop_requested(self, key: int) -> bool:
        """Returns whether this process was asked to stop a run."""
        statement = "SELECT 1 FROM run_locks WHERE run = ? AND session = pg_backend_pid() AND stop_requested"
        return self._database.fetch_one(statement, key) is not None

    def release(self, key: int) -> None:
        """Removes one store from those that have locked a run; after the last one the run is unlocked."""
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
            self._database.execute("DELETE FROM run_locks WHERE run = ?", key)
            self._database.execute("SELECT pg_advisory_unlock(?, ?)", self._space, key)

    def close(self) -> None:
        """Ends the session, and with it all of its locks."""
        del _SHARED[self._name]
        self._database.close()


def _get_user() -> str:
    """Returns the name of the user of this process; empty if the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # as in containers
        return ""


_SHARED: dict[tuple[int, str], _SharedLocks] = {}
_GUARD = Lock()
