"""What a store in PostgreSQL does when its server or its connections end, or do not answer."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest

from proctor.errors import StoreError
from proctor.model import Label, Verdict
from proctor.services.runs.execution.store_watch import watch_stop_requests
from proctor.stores.postgresql.location import postgresql_location
from proctor.stores.postgresql.rescue import load_answers
from proctor.stores.postgresql.run_locks import PostgresRunLocks
from proctor.stores.postgresql.store import PostgresStore
from support.builders import make_case, make_trial
from support.postgresql import PostgresServer
from support.stores import add_run, begin_run, save_cases
from support.tcp_proxy import TcpProxy, open_proxy
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow


class Place:
    """A new store, opened through the proxy or directly; both have locks of their own."""

    def __init__(self, server: PostgresServer, proxy: TcpProxy, folder: Path) -> None:
        self.server, self.proxy, self._folder = server, proxy, folder
        self.schema = f"test_{uuid4().hex}"
        self.stores: list[PostgresStore] = []
        postgresql_location(self._path(server.port)).migrate()

    def _path(self, port: int, user: str = "postgres") -> str:
        return f"{user}@127.0.0.1:{port}/postgres?schema={self.schema}"

    def open(self, *, directly: bool = False, user: str = "postgres") -> PostgresStore:
        port = self.server.port if directly else self.proxy.port
        connector = postgresql_location(self._path(port, user)).connector
        self.stores.append(PostgresStore(connector, self._folder))
        return self.stores[-1]

    def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        """Reads rows of the store over a connection of its own."""
        with self.server.connect(options=f"-c search_path={self.schema}") as connection:
            return connection.execute(statement.encode()).fetchall()

    def count_trials(self) -> int:
        ((count,),) = self.fetch("SELECT count(*) FROM trials WHERE verdict IS NOT NULL")
        return int(count)

    def end_sessions(self) -> None:
        """End all other sessions, and wait until they have ended."""
        self.fetch(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )


@pytest.fixture
def place(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Place]:
    with open_proxy(postgres_server.port) as proxy:
        new_place = Place(postgres_server, proxy, tmp_path / ".proctor")
        yield new_place
        for store in new_place.stores:
            store.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may kill."""
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


def _save(store: PostgresStore, *positions: int, run_id: str = "r1", text: str = "4") -> None:
    for position in positions:
        trial = make_trial(text, case_id=f"c{position}", position=position)
        store.save_trial(run_id, trial, Verdict.PASS)


def test_sessions_that_end_lose_no_answer_and_no_lock(place: Place) -> None:
    store = place.open()
    begin_run(store, cases=300)
    store.protect()
    for first in range(0, 300, 100):
        _save(store, *range(first, first + 50))
        place.end_sessions()
        _save(store, *range(first + 50, first + 100))
    store.flush()
    assert place.count_trials() == 300
    wait_until(lambda: store.is_run_locked("r1"))
    with pytest.raises(StoreError, match="is already running in"):
        place.open(directly=True).lock_run("r1")


def test_a_read_opens_a_lost_connection_again(place: Place) -> None:
    store = place.open()
    begin_run(store)
    place.end_sessions()
    assert [run.id for run in store.runs()] == ["r1"]
    place.proxy.disconnect()
    store.add_label(Label(run="r1", case_id="c1", passed=True, by="ana"))
    assert len(store.labels("r1")) == 1


def test_without_a_server_answers_wait_and_the_store_is_full(
    own_server: PostgresServer, tmp_path: Path
) -> None:
    with open_proxy(own_server.port) as proxy:
        place = Place(own_server, proxy, tmp_path)
        store = place.open()
        begin_run(store, cases=60)
        store.protect()
        _save(store, *range(30))
        store.flush()
        own_server.kill()
        _save(store, *range(30, 60))
        wait_until(store.is_full)
        health = store.health()
        assert (health.waiting, health.fault, health.obstacle) == (30, None, "does not answer")
        assert not store.flush(0.01)
        own_server.start()
        assert store.flush()
        assert place.count_trials() == 60
        wait_until(lambda: not store.is_full())
        wait_until(lambda: store.is_run_locked("r1"))
        store.close()


def _is_reading_page() -> bool:
    return any(thread.name == "proctor-page" for thread in enumerate_threads())


def test_cases_are_read_ahead_and_the_store_is_full_while_they_are_not_there(place: Place) -> None:
    store = place.open()
    run = begin_run(store, cases=600)
    store.protect()
    next(store.cases(run.suite.content))  # the saved cases are in memory for the first reading
    cases = store.cases(run.suite.content)
    ids = [next(cases).case.id]
    wait_until(lambda: not _is_reading_page())
    place.proxy.stall()
    ids += [next(cases).case.id for _ in range(300)]  # begins to read the third page
    wait_until(store.is_full)
    place.proxy.resume()
    wait_until(lambda: not store.is_full())
    assert ids + [stored_case.case.id for stored_case in cases] == [f"c{number}" for number in range(600)]


def test_after_a_lock_is_abandoned_nothing_waits_for_a_page(place: Place) -> None:
    store = place.open()
    run = begin_run(store, cases=600)
    store.protect()
    next(store.cases(run.suite.content))  # the saved cases are in memory for the first reading
    cases = store.cases(run.suite.content)
    next(cases)
    wait_until(lambda: not _is_reading_page())
    place.proxy.stall()
    for _ in range(300):
        next(cases)
    wait_until(store.is_full)
    started_at = monotonic()
    store.abandon_lock()
    with pytest.raises(StoreError, match="does not answer"):
        list(store.runs())
    store.close()
    assert monotonic() - started_at < 5


def test_a_request_to_a_silent_server_ends_when_its_store_is_closed(place: Place) -> None:
    store = place.open()
    begin_run(store)
    store.protect()
    place.proxy.stall()
    thread = Thread(target=lambda: store.is_stop_requested("r1"), daemon=True)
    thread.start()
    run_locks = store._run_locks
    assert isinstance(run_locks, PostgresRunLocks)
    assert run_locks._shared is not None
    wait_until(run_locks._shared._session.lock.locked)
    store.abandon_lock()
    store.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_an_event_loop_ends_while_a_silent_server_is_asked_whether_to_stop(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.services.runs.execution.store_watch._REQUEST_INTERVAL_S", 0.01)
    store = place.open()
    begin_run(store)
    run_locks = store._run_locks
    assert isinstance(run_locks, PostgresRunLocks)
    assert run_locks._shared is not None
    is_asking = run_locks._shared._session.lock.locked
    place.proxy.stall()

    async def watch() -> None:
        with watch_stop_requests(store, ["r1"], lambda: None):
            while not is_asking():
                await asyncio.sleep(0.01)

    asyncio.run(watch())
    assert is_asking()
    place.proxy.resume()


def test_a_session_that_is_busy_is_not_lost(place: Place) -> None:
    store = place.open()
    begin_run(store)
    run_locks = store._run_locks
    assert isinstance(run_locks, PostgresRunLocks)
    shared = run_locks._shared
    assert shared is not None
    session = shared._session
    thread = Thread(target=lambda: session.execute("SELECT pg_sleep(0.5)"))
    thread.start()
    wait_until(session.lock.locked)
    assert not shared._is_lost()
    thread.join()
    assert not shared._is_lost()
    assert shared._session is session


def test_a_run_without_its_server_is_full_until_its_connection_is_open_again(
    own_server: PostgresServer, tmp_path: Path
) -> None:
    with open_proxy(own_server.port) as proxy:
        store = Place(own_server, proxy, tmp_path).open()
        begin_run(store)
        store.protect()
        assert not store.is_full()
        own_server.kill()
        wait_until(store.is_full)
        own_server.start()
        wait_until(lambda: not store.is_full())
        assert [run.id for run in store.runs()] == ["r1"]
        store.close()


def test_a_command_gives_up_when_its_patience_ends(own_server: PostgresServer, tmp_path: Path) -> None:
    with open_proxy(own_server.port) as proxy:
        store = Place(own_server, proxy, tmp_path).open()
        begin_run(store)
        store._wait_policy.patience_s = 0.3
        own_server.kill()
        with pytest.raises(StoreError, match=r"does not answer: .*\. Before you try again"):
            list(store.runs())
        own_server.start()
        assert [run.id for run in store.runs()] == ["r1"]
        store.close()


def test_a_transaction_whose_connection_is_lost_saves_nothing_and_is_an_error(place: Place) -> None:
    store = place.open()
    insertion = ("INSERT INTO looks (suite, body) VALUES (?, ?)", "s", b"{}")

    def save_two() -> None:
        with store._database.transaction():
            store._database.execute(*insertion)
            place.end_sessions()
            store._database.execute(*insertion)

    with pytest.raises(StoreError, match="does not answer"):
        save_two()
    assert place.fetch("SELECT * FROM looks") == []
    begin_run(store)


def test_waiting_for_another_transaction_ends_with_the_patience(place: Place) -> None:
    first, second = place.open(), place.open()
    second._wait_policy.patience_s = 0.2
    expects_lock_error = pytest.raises(StoreError, match=r"is locked by another process\. Wait")
    with first._database.transaction(), expects_lock_error, second._database.transaction():
        raise AssertionError("two are in a transaction")
    with second._database.transaction():
        pass


def test_answers_that_a_silent_server_does_not_save_are_saved_when_the_run_is_resumed(place: Place) -> None:
    store = place.open()
    begin_run(store, cases=5)
    store.protect()
    _save(store, 0, 1)
    store.flush()
    place.proxy.stall()
    _save(store, 2, 3, text="\0\u202e")
    wait_until(lambda: store.health().locked_s > 0)
    store.abandon_lock()
    assert store.flush()
    _save(store, 4)
    store.flush()
    fault = store.health().fault
    assert fault is not None
    assert fault.path.startswith("postgresql://")
    assert "does not answer. 3 answers could not be saved to the store. To add what" in fault.message
    assert [answer[1] for answer in load_answers(store._folder, "r1")] == [2, 3, 4]
    store.close()
    place.proxy.resume()
    again = place.open(directly=True)
    again.lock_run("r1")
    assert place.count_trials() == 5
    assert load_answers(store._folder, "r1") == []
    texts = [
        stored_trial.trial.output.text
        for stored_trial in again.trials("r1")
        if stored_trial.trial.output is not None
    ]
    assert texts == ["4", "4", *2 * ["\0\u202e"], "4"]


def test_closing_a_store_without_its_server_saves_the_answers_to_a_file(place: Place) -> None:
    store = place.open()
    begin_run(store)
    store.protect()
    _save(store, 1)
    store.flush()
    place.proxy.stall()
    _save(store, 0)
    with pytest.raises(StoreError, match="1 answer could not be saved to the store"):
        store.close()
    assert len(load_answers(store._folder, "r1")) == 1


def test_a_server_that_refuses_answers_is_a_fault(place: Place) -> None:
    store = place.open()
    begin_run(store)
    store.protect()
    with place.server.connect(options=f"-c search_path={place.schema}") as connection:
        connection.execute("ALTER TABLE trials RENAME TO moved")
    _save(store, 0)
    store.flush()
    fault = store.health().fault
    assert fault is not None
    assert 'cannot be written: relation "trials" does not exist. 1 answer' in fault.message


def test_a_run_that_another_process_has_locked_meanwhile_is_not_written_to(place: Place) -> None:
    store = place.open()
    begin_run(store, cases=4)
    store.protect()
    _save(store, 0)
    store.flush()
    place.proxy.stall()
    _save(store, 1)
    place.end_sessions()
    other = place.open(directly=True)
    other.lock_run("r1")
    place.proxy.resume()
    wait_until(lambda: store.health().fault)
    _save(store, 2)
    store.flush()
    fault = store.health().fault
    assert fault is not None
    assert "Run r1 was continued by another process" in fault.message
    _save(other, 3)
    other.flush()
    assert place.fetch("SELECT position FROM trials ORDER BY position") == [(0,), (3,)]
    store.close()
    assert place.open(directly=True).is_run_locked("r1")


def test_a_process_takes_its_lock_back_from_its_own_lost_session(place: Place) -> None:
    store = place.open()
    begin_run(store)
    ((pid,),) = place.fetch("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted")
    place.proxy.stall()
    run_locks = store._run_locks
    assert isinstance(run_locks, PostgresRunLocks)
    assert run_locks._shared is not None
    run_locks._shared._session.close()  # as if the network were gone: the server does not notice
    place.proxy.resume()
    wait_until(
        lambda: (
            place.fetch("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted")
            not in ([(pid,)], [])
        )
    )
    assert store.health().fault is None


def test_a_role_that_may_not_create_temporary_tables_can_write(place: Place) -> None:
    role = f"writer_{uuid4().hex[:8]}"
    with place.server.connect() as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {place.schema} TO {role}")
        connection.execute(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {place.schema} TO {role}"
        )
        connection.execute("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
    try:
        store = place.open(user=role)
        begin_run(store)
        _save(store, 0, 1, 1)
        store.save_output("r1", make_trial("\0", position=2))
        store.flush()
        assert place.fetch("SELECT position, verdict FROM trials ORDER BY position") == [
            (0, "pass"),
            (1, "pass"),
            (2, None),
        ]
        store.close()
    finally:
        with place.server.connect() as connection:
            connection.execute("GRANT TEMPORARY ON DATABASE postgres TO PUBLIC")
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_others_save_while_a_large_suite_is_staged(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.stores.sql.suite_writer.BATCH_CASES", 4)
    monkeypatch.setattr("proctor.stores.postgresql.case_staging._BATCH_ROWS", 3)
    first, second = place.open(), place.open()
    cases = [make_case(f"c{number % 9}") for number in range(20)]
    writer = first.open_suite_writer()
    for case in cases[:10]:
        writer.add(case, "sha256:" + "ab" * 32)
    assert place.fetch("SELECT count(*) FROM suite_cases") == [(8,)]
    suite = save_cases(second, cases)
    assert [stored_case.case.id for stored_case in second.cases(suite.content)] == [case.id for case in cases]
    writer.discard()
    assert [stored_case.case.id for stored_case in second.cases(suite.content)] == [case.id for case in cases]
    assert place.fetch("SELECT count(*) FROM contents") == [(1,)]


def test_staged_cases_of_a_dead_process_are_deleted_by_the_next_save(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.stores.sql.suite_writer.BATCH_CASES", 4)
    first, second = place.open(), place.open()
    writer = first.open_suite_writer()
    for number in range(10):
        writer.add(make_case(f"lost{number}"), "sha256:" + "ab" * 32)
    place.end_sessions()
    save_cases(second, [make_case(f"c{number}") for number in range(10)])
    assert place.fetch("SELECT count(*) FROM contents") == [(1,)]
    assert place.fetch("SELECT count(*) FROM cases WHERE convert_from(body, 'UTF8') LIKE '%lost%'") == [(0,)]
    with pytest.raises(StoreError, match="Save the suite again"):
        writer.commit(add_run(second, save_cases(second, [make_case("x")])).suite)


def test_large_answers_are_read_a_few_at_a_time(place: Place) -> None:
    store = place.open()
    begin_run(store)
    text = "ä\0" * 2**21
    _save(store, *range(3), text=text)
    store.flush()
    pages = store._postgres.select_page(
        "SELECT position, body FROM trials ORDER BY position LIMIT ?", 256, body=1
    )
    assert len(pages) == 1
    assert [
        stored_trial.trial.output.text == text
        for stored_trial in store.trials("r1")
        if stored_trial.trial.output
    ] == 3 * [True]


def test_a_check_has_few_large_answers_in_memory_at_once(place: Place) -> None:
    store = place.open()
    begin_run(store, cases=12)
    _save(store, *range(12), text="x" * 2**22)
    store.flush()
    tracemalloc.start()
    try:
        with store._postgres.snapshot():
            sizes = [len(body) for (body,) in store._postgres.iterate("SELECT body FROM trials")]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(sizes) == 12
    assert peak < 5 * 2**22


_WRITE_SCRIPT = """
import sys
from time import monotonic, sleep
from pathlib import Path
from proctor.model import Verdict
from proctor.stores.postgresql.location import postgresql_location
from support.builders import make_trial

store = postgresql_location(sys.argv[1]).open_store()
store.lock_run("r1")
for position in range(100_000):
    store.save_trial("r1", make_trial("x", position=position), Verdict.PASS)
    print(position, monotonic(), flush=True)
    sleep(0.001)
"""


def test_a_killed_process_loses_nothing_older_than_a_tenth_of_a_second(place: Place) -> None:
    lost_positions: set[int] = set()
    begin_run(place.open())
    place.stores.pop().close()
    for _ in range(20):  # again, as this machine may be busy with something else
        place.fetch("DELETE FROM trials RETURNING 1")
        lost_positions = _find_lost_trials(place)
        if not lost_positions:
            break
    assert not lost_positions


def _find_lost_trials(place: Place) -> set[int]:
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITE_SCRIPT, place._path(place.server.port)],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert process.stdout is not None
    lines = [process.stdout.readline().split() for _ in range(300)]
    killed_at = monotonic()
    process.send_signal(signal.SIGKILL)
    out, _ = process.communicate()
    lines += [line.split() for line in out.splitlines() if len(line.split()) == 2]
    place.end_sessions()
    stored_positions = {position for (position,) in place.fetch("SELECT position FROM trials")}
    return {int(position) for position, at in lines if float(at) < killed_at - 0.1} - stored_positions


def test_threads_share_a_store_while_its_sessions_end(place: Place) -> None:
    store = place.open()
    begin_run(store)
    errors: list[BaseException] = []
    stop = Event()

    def read() -> None:
        try:
            while not stop.is_set():
                assert [run.id for run in store.runs()] == ["r1"]
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        place.end_sessions()
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


def test_client_and_server_notice_within_seconds_that_the_other_is_gone(place: Place) -> None:
    connection = place.open(directly=True)._postgres.connection
    with socket.socket(fileno=os.dup(connection.fileno())) as client:
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 6
    names = ("tcp_user_timeout", "tcp_keepalives_idle")
    assert [connection.execute(f"SHOW {name}".encode()).fetchone() for name in names] == [("15000",), ("6",)]
