"""The workflow that `proctor init` writes: its permissions, and the script that posts the report."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cli import Proctor
from support.waiting import PATIENCE_S

_GH = """#!{python}
import json, subprocess, sys
words = sys.argv[1:]
body = ""
if any(word.startswith("body=@") for word in words):
    body = open(words[-1].removeprefix("body=@"), encoding="utf-8").read()
with open("calls.jsonl", "a", encoding="utf-8") as calls:
    calls.write(json.dumps({{"words": words, "body": body}}) + "\\n")
if {is_fork} and ("POST" in words or "PATCH" in words):
    sys.exit("HTTP 403: Resource not accessible by integration")
if "--jq" in words:
    filter = words[words.index("--jq") + 1]
    subprocess.run(["jq", "-r", filter, "comments.json"], check=True)
"""
"""A `gh` that records its calls, lists comments from a file, and can have a read-only token."""

OWN = {"id": 7, "user": {"login": "github-actions[bot]"}, "body": "<!-- proctor -->\nthe last report"}
FOREIGN = [
    {"id": 5, "user": {"login": "ana"}, "body": "<!-- proctor -->\nquoted"},
    {"id": 6, "user": {"login": "github-actions[bot]"}, "body": "of another workflow"},
]


@pytest.fixture
def workflow(proctor: Proctor) -> dict[str, Any]:
    assert proctor("init").code == 0
    text = Path(".github/workflows/proctor.yml").read_text(encoding="utf-8")
    workflow: dict[str, Any] = yaml.safe_load(text)
    return workflow


def test_only_the_job_that_posts_may_write_and_only_comments(workflow: dict[str, Any]) -> None:
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {}
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "evaluate": {"contents": "read"},
        "comment": {"pull-requests": "write"},
    }
    actions = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert all(action.startswith("actions/") for action in actions)
    assert not any("checkout" in step.get("uses", "") for step in jobs["comment"]["steps"])
    assert jobs["evaluate"]["steps"][0]["with"] == {"persist-credentials": False}


def test_a_push_to_a_pull_request_runs_the_workflow_once(workflow: dict[Any, Any]) -> None:
    assert workflow[True] == {"push": {"branches": ["main"]}, "pull_request": None}  # YAML 1.1 reads `on` so


def test_target_and_gate_of_the_workflow_are_those_of_the_project_file(
    proctor: Proctor, workflow: dict[str, Any]
) -> None:
    (script,) = [
        step["run"] for step in workflow["jobs"]["evaluate"]["steps"] if "proctor run" in step.get("run", "")
    ]
    assert script == "proctor run suites/ -o proctor.xml -o proctor.md"
    settings = Path("proctor.toml").read_text(encoding="utf-8")
    for gate, code in (("0.9", 1), ("0", 0)):
        edited = settings.replace('\ntarget = ["local"]', '\ntarget = ["echo"]')
        edited = edited.replace("\nmin-pass-rate = 0.2", f"\nmin-pass-rate = {gate}")
        Path("proctor.toml").write_text(edited, encoding="utf-8")
        assert proctor(*script.split()[1:]).code == code
    assert "echo" in Path("proctor.md").read_text(encoding="utf-8")


def test_no_value_of_the_event_becomes_part_of_a_script(workflow: dict[str, Any]) -> None:
    scripts = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert not any("${{" in script for script in scripts)


@pytest.fixture
def post(workflow: dict[str, Any], folder: Path) -> Callable[..., list[dict[str, Any]]]:
    """Runs the script that posts the comment as GitHub does; returns the calls of `gh`."""
    if sys.platform == "win32" or not all(map(shutil.which, ("bash", "jq", "iconv"))):
        pytest.skip("bash, jq or iconv is missing")
    (script,) = [step["run"] for step in workflow["jobs"]["comment"]["steps"] if "run" in step]

    def run(comments: list[dict[str, Any]], *, is_fork: bool = False) -> list[dict[str, Any]]:
        (folder / "comments.json").write_text(json.dumps(comments), encoding="utf-8")
        (folder / "bin").mkdir()
        gh = folder / "bin/gh"
        gh.write_text(_GH.format(python=sys.executable, is_fork=is_fork), encoding="utf-8")
        gh.chmod(0o755)
        (folder / "script.sh").write_text(script, encoding="utf-8")
        environ = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "GITHUB_REPOSITORY": "ana/birds",
            "GITHUB_STEP_SUMMARY": "summary.md",
            "PULL_REQUEST": "3",
            "RUN": "https://github.com/ana/birds/actions/runs/1",
        }
        process = subprocess.run(
            ["bash", "-e", "script.sh"],
            env=environ,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        (folder / "out.txt").write_text(process.stdout, encoding="utf-8")
        if not Path("calls.jsonl").exists():
            return []
        return [json.loads(line) for line in Path("calls.jsonl").read_text(encoding="utf-8").splitlines()]

    return run


@pytest.mark.slow
def test_the_first_report_becomes_a_new_comment(post: Callable[..., Any]) -> None:
    Path("proctor.md").write_text("# Report\n", encoding="utf-8")
    listing, posting = post(FOREIGN)
    assert listing["words"][:3] == ["api", "--paginate", "repos/ana/birds/issues/3/comments"]
    assert posting["words"] == [
        *("api", "--silent", "--method", "POST", "repos/ana/birds/issues/3/comments"),
        *("-F", "body=@comment.md"),
    ]
    assert posting["body"].startswith("<!-- proctor -->\n# Report\n")
    assert "(https://github.com/ana/birds/actions/runs/1)" in posting["body"]


@pytest.mark.slow
def test_a_later_report_replaces_the_comment_and_no_other(post: Callable[..., Any]) -> None:
    Path("proctor.md").write_text("# Report\n", encoding="utf-8")
    _, patching = post([*FOREIGN, OWN, OWN | {"id": 8}])
    assert patching["words"][2:5] == ["--method", "PATCH", "repos/ana/birds/issues/comments/7"]


@pytest.mark.slow
def test_a_report_that_is_longer_than_a_comment_is_cut_between_letters(post: Callable[..., Any]) -> None:
    Path("proctor.md").write_text("x" + "é" * 60_000, encoding="utf-8")
    _, posting = post([])
    assert 29_000 < len(posting["body"]) < 65_536
    assert "\ufffd" not in posting["body"]
    assert posting["body"].rstrip().endswith(")")


@pytest.mark.slow
def test_a_pull_request_from_a_fork_passes_with_a_notice(post: Callable[..., Any]) -> None:
    Path("proctor.md").write_text("# Report\n", encoding="utf-8")
    post([OWN], is_fork=True)
    assert "::notice::" in Path("out.txt").read_text(encoding="utf-8")
    assert "was not posted" in Path("summary.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_without_a_report_nothing_is_posted(post: Callable[..., Any]) -> None:
    assert post([OWN]) == []
    assert "no suite was run" in Path("summary.md").read_text(encoding="utf-8")
