"""The page of a started run: before it is in the store, in progress, and its result; stop and resume."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.model import Run
from proctor.reports.formatting import percentage_points
from proctor.reports.runs.serialize import latency_scope
from proctor.services.runs.request import check_group_id, new_id
from proctor.services.runs.starts.processes import get_run_processes
from proctor.web.browser_sessions import get_session
from proctor.web.project import Project, get_project
from proctor.web.run_status import GroupLiveView, GroupSnapshot, RunSnapshot
from proctor.web.runs.start import count_retryable, reason_not_resumable, retry_arguments, shell_command
from proctor.web.security import PageForm, read_form
from proctor.web.templates_env import load_run, render_page, url

router = APIRouter()


@router.get("/starts/{group}")
def show_start(request: Request, group: str) -> Response:
    """Shows the state of a start."""
    project = get_project(request)
    with project.open_store() as store:
        view = GroupLiveView(project, group)
        group_snapshot = view.take_snapshot(store)
        exposed_runs = [
            snapshot.run
            for snapshot in group_snapshot.runs
            if _shows_holdout(snapshot, is_final=group_snapshot.is_final)
        ]
        for run in exposed_runs:
            get_session(request).record_access(store, run)
        if exposed_runs:
            group_snapshot = view.take_snapshot(store)  # now includes the recorded holdout accesses
    fields: dict[str, list[str]] = {}
    for name, value in () if group_snapshot.start is None else group_snapshot.start.fields:
        fields.setdefault(name, []).append(value)
    return render_page(
        request,
        "started.html",
        group=group_snapshot,
        answer=group_snapshot.heading,
        rows=[_row(project, snapshot) for snapshot in group_snapshot.runs] if group_snapshot.is_final else [],
        notes=_notes(group_snapshot),
        ids=[snapshot.run.id for snapshot in group_snapshot.runs],
        again=url("/run", **fields) if fields else None,
        command=""
        if group_snapshot.start is None or group_snapshot.start.run
        else shell_command(project, _form_arguments(group_snapshot)),
    )


def _shows_holdout(snapshot: RunSnapshot, *, is_final: bool) -> bool:
    """Whether the page shows a holdout's pass rate; in progress only if nothing else is run."""
    is_holdout_only = snapshot.run.settings.selection.split == "holdout"
    return "holdout" in snapshot.run_summary.summary.splits and (is_final or is_holdout_only)


def _form_arguments(group: GroupSnapshot) -> list[str]:
    """Returns the arguments that come from the form."""
    assert group.start is not None
    return [
        argument
        for argument in group.start.words[1:]
        if not argument.startswith(("--group=", "--store=")) and argument != "--quiet"
    ]


def _row(project: Project, snapshot: RunSnapshot) -> dict[str, Any]:
    """Returns the table row of a run."""
    tally = snapshot.run_summary.totals.tally
    dev, holdout = tally.splits.get("dev"), tally.splits.get("holdout")
    difference = ""
    if dev and holdout and dev.pass_rate is not None and holdout.pass_rate is not None:
        difference = percentage_points(holdout.pass_rate - dev.pass_rate)
    run, mean = snapshot.run, tally.latency_ms().mean
    return {
        "snapshot": snapshot,
        "resume": shell_command(project, [f"--resume={run.id}"]),
        "retry": shell_command(project, retry_arguments(run)),
        "retryable": count_retryable(run, snapshot.run_summary.counts),
        "retry_group": new_id(),
        "dev": dev,
        "holdout": holdout,
        "difference": difference,
        "latency": "–" if mean is None else f"{mean:.0f}ms",
    }


def _notes(group: GroupSnapshot) -> list[str]:
    """Returns the notes on the numbers, each once; notes on some of the runs name these."""
    targets_by_note: dict[str, list[str]] = {}
    for snapshot in group.runs:
        summary, latency = snapshot.run_summary.summary, snapshot.run_summary.summary.latency_ms
        scope = latency_scope(latency)
        latency_notes = [f"Latency{scope}."] if scope else []
        for note in (*summary.split_notes, *latency_notes, *snapshot.run_summary.notes):
            targets_by_note.setdefault(note, []).append(snapshot.run.target.name)
    run_count = len(group.runs)
    return [
        note if len(names) == run_count else f"{', '.join(names)}: {note}"
        for note, names in targets_by_note.items()
    ]


# --- stopping and resuming ---------------------------------------------------------------------------------

_STOPPING = "Stopping: open calls get 1 second to finish, and finished trials are kept."


@router.post("/starts/{group}/stop", dependencies=[Depends(read_form)])
def stop_start(request: Request, group: str) -> Response:
    """Stops the runs of a start."""
    project = get_project(request)
    processes = get_run_processes(project)
    start = processes.find(group)
    stopped = start is not None and processes.stop(start)
    if not stopped:
        with project.open_store() as store:
            for snapshot in GroupLiveView(project, group).take_snapshot(store).active_runs:
                stopped = processes.stop_run(store, snapshot.run) or stopped
    get_session(request).flash(_STOPPING if stopped else "It has already ended.")
    return RedirectResponse(f"/starts/{group}", 303)


@router.post("/runs/{run_id}/stop")
def stop(request: Request, run_id: str, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Stops a run, wherever it was started."""
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        if get_run_processes(project).stop_run(store, run):
            message = _STOPPING
        else:
            owner = store.lock_owner(run.id)
            message = (
                "This run is no longer in progress."
                if owner is None
                else f"This run is in progress in {owner.title}, which this server cannot stop. Stop it "
                "where it was started."
            )
    get_session(request).flash(message)
    return RedirectResponse(_return_address(form, run), 303)


@router.post("/runs/{run_id}/resume")
def resume(request: Request, run_id: str, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Resumes an interrupted run."""
    project, session = get_project(request), get_session(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        obstacle = reason_not_resumable(store, run)
    if obstacle:
        session.flash(obstacle)
        return RedirectResponse(_return_address(form, run), 303)
    started_run = get_run_processes(project).resume(run)
    if started_run is None:
        session.flash("This run is already in progress.")
        return RedirectResponse(_return_address(form, run), 303)
    return RedirectResponse(f"/starts/{started_run.group}", 303)


@router.post("/runs/{run_id}/retry")
def retry(request: Request, run_id: str, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Starts a new run of the errors of a run; a form that is sent twice starts one."""
    project, session = get_project(request), get_session(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        run_summary = project.summaries.refresh_in(store, run)
    if run_summary.alive:
        session.flash("This run is in progress. Retry its errors after it ends.")
    elif not count_retryable(run, run_summary.counts):
        session.flash("This run has no errors that can be retried.")
    else:
        group = form.text("new_group") or None
        project.location.check_writable()
        started_run = get_run_processes(project).start(retry_arguments(run), group=group)
        return RedirectResponse(f"/starts/{started_run.group}", 303)
    return RedirectResponse(_return_address(form, run), 303)


def _return_address(form: PageForm, run: Run) -> str:
    """Returns the page that the button was on."""
    group = form.text("group")
    if group:
        check_group_id(group)
        return f"/starts/{group}"
    return f"/runs/{run.id}"
