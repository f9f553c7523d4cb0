"""Stored runs over the API: list, follow, read, reveal."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query
from msgspec.structs import replace
from starlette.requests import Request

from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.record_fields import record_from
from proctor.reports.runs.listing import summary_record
from proctor.reports.runs.records import RunRecord
from proctor.services.runs.reading.listing import RunFilter, find_runs, summarize_run
from proctor.services.runs.reading.report import has_holdout
from proctor.services.runs.reading.run_summaries import RunSummary
from proctor.web.api.bodies import EmptyRequest, ListRunsQuery
from proctor.web.api.operations import operation
from proctor.web.api.problems import Conflict
from proctor.web.api.records import RevealRecord, RunPageRecord, RunProgressRecord
from proctor.web.api.requests import REQUIRES_JSON, RunId
from proctor.web.browser_sessions import get_session
from proctor.web.project import get_project
from proctor.web.templates_env import load_run

router = APIRouter(tags=["runs"])

_TIMEOUT_S = 60.0
"""How long a request waits while the trials of a run are counted for the first time."""
_PROGRESS_TIMEOUT_S = 2.0
"""The same for progress, which clients ask for often."""


@operation(router.get, "/runs", 404)
def list_runs(request: Request, query: Annotated[ListRunsQuery, Query()]) -> RunPageRecord:
    """Stored runs, newest first; the list has no holdout pass rates, so it is no holdout access."""
    run_filter = RunFilter(
        suite=query.suite,
        version=query.version,
        target=query.target,
        prompt=query.prompt,
        tag=query.tag,
        group=query.group,
        status=query.status,
    )
    with get_project(request).open_store() as store:
        if query.after:
            load_run(store, query.after)
        runs = list(islice(find_runs(store, run_filter, query.after), query.limit + 1))
        page = [summary_record(summarize_run(store, run)) for run in runs[: query.limit]]
    return RunPageRecord(runs=tuple(page), next=page[-1].run if len(runs) > query.limit else None)


@operation(router.get, "/runs/{run_id}", 404)
def get_run(request: Request, run_id: RunId) -> RunRecord:
    """The numbers of a run, counted from its trials; with a holdout, this counts as a holdout access."""
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        summary = project.summaries.refresh_in(store, run, _TIMEOUT_S).summary
        if "holdout" in summary.splits:
            get_session(request).record_access(store, run)
            summary = replace(summary, looks=len(store.holdout_accesses(run.suite.digest)))
        return summary


@operation(router.get, "/runs/{run_id}/progress", 404)
def get_progress(request: Request, run_id: RunId) -> RunProgressRecord:
    """The progress of a run, wherever it was started; of a holdout, only what the list of runs shows."""
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        return _progress(store, run, project.summaries.refresh_in(store, run, _PROGRESS_TIMEOUT_S))


def _progress(store: Store, run: Run, run_summary: RunSummary) -> RunProgressRecord:
    counts = summary_record(summarize_run(store, run))
    now = datetime.now(UTC)
    done_count = run.planned - counts.missing
    elapsed_s = ((run.finished_at or now) - run.started_at).total_seconds()
    rate = done_count / elapsed_s if run_summary.alive and elapsed_s > 0 else None
    return record_from(
        counts,
        RunProgressRecord,
        status=run_summary.status,
        alive=run_summary.alive,
        owner=None if run_summary.owner is None else run_summary.owner.title,
        done=done_count,
        waiting=max(0, run_summary.stored - done_count),
        per_second=None if rate is None else round(rate, 3),
        seconds_left=round(counts.missing / rate, 1) if rate else None,
        cost_usd=run_summary.summary.cost_usd,
        at=now,
    )


@operation(router.post, "/runs/{run_id}/reveal", 404, 409, dependencies=REQUIRES_JSON)
def reveal_run(request: Request, run_id: RunId, _body: EmptyRequest) -> RevealRecord:
    """Show the held-out content of a run to API clients until the server is stopped.

    It is recorded permanently as a holdout access.
    """
    with get_project(request).open_store() as store:
        run = load_run(store, run_id)
        if not has_holdout(store, run):
            raise Conflict(f"Run {run.id} has no holdout, so there is nothing to reveal.")
        get_session(request).reveal(store, run)
        return RevealRecord(run=run.id, looks=len(store.holdout_accesses(run.suite.digest)))
