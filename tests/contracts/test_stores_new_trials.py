"""What every store promises to those who follow a run that somebody is making."""

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

Make = Callable[..., Any]


def places(store: Store, *given: Any) -> list[tuple[int, int, Verdict | None]]:
    return [(one.trial.position, one.trial.repeat, one.verdict) for one in store.trials_since("r1", *given)]


def test_trials_come_in_the_order_in_which_they_were_first_stored_with_their_cases(
    store: Store, begun: Make, cases: list[Case]
) -> None:
    begun()
    order = [(2, 0), (0, 1), (1, 0), (0, 0)]
    for position, repeat in order:
        store.save_trial("r1", make_trial("x", position=position, repeat=repeat), Verdict.PASS)
    found = list(store.trials_since("r1"))
    assert [(one.trial.position, one.trial.repeat) for one in found] == order
    assert [one.case for one in found] == [cases[position] for position, _ in order]
    turns = [one.turn for one in found]
    assert turns == sorted(set(turns))
    assert turns[0] > 0


def test_whoever_knows_a_turn_is_given_only_what_came_after_it(
    store: Store, begun: Make, open_another: Callable[[], Store]
) -> None:
    begun()
    other = open_another()
    store.save_trial("r1", make_trial("x", position=1), Verdict.PASS)
    store.flush()
    (first,) = other.trials_since("r1")
    assert list(other.trials_since("r1", first.turn)) == []
    store.save_trial("r1", make_trial("x", position=0), Verdict.FAIL)
    store.flush()
    (second,) = other.trials_since("r1", first.turn)
    assert (second.trial.position, second.verdict) == (0, Verdict.FAIL)


def test_a_trial_that_waited_comes_again_by_its_turn_when_it_has_a_verdict(store: Store, begun: Make) -> None:
    begun()
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


def test_other_runs_are_not_followed(store: Store, begun: Make) -> None:
    begun("r1")
    begun("r2")
    for position in range(3):
        store.save_trial("r1", make_trial("mine", position=position), Verdict.PASS)
        store.save_trial("r2", make_trial("other", position=position), Verdict.PASS)
    assert places(store) == [(position, 0, Verdict.PASS) for position in range(3)]
    others = [one.turn for one in store.trials_since("r2")]
    assert list(store.trials_since("r1", 0, others)) == list(store.trials_since("r1"))


def test_many_trials_are_read_in_order_and_each_once(
    store: Store, begun: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.stores.sql.store.PAGE_ROWS", 4)
    monkeypatch.setattr("proctor.stores.sql.store._MAX_TURNS", 7)
    suite = save_cases(store, [make_case(f"c{number}") for number in range(30)])
    begun(suite=suite, planned=30)
    order = [number * 7 % 30 for number in range(30)]
    for position in order:
        trial = make_trial("x", case_id=f"c{position}", position=position)
        store.save_trial("r1", trial, Verdict.PASS)
    found = [(one.trial.position, one.case.id) for one in store.trials_since("r1")]
    assert found == [(position, f"c{position}") for position in order]


def test_the_reach_of_a_run_is_how_many_trials_it_has_and_the_last_turn(store: Store, begun: Make) -> None:
    begun()
    assert store.get_progress("r1") == (0, 0)
    store.save_output("r1", make_trial("x"))
    store.save_trial("r1", make_trial("x", position=1), Verdict.PASS)
    assert store.get_progress("r1") == (2, max(one.turn for one in store.trials_since("r1")))


def test_a_run_that_is_not_there_cannot_be_followed(store: Store) -> None:
    for method in (
        *(store.get_progress, store.trials_since),
        *(store.is_run_locked, store.lock_owner, store.request_stop, store.is_stop_requested),
    ):
        with pytest.raises(StoreError, match="There is no run 'r9'"):
            method("r9")


# --- who makes a run ---------------------------------------------------------------------------------------


@pytest.fixture
def seen_by_others(location: StoreLocation) -> StoreLocation:
    """A store that other processes can open, too."""
    if not location.is_durable:
        pytest.skip("no other process can open it")
    return location


def pid_of_owner(store: Store, run_id: str) -> int | None:
    """The process that has locked a run."""
    owner = store.lock_owner(run_id)
    assert owner is not None
    return owner.pid


needs_locks = pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="the system does not tell")


@needs_locks
def test_a_run_is_claimed_by_whoever_began_it_until_that_store_is_closed(
    begun: Make, store: Store, open_another: Callable[[], Store]
) -> None:
    begun()
    other = open_another()
    assert (other.is_run_locked("r1"), pid_of_owner(other, "r1")) == (True, os.getpid())
    store.close()
    assert (other.is_run_locked("r1"), other.lock_owner("r1")) == (False, None)


@needs_locks
def test_runs_that_say_running_and_are_locked_by_nobody_are_listed(
    begun: Make, store: Store, open_another: Callable[[], Store]
) -> None:
    for run_id in ("r1", "r2", "r3"):
        begun(run_id)
    store.update_run(replace(store.run("r3"), status="interrupted"))
    other = open_another()
    assert other.unlocked_runs() == frozenset()
    store.close()
    other.lock_run("r2")
    assert other.unlocked_runs() == {"r1"}


@needs_locks
def test_another_process_that_makes_a_run_is_known_by_its_id_until_it_dies(
    begun: Make, store: Store, open_another: Callable[[], Store], seen_by_others: StoreLocation
) -> None:
    begun("r1")
    begun("r2")
    store.close()
    asking = open_another()
    assert asking.lock_owner("r1") is None
    claims = (
        "import sys\nfrom proctor.stores import open_store\nstore = open_store(sys.argv[1])\n"
        "store.lock_run('r1')\nprint('claimed', flush=True)\nsys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", claims, seen_by_others.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "claimed\n"
    assert (asking.is_run_locked("r1"), pid_of_owner(asking, "r1")) == (True, other.pid)
    assert (asking.is_run_locked("r2"), asking.lock_owner("r2")) == (False, None)
    with pytest.raises(StoreError, match=f"process {other.pid}"):
        asking.lock_run("r1")  # asking has taken nothing from it
    other.kill()
    other.communicate()
    wait_until(lambda: not asking.is_run_locked("r1"))  # a server learns of it a little later
    assert (asking.is_run_locked("r1"), asking.lock_owner("r1")) == (False, None)


@needs_locks
def test_a_claim_outlives_whoever_only_asked_or_claimed_another_run(
    begun: Make, store: Store, open_another: Callable[[], Store], seen_by_others: StoreLocation
) -> None:
    begun("r1")
    begun("r2")
    asking, claiming = open_another(), open_another()
    assert asking.is_run_locked("r1")
    claiming.lock_run("r2")
    asking.close()
    claiming.close()
    claims = (
        "import sys\nfrom proctor.stores import open_store\nstore = open_store(sys.argv[1])\n"
        "print(*(store.lock_owner(run).pid for run in ('r1', 'r2')))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", claims, seen_by_others.address],
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    assert told.stdout.split() == [str(os.getpid())] * 2


# --- many at once ------------------------------------------------------------------------------------------


def test_cases_of_a_run_are_read_many_at_once_in_any_order(store: Store, begun: Make) -> None:
    suite = save_cases(store, [make_case(f"c{number}") for number in range(40)])
    run = begun(suite=suite, planned=80)
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


def test_totals_of_runs_are_read_many_at_once(store: Store, begun: Make) -> None:
    suite = save_cases(store, [make_case("c0")])
    ids = [begun(f"r{number}", suite=suite).id for number in range(70)]
    for run_id in ids[::2]:
        store.save_totals(run_id, replace(store.totals(run_id), body=run_id.encode()))
    assert store.totals_of_runs([*ids, "r99"]) == {run_id: store.totals(run_id) for run_id in ids}
    assert store.totals_of_runs([]) == {}
