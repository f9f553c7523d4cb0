"""The life of workspaces: the order of hooks, shared folders, and which cases a failure affects."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Literal

import pytest

from proctor.errors import WorkspaceError
from proctor.model import Hooks, Repository, Workspace
from support.waiting import PATIENCE_S
from support.workspaces import Ground

MOMENTS = ("before_all", "before_each", "after_each", "after_all")
ISOLATIONS: tuple[Literal["shared", "per_test"], ...] = ("shared", "per_test")


# --- the order of things -----------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_the_hooks_of_all_run_once_and_those_of_each_for_each(ground: Ground, isolation: Any) -> None:
    environment = ground.environment()
    workspace = Workspace(hooks=ground.logging(*MOMENTS), isolation=isolation)
    for name in ("one", "two"):
        async with ground.stay(environment, ground.case(name, workspace)):
            ground.log()
    await environment.aclose()
    assert ground.log() == [
        "before_all __before_all__",
        *("before_each one", "after_each one"),
        *("before_each two", "after_each two"),
        "after_all __after_all__",
    ]
    assert ground.list_files() == []
    assert ground.warnings == []


async def test_each_step_finds_what_the_steps_before_it_made(ground: Ground, origin: Path) -> None:
    ground.write("template/file", "t")
    workspace = Workspace(
        template="template",
        repositories=(Repository(path="sub/repo", source="../origin", local=True),),
        hooks=Hooks(
            before_all=ground.sh("cd $1 && cat file sub/repo/n > all"),
            before_each=ground.sh("cd $1 && cp all each"),
            after_each=ground.sh("cp $1/answer ."),
            after_all=ground.sh("cp $1/answer last"),
        ),
    )
    environment = ground.environment()
    async with ground.stay(environment, ground.case(workspace=workspace)) as (stay, folder):
        (folder / "answer").write_bytes((folder / "each").read_bytes())
        assert "+++ b/answer\n@@ -0,0 +1 @@\n+t4\n" in (await stay.diff() or "")
    await environment.aclose()
    for name in ("answer", "last"):
        assert (ground.suite / name).read_text(encoding="utf-8") == "t4\n"
    assert ground.warnings == []


async def test_the_changes_of_a_test_are_its_own(ground: Ground) -> None:
    environment = ground.environment()
    workspace = Workspace(hooks=Hooks(before_each=ground.sh("date +%N > $1/{{test_id}}-set-up")))
    for name in ("one", "two"):
        async with ground.stay(environment, ground.case(name, workspace)) as (stay, folder):
            assert await stay.diff() is None
            (folder / name).touch()
            text = await stay.diff() or ""
            assert [line for line in text.splitlines() if line.startswith("diff")] == [
                f"diff --git a/{name} b/{name}"
            ]


async def test_a_group_of_one_case_has_that_case_in_the_hooks_of_all(ground: Ground) -> None:
    environment = ground.environment()
    hooks = Hooks(before_all=ground.sh("cat > before"), after_all=ground.sh("cat > after"))
    case = ground.case(workspace=Workspace(hooks=hooks), metadata={"commit": "abc"})
    environment.expect(case, 2)
    async with ground.stay(environment, case):
        pass
    await environment.aclose()
    for name in ("before", "after"):
        hook_input = json.loads((ground.suite / name).read_text(encoding="utf-8"))
        assert (hook_input["test_id"], hook_input["case_metadata"]) == ("one", {"commit": "abc"})
        assert hook_input["case_input"] == "Do one."
        assert hook_input["eval_run_id"] == "20260301-120000-abc123"


async def test_a_group_is_closed_as_soon_as_its_last_trial_has_ended(ground: Ground) -> None:
    environment = ground.environment()
    workspace = Workspace(hooks=ground.logging("after_all"))
    cases = [ground.case(name, workspace) for name in ("one", "two")]
    for case in cases:
        environment.expect(case, 1)
    async with ground.stay(environment, cases[0]):
        pass
    assert ground.log() == []
    async with ground.stay(environment, cases[1]):
        pass
    assert ground.log() == ["after_all __after_all__"]
    async with ground.stay(environment, cases[1]) as (_, folder):
        assert folder.is_dir()
    await environment.aclose()
    await environment.aclose()
    assert ground.log() == ["after_all __after_all__"] * 2
    assert ground.list_files() == []


async def test_a_trial_that_nobody_expected_is_not_thrown_out(ground: Ground) -> None:
    environment = ground.environment()
    case = ground.case(workspace=Workspace(isolation="per_test"))
    environment.expect(case, 1)
    async with ground.stay(environment, case) as (_, folder):
        async with ground.stay(environment, case):
            pass
        assert folder.is_dir()
    assert not folder.exists()


async def test_different_workspaces_are_different_groups(ground: Ground) -> None:
    environment = ground.environment()
    first_case = ground.case("one", Workspace(hooks=ground.logging("before_all")))
    second_case = ground.case("two", Workspace(hooks=ground.logging("before_all", "before_each")))
    async with (
        ground.stay(environment, first_case) as (_, first),
        ground.stay(environment, second_case) as (_, other),
    ):
        assert first != other
    await environment.aclose()
    assert ground.log() == ["before_all __before_all__", "before_all __before_all__", "before_each two"]


# --- who shares what ---------------------------------------------------------------------------------------


async def test_trials_are_in_a_shared_folder_one_after_the_other_in_the_order_they_came(
    ground: Ground,
) -> None:
    environment = ground.environment()
    steps: list[str] = []

    async def trial(name: str) -> None:
        async with ground.stay(environment, ground.case(name)) as (_, folder):
            steps.append(f"in {name} {len(list(folder.iterdir()))}")
            await asyncio.sleep(0.002)
            (folder / name).touch()
            steps.append(f"out {name}")

    await asyncio.gather(*(trial(name) for name in "abc"))
    await environment.aclose()
    assert steps == ["in a 0", "out a", "in b 1", "out b", "in c 2", "out c"]


async def test_nothing_leaks_where_each_test_has_its_own_folder(ground: Ground) -> None:
    ground.write("template/file", "t")
    hooks = Hooks(before_all=ground.sh("ln -s $1/file $1/link; echo p > $1/prepared"))
    workspace = Workspace(template="template", isolation="per_test", hooks=hooks)
    environment = ground.environment()
    together = asyncio.Barrier(3)

    async def trial(name: str) -> None:
        async with ground.stay(environment, ground.case(name, workspace)) as (stay, folder):
            await together.wait()
            (folder / "link").write_text(name, encoding="utf-8")
            (folder / "prepared").write_text(name, encoding="utf-8")
            (folder / name).touch()
            await together.wait()
            assert (folder / "file").read_text(encoding="utf-8") == name
            assert sorted(path.name for path in folder.iterdir()) == sorted(
                ["file", "link", "prepared", name]
            )
            assert (await stay.diff() or "").count("diff --git") == 3

    await asyncio.wait_for(asyncio.gather(*(trial(name) for name in "abc")), PATIENCE_S)
    async with ground.stay(environment, ground.case("d", workspace)) as (_, folder):
        assert (folder / "link").read_text(encoding="utf-8") == "t"
        assert (folder / "prepared").read_text(encoding="utf-8") == "p\n"
    await environment.aclose()
    assert ground.list_files() == []
    assert (ground.suite / "template" / "file").read_text(encoding="utf-8") == "t"


async def test_no_folder_is_named_after_a_test(ground: Ground) -> None:
    environment = ground.environment()
    workspace = Workspace(isolation="per_test")
    for name in ("../../up", "/abs", "a\nb", "." * 300):
        async with ground.stay(environment, ground.case(name, workspace)) as (_, folder):
            assert folder.parent == ground.root / "20260301-120000-abc123"
            assert folder.name.isdigit()


# --- what fails whom ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_a_failing_before_all_fails_every_test_of_its_group_and_no_other(
    ground: Ground, isolation: Any
) -> None:
    environment = ground.environment()
    broken = Workspace(
        isolation=isolation, hooks=Hooks(before_all=ground.sh("echo ran >> log; echo no disk >&2; exit 4"))
    )
    for name in ("one", "two"):
        with pytest.raises(WorkspaceError, match=r"before_all hook failed: .* exit code 4: no disk"):
            await environment.enter(ground.case(name, broken), 0)
    async with ground.stay(environment, ground.case("three")):
        pass
    await environment.aclose()
    assert ground.log() == ["ran"]
    assert ground.list_files() == []


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_a_failing_before_each_fails_its_test_only(ground: Ground, isolation: Any) -> None:
    environment = ground.environment()
    hooks = Hooks(
        before_each=ground.sh('echo x > $1/half; test "{{test_id}}" != one'),
        after_each=ground.sh("echo {{test_id}} >> log", reset="strict"),
    )
    workspace = Workspace(isolation=isolation, hooks=hooks)
    with pytest.raises(WorkspaceError, match=r"^The before_each hook failed"):
        await environment.enter(ground.case("one", workspace), 0)
    async with ground.stay(environment, ground.case("two", workspace)) as (stay, _):
        assert await stay.diff() is None
    await environment.aclose()
    assert ground.log() == ["two"]


async def test_failing_hooks_after_a_test_are_warnings(ground: Ground) -> None:
    environment = ground.environment()
    hooks = Hooks(after_each=ground.sh("exit 1"), after_all=ground.sh("exit 2"))
    for _ in range(2):
        async with ground.stay(environment, ground.case("one", Workspace(hooks=hooks))):
            pass
    await environment.aclose()
    assert [text.partition(":")[0] for text in ground.warnings] == [
        "After test 'one'",
        "After the last test of a workspace",
    ]
    assert ground.list_files() == []


async def test_a_missing_template_says_where_its_path_begins(ground: Ground) -> None:
    with pytest.raises(
        WorkspaceError, match=r"no folder 'nowhere' for the template .* the folder of the suite"
    ):
        await ground.environment().enter(ground.case(workspace=Workspace(template="nowhere")), 0)


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_where_no_folder_can_be_made_another_place_is_suggested(ground: Ground, isolation: Any) -> None:
    ground.root.write_text("no folder", encoding="utf-8")
    with pytest.raises(WorkspaceError, match=r"could not be created: .*set PROCTOR_CACHE\."):
        await ground.environment().enter(ground.case(workspace=Workspace(isolation=isolation)), 0)


async def test_without_git_changes_are_not_told_and_the_user_is(ground: Ground) -> None:
    environment = ground.environment(environ={"PATH": str(ground.suite)})
    for name in ("one", "two"):
        async with ground.stay(environment, ground.case(name)) as (stay, folder):
            (folder / name).touch()
            assert await stay.diff() is None
    await environment.aclose()
    assert len(ground.warnings) == 1
    assert "no git" in ground.warnings[0]


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_a_trial_that_is_cancelled_in_a_hook_lets_the_next_one_in(
    ground: Ground, isolation: Any
) -> None:
    environment = ground.environment()
    hooks = Hooks(before_each=ground.sh("test {{test_id}} != slow || { echo in >> log; sleep 3600; }"))
    workspace = Workspace(isolation=isolation, hooks=hooks)
    slow = asyncio.create_task(environment.enter(ground.case("slow", workspace), 0))
    while not ground.log():
        await asyncio.sleep(0.005)
    waiting = asyncio.create_task(environment.enter(ground.case("waiting", workspace), 0))
    await asyncio.sleep(0.01)
    slow.cancel()
    stay = await asyncio.wait_for(waiting, PATIENCE_S)
    await asyncio.wait([slow])
    assert slow.cancelled()
    await environment.leave(stay, passed=True)
    await environment.aclose()
    assert ground.list_files() == []


async def test_a_trial_that_is_cancelled_while_before_all_runs_leaves_that_to_the_next(
    ground: Ground,
) -> None:
    environment = ground.environment()
    until_go = ground.sh("echo in >> log; until [ -e go ]; do sleep 0.01; done")
    case = ground.case(workspace=Workspace(hooks=Hooks(before_all=until_go)))
    first = asyncio.create_task(environment.enter(case, 0))
    while not ground.log():
        await asyncio.sleep(0.005)
    first.cancel()
    ground.write("go")
    async with ground.stay(environment, case):
        assert first.cancelled()
        assert ground.log() == ["in", "in"]
    await environment.aclose()
    assert ground.list_files() == []


async def test_what_was_never_left_is_closed_at_the_end(ground: Ground) -> None:
    environment = ground.environment()
    for isolation in ISOLATIONS:
        workspace = Workspace(isolation=isolation, hooks=ground.logging("after_all"))
        await environment.enter(ground.case(workspace=workspace), 0)
    await environment.aclose()
    assert ground.log() == ["after_all __after_all__"] * 2
    assert ground.list_files() == []
