"""Environments over a suite's folder, and git repositories to clone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from shutil import copytree

import pytest
import pytest_asyncio

from support.workspaces import Folder, Ground


@pytest_asyncio.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    ground = Ground(tmp_path.resolve())
    yield ground
    for environment in ground.environments:
        await environment.aclose()


@pytest.fixture
def folder(ground: Ground) -> Iterator[Folder]:
    folder = Folder(ground)
    yield folder
    folder.contents.close()


@pytest.fixture(scope="session")
def commits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that each test gets a copy of."""
    folder = tmp_path_factory.mktemp("commits")
    for name in ("kept", "other"):
        (folder / name).mkdir()
        (folder / name / "file").write_text(f"{name}\n", encoding="utf-8")
    Ground.run_git(folder, "init", "--quiet")
    for number in range(1, 5):
        (folder / "n").write_text(f"{number}\n", encoding="utf-8")
        Ground.run_git(folder, "add", ".")
        Ground.run_git(folder, "commit", "--quiet", "-m", str(number))
        if number == 2:
            Ground.run_git(folder, "tag", "v2")
            Ground.run_git(folder, "branch", "side")
    return folder


@pytest.fixture
def origin(ground: Ground, commits: Path) -> Path:
    """A repository beside the suite: four commits that each write their number into `n`.

    The branch `side` and the tag `v2` are at the second one; there are the folders `kept` and `other`.
    """
    return copytree(commits, ground.suite.parent / "origin")
