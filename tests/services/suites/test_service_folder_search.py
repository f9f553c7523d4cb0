"""The search of a folder: files that are suites, files of other suites, and other files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import SuiteError, UsageError
from proctor.services import events
from proctor.services.suites.save_and_open import Suites
from proctor.services.suites.suite_argument import LocatedSuites, SuiteLocator
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns

Write = Callable[..., None]
ROW = '{"id": "a", "input": "?", "expected": "x"}\n'
TESTS = "tests:\n  - id: a\n    criteria: c\n    input: '?'\n    expected_output: x\n"
MARKDOWN = "# 👤\nHow far is the moon?\n---\nSome 384,000 km.\n"
PROMPTFOO = "prompts: ['{{q}}']\nproviders: [echo]\n"


@pytest.fixture
def write(folder: Path) -> Callable[..., None]:
    """Writes files by their paths in the folder `all`."""

    def make(files: dict[str, str]) -> None:
        for name, text in files.items():
            path = folder / "all" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    return make


def locate(**options: Any) -> LocatedSuites:
    return SuiteLocator(**options).find("all")


def list_suites(**options: Any) -> list[str]:
    return [path.relative_to("all").as_posix() for path in locate(**options).paths]


# --- suites ------------------------------------------------------------------------------------------------


def test_suites_of_every_format_are_found_in_subfolders(write: Write) -> None:
    write(
        {"b.jsonl": ROW, "C.JSONL": ROW, "a/deep/er/c.csv": "input,expected\n?,x\n", "a/d.eval.yaml": TESTS}
    )
    write({"z/promptfooconfig.yaml": f"{PROMPTFOO}tests: [{{vars: {{q: x}}}}]\n"})
    assert list_suites() == [
        "C.JSONL",
        "b.jsonl",
        "a/d.eval.yaml",
        "a/deep/er/c.csv",
        "z/promptfooconfig.yaml",
    ]
    assert (locate().warnings, locate().notes) == ((), ())


def test_a_suite_beside_rows_of_the_same_name_is_a_suite_of_its_own(write: Write) -> None:
    row = {"id": "d", "criteria": "c", "input": "?", "expected_output": "x"}
    write({"data.jsonl": json.dumps(row), "data.eval.yaml": TESTS})
    assert list_suites() == ["data.eval.yaml", "data.jsonl"]
    assert locate().notes == ()


def test_hidden_folders_packages_bundles_and_virtual_environments_are_left_out(write: Write) -> None:
    write({"a.jsonl": ROW, "env/pyvenv.cfg": "home = /usr\n", "envy/b.jsonl": ROW, ".hidden.jsonl": ROW})
    write({f"run.bundle/{name}": ROW for name in ("envelope.json", "suite.jsonl")})
    inside = (".git", ".venv", "venv", "env", "node_modules", "__pycache__", "deep/node_modules/x")
    write({f"{name}/c.jsonl": ROW for name in inside})
    assert list_suites() == ["a.jsonl", "envy/b.jsonl"]
    assert locate().warnings == ()
    assert SuiteLocator().find("all/env").paths == (Path("all/env/c.jsonl"),)


def test_links_to_folders_are_not_followed_and_links_to_files_are(write: Write, folder: Path) -> None:
    write({"a/b.jsonl": ROW})
    (folder / "all/a/loop").symlink_to(folder / "all")
    (folder / "all/link.jsonl").symlink_to(folder / "all/a/b.jsonl")
    assert list_suites() == ["link.jsonl", "a/b.jsonl"]


def test_a_folder_with_markdown_tests_comes_last_and_its_other_suites_are_run_too(write: Write) -> None:
    write({"sky/a.md": MARKDOWN, "b.jsonl": ROW, "deep/c.jsonl": ROW})
    assert [path.as_posix() for path in locate().paths] == ["all/b.jsonl", "all/deep/c.jsonl", "all"]


# --- files of other suites ---------------------------------------------------------------------------------


def test_tests_in_a_file_of_their_own_are_not_run_a_second_time(write: Write) -> None:
    write({"a.eval.yaml": TESTS, "all.eval.yaml": "tests: ./data/rows.jsonl\n"})
    write({"data/rows.jsonl": '{"id": "r", "input": "?", "criteria": "c", "expected_output": "x"}\n'})
    write({"data/q.csv": "input,expected\n?,x\n", "promptfooconfig.yaml": f"{PROMPTFOO}tests: data/*.csv\n"})
    assert list_suites() == ["a.eval.yaml", "all.eval.yaml", "promptfooconfig.yaml"]
    (note,) = locate().notes
    assert (
        note == "Not run separately, because other suites include them: all/data/q.csv, all/data/rows.jsonl."
    )
    assert SuiteLocator().find("all/data").paths == (Path("all/data/q.csv"), Path("all/data/rows.jsonl"))


def test_an_attachment_is_no_stray_file(write: Write) -> None:
    content = "[{type: file, value: ./people.csv}, {type: text, value: Who?}]"
    message = f"[{{role: user, content: {content}}}]"
    write({"a.eval.yaml": TESTS.replace("'?'", message), "people.csv": "name,age\nAda,36\n"})
    write({"b.jsonl": ROW, "b.yaml": "name: goes with b\n", "targets.yaml": "targets: []\n"})
    assert list_suites() == ["a.eval.yaml", "b.jsonl"]
    assert locate().warnings == ("Skipped 1 file that no suite format recognises: all/b.yaml.",)


def test_what_lies_in_the_template_of_a_workspace_is_no_suite(write: Write) -> None:
    write({"a.eval.yaml": f"workspace:\n  template: ./desk\n{TESTS}", "b.jsonl": ROW})
    write({"desk/fixtures/c.jsonl": ROW, "desk/package.json": '{"name": "x"}', "desks/d.jsonl": ROW})
    assert list_suites() == ["a.eval.yaml", "b.jsonl", "desks/d.jsonl"]
    assert locate().warnings == ()


def test_suites_beside_a_suite_whose_workspace_is_their_own_folder_are_run(write: Write) -> None:
    write({"a.eval.yaml": f"workspace:\n  template: .\n{TESTS}", "b.jsonl": ROW})
    assert list_suites() == ["a.eval.yaml", "b.jsonl"]


# --- what is no suite --------------------------------------------------------------------------------------


def test_files_that_no_format_recognises_are_named_in_one_line(write: Write) -> None:
    write({"a.jsonl": ROW, "package.json": '{"name": "x"}', "deep/people.csv": "name,age\nAda,36\n"})
    write({"README": "x", "LICENSE.md": "x", "other.yaml": "task: x\n"})
    assert list_suites() == ["a.jsonl"]
    names = "all/other.yaml, all/package.json, all/deep/people.csv"
    assert locate().warnings == (f"Skipped 3 files that no suite format recognises: {names}.",)


def test_more_than_ten_of_them_are_counted(write: Write) -> None:
    write({"a.jsonl": ROW} | {f"x{n:02}.json": '{"name": "x"}' for n in range(13)})
    (line,) = locate().warnings
    assert line.startswith("Skipped 13 files ")
    assert line.endswith("all/x09.json and 3 more.")


@pytest.mark.skipif(os.name == "nt", reason="no file there has such a name")
def test_a_name_with_control_characters_stays_in_its_line(write: Write) -> None:
    write({"a.jsonl": ROW, "x\n\x1b[2J.json": '{"name": "x"}'})
    (line,) = locate().warnings
    assert line.isprintable()


def test_with_strict_each_of_them_is_an_error(write: Write) -> None:
    write({"a.jsonl": ROW, "package.json": '{"name": "x"}', "deep/people.csv": "name,age\nAda,36\n"})
    suites = locate(strict=True)
    assert suites.warnings == ()
    assert [(problem.path, problem.level) for problem in suites.problems] == [
        ("all/package.json", "error"),
        ("all/deep/people.csv", "error"),
    ]


def test_a_folder_with_nothing_that_is_recognised_is_an_error(write: Write) -> None:
    write({"package.json": '{"name": "x"}', "deep/targets.yaml": "targets: []\n"})
    with pytest.raises(UsageError, match=r"contains no suite.*Skipped 1 file .*: all/package\.json\.$"):
        locate()


def test_a_file_that_is_recognised_and_wrong_is_not_left_out(write: Write) -> None:
    write({"a.jsonl": ROW, "wrong.jsonl": '{"id": "a", "input": 7, "expected": "x"}\n'})
    write({"wrong.eval.yaml": "tests:\n  - id: [\n"})
    assert list_suites() == ["a.jsonl", "wrong.eval.yaml", "wrong.jsonl"]


def test_with_a_dialect_every_file_is_of_it(write: Write) -> None:
    write({"a.jsonl": ROW, "odd.json": "{}"})
    assert list_suites(dialect="meridian") == ["a.jsonl", "odd.json"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="whoever may read all is not kept out")
def test_a_folder_that_cannot_be_read_is_told(write: Write, folder: Path) -> None:
    write({"a.jsonl": ROW, "closed/b.jsonl": ROW})
    (folder / "all/closed").chmod(0)
    with pytest.raises(UsageError, match=r"all/closed' cannot be read: Permission denied"):
        locate()


# --- in a run ----------------------------------------------------------------------------------------------


async def test_a_mixed_folder_runs_and_says_what_it_left_out(
    write: Write, make: MakeRuns, session_events: list[events.Event]
) -> None:
    write({"a.jsonl": ROW, "package.json": '{"name": "x"}', "deep/b.jsonl": ROW})
    results = await make("all all/a.jsonl")
    assert [result.run.suite.name for result in results] == ["a", "b"]
    warned = [event.message for event in session_events if isinstance(event, events.WarningMessage)]
    assert warned[0] == "Skipped 1 file that no suite format recognises: all/package.json."
    with pytest.raises(SuiteError) as caught:
        await make("all", strict=True)
    assert [problem.path for problem in caught.value.problems if problem.level == "error"] == [
        "all/package.json"
    ]


async def test_a_single_file_that_is_not_recognised_stays_an_error(write: Write, make: MakeRuns) -> None:
    write({"package.json": json.dumps({"name": "x"})})
    with pytest.raises(SuiteError, match="The file does not match any suite format"):
        await make("all/package.json")


def test_what_is_left_out_is_told_when_a_folder_is_saved(write: Write, store: SqliteStore) -> None:
    write({"a.jsonl": ROW, "package.json": '{"name": "x"}'})
    lines: list[str] = []
    saved = Suites(store, {}, tell=lambda located: lines.extend(located.warnings)).save("all")
    assert [result.suite.name for result in saved] == ["a"]
    assert lines == ["Skipped 1 file that no suite format recognises: all/package.json."]
