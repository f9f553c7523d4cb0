"""What every store promises of what bundles and certificates need: the secret of a run, and calibrations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.errors import StoreError
from proctor.model import Calibration
from proctor.protocols import Store

Make = Callable[..., Any]


def test_the_secret_of_a_run_is_made_once(open_another: Callable[[], Store], begun: Make) -> None:
    run = begun()
    secret = open_another().secret(run.id)
    assert len(secret) == 32
    assert open_another().secret(run.id) == secret


def test_every_run_has_a_secret_of_its_own_and_one_that_came_in_the_place_of_another_too(
    store: Store, begun: Make
) -> None:
    first, second = begun("r1"), begun("r2", suite=begun("r3").suite)
    secrets = {store.secret(first.id), store.secret(second.id)}
    store.delete_run(first.id)
    begun("r1", suite=second.suite)
    assert len(secrets | {store.secret("r1")}) == 3


def test_there_is_no_secret_of_no_run(store: Store) -> None:
    with pytest.raises(StoreError, match="no run 'nothing'"):
        store.secret("nothing")


def test_the_digests_of_variables_are_those_of_their_run_and_go_with_it(
    open_another: Callable[[], Store], begun: Make
) -> None:
    store, run, other = open_another(), begun("r1"), begun("r2")
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
    kept = open_another()
    assert kept.calibrations(first.judge) == [first, second]
    assert kept.calibrations(other.judge) == [other]
    assert kept.calibrations("sha256:" + "4" * 64) == []
