"""Plans a retry: a new run of the errors in a stored run; all other trials are reused."""

from __future__ import annotations

from msgspec.structs import replace

from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.earlier_run import (
    check_not_imported,
    copy_run,
    environment_differences,
    index_run,
    suite_differences,
)
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.services.runs.planning.resume_settings import check_same, resumed_settings
from proctor.services.runs.request import Request


def plan_retry(request: Request, context: PlanningContext) -> list[PlannedRun]:
    """Returns a new run of the trials that ended as errors, or unscored, in the run that the request names.

    Raises:
        SuiteError: a suite is invalid; has all problems of all suites.
        UsageError: the run is imported, or the request differs from the run's settings.
    """
    earlier = context.store.run(request.retry_errors or "")
    check_not_imported(earlier)
    differences = suite_differences(earlier, request, context)
    index, required = index_run(earlier, context)
    differences += environment_differences(earlier, required, context)
    check_same(earlier, request, differences, retried=True)
    run = replace(
        copy_run(earlier, resumed_settings(earlier, request, retried=True), context),
        group=request.group or earlier.group,
        retry_of=earlier.id,
        planned=index.trial_count,  # a run that stopped early has fewer, and this one may send all
    )
    return [PlannedRun(run=run, index=index, required=required, earlier_run=earlier)]
