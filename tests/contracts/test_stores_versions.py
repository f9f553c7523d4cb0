"""What every store promises of the versions of a suite, of earlier answers, and of looks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.codec import sent_digest, target_digest
from proctor.errors import StoreError
from proctor.model import Case, HoldoutAccess, Params, Suite, TargetSpec, Trial, Verdict
from proctor.protocols import PriorAnswer, Store
from support.builders import ECHO, NOON, make_case, make_trial
from support.stores import save_cases

Make = Callable[..., Any]


def _digest(first: str) -> str:
    return "sha256:" + first + "0" * (64 - len(first))


A, B, C = (_digest(letter * 8) for letter in "abc")

# --- versions ----------------------------------------------------------------------------------------------


_numbers = count()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from([A, B, C]), st.booleans()), max_size=8))
def test_versions_are_numbered_by_their_first_saving_and_the_last_that_was_not_aside_is_current(
    store: Store, steps: list[tuple[str, str, bool]]
) -> None:
    prefix = next(_numbers)
    for name in ("x", "y"):
        saved = [(digest, aside) for other, digest, aside in steps if other == name]
        first = list(dict.fromkeys(digest for digest, _ in saved))
        for digest, aside in saved:
            suite = Suite(name=f"{prefix}{name}", dialect="d", digest=digest)
            assert store.open_suite_writer(aside=aside).commit(suite).version == f"v{first.index(digest) + 1}"
        known = store.versions(f"{prefix}{name}")
        assert [one.suite.digest for one in known] == first
        assert sum(one.current for one in known) == bool(saved)
        current, own = store.suite(f"{prefix}{name}"), [digest for digest, aside in saved if not aside]
        assert [one.suite for one in known if one.current] == [current] * bool(saved)
        if own:
            assert current is not None
            assert current.digest == own[-1]


def test_each_name_counts_for_itself_also_over_the_same_cases(store: Store, cases: list[Case]) -> None:
    save_cases(store, cases[:1], digest=B)
    one, two = save_cases(store, cases, digest=A), save_cases(store, cases, digest=A, name="other")
    assert (one.version, two.version) == ("v2", "v1")
    assert one.content == two.content
    assert store.suite("other") == two
    assert [one.suite.name for one in store.versions()] == ["other", "s", "s"]
    assert [one.suite.name for one in store.versions("other")] == ["other"]
    assert store.versions("nobody") == []


def test_a_version_has_the_content_that_was_saved_last(store: Store, cases: list[Case], begun: Make) -> None:
    first = save_cases(store, cases, description="old")
    begun("r", suite=first)
    tagged = [replace(cases[0], tags=("new",)), *cases[1:]]
    second = save_cases(store, tagged, description="new")
    assert (first.version, second.version) == ("v1", "v1")
    assert first.content != second.content
    assert store.suite("s", "v1") == second
    assert [each.case for each in store.cases(second.content)] == tagged
    assert [each.case for each in store.cases(first.content)] == cases  # for the run


def test_suites_of_the_same_cases_under_other_rules_are_versions_apart(
    store: Store, cases: list[Case]
) -> None:
    first, second = save_cases(store, cases, digest=A), save_cases(store, cases, digest=B)
    assert (first.version, second.version) == ("v1", "v2")
    store.delete_version("s", "v1")
    assert len(list(store.cases(second.content))) == 3


def test_when_a_version_was_saved_is_when_that_was_last(store: Store, cases: list[Case]) -> None:
    def at() -> datetime:
        (one,) = store.versions("s")
        return one.saved_at

    before = datetime.now(UTC)
    save_cases(store, cases)
    first = at()
    save_cases(store, cases)
    assert before <= first < at() <= datetime.now(UTC)


def test_saving_the_same_again_leaves_its_cases_alone(store: Store) -> None:
    many = [make_case(str(number)) for number in range(300)]
    assert save_cases(store, many) == save_cases(store, many)
    suite = save_cases(store, many, description="more is known of it")
    assert store.suite("s") == suite
    assert [each.case for each in store.cases(suite.content)] == many


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("v1", "v1"),
        ("v2", "v2"),
        (A, "v1"),
        (A[:15], "v1"),
        (A[7:13], "v1"),
        (B[7:], "v2"),
        (A[7:12], None),
        (C, None),
        ("v3", None),
        ("v0", None),
        ("v01", None),
        ("V1", None),
        ("2", None),
        ("", None),
        ("v%", None),
        ("______", None),
        ("sha256:", None),
        ("v" + "9" * 40, None),
    ],
)
def test_a_version_is_found_by_its_number_and_by_its_digest(
    store: Store, word: str, found: str | None
) -> None:
    for digest in (A, B):
        save_cases(store, [make_case(digest)], digest=digest)
        save_cases(store, [make_case(digest)], digest=C, name="other")
    suite = store.suite("s", word)
    assert (suite and suite.version) == found
    assert store.suite("nobody", word) is None


def test_a_beginning_of_several_digests_names_them(store: Store, cases: list[Case]) -> None:
    save_cases(store, cases, digest=_digest("abcdef12"))
    save_cases(store, cases, digest=_digest("abcdef34"))
    with pytest.raises(StoreError, match=r"'abcdef'.*v1 .*abcdef12.*v2 .*abcdef34"):
        store.suite("s", "abcdef")
    second = store.suite("s", "abcdef3")
    assert second is not None
    assert second.version == "v2"


def test_versions_are_there_for_whoever_opens_the_store_next(
    store: Store, open_another: Callable[[], Store], cases: list[Case]
) -> None:
    save_cases(store, cases, digest=A)
    other = open_another()
    assert save_cases(other, cases[:1], digest=B).version == "v2"
    assert save_cases(store, cases[1:], digest=C).version == "v3"
    assert other.versions() == store.versions()


# --- saved aside -------------------------------------------------------------------------------------------


def _save(store: Store, digest: str, case_id: str, *, aside: bool = False) -> Suite:
    writer = store.open_suite_writer(aside=aside)
    writer.add(make_case(case_id), digest)
    return writer.commit(Suite(name="s", dialect="d", digest=digest))


def test_a_version_that_is_there_keeps_its_content(store: Store) -> None:
    mine = _save(store, A, "mine")
    theirs = _save(store, A, "theirs", aside=True)
    assert theirs.version == mine.version == "v1"
    assert theirs.content != mine.content
    assert store.suite("s") == store.suite("s", "v1") == mine
    assert [stored.case.id for stored in store.cases(theirs.content)] == ["theirs"]


def test_a_version_that_was_forgotten_can_come_back_aside(store: Store) -> None:
    _save(store, A, "mine")
    current = _save(store, B, "other")
    store.delete_version("s", "v1")
    back = _save(store, A, "theirs", aside=True)
    assert store.suite("s", "v1") == back
    assert store.suite("s") == current


# --- forgetting --------------------------------------------------------------------------------------------


def test_a_version_that_is_forgotten_is_gone_and_its_number_with_it(store: Store) -> None:
    first, second = (save_cases(store, [make_case(digest)], digest=digest) for digest in (A, B))
    store.delete_version("s", "v2")
    assert store.suite("s") == first
    assert store.suite("s", "v2") is None
    assert list(store.cases(second.content)) == []
    assert len(list(store.cases(first.content))) == 1
    assert [one.suite.version for one in store.versions("s") if one.current] == ["v1"]
    assert save_cases(store, [make_case(C)], digest=C).version == "v3"


def test_a_forgotten_version_that_is_saved_again_is_itself(store: Store, cases: list[Case]) -> None:
    for digest in (A, B):
        save_cases(store, cases, digest=digest)
    store.delete_version("s", B)
    again = save_cases(store, cases, digest=B)
    assert again.version == "v2"
    assert store.suite("s") == again
    assert len(list(store.cases(again.content))) == 3


def test_a_suite_of_which_all_is_forgotten_is_no_more(store: Store, cases: list[Case]) -> None:
    save_cases(store, cases)
    store.delete_version("s", "v1")
    assert store.suite("s") is None
    assert store.versions() == []


@pytest.mark.parametrize(("name", "version"), [("s", "v2"), ("s", "zz"), ("nobody", "v1")])
def test_forgetting_what_is_not_there_is_an_error(
    store: Store, cases: list[Case], name: str, version: str
) -> None:
    save_cases(store, cases)
    with pytest.raises(StoreError, match=f"no version '{version}' of a suite '{name}'"):
        store.delete_version(name, version)


@pytest.mark.parametrize(("runs", "told"), [(("r1",), "1 run of it is"), (("r1", "r2"), "2 runs of it are")])
def test_a_version_that_runs_have_is_not_forgotten(
    store: Store, cases: list[Case], begun: Make, runs: tuple[str, ...], told: str
) -> None:
    suite = save_cases(store, cases)
    save_cases(store, cases, name="copy")
    for run_id in runs:
        begun(run_id, suite=suite)
    with pytest.raises(StoreError, match=told):
        store.delete_version("s", "v1")
    store.delete_version("copy", "v1")  # which has no run
    assert len(list(store.cases(suite.content))) == 3
    for run_id in runs:
        store.delete_run(run_id)
    store.delete_version("s", "v1")
    assert list(store.cases(suite.content)) == []


# --- earlier answers ---------------------------------------------------------------------------------------


def _found(store: Store, sent: str, target: TargetSpec = ECHO, run: str | None = None) -> list[PriorAnswer]:
    return list(store.find_prior_answers(sent, target_digest(target), run))


def _record(store: Store, run_id: str, *trials: Trial) -> None:
    for made in trials:
        store.save_trial(run_id, made, Verdict.PASS)
    store.flush()


def test_earlier_answers_are_found_by_what_was_sent_newest_run_first(
    store: Store, cases: list[Case], begun: Make
) -> None:
    suites = [save_cases(store, cases), save_cases(store, [replace(cases[1], category="new")], digest=A)]
    first = replace(make_trial("two"), position=1, case_id=cases[1].id)
    begun("old", suite=suites[0])
    _record(store, "old", replace(make_trial("one"), position=0), first, replace(first, repeat=1))
    begun("new", suite=suites[1])
    again = replace(make_trial("three"), position=0, case_id=cases[1].id)
    store.save_output("new", again)
    store.flush()
    found = _found(store, sent_digest(cases[1]))
    assert [(one.run, one.trial, one.verdict) for one in found] == [
        ("new", again, None),
        ("old", first, Verdict.PASS),
        ("old", replace(first, repeat=1), Verdict.PASS),
    ]
    assert [one.case.category for one in found] == ["new", None, None]
    assert _found(store, sent_digest(make_case("unasked", "Why?"))) == []
    assert _found(store, _digest("ee")) == []


def test_no_answer_of_another_target_and_no_failure_is_an_earlier_answer(
    store: Store, cases: list[Case], begun: Make
) -> None:
    hot = replace(ECHO, params=Params(temperature=1.0))
    begun("hot", target=hot)
    begun("failed")
    _record(store, "hot", make_trial("warm"))
    _record(store, "failed", make_trial(None))
    sent = sent_digest(cases[0])
    assert _found(store, sent) == []
    assert [one.run for one in _found(store, sent, hot)] == ["hot"]


def test_a_deleted_runs_answers_are_found_no_more_and_copies_of_them_are(
    store: Store, cases: list[Case], begun: Make
) -> None:
    begun("a")
    begun("b")
    _record(store, "a", make_trial("x"))
    _record(store, "b", make_trial("x", source_run="a"))
    store.delete_run("a")
    found = _found(store, sent_digest(cases[0]))
    assert [(one.run, one.trial.source_run) for one in found] == [("b", "a")]


def test_the_answers_of_one_run_can_be_had_alone(store: Store, cases: list[Case], begun: Make) -> None:
    for run_id in ("a", "b", "c"):
        begun(run_id)
        _record(store, run_id, make_trial(run_id))
    assert [one.run for one in _found(store, sent_digest(cases[0]), run="b")] == ["b"]
    assert _found(store, sent_digest(cases[0]), run="nobody") == []


def test_a_store_can_be_written_while_earlier_answers_are_read(
    store: Store, cases: list[Case], begun: Make
) -> None:
    for run_id in ("old", "gone", "new"):
        begun(run_id)
        _record(store, run_id, *(make_trial(run_id, repeat=repeat) for repeat in range(3)))
    found = store.find_prior_answers(sent_digest(cases[0]), target_digest(ECHO))
    assert next(found).run == "new"
    store.delete_run("gone")
    begun("newest")
    assert [one.run for one in found] == ["new"] * 2 + ["old"] * 3


# --- looks -------------------------------------------------------------------------------------------------


def test_looks_are_kept_oldest_first_and_outlive_their_runs(
    store: Store, begun: Make, open_another: Callable[[], Store]
) -> None:
    begun("r1")
    first = HoldoutAccess(suite=A, run="r1", kind="rate", at=NOON)
    looks = [first, replace(first, kind="reveal"), replace(first, at=NOON - timedelta(days=1)), first]
    for look in looks:
        store.add_holdout_access(look)
    store.add_holdout_access(replace(first, suite=B))
    store.delete_run("r1")
    assert open_another().holdout_accesses(A) == looks
    assert len(store.holdout_accesses(B)) == 1
    assert store.holdout_accesses(C) == []


# --- names of files ----------------------------------------------------------------------------------------


def test_a_name_is_one_files_and_a_file_may_have_several(store: Store, tmp_path: Path) -> None:
    first, second = (str(tmp_path / name / "tests.jsonl") for name in ("a", "b\udcff"))
    assert (store.path_for_name("s"), store.names_for_path(first)) == (None, [])
    for name in ("s", "t"):
        store.claim_name(name, first)
    assert (store.path_for_name("s"), sorted(store.names_for_path(first))) == (first, ["s", "t"])
    store.claim_name("s", second)
    assert (store.path_for_name("s"), store.names_for_path(first), store.names_for_path(second)) == (
        second,
        ["t"],
        ["s"],
    )


@pytest.mark.parametrize("count", [1, 1500])
def test_a_name_that_is_chosen_while_a_suite_is_saved_is_kept_with_it_or_not_at_all(
    store: Store, tmp_path: Path, count: int
) -> None:
    path = str(tmp_path / "tests.jsonl")

    def save(name: str, *, wrong: bool = False) -> Suite:
        def choose(_suite: Suite) -> str:
            store.claim_name(name, path)
            if wrong:
                raise ValueError(name)
            return name

        writer = store.open_suite_writer(name=choose)
        for number in range(count):
            writer.add(make_case(f"c{number}"), A)
        return writer.commit(Suite(name="s", dialect="meridian", digest=A))

    with pytest.raises(ValueError, match="chosen"):
        save("chosen", wrong=True)
    assert (store.path_for_name("chosen"), store.versions()) == (None, [])
    assert save("chosen").title == "chosen v1"
    assert save("other").title == "other v1"  # whose content is there already
    assert sorted(store.names_for_path(path)) == ["chosen", "other"]
