"""What every store does with suites and runs."""

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

StartRun = Callable[..., Any]
DIGEST = "sha256:" + "ab" * 32


# --- suites ------------------------------------------------------------------------------------------------


def test_cases_are_read_unchanged_and_in_order(store: Store, cases: list[Case]) -> None:
    many = cases + [replace(cases[0], id=f"c{number}") for number in range(300)]
    suite = save_cases(store, many)
    stored_cases = list(store.cases(suite.content))
    assert [stored_case.case for stored_case in stored_cases] == many
    assert [stored_case.sent_digest for stored_case in stored_cases] == [sent_digest(case) for case in many]


def test_a_suite_is_found_by_the_name_under_which_it_was_last_saved(store: Store, cases: list[Case]) -> None:
    save_cases(store, cases, declared_version="1")
    second = save_cases(store, cases[:1], declared_version="2", split_rule=SplitRule())
    save_cases(store, cases[1:], name="other")
    assert store.suite("s") == second
    assert store.suite("nobody") is None


def test_equal_cases_have_equal_content_digests_and_other_cases_have_others(
    store: Store, cases: list[Case]
) -> None:
    content = save_cases(store, cases).content
    assert save_cases(store, cases).content == content
    tagged = [replace(cases[0], tags=("new",)), *cases[1:]]
    others = [save_cases(store, other).content for other in (cases[::-1], cases[:2], tagged)]
    assert len({content, *others}) == 4


@pytest.mark.parametrize("has_earlier_suite", [False, True])
def test_a_discarded_suite_leaves_nothing_and_the_earlier_suite_stays(
    store: Store, cases: list[Case], has_earlier_suite: bool
) -> None:
    earlier_suite = save_cases(store, cases) if has_earlier_suite else None
    writer = store.open_suite_writer()
    writer.add(replace(cases[0], id="gone"), DIGEST)
    writer.discard()
    writer.discard()
    assert store.suite("s") == earlier_suite
    again = save_cases(store, cases)  # nothing prevents the next save
    assert len(list(store.cases(again.content))) == 3


def test_a_suite_is_not_visible_before_it_is_committed(
    store: Store, open_another: Callable[[], Store], cases: list[Case]
) -> None:
    other = open_another()
    writer = store.open_suite_writer()
    for number in range(1500):
        writer.add(replace(cases[0], id=str(number)), DIGEST)
    assert other.suite("s") is None
    writer.commit(Suite(name="s", dialect="d", digest=DIGEST))
    assert other.suite("s") is not None


def test_an_empty_suite_can_be_saved(store: Store) -> None:
    assert list(store.cases(save_cases(store, []).content)) == []


# --- runs --------------------------------------------------------------------------------------------------


def test_a_run_comes_back_as_it_was(start_run: StartRun, open_another: Callable[[], Store]) -> None:
    run = start_run(
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
    store: Store, start_run: StartRun, open_another: Callable[[], Store]
) -> None:
    run = start_run()
    later = replace(run, status="finished", finished_at=run.started_at + timedelta(seconds=5), tags=("x",))
    store.update_run(later)
    assert [open_another().run("r1"), *store.runs()] == [later, later]


def test_runs_come_newest_first(store: Store, start_run: StartRun) -> None:
    for number in range(12):
        start_run(f"run{number}")
    assert [run.id for run in store.runs()] == [f"run{number}" for number in reversed(range(12))]


def test_runs_can_be_deleted_while_they_are_listed(store: Store, start_run: StartRun) -> None:
    for number in range(4):
        start_run(f"run{number}")
    run_ids = []
    for run in store.runs():
        run_ids.append(run.id)
        store.delete_run(run.id)
    assert len(run_ids) == 4
    assert list(store.runs()) == []


@pytest.mark.parametrize(
    ("word", "expected_id"),
    [("abc1", "abc1"), ("abc", "abc"), ("abd", "abd2"), ("a_c", None), ("ab%", None), ("", None)],
)
def test_a_run_is_found_by_the_beginning_of_its_id_if_that_is_unique(
    store: Store, start_run: StartRun, word: str, expected_id: str | None
) -> None:
    for run_id in ("abc", "abc1", "abd2", "xyz"):
        start_run(run_id)
    if expected_id is not None:
        assert store.run(word).id == expected_id
    else:
        with pytest.raises(StoreError, match="There is no run"):
            store.run(word)


def test_the_beginning_of_several_ids_is_an_error_that_names_the_runs(
    store: Store, start_run: StartRun
) -> None:
    start_run("abc1")
    start_run("abc2")
    with pytest.raises(StoreError, match=r"'ab'.*abc\d, abc\d"):
        store.run("ab")


def test_the_runs_of_a_suite_target_and_settings_are_found_newest_first(
    store: Store, start_run: StartRun
) -> None:
    fits = start_run("old")
    start_run("newer", status="interrupted")
    start_run("finished", status="finished")
    start_run("other-target", target=TargetSpec(name="echo", kind="echo", params=Params(temperature=1.0)))
    start_run("other-selection", settings=Settings(selection=Selection(limit=1)))
    start_run("other-repeats", settings=Settings(repeats=2))
    start_run("other-concurrency-is-no-matter", settings=Settings(concurrency=1), status="finished")
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


def test_deleting_a_run_forgets_its_trials_and_no_others(store: Store, start_run: StartRun) -> None:
    start_run("a")
    start_run("b")
    for run_id in ("a", "b"):
        store.save_trial(run_id, make_trial("x"), Verdict.PASS)
    store.flush()
    store.delete_run("a")
    with pytest.raises(StoreError, match="There is no run 'a'"):
        store.run("a")
    assert [run.id for run in store.runs()] == ["b"]
    assert store.count_verdicts("b") == {Verdict.PASS: 1}


def test_a_suite_stays_without_its_runs(store: Store, start_run: StartRun, cases: list[Case]) -> None:
    shared = start_run("a").suite
    start_run("b")
    store.delete_run("a")
    store.delete_run("b")
    assert store.suite("s") == shared
    assert [stored_case.case for stored_case in store.cases(shared.content)] == cases


def test_an_older_content_of_a_version_is_deleted_with_its_last_run(
    store: Store, start_run: StartRun, cases: list[Case]
) -> None:
    older = start_run("a").suite
    start_run("b")
    newer = save_cases(store, cases[::-1])
    half = save_cases(store, cases[:1], name="half")
    store.delete_run("a")
    assert len(list(store.cases(older.content))) == 3
    store.delete_run("b")
    assert list(store.cases(older.content)) == []
    assert [stored_case.case for stored_case in store.cases(newer.content)] == cases[::-1]
    assert [stored_case.case for stored_case in store.cases(half.content)] == cases[:1]


def test_a_run_cannot_begin_if_its_cases_are_deleted(
    store: Store, start_run: StartRun, cases: list[Case]
) -> None:
    older = save_cases(store, cases[:1])
    save_cases(store, cases)
    start_run("other")
    store.delete_run("other")  # no run has the older content any more
    with pytest.raises(StoreError, match="removed"):
        start_run("late", suite=older)
    assert list(store.runs()) == []


def test_deleting_a_run_drops_its_trials_that_are_not_written_yet(store: Store, start_run: StartRun) -> None:
    start_run("a")
    for position in range(100):
        store.save_trial("a", make_trial("old", position=position), Verdict.PASS)
    store.delete_run("a")
    store.flush()
    start_run("a")
    assert store.count_verdicts("a") == {}


def test_a_trial_of_a_run_deleted_by_another_process_is_not_saved_to_another_run(
    store: Store, start_run: StartRun, open_another: Callable[[], Store]
) -> None:
    start_run("a")
    store.save_trial("a", make_trial("of a"), Verdict.PASS)
    store.flush()
    open_another().delete_run("a")
    start_run("b")
    store.save_trial("a", make_trial("of a", position=1), Verdict.PASS)
    store.save_trial("b", make_trial("of b", position=1), Verdict.FAIL)
    store.flush()
    assert [stored_trial.trial.output.text for stored_trial in store.trials("b")] == ["of b"]  # type: ignore[union-attr]


def test_deleting_an_unknown_run_is_an_error(store: Store) -> None:
    with pytest.raises(StoreError, match="There is no run 'r9'"):
        store.delete_run("r9")
