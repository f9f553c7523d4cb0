"""The workspaces of one run: how they are made, which trials they wait for, and which stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from proctor.engines.protocol import RunWork, WorkspaceUse
from proctor.env_vars import substitute_in_case
from proctor.model import Run, Workspace
from proctor.plan import CaseIndex, count_repeats
from proctor.protocols import ProgramRunner, Store
from proctor.targets.local.weights import cache_folder
from proctor.workspaces.environment import Workspaces
from proctor.workspaces.run_shared import WorkspaceRoot

_MAX_LISTED = 5
"""Kept workspaces that are listed one by one."""


def workspaces_folder(environ: Mapping[str, str]) -> Path:
    """The folder in which each run has one for its workspaces, under its id."""
    return cache_folder(environ) / "workspaces"


def list_workspaces(run: Run, index: CaseIndex, store: Store) -> tuple[WorkspaceUse, ...]:
    """The workspaces of the selected cases of a run, in the order of their first cases."""
    positions = set(index.positions)
    uses: dict[Workspace, WorkspaceUse] = {}
    for position, stored_case in enumerate(store.cases(run.suite.content)):
        case = stored_case.case
        if position not in positions or case.workspace is None:
            continue
        use = uses.get(case.workspace) or WorkspaceUse(case=case, case_count=0, trial_count=0)
        trial_count = use.trial_count + count_repeats(case, run.settings.repeats)
        uses[case.workspace] = replace(use, case_count=use.case_count + 1, trial_count=trial_count)
    return tuple(uses.values())


def open_workspaces(
    work: RunWork, environ: Mapping[str, str], programs: ProgramRunner, warn: Callable[[str], None]
) -> Workspaces:
    """The workspaces of a run, none of which is made yet.

    Args:
        work: the run, and what will use its workspaces.
        environ: with the values of variables, and where caches are.
        programs: runs hooks and git.
        warn: told, in a sentence, what failed after a trial.
    """
    run = work.run
    site = WorkspaceRoot(
        run.suite.folder,
        workspaces_folder(environ),
        run.id,
        programs=programs,
        keep=run.settings.keep_workspaces,
        warn=warn,
        environ=environ,
    )
    workspaces = Workspaces(site)
    for use in work.workspaces:
        workspaces.expect(substitute_in_case(use.case, environ), use.trial_count, case_count=use.case_count)
    return workspaces


def describe_kept_workspaces(workspaces: Workspaces) -> list[str]:
    """The workspaces that stay on disk, in sentences."""
    kept_folders = list(workspaces.kept_folders.items())
    if not kept_folders:
        return []
    lines = [
        f"Kept workspace {path}" + (f" of case {case!r}." if case else ".") for path, case in kept_folders
    ]
    if len(kept_folders) <= _MAX_LISTED:
        return lines
    return [
        *lines[: _MAX_LISTED - 1],
        f"Kept {len(kept_folders) - _MAX_LISTED + 1:,} more workspaces in {kept_folders[0][0].parent}.",
    ]
