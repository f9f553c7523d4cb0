"""The names under which suites are saved when several files have the same name."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.services.suites.save_and_open import Suites
from proctor.services.suites.saved_names import candidate_names
from proctor.stores import open_store
from proctor.stores.sqlite.store import SqliteStore

Write = Callable[..., str]


@pytest.fixture
def write(folder: Path) -> Write:
    """Writes a suite of one case with this word."""

    def make(name: str, word: str = "a") -> str:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".csv"):
            text = f"id,input,expected\n{word},{word}?,x\n"
        elif name.endswith("config.yaml"):
            text = f"prompts: ['{word}']\nproviders: [echo]\ntests: [{{assert: [{{type: is-json}}]}}]\n"
        else:
            text = f'{{"id": "{word}", "input": "{word}?", "expected": "x"}}\n'
        (folder / name).write_text(text, encoding="utf-8")
        return name

    return make


@pytest.fixture
def save(store: SqliteStore) -> Callable[[str], list[str]]:
    """Saves the suites of a word, and gives their titles."""

    def titles(word: str) -> list[str]:
        return [result.suite.title for result in Suites(store, {}).save(word)]

    return titles


Save = Callable[[str], list[str]]

# --- in one command ----------------------------------------------------------------------------------------


async def test_files_of_one_command_are_told_apart_by_their_folders(write: Write, make: Any) -> None:
    words = f"{write('a/tests.jsonl', 'a')} {write('b/tests.jsonl', 'b')}"
    for _ in range(2):
        assert [result.run.suite.title for result in await make(words)] == ["a/tests v1", "b/tests v1"]
    assert [result.run.suite.title for result in await make("b/tests.jsonl")] == ["b/tests v1"]


def test_files_of_a_folder_are_told_apart_by_as_much_of_the_path_as_that_takes(
    write: Write, save: Save
) -> None:
    for name in ("x/a/tests.jsonl", "y/a/tests.jsonl", "y/b/tests.jsonl", "y/b/other.jsonl"):
        write(name, name.replace("/", "-"))
    assert save(".") == ["x/a/tests v1", "y/a/tests v1", "other v1", "b/tests v1"]


def test_the_file_of_the_working_folder_keeps_the_short_name(write: Write, save: Save) -> None:
    write("tests.jsonl", "a")
    write("deep/tests.jsonl", "b")
    assert save(".") == ["tests v1", "deep/tests v1"]


def test_files_that_differ_in_their_ending_alone_are_told_apart_by_it(write: Write, save: Save) -> None:
    write("a/tests.csv", "a")
    write("a/tests.jsonl", "b")
    assert save("a") == ["tests.csv v1", "tests.jsonl v1"]


def test_files_that_are_called_as_their_folder_are_told_apart_by_the_folders_above(
    write: Write, save: Save
) -> None:
    for name in ("a/evals", "b/evals"):
        write(f"{name}/promptfooconfig.yaml", name[0])
    assert save(".") == ["a/evals v1", "b/evals v1"]


def test_a_name_that_files_declare_is_theirs(folder: Path, save: Save) -> None:
    for name in "ab":
        (folder / f"{name}.eval.yaml").write_text(
            f"name: mine\ntests: [{{id: {name}, criteria: c, input: x, expected_output: x}}]\n", "utf-8"
        )
    assert save(".") == ["mine v1", "mine v2"]


# --- from one command to the next --------------------------------------------------------------------------


def test_a_path_keeps_its_name_whatever_comes_beside_it(write: Write, save: Save, folder: Path) -> None:
    assert save(write("a/tests.jsonl", "a")) == ["tests v1"]
    assert save(write("b/tests.jsonl", "b")) == ["b/tests v1"]
    assert save(write("a/tests.jsonl", "changed")) == ["tests v2"]
    assert save(write("b/tests.jsonl", "changed too")) == ["b/tests v2"]
    (folder / "a/tests.jsonl").unlink()
    assert save("b/tests.jsonl") == ["b/tests v2"]
    write("c/tests.jsonl", "c")
    write("a/tests.jsonl", "a")
    assert save(".") == ["tests v1", "b/tests v2", "c/tests v1"]


def test_a_path_keeps_its_name_from_every_working_folder(
    write: Write, save: Save, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a/tests.jsonl", "a")
    write("b/tests.jsonl", "b")
    assert save("a") == ["tests v1"]
    monkeypatch.chdir(folder / "b")
    assert save("tests.jsonl") == ["b/tests v1"]
    assert save("../a/tests.jsonl") == ["tests v1"]
    assert save(str(folder / "b")) == ["b/tests v1"]


def test_a_file_that_is_moved_keeps_its_name(write: Write, save: Save, folder: Path) -> None:
    assert save(write("a/tests.jsonl", "a")) == ["tests v1"]
    (folder / "a").rename(folder / "moved")
    assert save(write("moved/tests.jsonl", "changed")) == ["tests v2"]
    assert save(write("a/tests.jsonl", "a new one")) == ["a/tests v1"]


def test_a_copy_is_the_same_suite_until_it_is_changed(write: Write, save: Save) -> None:
    assert save(write("a/tests.jsonl", "a")) == ["tests v1"]
    assert save(write("copy/tests.jsonl", "a")) == ["tests v1"]
    assert save(write("copy/tests.jsonl", "changed")) == ["copy/tests v1"]
    assert save("a/tests.jsonl") == ["tests v1"]


def test_a_project_that_is_copied_with_its_store_keeps_its_names(
    write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def titles() -> list[str]:
        with closing(open_store(".proctor/proctor.db")) as store:
            return [result.suite.title for result in Suites(store, {}).save(".")]

    write("one/tests.jsonl", "a")
    write("one/deep/tests.jsonl", "b")
    monkeypatch.chdir(folder / "one")
    assert titles() == ["tests v1", "deep/tests v1"]
    shutil.copytree(folder / "one", folder / "two")
    monkeypatch.chdir(folder / "two")
    write("two/tests.jsonl", "changed")
    assert titles() == ["tests v2", "deep/tests v1"]


@pytest.mark.parametrize("address", ["kept.db"])
def test_a_name_of_an_earlier_store_goes_to_the_file_with_its_cases(
    write: Write, save: Save, store: SqliteStore
) -> None:
    assert save(write("b/tests.jsonl", "b")) == ["tests v1"]
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("DELETE FROM origins")  # which earlier stores do not have
    write("a/tests.jsonl", "a")
    assert save(".") == ["a/tests v1", "tests v1"]
    assert save(write("b/tests.jsonl", "changed")) == ["tests v2"]


def test_a_name_that_a_user_gives_is_no_files_own(write: Write, store: SqliteStore) -> None:
    suites = Suites(store, {})
    (saved,) = suites.save(write("a/tests.jsonl", "a"), name="mine")
    assert saved.suite.title == "mine v1"
    (saved,) = suites.save("a/tests.jsonl")
    assert saved.suite.title == "tests v1"


@pytest.mark.slow
def test_processes_that_save_at_once_give_no_two_files_one_name(write: Write) -> None:
    command = [sys.executable, "-m", "proctor", "suites", "save", "--store", "kept.db"]
    files = [write(f"{letter}/tests.jsonl", letter) for letter in "abc"]
    processes = [subprocess.Popen([*command, file]) for file in files]
    assert [process.wait() for process in processes] == [0, 0, 0]
    with closing(open_store("kept.db")) as store:
        assert [version.suite.version for version in store.versions()] == ["v1", "v1", "v1"]


# --- possible names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name", "names"),
    [
        ("/a/b/t.jsonl", "t", ["t", "b/t", "a/b/t", "t.jsonl", "b/t.jsonl", "a/b/t.jsonl"]),
        ("/a/t.eval.yaml", "t", ["t", "a/t", "t.eval.yaml", "a/t.eval.yaml"]),
        ("/a/b/samples.jsonl", "b", ["b", "a/b", "b/samples.jsonl", "a/b/samples.jsonl"]),
        ("/a/sky", "sky", ["sky", "a/sky"]),
        ("/a/t.jsonl", "declared", []),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="paths there begin with a drive")
def test_a_file_may_have_these_names(path: str, name: str, names: list[str]) -> None:
    assert candidate_names(Path(path), name) == names


PARTS = st.lists(st.sampled_from("ab"), min_size=1, max_size=4)


@given(st.lists(PARTS.map(lambda parts: f"/{'/'.join(parts)}/t.jsonl"), min_size=2, max_size=5, unique=True))
def test_no_two_files_have_all_names_in_common(paths: list[str]) -> None:
    longest = [candidate_names(Path(path), "t")[-1] for path in paths]
    assert len(set(longest)) == len(paths)
