"""The workspaces of one run: who makes them, which trials they wait for, and what stays of them."""

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

_NAMED = 5
"""So many kept workspaces are named one by one."""


def workspaces_folder(environ: Mapping[str, str]) -> Path:
    """The folder in which each run has one for its workspaces, under its id."""
    return cache_folder(environ) / "workspaces"


def workspaces_of(
    run: Run, index: Index, store: Store, reach: Reach, programs: Programs, warn: Callable[[str], None]
) -> Workspaces:
    """What makes the workspaces of a run, told of every trial that will come.

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
    made = Workspaces(site)
    chosen = set(index.chosen)
    for position, stored in enumerate(store.cases(run.suite.content)):
        if position in chosen and stored.case.workspace is not None:
            case = filled_case(stored.case, reach.environ)
            made.expect(case, repeats_of(case, run.settings.repeats))
    return made


def kept(workspaces: Workspaces) -> list[str]:
    """What stays on disk, in sentences."""
    there = list(workspaces.kept.items())
    if not there:
        return []
    lines = [f"Kept workspace {path}" + (f" of case {case!r}." if case else ".") for path, case in there]
    if len(there) <= _NAMED:
        return lines
    return [
        *lines[: _NAMED - 1],
        f"Kept {len(there) - _NAMED + 1:,} more workspaces in {there[0][0].parent}.",
    ]
