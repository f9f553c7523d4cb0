"""Which runs of a request are interleaved, and what they need for that."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from proctor.engines.turns import RunTurns, make_turns
from proctor.errors import UsageError
from proctor.model import Settings, TargetSpec
from proctor.protocols import Store
from proctor.services.runs.execution.target_pool import answers_in_batch, max_concurrency_for
from proctor.services.runs.planning.planned_run import PlannedRun


def group_interleaved(planned_runs: Sequence[PlannedRun]) -> list[list[PlannedRun]]:
    """Returns the runs in order, those together that are executed at the same time."""

    def batch_key(numbered_run: tuple[int, PlannedRun]) -> tuple[str, str]:
        number, planned_run = numbered_run
        run = planned_run.run
        if run.settings.is_batch:
            return run.settings.engine, ""  # they wait for services at the same time
        return (run.group, run.suite.digest) if run.settings.interleave else (str(number), "")

    return [
        [planned_run for _, planned_run in batch] for _, batch in groupby(enumerate(planned_runs), batch_key)
    ]


def turns_for(batch: Sequence[PlannedRun]) -> Sequence[RunTurns | None]:
    """Returns the turns of the runs that are executed at the same time; None for a run alone.

    No run can get ahead of the slowest target. So if one target allows few concurrent calls, the others are
    limited too: otherwise its calls would wait while the others had already answered the same cases.
    """
    if not batch[0].run.settings.interleave or len(batch) == 1:
        return [None] * len(batch)
    concurrency = max(planned_run.run.settings.concurrency for planned_run in batch)
    least = min(max_concurrency_for(planned_run.run.target, concurrency) for planned_run in batch)
    run, ranks = batch[0].run, None
    if run.settings.order_seed is not None:
        from proctor.services.runs.execution.shuffled_cases import rank_positions

        ranks = rank_positions(run.suite.case_count, run.settings.order_seed)
    return make_turns(len(batch), max(1, min(concurrency, least * len(batch))), ranks)


def check_interleaving(batch: Sequence[PlannedRun], store: Store) -> None:
    """Checks that several runs can be executed in turns.

    Raises:
        UsageError: the engine, a target or a case cannot take turns.
    """
    if not batch[0].run.settings.interleave or len(batch) == 1:
        return
    engines = {planned_run.run.settings.engine for planned_run in batch} - {Settings().engine}
    if engines:
        raise UsageError(
            f"--interleave needs the engine {Settings().engine!r}, but the run uses {min(engines)!r}. "
            "Remove --engine or --interleave."
        )
    for planned_run in batch:
        _check_target(planned_run.run.target)
        _check_workspaces(planned_run, store)


def _check_target(spec: TargetSpec) -> None:
    if answers_in_batch(spec):
        raise UsageError(
            f"Target {spec.name!r} has `provider_batching`, so one process answers all cases at once, "
            "not in turns. Remove `provider_batching` or --interleave."
        )


def _check_workspaces(planned_run: PlannedRun, store: Store) -> None:
    """Refuses cases that work in a folder of the user's, where one run would see the changes of another."""
    if not planned_run.index.has_workspaces:
        return
    from proctor.services.runs.execution.workspaces import list_workspaces

    for use in list_workspaces(planned_run.run, planned_run.index, store):
        path = use.case.workspace.path if use.case.workspace is not None else None
        if path:
            raise UsageError(
                f"Case {use.case.id!r} of {planned_run.run.suite.name} works directly in the folder "
                f"{path!r}, which only one run can use at a time. Remove --interleave."
            )
