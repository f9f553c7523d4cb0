"""What every store promises of the words by which runs are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.errors import StoreError
from proctor.protocols import Store

Make = Callable[..., Any]


def test_the_newest_run_with_a_tag_is_found_by_it(
    begun: Make, store: Store, open_another: Callable[[], Store]
) -> None:
    for number in range(4):
        begun(f"run{number}", tags=("other",))
    for name in ("run0", "run2"):
        store.update_run(replace(store.run(name), tags=("größe", "the baseline")))
    assert open_another().run("the baseline").id == "run2"
    assert store.run("größe").id == "run2"
    assert store.run("other").id == "run3"
    store.update_run(replace(store.run("run2"), tags=()))
    assert store.run("the baseline").id == "run0"


def test_an_id_comes_before_last_that_before_a_tag_and_that_before_the_beginning_of_an_id(
    begun: Make, store: Store
) -> None:
    begun("2026-a", tags=("2026", "last", "2026-b"))
    begun("2026-b")
    begun("2026-c")
    assert store.run("2026-b").id == "2026-b"
    assert store.run("last").id == "2026-c"
    assert store.run("2026").id == "2026-a"
    with pytest.raises(StoreError, match="More than one run begins with '202'"):
        store.run("202")


@pytest.mark.parametrize("word", ["base", "Baseline", "baseline ", "%", '"', "$.tags", "[", ""])
def test_a_tag_is_found_whole_and_nothing_else_is(begun: Make, store: Store, word: str) -> None:
    begun("r1", tags=("baseline", 'quo"te'), warnings=("base", "%"))
    assert store.run('quo"te').id == "r1"
    with pytest.raises(StoreError, match="There is no run"):
        store.run(word)


def test_a_tag_that_no_command_gives_hides_no_other(begun: Make, store: Store) -> None:
    begun("r1", tags=("baseline", "\ufdd0"))
    begun("r2", tags=("nul \x00", "\u202e"))
    assert store.run("baseline").id == "r1"
    assert store.run("\u202e").id == "r2"


def test_nothing_is_found_in_a_store_without_runs(store: Store) -> None:
    for word in ("last", "baseline", ""):
        with pytest.raises(StoreError, match="There is no run"):
            store.run(word)
