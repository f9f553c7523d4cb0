"""The workspaces of one run: how they are made, which trials wait for them, and which are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from proctor.engines.protocol import RunWork, WorkspaceUse
from proctor.env_substitution import substitute_in_case
from proctor.model import Run, Workspace
from proctor.plan import CaseIndex, count_repeats
from proctor.prompts.fill import read_run_cases
from proctor.protocols import ProgramRunner, Store
from proctor.targets.local.weights import cache_folder
from proctor.workspaces.environment import Workspaces
from proctor.workspaces.run_shared import WorkspaceRoot

_MAX_LISTED = 5
"""The maximum number of kept workspaces that are listed one by one."""


def workspaces_folder(environ: Mapping[str, str]) -> Path:
    """Returns the folder for workspaces, with a subfolder for each run, named by its id."""
    return cache_folder(environ) / "workspaces"


def list_workspaces(run: Run, index: CaseIndex, store: Store) -> tuple[WorkspaceUse, ...]:
    """Returns the workspaces of the selected cases of a run, in the order of their first cases."""
    positions = index.positions
    uses: dict[Workspace, WorkspaceUse] = {}
    for position, stored_case in enumerate(read_run_cases(store, run)):
        case = stored_case.case
        if position not in positions or case.workspace is None:
            continue
        use = uses.get(case.workspace) or WorkspaceUse(case=case, case_count=0, trial_count=0)
        trial_count = use.trial_count + count_repeats(case, run.settings.repeats)
        uses[case.workspace] = replace(use, case_count=use.case_count + 1, trial_count=trial_count)
    return tuple(uses.values())


def open_workspaces(
    work: RunWork,
    environ: Mapping[str, str],
    programs: ProgramRunner,
    warn: Callable[[str], None],
    *,
    first_folder: int = 1,
) -> Workspaces:
    """Opens the workspaces of a run; none is created yet.

    Args:
        work: the run, and the trials that will use its workspaces.
        environ: the environment, with the values of variables and the folders of caches.
        programs: runs hooks and git.
        warn: called with a sentence if something failed after a trial.
        first_folder: the number of the first folder.
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
        first_folder=first_folder,
    )
    workspaces = Workspaces(site)
    for use in work.workspaces:
        workspaces.expect(substitute_in_case(use.case, environ), use.trial_count, case_count=use.case_count)
    return workspaces


def describe_kept_workspaces(workspaces: Workspaces) -> list[str]:
    """Returns sentences about the workspaces that stay on disk."""
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
        f"{len(kept_folders) - _MAX_LISTED + 1:,} more workspaces were kept in {kept_folders[0][0].parent}.",
    ]
