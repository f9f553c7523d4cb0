"""Runs started over the API, each by a process of its own, as the page Run Suite starts them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from proctor.protocols import Store
from proctor.reports.formatting import utc
from proctor.services.runs.reading.estimate_record import Estimate
from proctor.web.api.models import starts as models
from proctor.web.api.problems import Conflict, wrong_fields
from proctor.web.api.requests import JSON, LOCATION, Group, Nothing, RunId
from proctor.web.api.responses import answer
from proctor.web.project import Site, site_of
from proctor.web.runs.form import RANGES, Choices, Given, WrongChoices, chosen
from proctor.web.runs.processes import Children, Start, children_of
from proctor.web.runs.start import command_of, estimate_of, project_of, start, why_not_resumed
from proctor.web.templates_env import NotThere, run_of

router = APIRouter(tags=["runs"])

_FIELDS = {"target": "targets", "typed": "targets", "judge": "judges", "tag": "tags", "all_tag": "all_tags"}
"""What the page's fields are called here, where that is something else."""


@router.post("/estimates", response_model=models.EstimateRow, responses={404: {}}, dependencies=JSON)
def estimate_run(request: Request, body: models.RunWanted) -> Response:
    """How many calls a run would make, at about what cost and in what time; nobody is asked."""
    site = site_of(request)
    try:
        with site.store() as store:
            choices = chosen(store, _given(body), project_of(site))
            found = estimate_of(site, store, choices)
    except WrongChoices as error:
        return _refused(error, request)
    return answer(_estimate_row(found, command_of(site, choices.words)))


@router.post(
    "/runs",
    response_model=models.StartRow,
    status_code=202,
    responses={202: {"headers": LOCATION}, 409: {}},
    dependencies=JSON,
)
def start_run(request: Request, body: models.RunStart) -> Response:
    """Start a run of a suite on each target, by a process of its own: `proctor run`.

    Follow `Location` until `runs` has the ids, then `/runs/{run_id}/progress`.
    """
    site, given = site_of(request), _given(body)
    try:
        with site.store() as store:
            choices = chosen(store, given, project_of(site))
            _check_new(store, children_of(site), body.group, choices)
            estimate_of(site, store, choices)
            begun = start(site, choices, group=body.group, given=given)
            row = _start_row(site, store, begun)
    except WrongChoices as error:
        return _refused(error, request)
    return answer(row, 202, {"location": f"/api/v1/starts/{begun.group}"})


@router.get("/starts/{group}", response_model=models.StartRow, responses={404: {}})
def get_start(request: Request, group: Group) -> Response:
    """Runs that were started here: whether the process is at work, what it says, and which runs are there."""
    site = site_of(request)
    with site.store() as store:
        return answer(_start_row(site, store, _found(site, group)))


@router.post(
    "/starts/{group}/stop",
    response_model=models.Stopping,
    status_code=202,
    responses={404: {}, 409: {}},
    dependencies=JSON,
)
def stop_start(request: Request, group: Group, _body: Nothing) -> Response:
    """Stop what was started, as Ctrl-C does; what finished is kept, and each run can be resumed."""
    site = site_of(request)
    if not children_of(site).stop(_found(site, group)):
        raise Conflict(f"Nothing is at work as {group!r} any more.")
    return answer({"run": None, "group": group, "stopping": True}, 202)


@router.post(
    "/runs/{run_id}/stop",
    response_model=models.Stopping,
    status_code=202,
    responses={404: {}, 409: {}},
    dependencies=JSON,
)
def stop_run(request: Request, run_id: RunId, _body: Nothing) -> Response:
    """Stop a run, wherever it was started, as Ctrl-C does; what finished is kept."""
    site = site_of(request)
    with site.store() as store:
        run = run_of(store, run_id)
        if not children_of(site).stop_run(store, run):
            raise Conflict(f"Nobody is making run {run.id}, or not on this machine: it is {run.status}.")
    return answer({"run": run.id, "group": run.group, "stopping": True}, 202)


@router.post(
    "/runs/{run_id}/resume",
    response_model=models.StartRow,
    status_code=202,
    responses={202: {"headers": LOCATION}, 404: {}, 409: {}},
    dependencies=JSON,
)
def resume_run(request: Request, run_id: RunId, _body: Nothing) -> Response:
    """Make what is missing of a run that was cut short, by a process of its own."""
    site = site_of(request)
    with site.store() as store:
        run = run_of(store, run_id)
        if why := why_not_resumed(store, run):
            raise Conflict(why)
        begun = children_of(site).resume(run)
        if begun is None:
            raise Conflict(f"Run {run.id} is being made already.")
        row = _start_row(site, store, begun)
    return answer(row, 202, {"location": f"/api/v1/starts/{begun.group}"})


def _check_new(store: Store, children: Children, group: str | None, choices: Choices) -> None:
    """Refuse a group that is something else already.

    Raises:
        Conflict: it is.
    """
    if group is None:
        return
    known = children.find(group)
    if known is not None:
        if not known.runs(choices.words):
            raise Conflict(f"Something else was started as {group!r} already. Choose another group.")
    elif any(group in (run.group, run.id) for run in store.runs()):
        raise Conflict(f"There is a group or a run {group!r} in the store already. Choose another group.")


def _found(site: Site, group: str) -> Start:
    begun = children_of(site).find(group)
    if begun is None:
        raise NotThere(f"Nothing was started here as {group!r}.")
    return begun


# --- bodies to choices, and back ---------------------------------------------------------------------------


def _given(body: models.RunWanted) -> Given:
    """A body as the fields of the page."""
    numbers = {name: getattr(body, name) for name in RANGES}
    words: dict[str, list[str]] = {
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
    return words


def _refused(error: WrongChoices, request: Request) -> Response:
    wrong = {_FIELDS.get(field, field): sentence for field, sentence in error.wrong.items()}
    return wrong_fields(wrong, request.url.path)


def _start_row(site: Site, store: Store, begun: Start) -> dict[str, Any]:
    children = children_of(site)
    alive = children.is_alive(begun)
    return {
        "group": begun.group,
        "command": begun.command,
        "alive": alive,
        "runs": [run.id for run in children.runs(store, begun.group)],
        "said": children.said(begun),
        "started_at": utc(begun.started_at),
    }


def _estimate_row(found: Estimate, command: str) -> dict[str, Any]:
    shares = [
        {
            "name": share.name,
            "judging": share.judging,
            "calls": share.calls,
            "input_tokens": share.usage.input_tokens,
            "output_tokens": share.usage.output_tokens,
            "counted": share.counted,
            "cost_usd": share.cost_usd,
            "seconds": share.seconds,
        }
        for share in found.shares
    ]
    names = ("sentence", "cases", "dev", "holdout", "targets", "calls", "judge_calls", "at_most")
    row = {name: getattr(found, name) for name in (*names, "cost_usd", "seconds")}
    return {**row, "notes": list(found.notes), "shares": shares, "command": command}
