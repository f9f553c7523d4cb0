"""Suites that are saved during a run: locks are short, and a suite is saved whole or not at all."""

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

OpenStore = Callable[[Path], SqliteStore]

# Adds cases until there is a file `stop`, then saves the suite.
_SAVE_SCRIPT = """
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
def store(tmp_path: Path, open_store: OpenStore) -> SqliteStore:
    return open_store(tmp_path / "kept.db")


def _save(store: SqliteStore, cases: Sequence[Case], name: str = "s") -> Suite:
    writer = store.open_suite_writer()
    for case in cases:
        writer.add(case, sent_digest(case))
    return writer.commit(Suite(name=name, dialect="d", digest="sha256:" + "2" * 64, case_count=len(cases)))


def _cases(store: SqliteStore, suite: Suite) -> list[Case]:
    return [stored_case.case for stored_case in store.cases(suite.content)]


def _count(store: SqliteStore, table: str, condition: str = "1") -> int:
    (count,) = store._db.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()
    return int(count)


@pytest.mark.slow
def test_a_run_is_written_while_a_large_suite_is_saved_which_is_not_visible_before_its_end(
    tmp_path: Path, store: SqliteStore
) -> None:
    begin_run(store)
    process = subprocess.Popen(
        [sys.executable, "-c", _SAVE_SCRIPT, store.path], stdout=subprocess.PIPE, text=True
    )
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
    earlier_suite = _save(store, [make_case("old")], "old")
    process = subprocess.Popen([sys.executable, "-c", _SAVE_SCRIPT, store.path])
    wait_until(lambda: _count(store, "suite_cases") > 3000)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [saved.suite for saved in store.versions()] == [earlier_suite]
    _save(store, [make_case("new")])
    assert _count(store, "contents") == _count(store, "suite_cases") == _count(store, "cases") == 2
    assert _cases(store, earlier_suite) == [make_case("old")]


def test_ctrl_c_leaves_the_rows_of_a_save_to_the_next_one(store: SqliteStore, small_batches: int) -> None:
    writer = store.open_suite_writer()

    def interrupt() -> None:
        try:
            for number in range(3 * small_batches):
                writer.add(case := make_case(f"c{number}"), sent_digest(case))
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
def test_the_rows_of_a_killed_save_are_no_problem_and_are_deleted_as_unused(store: SqliteStore) -> None:
    earlier_suite = _save(store, [make_case("old")], "old")
    process = subprocess.Popen([sys.executable, "-c", _SAVE_SCRIPT, store.path])
    wait_until(lambda: _count(store, "suite_cases") > 3000)
    assert store.count_unused_rows() == {}  # it is in use
    assert check_store(store.path).problems == ()
    process.send_signal(signal.SIGKILL)
    process.wait()
    report = check_store(store.path)
    assert report.problems == ()
    assert any("1 partly saved suite" in note for note in report.notes)
    store.delete_unused_rows()
    assert _count(store, "contents") == _count(store, "suite_cases") == _count(store, "cases") == 1
    assert _cases(store, earlier_suite) == [make_case("old")]


def test_rows_of_a_save_in_progress_are_not_deleted_by_other_stores(
    store: SqliteStore, open_store: OpenStore, small_batches: int
) -> None:
    cases = [make_case(f"c{number}") for number in range(5 * small_batches)]
    writer = store.open_suite_writer()
    for case in cases:
        writer.add(case, sent_digest(case))
    other = open_store(Path(store.path))
    _save(other, cases[:10], "other")
    begin_run(other, "r9")
    other.delete_run("r9")
    other.delete_version("other", "v1")
    suite = writer.commit(Suite(name="s", dialect="d", digest="sha256:" + "3" * 64, case_count=len(cases)))
    assert _cases(store, suite) == cases


def test_a_suite_that_is_already_saved_is_not_written_again(store: SqliteStore, small_batches: int) -> None:
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


def test_a_discarded_suite_leaves_no_rows_even_if_many_were_written(
    store: SqliteStore, small_batches: int
) -> None:
    earlier_suite = _save(store, [make_case("kept")], "kept")
    writer = store.open_suite_writer()
    for number in range(5 * small_batches):
        writer.add(make_case(f"c{number}"), sent_digest(make_case(f"c{number}")))
    writer.add(make_case("kept"), sent_digest(make_case("kept")))
    writer.discard()
    assert (_count(store, "contents"), _count(store, "suite_cases"), _count(store, "cases")) == (1, 1, 1)
    assert _cases(store, earlier_suite) == [make_case("kept")]


def test_discarding_a_suite_deletes_no_case_of_another_that_was_saved_meanwhile(
    store: SqliteStore, open_store: OpenStore, small_batches: int
) -> None:
    cases = [make_case(f"c{number}") for number in range(5 * small_batches)]
    writer = store.open_suite_writer()
    for case in cases:
        writer.add(case, sent_digest(case))
    other_suite = _save(open_store(Path(store.path)), cases[::-1], "meanwhile")
    writer.discard()
    assert _cases(store, other_suite) == cases[::-1]


def test_two_stores_that_save_the_same_suite_at_once_save_it_once(
    store: SqliteStore, open_store: OpenStore, small_batches: int
) -> None:
    cases = [make_case(f"c{number}") for number in range(5 * small_batches)]
    other = open_store(Path(store.path))
    writers = [store.open_suite_writer(), other.open_suite_writer()]
    for case in cases:
        for writer in writers:
            writer.add(case, sent_digest(case))
    header = Suite(name="s", dialect="d", digest="sha256:" + "4" * 64, case_count=len(cases))
    first, second = [writer.commit(header) for writer in writers]
    assert first == second
    assert _cases(store, first) == cases
    assert _count(store, "contents") == 1
    assert _count(store, "suite_cases") == len(cases)
