"""What every store promises of the labels of people."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.model import Label
from proctor.protocols import Store

Make = Callable[..., Any]
ANA = Label(run="r1", case_id="plain", passed=True, by="ana", note="says so")


def _said(store: Store, run_id: str | None = None) -> list[tuple[str, int, str, bool]]:
    labels = [kept.label for kept in store.labels(run_id)]
    return [(label.case_id, label.repeat, label.by, label.passed) for label in labels]


def test_a_label_comes_back_as_it_was(open_another: Callable[[], Store]) -> None:
    label = replace(ANA, case_id="../../etc/passwd\n\x00🦉", repeat=3, note="ä\n<script>", by="Zoë ' \"")
    kept = open_another().add_label(label, held_out=True)
    assert kept.label == label
    assert kept.held_out
    assert open_another().labels() == [kept]


def test_of_one_answer_the_newest_label_of_each_person_counts(store: Store) -> None:
    store.add_label(ANA)
    store.add_label(replace(ANA, by="bo"))
    store.add_label(replace(ANA, repeat=1))
    store.add_label(replace(ANA, passed=False))
    assert _said(store) == [
        ("plain", 0, "bo", True),
        ("plain", 1, "ana", True),
        ("plain", 0, "ana", False),
    ]
    assert store.count_labelled_answers() == {"r1": 2}


def test_a_label_that_is_taken_back_gives_way_to_the_one_before_it(store: Store) -> None:
    first, second = store.add_label(ANA), store.add_label(replace(ANA, passed=False))
    assert store.remove_label(second.number)
    assert store.labels() == [first]
    assert not store.remove_label(second.number)
    assert store.remove_label(first.number)
    assert store.labels() == []
    assert store.count_labelled_answers() == {}
    assert store.add_label(ANA).number > second.number


def test_labels_of_one_run_are_told_apart_from_those_of_others(store: Store) -> None:
    store.add_label(ANA)
    store.add_label(replace(ANA, run="r2", by="bo"))
    assert _said(store, "r2") == [("plain", 0, "bo", True)]
    assert _said(store, "r") == []
    assert store.count_labelled_answers() == {"r1": 1, "r2": 1}


def test_labels_outlive_their_run(store: Store, begun: Make) -> None:
    run = begun("r1")
    kept = store.add_label(ANA)
    store.delete_run(run.id)
    assert store.labels("r1") == [kept]


@pytest.mark.parametrize("own_store", [True, False])
def test_two_people_at_once_lose_nothing(open_another: Callable[[], Store], own_store: bool) -> None:
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
    assert sorted(_said(first)) == sorted(
        (f"c{number}", 0, by, True) for number in range(40) for by in ("ana", "bo")
    )
