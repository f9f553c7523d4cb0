"""What resuming, retrying and regrading share: a stored run, its cases, and what has changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Run, Settings
from proctor.plan import Index
from proctor.services.runs.execution.target_pool import embedder_of
from proctor.services.runs.execution.variable_values import variables_of
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.judge_choice import Wanted, specs_of
from proctor.services.runs.planning.load_suites import index_stored_suite, load_suites
from proctor.services.runs.planning.requested_runs import pair_with_targets
from proctor.services.runs.planning.resume_settings import Difference, as_of, content_differences
from proctor.services.runs.request import Request, new_id


def check_own(run: Run) -> None:
    """Refuses an imported run: a stranger wrote its targets, which may name programs or send keys elsewhere.

    Raises:
        UsageError: the run is imported.
    """
    if run.imported is not None:
        raise UsageError(
            f"Run {run.id} was imported, and nobody is asked again by what a bundle says. "
            f"`proctor run '{run.suite.name}@{run.suite.version}' --target T` asks its suite anew."
        )


def index_run(run: Run, context: PlanningContext) -> tuple[Index, Wanted]:
    """Returns the selected cases of a stored run, and which targets and judges they require."""
    indexer, required = index_stored_suite(context.store, run.suite, run.settings)
    return indexer.index(run.suite.split_rule, run.seat), required


def copy_run(earlier: Run, settings: Settings, context: PlanningContext) -> Run:
    """Returns a new run with the values of an earlier one, in a group of its own."""
    return replace(
        earlier,
        id=new_id(),
        group=new_id(),
        started_at=datetime.now(UTC),
        finished_at=None,
        status="running",
        prices_date=context.prices_date,
        settings=settings,
        tags=(),
    )


def suite_differences(run: Run, request: Request, context: PlanningContext) -> list[Difference]:
    """Returns how the suites, targets and judges that a request names now differ from those of the run."""
    if not request.names_suites:
        return []
    run_request = as_of(run, request)
    requested_runs = pair_with_targets(load_suites(run_request, context), run_request, context)
    return [
        difference
        for requested_run in requested_runs
        for difference in content_differences(run, requested_run)
    ]


def environment_differences(run: Run, required: Wanted, context: PlanningContext) -> Iterator[Difference]:
    """Yields how the environment differs from that of the run, as far as the store has recorded it."""
    for name in context.values.changed(run.id, required.variables | variables_of(specs_of(run))):
        yield Difference("", f"the variable {name}: it had another value")
    embedder = embedder_of(context.environ)
    if run.embedder is not None and run.embedder != embedder:
        text = f"the embedding model: the run has {run.embedder}, $PROCTOR_EMBEDDINGS names {embedder}"
        yield Difference("", text, by_regrade=True)
