"""The workspaces of one run: how they are made, which trials they wait for, and which stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from proctor.env_vars import filled_case
from proctor.model import Run
from proctor.plan import Index, repeats_of
from proctor.protocols import Programs, Store
from proctor.services.runs.execution.target_pool import Reach
from proctor.targets.local.weights import cache_folder
from proctor.workspaces.environment import Workspaces
from proctor.workspaces.run_shared import Site

_MAX_LISTED = 5
"""Kept workspaces that are listed one by one."""


def workspaces_folder(environ: Mapping[str, str]) -> Path:
    """The folder in which each run has one for its workspaces, under its id."""
    return cache_folder(environ) / "workspaces"


def workspaces_of(
    run: Run, index: Index, store: Store, reach: Reach, programs: Programs, warn: Callable[[str], None]
) -> Workspaces:
    """The workspaces of a run, with every trial that will use them.

    Args:
        run: the run.
        index: which cases it asks.
        store: where its cases are.
        reach: knows the environment.
        programs: runs hooks and git.
        warn: told, in a sentence, what failed after a trial.
    """
    site = Site(
        run.suite.folder,
        workspaces_folder(reach.environ),
        run.id,
        programs=programs,
        keep=run.settings.keep_workspaces,
        warn=warn,
        environ=reach.environ,
    )
    workspaces = Workspaces(site)
    positions = set(index.chosen)
    for position, stored_case in enumerate(store.cases(run.suite.content)):
        if position in positions and stored_case.case.workspace is not None:
            case = filled_case(stored_case.case, reach.environ)
            workspaces.expect(case, repeats_of(case, run.settings.repeats))
    return workspaces


def kept(workspaces: Workspaces) -> list[str]:
    """The workspaces that stay on disk, in sentences."""
    kept_folders = list(workspaces.kept.items())
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
