"""Plans the runs of a request: new, resumed, retried or regraded ones."""

from __future__ import annotations

from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Run, Shard, TargetSpec
from proctor.protocols import Store
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.services.runs.request import Request, check_group_id, new_id


def plan_runs(request: Request, context: PlanningContext) -> list[PlannedRun]:
    """Returns the runs of a request, in order. Reads suites and stored runs, and calls no target.

    Raises:
        SuiteError: a suite is invalid; has all problems of all suites.
        UsageError: a word names no suite, target or run; or a target does not take the files of a case.
        NothingSelected: the selection leaves no case of any suite.
    """
    if request.resume is not None and request.retry_errors:
        raise UsageError("--resume and --retry-errors cannot be combined. Remove one of them.")
    if request.last_failed is not None and (request.resume is not None or request.retry_errors):
        flag = "--retry-errors" if request.retry_errors else "--resume"
        raise UsageError(f"{flag} uses the cases of a stored run. Remove --last-failed.")
    request = replace(request, group=_choose_group(request, context.store))
    _check_duplicates(request.targets, "--target", "--repeat")
    _check_duplicates(request.judges, "--judge", "--judge-repeat")
    planned_runs = _plan_by_kind(request, context)
    if request.is_single and len(planned_runs) > 1:
        names = ", ".join(
            f"{planned.run.suite.name} on {planned.run.target_title}" for planned in planned_runs
        )
        raise UsageError(
            f"This call makes {len(planned_runs)} runs: {names}. To get all of them, pass a list of "
            "suites, targets or prompts. Otherwise name one."
        )
    _check_bundles(planned_runs, request)
    if any(planned_run.index.media for planned_run in planned_runs):
        from proctor.services.runs.planning.check_media import check_media

        check_media(planned_runs, context.store)
    return planned_runs


def _plan_by_kind(request: Request, context: PlanningContext) -> list[PlannedRun]:
    # Most runs are new: the modules for the other kinds are imported on demand.
    if request.regrade:
        from proctor.services.runs.planning.regrade import plan_regrade

        return plan_regrade(request, context)
    if request.retry_errors:
        from proctor.services.runs.planning.retry import plan_retry

        return plan_retry(request, context)
    if request.resume is not None:
        from proctor.services.runs.planning.resume import plan_resume

        return plan_resume(request, context)
    from proctor.services.runs.planning.fresh import plan_fresh

    return plan_fresh(request, context)


def _check_bundles(planned_runs: list[PlannedRun], request: Request) -> None:
    """Refuses to promise the bundle of a run that may stop early, or that is a shard.

    Raises:
        UsageError: `--attest` is given, and one of the runs may, or is.
    """
    attests = "--attest" in request.flags or "attest" in request.config.flags
    if attests and any(run.run.settings.selection.shard is not None for run in planned_runs):
        raise UsageError(
            "A bundle needs all cases, but a shard has only a part. Remove --attest. Merge the shards "
            "with `proctor runs merge`, then write the bundle with `proctor attest RUN`."
        )
    if attests and any(planned_run.run.settings.is_watched for planned_run in planned_runs):
        raise UsageError(
            "A run with --until or --stop-when-shown may stop early, but a bundle needs all cases. "
            "Remove --attest. If the run does send all cases, write the bundle with `proctor attest "
            "RUN`."
        )


def _choose_group(request: Request, store: Store) -> str:
    """Returns the id of the group of the new runs.

    Raises:
        UsageError: the request names a malformed id, an id in use, or a stored run to continue.
    """
    if request.group is None:
        return new_id()
    check_group_id(request.group)
    if request.resume is not None:
        raise UsageError("A resumed run keeps its group. Remove --group.")
    shard = request.settings.selection.shard
    if any(
        request.group == run.id or (request.group == run.group and not _is_other_shard(run, shard))
        for run in store.runs()
    ):
        raise UsageError(
            f"The store already has a group or a run {request.group!r}. Use another id with --group, "
            "or remove it."
        )
    return request.group


def _is_other_shard(run: Run, shard: Shard | None) -> bool:
    """Returns whether a stored run is of another shard of as many, which may have the same group."""
    other = run.settings.selection.shard
    return shard is not None and other is not None and other != shard and other.count == shard.count


def _check_duplicates(words: tuple[str | TargetSpec, ...], flag: str, repeat_flag: str) -> None:
    """Refuses a word that is given twice: both would get the same calls and the same results."""
    names = [word if isinstance(word, str) else word.name for word in words]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{flag} {name} is given twice. To repeat calls, use {repeat_flag}.")
