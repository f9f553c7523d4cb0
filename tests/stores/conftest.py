"""Fixtures: opening stores, and the file of a store with a run in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proctor.model import Comment, HoldoutAccess, Label, Verdict
from proctor.stores.sqlite.store import SqliteStore
from support.builders import make_trial
from support.stores import begin_run


@pytest.fixture
def open_store() -> Iterator[Callable[[Path], SqliteStore]]:
    """Opens stores and closes them after the test."""
    stores: list[SqliteStore] = []

    def make(path: Path) -> SqliteStore:
        stores.append(SqliteStore.open_file(str(path)))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    """The file of a closed store with one run of 500 trials, a holdout access, a label and a comment."""
    path = tmp_path / "kept.db"
    store = SqliteStore.open_file(str(path))
    run = begin_run(store, cases=500)
    store.add_holdout_access(
        HoldoutAccess(suite=run.suite.digest, run=run.id, kind="rate", at=run.started_at)
    )
    for position in range(500):
        store.save_trial("r1", make_trial("4", case_id=f"c{position}", position=position), Verdict.PASS)
    store.add_label(Label(run="r1", case_id="c7", passed=True, by="ana"))
    store.add_comment(Comment(run="r1", case_id="c7", by="ana", text="Look here."))
    store.close()
    return path
