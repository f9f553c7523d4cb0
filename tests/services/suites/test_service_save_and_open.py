"""Suites saved as versions, and opened by each name of a suite."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import StoreError, SuiteError, UsageError
from proctor.services.suites.convert import MAIN_FILE, convert_suite
from proctor.services.suites.save_and_open import SaveResult, Suites, find_stored_suite
from proctor.services.suites.suite_argument import SuiteLocator
from proctor.stores.sqlite.store import SqliteStore

Make = Callable[..., Any]


@pytest.fixture
def suites(store: SqliteStore) -> Suites:
    return Suites(store, {})


def save(suites: Suites, word: str, **options: Any) -> list[tuple[str | None, str]]:
    return [(result.suite.version, result.state) for result in suites.save(word, **options)]


def open_and_read(suites: Suites, word: str) -> tuple[str, str | None, list[str]]:
    with suites.open_suite(word) as suite:
        return suite.suite.name, suite.suite.version, [stored_case.case.id for stored_case in suite.cases()]


def convert_to_text(suites: Suites, word: str) -> str:
    """A suite in dialect proctor."""
    with suites.open_suite(word) as suite:
        cases = (stored_case.case for stored_case in suite.cases())
        return convert_suite(suite.suite, cases, "proctor", lossy=False).files[MAIN_FILE].decode()


# --- saving ------------------------------------------------------------------------------------------------


def test_the_first_is_v1_and_each_other_content_of_that_name_the_next(
    suites: Suites, suite: Make, folder: Path
) -> None:
    states = []
    for cases in ("a", "ab", "ab", "a", "abc"):
        path = suite(*((letter, f"{letter}?", "x") for letter in cases))
        states += save(suites, path)
    assert states == [("v1", "new"), ("v2", "new"), ("v2", "same"), ("v1", "earlier"), ("v3", "new")]


def test_what_was_saved_says_where_it_came_from(suites: Suites, suite: Make) -> None:
    (saved,) = suites.save(suite(("a", "?", "x"), name="deep/mine.jsonl"))
    assert isinstance(saved, SaveResult)
    assert (saved.path, saved.suite.name, saved.suite.case_count) == ("deep/mine.jsonl", "mine", 1)


def test_a_suite_can_be_saved_under_a_name_of_its_own(
    suites: Suites, suite: Make, store: SqliteStore
) -> None:
    path = suite(("a", "?", "x"))
    assert save(suites, path, name="other name") == [("v1", "new")]
    assert store.suite("s") is None
    assert open_and_read(suites, "other name") == ("other name", "v1", ["a"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "not a valid name"),
        (" x", "not a valid name"),
        ("two\nlines", "not a valid name"),
        ("x@v2", "version"),
        ("x@sha256:abcdef", "version"),
        ("builtin:cheap", "built-in"),
        ("builtin:mine", "built-in"),
    ],
)
def test_a_name_that_would_not_be_found_again_is_refused(
    suites: Suites, suite: Make, store: SqliteStore, name: str, words: str
) -> None:
    path = suite(("a", "?", "x"))
    with pytest.raises(UsageError, match=words):
        save(suites, path, name=name)
    assert store.versions() == []


def test_one_name_is_for_one_suite(suites: Suites, suite: Make) -> None:
    for name in ("a", "b"):
        suite((name, "?", "x"), name=f"all/{name}.jsonl")
    with pytest.raises(UsageError, match="2 suites"):
        save(suites, "all", name="x")


def test_a_file_named_like_a_built_in_suite_is_a_suite_of_its_own(
    suites: Suites, suite: Make, folder: Path, store: SqliteStore
) -> None:
    (builtin,) = SuiteLocator().find("cheap").paths
    assert save(suites, "cheap") == [("v1", "new")]
    assert save(suites, suite(("a", "?", "x"), name="cheap.jsonl")) == [("v1", "new")]
    assert [version.suite.name for version in store.versions()] == ["builtin:cheap", "cheap"]
    shutil.copy(builtin, folder / "cheap.jsonl")
    assert save(suites, "./cheap.jsonl") == [("v2", "new")]
    assert save(suites, "builtin:cheap") == [("v1", "same")]


def test_a_bare_name_is_the_users_own_suite_before_the_built_in_one(
    store: SqliteStore, suite: Make, folder: Path
) -> None:
    notes: list[str] = []
    suites = Suites(store, {}, tell=lambda located: notes.extend(located.notes))
    assert len(open_and_read(suites, "cheap")[2]) == 10
    assert notes == []
    path = suite(("stored", "?", "x"), name="cheap.jsonl")
    save(suites, path)
    (folder / path).unlink()
    assert open_and_read(suites, "cheap") == ("cheap", "v1", ["stored"])
    with pytest.raises(UsageError, match="already in the store"):
        save(suites, "cheap")
    suite(("in suites", "?", "x"), name="suites/cheap.jsonl")
    assert open_and_read(suites, "cheap")[2] == ["in suites"]
    suite(("a path", "?", "x"), name="cheap")
    assert open_and_read(suites, "cheap")[2] == ["a path"]
    assert notes == [
        "'cheap' means the file 'suites/cheap.jsonl' here. For the built-in suite, write `builtin:cheap`.",
        "'cheap' means the file 'cheap' here. For the built-in suite, write `builtin:cheap`.",
    ]
    suite(("a path", "?", "x"), name="builtin:cheap")
    assert len(open_and_read(suites, "builtin:cheap")[2]) == 10


def test_an_unknown_built_in_suite_is_told_with_those_there_are(suites: Suites) -> None:
    with pytest.raises(UsageError, match=r"no built-in suite 'builtin:chep'\. Did you mean 'cheap'"):
        save(suites, "builtin:chep")


def test_a_copy_of_a_built_in_suite_that_says_so_is_that_suite_until_it_is_changed(
    suites: Suites, folder: Path
) -> None:
    save(suites, "cheap")
    text = convert_to_text(suites, "builtin:cheap@v1")
    assert '"name":"cheap"' in text.partition("\n")[0].replace(" ", "")
    copy = text.replace('"cheap"', '"builtin:cheap"', 1)
    (folder / "copy.jsonl").write_text(copy, "utf-8")
    assert save(suites, "copy.jsonl") == [("v1", "same")]
    (folder / "copy.jsonl").write_text(copy.rstrip().rpartition("\n")[0], "utf-8")
    with pytest.raises(UsageError, match="'builtin:cheap', because only names of built-in suites"):
        save(suites, "copy.jsonl")


def test_a_suite_that_is_wrong_is_not_saved_and_those_beside_it_are(
    suites: Suites, suite: Make, store: SqliteStore, folder: Path
) -> None:
    suite(("a", "?", "x"), name="all/a.jsonl")
    (folder / "all" / "b.jsonl").write_text('{"id": "b", "input": 7, "expected": "x"}\n{"id": 1}\n', "utf-8")
    suite(("c", "?", "x"), name="all/c.jsonl")
    with pytest.raises(SuiteError) as caught:
        save(suites, "all")
    assert {problem.line for problem in caught.value.problems} == {1, 2}
    assert [version.suite.name for version in store.versions()] == ["a", "c"]
    assert save(suites, "all/a.jsonl") == [("v1", "same")]  # nothing is left half saved


def test_what_is_in_the_store_already_is_not_saved_again(suites: Suites, suite: Make, folder: Path) -> None:
    path = suite(("a", "?", "x"))
    save(suites, path)
    (folder / path).unlink()
    for word in ("s", "s@v1"):
        with pytest.raises(UsageError, match="already in the store"):
            save(suites, word)
    with pytest.raises(UsageError, match="'nobody'"):
        save(suites, "nobody")


# --- words -------------------------------------------------------------------------------------------------


def test_a_word_stands_for_the_first_thing_there_is(suites: Suites, suite: Make, folder: Path) -> None:
    suite(("v1", "?", "x"), name="w.jsonl")
    save(suites, "w.jsonl")
    suite(("v2", "?", "x"), name="w.jsonl")
    save(suites, "w.jsonl")
    suite(("in suites", "?", "x"), name="suites/w.jsonl")
    suite(("in suites", "?", "x"), name="suites/w@v1.jsonl")
    suite(("a path", "?", "x"), name="w")
    assert open_and_read(suites, "w")[2] == ["a path"]
    (folder / "w").unlink()
    assert open_and_read(suites, "w@v1") == ("w", "v1", ["v1"])
    assert open_and_read(suites, "w")[2] == ["in suites"]
    (folder / "suites" / "w.jsonl").unlink()
    assert open_and_read(suites, "w") == ("w", "v2", ["v2"])
    suite(("a path", "?", "x"), name="w@v1")
    assert open_and_read(suites, "w@v1")[2] == ["a path"]


def test_a_version_is_named_by_number_or_digest(suites: Suites, suite: Make, store: SqliteStore) -> None:
    for cases in ("a", "ab"):
        save(suites, suite(*((letter, "?", "x") for letter in cases)))
    for version in store.versions("s"):
        for word in (
            f"s@{version.suite.version}",
            f"s@{version.suite.digest}",
            f"s@{version.suite.digest[:15]}",
        ):
            assert find_stored_suite(store, word) == version.suite
    assert find_stored_suite(store, "s") == store.suite("s", "v2")
    assert find_stored_suite(store, "nobody") is None


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("s@v3", r"'s' has no version 'v3'. It has v1 \(sha256:.{12}\), v2 \(sha256:.{12}\)\."),
        ("s@v0", "no version 'v0'"),
        ("s@sha256:", "no version 'sha256:'"),
        ("s@sha256:abc", "no version"),
        ("t@v1", "no suite 't' in the store"),
        ("mien@v1", "Did you mean 'mine'"),
    ],
)
def test_a_version_that_is_not_there_is_told_with_those_that_are(
    suites: Suites, suite: Make, store: SqliteStore, word: str, words: str
) -> None:
    for cases in ("a", "ab"):
        save(suites, suite(*((letter, "?", "x") for letter in cases)))
    save(suites, suite(("a", "?", "x")), name="mine")
    for find_it in (lambda: find_stored_suite(store, word), lambda: open_and_read(suites, word)):
        with pytest.raises((UsageError, StoreError), match=words):
            find_it()


def test_a_suite_whose_name_looks_like_a_version_is_found_by_it(
    suites: Suites, suite: Make, folder: Path
) -> None:
    save(suites, suite(("a", "?", "x"), name="s@v2.jsonl"))
    (folder / "s@v2.jsonl").unlink()
    assert open_and_read(suites, "s@v2") == ("s@v2", "v1", ["a"])
    assert open_and_read(suites, "s@v2@v1") == ("s@v2", "v1", ["a"])


def test_an_unknown_word_is_told_with_what_is_in_the_store(suites: Suites, suite: Make) -> None:
    save(suites, suite(("a", "?", "x")), name="arithmetic")
    with pytest.raises(UsageError, match=r"'arithmetik'.*Did you mean 'arithmetic'"):
        open_and_read(suites, "arithmetik")
    with pytest.raises(UsageError, match=r"Expected one of: arithmetic, cheap, comprehensive, moderate\.$"):
        open_and_read(suites, "x")
    with pytest.raises(UsageError, match="no suite 'arithmetic'"):
        open_and_read(Suites(None, {}), "arithmetic")


# --- opening -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("with_store", [True, False])
def test_a_file_is_opened_without_being_saved(suite: Make, store: SqliteStore, with_store: bool) -> None:
    path = suite(*((f"c{number}", f"{number}?", "x") for number in range(1500)))
    with Suites(store if with_store else None, {}).open_suite(path) as opened_suite:
        assert opened_suite.suite.version is None
        assert opened_suite.source is not None
        twice = [[stored_case.case.id for stored_case in opened_suite.cases()] for _ in range(2)]
    assert twice == [[f"c{number}" for number in range(1500)]] * 2
    assert store.versions() == []


def test_a_file_that_is_wrong_is_not_opened(suites: Suites, folder: Path) -> None:
    row = {"id": "a", "input": "?", "expected": "x", "scorer": "exact"}
    (folder / "odd.jsonl").write_text(json.dumps(row) + "\n{}\n", "utf-8")
    with pytest.raises(SuiteError) as caught, suites.open_suite("odd.jsonl"):
        pass
    assert {problem.line for problem in caught.value.problems} == {2}


def test_a_folder_of_several_suites_is_not_one(suites: Suites, suite: Make) -> None:
    for name in ("a", "b"):
        suite((name, "?", "x"), name=f"all/{name}.jsonl")
    with pytest.raises(UsageError, match=r"2 suites: all/a\.jsonl, all/b\.jsonl"), suites.open_suite("all"):
        pass
