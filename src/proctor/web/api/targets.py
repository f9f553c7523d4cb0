"""The targets that can be called, over the API: name and kind only."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from proctor.errors import ProctorError, UsageError
from proctor.model import Params
from proctor.services.runs.starts.allowed_targets import (
    AllowedTarget,
    RunContext,
    list_allowed_targets,
    load_run_context,
)
from proctor.web.api.operations import operation
from proctor.web.api.records import TargetListRecord, TargetRecord
from proctor.web.project import get_project

router = APIRouter(tags=["targets"])


@operation(router.get, "/targets", 400)
def list_targets(request: Request) -> TargetListRecord:
    """The targets that runs can name: those of this folder's targets file, and the built-in ones."""
    context = load_run_context(get_project(request))
    try:
        context.names.names()
    except ProctorError as error:
        raise UsageError(str(error)) from None
    targets = [
        TargetRecord(name=target.name, kind=_kind(context, target))
        for target in list_allowed_targets(context).targets
    ]
    return TargetListRecord(targets=tuple(targets))


def _kind(context: RunContext, target: AllowedTarget) -> str:
    try:
        return context.names.get_spec(target.name, Params(), judged=False).kind
    except ProctorError:  # its entry is wrong or a variable is not set; starting a run reports that
        return target.description.partition(" ")[0]
