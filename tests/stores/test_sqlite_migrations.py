"""Files that are not stores of this version: older ones are migrated, all others refused and left alone."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.codec import target_digest
from proctor.errors import StoreError
from proctor.model import Label
from proctor.stores.sqlite.connection import is_writable
from proctor.stores.sqlite.migrations import APPLICATION_ID, MIGRATIONS
from proctor.stores.sqlite.store import SqliteStore
from support.stores import begin_run

OpenStore = Callable[[Path], SqliteStore]


@contextmanager
def _check_untouched(path: Path) -> Iterator[None]:
    """Checks that no byte of the file changes, and that no file appears in its folder."""
    before = sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns, sorted(path.parent.iterdir())
    yield
    assert (sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) == before[:2]
    assert sorted(path.parent.iterdir()) == before[2]


def _check_refusal(path: Path, *words: str) -> None:
    with pytest.raises(StoreError) as caught:
        SqliteStore.open_file(str(path)).close()
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith(".")
    for word in words:
        assert word in message


def test_a_store_of_a_newer_version_is_refused_and_both_versions_are_named(store_file: Path) -> None:
    newer = len(MIGRATIONS) + 1
    with sqlite3.connect(store_file) as db:
        db.execute(f"PRAGMA user_version = {newer}")
    db.close()
    with _check_untouched(store_file):
        _check_refusal(
            store_file, "newer version of Proctor", f"store version {newer}", f"up to {len(MIGRATIONS)}"
        )


def test_a_store_of_a_newer_version_is_refused_even_if_its_version_is_only_in_the_log(
    store_file: Path,
) -> None:
    other = sqlite3.connect(store_file, isolation_level=None)
    other.execute("PRAGMA user_version = 99")
    with _check_untouched(store_file):
        _check_refusal(store_file, "store version 99")
    assert other.execute("PRAGMA user_version").fetchone() == (99,)
    other.close()


@pytest.mark.parametrize(
    ("version", "tables"),
    [
        (3, "labels origins variables totals comments batches"),
        (6, "totals comments batches"),
        (7, "comments batches"),
        (8, "batches"),
    ],
)
def test_a_store_of_an_earlier_version_is_migrated_and_loses_nothing(
    store_file: Path, open_store: OpenStore, version: int, tables: str
) -> None:
    with closing(sqlite3.connect(store_file)) as db, db:
        for table in tables.split():
            db.execute(f"DROP TABLE {table}")
        db.execute(f"PRAGMA user_version = {version}")
    store = open_store(store_file)
    assert len(store.labels()) == (version > 3)
    store.add_label(Label(run="r1", case_id="c8", passed=True, by="ana"))
    store.update_run(store.run("r1"), totals=b"totals")
    again = open_store(store_file)
    assert [stored_label.label.case_id for stored_label in again.labels("r1")] == ["c7"] * (version > 3) + [
        "c8"
    ]
    assert again.totals("r1").body == b"totals"
    assert sum(1 for _ in again.trials("r1")) == 500
    with closing(sqlite3.connect(store_file)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


@pytest.mark.parametrize("wal", [False, True])
def test_a_database_of_another_program_is_refused(tmp_path: Path, wal: bool) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path, isolation_level=None)
    if wal:
        other.execute("PRAGMA journal_mode = WAL")  # so that the file itself stays empty for a while
    other.execute("CREATE TABLE customers (name)")
    with _check_untouched(path):
        _check_refusal(path, "the database of another program")
    other.close()


@pytest.mark.parametrize("pragma", ["user_version = 7", "application_id = 7"])
def test_an_empty_database_of_another_program_is_refused(tmp_path: Path, pragma: str) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA {pragma}")
    other.close()
    with _check_untouched(path):
        _check_refusal(path, "the database of another program")


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b"hello, this is a text\n" * 50,
        b'{"id": "t1", "input": "?", "expected": "4"}\n' * 20,
        b"\x00" * 8192,
        b"SQLite format 3",
        b"SQLite format 3\x00",
        b"SQLite format 3\x00" + b"\xff" * 5000,
        b"SQLite format 3\x00" + b"\x00" * 5000,
        b"PK\x03\x04" + b"zip" * 100,
    ],
    ids=["byte", "text", "suite", "zeros", "name", "name-and-nul", "name-and-ff", "name-and-zeros", "zip"],
)
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kept.db"
    path.write_bytes(content)
    with _check_untouched(path):
        _check_refusal(path)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_min=True, exclude_max=True), whole_pages=st.booleans())
def test_a_truncated_store_is_refused(store_file: Path, share: float, whole_pages: bool) -> None:
    size = store_file.stat().st_size
    truncated = store_file.parent / "cut" / "short.db"
    truncated.parent.mkdir(exist_ok=True)
    shutil.copy(store_file, truncated)
    length = max(1, int(size * share))
    os.truncate(truncated, max(4096, length // 4096 * 4096) if whole_pages else length)
    if truncated.stat().st_size == size:
        return
    with _check_untouched(truncated):
        _check_refusal(truncated)


@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(100, 200_000), junk=st.binary(min_size=1, max_size=2000))
def test_damage_anywhere_in_a_store_is_an_error_or_has_no_effect(
    store_file: Path, place: int, junk: bytes
) -> None:
    content = bytearray(store_file.read_bytes())
    place %= len(content)
    content[place : place + len(junk)] = junk[: len(content) - place]
    damaged = store_file.parent / "damaged.db"
    damaged.write_bytes(content)
    message = ""
    try:
        _read_all(SqliteStore.open_file(str(damaged)))
    except StoreError as error:
        message = str(error)
    assert not message or str(damaged) in message


def _read_all(store: SqliteStore) -> None:
    try:
        for run in store.runs():
            store.suite("s")
            cases = list(store.cases(run.suite.content))
            list(store.trials(run.id))
            store.count_verdicts(run.id)
            store.holdout_accesses(run.suite.digest)
            for case in cases[:1]:  # there are none if their digest is what was damaged
                list(store.find_prior_answers(case.sent_digest, target_digest(run.target)))
        store.versions()
        store.labels()
        store.comments("r1")
    finally:
        store.close()


@pytest.mark.parametrize("body", [b'{"id": 7}', b"", "text", 7])
@pytest.mark.parametrize("table", ["runs", "trials", "cases", "versions", "looks", "labels", "comments"])
def test_a_body_that_cannot_be_decoded_is_an_error(store_file: Path, table: str, body: object) -> None:
    with sqlite3.connect(store_file) as db:
        db.execute(f"UPDATE {table} SET body = ?", (body,))
    db.close()
    with pytest.raises(StoreError, match="is damaged"):
        _read_all(SqliteStore.open_file(str(store_file)))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE trials SET verdict = 'maybe'",
        "UPDATE suite_cases SET sent = 'text'",
        "UPDATE versions SET saved_at = 'noon'",
        "UPDATE labels SET at = 'noon'",
        "UPDATE comments SET at = 'noon'",
    ],
)
def test_a_column_that_cannot_be_decoded_is_an_error(store_file: Path, change: str) -> None:
    with sqlite3.connect(store_file) as db:
        db.execute(change)
    db.close()
    with pytest.raises(StoreError, match="is damaged"):
        _read_all(SqliteStore.open_file(str(store_file)))


@pytest.mark.parametrize("name", ["folder", "/dev/null", "/dev/full", "/dev/null/x.db", "file/x.db"])
def test_a_path_that_cannot_be_a_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError):
        SqliteStore.open_file(str(tmp_path / name)).close()
    assert not Path("/dev/null-journal").exists()


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError, match="not a file"):
        SqliteStore.open_file(str(tmp_path / "pipe"))


def test_a_folder_that_cannot_be_written_to_is_an_error() -> None:
    with pytest.raises(StoreError, match="/proc/no"):
        SqliteStore.open_file("/proc/no/store.db")


def test_an_empty_file_and_a_missing_folder_become_a_store(tmp_path: Path, open_store: OpenStore) -> None:
    (tmp_path / "empty").write_bytes(b"")
    for path in (tmp_path / "empty", tmp_path / "a" / "b" / "new.db"):
        open_store(path).close()
        with sqlite3.connect(path) as db:
            assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        db.close()


@pytest.mark.parametrize("name", [":memory:", "file:x.db?mode=memory", "a b'c\"d%.db", "ü🦉.db"])
def test_names_that_are_special_to_sqlite_are_names_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore.open_file(name)
    begin_run(store)
    store.close()
    again = SqliteStore.open_file(name)
    assert [run.id for run in again.runs()] == ["r1"]
    again.close()
    assert Path(name).is_file()


@pytest.mark.slow
def test_several_threads_can_create_the_same_store_at_once(tmp_path: Path) -> None:
    for attempt in range(5):
        path, problems = tmp_path / f"{attempt}.db", list[Any]()
        barrier = threading.Barrier(6)

        def make(path: Path = path, problems: list[Any] = problems, barrier: Any = barrier) -> None:
            barrier.wait()
            try:
                SqliteStore.open_file(str(path)).close()
            except BaseException as error:  # noqa: BLE001  # handed to the test
                problems.append(error)

        threads = [threading.Thread(target=make) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []


@pytest.mark.slow
def test_a_store_stays_writable_while_its_log_is_created_and_removed(tmp_path: Path) -> None:
    path, log, is_over = tmp_path / "s.db", tmp_path / "s.db-wal", threading.Event()
    path.touch()

    def toggle() -> None:
        while not is_over.is_set():
            log.touch()
            log.unlink()

    thread = threading.Thread(target=toggle)
    thread.start()
    try:
        answers = {is_writable(str(path)) for _ in range(3_000)}
    finally:
        is_over.set()
        thread.join()
    assert answers == {True}


_LABEL_SCRIPT = """
import sys
from contextlib import closing
from proctor.model import Label
from proctor.stores.sqlite.store import SqliteStore

for number in range(400):
    with closing(SqliteStore.open_file(sys.argv[1])) as store:
        store.add_label(Label(run="r1", case_id=f"c{number}", passed=True, by="bo"))
"""


@pytest.mark.slow
def test_two_processes_that_open_and_close_a_store_repeatedly_lose_no_label(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    SqliteStore.open_file(path).close()
    with subprocess.Popen([sys.executable, "-c", _LABEL_SCRIPT, path]) as other:
        while other.poll() is None:
            with closing(SqliteStore.open_file(path)) as store:
                store.add_label(Label(run="r1", case_id="c", passed=True, by="ana"))
    assert other.returncode == 0
    with closing(SqliteStore.open_file(path)) as store:
        assert sum(stored_label.label.by == "bo" for stored_label in store.labels("r1")) == 400
