"""Which runs can send their requests in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from proctor.errors import UsageError
from proctor.model import TargetSpec
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.services.runs.execution.batched_target import read_poll_interval
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.targets import get_service, iter_kinds

_USUAL_TIERS = frozenset({"auto", "default", "standard", "standard_only"})


def check_batching(planned_runs: Sequence[PlannedRun], environ: Mapping[str, str]) -> None:
    """Checks that runs of the batch engine can send their requests in batches.

    Raises:
        UsageError: a target, a case, a setting or an environment variable cannot be used in a batch.
    """
    for planned_run in planned_runs:
        if planned_run.run.settings.is_batch and planned_run.run.regrade_of is None:
            read_poll_interval(environ)
            for problem in _find_problems(planned_run):
                raise UsageError(problem)


def _find_problems(planned_run: PlannedRun) -> Iterator[str]:
    run = planned_run.run
    for spec in (run.target, *run.named_targets):
        yield from _find_target_problems(spec)
    if planned_run.index.has_workspaces:
        yield (
            f"Some cases of {run.suite.name} use a workspace, which a batch does not have. Use "
            "--no-batch, or exclude these cases."
        )
    for case_id in planned_run.required.choice_cases.values():
        yield (
            f"Case {case_id!r} of {run.suite.name} is scored by the likelihood of its choices, which "
            "needs several requests per case. Use --no-batch, or exclude such cases."
        )
    if run.settings.is_watched:
        yield (
            "--until and --stop-when-shown check the answers one by one, but those of a batch arrive "
            "together. Remove these flags, or use --no-batch."
        )
    if run.settings.interleave:
        yield (
            "--interleave calls targets in turns, but a batch is sent as a whole. Remove --interleave, "
            "or use --no-batch."
        )
    if run.settings.cache:
        yield (
            "--cache looks up requests one by one, but --batch sends them together. Use --no-cache. To "
            "reuse answers of earlier runs, add --reuse."
        )


def _find_target_problems(spec: TargetSpec) -> Iterator[str]:
    if not get_service(spec).batches:
        names = ", ".join(kind.name for kind in iter_kinds() if kind.batches)
        yield (
            f"Target {spec.name!r} does not support batches. Use --no-batch, or a target of one of the "
            f"kinds {names}."
        )
    if spec.fallbacks:
        yield (
            f"Target {spec.name!r} has fallbacks, which a batch cannot call. Use a target without "
            "`fallback_targets`, or --no-batch."
        )
    tier = spec.params.service_tier
    if tier is not None and tier.lower() not in _USUAL_TIERS:
        yield (
            f"Target {spec.name!r} requests the service tier {tier!r}, but batches have their own "
            "price. Remove `service_tier`, or use --no-batch."
        )
    if spec.params.stream:
        yield (
            f"Target {spec.name!r} streams its answers, which a batch cannot do. Remove --stream, or "
            "use --no-batch."
        )


def warn_of_abandoned_batches(planned_runs: Sequence[PlannedRun], store: Store) -> Iterator[str]:
    """Yields a warning for each resumed run that gives up its batches because its engine has changed."""
    for planned_run in planned_runs:
        run = planned_run.run
        is_resumed = planned_run.earlier_run is not None and planned_run.earlier_run.id == run.id
        if not is_resumed or run.status == "finished" or run.settings.is_batch:
            continue
        count = sum(len(batch.custom_ids) for batch in store.batches(run.id) if batch.batch_id is not None)
        if count:
            yield (
                f"Run {run.id} has sent {pluralize(count, 'request')} in batches. Without --batch, "
                "those without an answer are sent again, and you pay for them again."
            )
