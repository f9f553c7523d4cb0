"""Plans new runs of everything that a request names."""

from __future__ import annotations

from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.services.runs.planning.requested_runs import list_requested_runs
from proctor.services.runs.request import Request


def plan_fresh(request: Request, context: PlanningContext) -> list[PlannedRun]:
    """Returns a new run of each suite on each target.

    Raises:
        SuiteError: a suite is invalid; has all problems of all suites.
        UsageError: the request names no suite, or a word names no suite or target.
        NothingSelected: the selection leaves no case of any suite.
    """
    return [
        requested_run.start(request.group or "", context.prices_date)
        for requested_run in list_requested_runs(request, context)
    ]
