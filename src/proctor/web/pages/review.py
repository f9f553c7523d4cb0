"""The page Review: one answer after the other, which a person labels pass or fail."""

from __future__ import annotations

import json
import shlex
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor import calibration
from proctor.errors import UsageError
from proctor.model import Label, Output, Run
from proctor.protocols import Store
from proctor.reports.certificates.of_judge import FEW
from proctor.reports.formatting import interval, percent
from proctor.safe_text import one_line
from proctor.services.judges.label_export import label_lines
from proctor.services.judges.review import (
    ENOUGH,
    Remembered,
    Review,
    Reviewable,
    Show,
    exam_sheet,
    judged_scores,
)
from proctor.services.runs.reading.listing import Filter, fitting
from proctor.web.browser_sessions import visitor_of
from proctor.web.project import site_of
from proctor.web.security import Form, form_of
from proctor.web.templates_env import NotThere, page, run_of, url

router = APIRouter()

_LONGEST_NAME, _LONGEST_NOTE = 80, 4_000
_LONGEST_WORD = 500
"""Of a word that goes into an address."""
_ON_A_PAGE = 30
SHOWS: tuple[tuple[Show, str], ...] = (
    ("unlabelled", "Not labelled"),
    ("disagreements", "Disagreements"),
    ("all", "All"),
)


@router.get("/review")
def review(
    request: Request,
    run: str = "",
    show: Show = "unlabelled",
    tag: str = "",
    at: Annotated[str, Query(pattern=r"^(\d{1,9}\.\d{1,9})?$")] = "",
    after: str = "",
) -> Response:
    """The answers of a run, one at a time; without a run, the runs."""
    with site_of(request).store() as store:
        if not run:
            return _runs(request, store, after)
        found = run_of(store, run)
        made = _review(request, store, found)
        one = _place(made, at) if at else made.next(None, show, tag)
        shown = None if one is None else _shown(store, made, one)
        then = None if one is None else made.next(one, show, tag)
        return page(
            request,
            "review.html",
            review=made,
            one=one,
            shown=shown,
            here_at=_at(one),
            next_at=_at(then) if then is not one else None,
            show=show,
            shows=SHOWS,
            tag=tag,
            agreement=_agreement(made),
            judge=shlex.quote(found.judges[0].name) if found.judges else "JUDGE",
            enough=ENOUGH,
        )


def _runs(request: Request, store: Store, after: str) -> Response:
    runs = list(islice(fitting(store, Filter(), after), _ON_A_PAGE + 1))
    labelled = store.labelled()
    there = [run for run in runs[:_ON_A_PAGE] if run.planned]
    return page(
        request,
        "reviews.html",
        runs=there,
        labelled=labelled,
        answers=sum(labelled.values()),
        more=runs[_ON_A_PAGE - 1].id if len(runs) > _ON_A_PAGE else None,
    )


# --- changes -----------------------------------------------------------------------------------------------


@router.post("/review/name")
def name(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """Say who labels."""
    visitor_of(request).name = _name(form.text("name"))
    return _back(form)


@router.post("/review/reveal")
def reveal(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """Show the held-out answers of a run too, which counts as a look."""
    with site_of(request).store() as store:
        visitor_of(request).reveal(store, run_of(store, form.text("run")))
    return _back(form)


@router.post("/review/label")
def label(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """Keep a label, and go on to the next answer."""
    visitor, said = visitor_of(request), form.text("label")
    by = _name(form.text("by") or visitor.name)
    if said not in ("pass", "fail"):
        raise UsageError("Say whether the answer passes: press Pass or Fail.")
    note = _unicode(form.text("note")).strip()
    if len(note) > _LONGEST_NOTE:
        raise UsageError(f"A note has at most {_LONGEST_NOTE:,} characters. Go back and make it shorter.")
    visitor.name = by
    with site_of(request).store() as store:
        run = run_of(store, form.text("run"))
        made = _review(request, store, run)
        one = _place(made, form.text("at"))
        if one.held_out:
            visitor.looks_at(store, run)
        kept = Label(
            case_id=one.case_id, repeat=one.repeat, run=run.id, passed=said == "pass", by=by, note=note
        )
        store.label(kept, held_out=one.held_out)
        then = _review(request, store, run).next(one, _show(form), form.text("tag"))
    return _back(form, at=None if then is one else _at(then))


@router.post("/review/undo")
def undo(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """Take this person's last label back, and show its answer again."""
    number = form.text("number")
    with site_of(request).store() as store:
        made = _review(request, store, run_of(store, form.text("run")))
        last = made.last
        # By its number, so that a button that is pressed twice takes back one label.
        if last is None or str(last[1].number) != number or not store.unlabel(last[1].number):
            raise UsageError("That label has been taken back or replaced already. Nothing was changed.")
        visitor_of(request).tell(f"Taken back: your label of {one_line(last[0].case_id)}.")
    return _back(form, at=_at(last[0]))


@router.get("/review/labels.jsonl")
def labels(request: Request, run: str) -> Response:
    """The labels of a run as a file that `certify --judge T --labels FILE` reads."""
    visitor = visitor_of(request)
    with site_of(request).store() as store:
        found = run_of(store, run)
        kept = store.labels(found.id)
        if any(one.held_out for one in kept):
            visitor.looks_at(store, found)
    lines = label_lines(kept, reveal=found.id in visitor.revealed)
    return Response(
        "".join(f"{line}\n" for line in lines),
        media_type="application/jsonl; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="{found.id}.labels.jsonl"'},
    )


# --- what is shown -----------------------------------------------------------------------------------------


def _review(request: Request, store: Store, run: Run) -> Review:
    visitor = visitor_of(request)
    return Review(
        run,
        site_of(request).shared("answers of runs", Remembered).of(store, run),
        store.labels(run.id),
        by=visitor.name,
        revealed=run.id in visitor.revealed,
    )


def _place(made: Review, at: str) -> Reviewable:
    """The answer at `position.repeat`.

    Raises:
        NotThere: there is none, or it is held out and not revealed.
    """
    position, _, repeat = at.partition(".")
    found = made.at(int(position), int(repeat)) if position.isdecimal() and repeat.isdecimal() else None
    if found is None:
        raise NotThere("There is no answer to label here, or it is held out and has to be revealed first.")
    return found


def _at(one: Reviewable | None) -> str | None:
    return None if one is None else f"{one.position}.{one.repeat}"


def _shown(store: Store, made: Review, one: Reviewable) -> dict[str, Any]:
    """One answer with what it answers and how it is judged, and what was said of it if this person did."""
    place = store.case_in_run(made.run, one.position)
    trials = () if place is None else place.trials
    trial = next((each.trial for each in trials if each.trial.repeat == one.repeat), None)
    if place is None or trial is None or trial.output is None:
        raise NotThere("This answer is not in the store any more.")
    mine = made.mine(one)
    return {
        "messages": place.case.case.input,
        "answer": trial.output.text,
        "done": list(_done(trial.output)),
        "sheet": list(exam_sheet(place.case.case)),
        "mine": mine,
        "others": made.of_others(one) if mine is not None else [],
        # Not even in the page's source before it may be seen.
        "scores": (judged_scores(trial) or trial.scores) if mine is not None else (),
    }


def _done(output: Output) -> list[tuple[str, str]]:
    """What an agent did besides answering."""
    calls = [
        f"{call.name} {json.dumps(call.arguments, ensure_ascii=False, default=str)}"
        for call in output.tool_calls
    ]
    found = [("Tools that it called", "\n".join(calls)), ("Files that it changed", output.file_changes or "")]
    return [(heading, text) for heading, text in found if text]


def _agreement(made: Review) -> list[str]:
    """How far the graders agree with people so far, in sentences; empty while labels are few."""
    found = made.agreement()
    if found is None or not found.count:
        return []
    share = calibration.agreement(found)
    sentence = (
        f"So far {made.who} and people agree on {share.hits:,} of {share.of:,} answers "
        f"({percent(share.value)}, {interval(share.ci95)})"
    )
    if found.kappa is not None and found.kappa_ci95 is not None:
        low, high = found.kappa_ci95
        sentence += f", kappa {found.kappa:.2f} ({low:.2f} to {high:.2f})"
    said = [f"{sentence}."]
    few = [
        f"{kind.of:,} that people {word}"
        for kind, word in (
            (calibration.sensitivity(found), "pass"),
            (calibration.specificity(found), "fail"),
        )
        if kind.of < FEW
    ]
    if few:
        said.append(f"Among them are only {' and '.join(few)}: label {FEW} of each.")
    return said


# --- what is typed -----------------------------------------------------------------------------------------


def _name(typed: str) -> str:
    """A person's name.

    Raises:
        UsageError: there is none, or it is too long.
    """
    found = " ".join(one_line(_unicode(typed)).split())
    if not found or len(found) > _LONGEST_NAME:
        raise UsageError(f"Say who labels: a name of 1 to {_LONGEST_NAME} characters.")
    return found


def _unicode(typed: str) -> str:
    """Text without what no file can hold."""
    return typed.encode("utf-8", "replace").decode("utf-8").replace("\0", "")


def _show(form: Form) -> Show:
    return next((known for known, _ in SHOWS if known == form.text("show")), "unlabelled")


def _back(form: Form, at: str | None = "") -> Response:
    """The review that a form is part of, as it was."""
    known = {name: form.text(name)[:_LONGEST_WORD] for name in ("run", "tag")}
    show = _show(form)
    place = form.text("at")[:_LONGEST_WORD] if at == "" else at
    return RedirectResponse(
        url("/review", **known, show=None if show == "unlabelled" else show, at=place), status_code=303
    )
