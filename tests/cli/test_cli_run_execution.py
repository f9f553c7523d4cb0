"""Settings in the `execution` of an evaluation file, and flags that override them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from support.cli import Proctor

Write = Callable[..., str]

CASES = """\
tests:
  - {id: a, input: hello, expected_output: x, assertions: [{type: contains, value: hello}]}
  - id: b
    input: hello
    expected_output: x
    execution: {target: echo}
    assertions: [{type: contains, value: hello}, {type: contains, value: nowhere}]
"""
TARGETS = """\
targets:
  - {name: slow, provider: cli, command: "sleep 0.3; cat"}
  - {name: quick, provider: echo}
  - {name: broken, provider: cli, command: "exit 3", fallback_targets: [quick]}
"""


@pytest.fixture
def write(folder: Path) -> Write:
    """Returns a function that writes an evaluation file with an `execution`, and a targets file beside it."""

    def make(execution: str, cases: str = CASES) -> str:
        (folder / "targets.yaml").write_text(TARGETS, encoding="utf-8")
        (folder / "s.eval.yaml").write_text(f"execution: {{{execution}}}\n{cases}", encoding="utf-8")
        return "s.eval.yaml"

    return make


@pytest.mark.parametrize(
    ("execution", "words", "name", "value"),
    [
        ("threshold: 0.5", ("-t", "quick"), "passed", 2),
        ("threshold: 0.5", ("-t", "quick", "--threshold", "0.9"), "passed", 1),
        ("target: quick", (), "target", "quick"),
        ("target: slow", ("-t", "quick"), "target", "quick"),
        ("target: quick, trials: {count: 2}", (), "planned", 4),
        ("target: quick, trials: {count: 2}", ("--repeat", "3"), "planned", 6),
    ],
)
def test_execution_settings_count_until_a_flag_overrides_them(
    proctor: Proctor, write: Write, execution: str, words: tuple[str, ...], name: str, value: object
) -> None:
    assert proctor("run", write(execution), *words, "--json").run[name] == value


@pytest.mark.parametrize(
    ("execution", "words", "cached"),
    [
        ("cache: true", (), True),
        ("cache: true", ("--no-cache",), False),
        ("cache: false", ("--cache",), True),
        ("workers: 2", (), False),
    ],
)
def test_the_cache_is_the_suites_until_a_flag_says_otherwise(
    proctor: Proctor, write: Write, execution: str, words: tuple[str, ...], cached: bool
) -> None:
    result = proctor("run", write(execution), "-t", "quick", *words)
    assert ("came from the cache" in result.out + result.err) is cached


@pytest.mark.slow
def test_each_run_of_a_matrix_takes_the_time_that_it_takes(proctor: Proctor, write: Write) -> None:
    slow, quick = proctor("run", write("targets: [slow, quick]"), "--json").json["runs"]
    assert slow["group"] == quick["group"]
    start, end = (datetime.fromisoformat(quick[name]) for name in ("started_at", "finished_at"))
    assert datetime.fromisoformat(slow["finished_at"]) <= start
    assert (end - start).total_seconds() < 0.3


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("{target: echo}", "{target: nobody}", 4),
        ("{type: contains, value: nowhere}", "{type: llm-grader, target: nobody}", 4),
    ],
)
def test_a_test_with_an_unknown_target_is_an_error_with_its_line_unless_it_is_left_out(
    proctor: Proctor, write: Write, old: str, new: str, line: int
) -> None:
    name = write("workers: 2", CASES.replace(old, new))
    result = proctor("run", name, "-t", "quick", "--json")
    assert result.code == 4
    (error,) = result.json["errors"]
    assert (error["path"], error["line"], error["code"]) == (name, line, "unknown-target")
    assert "'nobody'" in error["message"]
    assert proctor("run", name, "-t", "quick", "--id", "a").code == 0


def test_a_suite_with_an_unknown_target_is_an_error(proctor: Proctor, write: Write) -> None:
    result = proctor("run", write("target: nobody"))
    assert result.code == 4
    assert "s.eval.yaml: error: Unknown target 'nobody'." in result.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "target_lines"), [("a", ["  target:    quick, as a fallback"]), ("b", ["  target:    echo"])]
)
def test_a_trial_that_another_target_answered_names_it(
    proctor: Proctor, write: Write, case: str, target_lines: list[str]
) -> None:
    proctor("run", write("threshold: 0.5"), "-t", "broken")
    lines = proctor("runs", "show", "last", "--case", case).out.splitlines()
    assert [line for line in lines if line.startswith("  target:")] == target_lines


def test_several_targets_are_compared_at_the_end(proctor: Proctor, write: Write) -> None:
    result = proctor("run", write("threshold: 0.5"), "-t", "quick", "-t", "echo")
    blocks = result.out.split("\n\n")
    assert [line.split()[:3] for line in blocks[-1].splitlines()[1:]] == [
        ["quick", "2", "2"],
        ["echo", "1", "1"],
    ]
    assert result.out.count("95% interval") == 3
    assert "\n\ns v1 on echo\n" in result.out
    assert proctor("run", "s.eval.yaml", "-t", "quick").out.count("95% interval") == 1


@pytest.mark.slow
def test_a_run_says_where_its_workspaces_still_are(
    proctor: Proctor, write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCTOR_CACHE", str(folder / "cache"))
    suite = write("target: quick")
    with (folder / suite).open("a", encoding="utf-8") as file:
        file.write("workspace: {hooks: {before_all: {command: [sh, -c, ':']}}}\n")
    run = proctor("run", suite, "--keep-workspaces", "--json").run["run"]
    note = f"Kept workspaces of the whole run: {folder / 'cache' / 'workspaces' / run}\n"
    assert proctor("runs", "show", "last").out.endswith(note)
    assert proctor("runs", "show", "last", "--case", "a").out.endswith(note)
    proctor("run", suite, "--keep-workspaces=none")
    assert "Kept workspaces" not in proctor("runs", "show", "last").out
