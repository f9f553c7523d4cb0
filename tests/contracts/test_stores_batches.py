"""What every store does with batches that services answer later."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from proctor.protocols import Store, StoredBatch
from support.builders import NOON

FIRST = StoredBatch(key="proctor-r1-a", custom_ids=("p0-r0", "p0-r1"), submitted_at=NOON)
SECOND = StoredBatch(
    key="proctor-r1-b",
    target="other",
    custom_ids=("p1-r0",),
    left_out=("temperature",),
    submitted_at=NOON + timedelta(hours=1),
)


def test_a_batch_is_visible_to_other_processes_before_the_service_has_it(
    store: Store, open_another: Callable[[], Store], start_run: Callable[..., Any]
) -> None:
    start_run("r1")
    start_run("r2")
    store.save_batch("r1", FIRST)
    store.save_batch("r1", SECOND)
    other_store = open_another()
    assert other_store.batches("r1") == [FIRST, SECOND]
    assert other_store.batches("r2") == []


def test_a_batch_gets_its_id_and_then_other_states(store: Store, start_run: Callable[..., Any]) -> None:
    start_run("r1")
    store.save_batch("r1", FIRST)
    store.save_batch("r1", SECOND)
    accepted = replace(FIRST, batch_id="batch_1", state="validating")
    store.save_batch("r1", accepted)
    assert store.batches("r1") == [accepted, SECOND]
    completed = replace(accepted, state="completed")
    store.save_batch("r1", completed)
    assert store.batches("r1") == [completed, SECOND]


def test_a_deleted_run_takes_its_batches_along(store: Store, start_run: Callable[..., Any]) -> None:
    start_run("r1")
    start_run("r2")
    store.save_batch("r1", FIRST)
    other = replace(SECOND, key="proctor-r2-a")
    store.save_batch("r2", other)
    store.delete_run("r1")
    assert store.batches("r2") == [other]
    assert "batch" not in store.count_unused_rows()
