"""The trials of a run over the API: filtered lists and single trials."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from fastapi import APIRouter, Query
from msgspec.structs import asdict
from starlette.requests import Request

from proctor.errors import NothingSelected
from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.runs.records import TrialRecord
from proctor.reports.runs.serialize import trial_record
from proctor.services.runs.reading.case_detail import CaseDetail, load_case_detail
from proctor.services.runs.reading.trial_table import TrialFilter, TrialQuery
from proctor.web.api.bodies import ListTrialsQuery
from proctor.web.api.operations import operation
from proctor.web.api.records import TrialPageRecord
from proctor.web.api.requests import Position, Repeat, RunId
from proctor.web.browser_sessions import get_session
from proctor.web.project import get_project
from proctor.web.templates_env import PageNotFound, load_run

router = APIRouter(prefix="/runs/{run_id}/trials", tags=["trials"])

_TIMEOUT_S = 5.0
"""How long a request waits while the trials of a run are counted for the first time."""


@operation(router.get, "", 404)
def list_trials(
    request: Request, run_id: RunId, query: Annotated[ListTrialsQuery, Query()]
) -> TrialPageRecord:
    """The finished trials of a run that match; held-out ones are hidden until the run is revealed.

    The list shows the holdout's pass rate, so it counts as a holdout access.
    """
    project, session = get_project(request), get_session(request)
    trial_filter = TrialFilter(
        verdicts=tuple(query.verdict),
        tags=tuple(query.tag),
        graders=tuple(query.grader),
        missed=tuple(query.missed),
        category=query.category,
        split=query.split,
        case=query.case,
        text=query.text,
    )
    with project.open_store() as store:
        run = load_run(store, run_id)
        run_summary = project.summaries.refresh_in(store, run, _TIMEOUT_S)
        if "holdout" in run_summary.summary.splits:
            session.record_access(store, run)
        revealed = run.id in session.revealed
        trial_query = TrialQuery(filter=trial_filter, sort=query.sort, revealed=revealed)
        page = project.trials.select(store, run_summary, trial_query).page(query.after, query.limit)
        load_case = cache(lambda position: _load_case(store, run, position, reveal=revealed))
        trials = [_trial_record(load_case(position), repeat) for position, repeat in page.places]
    return TrialPageRecord(
        trials=tuple(trials),
        total=page.total,
        whole=run_summary.whole,
        next=page.next,
        previous=page.previous,
    )


@operation(router.get, "/{position}/{repeat}", 404)
def get_trial(request: Request, run_id: RunId, position: Position, repeat: Repeat) -> TrialRecord:
    """One trial with all of its data."""
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        detail = _load_case(store, run, position, reveal=run.id in get_session(request).revealed)
    try:
        return _trial_record(detail, repeat)
    except NothingSelected as error:
        raise PageNotFound(str(error)) from None


def _load_case(store: Store, run: Run, position: int, *, reveal: bool) -> CaseDetail:
    try:
        return load_case_detail(store, run, position, reveal=reveal, history=0)
    except NothingSelected as error:
        raise PageNotFound(str(error)) from None


def _trial_record(detail: CaseDetail, repeat: int) -> TrialRecord:
    fields = asdict(trial_record(detail.run, detail.get_row(repeat)))
    return TrialRecord(**fields | {"position": detail.position})
