"""Requests to stop a run, which reach its process through the database, on whichever machine it is."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Iterator

import pytest

from proctor.protocols import RunOwner, Store
from proctor.stores.location import StoreLocation
from support.stores import begin_run

pytestmark = pytest.mark.slow


@pytest.fixture
def open_another(postgres_location: StoreLocation) -> Iterator[Callable[[], Store]]:
    opened: list[Store] = []

    def make() -> Store:
        opened.append(postgres_location.open_store())
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def test_the_process_of_a_run_learns_that_it_is_to_stop(open_another: Callable[[], Store]) -> None:
    maker, other = open_another(), open_another()
    run = begin_run(maker)
    assert other.lock_owner(run.id) == RunOwner(
        pid=os.getpid(), host=socket.gethostname(), user=getpass.getuser()
    )
    assert not maker.is_stop_requested(run.id)
    assert other.request_stop(run.id)
    assert maker.is_stop_requested(run.id)
    assert open_another().is_stop_requested(run.id)


def test_a_request_to_stop_ends_with_the_lock(open_another: Callable[[], Store]) -> None:
    maker, other = open_another(), open_another()
    run = begin_run(maker)
    assert other.request_stop(run.id)
    maker.close()
    assert (other.lock_owner(run.id), other.is_stop_requested(run.id)) == (None, False)
    assert not other.request_stop(run.id)
    later = open_another()
    later.lock_run(run.id)
    assert not later.is_stop_requested(run.id)


def test_what_a_process_left_that_died_names_no_owner_and_stops_nobody(
    open_another: Callable[[], Store], postgres_location: StoreLocation
) -> None:
    """A row stays where a process is killed; the next owner of the lock has its own."""
    maker, other = open_another(), open_another()
    run = begin_run(maker)
    with postgres_location.connector.connect() as connection:  # type: ignore[attr-defined]
        connection.execute("UPDATE run_locks SET session = 0, host = 'gone', stop_requested = true")
    owner = other.lock_owner(run.id)
    assert owner is not None
    assert (owner.pid, owner.title) == (None, "another process on another machine")
    assert not other.is_stop_requested(run.id)
    assert not other.request_stop(run.id)
