"""What every store promises."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.codec import sent_digest, settings_digest, target_digest
from proctor.errors import StoreError
from proctor.model import (
    Case,
    Params,
    Selection,
    Settings,
    SplitRule,
    Suite,
    TargetSpec,
    Verdict,
)
from proctor.protocols import Store
from support.builders import make_trial
from support.stores import save_cases

Make = Callable[..., Any]
DIGEST = "sha256:" + "ab" * 32


# --- suites ------------------------------------------------------------------------------------------------


def test_cases_come_back_as_they_were_and_in_their_order(store: Store, cases: list[Case]) -> None:
    many = cases + [replace(cases[0], id=f"c{number}") for number in range(300)]
    suite = save_cases(store, many)
    kept = list(store.cases(suite.content))
    assert [each.case for each in kept] == many
    assert [each.sent_digest for each in kept] == [sent_digest(each) for each in many]


def test_a_suite_is_found_by_the_name_under_which_it_was_last_saved(store: Store, cases: list[Case]) -> None:
    save_cases(store, cases, declared_version="1")
    second = save_cases(store, cases[:1], declared_version="2", split_rule=SplitRule())
    save_cases(store, cases[1:], name="other")
    assert store.suite("s") == second
    assert store.suite("nobody") is None


def test_the_same_content_is_the_same_and_any_other_is_not(store: Store, cases: list[Case]) -> None:
    content = save_cases(store, cases).content
    assert save_cases(store, cases).content == content
    tagged = [replace(cases[0], tags=("new",)), *cases[1:]]
    others = [save_cases(store, other).content for other in (cases[::-1], cases[:2], tagged)]
    assert len({content, *others}) == 4


@pytest.mark.parametrize("kept_first", [False, True])
def test_what_is_dropped_is_forgotten_and_what_was_kept_stays(
    store: Store, cases: list[Case], kept_first: bool
) -> None:
    kept = save_cases(store, cases) if kept_first else None
    writer = store.open_suite_writer()
    writer.add(replace(cases[0], id="gone"), DIGEST)
    writer.discard()
    writer.discard()
    assert store.suite("s") == kept
    again = save_cases(store, cases)  # nothing is in the way of the next
    assert len(list(store.cases(again.content))) == 3


def test_nothing_of_a_suite_is_there_before_it_is_kept(
    store: Store, open_another: Callable[[], Store], cases: list[Case]
) -> None:
    other = open_another()
    writer = store.open_suite_writer()
    for number in range(1500):
        writer.add(replace(cases[0], id=str(number)), DIGEST)
    assert other.suite("s") is None
    writer.commit(Suite(name="s", dialect="d", digest=DIGEST))
    assert other.suite("s") is not None


def test_an_empty_suite_can_be_kept(store: Store) -> None:
    assert list(store.cases(save_cases(store, []).content)) == []


# --- runs --------------------------------------------------------------------------------------------------


def test_a_run_comes_back_as_it_was(begun: Make, open_another: Callable[[], Store]) -> None:
    run = begun(
        "20260301-120000-abcdef",
        target=TargetSpec(
            name="n", kind="openai", model="m", endpoint="http://h/v1", params=Params(temperature=None)
        ),
        judges=(TargetSpec(name="j", kind="echo"),),
        settings=Settings(selection=Selection(tags=("a",), limit=3), threshold=0.5),
        versions={"proctor": "0"},
        warnings=("eins", "zwei"),
    )
    assert open_another().run(run.id) == run


def test_a_later_state_takes_the_place_of_the_earlier(
    store: Store, begun: Make, open_another: Callable[[], Store]
) -> None:
    run = begun()
    later = replace(run, status="finished", finished_at=run.started_at + timedelta(seconds=5), tags=("x",))
    store.update_run(later)
    assert [open_another().run("r1"), *store.runs()] == [later, later]


def test_runs_come_newest_first(store: Store, begun: Make) -> None:
    for number in range(12):
        begun(f"run{number}")
    assert [run.id for run in store.runs()] == [f"run{number}" for number in reversed(range(12))]


def test_runs_can_be_deleted_while_they_are_listed(store: Store, begun: Make) -> None:
    for number in range(4):
        begun(f"run{number}")
    seen = []
    for run in store.runs():
        seen.append(run.id)
        store.delete_run(run.id)
    assert len(seen) == 4
    assert list(store.runs()) == []


@pytest.mark.parametrize(
    ("word", "found"),
    [("abc1", "abc1"), ("abc", "abc"), ("abd", "abd2"), ("a_c", None), ("ab%", None), ("", None)],
)
def test_the_beginning_of_an_id_is_enough_when_it_is_of_one_run(
    store: Store, begun: Make, word: str, found: str | None
) -> None:
    for run_id in ("abc", "abc1", "abd2", "xyz"):
        begun(run_id)
    if found is not None:
        assert store.run(word).id == found
    else:
        with pytest.raises(StoreError, match="There is no run"):
            store.run(word)


def test_the_beginning_of_several_ids_names_them(store: Store, begun: Make) -> None:
    begun("abc1")
    begun("abc2")
    with pytest.raises(StoreError, match=r"'ab'.*abc\d, abc\d"):
        store.run("ab")


def test_the_runs_of_a_suite_target_and_settings_are_found_newest_first(store: Store, begun: Make) -> None:
    fits = begun("old")
    begun("newer", status="interrupted")
    begun("finished", status="finished")
    begun("other-target", target=TargetSpec(name="echo", kind="echo", params=Params(temperature=1.0)))
    begun("other-selection", settings=Settings(selection=Selection(limit=1)))
    begun("other-repeats", settings=Settings(repeats=2))
    begun("other-concurrency-is-no-matter", settings=Settings(concurrency=1), status="finished")
    digests = (
        fits.suite.digest,
        target_digest(fits.target),
        settings_digest((fits.settings.selection, fits.settings.repeats)),
    )
    assert [(run.id, run.status) for run in store.find_equivalent_runs(*digests)] == [
        ("other-concurrency-is-no-matter", "finished"),
        ("finished", "finished"),
        ("newer", "interrupted"),
        ("old", "running"),
    ]
    for place in range(3):
        others = [*digests]
        others[place] = DIGEST[:-1] + "0"
        assert store.find_equivalent_runs(*others) == []


# --- forgetting --------------------------------------------------------------------------------------------


def test_deleting_a_run_forgets_its_trials_and_no_others(store: Store, begun: Make) -> None:
    begun("a")
    begun("b")
    for run_id in ("a", "b"):
        store.save_trial(run_id, make_trial("x"), Verdict.PASS)
    store.flush()
    store.delete_run("a")
    with pytest.raises(StoreError, match="There is no run 'a'"):
        store.run("a")
    assert [run.id for run in store.runs()] == ["b"]
    assert store.count_verdicts("b") == {Verdict.PASS: 1}


def test_a_suite_stays_without_its_runs(store: Store, begun: Make, cases: list[Case]) -> None:
    shared = begun("a").suite
    begun("b")
    store.delete_run("a")
    store.delete_run("b")
    assert store.suite("s") == shared
    assert [each.case for each in store.cases(shared.content)] == cases


def test_an_older_content_of_a_version_goes_with_the_last_run_that_has_it(
    store: Store, begun: Make, cases: list[Case]
) -> None:
    older = begun("a").suite
    begun("b")
    newer = save_cases(store, cases[::-1])
    half = save_cases(store, cases[:1], name="half")
    store.delete_run("a")
    assert len(list(store.cases(older.content))) == 3
    store.delete_run("b")
    assert list(store.cases(older.content)) == []
    assert [each.case for each in store.cases(newer.content)] == cases[::-1]
    assert [each.case for each in store.cases(half.content)] == cases[:1]


def test_a_run_of_cases_that_are_gone_cannot_begin(store: Store, begun: Make, cases: list[Case]) -> None:
    older = save_cases(store, cases[:1])
    save_cases(store, cases)
    begun("other")
    store.delete_run("other")  # nothing has the older content any more
    with pytest.raises(StoreError, match="removed"):
        begun("late", suite=older)
    assert list(store.runs()) == []


def test_deleting_forgets_what_was_handed_over_just_before(store: Store, begun: Make) -> None:
    begun("a")
    for position in range(100):
        store.save_trial("a", make_trial("old", position=position), Verdict.PASS)
    store.delete_run("a")
    store.flush()
    begun("a")
    assert store.count_verdicts("a") == {}


def test_what_is_written_for_a_run_that_another_has_deleted_never_becomes_another_runs(
    store: Store, begun: Make, open_another: Callable[[], Store]
) -> None:
    begun("a")
    store.save_trial("a", make_trial("of a"), Verdict.PASS)
    store.flush()
    open_another().delete_run("a")
    begun("b")
    store.save_trial("a", make_trial("of a", position=1), Verdict.PASS)
    store.save_trial("b", make_trial("of b", position=1), Verdict.FAIL)
    store.flush()
    assert [each.trial.output.text for each in store.trials("b")] == ["of b"]  # type: ignore[union-attr]


def test_deleting_what_is_not_there_is_an_error(store: Store) -> None:
    with pytest.raises(StoreError, match="There is no run 'r9'"):
        store.delete_run("r9")
