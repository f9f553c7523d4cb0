"""The images, sounds and files of an answer: what the page of a case shows, and the bytes of each."""

from __future__ import annotations

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from proctor.errors import NothingSelected
from proctor.model import Attachment, Trial
from proctor.reports.runs.answer_parts import attachment_data
from proctor.services.runs.reading.case_detail import load_case_detail
from proctor.web.browser_sessions import get_session
from proctor.web.media_response import PLAYERS, Player, make_media_response
from proctor.web.project import get_project
from proctor.web.templates_env import PageNotFound, load_run

router = APIRouter()


class MediaView(Struct, frozen=True):
    """An attachment of an answer, and where its bytes are."""

    attachment: Attachment
    address: str
    size: int

    @property
    def player(self) -> Player | None:
        """The element that shows it; None if it can only be downloaded."""
        return PLAYERS.get(self.attachment.media_type)


def list_media(run_id: str, position: int, trial: Trial) -> list[MediaView]:
    """Returns the attachments of an answer; empty if it is hidden."""
    folder = f"/runs/{run_id}/cases/{position}/answers/{trial.repeat}/media"
    attachments = () if trial.output is None else trial.output.attachments
    return [
        MediaView(attachment, f"{folder}/{number}", len(attachment_data(attachment)))
        for number, attachment in enumerate(attachments)
    ]


@router.get("/runs/{run_id}/cases/{position}/answers/{repeat}/media/{number}")
def send_media(request: Request, run_id: str, position: int, repeat: int, number: int) -> Response:
    """Sends an attachment of an answer as a download, so that no browser runs it."""
    with get_project(request).open_store() as store:
        run = load_run(store, run_id)
        reveal = run.id in get_session(request).revealed
        try:
            detail = load_case_detail(store, run, position, reveal=reveal, history=0)
            media = list_media(run_id, position, detail.get_row(repeat).trial)
        except NothingSelected as error:
            raise PageNotFound(str(error)) from None
    if not 0 <= number < len(media):
        raise PageNotFound("This answer has no such attachment, or it is in the hidden holdout.")
    return make_media_response(media[number].attachment, request.headers.get("range", ""))
