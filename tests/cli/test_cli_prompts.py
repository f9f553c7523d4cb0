"""`proctor run --prompt`: runs for each prompt and target, what is sent, errors, reuse and resuming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor

CASES = "id,input,expected\na,Lima,Name: Lima\nb,Oslo,Name: Oslo\nc,Bern,Rome\n"
TERSE = "Name: {{ input }}"
TARGETS = "targets:\n- name: other\n  provider: echo\n"
STEPS = "# system\nThink.\n\n# user\n{{ input }}, step by step"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in {
        "cases.csv": CASES,
        "terse.txt": TERSE,
        "steps.md": STEPS,
        "targets.yaml": TARGETS,
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run_prompts(proctor: Proctor, *arguments: str) -> list[Any]:
    result = proctor("run", "cases.csv", "-t", "echo", "--holdout=0", "--json", *arguments)
    assert result.code in (0, 1), result.err
    runs: list[Any] = result.json["runs"]
    return runs


def answers(proctor: Proctor, run: str) -> dict[str, str]:
    assert proctor("runs", "export", run, "-o", "trials.jsonl").code == 0
    rows = map(json.loads, Path("trials.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["case_id"]: row["output"]["text"] for row in rows}


def test_each_prompt_makes_a_run_on_each_target_in_one_group(files: Path, proctor: Proctor) -> None:
    runs = run_prompts(proctor, "--prompt=terse.txt", "--prompt", "short=steps.md", "-t", "other")
    assert len(runs) == 4
    assert len({run["group"] for run in runs}) == 1
    assert answers(proctor, runs[0]["run"]) == {"a": "Name: Lima", "b": "Name: Oslo", "c": "Name: Bern"}
    assert answers(proctor, runs[2]["run"])["a"] == "Lima, step by step"
    assert [run["passed"] for run in runs] == [2, 2, 0, 0]


def test_an_answer_is_reused_for_the_same_prompt_only(files: Path, proctor: Proctor) -> None:
    run_prompts(proctor, "-pterse.txt")
    (again,) = run_prompts(proctor, "-prenamed=terse.txt", "--reuse")
    assert again["reused"] == 3
    (files / "terse.txt").write_text("Name:  {{ input }}", encoding="utf-8")
    (edited,) = run_prompts(proctor, "-pterse.txt", "--reuse")
    assert edited["reused"] == 0


def test_a_prompt_of_the_store_is_used_where_there_is_no_such_file(files: Path, proctor: Proctor) -> None:
    run_prompts(proctor, "-pterse.txt")
    (files / "terse.txt").unlink()
    result = proctor("run", "cases.csv", "-t", "echo", "--holdout=0", "-pterse")
    assert "There is no file 'terse', so the prompt of that name in the store is used." in result.err
    assert answers(proctor, "last")["a"] == "Name: Lima"


def test_a_run_is_graded_again_with_its_prompt(files: Path, proctor: Proctor) -> None:
    run_prompts(proctor, "-pterse.txt")
    assert proctor("regrade", "last", "--json").run["passed"] == 2


def test_a_suite_without_a_variable_of_the_prompt_grades_nothing_again(files: Path, proctor: Proctor) -> None:
    (files / "cases.csv").write_text("id,input,expected,city\na,x,x,Lima\n", encoding="utf-8")
    (files / "city.txt").write_text("{{ input }} {{ city }}", encoding="utf-8")
    (run,) = run_prompts(proctor, "-pcity.txt")
    (files / "other.csv").write_text("id,input,expected\na,x,x\n", encoding="utf-8")
    result = proctor("regrade", run["run"], "--suite", "other.csv")
    assert result.code == 4
    assert "The prompt 'city' uses `{{ city }}`, and case 'a' has no value for it." in result.err
    assert len(proctor("runs", "list", "--json").json["runs"]) == 1


def test_a_bundle_is_derived_again_with_the_prompt(files: Path, proctor: Proctor) -> None:
    run_prompts(proctor, "-psteps.md")
    proctor("attest", "last", "-o", "b.zip")
    assert proctor("verify", "b.zip").code == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["-pnope.txt"], "There is no prompt file 'nope.txt'. Write --prompt FILE or --prompt NAME=FILE."),
        (["-pName {{ input }}"], "To use a text as a prompt, save it in a file."),
        (["-p."], "has an empty name"),
        (["-px=."], "The prompt file '.' cannot be read"),
        (["-pterse.txt", "-pterse=steps.md"], "Two prompts are named 'terse'."),
        (["-p =terse.txt"], "has an empty name"),
        (
            ["-pcity.txt"],
            "cases.csv: error: The prompt 'city' uses `{{ city }}`, and 3 cases, such as 'a', have",
        ),
    ],
)
def test_a_prompt_that_cannot_be_used_is_an_error_before_anything_is_sent(
    files: Path, proctor: Proctor, arguments: list[str], problem: str
) -> None:
    (files / "city.txt").write_text("{{ city }}", encoding="utf-8")
    result = proctor("run", "cases.csv", "-t", "echo", *arguments)
    assert result.code == 4
    assert problem in result.err


def test_two_prompts_of_the_same_text_are_a_warning(files: Path, proctor: Proctor) -> None:
    result = proctor("run", "cases.csv", "-t", "echo", "-pterse.txt", "-pother=terse.txt")
    assert "The prompts 'terse' and 'other' have the same text." in result.err
