"""Comments of people on an answer: added and deleted from the page of its case."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.errors import NothingSelected, UsageError
from proctor.model import Comment
from proctor.protocols import Store, StoredComment
from proctor.reports.runs.serialize import TrialResult
from proctor.services.runs.reading.case_detail import load_case_detail
from proctor.web.browser_sessions import get_session
from proctor.web.person_texts import parse_note, parse_person_name
from proctor.web.project import get_project
from proctor.web.security import PageForm, read_form
from proctor.web.templates_env import PageNotFound, load_run

router = APIRouter()


def list_comments(store: Store, run_id: str, row: TrialResult) -> list[StoredComment]:
    """Returns the comments on an answer, oldest first; none while it is hidden."""
    if row.sealed:
        return []
    trial = row.trial
    return [
        stored for stored in store.comments(run_id, trial.case_id) if stored.comment.repeat == trial.repeat
    ]


@router.post("/runs/{run_id}/cases/{position}/comments")
def add_comment(
    request: Request,
    run_id: str,
    position: int,
    form: Annotated[PageForm, Depends(read_form)],
    repeat: int | None = None,
) -> Response:
    """Saves a comment, and shows the case again."""
    session = get_session(request)
    by, text = parse_person_name(form.text("by")), parse_note(form.text("text"), "comment")
    if not text:
        raise UsageError("The comment is empty. Write some text first.")
    session.reviewer_name = by
    with get_project(request).open_store() as store:
        trial = _load_row(request, store, run_id, position, repeat).trial
        comment = Comment(run=run_id, case_id=trial.case_id, repeat=trial.repeat, by=by, text=text)
        stored = store.add_comment(comment)
    return _show_case(request, f"comment-{stored.number}")


@router.post("/runs/{run_id}/cases/{position}/comments/delete")
def delete_comment(
    request: Request,
    run_id: str,
    position: int,
    form: Annotated[PageForm, Depends(read_form)],
    repeat: int | None = None,
) -> Response:
    """Deletes a comment of this person, and shows the case again."""
    session = get_session(request)
    with get_project(request).open_store() as store:
        row = _load_row(request, store, run_id, position, repeat)
        selected = next(
            (
                stored
                for stored in list_comments(store, run_id, row)
                if str(stored.number) == form.text("number")
            ),
            None,
        )
        if selected is not None and selected.comment.by != session.reviewer_name:
            raise UsageError("Only its author can delete a comment. Nothing was changed.")
        if selected is None or not store.remove_comment(selected.number):
            raise UsageError("This comment was already deleted. Nothing was changed.")
    session.flash("The comment is deleted.")
    return _show_case(request, "comments")


def _load_row(request: Request, store: Store, run_id: str, position: int, repeat: int | None) -> TrialResult:
    """Returns the trial that is commented on.

    Raises:
        PageNotFound: there is none, or it is hidden.
    """
    run = load_run(store, run_id)
    try:
        detail = load_case_detail(
            store, run, position, reveal=run.id in get_session(request).revealed, history=0
        )
        row = detail.rows[0] if repeat is None else detail.get_row(repeat)
    except NothingSelected as error:
        raise PageNotFound(str(error)) from None
    if row.sealed:
        raise PageNotFound("This answer is in the hidden holdout. Reveal it before you comment on it.")
    return row


def _show_case(request: Request, anchor: str) -> Response:
    """Redirects to the page of the case with the same repeat, filter and view."""
    path = request.url.path.partition("/comments")[0]
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{path}{query}#{anchor}", 303)
