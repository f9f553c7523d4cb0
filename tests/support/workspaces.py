"""A suite's folder, the environments that make workspaces beside it, and a folder that is looked at."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Set
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from proctor.model import Case, Hook, Hooks, Message, Workspace
from proctor.protocols import WorkspaceVisit
from proctor.targets.process.suite_programs import SuiteProgramRunner
from proctor.workspaces.diffs import diff_snapshots
from proctor.workspaces.environment import Workspaces
from proctor.workspaces.git_command import Git
from proctor.workspaces.run_shared import WorkspaceRoot
from proctor.workspaces.snapshots import (
    EMPTY_SNAPSHOT,
    ContentStore,
    Snapshot,
    is_same,
    restore_snapshot,
    take_snapshot,
)


class Ground:
    """A suite's folder, and all that environments made for it have said."""

    def __init__(self, folder: Path) -> None:
        self.suite = folder / "suite"
        self.root = folder / "made"
        self.warnings: list[str] = []
        self.environments: list[Workspaces] = []
        self.suite.mkdir()
        self.programs = SuiteProgramRunner(str(self.suite), os.environ)
        self.git = Git(self.programs, os.environ)

    def environment(self, **fields: Any) -> Workspaces:
        options: dict[str, Any] = {
            "programs": self.programs,
            "keep": "none",
            "warn": self.warnings.append,
            "environ": os.environ,
        }
        site = WorkspaceRoot(str(self.suite), self.root, "20260301-120000-abc123", **options | fields)
        workspaces = Workspaces(site)
        self.environments.append(workspaces)
        return workspaces

    @asynccontextmanager
    async def stay(
        self, environment: Workspaces, case: Case, *, passed: bool = True
    ) -> AsyncIterator[tuple[WorkspaceVisit, Path]]:
        """A stay and its folder, left afterwards."""
        stay = await environment.enter(case, 0)
        try:
            yield stay, Path(stay.path)
        finally:
            await environment.leave(stay, passed=passed)

    @staticmethod
    def case(name: str = "one", workspace: Workspace | None = None, **fields: Any) -> Case:
        defaults: dict[str, Any] = {"input": (Message(role="user", content=f"Do {name}."),)}
        return Case(id=name, workspace=workspace or Workspace(), **defaults | fields)

    @staticmethod
    def sh(script: str, **fields: Any) -> Hook:
        """A hook that is a line of shell; the workspace is `$1`."""
        return Hook(command=("sh", "-c", script, "sh", "{{workspace_path}}"), **fields)

    def logging(self, *moments: str) -> Hooks:
        """Hooks that write their moment and the case into the file `log`."""
        return Hooks(**{moment: self.sh(f'echo "{moment} {{{{test_id}}}}" >> log') for moment in moments})

    def log(self) -> list[str]:
        """The lines of the file `log` in the suite's folder."""
        path = self.suite / "log"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def write(self, path: str, text: str = "") -> Path:
        """A file in the suite's folder."""
        place = self.suite / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        return place

    def names(self, folder: str) -> list[str]:
        """What is in a folder of the suite's."""
        return sorted(path.name for path in (self.suite / folder).iterdir())

    def list_files(self) -> list[str]:
        """All that is left of what environments have made."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*"))

    @staticmethod
    def run_git(folder: Path, *words: str) -> str:
        """What a git command prints, whoever's configuration this machine has."""
        who = {
            f"GIT_{who}_{what}": "a@b.example"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        nobodys = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        process = subprocess.run(
            ["git", "-c", "init.defaultBranch=main", *words],
            cwd=folder,
            env={**os.environ, **nobodys, **who},
            check=True,
            capture_output=True,
        )
        return process.stdout.decode().strip()


class Folder:
    """A folder that something happens to, and what was in it before."""

    def __init__(self, ground: Ground) -> None:
        self.path = ground.suite / "folder"
        self.path.mkdir()
        self._ground = ground
        self._scratch = ground.suite.parent / "scratch"
        self._scratch.mkdir(exist_ok=True)
        self.contents = ContentStore(self._scratch)
        self.before = self.look()

    def write(self, name: str, text: str = "old") -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return path

    def look(self, before: Snapshot = EMPTY_SNAPSHOT, **fields: Any) -> Snapshot:
        """What is in it now."""
        return take_snapshot(self.path, self.contents, before, **fields)

    def begin(self, **fields: Any) -> Snapshot:
        """What is in it now, which is what counts as before from here on."""
        self.before = self.look(self.before, **fields)
        return self.before

    def list_differing(self, **fields: Any) -> list[str]:
        """The paths of files that are not as before."""
        old, new = self.before.files, self.look(self.before, **fields).files
        return sorted(path for path in old.keys() | new.keys() if not is_same(old.get(path), new.get(path)))

    def restore(self, spared: Set[str] = frozenset()) -> None:
        restore_snapshot(self.path, self.before, self.look(self.before), self.contents, spared)

    async def changes(self) -> str | None:
        """What is not as before, as a diff."""
        now = self.look(self.before)
        changes = await diff_snapshots(self.before, now, self.contents, self._ground.git, self._scratch)
        assert list(self._scratch.iterdir()) == []
        return changes
