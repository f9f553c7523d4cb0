"""What every store does with people's labels."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.model import Label
from proctor.protocols import Store

StartRun = Callable[..., Any]
ANA = Label(run="r1", case_id="plain", passed=True, by="ana", note="says so")


def read_labels(store: Store, run_id: str | None = None) -> list[tuple[str, int, str, bool]]:
    labels = [stored_label.label for stored_label in store.labels(run_id)]
    return [(label.case_id, label.repeat, label.by, label.passed) for label in labels]


def test_a_label_comes_back_as_it_was(open_another: Callable[[], Store]) -> None:
    label = replace(ANA, case_id="../../etc/passwd\n\x00🦉", repeat=3, note="ä\n<script>", by="Zoë ' \"")
    stored_label = open_another().add_label(label, held_out=True)
    assert stored_label.label == label
    assert stored_label.held_out
    assert open_another().labels() == [stored_label]


def test_the_newest_label_of_each_person_counts(store: Store) -> None:
    store.add_label(ANA)
    store.add_label(replace(ANA, by="bo"))
    store.add_label(replace(ANA, repeat=1))
    store.add_label(replace(ANA, passed=False))
    assert read_labels(store) == [
        ("plain", 0, "bo", True),
        ("plain", 1, "ana", True),
        ("plain", 0, "ana", False),
    ]
    assert store.count_labelled_answers() == {"r1": 2}


def test_removing_a_label_restores_the_one_before_it(store: Store) -> None:
    first, second = store.add_label(ANA), store.add_label(replace(ANA, passed=False))
    assert store.remove_label(second.number)
    assert store.labels() == [first]
    assert not store.remove_label(second.number)
    assert store.remove_label(first.number)
    assert store.labels() == []
    assert store.count_labelled_answers() == {}
    assert store.add_label(ANA).number > second.number


def test_labels_of_one_run_are_separate_from_those_of_others(store: Store) -> None:
    store.add_label(ANA)
    store.add_label(replace(ANA, run="r2", by="bo"))
    assert read_labels(store, "r2") == [("plain", 0, "bo", True)]
    assert read_labels(store, "r") == []
    assert store.count_labelled_answers() == {"r1": 1, "r2": 1}


def test_labels_outlive_their_run(store: Store, start_run: StartRun) -> None:
    run = start_run("r1")
    stored_label = store.add_label(ANA)
    store.delete_run(run.id)
    assert store.labels("r1") == [stored_label]


@pytest.mark.parametrize("own_store", [True, False])
def test_no_label_is_lost_when_two_people_save_labels_at_once(
    open_another: Callable[[], Store], own_store: bool
) -> None:
    first = open_another()
    stores = [first, open_another() if own_store else first]

    def label(store: Store, by: str) -> None:
        for number in range(40):
            store.add_label(replace(ANA, case_id=f"c{number}", by=by))

    threads = [
        Thread(target=label, args=(store, by)) for store, by in zip(stores, ("ana", "bo"), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_labels(first)) == sorted(
        (f"c{number}", 0, by, True) for number in range(40) for by in ("ana", "bo")
    )
