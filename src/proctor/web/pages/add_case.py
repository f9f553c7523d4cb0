"""The page Add case: makes a case from an answer of a run, and puts it at the end of a suite's text."""

from __future__ import annotations

import shlex

from fastapi import APIRouter
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from proctor.errors import NothingSelected
from proctor.services.runs.reading.case_detail import load_case_detail
from proctor.services.suites.add_case import begin_suite, copy_case, extend_suite
from proctor.web.browser_sessions import get_session
from proctor.web.pages.create_suite import MAX_EDITED_LENGTH
from proctor.web.project import get_project
from proctor.web.templates_env import PageNotFound, load_run, render_page

router = APIRouter()


@router.get("/suites/add-case")
def show_form(
    request: Request, run: str, position: int, repeat: int | None = None, suite: str | None = None
) -> Response:
    """Shows a suite's text with the new case at its end.

    By default the suite is that of the run; if no suite is saved under the name, it has the new case alone.
    """
    with get_project(request).open_store() as store:
        stored_run = load_run(store, run)
        is_revealed = stored_run.id in get_session(request).revealed
        try:
            # A case of a suite has no prompt of a run filled in.
            source = replace(stored_run, prompt=None)
            detail = load_case_detail(store, source, position, reveal=is_revealed, history=0)
            row = detail.rows[0] if repeat is None else detail.get_row(repeat)
        except NothingSelected as error:
            raise PageNotFound(str(error)) from None
        if row.sealed:
            raise PageNotFound("This case is in the hidden holdout. Reveal the holdout of its run first.")
        names = sorted({saved.suite.name for saved in store.versions()})
        name = stored_run.suite.name if suite is None else suite
        target_suite = store.suite(name) if name in names else None
        case = copy_case(row.case, stored_run, row.trial.output)
        extended = (
            begin_suite(stored_run, case) if target_suite is None else extend_suite(store, target_suite, case)
        )
    return render_page(
        request,
        "add_case.html",
        row=row,
        run=stored_run,
        position=position,
        names=names,
        suite=target_suite,
        extended=extended,
        text=extended.text if extended.text and len(extended.text) <= MAX_EDITED_LENGTH else None,
        command=f"proctor runs show {stored_run.id} --case {shlex.quote(row.trial.case_id)} --json",
    )
