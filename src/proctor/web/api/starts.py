"""Runs started over the API; each is a process of its own, as with the page Run Suite."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from proctor.protocols import Store
from proctor.reports.formatting import format_utc
from proctor.services.runs.reading.estimate_record import Estimate
from proctor.web.api.models import starts as models
from proctor.web.api.problems import Conflict, wrong_fields_response
from proctor.web.api.requests import LOCATION_HEADER, REQUIRES_JSON, EmptyRequest, Group, RunId
from proctor.web.api.responses import json_response
from proctor.web.project import Project, get_project
from proctor.web.runs.form import NUMBER_FIELDS, FormErrors, RawForm, RunForm, validate_form
from proctor.web.runs.processes import RunProcesses, StartedRun, get_run_processes
from proctor.web.runs.start import (
    load_run_context,
    make_estimate,
    reason_not_resumable,
    shell_command,
    start_process,
)
from proctor.web.templates_env import PageNotFound, load_run

router = APIRouter(tags=["runs"])

_FIELDS = {"target": "targets", "typed": "targets", "judge": "judges", "tag": "tags", "all_tag": "all_tags"}
"""API names of form fields that are called otherwise in the page's form."""


@router.post(
    "/estimates", response_model=models.EstimateResource, responses={404: {}}, dependencies=REQUIRES_JSON
)
def estimate_run(request: Request, body: models.RunRequest) -> Response:
    """Estimates the calls, cost and time of a run; no request is sent to a target."""
    project = get_project(request)
    try:
        with project.open_store() as store:
            run_form = validate_form(store, _to_raw_form(body), load_run_context(project))
            estimate = make_estimate(project, store, run_form)
    except FormErrors as error:
        return _form_error_response(error, request)
    return json_response(_estimate_row(estimate, shell_command(project, run_form.arguments)))


@router.post(
    "/runs",
    response_model=models.StartResource,
    status_code=202,
    responses={202: {"headers": LOCATION_HEADER}, 409: {}},
    dependencies=REQUIRES_JSON,
)
def start_run(request: Request, body: models.StartRequest) -> Response:
    """Start a run of a suite on each target, as a process of its own: `proctor run`.

    Follow `Location` until `runs` has the ids, then `/runs/{run_id}/progress`.
    """
    project, raw_form = get_project(request), _to_raw_form(body)
    try:
        with project.open_store() as store:
            run_form = validate_form(store, raw_form, load_run_context(project))
            _check_new(store, get_run_processes(project), body.group, run_form)
            make_estimate(project, store, run_form)
            started_run = start_process(project, run_form, group=body.group, raw_form=raw_form)
            row = _start_row(project, store, started_run)
    except FormErrors as error:
        return _form_error_response(error, request)
    return json_response(row, 202, {"location": f"/api/v1/starts/{started_run.group}"})


@router.get("/starts/{group}", response_model=models.StartResource, responses={404: {}})
def get_start(request: Request, group: Group) -> Response:
    """Runs that were started here: whether the process is running, its output, and the ids of its runs."""
    project = get_project(request)
    with project.open_store() as store:
        return json_response(_start_row(project, store, _find_start(project, group)))


@router.post(
    "/starts/{group}/stop",
    response_model=models.StopStatusResource,
    status_code=202,
    responses={404: {}, 409: {}},
    dependencies=REQUIRES_JSON,
)
def stop_start(request: Request, group: Group, _body: EmptyRequest) -> Response:
    """Stop what was started, as Ctrl-C does; finished trials are kept, and each run can be resumed."""
    project = get_project(request)
    if not get_run_processes(project).stop(_find_start(project, group)):
        raise Conflict(f"Nothing is at work as {group!r} any more.")
    return json_response({"run": None, "group": group, "stopping": True}, 202)


@router.post(
    "/runs/{run_id}/stop",
    response_model=models.StopStatusResource,
    status_code=202,
    responses={404: {}, 409: {}},
    dependencies=REQUIRES_JSON,
)
def stop_run(request: Request, run_id: RunId, _body: EmptyRequest) -> Response:
    """Stop a run, wherever it was started, as Ctrl-C does; finished trials are kept."""
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        if not get_run_processes(project).stop_run(store, run):
            raise Conflict(f"Nobody is making run {run.id}, or not on this machine: it is {run.status}.")
    return json_response({"run": run.id, "group": run.group, "stopping": True}, 202)


@router.post(
    "/runs/{run_id}/resume",
    response_model=models.StartResource,
    status_code=202,
    responses={202: {"headers": LOCATION_HEADER}, 404: {}, 409: {}},
    dependencies=REQUIRES_JSON,
)
def resume_run(request: Request, run_id: RunId, _body: EmptyRequest) -> Response:
    """Run the missing trials of an interrupted run, as a process of its own."""
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        if reason := reason_not_resumable(store, run):
            raise Conflict(reason)
        started_run = get_run_processes(project).resume(run)
        if started_run is None:
            raise Conflict(f"Run {run.id} is being made already.")
        row = _start_row(project, store, started_run)
    return json_response(row, 202, {"location": f"/api/v1/starts/{started_run.group}"})


def _check_new(store: Store, processes: RunProcesses, group: str | None, run_form: RunForm) -> None:
    """Refuses a group name that is already taken by something else.

    Raises:
        Conflict: it is.
    """
    if group is None:
        return
    earlier = processes.find(group)
    if earlier is not None:
        if not earlier.is_same_command(run_form.arguments):
            raise Conflict(f"Something else was started as {group!r} already. Choose another group.")
    elif any(group in (run.group, run.id) for run in store.runs()):
        raise Conflict(f"There is a group or a run {group!r} in the store already. Choose another group.")


def _find_start(project: Project, group: str) -> StartedRun:
    started_run = get_run_processes(project).find(group)
    if started_run is None:
        raise PageNotFound(f"Nothing was started here as {group!r}.")
    return started_run


# --- request bodies and responses --------------------------------------------------------------------------


def _to_raw_form(body: models.RunRequest) -> RawForm:
    """Converts a request body to the fields of the page's form."""
    numbers = {name: getattr(body, name) for name in NUMBER_FIELDS}
    fields: dict[str, list[str]] = {
        "suite": [body.suite],
        "version": [body.version or ""],
        "target": body.targets,
        "judge": body.judges,
        "split": [body.split or ""],
        "tag": body.tags,
        "all_tag": body.all_tags,
        "reuse": ["" if body.reuse is None else "yes" if body.reuse else "no"],
        **{name: [f"{value:.12g}"] for name, value in numbers.items() if value is not None},
    }
    return fields


def _form_error_response(error: FormErrors, request: Request) -> Response:
    messages = {_FIELDS.get(field, field): sentence for field, sentence in error.errors.items()}
    return wrong_fields_response(messages, request.url.path)


def _start_row(project: Project, store: Store, started_run: StartedRun) -> dict[str, Any]:
    processes = get_run_processes(project)
    alive = processes.is_alive(started_run)
    return {
        "group": started_run.group,
        "command": started_run.command,
        "alive": alive,
        "runs": [run.id for run in processes.list_runs(store, started_run.group)],
        "said": processes.read_output(started_run),
        "started_at": format_utc(started_run.started_at),
    }


def _estimate_row(estimate: Estimate, command: str) -> dict[str, Any]:
    shares = [
        {
            "name": share.name,
            "judging": share.judging,
            "calls": share.calls,
            "input_tokens": share.usage.input_tokens,
            "output_tokens": share.usage.output_tokens,
            "counted": share.is_measured,
            "cost_usd": share.cost_usd,
            "seconds": share.seconds,
        }
        for share in estimate.shares
    ]
    names = ("sentence", "cases", "dev", "holdout", "targets", "calls", "judge_calls", "at_most")
    row = {name: getattr(estimate, name) for name in (*names, "cost_usd", "seconds")}
    return {**row, "notes": list(estimate.notes), "shares": shares, "command": command}
