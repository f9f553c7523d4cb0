"""A store that another process has locked: what waits, for how long, and where answers go then."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from proctor.errors import StoreError
from proctor.model import Verdict
from proctor.stores.sql import trial_queue
from proctor.stores.sqlite import lock_wait, trial_writer
from proctor.stores.sqlite.answer_cache import SqliteAnswerCache
from proctor.stores.sqlite.connection import open_database
from proctor.stores.sqlite.store import SqliteStore
from support.builders import make_trial
from support.processes import LockHolder
from support.stores import begin_run
from support.waiting import wait_until

pytestmark = pytest.mark.slow

OpenStore = Callable[[Path], SqliteStore]
Hold = Callable[[Path], LockHolder]


@pytest.fixture
def hold() -> Iterator[Hold]:
    holders: list[LockHolder] = []

    def make(path: Path) -> LockHolder:
        holders.append(LockHolder(path))
        return holders[-1]

    yield make
    for holder in holders:
        holder.let_go()


@pytest.fixture
def patience_s(monkeypatch: pytest.MonkeyPatch) -> float:
    """Sets how long stores that are opened from now on wait for a lock."""
    monkeypatch.setattr("proctor.stores.sql.wait_policy.DEFAULT_PATIENCE_S", 0.2)
    return 0.2


def test_a_protected_store_waits_without_limit_and_writes_every_trial(
    tmp_path: Path, open_store: OpenStore, hold: Hold, patience_s: float
) -> None:
    store = open_store(tmp_path / "kept.db")
    begin_run(store)
    store.protect()
    holder = hold(tmp_path / "kept.db")
    for position in range(300):
        store.save_trial("r1", make_trial("x", position=position), Verdict.PASS)
    wait_until(lambda: store.health().locked_s > 5 * patience_s)
    assert store.health().waiting == 300
    assert not store.flush(0.01)
    holder.let_go()
    assert store.flush()
    assert store.count_verdicts("r1") == {Verdict.PASS: 300}
    assert (store.health().waiting, store.health().fault) == (0, None)


def test_a_store_that_is_not_protected_gives_up_with_an_error(
    tmp_path: Path, hold: Hold, patience_s: float
) -> None:
    store = SqliteStore.open_file(str(tmp_path / "kept.db"))
    run = begin_run(store)
    hold(tmp_path / "kept.db")
    store.save_trial("r1", make_trial("x"), Verdict.PASS)
    methods: list[Callable[[], object]] = [
        store.flush,
        lambda: store.update_run(run),
        lambda: store.delete_run("r1"),
    ]
    for method in [*methods, store.close]:
        with pytest.raises(
            StoreError, match=r"is locked by another process\..* Wait until that process ends"
        ):
            method()


def test_a_long_wait_is_reported_once(
    tmp_path: Path, open_store: OpenStore, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_wait, "NOTICE_AFTER_S", 0.1)
    store = open_store(tmp_path / "kept.db")
    run = begin_run(store)
    messages: list[str] = []
    store.on_wait(messages.append)
    holder = hold(tmp_path / "kept.db")
    thread = Thread(target=store.delete_run, args=(run.id,))
    thread.start()
    wait_until(lambda: messages)
    holder.let_go()
    thread.join()
    assert messages == [f"Waiting for another process that has locked {tmp_path / 'kept.db'}."]


@pytest.mark.parametrize(("rows", "text"), [(trial_queue.MAX_WAITING_ROWS, "x"), (2, "x" * 9_000_000)])
def test_a_store_is_full_when_many_trials_or_many_bytes_wait(
    tmp_path: Path, open_store: OpenStore, hold: Hold, rows: int, text: str
) -> None:
    store = open_store(tmp_path / "kept.db")
    begin_run(store)
    store.protect()
    holder = hold(tmp_path / "kept.db")
    for position in range(rows):
        assert not store.is_full()
        store.save_trial("r1", make_trial(text, position=position), Verdict.PASS)
    assert store.is_full()
    holder.let_go()
    store.flush()
    assert not store.is_full()
    assert store.count_verdicts("r1") == {Verdict.PASS: rows}


def test_answers_that_wait_when_a_protected_store_is_closed_are_saved_to_a_new_file(
    tmp_path: Path, open_store: OpenStore, hold: Hold
) -> None:
    store = SqliteStore.open_file(str(tmp_path / "kept.db"))
    begin_run(store)
    begin_run(store, "r2")
    store.protect()
    store.save_trial("r1", make_trial("before"), Verdict.PASS)
    store.flush()
    hold(tmp_path / "kept.db")
    store.save_trial("r1", make_trial("after", position=1), Verdict.PASS)
    with pytest.raises(StoreError, match="The run and its answers are now in"):
        store.close()
    (new,) = tmp_path.glob("kept-rescued-*.db")
    other = open_store(new)
    assert [stored_trial.trial.output.text for stored_trial in other.trials("r1")] == ["before", "after"]  # type: ignore[union-attr]
    assert len(list(other.cases(other.run("r1").suite.content))) == 3
    assert other.suite("s") == other.run("r1").suite
    assert [run.id for run in other.runs()] == ["r1"]


def test_if_no_new_file_can_be_written_the_error_counts_the_lost_answers(
    tmp_path: Path, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore.open_file(str(tmp_path / "kept.db"))
    begin_run(store)
    store.protect()
    hold(tmp_path / "kept.db")
    for position in range(7):
        store.save_trial("r1", make_trial("x", position=position), Verdict.PASS)
    monkeypatch.setattr(
        "proctor.stores.sqlite.rescue.find_folders", lambda _path: [tmp_path / "no such folder"]
    )
    with pytest.raises(StoreError, match=r"No other file could be written \(.*\)\. 7 answers could not be"):
        store.close()


def test_if_the_first_folder_is_full_the_new_file_is_written_to_the_next(
    tmp_path: Path, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore.open_file(str(tmp_path / "kept.db"))
    begin_run(store)
    store.protect()
    hold(tmp_path / "kept.db")
    store.save_trial("r1", make_trial("x"), Verdict.PASS)
    full, free = tmp_path / "full", tmp_path / "free"
    for folder in (full, free):
        folder.mkdir()

    def open_where_room_is(path: str) -> sqlite3.Connection:
        if Path(path).parent == full:
            raise StoreError(f"The store {path} cannot be used: database or disk is full.")
        return open_database(path)

    monkeypatch.setattr("proctor.stores.sqlite.rescue.find_folders", lambda _path: [full, free])
    monkeypatch.setattr("proctor.stores.sqlite.rescue.open_database", open_where_room_is)
    with pytest.raises(StoreError, match=f"The run and its answers are now in {free}/kept-rescued"):
        store.close()
    assert not list(full.iterdir())
    (rescued,) = free.glob("*.db")
    with closing(SqliteStore.open_file(str(rescued))) as new:
        assert [stored_trial.trial.position for stored_trial in new.trials("r1")] == [0]


def test_if_the_new_file_becomes_full_the_error_names_it_and_counts_the_lost_answers(
    tmp_path: Path, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore.open_file(str(tmp_path / "kept.db"))
    begin_run(store)
    store.protect()
    hold(tmp_path / "kept.db")
    store.save_trial("r1", make_trial("x"), Verdict.PASS)
    insert = trial_writer._insert_rows

    def insert_unless_full(db: sqlite3.Connection, rows: Any) -> None:
        if "-rescued-" in db.execute("PRAGMA database_list").fetchone()[2]:
            raise sqlite3.OperationalError("database or disk is full")
        insert(db, rows)

    monkeypatch.setattr(trial_writer, "_insert_rows", insert_unless_full)
    with pytest.raises(StoreError, match=r"are now in .*-rescued-.*\.db\. 1 answer could not be saved"):
        store.close()


def test_an_answer_whose_scores_alone_are_lost_is_not_counted_as_lost(
    tmp_path: Path, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore.open_file(str(tmp_path / "kept.db"))
    begin_run(store)
    store.protect()
    store.save_output("r1", make_trial("x"))
    store.flush()
    hold(tmp_path / "kept.db")
    store.save_trial("r1", make_trial("x"), Verdict.PASS)
    store.save_trial("r1", make_trial("y", position=1), Verdict.PASS)
    monkeypatch.setattr("proctor.stores.sqlite.rescue.find_folders", lambda _path: [])
    with pytest.raises(StoreError, match=r" 1 answer could not be saved"):
        store.close()


def test_answers_wait_for_a_cache_that_another_process_has_locked(tmp_path: Path, hold: Hold) -> None:
    messages: list[str] = []
    path = tmp_path / "cache.db"
    cache = SqliteAnswerCache(path, messages.append)
    holder = hold(path)
    for number in range(200):
        cache.put(number.to_bytes(32, "big"), "c", b"p", b"v", "")
    holder.let_go()
    cache.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM answers").fetchone() == (200,)
    assert messages == []


def test_a_cache_that_stays_locked_reports_how_many_answers_were_not_cached(
    tmp_path: Path, hold: Hold
) -> None:
    messages: list[str] = []
    cache = SqliteAnswerCache(tmp_path / "cache.db", messages.append)
    hold(tmp_path / "cache.db")
    for number in range(3):
        cache.put(number.to_bytes(32, "big"), "c", b"p", b"v", "")
    cache.close()
    (message,) = messages
    assert "is locked by another process: 3 answers could not be cached." in message
