"""Locks of runs, which the server releases when their session ends, however its process dies.

A session advisory lock protects the run, and a row of `run_locks` says who has it. The locks of one process
are in one session, so that its stores share them.
"""

from __future__ import annotations

import os
import socket
from threading import Lock

from proctor.stores.postgresql.database import PostgresConnector, PostgresDatabase
from proctor.stores.sql.patience import Patience

_HOLDER = """SELECT run_locks.host, run_locks.pid FROM pg_locks
    LEFT JOIN run_locks ON run_locks.run = pg_locks.objid::bigint
    WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = ? AND objid::bigint = ?"""


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

    def find_owner(self, key: int) -> int | None:
        """Returns the id of the process of this machine that has locked a run."""
        holder = self._find_holder(key)
        return None if holder is None or holder[0] != socket.gethostname() else int(holder[1])

    def _find_holder(self, key: int) -> tuple[str, int] | None:
        space = self._connector.lock_space % 2**32
        holder: tuple[str, int] | None = self._database.fetch_one(_HOLDER, space, key)
        return holder

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
            self._database.execute(
                "INSERT INTO run_locks (run, host, pid) VALUES (?, ?, ?) "
                "ON CONFLICT (run) DO UPDATE SET host = excluded.host, pid = excluded.pid",
                *(key, socket.gethostname(), os.getpid()),
            )
        self.counts[key] = self.counts.get(key, 0) + 1
        return True

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


_SHARED: dict[tuple[int, str], _SharedLocks] = {}
_GUARD = Lock()
