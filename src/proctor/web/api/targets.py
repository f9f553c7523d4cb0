"""Who can be asked, over the API: by name and kind, and nothing else of them."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from proctor.errors import ProctorError, UsageError
from proctor.model import Params
from proctor.web.api.models import suites as models
from proctor.web.api.responses import answer
from proctor.web.project import site_of
from proctor.web.runs.allowed_targets import Offered, Project, offer_of
from proctor.web.runs.start import project_of

router = APIRouter(tags=["targets"])


@router.get("/targets", response_model=models.TargetList, responses={400: {}})
def list_targets(request: Request) -> Response:
    """Who can be asked from here by name: the targets of this folder's targets file, and those built in."""
    project = project_of(site_of(request))
    try:
        project.names.names()
    except ProctorError as error:
        raise UsageError(str(error)) from None
    offer = offer_of(project)
    rows = [{"name": one.name, "kind": _kind(project, one)} for one in offer.targets]
    return answer({"targets": rows})


def _kind(project: Project, one: Offered) -> str:
    try:
        return project.names.spec(one.name, Params(), judged=False).kind
    except ProctorError:  # its entry is wrong or a variable is not set, which whoever runs it is told
        return one.what.partition(" ")[0]
