"""Rows that nothing refers to, counted and deleted while other processes save suites and make runs."""

from __future__ import annotations

from contextlib import closing
from threading import Thread

import pytest

from proctor.model import Verdict
from proctor.protocols import Store
from proctor.stores.location import StoreLocation
from proctor.stores.sql.store import SqlStore
from support.builders import make_case, make_trial
from support.stores import add_run, begin_run, save_cases


def _leave_rows(store: Store) -> None:
    """Leaves what crashes of earlier versions of Proctor could leave."""
    assert isinstance(store, SqlStore)
    database = store._database
    database.execute(
        "INSERT INTO trials (run, position, repeat, verdict, body) VALUES (?, ?, ?, ?, ?)",
        99,
        0,
        0,
        None,
        b"",
    )
    database.execute("INSERT INTO secrets (run, secret) VALUES (?, ?)", 99, b"s")
    for name in ("a", "b"):
        database.execute("INSERT INTO variables (run, name, digest) VALUES (?, ?, ?)", 99, name, b"d")
    database.execute("INSERT INTO contents (content) VALUES (?)", "sha256:unnamed")
    for position in range(3):
        database.execute(
            "INSERT INTO suite_cases (suite, position, digest, sent) VALUES (?, ?, ?, ?)",
            *(99, position, b"d%d" % position, b""),
        )
        database.execute("INSERT INTO cases (digest, body) VALUES (?, ?)", b"d%d" % position, b"")


def test_unused_rows_are_counted_and_deleted_and_all_others_stay(store: Store) -> None:
    _leave_rows(store)
    begin_run(store)
    store.save_trial("r1", make_trial("4"), Verdict.PASS)
    store.flush()
    counts = {"trial": 1, "run secret": 1, "run variable": 2, "unnamed suite": 1, "suite position": 3}
    assert store.count_unused_rows() == counts  # the cases have positions yet
    store.delete_unused_rows()
    assert store.count_unused_rows() == {}
    assert len(list(store.trials("r1"))) == 1
    assert len(list(store.cases(store.run("r1").suite.content))) == 3
    assert store.secret("r1")


@pytest.mark.slow
def test_suites_and_runs_can_be_saved_while_unused_rows_are_deleted(durable_location: StoreLocation) -> None:
    with closing(durable_location.open_store()) as store:
        shared = [make_case(f"shared {number}") for number in range(50)]
        save_cases(store, shared)
        is_over = False

        def tidy() -> None:
            with closing(durable_location.open_store()) as other:
                while not is_over:
                    other.delete_unused_rows()

        thread = Thread(target=tidy)
        thread.start()
        try:
            for number in range(30):
                cases = [*shared, make_case(f"own {number}")]
                suite = save_cases(store, cases, digest=f"sha256:{number:064x}", name=f"s{number % 3}")
                run = add_run(store, suite, id=f"r{number}")
                store.save_trial(run.id, make_trial("4"), Verdict.PASS)
                if number % 2:
                    store.delete_run(run.id)
                    store.delete_version(suite.name, suite.digest)
        finally:
            is_over = True
            thread.join()
        store.flush()
        runs = list(store.runs())
        assert len(runs) == 15
        assert [len(list(store.cases(run.suite.content))) for run in runs] == [51] * 15
        assert [len(list(store.trials(run.id))) for run in runs] == [1] * 15
        assert store.count_unused_rows() == {}
