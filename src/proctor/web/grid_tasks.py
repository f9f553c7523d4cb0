"""Queries for the rows of a grid: answered at once, or by a background task if much must be read."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from proctor.protocols import Store
from proctor.services.runs.reading.grid import GridFinder, GridQuery, GridSelection
from proctor.services.runs.reading.run_summaries import RunSummary
from proctor.web.project import get_project
from proctor.web.tasks import ProgressCallback, Task, get_task_runner

_MAX_AT_ONCE = 2_000
"""Runs with at most this many trials together are read without a task."""


def query_grid(
    request: Request, store: Store, run_summaries: Sequence[RunSummary], query: GridQuery, timeout_s: float
) -> GridSelection | Task[GridSelection]:
    """Returns the rows that a query selects, or the task that is still reading them.

    Args:
        request: a request.
        store: has the runs.
        run_summaries: the runs, one for each column.
        query: which rows are wanted.
        timeout_s: what is read within this time is returned at once.

    Raises:
        StoreError: the store cannot be read.
    """
    project = get_project(request)
    grids = project.get_shared("grids", GridFinder)
    selection = grids.find(store, [run_summary.run for run_summary in run_summaries], query)
    if selection is not None:
        return selection
    if sum(run_summary.stored for run_summary in run_summaries) <= _MAX_AT_ONCE:
        return grids.select(store, project.trials, run_summaries, query)

    def read_grid(on_progress: ProgressCallback) -> GridSelection:
        with project.open_store() as task_store:
            return grids.select(task_store, project.trials, run_summaries, query, on_progress)

    # Not the number of trials: a run that goes on has more each time, and the page would reload for ever.
    states = tuple([(run_summary.run.id, run_summary.alive) for run_summary in run_summaries])
    task = get_task_runner(request).submit(("grid", states, query), read_grid, "trials read", cacheable=False)
    return task.result() if task.wait(timeout_s) else task
