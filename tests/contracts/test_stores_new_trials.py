"""What every store offers to processes that follow a run in progress: new trials, locks and totals."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.errors import StoreError
from proctor.model import Case, Verdict
from proctor.protocols import Store
from proctor.stores.location import StoreLocation
from support.builders import make_case, make_score, make_trial
from support.stores import save_cases
from support.waiting import wait_until

StartRun = Callable[..., Any]


def read_places(store: Store, *turns: Any) -> list[tuple[int, int, Verdict | None]]:
    return [
        (stored_trial.trial.position, stored_trial.trial.repeat, stored_trial.verdict)
        for stored_trial in store.trials_since("r1", *turns)
    ]


def test_trials_are_returned_in_the_order_of_saving_with_their_cases(
    store: Store, start_run: StartRun, cases: list[Case]
) -> None:
    start_run()
    order = [(2, 0), (0, 1), (1, 0), (0, 0)]
    for position, repeat in order:
        store.save_trial("r1", make_trial("x", position=position, repeat=repeat), Verdict.PASS)
    stored_trials = list(store.trials_since("r1"))
    assert [
        (stored_trial.trial.position, stored_trial.trial.repeat) for stored_trial in stored_trials
    ] == order
    assert [stored_trial.case for stored_trial in stored_trials] == [cases[position] for position, _ in order]
    turns = [stored_trial.turn for stored_trial in stored_trials]
    assert turns == sorted(set(turns))
    assert turns[0] > 0


def test_only_trials_after_a_turn_are_returned(
    store: Store, start_run: StartRun, open_another: Callable[[], Store]
) -> None:
    start_run()
    other = open_another()
    store.save_trial("r1", make_trial("x", position=1), Verdict.PASS)
    store.flush()
    (first,) = other.trials_since("r1")
    assert list(other.trials_since("r1", first.turn)) == []
    store.save_trial("r1", make_trial("x", position=0), Verdict.FAIL)
    store.flush()
    (second,) = other.trials_since("r1", first.turn)
    assert (second.trial.position, second.verdict) == (0, Verdict.FAIL)


def test_a_trial_without_a_verdict_is_returned_again_once_it_has_one(
    store: Store, start_run: StartRun
) -> None:
    start_run()
    store.save_output("r1", make_trial("4"))
    store.save_output("r1", make_trial("5", position=1))
    first, second = store.trials_since("r1")
    assert (first.verdict, second.verdict) == (None, None)
    store.save_trial("r1", make_trial("4", make_score(1.0)), Verdict.PASS)
    (again,) = store.trials_since("r1", second.turn, (first.turn, second.turn))
    assert (again.turn, again.verdict, again.trial) == (
        first.turn,
        Verdict.PASS,
        make_trial("4", make_score(1.0)),
    )


def test_trials_of_other_runs_are_not_returned(store: Store, start_run: StartRun) -> None:
    start_run("r1")
    start_run("r2")
    for position in range(3):
        store.save_trial("r1", make_trial("mine", position=position), Verdict.PASS)
        store.save_trial("r2", make_trial("other", position=position), Verdict.PASS)
    assert read_places(store) == [(position, 0, Verdict.PASS) for position in range(3)]
    other_turns = [stored_trial.turn for stored_trial in store.trials_since("r2")]
    assert list(store.trials_since("r1", 0, other_turns)) == list(store.trials_since("r1"))


def test_trials_of_many_pages_are_read_in_order_and_each_once(
    store: Store, start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.stores.sql.store.PAGE_ROWS", 4)
    monkeypatch.setattr("proctor.stores.sql.store._MAX_TURNS", 7)
    suite = save_cases(store, [make_case(f"c{number}") for number in range(30)])
    start_run(suite=suite, planned=30)
    order = [number * 7 % 30 for number in range(30)]
    for position in order:
        trial = make_trial("x", case_id=f"c{position}", position=position)
        store.save_trial("r1", trial, Verdict.PASS)
    places = [
        (stored_trial.trial.position, stored_trial.case.id) for stored_trial in store.trials_since("r1")
    ]
    assert places == [(position, f"c{position}") for position in order]


def test_progress_is_the_number_of_trials_and_the_last_turn(store: Store, start_run: StartRun) -> None:
    start_run()
    assert store.get_progress("r1") == (0, 0)
    store.save_output("r1", make_trial("x"))
    store.save_trial("r1", make_trial("x", position=1), Verdict.PASS)
    assert store.get_progress("r1") == (
        2,
        max(stored_trial.turn for stored_trial in store.trials_since("r1")),
    )


def test_an_unknown_run_cannot_be_followed(store: Store) -> None:
    for method in (
        *(store.get_progress, store.trials_since),
        *(store.is_run_locked, store.lock_owner, store.request_stop, store.is_stop_requested),
    ):
        with pytest.raises(StoreError, match="There is no run 'r9'"):
            method("r9")


# --- locks on runs -----------------------------------------------------------------------------------------


@pytest.fixture
def shared_location(location: StoreLocation) -> StoreLocation:
    """A store that other processes can open as well."""
    if not location.is_durable:
        pytest.skip("no other process can open it")
    return location


def pid_of_owner(store: Store, run_id: str) -> int | None:
    """The process that has locked a run."""
    owner = store.lock_owner(run_id)
    assert owner is not None
    return owner.pid


needs_locks = pytest.mark.skipif(
    sys.platform not in ("linux", "darwin"), reason="the system does not report lock owners"
)


@needs_locks
def test_the_process_that_began_a_run_has_its_lock_until_it_closes_the_store(
    start_run: StartRun, store: Store, open_another: Callable[[], Store]
) -> None:
    start_run()
    other = open_another()
    assert (other.is_run_locked("r1"), pid_of_owner(other, "r1")) == (True, os.getpid())
    store.close()
    assert (other.is_run_locked("r1"), other.lock_owner("r1")) == (False, None)


@needs_locks
def test_running_runs_that_no_process_has_locked_are_listed(
    start_run: StartRun, store: Store, open_another: Callable[[], Store]
) -> None:
    for run_id in ("r1", "r2", "r3"):
        start_run(run_id)
    store.update_run(replace(store.run("r3"), status="interrupted"))
    other = open_another()
    assert other.unlocked_runs() == frozenset()
    store.close()
    other.lock_run("r2")
    assert other.unlocked_runs() == {"r1"}


@needs_locks
def test_the_lock_owner_is_the_process_that_locked_the_run_until_it_dies(
    start_run: StartRun, store: Store, open_another: Callable[[], Store], shared_location: StoreLocation
) -> None:
    start_run("r1")
    start_run("r2")
    store.close()
    reader = open_another()
    assert reader.lock_owner("r1") is None
    script = (
        "import sys\nfrom proctor.stores import open_store\nstore = open_store(sys.argv[1])\n"
        "store.lock_run('r1')\nprint('claimed', flush=True)\nsys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, shared_location.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "claimed\n"
    assert (reader.is_run_locked("r1"), pid_of_owner(reader, "r1")) == (True, process.pid)
    assert (reader.is_run_locked("r2"), reader.lock_owner("r2")) == (False, None)
    with pytest.raises(StoreError, match=f"process {process.pid}"):
        reader.lock_run("r1")  # the reader has not changed the lock
    process.kill()
    process.communicate()
    wait_until(lambda: not reader.is_run_locked("r1"))  # the server notices a little later
    assert (reader.is_run_locked("r1"), reader.lock_owner("r1")) == (False, None)


@needs_locks
def test_a_lock_stays_when_a_store_that_only_read_it_or_locked_another_run_is_closed(
    start_run: StartRun, store: Store, open_another: Callable[[], Store], shared_location: StoreLocation
) -> None:
    start_run("r1")
    start_run("r2")
    reader, writer = open_another(), open_another()
    assert reader.is_run_locked("r1")
    writer.lock_run("r2")
    reader.close()
    writer.close()
    script = (
        "import sys\nfrom proctor.stores import open_store\nstore = open_store(sys.argv[1])\n"
        "print(*(store.lock_owner(run).pid for run in ('r1', 'r2')))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, shared_location.address],
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    assert result.stdout.split() == [str(os.getpid())] * 2


# --- several rows at once ----------------------------------------------------------------------------------


def test_cases_of_a_run_are_read_many_at_once_in_any_order(store: Store, start_run: StartRun) -> None:
    suite = save_cases(store, [make_case(f"c{number}") for number in range(40)])
    run = start_run(suite=suite, planned=80)
    for position in range(0, 40, 2):
        for repeat in range(2):
            trial = make_trial(
                f"{position}.{repeat}", case_id=f"c{position}", position=position, repeat=repeat
            )
            store.save_trial("r1", trial, Verdict.PASS)
    store.flush()
    positions = [39, 3, 3, *range(38), -1, 40]
    places = list(store.cases_in_run(run, iter(positions)))
    assert places == [store.case_in_run(run, position) for position in positions]
    assert [place and place.case.case.id for place in places[:3]] == ["c39", "c3", "c3"]
    assert places[-2:] == [None, None]
    assert list(store.cases_in_run(run, [])) == []


def test_totals_of_runs_are_read_many_at_once(store: Store, start_run: StartRun) -> None:
    suite = save_cases(store, [make_case("c0")])
    ids = [start_run(f"r{number}", suite=suite).id for number in range(70)]
    for run_id in ids[::2]:
        store.save_totals(run_id, replace(store.totals(run_id), body=run_id.encode()))
    assert store.totals_of_runs([*ids, "r99"]) == {run_id: store.totals(run_id) for run_id in ids}
    assert store.totals_of_runs([]) == {}
