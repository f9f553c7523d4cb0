"""What hooks are called with, what they read, and how they fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import WorkspaceError
from proctor.model import Attachment, Case, Hook, Message
from proctor.workspaces.hooks import HookContext, HookName, join_input_texts, run_hook
from support.workspaces import Ground

WORKSPACE = Path("/made/0001")
CASE = Case(
    id="sum",
    input=(Message(role="system", content="Be brief."), Message(role="user", content="Grüße & {{test_id}}")),
    metadata={"commit": "abc", "n": 1},
)


async def _run(
    ground: Ground, hook: Hook, moment: HookName = "before_each", case: Case | None = CASE
) -> None:
    scene = HookContext(workspace=WORKSPACE, run_id="run-1", case=case)
    await run_hook(hook, moment, scene, ground.programs)


@pytest.mark.parametrize(
    ("case", "hook_input"),
    [
        (
            CASE,
            {
                "workspace_path": "/made/0001",
                "test_id": "sum",
                "eval_run_id": "run-1",
                "case_input": "Be brief. Grüße & {{test_id}}",
                "case_metadata": {"commit": "abc", "n": 1},
            },
        ),
        (
            None,
            {
                "workspace_path": "/made/0001",
                "test_id": "__before_all__",
                "eval_run_id": "run-1",
                "case_input": None,
                "case_metadata": None,
            },
        ),
    ],
)
async def test_a_hook_reads_who_it_is_for(
    ground: Ground, case: Case | None, hook_input: dict[str, Any]
) -> None:
    await _run(ground, ground.sh("cat > told"), "before_all", case)
    assert json.loads((ground.suite / "told").read_text(encoding="utf-8")) == hook_input


async def test_placeholders_are_filled_once_and_others_stay(ground: Ground) -> None:
    words = ("{{test_id}}-{{ eval_run_id }}", "{{case_input}}", "{{case_metadata}}", "{{other}}", "$HOME")
    script = "import json, sys; json.dump(sys.argv[1:], open('told', 'w'))"
    await _run(ground, Hook(command=("python", "-c", script, *words)))
    assert json.loads((ground.suite / "told").read_text(encoding="utf-8")) == [
        "sum-run-1",
        "Be brief. Grüße & {{test_id}}",
        '{"commit": "abc", "n": 1}',
        "{{other}}",
        "$HOME",
    ]


async def test_what_is_null_fills_a_placeholder_with_nothing(ground: Ground) -> None:
    hook = Hook(
        command=(
            "sh",
            "-c",
            'echo "$1|$2|$3" > told',
            "sh",
            "{{test_id}}",
            "{{case_input}}",
            "{{case_metadata}}",
        )
    )
    await _run(ground, hook, "after_all", None)
    assert (ground.suite / "told").read_text(encoding="utf-8") == "__after_all__||\n"


async def test_a_hook_runs_in_the_folder_that_it_names(ground: Ground) -> None:
    ground.write("setup/here")
    await _run(ground, ground.sh("test -e here", cwd="setup"))


async def test_a_hook_without_a_command_does_nothing(ground: Ground) -> None:
    await _run(ground, Hook(reset="fast"))


async def test_git_in_a_workspace_finds_no_repository_around_it(ground: Ground) -> None:
    ground.run_git(ground.suite, "init", "--quiet")
    (ground.suite / "made" / "0001").mkdir(parents=True)
    scene = HookContext(workspace=ground.suite / "made" / "0001", run_id="r", case=None)
    hook = ground.sh("cd made/0001 && ! git rev-parse 2>/dev/null")
    await run_hook(hook, "before_all", scene, ground.programs)


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (
            Hook(command=("sh", "-c", "echo out; echo err >&2; exit 3")),
            r"^The before_each hook failed: .* ended with exit code 3: err$",
        ),
        (Hook(command=("sh", "-c", "echo only out; exit 1")), r"ended with exit code 1: only out$"),
        (Hook(command=("sh", "-c", "kill -9 $$")), r"was killed by SIGKILL\.$"),
        (Hook(command=("sh", "-c", "sleep 9"), timeout_s=0.05), r"did not end within 0\.05 s"),
        (Hook(command=("no-such-program",)), r"There is no program 'no-such-program'"),
        (Hook(command=("true",), cwd="missing"), r"There is no folder 'missing'"),
        (
            Hook(command=(sys.executable, "-c", "print('x' * 9_000); raise SystemExit(1)")),
            r"code 1: …x{1999}$",
        ),
    ],
)
async def test_a_hook_that_fails_says_why(ground: Ground, hook: Hook, message: str) -> None:
    with pytest.raises(WorkspaceError, match=message):
        await _run(ground, hook)


def test_the_input_of_a_case_is_its_texts_without_its_files() -> None:
    image = Attachment(kind="image", path="a.png", data=b"x")
    messages = (
        Message(role="system"),
        Message(role="user", content="Look.\n\nWell?", parts=("Look.", image, "Well?")),
        Message(role="user", content="Now."),
    )
    assert join_input_texts(messages) == "Look. Well? Now."
