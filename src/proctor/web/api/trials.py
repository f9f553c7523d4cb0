"""The trials of a run over the API: filtered, in pages, and one by one."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from proctor.errors import NothingSelected
from proctor.model import Run
from proctor.reports.runs.serialize import trial_row
from proctor.services.runs.reading.case_detail import AskedCase, asked_case
from proctor.stores.catalogue.records import Wanted
from proctor.web.api.models import runs as models
from proctor.web.api.requests import Position, Repeat, RunId
from proctor.web.api.responses import json_response
from proctor.web.browser_sessions import get_session
from proctor.web.project import Project, get_project
from proctor.web.templates_env import PageNotFound, load_run

router = APIRouter(prefix="/runs/{run_id}/trials", tags=["trials"])

_PATIENCE_S = 5.0
"""So long a request waits while a run is looked through for the first time."""


@router.get("", response_model=models.TrialPage, responses={404: {}})
def list_trials(request: Request, run_id: RunId, asked: Annotated[models.TrialFilter, Query()]) -> Response:
    """The finished trials of a run that fit, whole; those held out are sealed until the run is revealed.

    Who sees which of them passed knows the holdout's pass rate, so this counts as a look at it.
    """
    project, session = get_project(request), get_session(request)
    wanted = Wanted(
        verdicts=tuple(asked.verdict),
        tags=tuple(asked.tag),
        graders=tuple(asked.grader),
        missed=tuple(asked.missed),
        category=asked.category,
        split=asked.split,
        case=asked.case,
        text=asked.text,
    )
    with project.store() as store:
        run = load_run(store, run_id)
        looked = project.cataloguer.look_in(store, run, _PATIENCE_S)
        if "holdout" in looked.summary["splits"]:
            session.record_access(store, run)
        revealed = run.id in session.revealed
        page = project.catalogue.page(run.id, wanted, asked.sort, asked.after, asked.limit, revealed=revealed)
        asked_cases = cache(lambda position: _leaf(project, run, position, reveal=revealed))
        rows = [_row(asked_cases(line.position), line.repeat) for line in page.lines]
    told = {"trials": rows, "total": page.total, "whole": looked.whole}
    return json_response({**told, "next": page.next, "previous": page.previous})


@router.get("/{position}/{repeat}", response_model=models.Trial, responses={404: {}})
def get_trial(request: Request, run_id: RunId, position: Position, repeat: Repeat) -> Response:
    """One trial, with all that is known of it."""
    project = get_project(request)
    with project.store() as store:
        run = load_run(store, run_id)
        found = _leaf(project, run, position, reveal=run.id in get_session(request).revealed)
    try:
        return json_response(_row(found, repeat))
    except NothingSelected as error:
        raise PageNotFound(str(error)) from None


def _leaf(project: Project, run: Run, position: int, *, reveal: bool) -> AskedCase:
    try:
        return asked_case(project.store_path, run, position, reveal=reveal, history=0)
    except NothingSelected as error:
        raise PageNotFound(str(error)) from None


def _row(found: AskedCase, repeat: int) -> dict[str, Any]:
    return {"position": found.position, **trial_row(found.run, found.row(repeat))}
