"""What every store keeps for bundles and certificates: the secret of a run, and calibrations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.errors import StoreError
from proctor.model import Calibration
from proctor.protocols import Store

StartRun = Callable[..., Any]


def test_the_secret_of_a_run_is_made_once(open_another: Callable[[], Store], start_run: StartRun) -> None:
    run = start_run()
    secret = open_another().secret(run.id)
    assert len(secret) == 32
    assert open_another().secret(run.id) == secret


def test_every_run_has_a_secret_of_its_own_even_if_its_id_was_used_before(
    store: Store, start_run: StartRun
) -> None:
    first, second = start_run("r1"), start_run("r2", suite=start_run("r3").suite)
    secrets = {store.secret(first.id), store.secret(second.id)}
    store.delete_run(first.id)
    start_run("r1", suite=second.suite)
    assert len(secrets | {store.secret("r1")}) == 3


def test_the_secret_of_an_unknown_run_is_an_error(store: Store) -> None:
    with pytest.raises(StoreError, match="no run 'nothing'"):
        store.secret("nothing")


def test_digests_of_variables_belong_to_their_run_and_are_deleted_with_it(
    open_another: Callable[[], Store], start_run: StartRun
) -> None:
    store, run, other = open_another(), start_run("r1"), start_run("r2")
    store.save_variable_digests(run.id, {"A": b"1", "B": b"2"})
    store.save_variable_digests(run.id, {"B": b"3"})
    assert open_another().variable_digests(run.id) == {"A": b"1", "B": b"3"}
    assert store.variable_digests(other.id) == {}
    store.delete_run(other.id)
    assert store.variable_digests(run.id) == {"A": b"1", "B": b"3"}


def test_calibrations_are_kept_by_judge_oldest_first(open_another: Callable[[], Store]) -> None:
    store = open_another()
    first = Calibration(
        judge="sha256:" + "1" * 64,
        name="openai:gpt-5.2",
        at=datetime(2026, 11, 22, tzinfo=UTC),
        labels="sha256:" + "2" * 64,
        count=50,
        agreed=42,
        kappa=0.66,
        kappa_ci95=(0.45, 0.87),
    )
    second = replace(first, agreed=40, kappa=None, kappa_ci95=None)
    other = replace(first, judge="sha256:" + "3" * 64)
    for calibration in (first, other, second):
        store.add_calibration(calibration)
    reopened_store = open_another()
    assert reopened_store.calibrations(first.judge) == [first, second]
    assert reopened_store.calibrations(other.judge) == [other]
    assert reopened_store.calibrations("sha256:" + "4" * 64) == []
