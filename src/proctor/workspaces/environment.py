"""The workspaces of a run; cases with equal workspaces form a group."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from proctor.model import Case, Workspace
from proctor.protocols import WorkspaceVisit
from proctor.workspaces.group import TrialVisit, WorkspaceGroup
from proctor.workspaces.run_shared import WorkspaceRoot


class Workspaces:
    """The workspaces of one run; implements `protocols.Environment`.

    `expect` and `enter` take cases whose variables are substituted.
    """

    def __init__(self, workspace_root: WorkspaceRoot) -> None:
        """Creates no workspace; all of them share `site`."""
        self._root = workspace_root
        self._groups: dict[Workspace, WorkspaceGroup] = {}
        self._locks: dict[Path, asyncio.Lock] = {}

    @property
    def kept_folders(self) -> Mapping[Path, str]:
        """The kept folders, each with the id of its case; the id is empty for a group of several cases."""
        return self._root.kept_folders

    def expect(self, case: Case, trials: int = 1, *, case_count: int = 1) -> None:
        """Announces `trials` trials of `case_count` cases with the workspace of this one.

        This lets a group of a single case pass that case to its hooks, and lets a group close when its last
        trial has ended instead of at the end of the run.
        """
        if case.workspace is not None:
            self._group(case.workspace).expect(case, trials, case_count)

    async def enter(self, case: Case, repeat: int) -> WorkspaceVisit:
        """Enters the workspace of a case, after `before_all` and `before_each`.

        Raises:
            WorkspaceError: the workspace could not be created, or a hook failed.
        """
        assert case.workspace is not None
        return await self._group(case.workspace).enter(case, repeat)

    async def leave(self, visit: WorkspaceVisit, *, passed: bool) -> None:
        """Ends a visit: runs `after_each`, then resets the folder. Failures become warnings."""
        assert isinstance(visit, TrialVisit)
        await visit.group.leave(visit, passed=passed)

    async def aclose(self) -> None:
        """Runs every `after_all` and removes the workspaces that are not kept. Safe to call twice."""
        try:
            for group in self._groups.values():
                await group.close()
        finally:
            self._root.close()

    def _group(self, workspace: Workspace) -> WorkspaceGroup:
        group = self._groups.get(workspace)
        if group is None:
            turn = asyncio.Lock()
            if workspace.path is not None:
                # Several groups may share a folder.
                turn = self._locks.setdefault((self._root.folder / workspace.path).resolve(), turn)
            group = self._groups[workspace] = WorkspaceGroup(workspace, self._root, turn)
        return group
