"""Plans a resume: continues interrupted runs with their own settings."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Run
from proctor.services import events
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.earlier_run import (
    check_not_imported,
    environment_differences,
    index_run,
    suite_differences,
)
from proctor.services.runs.planning.nearest_run import refuse_to_resume
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.services.runs.planning.requested_runs import list_requested_runs
from proctor.services.runs.planning.resumable_runs import find_unfinished
from proctor.services.runs.planning.resume_settings import (
    SETTING_FLAGS,
    SettingDifference,
    check_same,
    describe_ignored_settings,
    resumed_settings,
)
from proctor.services.runs.request import Request


def plan_resume(request: Request, context: PlanningContext) -> list[PlannedRun]:
    """Continues the named run with those it takes turns with, or the newest runs that match the request.

    Raises:
        SuiteError: a suite is invalid; has all problems of all suites.
        UsageError: the run is imported, or the request differs from the run's settings; or no run is named,
            and no unfinished one fits any part of the request.
        NothingSelected: no run is named, and the selection leaves no case of any suite.
    """
    if request.resume:
        run = context.store.run(request.resume)
        check_not_imported(run)
        differences = suite_differences(run, request, context)
        planned_run = _continue_run(run, request, context, differences)
        request = replace(request, flags=request.flags & SETTING_FLAGS.keys())
        return [
            planned_run,
            *(_continue_run(partner, request, context) for partner in _find_partners(run, context)),
        ]
    if not request.has_suite_names and not request.saved_suites:
        raise UsageError("Name a run, as in `proctor run --resume=last`, or its suite and target.")
    requested_runs = list_requested_runs(request, context)
    stored_runs = find_unfinished(requested_runs, context)
    if not any(stored_runs):
        raise refuse_to_resume(requested_runs, request, context)
    groups = (stored.group for stored in stored_runs if stored is not None and stored.status != "finished")
    group = next(groups, request.group or "")
    # The matching runs have the same values of all flags that determine the trials.
    request = replace(request, flags=request.flags & SETTING_FLAGS.keys())
    planned_runs = []
    for requested_run, stored in zip(requested_runs, stored_runs, strict=True):
        if stored is None:
            context.warn(
                f"There is no run of {requested_run.suite.name} on {requested_run.target_title} yet. "
                "Starting a new one."
            )
            planned_runs.append(requested_run.start(group, context.prices_date))
        else:
            planned_runs.append(_continue_run(stored, request, context))
    return planned_runs


def _find_partners(run: Run, context: PlanningContext) -> list[Run]:
    """Returns the unfinished runs with which an unfinished run takes turns."""
    if not run.settings.interleave or run.status == "finished":
        return []
    partners = [
        other
        for other in context.store.runs()
        if other.group == run.group
        and other.id != run.id
        and other.suite.digest == run.suite.digest
        and other.settings.interleave
        and other.status != "finished"
    ]
    for partner in partners:
        context.listen(
            events.StatusMessage(
                f"Run {partner.id} on {partner.target_title} is resumed too, because "
                "the runs are interleaved."
            )
        )
    return partners


def _continue_run(
    run: Run, request: Request, context: PlanningContext, differences: Iterable[SettingDifference] = ()
) -> PlannedRun:
    """Returns a run to continue, with its own settings.

    Args:
        run: the run.
        request: may change its concurrency and the like, and nothing else.
        context: has its cases.
        differences: differences besides flags.

    Raises:
        UsageError: the run is imported or stopped early; or the request differs from its settings.
    """
    check_not_imported(run)
    if run.early_stop is not None:
        raise UsageError(
            f"Run {run.id} is already finished: it stopped early after {run.early_stop.cases:,} of "
            f"{run.early_stop.planned_cases:,} cases. To send the rest, start a new run with --reuse "
            "and without --until and --stop-when-shown."
        )
    index, required = index_run(run, context)
    changes = environment_differences(run, required, context) if run.status != "finished" else ()
    check_same(run, request, [*differences, *changes])
    if note := describe_ignored_settings(run, request):
        context.warn(note)
    if run.status == "finished":
        context.warn(f"Run {run.id} is already finished. Nothing is missing.")
    else:
        run = replace(run, settings=resumed_settings(run, request))
    return PlannedRun(run=run, index=index, required=required, earlier_run=run)
