"""Suites that are saved beside a run: short locks, and a suite is there whole or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from proctor.codec import sent_digest
from proctor.model import Case, Suite, Verdict
from proctor.stores.sql import suite_writer
from proctor.stores.sqlite.integrity import check_store
from proctor.stores.sqlite.store import SqliteStore
from support.builders import make_case, make_trial
from support.stores import begin_run
from support.waiting import PATIENCE_S, wait_until

Open = Callable[[Path], SqliteStore]

# Adds cases until there is a file `stop`, and keeps them then.
_SAVES = """
import sys
from pathlib import Path
from proctor.codec import sent_digest
from proctor.model import Case, Message, Suite
from proctor.stores.sql import suite_writer
from proctor.stores.sqlite.store import SqliteStore

path = sys.argv[1]
suite_writer.BATCH_CASES = 1000
store = SqliteStore.open_file(path)
writer = store.open_suite_writer()
count = 0
while count % 1000 or not Path(path + ".stop").exists():
    case = Case(id=f"c{count}", input=(Message(role="user", content="?" * 200),))
    writer.add(case, sent_digest(case))
    count += 1
suite = writer.commit(Suite(name="large", dialect="d", digest="sha256:" + "1" * 64, case_count=count))
print(count, flush=True)
store.close()
"""


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(suite_writer, "BATCH_CASES", 100)
    return 100


@pytest.fixture
def store(tmp_path: Path, opened: Open) -> SqliteStore:
    return opened(tmp_path / "kept.db")


def _save(store: SqliteStore, cases: Sequence[Case], name: str = "s") -> Suite:
    writer = store.open_suite_writer()
    for case in cases:
        writer.add(case, sent_digest(case))
    return writer.commit(Suite(name=name, dialect="d", digest="sha256:" + "2" * 64, case_count=len(cases)))


def _cases(store: SqliteStore, suite: Suite) -> list[Case]:
    return [stored.case for stored in store.cases(suite.content)]


def _count(store: SqliteStore, table: str, which: str = "1") -> int:
    (count,) = store._db.execute(f"SELECT count(*) FROM {table} WHERE {which}").fetchone()
    return int(count)


@pytest.mark.slow
def test_a_run_writes_while_a_large_suite_is_saved_and_nobody_sees_the_suite_before_its_end(
    tmp_path: Path, store: SqliteStore
) -> None:
    begin_run(store)
    process = subprocess.Popen([sys.executable, "-c", _SAVES, store.path], stdout=subprocess.PIPE, text=True)
    wait_until(lambda: _count(store, "suite_cases") > 3000)
    for position in range(30):
        store.save_trial("r1", make_trial("x", position=position), Verdict.PASS)
        store.flush()
        assert store.suite("large") is None
    assert process.poll() is None  # it was being saved all the while
    Path(f"{store.path}.stop").touch()
    out, _ = process.communicate(timeout=PATIENCE_S)
    suite = store.suite("large")
    assert suite is not None
    assert [case.id for case in _cases(store, suite)] == [f"c{number}" for number in range(int(out))]
    assert store.count_verdicts("r1") == {Verdict.PASS: 30}


@pytest.mark.slow
def test_a_save_that_was_killed_leaves_no_suite_and_the_next_one_cleans_up(store: SqliteStore) -> None:
    kept = _save(store, [make_case("old")], "old")
    process = subprocess.Popen([sys.executable, "-c", _SAVES, store.path])
    wait_until(lambda: _count(store, "suite_cases") > 3000)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [saved.suite for saved in store.versions()] == [kept]
    _save(store, [make_case("new")])
    assert _count(store, "contents") == _count(store, "suite_cases") == _count(store, "cases") == 2
    assert _cases(store, kept) == [make_case("old")]


def test_ctrl_c_leaves_the_rows_of_a_save_to_the_next_one(store: SqliteStore, small_batches: int) -> None:
    writer = store.open_suite_writer()

    def interrupt() -> None:
        try:
            for number in range(3 * small_batches):
                writer.add(each := make_case(f"c{number}"), sent_digest(each))
            raise KeyboardInterrupt
        finally:
            writer.discard()

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert _count(store, "suite_cases") == 3 * small_batches  # removing a million would take seconds
    assert not store.versions()
    _save(store, [make_case("new")])
    assert _count(store, "contents") == _count(store, "suite_cases") == _count(store, "cases") == 1


@pytest.mark.slow
def test_what_a_killed_save_left_is_no_fault_and_gc_removes_it(store: SqliteStore) -> None:
    kept = _save(store, [make_case("old")], "old")
    process = subprocess.Popen([sys.executable, "-c", _SAVES, store.path])
    wait_until(lambda: _count(store, "suite_cases") > 3000)
    assert store.count_unused_rows() == {}  # it is in use
    assert check_store(store.path).problems == ()
    process.send_signal(signal.SIGKILL)
    process.wait()
    checked = check_store(store.path)
    assert checked.problems == ()
    assert any("1 partly saved suite" in note for note in checked.notes)
    store.delete_unused_rows()
    assert _count(store, "contents") == _count(store, "suite_cases") == _count(store, "cases") == 1
    assert _cases(store, kept) == [make_case("old")]


def test_a_save_that_goes_on_is_not_cleaned_up_by_others(
    store: SqliteStore, opened: Open, small_batches: int
) -> None:
    cases = [make_case(f"c{number}") for number in range(5 * small_batches)]
    writer = store.open_suite_writer()
    for each in cases:
        writer.add(each, sent_digest(each))
    other = opened(Path(store.path))
    _save(other, cases[:10], "other")
    begin_run(other, "r9")
    other.delete_run("r9")
    other.delete_version("other", "v1")
    suite = writer.commit(Suite(name="s", dialect="d", digest="sha256:" + "3" * 64, case_count=len(cases)))
    assert _cases(store, suite) == cases


def test_a_suite_that_is_there_already_is_not_written_again(store: SqliteStore, small_batches: int) -> None:
    cases = [make_case(f"c{number}") for number in range(5 * small_batches + 7)]
    first = _save(store, cases)
    before = store._db.total_changes
    assert _save(store, cases) == first
    assert store._db.total_changes - before < 5


@pytest.mark.parametrize("length", [100, 250, 300, 650])
def test_a_suite_that_begins_like_another_has_its_own_cases(
    store: SqliteStore, small_batches: int, length: int
) -> None:
    cases = [make_case(f"c{number}") for number in range(5 * small_batches)]
    first = _save(store, cases)
    others = [make_case(f"other{number}") for number in range(length - 250)] if length > 250 else []
    second = _save(store, [*cases[: min(length, 250)], *others], "second")
    assert _cases(store, second) == [*cases[: min(length, 250)], *others]
    assert _cases(store, first) == cases
    assert _count(store, "contents") == 2


def test_a_dropped_suite_leaves_nothing_even_where_much_was_written(
    store: SqliteStore, small_batches: int
) -> None:
    kept = _save(store, [make_case("kept")], "kept")
    writer = store.open_suite_writer()
    for number in range(5 * small_batches):
        writer.add(make_case(f"c{number}"), sent_digest(make_case(f"c{number}")))
    writer.add(make_case("kept"), sent_digest(make_case("kept")))
    writer.discard()
    assert (_count(store, "contents"), _count(store, "suite_cases"), _count(store, "cases")) == (1, 1, 1)
    assert _cases(store, kept) == [make_case("kept")]


def test_dropping_a_suite_takes_no_case_from_another_that_was_saved_meanwhile(
    store: SqliteStore, opened: Open, small_batches: int
) -> None:
    cases = [make_case(f"c{number}") for number in range(5 * small_batches)]
    writer = store.open_suite_writer()
    for each in cases:
        writer.add(each, sent_digest(each))
    meanwhile = _save(opened(Path(store.path)), cases[::-1], "meanwhile")
    writer.discard()
    assert _cases(store, meanwhile) == cases[::-1]


def test_two_that_save_the_same_at_once_keep_it_once(
    store: SqliteStore, opened: Open, small_batches: int
) -> None:
    cases = [make_case(f"c{number}") for number in range(5 * small_batches)]
    other = opened(Path(store.path))
    writers = [store.open_suite_writer(), other.open_suite_writer()]
    for each in cases:
        for writer in writers:
            writer.add(each, sent_digest(each))
    header = Suite(name="s", dialect="d", digest="sha256:" + "4" * 64, case_count=len(cases))
    first, second = [writer.commit(header) for writer in writers]
    assert first == second
    assert _cases(store, first) == cases
    assert _count(store, "contents") == 1
    assert _count(store, "suite_cases") == len(cases)
