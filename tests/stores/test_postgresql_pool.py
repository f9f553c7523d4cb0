"""Connections to PostgreSQL that Proctor's web server keeps between requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from proctor.stores.postgresql.connection_pool import MAX_IDLE, ConnectionPool
from support.stores import begin_run
from support.waiting import wait_until

pytestmark = pytest.mark.slow


def read_session_id(store: Any) -> int:
    """Returns the id of the server process to which a store is connected."""
    return int(store._database.fetch_one("SELECT pg_backend_pid()")[0])


@pytest.fixture
def location(postgres_location: Any) -> Any:
    postgres_location.keep_connections()
    return postgres_location


def test_a_store_uses_the_connection_of_the_one_before_it(location: Any) -> None:
    with closing(location.open_store()) as first:
        session = read_session_id(first)
        with closing(location.open_store()) as second:
            assert read_session_id(second) != session  # that connection is in use
    first.close()  # again, which gives nothing back twice
    with closing(location.open_store()) as third, closing(location.open_store()) as fourth:
        assert session in (read_session_id(third), read_session_id(fourth))
        assert read_session_id(third) != read_session_id(fourth)


def test_a_connection_that_the_server_has_ended_is_replaced(location: Any, postgres_server: Any) -> None:
    with closing(location.open_store()) as store:
        session = read_session_id(store)
    with postgres_server.connect() as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 60000)", (session,))
    with closing(location.open_store()) as store:
        assert read_session_id(store) != session


def test_a_connection_with_locks_or_within_a_transaction_is_not_kept(
    location: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.stores.sql.suite_writer.BATCH_CASES", 1)  # the first is staged, with a lock
    with closing(location.open_store()) as store:
        begin_run(store)
        session = read_session_id(store)
    with closing(location.open_store()) as store:
        assert read_session_id(store) != session
        session = read_session_id(store)
        store._database.execute("BEGIN")
    with closing(location.open_store()) as store:
        assert read_session_id(store) != session


def test_idle_connections_are_few_and_are_closed_after_a_while(postgres_location: Any) -> None:
    pool, connect = ConnectionPool(max_idle_s=0.05), postgres_location.connector.connect
    assert pool.take() is None
    connections = [connect() for _ in range(MAX_IDLE + 2)]
    for connection in connections:
        pool.give_back(connection)
    assert sum(connection.closed for connection in connections) >= 2
    wait_until(lambda: all(connection.closed for connection in connections))
    pool.give_back(connect())
    (_, last) = pool._idle[-1]
    del pool
    assert last.closed


def test_many_threads_share_the_connections(location: Any) -> None:
    with closing(location.open_store()) as store:
        run = begin_run(store)

    def ask(_number: int) -> str:
        with closing(location.open_store()) as store:
            return str(store.run(run.id).id)

    with ThreadPoolExecutor(16) as threads:
        assert set(threads.map(ask, range(200))) == {run.id}
