"""Opening a store to read it changes no byte of its file and nothing in its folder."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from proctor.errors import StoreError
from proctor.model import Verdict
from proctor.stores import locate_store
from proctor.stores.sqlite.store import SqliteStore
from support.builders import make_trial


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The content and the time of change of each file in a folder."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_reading_changes_nothing(store_file: Path) -> None:
    before = snapshot(store_file.parent)
    with closing(locate_store(str(store_file)).open_to_read()) as store:
        assert len(list(store.trials("r1"))) == 500
        assert len(store.labels("r1")) == 1
        assert not store.is_run_locked("r1")
        assert snapshot(store_file.parent) == before
    assert snapshot(store_file.parent) == before


def test_trials_in_the_log_of_a_killed_process_are_read(
    store_file: Path, tmp_path: Path, open_store: Callable[[Path], SqliteStore]
) -> None:
    writer = open_store(store_file)
    writer.save_trial("r1", make_trial("5", case_id="c1", repeat=1, position=1), Verdict.FAIL)
    writer.flush()
    folder = tmp_path / "artifact"
    folder.mkdir()
    for ending in ("", "-wal"):
        shutil.copy(f"{store_file}{ending}", folder)
    before = snapshot(folder)
    with closing(locate_store(str(folder / store_file.name)).open_to_read()) as store:
        assert len(list(store.trials("r1"))) == 501
    assert snapshot(folder) == before


def test_the_trials_so_far_of_a_run_in_progress_are_read(
    store_file: Path, open_store: Callable[[Path], SqliteStore]
) -> None:
    writer = open_store(store_file)
    writer.lock_run("r1")
    writer.save_trial("r1", make_trial("5", case_id="c1", repeat=1, position=1), Verdict.FAIL)
    writer.flush()
    with closing(locate_store(str(store_file)).open_to_read()) as store:
        assert store.is_run_locked("r1")
        assert len(list(store.trials("r1"))) == 501


def test_a_store_of_an_earlier_version_is_not_migrated(store_file: Path) -> None:
    with closing(sqlite3.connect(store_file)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute("DROP TABLE batches")
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute(f"PRAGMA user_version = {version - 1}")
        db.commit()
    before = snapshot(store_file.parent)
    with closing(locate_store(str(store_file)).open_to_read()) as store:
        assert len(list(store.trials("r1"))) == 500
        assert store.batches("r1") == []
    assert snapshot(store_file.parent) == before


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"no store" * 100)
    with pytest.raises(StoreError, match="is damaged or is not a store"):
        locate_store(str(path)).open_to_read()
    with closing(sqlite3.connect(tmp_path / "y.db")) as db:
        db.execute("CREATE TABLE t (x)")
        db.commit()
    with pytest.raises(StoreError, match="is the database of another program"):
        locate_store(str(tmp_path / "y.db")).open_to_read()
