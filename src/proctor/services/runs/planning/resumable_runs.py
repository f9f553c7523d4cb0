"""Finds the stored unfinished runs that a request can resume."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proctor.codec import call_digest, settings_digest
from proctor.model import Run
from proctor.services.runs.execution.variable_values import target_variables
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.earlier_run import index_run
from proctor.services.runs.planning.judge_choice import all_specs
from proctor.services.runs.planning.requested_runs import RequestedRun


def find_unfinished(requested_runs: Sequence[RequestedRun], context: PlanningContext) -> list[Run | None]:
    """Returns for each requested run the newest unfinished run like it; None if there is none.

    If only another run of the same command was interrupted, it is the finished run of that group.
    """
    matches = [list(_find_matches(requested_run, context)) for requested_run in requested_runs]
    unfinished = [next((run for run in runs if run.status != "finished"), None) for runs in matches]
    groups = {run.group for run in unfinished if run is not None}
    return [
        newest or next((run for run in runs if run.group in groups), None)
        for runs, newest in zip(matches, unfinished, strict=True)
    ]


def _find_matches(requested_run: RequestedRun, context: PlanningContext) -> Iterator[Run]:
    """Yields the stored runs with the same trials, judges and name of the target."""
    settings, required = requested_run.settings, requested_run.required
    for run in context.store.find_equivalent_runs(
        requested_run.suite.digest,
        call_digest(requested_run.target, requested_run.prompt),
        settings_digest((settings.selection, settings.repeats)),
    ):
        if (
            run.target.name == requested_run.target.name
            and run.prompt == requested_run.prompt
            and run.judges == requested_run.judge_selection.judges
            and run.regrade_of is None
            and run.imported is None
            and run.suite.split_rule == requested_run.suite.split_rule
            and not context.variable_values.find_changed(
                run.id, required.variables | target_variables(all_specs(run))
            )
            and (
                run.seat == requested_run.seat
                or index_run(run, context)[0].positions == requested_run.index.positions
            )
        ):
            yield run
