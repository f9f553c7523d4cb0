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
            f"Cases of {run.suite.name} work in a workspace, and a batch is answered without one. Use "
            "--no-batch, or leave those cases out."
        )
    for case_id in planned_run.required.choice_cases.values():
        yield (
            f"Case {case_id!r} of {run.suite.name} is scored by the likelihood of its choices, which takes "
            "several requests. Use --no-batch, or leave those cases out."
        )
    if run.settings.is_watched:
        yield (
            "--until and --stop-when-shown look at answers one by one, and those of a batch come together. "
            "Leave them out, or use --no-batch."
        )
    if run.settings.interleave:
        yield (
            "--interleave calls targets in turns, and a batch is sent at once. Leave --interleave out, or "
            "use --no-batch."
        )
    if run.settings.cache:
        yield (
            "--cache looks up requests one by one, and --batch sends them together. Use --no-cache; --reuse "
            "takes the answers of earlier runs."
        )


def _find_target_problems(spec: TargetSpec) -> Iterator[str]:
    if not get_service(spec).batches:
        names = ", ".join(kind.name for kind in iter_kinds() if kind.batches)
        yield (
            f"Target {spec.name!r} has no batches; targets of the kinds {names} have. Use --no-batch, or "
            "name another target."
        )
    if spec.fallbacks:
        yield (
            f"Target {spec.name!r} has fallbacks, which a batch does not call. Name a target without "
            "`fallback_targets`, or use --no-batch."
        )
    tier = spec.params.service_tier
    if tier is not None and tier.lower() not in _USUAL_TIERS:
        yield (
            f"Target {spec.name!r} requests the service tier {tier!r}, and a batch has a price of its own. "
            "Leave out `service_tier`, or use --no-batch."
        )
    if spec.params.stream:
        yield (
            f"Target {spec.name!r} streams its answers, and a batch cannot. Leave out --stream, or use "
            "--no-batch."
        )


def warn_of_abandoned_batches(planned_runs: Sequence[PlannedRun], store: Store) -> Iterator[str]:
    """Yields a warning for each resumed run that gives up its batches, as its engine is another one now."""
    for planned_run in planned_runs:
        run = planned_run.run
        is_resumed = planned_run.earlier_run is not None and planned_run.earlier_run.id == run.id
        if not is_resumed or run.status == "finished" or run.settings.is_batch:
            continue
        count = sum(len(batch.custom_ids) for batch in store.batches(run.id) if batch.batch_id is not None)
        if count:
            yield (
                f"Run {run.id} has sent {pluralize(count, 'request')} in batches. Without --batch, those "
                "that are not answered yet are sent again, and paid again."
            )
