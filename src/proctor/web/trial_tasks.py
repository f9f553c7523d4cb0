"""Queries for the trials of a run: answered at once, or by a background task if much must be read."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from starlette.requests import Request

from proctor.protocols import Store
from proctor.services.runs.reading.run_summaries import RunSummary
from proctor.services.runs.reading.trial_table import TrialQuery, TrialSelection
from proctor.web.project import get_project
from proctor.web.tasks import ProgressCallback, Task, get_task_runner

T = TypeVar("T")

_MAX_AT_ONCE = 2_000
"""Runs with at most this many trials are read without a task."""


def query_trials(
    request: Request,
    store: Store,
    run_summary: RunSummary,
    query: TrialQuery,
    purpose: Hashable,
    use: Callable[[TrialSelection], T],
    timeout_s: float,
) -> T | Task[T]:
    """Returns what `use` makes of the trials that a query selects, or the task that is still reading them.

    Args:
        request: a request.
        store: has the run.
        run_summary: the run.
        query: which trials are wanted.
        purpose: identifies `use`: the same purpose makes the same of the same trials.
        use: makes a result of the trials.
        timeout_s: what is read within this time is returned at once.

    Raises:
        StoreError: the store cannot be read.
    """
    project = get_project(request)
    selection = project.trials.find(store, run_summary, query)
    if selection is None and run_summary.stored <= _MAX_AT_ONCE:
        selection = project.trials.select(store, run_summary, query)
    if selection is not None:
        return use(selection)

    def read_trials(on_progress: ProgressCallback) -> T:
        with project.open_store() as task_store:
            return use(project.trials.select(task_store, run_summary, query, on_progress))

    # Not the number of trials: a run that goes on has more each time, and the page would reload for ever.
    key = ("trials", run_summary.run.id, run_summary.alive, query, purpose)
    task = get_task_runner(request).submit(key, read_trials, "trials read", cacheable=False)
    return task.result() if task.wait(timeout_s) else task
