"""Refuses to resume if no unfinished run matches, and lists how the command differs from the closest one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Run, TargetSpec
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.earlier_run import environment_differences
from proctor.services.runs.planning.requested_runs import RequestedRun
from proctor.services.runs.planning.resume_settings import (
    SettingDifference,
    find_content_differences,
    find_run_differences,
    format_request,
    format_store,
)
from proctor.services.runs.request import Request


class _NearestRun(Struct, frozen=True):
    """An unfinished run, and how a command differs from it."""

    run: Run
    differences: tuple[SettingDifference, ...]


def refuse_to_resume(
    requested_runs: Sequence[RequestedRun], request: Request, context: PlanningContext
) -> UsageError:
    """Returns the error for a command that resumes, where no unfinished run is the one that it requests.

    Args:
        requested_runs: what the command requests; no stored run fits any of it.
        request: the command.
        context: has the stored runs.
    """
    command = format_request(request)
    new_run = f"To start a new run: {command}" if command else "To start a new run, remove --resume."
    nearest = _find_nearest(requested_runs, request, context)
    if nearest is None:
        names = ", ".join(f"{wanted.suite.name} on {wanted.target_title}" for wanted in requested_runs)
        return UsageError(
            f"There is no unfinished run to resume, neither of {names} nor any other.\n{new_run}"
        )
    run = nearest.run
    resume = shlex.join(["proctor", "run", f"--resume={run.id}", *format_store(request)])
    heading = (
        f"No unfinished run matches this command, so nothing is resumed. The closest is {run.id} of "
        f"{run.suite.title} on {run.target_title}, with {_count_trials(context.store, run)}. It "
        "differs in:"
    )
    lines = [
        heading,
        *(f"  {difference.text}" for difference in nearest.differences),
        f"To resume that run: {resume}",
        new_run,
    ]
    return UsageError("\n".join(lines))


def _find_nearest(
    requested_runs: Sequence[RequestedRun], request: Request, context: PlanningContext
) -> _NearestRun | None:
    """Returns the unfinished run of the same suite and target, else of one of them, that differs least."""
    best: tuple[tuple[int, int], _NearestRun] | None = None
    for run in context.store.runs():  # the newest one first
        if run.status == "finished" or run.imported is not None or run.regrade_of is not None:
            continue
        if run.status == "running" and context.store.is_run_locked(run.id):  # another process makes it
            continue
        for requested_run in requested_runs:
            misses = 2 * (run.suite.name != requested_run.suite.name)
            misses += run.target.name != requested_run.target.name
            if best is not None and misses > best[0][0]:
                continue
            differences = tuple(_find_differences(run, requested_run, request, context))
            rank = misses, len(differences)
            if best is None or rank < best[0]:
                best = rank, _NearestRun(run, differences)
    return None if best is None else best[1]


def _find_differences(
    run: Run, requested_run: RequestedRun, request: Request, context: PlanningContext
) -> Iterator[SettingDifference]:
    """Yields what keeps a stored run from being the requested one; at least one line."""
    count = 0
    if run.suite.name == requested_run.suite.name:
        differences = find_content_differences(run, _with_params_of(run, requested_run))
    else:
        text = f"the suite: the run has {run.suite.title!r}, this command has {requested_run.suite.title!r}"
        differences = iter([SettingDifference("--suite", text)])
    new_run = requested_run.start("", None).run
    for count, difference in enumerate(  # noqa: B007  # the number of them is needed below
        (
            *differences,
            *find_run_differences(run, new_run, request.flags),
            *environment_differences(run, requested_run.required, context),
        ),
        1,
    ):
        yield difference
    if not count:
        text = "the targets: this command sends other cases of the suite to this target"
        yield SettingDifference("", text)


def _with_params_of(run: Run, requested_run: RequestedRun) -> RequestedRun:
    """Returns the requested run with the run's parameters, which are compared one by one."""
    params = {judge.name: judge.params for judge in run.judges}

    def with_params(judge: TargetSpec) -> TargetSpec:
        return replace(judge, params=params.get(judge.name, judge.params))

    selection = requested_run.judge_selection
    return replace(
        requested_run,
        target=replace(requested_run.target, params=run.target.params),
        judge_selection=replace(selection, judges=tuple(map(with_params, selection.judges))),
    )


def _count_trials(store: Store, run: Run) -> str:
    verdicts = store.count_verdicts(run.id)
    count = sum(number for verdict, number in verdicts.items() if verdict is not None)
    return f"{count:,} of {pluralize(run.planned, 'trial')}"
