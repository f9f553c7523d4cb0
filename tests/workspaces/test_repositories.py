"""Git repositories into a workspace."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import WorkspaceError
from proctor.model import Repository
from proctor.workspaces.repositories import checkout_repository
from support.workspaces import Ground


@pytest.fixture
def workspace(ground: Ground) -> Path:
    folder = ground.suite.parent / "workspace"
    folder.mkdir()
    return folder


async def _checkout(ground: Ground, workspace: Path, **fields: Any) -> Path:
    defaults: dict[str, Any] = {"path": "repo", "source": "../origin", "local": True}
    await checkout_repository(Repository(**defaults | fields), workspace, ground.suite, ground.git)
    return workspace / "repo"


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({}, "4"),
        ({"ref": "v2"}, "2"),
        ({"depth": 1, "ancestor": 3}, "1"),
        pytest.param({"ref": "main"}, "4", marks=pytest.mark.slow),
        pytest.param({"ref": "side"}, "2", marks=pytest.mark.slow),
        pytest.param({"ref": "main~3"}, "1", marks=pytest.mark.slow),
        pytest.param({"ancestor": 1}, "3", marks=pytest.mark.slow),
        pytest.param({"ref": "side", "ancestor": 1}, "1", marks=pytest.mark.slow),
        pytest.param({"depth": 1}, "4", marks=pytest.mark.slow),
        pytest.param({"depth": 1, "ref": "side"}, "2", marks=pytest.mark.slow),
        pytest.param({"depth": 1, "ref": "v2", "ancestor": 1}, "1", marks=pytest.mark.slow),
    ],
)
async def test_the_commit_that_is_asked_for_is_checked_out(
    ground: Ground, origin: Path, workspace: Path, fields: dict[str, Any], number: str
) -> None:
    repo = await _checkout(ground, workspace, **fields)
    assert (repo / "n").read_text(encoding="utf-8") == f"{number}\n"
    assert ground.run_git(repo, "status", "--porcelain") == ""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("fields", [{}, {"depth": 1, "ancestor": 1}, {"depth": 1, "ref": "v2"}])
async def test_a_repository_of_another_user_can_be_cloned(
    ground: Ground, origin: Path, workspace: Path, fields: dict[str, Any]
) -> None:
    for path in (origin, *origin.rglob("*")):
        os.chown(path, 65534, 65534)
    assert (await _checkout(ground, workspace, **fields) / "n").is_file()


@pytest.mark.slow
async def test_a_digest_and_an_address_do_as_well(ground: Ground, origin: Path, workspace: Path) -> None:
    digest = ground.run_git(origin, "rev-parse", "v2")
    for fields in ({"path": "a", "ref": digest}, {"path": "b", "ref": digest, "depth": 1}):
        await _checkout(ground, workspace, source=origin.as_uri(), local=False, **fields)
        file = workspace / str(fields["path"]) / "n"
        assert file.read_text(encoding="utf-8") == "2\n"


async def test_a_depth_leaves_out_what_came_before(ground: Ground, origin: Path, workspace: Path) -> None:
    repo = await _checkout(ground, workspace, depth=2)
    assert ground.run_git(repo, "log", "--format=%s").split() == ["4", "3"]


async def test_a_sparse_clone_has_the_files_at_the_top_and_the_named_folders(
    ground: Ground, origin: Path, workspace: Path
) -> None:
    repo = await _checkout(ground, workspace, sparse=("kept",))
    assert sorted(path.name for path in repo.iterdir()) == [".git", "kept", "n"]


async def test_nothing_can_be_pushed_to_where_it_came_from(
    ground: Ground, origin: Path, workspace: Path
) -> None:
    repo = await _checkout(ground, workspace)
    with pytest.raises(subprocess.CalledProcessError):
        ground.run_git(repo, "push", "origin", "HEAD:refs/heads/new")
    assert ground.run_git(origin, "branch", "--format=%(refname:short)").split() == ["main", "side"]


async def test_a_clone_shares_no_file_with_the_folder_it_came_from(
    ground: Ground, origin: Path, workspace: Path
) -> None:
    repo = await _checkout(ground, workspace)
    objects = [path for path in (repo / ".git" / "objects").rglob("*") if path.is_file()]
    assert {path.stat().st_nlink for path in objects} == {1}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ref": "nowhere"}, r"couldn't find remote ref nowhere"),
        ({"ref": "nowhere", "depth": 1}, r"couldn't find remote ref nowhere"),
        ({"ref": "--upload-pack=touch x"}, r"a ref cannot begin with '-'"),
        ({"ancestor": 4}, r"Fewer than 4 commits come before 'HEAD'"),
        ({"ancestor": 4, "depth": 1}, r"Fewer than 4 commits come before 'HEAD'"),
        ({"source": "../missing"}, r"'../missing' cannot be cloned.*There is no such folder"),
        ({"source": "."}, r"`git clone` ended with exit code 128: .*does not exist"),
        ({"source": "ext::sh -c 'touch x'", "local": False}, r"transport 'ext' not allowed"),
        ({"path": "../repo"}, r"The path of a repository is '../repo'"),
        ({"path": "taken"}, r"already exists and is not an empty directory"),
    ],
)
async def test_what_cannot_be_had_says_why(
    ground: Ground, origin: Path, workspace: Path, fields: dict[str, Any], message: str
) -> None:
    (workspace / "taken").mkdir()
    (workspace / "taken" / "file").touch()
    with pytest.raises(WorkspaceError, match=f"(?s){message}"):
        await _checkout(ground, workspace, **fields)


async def test_a_repository_does_not_go_through_a_link_out_of_the_workspace(
    ground: Ground, origin: Path, workspace: Path
) -> None:
    (workspace / "link").symlink_to(ground.suite)
    with pytest.raises(WorkspaceError, match="leads outside the workspace through a link"):
        await _checkout(ground, workspace, path="link/repo")
    assert list(ground.suite.iterdir()) == []
