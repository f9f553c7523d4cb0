"""Runs are merged from every kind of store into every kind."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

from msgspec.structs import replace

from proctor.model import Selection, Settings, Shard, Verdict
from proctor.protocols import Store
from proctor.services.runs.merging.merge_runs import merge_runs
from proctor.services.runs.merging.parts import MergeInput
from proctor.shards import is_in_shard
from proctor.stores.location import StoreLocation
from proctor.stores.memory import memory_location
from support.builders import NOON, make_case, make_trial
from support.stores import add_run, save_cases

CASES = [make_case(f"c{number}", str(number)) for number in range(300)]


def add_shard(store: Store, index: int) -> None:
    shard = Shard(index=index, count=2)
    positions = [number for number, case in enumerate(CASES) if is_in_shard(case, shard)]
    run = add_run(
        store,
        save_cases(store, CASES),
        id=f"r{index}",
        group="g",
        settings=Settings(selection=Selection(shard=shard)),
        planned=len(positions),
    )
    for position in positions:
        trial = make_trial(str(position), case_id=f"c{position}", position=position)
        store.save_trial(run.id, trial, Verdict.PASS)
    store.update_run(replace(run, status="finished", finished_at=NOON + timedelta(seconds=1)))


def test_shards_in_any_store_become_a_run_in_any_other(store: Store, location: StoreLocation) -> None:
    add_shard(store, 0)
    with (
        closing(memory_location().open_store()) as other,
        closing(memory_location().open_store()) as new,
        closing(location.open_to_read()) as read,
    ):
        add_shard(other, 1)
        inputs = [MergeInput("read", read), MergeInput("other", other)]
        for out in (new, store):
            (merged,) = merge_runs(inputs, out, {})
            assert (merged.run.status, merged.run.merged_from) == ("finished", ("r0", "r1"))
            assert [row.trial.position for row in out.trials(merged.run.id)] == list(range(300))
            assert out.count_verdicts(merged.run.id) == {Verdict.PASS: 300}


def test_shards_in_one_store_become_a_run_in_it(store: Store) -> None:
    for index in range(2):
        add_shard(store, index)
    (merged,) = merge_runs([MergeInput("store", store)], store, {})
    assert merged.run.status == "finished"
    assert len(list(store.trials(merged.run.id))) == 300
