"""`proctor run --group` and `--saved`: names for groups of runs, and suites from the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.stores import open_store
from support.cli import Proctor


def test_the_runs_of_a_command_have_the_name_of_the_flag(proctor: Proctor, half: str, script: Any) -> None:
    result = proctor(
        "run", half, "--target", "echo", "--target", script(**{"t*": "no"}), "--group", "a.b-1", "--json"
    )
    assert {run["group"] for run in result.json["runs"]} == {"a.b-1"}
    comparison = proctor("compare", "a.b-1", "--json")
    assert [run["group"] for run in comparison.json["runs"]] == ["a.b-1"] * 2


def test_a_group_is_named_once(proctor: Proctor, half: str) -> None:
    first = proctor("run", half, "--target", "echo", "--group", "mine", "--json").run
    for group in ("mine", first["run"]):
        result = proctor("run", half, "--target", "echo", "--group", group)
        assert result.code == 4
        assert f"The store already has a group or a run {group!r}." in result.err
    assert len(proctor("runs", "list").out.splitlines()) == 2


@pytest.mark.parametrize("group", ["", "last", "a b", "a/b", "ä", "x" * 65, "a\n"])
def test_an_invalid_group_name_is_refused(proctor: Proctor, half: str, group: str) -> None:
    result = proctor("run", half, "--target", "echo", f"--group={group}")
    assert result.code == 4
    assert "is not a valid group id" in result.err


def test_a_resumed_run_keeps_its_group_and_a_retry_may_have_any(proctor: Proctor, half: str) -> None:
    run = proctor("run", half, "--target", "echo", "--json").run["run"]
    for words in ([f"--resume={run}"], [half, "--target", "echo", "--resume"]):
        result = proctor("run", *words, "--group", "new")
        assert result.code == 4
        assert "Remove --group" in result.err
    retried = proctor("run", f"--retry-errors={run}", "--group", "new", "--json").run
    assert retried["group"] == "new"


@pytest.mark.parametrize("name", ["half.jsonl", "-x", "../a", "a@v1", "--json", "cases v2"])
def test_a_saved_suite_is_run_whatever_its_name(
    proctor: Proctor, half: str, suite: Callable[..., str], folder: Path, name: str
) -> None:
    proctor("suites", "save", half, "--name", "kept")
    # No command gives such names, but a suite can be saved by other code.
    store = open_store(str(folder / ".proctor" / "proctor.db"))
    header = store.suite("kept")
    assert header is not None
    writer = store.open_suite_writer()
    for saved_case in store.cases(header.content):
        writer.add(saved_case.case, saved_case.sent_digest)
    writer.commit(replace(header, name=name, version=None))
    store.close()
    suite(("only", "one", "one"), name="half.jsonl")
    (folder / "suites").mkdir()
    (folder / f"{name}@v1").parent.mkdir(exist_ok=True, parents=True)
    run = proctor("run", f"--saved={name}@v1", "--target", "echo", "--json").run
    assert (run["suite"], run["suite_version"], run["total"]) == (name, "v1", 10)


def test_a_file_of_that_very_name_is_not_read(proctor: Proctor, half: str, suite: Any) -> None:
    proctor("suites", "save", half)
    suite(("only", "one", "one"), name="half@v1")
    assert proctor("run", "half@v1", "--dialect", "meridian", "--target", "echo", "--json").run["total"] == 1
    assert proctor("run", "--saved", "half@v1", "--target", "echo", "--json").run["total"] == 10


def test_a_suite_that_is_not_in_the_store_is_told(proctor: Proctor, half: str) -> None:
    proctor("suites", "save", half)
    result = proctor("run", "--saved", "hal", "--target", "echo")
    assert (result.code, result.err.count("Did you mean 'half'?")) == (4, 1)
    result = proctor("run", "--saved", "half@v7", "--target", "echo")
    assert result.code == 4
    assert "no version 'v7'" in result.err


def test_the_projects_own_suites_are_not_meant_beside_a_saved_one(
    proctor: Proctor, half: str, folder: Path
) -> None:
    proctor("suites", "save", half)
    (folder / "proctor.toml").write_text('suite = ["cheap"]\n', encoding="utf-8")
    result = proctor("run", "--saved", "half", "--target", "echo", "--json")
    assert [run["suite"] for run in result.json["runs"]] == ["half"]
