"""Requests to stop a run, which reach its process on any machine through the database."""

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
    stores: list[Store] = []

    def make() -> Store:
        stores.append(postgres_location.open_store())
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def test_the_process_of_a_run_sees_a_request_to_stop(open_another: Callable[[], Store]) -> None:
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


def test_the_lock_row_of_a_dead_process_names_no_owner_and_stops_no_run(
    open_another: Callable[[], Store], postgres_location: StoreLocation
) -> None:
    """The row stays if a process is killed; the next owner of the lock writes its own."""
    maker, other = open_another(), open_another()
    run = begin_run(maker)
    with postgres_location.connector.connect() as connection:  # type: ignore[attr-defined]
        connection.execute("UPDATE run_locks SET session = 0, host = 'gone', stop_requested = true")
    owner = other.lock_owner(run.id)
    assert owner is not None
    assert (owner.pid, owner.title) == (None, "another process on another machine")
    assert not other.is_stop_requested(run.id)
    assert not other.request_stop(run.id)
