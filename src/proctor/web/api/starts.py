"""Runs started over the API; each is a process of its own, as with the page Run Suite."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from proctor.parameters import format_words
from proctor.protocols import Store
from proctor.reports.record_fields import record_from
from proctor.services.runs.reading.current_status import with_current_status
from proctor.services.runs.reading.estimate_record import Estimate
from proctor.services.runs.starts.allowed_targets import load_run_context
from proctor.services.runs.starts.processes import RunProcesses, StartedRun, get_run_processes
from proctor.services.runs.starts.run_form import NUMBER_FIELDS
from proctor.web.api.bodies import EmptyRequest, RunRequest, StartRequest
from proctor.web.api.operations import Created, operation
from proctor.web.api.problems import Conflict
from proctor.web.api.records import EstimatePartRecord, EstimateRecord, StartRecord, StopStatusRecord
from proctor.web.api.requests import REQUIRES_JSON, TAKES_JSON, Group, RunId
from proctor.web.project import Project, get_project
from proctor.web.runs.form import MAX_WRITTEN_PROMPTS, FormErrors, RawForm, validate_form
from proctor.web.runs.start import (
    make_estimate,
    make_start_arguments,
    reason_not_resumable,
    shell_command,
    start_process,
)
from proctor.web.templates_env import PageNotFound, load_run

router = APIRouter(tags=["runs"])


@operation(router.post, "/estimates", 404, dependencies=REQUIRES_JSON)
def estimate_run(request: Request, body: RunRequest) -> EstimateRecord:
    """Estimates the calls, cost and time of a run; no request is sent to a target."""
    project = get_project(request)
    with project.open_store() as store:
        run_form = validate_form(store, _to_raw_form(body), load_run_context(project))
        estimate = make_estimate(project, store, run_form)
    return _estimate_record(estimate, shell_command(project, run_form.arguments))


@operation(router.post, "/runs", 409, status=202, dependencies=REQUIRES_JSON)
def start_run(request: Request, body: StartRequest) -> Created[StartRecord]:
    """Start a run of a suite with each prompt on each target, as a process of its own: `proctor run`.

    Follow `Location` until `runs` has the ids, then `/runs/{run_id}/progress`.
    """
    project, raw_form = get_project(request), _to_raw_form(body)
    project.location.check_writable()
    with project.open_store() as store:
        run_form = validate_form(store, raw_form, load_run_context(project))
        _check_new(store, get_run_processes(project), body.group, make_start_arguments(project, run_form))
        make_estimate(project, store, run_form)
        started_run = start_process(project, run_form, group=body.group, raw_form=raw_form)
        return _new_start(project, store, started_run)


@operation(router.get, "/starts/{group}", 404)
def get_start(request: Request, group: Group) -> StartRecord:
    """Runs that were started here: whether the process is running, its output, and the ids of its runs."""
    project = get_project(request)
    with project.open_store() as store:
        return _start_record(project, store, _find_start(project, group))


@operation(router.post, "/starts/{group}/stop", 404, 409, status=202, dependencies=TAKES_JSON)
def stop_start(request: Request, group: Group, _body: EmptyRequest | None = None) -> StopStatusRecord:
    """Stop the runs of a group, as Ctrl-C does; finished trials are kept, and each run can be resumed."""
    project = get_project(request)
    processes = get_run_processes(project)
    started_run = processes.find(group)
    if started_run is None or not processes.stop(started_run):
        with project.open_store() as store:
            runs = processes.list_runs(store, group)
            if started_run is None and not runs:
                raise PageNotFound(f"There is no start {group!r} on this server.")
            if not [run for run in runs if run.status == "running" and processes.stop_run(store, run)]:
                raise Conflict(f"The start {group!r} has already ended.")
    return StopStatusRecord(run=None, group=group)


@operation(router.post, "/runs/{run_id}/stop", 404, 409, status=202, dependencies=TAKES_JSON)
def stop_run(request: Request, run_id: RunId, _body: EmptyRequest | None = None) -> StopStatusRecord:
    """Stop a run, wherever it was started, as Ctrl-C does; finished trials are kept."""
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        if not get_run_processes(project).stop_run(store, run):
            owner = store.lock_owner(run.id)
            if owner is not None:
                raise Conflict(
                    f"Run {run.id} is in progress in {owner.title}, which this server cannot stop."
                )
            raise Conflict(
                f"Run {run.id} is not in progress: it is {with_current_status(store, run).status}."
            )
    return StopStatusRecord(run=run.id, group=run.group)


@operation(router.post, "/runs/{run_id}/resume", 404, 409, status=202, dependencies=TAKES_JSON)
def resume_run(request: Request, run_id: RunId, _body: EmptyRequest | None = None) -> Created[StartRecord]:
    """Run the missing trials of an interrupted run, as a process of its own."""
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        if reason := reason_not_resumable(store, run):
            raise Conflict(reason)
        started_run = get_run_processes(project).resume(run)
        if started_run is None:
            raise Conflict(f"Run {run.id} is already in progress.")
        return _new_start(project, store, started_run)


def _check_new(store: Store, processes: RunProcesses, group: str | None, arguments: list[str]) -> None:
    """Refuses a group name that is already taken by something else.

    Raises:
        Conflict: it is.
    """
    if group is None:
        return
    earlier = processes.find(group)
    if earlier is not None:
        if not earlier.is_same_command(arguments):
            raise Conflict(f"Another start already uses the group {group!r}. Choose another group.")
    elif any(group in (run.group, run.id) for run in store.runs()):
        raise Conflict(f"The store already has a group or a run {group!r}. Choose another group.")


def _find_start(project: Project, group: str) -> StartedRun:
    started_run = get_run_processes(project).find(group)
    if started_run is None:
        raise PageNotFound(f"There is no start {group!r} on this server.")
    return started_run


# --- bodies and records ------------------------------------------------------------------------------------


def _to_raw_form(body: RunRequest) -> RawForm:
    """Converts a request body to the fields of the page's form.

    Raises:
        FormErrors: more prompts are written than the form takes.
    """
    numbers = {name: getattr(body, name) for name in NUMBER_FIELDS}
    fields: dict[str, list[str]] = {
        "suite": [body.suite],
        "version": [body.version or ""],
        "target": body.targets,
        "prompt": [prompt for prompt in body.prompts if isinstance(prompt, str)],
        "judge": body.judges,
        "split": [body.split or ""],
        "tag": body.tags,
        "all_tag": body.all_tags,
        "param": list(format_words(body.params)),
        "gate_mode": [body.gate_mode or ""],
        "stop_when_shown": [_format_choice(body.stop_when_shown)],
        "cluster": [body.cluster or ""],
        "interleave": [_format_choice(body.interleave)],
        "reuse": [_format_choice(body.reuse)],
        **{name: [f"{value:.12g}"] for name, value in numbers.items() if value is not None},
    }
    written = [prompt for prompt in body.prompts if not isinstance(prompt, str)]
    if len(written) > MAX_WRITTEN_PROMPTS:
        raise FormErrors({"prompt": f"Send at most {MAX_WRITTEN_PROMPTS} prompts with their texts."})
    for number, prompt in enumerate(written, start=1):
        fields |= {f"prompt_name_{number}": [prompt.name], f"prompt_text_{number}": [prompt.text]}
    return fields


def _format_choice(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def _start_record(project: Project, store: Store, started_run: StartedRun) -> StartRecord:
    processes = get_run_processes(project)
    alive = processes.is_alive(started_run)
    return record_from(
        started_run,
        StartRecord,
        alive=alive,
        runs=tuple([run.id for run in processes.list_runs(store, started_run.group)]),
        said=tuple(processes.read_output(started_run)),
    )


def _new_start(project: Project, store: Store, started_run: StartedRun) -> Created[StartRecord]:
    record = _start_record(project, store, started_run)
    return Created(record, f"/api/v1/starts/{started_run.group}")


def _estimate_record(estimate: Estimate, command: str) -> EstimateRecord:
    shares = [
        record_from(
            share,
            EstimatePartRecord,
            input_tokens=share.usage.input_tokens,
            output_tokens=share.usage.output_tokens,
            counted=share.is_measured,
        )
        for share in estimate.shares
    ]
    return record_from(estimate, EstimateRecord, shares=tuple(shares), command=command)
