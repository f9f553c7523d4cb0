"""The targets that can be called, over the API: name and kind only."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from proctor.errors import ProctorError, UsageError
from proctor.model import Params
from proctor.web.api.models import suites as models
from proctor.web.api.responses import json_response
from proctor.web.project import get_project
from proctor.web.runs.allowed_targets import AllowedTarget, RunContext, list_allowed_targets
from proctor.web.runs.start import load_run_context

router = APIRouter(tags=["targets"])


@router.get("/targets", response_model=models.TargetListResource, responses={400: {}})
def list_targets(request: Request) -> Response:
    """The targets that can be named here: those of this folder's targets file, and the built-in ones."""
    context = load_run_context(get_project(request))
    try:
        context.names.names()
    except ProctorError as error:
        raise UsageError(str(error)) from None
    allowed_targets = list_allowed_targets(context)
    rows = [{"name": target.name, "kind": _kind(context, target)} for target in allowed_targets.targets]
    return json_response({"targets": rows})


def _kind(context: RunContext, target: AllowedTarget) -> str:
    try:
        return context.names.get_spec(target.name, Params(), judged=False).kind
    except ProctorError:  # its entry is wrong or a variable is not set; starting a run reports that
        return target.description.partition(" ")[0]
