"""What resuming, retrying and regrading share: a stored run, its cases, and what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Run, Settings
from proctor.plan import CaseIndex
from proctor.services.runs.execution.target_pool import embedder_name
from proctor.services.runs.execution.variable_values import target_variables
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.judge_choice import RequiredTargets, all_specs
from proctor.services.runs.planning.load_suites import index_stored_suite, load_suites
from proctor.services.runs.planning.requested_runs import RequestedRun, pair_with_targets
from proctor.services.runs.planning.resume_settings import (
    SettingDifference,
    fill_from_run,
    find_content_differences,
)
from proctor.services.runs.request import Request, new_id

UNFINISHED_MERGE = "Its merge was stopped, so it lacks trials of the merged runs."
"""Why a run that is being merged stopped, if its process is killed."""


def is_unfinished_merge(run: Run) -> bool:
    """Returns whether a run lacks trials because it is being merged, or its merge was killed."""
    return run.status == "running" and run.stopped == UNFINISHED_MERGE


def check_not_imported(run: Run) -> None:
    """Refuses an imported run: a stranger wrote its targets, which may name programs or send keys elsewhere.

    Raises:
        UsageError: the run is imported, or a merge that was killed, whose trials are in other stores.
    """
    if is_unfinished_merge(run):
        raise UsageError(
            f"Run {run.id} was not merged completely. Resuming it would pay again for the missing "
            "trials. Merge its runs again, which replaces it: `proctor runs merge`."
        )
    if run.imported is not None:
        raise UsageError(
            f"Run {run.id} was imported from a bundle, so it cannot send requests. To run its suite "
            f"yourself: `proctor run '{run.suite.name}@{run.suite.version}' --target T`."
        )


def index_run(run: Run, context: PlanningContext) -> tuple[CaseIndex, RequiredTargets]:
    """Returns the selected cases of a stored run, and which targets and judges they require."""
    indexer, required = index_stored_suite(context.store, run.suite, run.settings)
    return indexer.build(run.suite.split_rule, run.seat), required


def copy_run(earlier: Run, settings: Settings, context: PlanningContext) -> Run:
    """Returns a new run with the values of an earlier one, in a group of its own and thus not interleaved."""
    return replace(
        earlier,
        id=new_id(),
        group=new_id(),
        started_at=datetime.now(UTC),
        finished_at=None,
        status="running",
        prices_date=context.prices_date,
        settings=replace(settings, interleave=False),
        stopped=None,
        early_stop=None,
        merged_from=(),
        retry_of=None,
        tags=(),
    )


def suite_differences(run: Run, request: Request, context: PlanningContext) -> list[SettingDifference]:
    """Returns how the suites, targets and judges that a request names now differ from those of the run."""
    if not request.has_suite_names:
        return []
    run_request = fill_from_run(run, request)
    requested_runs = pair_with_targets(load_suites(run_request, context), run_request, context)
    return [
        difference
        for requested_run in _with_same_prompt(requested_runs, run)
        for difference in find_content_differences(run, requested_run)
    ]


def _with_same_prompt(requested_runs: Iterable[RequestedRun], run: Run) -> list[RequestedRun]:
    """Returns those of a run's suite prompts, of which a command names all; else all of them."""
    runs = list(requested_runs)
    same = [
        requested_run
        for requested_run in runs
        if (requested_run.prompt and requested_run.prompt.name) == run.prompt_name
    ]
    return same or runs


def environment_differences(
    run: Run, required: RequiredTargets, context: PlanningContext
) -> Iterator[SettingDifference]:
    """Yields how the environment differs from that of the run, as far as the store has recorded it."""
    for name in context.variable_values.find_changed(
        run.id, required.variables | target_variables(all_specs(run))
    ):
        yield SettingDifference("", f"the variable {name}: it had another value")
    embedder = embedder_name(context.environ)
    if run.embedder is not None and run.embedder != embedder:
        text = f"the embedding model: the run has {run.embedder}, $PROCTOR_EMBEDDINGS names {embedder}"
        yield SettingDifference("", text, by_regrade=True)
