"""A run whose process was killed is shown as interrupted, and each hint names its store."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from proctor.stores import open_store
from support.cli import CommandResult

Proctor = Callable[..., CommandResult]
STORE = ("--store", "other.db")


@pytest.fixture
def killed_run(proctor: Proctor, half: str) -> str:
    """A run with the status `running` in a store that no process has open."""
    run_id: str = proctor("run", half, "--target", "echo", *STORE, "--json").run["run"]
    store = open_store("other.db")
    store.update_run(replace(store.run(run_id), status="running", finished_at=None))
    store.close()
    return run_id


def test_a_killed_run_is_interrupted_in_lists_and_by_itself(proctor: Proctor, killed_run: str) -> None:
    assert "interrupted" in proctor("runs", "list", *STORE).out
    assert proctor("runs", "list", *STORE, "--json").json["runs"][0]["status"] == "interrupted"
    assert proctor("runs", "show", killed_run, *STORE, "--json").run["status"] == "interrupted"


def test_a_run_in_progress_says_so(proctor: Proctor, killed_run: str) -> None:
    store = open_store("other.db")
    store.lock_run(killed_run)
    try:
        assert proctor("runs", "list", *STORE, "--json").json["runs"][0]["status"] == "running"
        assert proctor("runs", "show", killed_run, *STORE, "--json").run["status"] == "running"
    finally:
        store.close()


def test_the_hints_to_continue_a_run_name_its_store(proctor: Proctor, killed_run: str) -> None:
    attested = proctor("attest", killed_run, *STORE, "--no-sign")
    assert f"`proctor run --resume={killed_run} --store other.db`" in attested.err
    assert (
        f"`proctor run --resume={killed_run} --store other.db` completes"
        in proctor("store", "check", *STORE).out
    )
