"""`proctor.toml`: defaults of a project, and errors in the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor

ROWS = [
    {"id": "a", "input": "x", "expected": "x", "tags": ["short", "en"]},
    {"id": "b", "input": "y", "expected": "y", "tags": ["short"]},
    {"id": "c", "input": "z", "expected": "z", "tags": ["en", "skip"]},
]


@pytest.fixture(autouse=True)
def suite(folder: Path) -> None:
    (folder / "tests").mkdir()
    (folder / "tests" / "s.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")


@pytest.fixture
def config(folder: Path) -> Callable[[str], None]:
    def write(text: str) -> None:
        (folder / "proctor.toml").write_text(text, encoding="utf-8")

    return write


def test_a_run_needs_no_arguments_that_the_project_file_has(proctor: Proctor, config: Any) -> None:
    config('suite = ["tests/s.jsonl"]\ntarget = ["echo"]\nrepeat = 2\n')
    result = proctor("run", "--json")
    assert (result.code, result.run["total"], result.run["target"]) == (0, 6, "echo")


def test_the_command_line_outranks_the_file(proctor: Proctor, config: Any) -> None:
    config('target = "mock"\nrepeat = 2\n')
    result = proctor("run", "tests/s.jsonl", "--target", "echo", "--repeat", "3", "--json")
    assert (result.run["total"], result.run["target"]) == (9, "echo")


def test_the_file_of_a_folder_above_counts_and_its_paths_begin_there(
    proctor: Proctor, config: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config('suite = "tests/s.jsonl"\ntarget = "echo"\n')
    (folder / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(folder / "deep" / "er")
    assert proctor("run", "--json").run["total"] == 3


@pytest.mark.parametrize(
    ("filters", "selected"),
    [
        ('tag = ["short", "skip"]', ["a", "b", "c"]),
        ('all-tag = ["short", "en"]', ["a"]),
        ('all-tag = ["short,skip", "en,skip"]', ["a", "c"]),
        ('exclude-tag = ["skip"]', ["a", "b"]),
        ('tag = "en"\nexclude-tag = "skip"', ["a"]),
        ('id = "[bc]"', ["b", "c"]),
    ],
)
def test_filters_by_tags_say_any_all_or_none_of_them(
    proctor: Proctor, config: Any, filters: str, selected: list[str], folder: Path
) -> None:
    config(f'suite = "tests/s.jsonl"\ntarget = "echo"\n{filters}\n')
    assert proctor("run", "-o", "out.jsonl").code == 0
    lines = (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["case_id"] for line in lines] == selected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("repat = 2", "Unknown key 'repat'. Did you mean 'repeat'"),
        ('repeat = "often"', "`repeat` is 'often'"),
        ("repeat = 0", "`repeat` is 0"),
        ("repeat = 2.5", "`repeat` is 2.5. Give a whole number."),
        ("repeat = [2]", "`repeat` is [2]. Give a whole number."),
        ("temperature = true", "`temperature` is True. Give a number."),
        ('reuse = "no"', "`reuse` is 'no'. Give true or false."),
        ("min-pass-rate = 90", "`min-pass-rate` is 90: 90 is more than 1. Did you mean 0.9 or 90%?"),
        ("until = 'low'", "`until` is 'low'. Give a number such as 0.9, or a percentage such as \"90%\"."),
        ("tag = ['a', 3]", "`tag` is ['a', 3]. Give a text or a list of these."),
        ("store = 3", "`store` is not a text. Give the path of a file, or an address."),
        ("suite = 3", "`suite` is 3. Give a list of texts"),
        ("cluster = 'foo'", "`cluster` is 'foo'. Cases cannot be clustered by 'foo'. Use `metadata.FIELD`"),
        ("cluster = 3", "`cluster` is 3. Give a text"),
        ("json = true", "Unknown key 'json'"),
        ("resume = 'x'", "Unknown key 'resume'"),
        ("[tags]\nany = ['x']", "Unknown key 'tags'"),
        ("[temperature]\nvalue = 1", "`temperature` is a table"),
        ('prompts = "nowhere"', "there is no such folder"),
        ("evaluators = [1]", "`evaluators` is [1]. Give a list of texts"),
        ('substitutions = "x"', "Give a table of texts"),
        ('evals-class = "match"', "Give one of: Match, "),
        ("evals-class = 4", "Give one of: Match, "),
        ("target = ", "The file is not valid TOML in UTF-8"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_name(
    proctor: Proctor, config: Any, text: str, message: str
) -> None:
    config(text)
    result = proctor("run", "tests/s.jsonl", "--target", "echo")
    assert result.code == 4
    assert result.err.startswith("proctor.toml: error: ")
    assert message in result.err


def test_a_validation_takes_the_suites_that_the_project_names(
    proctor: Proctor, config: Any, folder: Path
) -> None:
    assert proctor("validate").code == 4
    config('suite = ["tests"]\nrepeat = 2\n')
    result = proctor("validate", "--json")
    assert [(file["path"], file["cases"]) for file in result.json["files"]] == [("tests/s.jsonl", 3)]
    (folder / "o.jsonl").write_text(json.dumps(ROWS[0]), encoding="utf-8")
    assert [file["path"] for file in proctor("validate", "o.jsonl", "--json").json["files"]] == ["o.jsonl"]


@pytest.mark.parametrize(
    ("words", "example"),
    [
        ("run", "proctor run cheap --target local"),
        ("validate", "proctor validate suite.jsonl"),
    ],
)
def test_a_command_without_a_suite_says_where_one_can_be_named(
    proctor: Proctor, words: str, example: str
) -> None:
    result = proctor(words)
    assert (result.code, result.err) == (
        4,
        f'proctor: error: Name a suite, as in `{example}`, or set `suite = ["SUITE"]` in proctor.toml.\n',
    )


@pytest.mark.parametrize("words", ["hash", "plan", "convert --to proctor", "suites save"])
def test_a_command_that_takes_no_suite_of_the_project_says_how_to_name_one(
    proctor: Proctor, words: str
) -> None:
    result = proctor(*words.split())
    path = words.partition(" --")[0]
    assert (result.code, result.err) == (
        4,
        f"proctor: error: Name a suite, as in `proctor {path} suite.jsonl`. See `proctor {path} --help`.\n",
    )


def test_every_command_finds_the_store_of_the_project(
    proctor: Proctor, config: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config('target = "echo"\nstore = "kept/runs.db"\n')
    run = proctor("run", "tests/s.jsonl", "--json").run["run"]
    assert (folder / "kept" / "runs.db").is_file()
    monkeypatch.chdir(folder / "tests")
    assert proctor("runs", "show", run).code == 0
    assert proctor("run", "s", "--json").run["total"] == 3


@pytest.mark.parametrize("key", ["holdout = 0.5", 'split-method = "shuffle"'])
def test_how_the_project_divides_suites_is_not_for_those_that_are_not_divided(
    proctor: Proctor, config: Any, key: str
) -> None:
    config(f'target = "echo"\n{key}\n')
    result = proctor("run", "cheap", "--json")
    assert (result.code, result.run["total"], result.run["splits"]) == (1, 10, {})
    for flag in ("--holdout=0.3", "--split-method=rank"):
        refusal = proctor("run", "cheap", flag)
        assert (refusal.code, "Built-in suites have no holdout" in refusal.err) == (4, True)


def test_the_project_divides_suites_of_its_own(proctor: Proctor, config: Any, folder: Path) -> None:
    (folder / "b.md").write_text(
        "---\nreplacements: {n: [1, 2, 3, 4]}\n---\n# 👤\nx {{n}}\n---\nz", encoding="utf-8"
    )
    config('target = "echo"\nholdout = 0.5\nsplit-method = "shuffle"\n')
    result = proctor("run", "b.md", "--judge", "echo", "--json")
    assert result.run["splits"]["holdout"]["total"] == 2


def test_a_file_that_is_wrong_does_not_keep_help_away(proctor: Proctor, config: Any) -> None:
    config("nonsense")
    assert proctor("run", "--help").code == 0


def test_a_stored_run_goes_on_whatever_suite_the_project_has(proctor: Proctor, config: Any) -> None:
    first = proctor("run", "tests/s.jsonl", "--target", "echo", "--json").run["run"]
    config('suite = "tests/s.jsonl"\ntarget = "echo"\ntemperature = 0.5\n')
    result = proctor("run", f"--resume={first}", "--json")
    assert (result.code, result.run["run"]) == (0, first)


def test_a_project_file_outside_the_repository_does_not_count(
    proctor: Proctor, config: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config('target = "echo"\n')
    (folder / "inner" / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder / "inner")
    assert proctor("run", "../tests/s.jsonl").code == 4


def test_regrading_knows_the_judges_of_the_project(proctor: Proctor, config: Any, folder: Path) -> None:
    (folder / "judge.jsonl").write_text(
        json.dumps({"*": json.dumps({"score": 5, "reason": "ok"})}), encoding="utf-8"
    )
    row = {"id": "a", "input": "x", "scorer": "llm_judge", "rubric": "Kind?"}
    (folder / "j.jsonl").write_text(json.dumps(row), encoding="utf-8")
    config('judge = ["scripted:judge.jsonl"]\njudge-repeat = 2\njudge-rule = "all"\ntarget = "echo"\n')
    first = proctor("run", "j.jsonl", "--json").run
    assert (first["judges"], first["judge"]["calls"]) == (["scripted:judge.jsonl"], 2)
    again = proctor("regrade", first["run"], "--json").run
    assert (again["asked"], again["graded"], again["reused"], again["judge"]["calls"]) == (0, 1, 1, 2)


def test_regrading_a_run_that_is_not_there_is_told(proctor: Proctor) -> None:
    result = proctor("regrade", "20200101")
    assert result.code == 4
    assert "no run '20200101', because there is no store at .proctor/proctor.db" in result.err
    proctor("run", "cheap", "--target", "echo", "--limit", "1", "--quiet")
    result = proctor("regrade", "20200101")
    assert result.code == 4
    assert "no run '20200101'" in result.err


@pytest.mark.parametrize(("kind", "passed"), [("Includes", 1), ("Match", 0)])
def test_the_class_of_evals_that_no_registry_names_is_the_project_s(
    proctor: Proctor, config: Any, folder: Path, kind: str, passed: int
) -> None:
    (folder / "tea.jsonl").write_text('{"input": "It is Assam", "ideal": "Assam"}', encoding="utf-8")
    result = proctor("run", "tea.jsonl", "--target", "echo")
    assert result.code == 4
    assert "tea.jsonl:1: error: No registry names the file" in result.err
    config(f'evals-class = "{kind}"\n')
    assert proctor("run", "tea.jsonl", "--target", "echo", "--json").run["passed"] == passed
