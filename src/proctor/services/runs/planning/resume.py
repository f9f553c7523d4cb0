"""Runs that were cut short, continued with the settings that they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from proctor.codec import settings_digest, target_digest
from proctor.errors import UsageError
from proctor.model import Run
from proctor.services.runs.execution.variable_values import variables_of
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.earlier_run import (
    check_own,
    environment_differences,
    index_run,
    suite_differences,
)
from proctor.services.runs.planning.fresh import plan_fresh
from proctor.services.runs.planning.judge_choice import specs_of
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.services.runs.planning.resume_settings import (
    SETTINGS,
    Difference,
    check_same,
    taken_up,
    unheeded,
)
from proctor.services.runs.request import Request


def plan_resume(request: Request, context: PlanningContext) -> list[PlannedRun]:
    """What is missing of the named run, else of the newest unfinished runs that fit the request.

    Raises:
        SuiteError: a suite is wrong; carries all problems of all suites.
        UsageError: the run is imported, or the request asks for what the run has otherwise.
        NothingSelected: no run is named, and the selection leaves no case of any suite.
    """
    if request.resume:
        run = context.store.run(request.resume)
        check_own(run)
        differences = suite_differences(run, request, context)
        return [_continue_run(run, request, context, differences)]
    if not request.names_suites and not request.saved:
        raise UsageError("Name a run, such as `proctor run --resume=last`, or its suite and target.")
    return list(_continue_matching(plan_fresh(request, context), request, context))


def _continue_matching(
    fresh_runs: list[PlannedRun], request: Request, context: PlanningContext
) -> Iterator[PlannedRun]:
    """For each fresh run the newest unfinished one that is like it, or a finished one of the same group.

    Raises:
        UsageError: the request asks for what such a run has otherwise.
    """
    # The flags that decide which trials there are have the same values in all runs that match.
    request = replace(request, flags=request.flags & SETTINGS.keys())
    matches = [_find_matches(planned_run, context) for planned_run in fresh_runs]
    unfinished = [next((run for run in runs if run.status != "finished"), None) for runs in matches]
    groups = {run.group: run for run in unfinished if run is not None}
    for planned_run, runs, newest in zip(fresh_runs, matches, unfinished, strict=True):
        run = newest or next((run for run in runs if run.group in groups), None)
        if run is not None:
            yield _continue_run(run, request, context)
            continue
        context.warn(
            f"There is no unfinished run of {planned_run.run.suite.name} on {planned_run.run.target.name} "
            "with these judges and settings: a new one begins."
        )
        yield replace(
            planned_run, run=replace(planned_run.run, group=next(iter(groups), planned_run.run.group))
        )


def _find_matches(planned_run: PlannedRun, context: PlanningContext) -> list[Run]:
    """The stored runs that have the same trials, on a target of the same name, by the same judges."""
    fresh_run = planned_run.run
    runs = context.store.alike(
        fresh_run.suite.digest,
        target_digest(fresh_run.target),
        settings_digest((fresh_run.settings.selection, fresh_run.settings.repeats)),
    )
    return [
        run
        for run in runs
        if (run.target.name, run.judges, run.regrade_of) == (fresh_run.target.name, fresh_run.judges, None)
        and run.imported is None
        and not context.values.changed(run.id, planned_run.required.variables | variables_of(specs_of(run)))
        and run.suite.split_rule == fresh_run.suite.split_rule
        and (run.seat == fresh_run.seat or index_run(run, context)[0].chosen == planned_run.index.chosen)
    ]


def _continue_run(
    run: Run, request: Request, context: PlanningContext, differences: Iterable[Difference] = ()
) -> PlannedRun:
    """What is missing of a run, with the settings that it has.

    Args:
        run: the run.
        request: what may change its concurrency and the like, and must ask for nothing else.
        context: where its cases are.
        differences: what differs besides flags.

    Raises:
        UsageError: the run is imported; or the request asks for what the run has otherwise.
    """
    check_own(run)
    index, required = index_run(run, context)
    changes = environment_differences(run, required, context) if run.status != "finished" else ()
    check_same(run, request, [*differences, *changes])
    if note := unheeded(run, request):
        context.warn(note)
    if run.status == "finished":
        context.warn(f"Run {run.id} has finished already: nothing is missing.")
    else:
        run = replace(run, settings=taken_up(run, request))
    return PlannedRun(run=run, index=index, required=required, earlier_run=run)
