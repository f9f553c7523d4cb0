"""A resumed run keeps its settings; other settings are refused with the command to use instead."""

from __future__ import annotations

import re
import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor


@pytest.fixture
def target(function: Proctor, half: str) -> str:
    """A target that fails for one of the ten cases of `half` until the file `well` exists."""
    name: str = function(
        "import os\ndef f(prompt):\n    with open('asked.txt', 'a') as file:\n        file.write(prompt)\n"
        "    if prompt == 'say 4' and not os.path.exists('well'):\n        raise RuntimeError('down')\n"
        "    return prompt\n"
    )
    return name


@pytest.fixture
def make_interrupted_run(proctor: Proctor, target: str, half: str) -> Callable[..., str]:
    """Returns a function that makes a run of `half` without its last four trials, as a kill leaves it."""

    def make(*words: str) -> str:
        run_id: str = proctor("run", half, "--target", target, "--json", *words).run["run"]
        with closing(sqlite3.connect(".proctor/proctor.db")) as db, db:
            db.execute("DELETE FROM trials WHERE position >= 6")
            db.execute(
                "UPDATE runs SET status = 'running', body = "
                'CAST(replace(CAST(body AS TEXT), \'"status":"finished"\', \'"status":"running"\') AS BLOB)'
            )
        return run_id

    return make


def _headers() -> Any:
    with closing(sqlite3.connect(".proctor/proctor.db")) as db:
        return db.execute("SELECT * FROM runs").fetchall()


def _commands(err: str) -> list[list[str]]:
    """The commands in an error message, without their first word."""
    return [
        shlex.split(command)[1:]
        for command in re.findall(r": (?:proctor run --resume=\S+, then )?(proctor .*)", err)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "text", "finished", "has_suite"),
    [
        (("--threshold", "0.5"), "the run has none, this command sets 0.5", True, False),
        (("--threshold", "0.5"), "the run has none, this command sets 0.5", False, True),
        (("--judge-repeat", "3"), "the run has 1, this command sets 3", False, False),
        (("--judge-rule", "all"), "the run has majority, this command sets all", True, True),
        (("--min-pass-rate", "0.1"), "the run has none, this command sets 0.1", False, True),
        (("--allow-errors", "9"), "the run has 0, this command sets 9", True, False),
    ],
)
def test_another_rule_of_grading_is_refused_with_the_command_for_a_regrade(
    proctor: Proctor,
    make_interrupted_run: Proctor,
    target: str,
    half: str,
    words: tuple[str, ...],
    text: str,
    finished: bool,
    has_suite: bool,
) -> None:
    run_id = (
        proctor("run", half, "--target", target, "--json").run["run"] if finished else make_interrupted_run()
    )
    before = _headers()
    questions = Path("asked.txt").read_text(encoding="utf-8")
    result = proctor("run", *((half, "--target", target) if has_suite else ()), f"--resume={run_id}", *words)
    assert result.code == 4
    assert f"{words[0]}: {text}" in result.err
    assert Path("asked.txt").read_text(encoding="utf-8") == questions
    assert _headers() == before
    new, again = _commands(result.err)
    assert new == ["run", half if has_suite else "half@v1", "--target", target, "--holdout", "0.2", *words]
    assert again == ["regrade", run_id, *words]
    assert (f"proctor run --resume={run_id}, then" in result.err) is not finished
    for command in (new, again):
        assert "proctor: error" not in proctor(*command).err


@pytest.mark.parametrize("has_suite", [True, False])
def test_what_asks_other_questions_is_refused_with_the_command_for_a_new_run(
    proctor: Proctor, make_interrupted_run: Proctor, target: str, half: str, has_suite: bool
) -> None:
    run_id = make_interrupted_run("--seed", "7", "--id", "t*")
    words = ("--repeat", "3", "--limit", "1", "--cache")
    result = proctor("run", *((half,) if has_suite else ()), f"--resume={run_id}", *words)
    assert result.code == 4
    for text in (
        "--repeat: the run has none, this command sets 3",
        "--limit: the run has none, this command sets 1",
        "--cache: the run has off, this command sets on",
    ):
        assert text in result.err
    assert "regrade" not in result.err
    (new,) = _commands(result.err)
    assert new[:4] == ["run", half if has_suite else "half@v1", "--target", target]
    assert new[4:9] == ["--holdout", "0.2", "--repeat", "3", "--id"]
    assert new[9:] == ["t*", "--limit", "1", "--seed", "7", "--cache"]
    assert proctor(*new, "--json").run["total"] == 3


def test_flags_with_the_values_of_the_run_are_no_others(
    proctor: Proctor, make_interrupted_run: Proctor, target: str, half: str
) -> None:
    words = (
        "--target",
        target,
        "--threshold",
        "0.5",
        "--seed",
        "7",
        "--id",
        "t*",
        "--no-cache",
        "--repeat",
        "1",
    )
    run_id = make_interrupted_run(*words[2:])
    result = proctor("run", f"--resume={run_id}", *words, "--json")
    assert (result.code, result.run["run"], result.run["total"]) == (3, run_id, 10)
    result = proctor("run", half, f"--resume={run_id}", *words, "--json")
    assert (result.code, result.run["run"], result.run["total"]) == (3, run_id, 10)
    assert (
        proctor("run", half, f"--resume={run_id}", "--json").run["run"] == run_id
    )  # settings without a flag are those of the run


def test_flags_for_judges_that_nobody_asks_are_no_others(
    proctor: Proctor, make_interrupted_run: Proctor
) -> None:
    words = ("--judge", "echo", "--judge-temperature", "0.5")
    run_id = make_interrupted_run(*words)
    result = proctor("run", f"--resume={run_id}", *words, "--json")
    assert (result.code, result.run["run"]) == (3, run_id)


def test_the_newest_run_keeps_its_rules_too(
    proctor: Proctor, make_interrupted_run: Proctor, target: str, half: str
) -> None:
    run_id = make_interrupted_run("--threshold", "0.5")
    result = proctor("run", half, "--target", target, "--resume", "--threshold", "0.6", "--json")
    assert result.code == 4
    assert "--threshold: the run has 0.5, this command sets 0.6" in result.err
    assert proctor("run", half, "--target", target, "--resume", "--json").run["run"] == run_id


def test_what_proctor_toml_says_by_now_changes_no_run_and_is_told(
    proctor: Proctor, make_interrupted_run: Proctor, target: str, half: str
) -> None:
    run_id = make_interrupted_run("--judge-rule", "all")
    Path("proctor.toml").write_text(
        "threshold = 0.1\nconcurrency = 2\nseed = 9\ninterleave = true\n", encoding="utf-8"
    )
    result = proctor("run", f"--resume={run_id}", "--json")
    assert (result.code, result.run["run"], result.run["total"]) == (3, run_id, 10)
    assert f"Run {run_id} keeps its own settings" in result.err
    assert "--threshold none" in result.err
    assert "--judge-rule" not in result.err
    assert "--interleave" not in result.err
    assert proctor("run", half, f"--resume={run_id}", "--json").run["run"] == run_id


def test_a_finished_run_is_left_as_it_is(proctor: Proctor, target: str, half: str) -> None:
    run_id = proctor("run", half, "--target", target, "--json").run["run"]

    before = _headers()
    assert proctor("run", f"--resume={run_id}", "--concurrency", "3", "--timeout", "9").code == 3
    assert _headers() == before


def test_asking_errors_again_takes_new_gates_and_no_other_rule_for_judges(
    proctor: Proctor, target: str, half: str
) -> None:
    run_id = proctor("run", half, "--target", target, "--json").run["run"]
    result = proctor("run", f"--retry-errors={run_id}", "--judge-rule", "all")
    assert result.code == 4
    assert "--judge-rule: the run has majority, this command sets all" in result.err
    Path("well").touch()
    again = proctor("run", f"--retry-errors={run_id}", "--min-pass-rate", "0.4", "--retries", "1", "--json")
    assert (again.code, again.run["errors"], again.run["reused"]) == (0, 0, 9)


def test_a_target_that_its_file_defines_otherwise_by_now_is_another_one(
    proctor: Proctor, half: str, target: str
) -> None:
    def define(seed: str) -> None:
        text = f"targets:\n  - {{name: a, provider: mock, response: '{seed}'}}\n"
        Path("targets.yaml").write_text(text, encoding="utf-8")

    define("one")
    run_id = proctor("run", half, "--target", "a", "--json").run["run"]
    define("two")
    result = proctor("run", half, "--target", "a", f"--resume={run_id}")
    assert result.code == 4
    assert "the target 'a': its configuration has changed" in result.err


def test_the_commands_of_a_refusal_work_where_a_store_and_a_dialect_are_given(
    proctor: Proctor, target: str, half: str
) -> None:
    store = ("--store", "a folder/other.db")
    Path("a folder").mkdir()
    run_id = proctor("run", half, "--target", target, *store, "--json").run["run"]
    Path("edited.txt").write_text('{"id": "t1", "input": "say 1", "expected": "1"}\n', encoding="utf-8")
    result = proctor("run", "edited.txt", "--dialect", "meridian", f"--resume={run_id}", *store)
    assert result.code == 4
    new, again = _commands(result.err)
    assert again == ["regrade", run_id, "--suite", "edited.txt", "--dialect", "meridian", *store]
    assert (proctor(*new, "--json").run["total"], proctor(*again, "--json").run["total"]) == (1, 1)
    assert not Path(".proctor").exists()


def test_the_commands_of_a_refusal_have_all_that_was_asked_for(
    proctor: Proctor, make_interrupted_run: Proctor, target: str, half: str
) -> None:
    run_id = make_interrupted_run("--keep-workspaces=all", "--timeout", "9", "--store", ".proctor/proctor.db")
    free = ("--concurrency", "3", "--budget-usd", "2.0")
    result = proctor(
        "run", half, f"--resume={run_id}", *free, "--judge", "echo", "--threshold", "0.5", "--skip-invalid"
    )
    new, again = _commands(result.err)
    assert new[4:] == [
        *("--judge", "echo", "--holdout", "0.2", "--threshold", "0.5"),
        *("--concurrency", "3", "--timeout", "9.0", "--budget-usd", "2.0"),
        *("--keep-workspaces=all", "--skip-invalid"),
    ]
    assert again[2:] == [
        *("--judge", "echo", "--threshold", "0.5", "--concurrency", "3", "--budget-usd", "2.0"),
    ]


def test_several_saved_suites_are_no_regrade(
    proctor: Proctor, make_interrupted_run: Proctor, half: str
) -> None:
    run_id = make_interrupted_run()
    result = proctor("run", "--saved", "half", "--saved", "half@v1", f"--resume={run_id}", "--threshold", "1")
    assert "regrade" not in result.err


def test_a_new_run_has_what_the_run_has_where_its_file_or_suite_says_otherwise(proctor: Proctor) -> None:
    lines = (
        '{"proctor": 1, "name": "s", "defaults": {"reuse": true}}\n'
        '{"id": "a", "input": [{"role": "user", "content": "a"}], '
        '"assertions": [{"grader": "contains", "params": {"value": "a"}}]}\n'
    )
    Path("s.jsonl").write_text(lines, encoding="utf-8")
    run_id = proctor("run", "s.jsonl", "--target", "echo", "--no-reuse", "--json").run["run"]
    Path("proctor.toml").write_text("judge-rule = 'all'\n", encoding="utf-8")
    result = proctor("run", f"--resume={run_id}", "--seed", "9")
    (new,) = _commands(result.err)
    assert new[4:] == ["--seed", "9", "--judge-rule", "majority", "--no-reuse"]
    assert proctor(*new, "--json").run["reused"] == 0
