"""What a hook undoes in a shared folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proctor.model import Hook, Hooks, Repository, Workspace
from support.workspaces import Ground

PREPARED = {".gitignore": "*.log\nbuild/\n", "file": "f", "gone": "g", "old.log": "o"}


def _spoil(folder: Path) -> None:
    for name in ("file", "old.log", ":!new.log", "build/x", "new/deep/file"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("spoilt", encoding="utf-8")
    (folder / "gone").unlink(missing_ok=True)


def _texts(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


@pytest.mark.parametrize(
    ("reset", "spoilt"),
    [
        ("strict", set[str]()),
        ("fast", {"old.log", ":!new.log", "build/x"}),
        ("none", {"old.log", ":!new.log", "build/x", "file", "new/deep/file"}),
    ],
)
@pytest.mark.parametrize("moment", ["before_each", "after_each"])
async def test_a_reset_goes_back_to_what_before_all_left(
    ground: Ground, moment: str, reset: Any, spoilt: set[str]
) -> None:
    for name in (".gitignore", "file", "gone"):
        ground.write(f"template/{name}", PREPARED[name])
    hooks = Hooks(before_all=ground.sh("printf o > $1/old.log"), **{moment: Hook(reset=reset)})
    case = ground.case(workspace=Workspace(template="template", hooks=hooks))
    environment = ground.environment()
    for _ in range(2):
        async with ground.stay(environment, case) as (_, folder):
            _spoil(folder)
    async with ground.stay(environment, case) as (_, folder):
        expected = {**PREPARED, **dict.fromkeys(spoilt, "spoilt")}
        if reset == "none":
            del expected["gone"]
        assert _texts(folder) == expected
        assert (folder / "new").exists() == (reset == "none")
    await environment.aclose()
    assert ground.warnings == []


@pytest.mark.slow
@pytest.mark.parametrize("reset", ["fast", "strict"])
async def test_a_reset_takes_back_commits_and_knows_what_each_repository_ignores(
    ground: Ground, origin: Path, reset: Any
) -> None:
    (origin / ".gitignore").write_text("*.tmp\nHEAD\n", encoding="utf-8")
    ground.run_git(origin, "add", ".")
    ground.run_git(origin, "commit", "--quiet", "-m", "ignore")
    workspace = Workspace(
        repositories=(Repository(path="repo", source="../origin", local=True),),
        hooks=Hooks(after_each=Hook(reset=reset)),
    )
    environment = ground.environment()
    state = ("log", "--format=%H", "-1"), ("status", "--porcelain"), ("branch", "--format=%(refname)")
    states = []
    for _ in range(2):
        async with ground.stay(environment, ground.case(workspace=workspace)) as (_, folder):
            repo = folder / "repo"
            states.append([ground.run_git(repo, *words) for words in state])
            assert (repo / "a.tmp").exists() == (reset == "fast" and len(states) == 2)
            (repo / "a.tmp").touch()
            (repo / "n").write_text("spoilt\n", encoding="utf-8")
            ground.run_git(repo, "checkout", "--quiet", "-b", "new")
            ground.run_git(repo, "commit", "--quiet", "-am", "spoilt")
    await environment.aclose()
    assert states[0] == states[1]
    assert states[0][1] == ""
    assert ground.warnings == []


async def test_what_a_test_left_is_there_until_its_after_each_has_run(ground: Ground) -> None:
    hooks = Hooks(after_each=ground.sh("cp $1/made .", reset="strict"))
    environment = ground.environment()
    async with ground.stay(environment, ground.case(workspace=Workspace(hooks=hooks))) as (_, folder):
        (folder / "made").write_text("m", encoding="utf-8")
    assert (ground.suite / "made").read_text(encoding="utf-8") == "m"
    assert list(folder.iterdir()) == []


async def test_a_before_each_that_resets_does_so_before_its_command(ground: Ground) -> None:
    hooks = Hooks(before_each=ground.sh("ls $1 >> log; touch $1/set-up", reset="strict"))
    environment = ground.environment()
    for _ in range(2):
        async with ground.stay(environment, ground.case(workspace=Workspace(hooks=hooks))) as (_, folder):
            assert [path.name for path in folder.iterdir()] == ["set-up"]
    await environment.aclose()
    assert ground.log() == []


async def test_the_hook_after_all_brings_a_folder_of_the_users_back(ground: Ground) -> None:
    ground.write("own/file", "f")
    workspace = Workspace(path="own", hooks=Hooks(after_all=Hook(reset="strict")))
    environment = ground.environment()
    async with ground.stay(environment, ground.case(workspace=workspace)) as (_, folder):
        (folder / "file").unlink()
        (folder / "new").touch()
    assert (folder / "new").exists()
    await environment.aclose()
    assert _texts(folder) == {"file": "f"}
