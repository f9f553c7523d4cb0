"""What was started: before it is in the store, while it goes on, and what came of it; stop and resume."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.model import Run
from proctor.plurals import counted, listed
from proctor.reports.formatting import percent, points
from proctor.services.runs.request import check_group
from proctor.web.browser_sessions import get_session
from proctor.web.project import Project, get_project
from proctor.web.run_status import GroupLiveView, GroupSnapshot, RunSnapshot
from proctor.web.runs.processes import get_run_processes
from proctor.web.runs.start import reason_not_resumable, shell_command
from proctor.web.security import PageForm, read_form
from proctor.web.templates_env import load_run, render_page, url

router = APIRouter()


@router.get("/starts/{group}")
def started(request: Request, group: str) -> Response:
    """What was started under an id, as far as it is."""
    project = get_project(request)
    with project.store() as store:
        followed = GroupLiveView(project, group)
        now = followed.now(store)
        told = [going.run for going in now.runs if _shows_holdout(going, done=now.done)]
        for run in told:
            get_session(request).record_access(store, run)
        if told:
            now = followed.now(store)  # which says how often that was looked at
    fields: dict[str, list[str]] = {}
    for name, value in () if now.start is None else now.start.fields:
        fields.setdefault(name, []).append(value)
    return render_page(
        request,
        "started.html",
        group=now,
        answer=_answer(now),
        rows=[_row(project, going) for going in now.runs] if now.done else [],
        notes=_notes(now),
        ids=[going.run.id for going in now.runs],
        again=url("/run", **fields) if fields else None,
        command="" if now.start is None or now.start.run else shell_command(project, _words(now)),
    )


def _shows_holdout(going: RunSnapshot, *, done: bool) -> bool:
    """Whether the page tells a holdout's pass rate; live counts do where nothing else is asked."""
    alone = going.run.settings.selection.split == "holdout"
    return "holdout" in going.looked.summary["splits"] and (done or alone)


def _words(group: GroupSnapshot) -> list[str]:
    """What was chosen of the words of a start; the rest is how a child is started."""
    assert group.start is not None
    return [
        word
        for word in group.start.words[1:]
        if not word.startswith(("--group=", "--store=")) and word != "--quiet"
    ]


def _answer(group: GroupSnapshot) -> str:
    """The first line of the page."""
    if not group.runs:
        return (
            f"Running {_wanted(group)}" if group.alive else f"Nothing was run: {_wanted(group)} did not begin"
        )
    whom = group.runs[0].run.target.name if len(group.runs) == 1 else f"{len(group.runs)} targets"
    title = f"{group.runs[0].run.suite.title} on {whom}"
    if not group.done:
        return f"Running {title}"
    cut = [going for going in group.runs if going.looked.status != "finished"]
    if cut:
        done, planned = sum(one.looked.done for one in cut), sum(one.looked.planned for one in cut)
        return f"Stopped: {done:,} of {planned:,} trials of {title} are kept"
    if len(group.runs) > 1:
        return f"{title}: {len(group.runs)} runs are finished"
    counts = group.runs[0].looked.counts
    said = f"{title}: {counts.passed:,} of {counts.total:,} passed ({percent(counts.pass_rate, 0)})"
    return f"{said}, {counted(counts.errors, 'error')}" if counts.errors else said


def _wanted(group: GroupSnapshot) -> str:
    """What was chosen, before there is a run of it."""
    assert group.start is not None
    if group.start.run is not None:
        return f"what is missing of {group.start.run}"
    word = group.start.words[1]
    suite = " ".join(word.removeprefix("--saved=").rsplit("@", 1)) if word.startswith("--saved=") else word
    return f"{suite} on {listed(group.next, 3)}" if group.next else suite


def _row(project: Project, going: RunSnapshot) -> dict[str, Any]:
    """What came of a run, in the columns of its table."""
    summary = going.looked.summary
    dev, holdout = summary["splits"].get("dev"), summary["splits"].get("holdout")
    difference = ""
    if dev and holdout and dev["pass_rate"] is not None and holdout["pass_rate"] is not None:
        difference = points(holdout["pass_rate"] - dev["pass_rate"])
    mean, budget = summary["latency_ms"]["mean"], going.run.settings.budget_usd
    anew = [] if budget is None else [f"--budget-usd={budget:.12g}"]
    return {
        "going": going,
        "resume": shell_command(project, [f"--resume={going.run.id}"]),
        "retry": shell_command(project, [f"--retry-errors={going.run.id}", *anew]),
        "dev": dev,
        "holdout": holdout,
        "difference": difference,
        "latency": "–" if mean is None else f"{mean:.0f}ms",
    }


def _notes(group: GroupSnapshot) -> list[str]:
    """What goes with the numbers, each once; what is not of all runs says of which it is."""
    of: dict[str, list[str]] = {}
    for going in group.runs:
        for note in (*going.looked.summary["split_notes"], *going.looked.notes):
            of.setdefault(note, []).append(going.run.target.name)
    whole = len(group.runs)
    return [note if len(names) == whole else f"{', '.join(names)}: {note}" for note, names in of.items()]


# --- stopping and going on ---------------------------------------------------------------------------------

_STOPPING = "Stopping: calls under way get 1 second, and what finished is kept."
_NOT_KNOWN = "It is not known which process makes this run. Stop it where it was started."


@router.post("/starts/{group}/stop", dependencies=[Depends(read_form)])
def stop_start(request: Request, group: str) -> Response:
    """Stop what was started, whichever of its runs is being made."""
    project = get_project(request)
    processes = get_run_processes(project)
    start = processes.find(group)
    stopped = start is not None and processes.stop(start)
    if not stopped:
        with project.store() as store:
            for going in GroupLiveView(project, group).now(store).still:
                stopped = processes.stop_run(store, going.run) or stopped
    get_session(request).flash(_STOPPING if stopped else "It has ended already.")
    return RedirectResponse(f"/starts/{group}", 303)


@router.post("/runs/{run_id}/stop")
def stop(request: Request, run_id: str, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Stop a run, wherever it was started."""
    project = get_project(request)
    with project.store() as store:
        run = load_run(store, run_id)
        if get_run_processes(project).stop_run(store, run):
            told = _STOPPING
        else:
            told = _NOT_KNOWN if store.claimed(run.id) else "Nobody is making this run any more."
    get_session(request).flash(told)
    return RedirectResponse(_back(form, run), 303)


@router.post("/runs/{run_id}/resume")
def resume(request: Request, run_id: str, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Make what is missing of a run that was cut short."""
    project, session = get_project(request), get_session(request)
    with project.store() as store:
        run = load_run(store, run_id)
        why_not = reason_not_resumable(store, run)
    if why_not:
        session.flash(why_not)
        return RedirectResponse(_back(form, run), 303)
    begun = get_run_processes(project).resume(run)
    if begun is None:
        session.flash("This run is being made already.")
        return RedirectResponse(_back(form, run), 303)
    return RedirectResponse(f"/starts/{begun.group}", 303)


def _back(form: PageForm, run: Run) -> str:
    """The page that a button was pressed on."""
    group = form.text("group")
    if group:
        check_group(group)
        return f"/starts/{group}"
    return f"/runs/{run.id}"
