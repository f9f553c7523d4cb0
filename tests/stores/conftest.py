"""A store with a run in it, and files that are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from proctor.codec import sent_digest
from proctor.model import HoldoutAccess, Run, Suite, TargetSpec, Verdict
from proctor.stores.sqlite.store import SqliteStore
from support.builders import make_case, make_trial


@pytest.fixture
def opened() -> Iterator[Callable[[Path], SqliteStore]]:
    """Opens stores and closes them after the test."""
    stores: list[SqliteStore] = []

    def make(path: Path) -> SqliteStore:
        stores.append(SqliteStore.open_file(str(path)))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def begin() -> Callable[..., Run]:
    """Begins a run of a suite of that many cases in a store."""

    def make(store: SqliteStore, run_id: str = "r1", cases: int = 3) -> Run:
        writer = store.open_suite_writer()
        for number in range(cases):
            writer.add(make_case(f"c{number}"), sent_digest(make_case(f"c{number}")))
        suite = writer.commit(Suite(name="s", dialect="meridian", digest="sha256:0", case_count=cases))
        run = Run(
            id=run_id,
            group="g",
            suite=suite,
            target=TargetSpec(name="echo", kind="echo"),
            started_at=datetime.now(UTC),
        )
        store.add_run(run)
        return run

    return make


@pytest.fixture
def kept(tmp_path: Path, begin: Callable[..., Run]) -> Path:
    """The file of a closed store with one run of 500 trials and a look at it."""
    path = tmp_path / "kept.db"
    store = SqliteStore.open_file(str(path))
    run = begin(store, cases=500)
    store.add_holdout_access(
        HoldoutAccess(suite=run.suite.digest, run=run.id, kind="rate", at=run.started_at)
    )
    for position in range(500):
        store.save_trial("r1", make_trial("4", case_id=f"c{position}", position=position), Verdict.PASS)
    store.flush()
    store.close()
    return path
