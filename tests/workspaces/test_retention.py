"""Which workspaces are kept after a run; folders of the user always stay."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import WorkspaceError
from proctor.model import Hook, Hooks, Repository, Workspace
from support.workspaces import Ground

# --- what is kept ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keep", "names"), [("none", []), ("failed", ["bad"]), ("all", ["good", "bad"])])
async def test_the_folders_that_are_kept_are_those_that_were_asked_for(
    ground: Ground, keep: Any, names: list[str]
) -> None:
    environment = ground.environment(keep=keep)
    workspace = Workspace(isolation="per_test")
    for name in ("good", "bad"):
        async with ground.stay(environment, ground.case(name, workspace), passed=name == "good") as (
            _,
            folder,
        ):
            (folder / name).touch()
    await environment.aclose()
    assert list(environment.kept_folders.values()) == names
    assert [(path / name).exists() for path, name in environment.kept_folders.items()] == [True] * len(names)
    assert len(ground.list_files()) == (1 + 2 * len(names) if names else 0)


async def test_a_shared_folder_is_kept_when_one_of_its_tests_did_not_pass(ground: Ground) -> None:
    environment = ground.environment(keep="failed")
    for name in ("one", "two"):
        async with ground.stay(environment, ground.case(name), passed=name == "two") as (_, folder):
            pass
    await environment.aclose()
    assert dict(environment.kept_folders) == {folder: ""}


async def test_the_folder_of_a_failed_before_all_is_kept_to_be_looked_at(ground: Ground) -> None:
    environment = ground.environment(keep="failed")
    case = ground.case(workspace=Workspace(hooks=Hooks(before_all=ground.sh("touch $1/half; exit 1"))))
    environment.expect(case)
    with pytest.raises(WorkspaceError):
        await environment.enter(case, 0)
    await environment.aclose()
    [(path, used_by)] = environment.kept_folders.items()
    assert (path / "half").exists()
    assert used_by == "one"


async def test_a_run_that_goes_on_does_not_touch_what_it_kept(ground: Ground) -> None:
    kept_folders = list[Path]()
    for _ in range(2):
        environment = ground.environment(keep="all")
        async with ground.stay(environment, ground.case()) as (_, folder):
            assert list(folder.iterdir()) == []
            (folder / "file").touch()
        await environment.aclose()
        kept_folders += environment.kept_folders
    assert len({*kept_folders}) == 2


# --- folders of the user's ---------------------------------------------------------------------------------


async def test_a_folder_of_the_users_is_used_as_it_is_and_stays(ground: Ground) -> None:
    ground.write("template/file", "t")
    ground.write("own/mine", "m")
    environment = ground.environment()
    workspace = Workspace(path="own", template="template")
    async with ground.stay(environment, ground.case(workspace=workspace)) as (stay, folder):
        assert folder == ground.suite / "own"
        (folder / "new").touch()
        assert (await stay.diff() or "").startswith("diff --git a/new b/new\nnew file mode")
    await environment.aclose()
    assert ground.names("own") == ["mine", "new"]
    assert ground.list_files() == []


@pytest.mark.parametrize("exists", [True, False])
async def test_an_empty_or_missing_folder_of_the_users_is_filled(ground: Ground, exists: bool) -> None:
    ground.write("template/file", "t")
    if exists:
        (ground.suite / "own").mkdir()
    environment = ground.environment()
    async with ground.stay(environment, ground.case(workspace=Workspace(path="own", template="template"))):
        pass
    await environment.aclose()
    assert ground.names("own") == ["file"]


async def test_a_folder_of_the_users_that_cannot_be_filled_is_as_empty_as_before(ground: Ground) -> None:
    ground.write("template/file", "t")
    workspace = Workspace(
        path="own", template="template", repositories=(Repository(path="r", source="nowhere", local=True),)
    )
    with pytest.raises(WorkspaceError, match="There is no such folder"):
        await ground.environment().enter(ground.case(workspace=workspace), 0)
    assert ground.names("own") == []


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("own", {"isolation": "per_test"}, "isolation per_test"),
        (".", {}, "in the suite itself"),
        ("..", {}, "in the suite itself"),
        ("/", {}, "in the root directory"),
        ("../home", {}, "in a home"),
        ("file", {}, "is not a folder"),
    ],
)
async def test_a_folder_that_no_agent_should_work_in_is_refused(
    ground: Ground, path: str, fields: dict[str, Any], message: str
) -> None:
    ground.write("file")
    environment = ground.environment(environ={**os.environ, "HOME": str(ground.suite.parent / "home")})
    with pytest.raises(WorkspaceError, match=message):
        await environment.enter(ground.case(workspace=Workspace(path=path, **fields)), 0)


async def test_two_groups_with_the_same_folder_wait_for_each_other(ground: Ground) -> None:
    environment = ground.environment()
    first_case = ground.case("one", Workspace(path="own"))
    second_case = ground.case(
        "two", Workspace(path="./own", hooks=Hooks(before_each=Hook(command=("true",))))
    )
    stay = await environment.enter(first_case, 0)
    other = asyncio.create_task(environment.enter(second_case, 0))
    await asyncio.sleep(0.05)
    assert not other.done()
    await environment.leave(stay, passed=True)
    await environment.leave(await other, passed=True)
