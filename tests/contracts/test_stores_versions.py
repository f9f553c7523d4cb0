"""What every store does with versions of a suite, earlier answers, and accesses to held-out cases."""

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

StartRun = Callable[..., Any]


def _digest(first: str) -> str:
    return "sha256:" + first + "0" * (64 - len(first))


A, B, C = (_digest(letter * 8) for letter in "abc")

# --- versions ----------------------------------------------------------------------------------------------


_numbers = count()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from([A, B, C]), st.booleans()), max_size=8))
def test_versions_are_numbered_by_first_save_and_the_last_one_not_saved_aside_is_current(
    store: Store, steps: list[tuple[str, str, bool]]
) -> None:
    prefix = next(_numbers)
    for name in ("x", "y"):
        saved = [(digest, is_aside) for other, digest, is_aside in steps if other == name]
        first = list(dict.fromkeys(digest for digest, _ in saved))
        for digest, is_aside in saved:
            suite = Suite(name=f"{prefix}{name}", dialect="d", digest=digest)
            assert (
                store.open_suite_writer(aside=is_aside).commit(suite).version == f"v{first.index(digest) + 1}"
            )
        versions = store.versions(f"{prefix}{name}")
        assert [version.suite.digest for version in versions] == first
        assert sum(version.current for version in versions) == bool(saved)
        current, own = store.suite(f"{prefix}{name}"), [digest for digest, is_aside in saved if not is_aside]
        assert [version.suite for version in versions if version.current] == [current] * bool(saved)
        if own:
            assert current is not None
            assert current.digest == own[-1]


def test_versions_of_each_name_are_numbered_separately(store: Store, cases: list[Case]) -> None:
    save_cases(store, cases[:1], digest=B)
    first, other = save_cases(store, cases, digest=A), save_cases(store, cases, digest=A, name="other")
    assert (first.version, other.version) == ("v2", "v1")
    assert first.content == other.content
    assert store.suite("other") == other
    assert [version.suite.name for version in store.versions()] == ["other", "s", "s"]
    assert [version.suite.name for version in store.versions("other")] == ["other"]
    assert store.versions("nobody") == []


def test_a_version_has_the_content_that_was_saved_last(
    store: Store, cases: list[Case], start_run: StartRun
) -> None:
    first = save_cases(store, cases, description="old")
    start_run("r", suite=first)
    tagged = [replace(cases[0], tags=("new",)), *cases[1:]]
    second = save_cases(store, tagged, description="new")
    assert (first.version, second.version) == ("v1", "v1")
    assert first.content != second.content
    assert store.suite("s", "v1") == second
    assert [stored_case.case for stored_case in store.cases(second.content)] == tagged
    assert [stored_case.case for stored_case in store.cases(first.content)] == cases  # for the run


def test_suites_of_the_same_cases_under_other_rules_are_versions_apart(
    store: Store, cases: list[Case]
) -> None:
    first, second = save_cases(store, cases, digest=A), save_cases(store, cases, digest=B)
    assert (first.version, second.version) == ("v1", "v2")
    store.delete_version("s", "v1")
    assert len(list(store.cases(second.content))) == 3


def test_saved_at_is_the_time_of_the_last_save(store: Store, cases: list[Case]) -> None:
    def read_saved_at() -> datetime:
        (version,) = store.versions("s")
        return version.saved_at

    before = datetime.now(UTC)
    save_cases(store, cases)
    first = read_saved_at()
    save_cases(store, cases)
    assert before <= first < read_saved_at() <= datetime.now(UTC)


def test_saving_equal_cases_again_does_not_change_them(store: Store) -> None:
    many = [make_case(str(number)) for number in range(300)]
    assert save_cases(store, many) == save_cases(store, many)
    suite = save_cases(store, many, description="more is known of it")
    assert store.suite("s") == suite
    assert [stored_case.case for stored_case in store.cases(suite.content)] == many


@pytest.mark.parametrize(
    ("word", "expected_version"),
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
    store: Store, word: str, expected_version: str | None
) -> None:
    for digest in (A, B):
        save_cases(store, [make_case(digest)], digest=digest)
        save_cases(store, [make_case(digest)], digest=C, name="other")
    suite = store.suite("s", word)
    assert (suite and suite.version) == expected_version
    assert store.suite("nobody", word) is None


def test_the_beginning_of_several_digests_is_an_error_that_names_the_versions(
    store: Store, cases: list[Case]
) -> None:
    save_cases(store, cases, digest=_digest("abcdef12"))
    save_cases(store, cases, digest=_digest("abcdef34"))
    with pytest.raises(StoreError, match=r"'abcdef'.*v1 .*abcdef12.*v2 .*abcdef34"):
        store.suite("s", "abcdef")
    second = store.suite("s", "abcdef3")
    assert second is not None
    assert second.version == "v2"


def test_versions_are_shared_by_all_that_open_the_store(
    store: Store, open_another: Callable[[], Store], cases: list[Case]
) -> None:
    save_cases(store, cases, digest=A)
    other = open_another()
    assert save_cases(other, cases[:1], digest=B).version == "v2"
    assert save_cases(store, cases[1:], digest=C).version == "v3"
    assert other.versions() == store.versions()


# --- saved aside -------------------------------------------------------------------------------------------


def _save(store: Store, digest: str, case_id: str, *, is_aside: bool = False) -> Suite:
    writer = store.open_suite_writer(aside=is_aside)
    writer.add(make_case(case_id), digest)
    return writer.commit(Suite(name="s", dialect="d", digest=digest))


def test_saving_aside_does_not_replace_the_content_of_a_version(store: Store) -> None:
    mine = _save(store, A, "mine")
    theirs = _save(store, A, "theirs", is_aside=True)
    assert theirs.version == mine.version == "v1"
    assert theirs.content != mine.content
    assert store.suite("s") == store.suite("s", "v1") == mine
    assert [stored_case.case.id for stored_case in store.cases(theirs.content)] == ["theirs"]


def test_a_deleted_version_can_be_saved_again_aside(store: Store) -> None:
    _save(store, A, "mine")
    current = _save(store, B, "other")
    store.delete_version("s", "v1")
    back = _save(store, A, "theirs", is_aside=True)
    assert store.suite("s", "v1") == back
    assert store.suite("s") == current


# --- forgetting --------------------------------------------------------------------------------------------


def test_a_deleted_version_is_gone_and_its_number_is_not_used_again(store: Store) -> None:
    first, second = (save_cases(store, [make_case(digest)], digest=digest) for digest in (A, B))
    store.delete_version("s", "v2")
    assert store.suite("s") == first
    assert store.suite("s", "v2") is None
    assert list(store.cases(second.content)) == []
    assert len(list(store.cases(first.content))) == 1
    assert [version.suite.version for version in store.versions("s") if version.current] == ["v1"]
    assert save_cases(store, [make_case(C)], digest=C).version == "v3"


def test_a_deleted_version_that_is_saved_again_has_its_old_number(store: Store, cases: list[Case]) -> None:
    for digest in (A, B):
        save_cases(store, cases, digest=digest)
    store.delete_version("s", B)
    again = save_cases(store, cases, digest=B)
    assert again.version == "v2"
    assert store.suite("s") == again
    assert len(list(store.cases(again.content))) == 3


def test_a_suite_without_versions_does_not_exist(store: Store, cases: list[Case]) -> None:
    save_cases(store, cases)
    store.delete_version("s", "v1")
    assert store.suite("s") is None
    assert store.versions() == []


@pytest.mark.parametrize(("name", "version"), [("s", "v2"), ("s", "zz"), ("nobody", "v1")])
def test_deleting_an_unknown_version_is_an_error(
    store: Store, cases: list[Case], name: str, version: str
) -> None:
    save_cases(store, cases)
    with pytest.raises(StoreError, match=f"no version '{version}' of a suite '{name}'"):
        store.delete_version(name, version)


@pytest.mark.parametrize(
    ("runs", "message"), [(("r1",), "1 run of it is"), (("r1", "r2"), "2 runs of it are")]
)
def test_a_version_that_runs_have_cannot_be_deleted(
    store: Store, cases: list[Case], start_run: StartRun, runs: tuple[str, ...], message: str
) -> None:
    suite = save_cases(store, cases)
    save_cases(store, cases, name="copy")
    for run_id in runs:
        start_run(run_id, suite=suite)
    with pytest.raises(StoreError, match=message):
        store.delete_version("s", "v1")
    store.delete_version("copy", "v1")  # it has no run
    assert len(list(store.cases(suite.content))) == 3
    for run_id in runs:
        store.delete_run(run_id)
    store.delete_version("s", "v1")
    assert list(store.cases(suite.content)) == []


# --- earlier answers ---------------------------------------------------------------------------------------


def _find_answers(
    store: Store, digest: str, target: TargetSpec = ECHO, run: str | None = None
) -> list[PriorAnswer]:
    return list(store.find_prior_answers(digest, target_digest(target), run))


def _record(store: Store, run_id: str, *trials: Trial) -> None:
    for trial in trials:
        store.save_trial(run_id, trial, Verdict.PASS)
    store.flush()


def test_earlier_answers_are_found_by_what_was_sent_newest_run_first(
    store: Store, cases: list[Case], start_run: StartRun
) -> None:
    suites = [save_cases(store, cases), save_cases(store, [replace(cases[1], category="new")], digest=A)]
    first = replace(make_trial("two"), position=1, case_id=cases[1].id)
    start_run("old", suite=suites[0])
    _record(store, "old", replace(make_trial("one"), position=0), first, replace(first, repeat=1))
    start_run("new", suite=suites[1])
    again = replace(make_trial("three"), position=0, case_id=cases[1].id)
    store.save_output("new", again)
    store.flush()
    answers = _find_answers(store, sent_digest(cases[1]))
    assert [(answer.run, answer.trial, answer.verdict) for answer in answers] == [
        ("new", again, None),
        ("old", first, Verdict.PASS),
        ("old", replace(first, repeat=1), Verdict.PASS),
    ]
    assert [answer.case.category for answer in answers] == ["new", None, None]
    assert _find_answers(store, sent_digest(make_case("unasked", "Why?"))) == []
    assert _find_answers(store, _digest("ee")) == []


def test_no_answer_of_another_target_and_no_failure_is_an_earlier_answer(
    store: Store, cases: list[Case], start_run: StartRun
) -> None:
    hot = replace(ECHO, params=Params(temperature=1.0))
    start_run("hot", target=hot)
    start_run("failed")
    _record(store, "hot", make_trial("warm"))
    _record(store, "failed", make_trial(None))
    digest = sent_digest(cases[0])
    assert _find_answers(store, digest) == []
    assert [answer.run for answer in _find_answers(store, digest, hot)] == ["hot"]


def test_answers_of_a_deleted_run_are_not_found_but_copies_of_them_are(
    store: Store, cases: list[Case], start_run: StartRun
) -> None:
    start_run("a")
    start_run("b")
    _record(store, "a", make_trial("x"))
    _record(store, "b", make_trial("x", source_run="a"))
    store.delete_run("a")
    answers = _find_answers(store, sent_digest(cases[0]))
    assert [(answer.run, answer.trial.source_run) for answer in answers] == [("b", "a")]


def test_answers_of_one_run_can_be_selected(store: Store, cases: list[Case], start_run: StartRun) -> None:
    for run_id in ("a", "b", "c"):
        start_run(run_id)
        _record(store, run_id, make_trial(run_id))
    assert [answer.run for answer in _find_answers(store, sent_digest(cases[0]), run="b")] == ["b"]
    assert _find_answers(store, sent_digest(cases[0]), run="nobody") == []


def test_a_store_can_be_written_while_earlier_answers_are_read(
    store: Store, cases: list[Case], start_run: StartRun
) -> None:
    for run_id in ("old", "gone", "new"):
        start_run(run_id)
        _record(store, run_id, *(make_trial(run_id, repeat=repeat) for repeat in range(3)))
    answers = store.find_prior_answers(sent_digest(cases[0]), target_digest(ECHO))
    assert next(answers).run == "new"
    store.delete_run("gone")
    start_run("newest")
    assert [answer.run for answer in answers] == ["new"] * 2 + ["old"] * 3


# --- accesses to held-out cases ----------------------------------------------------------------------------


def test_holdout_accesses_are_listed_oldest_first_and_outlive_their_runs(
    store: Store, start_run: StartRun, open_another: Callable[[], Store]
) -> None:
    start_run("r1")
    first = HoldoutAccess(suite=A, run="r1", kind="rate", at=NOON)
    accesses = [first, replace(first, kind="reveal"), replace(first, at=NOON - timedelta(days=1)), first]
    for access in accesses:
        store.add_holdout_access(access)
    store.add_holdout_access(replace(first, suite=B))
    store.delete_run("r1")
    assert open_another().holdout_accesses(A) == accesses
    assert len(store.holdout_accesses(B)) == 1
    assert store.holdout_accesses(C) == []


# --- names of files ----------------------------------------------------------------------------------------


def test_a_name_belongs_to_one_file_and_a_file_may_have_several_names(store: Store, tmp_path: Path) -> None:
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
def test_a_name_chosen_during_a_save_is_saved_with_the_suite_or_not_at_all(
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
    assert save("other").title == "other v1"  # its content is in the store already
    assert sorted(store.names_for_path(path)) == ["chosen", "other"]
