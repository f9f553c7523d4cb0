"""How every store finds runs by id, `last` and tags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.errors import StoreError
from proctor.protocols import Store

StartRun = Callable[..., Any]


def test_the_newest_run_with_a_tag_is_found_by_it(
    start_run: StartRun, store: Store, open_another: Callable[[], Store]
) -> None:
    for number in range(4):
        start_run(f"run{number}", tags=("other",))
    for name in ("run0", "run2"):
        store.update_run(replace(store.run(name), tags=("größe", "the baseline")))
    assert open_another().run("the baseline").id == "run2"
    assert store.run("größe").id == "run2"
    assert store.run("other").id == "run3"
    store.update_run(replace(store.run("run2"), tags=()))
    assert store.run("the baseline").id == "run0"


def test_a_run_is_looked_up_by_id_then_last_then_tag_then_beginning_of_id(
    start_run: StartRun, store: Store
) -> None:
    start_run("2026-a", tags=("2026", "last", "2026-b"))
    start_run("2026-b")
    start_run("2026-c")
    assert store.run("2026-b").id == "2026-b"
    assert store.run("last").id == "2026-c"
    assert store.run("2026").id == "2026-a"
    with pytest.raises(StoreError, match="More than one run begins with '202'"):
        store.run("202")


@pytest.mark.parametrize("word", ["base", "Baseline", "baseline ", "%", '"', "$.tags", "[", ""])
def test_only_a_whole_tag_matches(start_run: StartRun, store: Store, word: str) -> None:
    start_run("r1", tags=("baseline", 'quo"te'), warnings=("base", "%"))
    assert store.run('quo"te').id == "r1"
    with pytest.raises(StoreError, match="There is no run"):
        store.run(word)


def test_a_tag_with_unusual_characters_hides_no_other_tag(start_run: StartRun, store: Store) -> None:
    start_run("r1", tags=("baseline", "\ufdd0"))
    start_run("r2", tags=("nul \x00", "\u202e"))
    assert store.run("baseline").id == "r1"
    assert store.run("\u202e").id == "r2"


def test_no_run_is_found_in_a_store_without_runs(store: Store) -> None:
    for word in ("last", "baseline", ""):
        with pytest.raises(StoreError, match="There is no run"):
            store.run(word)
