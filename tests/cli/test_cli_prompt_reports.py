"""What commands show of the prompt of a run, and where `proctor.toml` names prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proctor.codec import template_digest
from proctor.model import Message, PromptTemplate
from support.cli import Proctor

TERSE = PromptTemplate(name="terse", messages=(Message(role="user", content="Q: {{ input }}"),))
DIGEST = template_digest(TERSE)


@pytest.fixture(autouse=True)
def suite_and_prompts(folder: Path) -> None:
    """A suite of one case, and two prompts."""
    (folder / "s.jsonl").write_text('{"id": "a", "input": "Lima", "expected": "Lima"}\n', encoding="utf-8")
    (folder / "prompts").mkdir()
    (folder / "prompts" / "terse.txt").write_text("Q: {{ input }}", encoding="utf-8")
    (folder / "prompts" / "steps.md").write_text("# system\nThink.\n# user\n{{ input }}", encoding="utf-8")


@pytest.fixture
def group(proctor: Proctor) -> list[dict[str, Any]]:
    """The runs of both prompts on `echo`."""
    words = ("--prompt", "prompts/terse.txt", "--prompt", "prompts/steps.md")
    result = proctor("run", "s.jsonl", "--target", "echo", *words, "--json", "-o", "t.xml", "-o", "t.md")
    return list(result.json["runs"])


def test_records_have_the_name_and_the_digest(group: list[dict[str, Any]], proctor: Proctor) -> None:
    assert [run["prompt"]["name"] for run in group] == ["terse", "steps"]
    assert group[0]["prompt"] == {"name": "terse", "digest": DIGEST}
    rows = proctor("runs", "list", "--json").json["runs"]
    assert rows[-1]["prompt"] == group[0]["prompt"]
    proctor("run", "s.jsonl", "--target", "echo")
    assert proctor("runs", "list", "--json").json["runs"][0]["prompt"] is None


def test_reports_tell_runs_apart_by_their_prompts(group: list[dict[str, Any]], folder: Path) -> None:
    assert len(group) == 2
    junit = (folder / "t.xml").read_text(encoding="utf-8")
    markdown = (folder / "t.md").read_text(encoding="utf-8")
    for name in ("terse", "steps"):
        assert f'<testsuite name="s on echo · {name}"' in junit
        assert f"# s v1 on echo · {name}" in markdown


def test_a_comparison_names_the_prompts_of_both_sides(group: list[dict[str, Any]], proctor: Proctor) -> None:
    result = proctor("compare", group[0]["run"], group[1]["run"]).out.splitlines()
    assert [line.split()[:2] for line in result if line.startswith(("baseline ", "candidate "))][:2] == [
        ["baseline", "terse"],
        ["candidate", "steps"],
    ]


def test_exported_trials_have_the_name(group: list[dict[str, Any]], proctor: Proctor, folder: Path) -> None:
    proctor("runs", "export", *(run["run"] for run in group), "-o", "t.jsonl")
    rows = [json.loads(line) for line in (folder / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["target"], row["prompt"]) for row in rows] == [("echo", "terse"), ("echo", "steps")]
    proctor("runs", "export", group[0]["run"], "-o", "t.csv")
    assert ",echo,terse,a," in (folder / "t.csv").read_text(encoding="utf-8")
    proctor("runs", "export", group[0]["run"], "-o", "t.html")
    html = (folder / "t.html").read_text(encoding="utf-8")
    assert "s v1 on echo · terse" in html
    assert DIGEST in html


def test_the_list_is_filtered_by_the_name(group: list[dict[str, Any]], proctor: Proctor) -> None:
    result = proctor("runs", "list", "--prompt", "terse")
    assert "s v1 on echo · terse" in result.out
    assert "steps" not in result.out
    assert "No stored run matches." in proctor("runs", "list", "--prompt", "other").out
    assert len(group) == 2


def test_a_run_shows_its_prompt(group: list[dict[str, Any]], proctor: Proctor) -> None:
    terse, steps = (run["run"] for run in group)
    report = proctor("runs", "show", terse).out
    assert "s v1 on echo · terse" in report
    assert f"Prompt terse, {DIGEST}: proctor runs show {terse} --prompt" in report
    assert proctor("runs", "show", terse, "--prompt").out == "Q: {{ input }}\n"
    assert proctor("runs", "show", steps, "--prompt").out == "# system\nThink.\n\n# user\n{{ input }}\n"
    row = proctor("runs", "show", steps, "--prompt", "--json").json
    assert (row["name"], row["digest"]) == (group[1]["prompt"]["name"], group[1]["prompt"]["digest"])
    assert row["messages"] == [
        {"role": "system", "content": "Think."},
        {"role": "user", "content": "{{ input }}"},
    ]


def test_what_is_no_prompt_to_show_is_said(proctor: Proctor, group: list[dict[str, Any]]) -> None:
    result = proctor("runs", "show", group[0]["run"], "--prompt", "--failures")
    assert (result.code, "Remove --failures and --case" in result.err) == (4, True)
    proctor("run", "s.jsonl", "--target", "echo")
    result = proctor("runs", "show", "last", "--prompt")
    assert result.code == 4
    assert "has no prompt: its cases were sent as they are." in result.err


def test_hostile_text_of_a_prompt_cannot_act_on_a_terminal(proctor: Proctor, folder: Path) -> None:
    (folder / "bad.txt").write_text("\x1b[2J\u202e{{ input }}", encoding="utf-8")
    proctor("run", "s.jsonl", "--target", "echo", "--prompt", "bad.txt", "--quiet")
    report = proctor("runs", "show", "last", "--prompt").out
    assert "\x1b" not in report
    assert "\u202e" not in report


def test_the_project_names_prompts_from_its_own_folder(
    proctor: Proctor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'suite = "s.jsonl"\ntarget = "echo"\nprompt = ["prompts/terse.txt", "slow=prompts/steps.md"]\n'
    (folder / "proctor.toml").write_text(text, encoding="utf-8")
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    result = proctor("run", "--json")
    assert [run["prompt"]["name"] for run in result.json["runs"]] == ["terse", "slow"]
    result = proctor("run", "--json", "--prompt", "own=../prompts/terse.txt")
    assert [run["prompt"]["name"] for run in result.json["runs"]] == ["own"]


def test_a_wrong_value_in_the_project_is_said(proctor: Proctor, folder: Path) -> None:
    (folder / "proctor.toml").write_text("prompt = [3]\n", encoding="utf-8")
    result = proctor("run", "s.jsonl", "--target", "echo")
    assert (result.code, "`prompt` is [3]. Give a text or a list of these." in result.err) == (4, True)


def test_last_failed_goes_by_the_prompt(group: list[dict[str, Any]], proctor: Proctor) -> None:
    words = ("run", "s.jsonl", "--target", "echo", "--prompt", "prompts/terse.txt")
    result = proctor(*words, "--last-failed")
    assert (
        f"s on echo · terse: running only the 1 case that failed or errored in run {group[0]['run']}."
        in result.err
    )
    result = proctor(*words, f"--last-failed={group[1]['run']}")
    assert result.code == 4
    assert f"Run {group[1]['run']} is a run of s on echo · steps, which this command does not" in result.err


def test_verify_and_attest_name_the_prompt(group: list[dict[str, Any]], proctor: Proctor) -> None:
    result = proctor("attest", group[0]["run"], "-o", "b", "--no-sign")
    assert "on echo · terse" in result.out, result
    report = proctor("verify", "b").out
    assert f"\nprompt     terse, {DIGEST}\n" in report
    (row,) = proctor("verify", "b", "--json").json["bundles"]
    assert (row["prompt"], row["prompt_digest"]) == ("terse", DIGEST)
