"""Which errors of PostgreSQL go away by themselves, and how long to wait before the next attempt."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Timer
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

_FIRST_PAUSE_S = 0.02
_LAST_PAUSE_S = 1.0
_CUT_S = 1.0
"""How long a thread may take to notice that its connection was cut."""
_TEMPORARY_STATES = (
    "08",  # the connection
    "53",  # a full disk, no memory, too many connections
    "57P01",  # the server is shut down
    "57P02",
    "57P03",
    "57P05",
    "25006",  # a server that takes no writes: after a failover there is another one
    "25P03",
    "25P04",
    "40",  # a deadlock
    "55P03",  # a lock that was not free in time
)
"""How the states of errors begin that go away by themselves."""


class Backoff:
    """The pauses between attempts, each twice as long as the one before, up to a second."""

    def __init__(self) -> None:
        """Begins with the shortest pause."""
        self._pause_s = _FIRST_PAUSE_S

    def next_pause_s(self) -> float:
        """Returns the next pause."""
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, _LAST_PAUSE_S)
        return pause_s


def is_temporary(error: psycopg.Error) -> bool:
    """Returns whether an error may go away, such as a lost connection."""
    state = error.sqlstate
    if state is None:  # of the client itself
        return isinstance(error, psycopg.OperationalError)
    return state.startswith(_TEMPORARY_STATES)


def is_usable(connection: psycopg.Connection[Any]) -> bool:
    """Returns whether an idle connection still works, as far as this machine knows."""
    if connection.closed or connection.info.transaction_status is not TransactionStatus.IDLE:
        return False
    for _ in range(3):  # a notice, and the end
        if not _has_input(connection.fileno()):
            return True
        try:
            connection.pgconn.consume_input()
        except psycopg.Error:
            return False
    return False


def cut(connection: psycopg.Connection[Any]) -> None:
    """Ends a connection that another thread waits for, which gets an error then."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as copy:
        copy.shutdown(socket.SHUT_RDWR)


@contextmanager
def cut_after(seconds: float, connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Cuts a connection if the block takes longer.

    Args:
        seconds: how long it may take.
        connection: the connection that it uses.
    """
    timer = Timer(seconds, cut, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def close_connection(connection: psycopg.Connection[Any]) -> None:
    """Closes a connection, after another thread that waits for it got an error.

    Otherwise that thread would go on to wait for the number of the socket, which another connection gets.
    """
    if not connection.lock.acquire(blocking=False):
        cut(connection)
        if not connection.lock.acquire(timeout=_CUT_S):
            return
    try:
        connection.close()
    finally:
        connection.lock.release()


def _has_input(number: int) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(number, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([number], [], [], 0)[0])
