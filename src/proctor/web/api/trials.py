"""The trials of a run over the API: filtered, in pages, and one by one."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from proctor.errors import NothingSelected
from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.runs.serialize import trial_row
from proctor.services.runs.reading.case_detail import AskedCase, asked_case
from proctor.stores.catalogue.records import Wanted
from proctor.web.api.models import runs as models
from proctor.web.api.requests import Position, Repeat, RunId
from proctor.web.api.responses import answer
from proctor.web.browser_sessions import visitor_of
from proctor.web.project import site_of
from proctor.web.templates_env import NotThere, run_of

router = APIRouter(prefix="/runs/{run_id}/trials", tags=["trials"])

_PATIENCE_S = 5.0
"""So long a request waits while a run is looked through for the first time."""


@router.get("", response_model=models.TrialPage, responses={404: {}})
def list_trials(request: Request, run_id: RunId, asked: Annotated[models.TrialFilter, Query()]) -> Response:
    """The finished trials of a run that fit, whole; those held out are sealed until the run is revealed.

    Who sees which of them passed knows the holdout's pass rate, so this counts as a look at it.
    """
    site, visitor = site_of(request), visitor_of(request)
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
    with site.store() as store:
        run = run_of(store, run_id)
        looked = site.cataloguer.look_in(store, run, _PATIENCE_S)
        if "holdout" in looked.summary["splits"]:
            visitor.looks_at(store, run)
        revealed = run.id in visitor.revealed
        page = site.catalogue.page(run.id, wanted, asked.sort, asked.after, asked.limit, revealed=revealed)
        asked_cases = cache(lambda position: _leaf(store, run, position, reveal=revealed))
        rows = [_row(asked_cases(line.position), line.repeat) for line in page.lines]
    told = {"trials": rows, "total": page.total, "whole": looked.whole}
    return answer({**told, "next": page.next, "previous": page.previous})


@router.get("/{position}/{repeat}", response_model=models.TrialRow, responses={404: {}})
def get_trial(request: Request, run_id: RunId, position: Position, repeat: Repeat) -> Response:
    """One trial, with all that is known of it."""
    site = site_of(request)
    with site.store() as store:
        run = run_of(store, run_id)
        found = _leaf(store, run, position, reveal=run.id in visitor_of(request).revealed)
    try:
        return answer(_row(found, repeat))
    except NothingSelected as error:
        raise NotThere(str(error)) from None


def _leaf(store: Store, run: Run, position: int, *, reveal: bool) -> AskedCase:
    try:
        return asked_case(store, run, position, reveal=reveal, history=0)
    except NothingSelected as error:
        raise NotThere(str(error)) from None


def _row(found: AskedCase, repeat: int) -> dict[str, Any]:
    return {"position": found.position, **trial_row(found.run, found.row(repeat))}
