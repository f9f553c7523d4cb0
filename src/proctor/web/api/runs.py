"""Stored runs over the API: list, follow, read, reveal."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.formatting import format_utc
from proctor.reports.runs import listing
from proctor.services.runs.reading.listing import RunFilter, find_runs, summarize_run
from proctor.services.runs.reading.report import has_holdout
from proctor.services.runs.reading.run_summaries import RunSummary
from proctor.web.api.models import runs as models
from proctor.web.api.problems import Conflict
from proctor.web.api.requests import REQUIRES_JSON, EmptyRequest, RunId
from proctor.web.api.responses import json_response
from proctor.web.browser_sessions import get_session
from proctor.web.project import get_project
from proctor.web.templates_env import load_run

router = APIRouter(tags=["runs"])

_TIMEOUT_S = 60.0
"""How long a request waits while the trials of a run are counted for the first time."""
_PROGRESS_TIMEOUT_S = 2.0
"""The same for progress, which clients ask for often."""


@router.get("/runs", response_model=models.RunPageResource, responses={404: {}})
def list_runs(request: Request, query: Annotated[models.ListRunsQuery, Query()]) -> Response:
    """Stored runs, newest first; the list gives no holdout pass rates and counts as no access."""
    run_filter = RunFilter(
        suite=query.suite,
        version=query.version,
        target=query.target,
        tag=query.tag,
        group=query.group,
        status=query.status,
    )
    with get_project(request).open_store() as store:
        if query.after:
            load_run(store, query.after)
        runs = list(islice(find_runs(store, run_filter, query.after), query.limit + 1))
        rows = [listing.entry_row(summarize_run(store, run)) for run in runs[: query.limit]]
    return json_response({"runs": rows, "next": rows[-1]["run"] if len(runs) > query.limit else None})


@router.get("/runs/{run_id}", response_model=models.RunResource, responses={404: {}})
def get_run(request: Request, run_id: RunId) -> Response:
    """The numbers of a run, counted from its trials; for a run with a holdout this is a holdout access."""
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        summary = project.summaries.refresh_in(store, run, _TIMEOUT_S).summary
        if "holdout" in summary["splits"]:
            get_session(request).record_access(store, run)
            summary = {**summary, "looks": len(store.holdout_accesses(run.suite.digest))}
        return json_response(summary)


@router.get("/runs/{run_id}/progress", response_model=models.RunProgressResource, responses={404: {}})
def get_progress(request: Request, run_id: RunId) -> Response:
    """How far a run is, wherever it was started; of a holdout it gives what the list of runs gives."""
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        return json_response(
            _progress(store, run, project.summaries.refresh_in(store, run, _PROGRESS_TIMEOUT_S))
        )


def _progress(store: Store, run: Run, run_summary: RunSummary) -> dict[str, Any]:
    counts = listing.entry_row(summarize_run(store, run))
    done_count = run.planned - counts["missing"]
    elapsed_s = ((run.finished_at or datetime.now(UTC)) - run.started_at).total_seconds()
    rate = done_count / elapsed_s if run_summary.alive and elapsed_s > 0 else None
    return {
        **{name: counts[name] for name in models.RunProgressResource.model_fields if name in counts},
        "status": run_summary.status,
        "alive": run_summary.alive,
        "done": done_count,
        "waiting": max(0, run_summary.stored - done_count),
        "per_second": None if rate is None else round(rate, 3),
        "seconds_left": round(counts["missing"] / rate, 1) if rate else None,
        "cost_usd": run_summary.summary["cost_usd"],
        "at": format_utc(datetime.now(UTC)),
    }


@router.post(
    "/runs/{run_id}/reveal",
    response_model=models.RevealResource,
    responses={404: {}, 409: {}},
    dependencies=REQUIRES_JSON,
)
def reveal_run(request: Request, run_id: RunId, _body: EmptyRequest) -> Response:
    """Show the held-out content of a run to API clients until the server is stopped.

    It is recorded permanently as a holdout access.
    """
    with get_project(request).open_store() as store:
        run = load_run(store, run_id)
        if not has_holdout(store, run):
            raise Conflict(f"Nothing is held out in run {run.id}, so there is nothing to reveal.")
        get_session(request).reveal(store, run)
        return json_response({"run": run.id, "looks": len(store.holdout_accesses(run.suite.digest))})
