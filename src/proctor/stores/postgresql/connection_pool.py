"""Connections that stay open between the requests of a server, as opening one takes longer than most pages.

`psycopg_pool` would bring a limit that requests wait for, and four threads; here a request that finds no idle
connection opens one, and a timer closes those that nobody took for a minute.
"""

from __future__ import annotations

import os
from threading import Lock, Timer
from time import monotonic
from typing import Any
from weakref import finalize, ref

import psycopg

from proctor.stores.postgresql.lost_connections import is_usable

MAX_IDLE = 8
"""The number of idle connections that are kept."""
MAX_IDLE_S = 60.0
"""How long an idle connection stays open."""


class ConnectionPool:
    """Idle connections of one process to one store; safe to use from many threads."""

    def __init__(self, max_idle_s: float = MAX_IDLE_S) -> None:
        """Opens nothing.

        Args:
            max_idle_s: how long an idle connection stays open.
        """
        self._max_idle_s = max_idle_s
        self._lock = Lock()
        self._idle: list[tuple[float, psycopg.Connection[Any]]] = []
        """When each was given back, the latest last."""
        self._pid = os.getpid()
        self._timer: Timer | None = None
        finalize(self, _close_all, self._idle, self._pid)

    def take(self) -> psycopg.Connection[Any] | None:
        """Returns an idle connection that works; None if there is none."""
        while True:
            with self._lock:
                self._forget_after_fork()
                if not self._idle:
                    return None
                _, connection = self._idle.pop()
            if is_usable(connection):
                return connection
            connection.close()

    def give_back(self, connection: psycopg.Connection[Any]) -> None:
        """Keeps a connection for the next request, or closes it if it is broken or within a transaction."""
        can_be_reused = is_usable(connection)
        with self._lock:
            self._forget_after_fork()
            if can_be_reused and len(self._idle) < MAX_IDLE:
                self._idle.append((monotonic(), connection))
                if self._timer is None:
                    self._start_timer(self._max_idle_s)
                return
        connection.close()

    def close_old(self) -> None:
        """Closes the connections that nobody took for too long."""
        with self._lock:
            self._timer = None
            self._forget_after_fork()
            last = monotonic() - self._max_idle_s
            old = [connection for since, connection in self._idle if since <= last]
            self._idle[:] = [(since, connection) for since, connection in self._idle if since > last]
            if self._idle:
                self._start_timer(self._idle[0][0] - last)
        for connection in old:
            connection.close()

    def _start_timer(self, after_s: float) -> None:
        pool = ref(self)  # a pool that nobody uses is not kept alive

        def close_old() -> None:
            if (own := pool()) is not None:
                own.close_old()

        self._timer = Timer(after_s, close_old)
        self._timer.daemon = True
        self._timer.start()

    def _forget_after_fork(self) -> None:
        """Leaves the connections of the parent process alone, in a child that was forked."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._idle.clear()
            self._timer = None


def _close_all(idle: list[tuple[float, psycopg.Connection[Any]]], pid: int) -> None:
    if pid == os.getpid():
        for _, connection in idle:
            connection.close()
