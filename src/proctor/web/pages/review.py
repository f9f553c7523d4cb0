"""The page Review: a person labels answers as pass or fail, one after the other."""

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
from proctor.reports.certificates.judge_certificate import MIN_LABELS
from proctor.reports.formatting import interval, percent
from proctor.safe_text import one_line
from proctor.services.judges.label_export import format_label_lines
from proctor.services.judges.review import (
    MIN_LABELLED,
    Review,
    ReviewableAnswer,
    ReviewCache,
    ReviewFilter,
    describe_judging,
    judged_scores,
)
from proctor.services.runs.reading.listing import RunFilter, find_runs
from proctor.web.browser_sessions import get_session
from proctor.web.person_texts import parse_note, parse_person_name
from proctor.web.project import get_project
from proctor.web.security import PageForm, read_form
from proctor.web.templates_env import PageNotFound, load_run, render_page, url

router = APIRouter()

_MAX_WORD_LENGTH = 500
"""Length of a word that goes into an address."""
_PAGE_SIZE = 30
SHOW_CHOICES: tuple[tuple[ReviewFilter, str], ...] = (
    ("unlabelled", "Not labelled"),
    ("doubt", "Doubtful first"),
    ("disagreements", "Disagreements"),
    ("all", "All"),
)


@router.get("/review")
def show_review(
    request: Request,
    run: str = "",
    show: ReviewFilter = "unlabelled",
    tag: str = "",
    at: Annotated[str, Query(pattern=r"^(\d{1,9}\.\d{1,9})?$")] = "",
    after: str = "",
) -> Response:
    """Shows the answers of a run one at a time; without a run, the list of runs."""
    with get_project(request).open_store() as store:
        if not run:
            return _list_page(request, store, after)
        stored_run = load_run(store, run)
        current_review = _load_review(request, store, stored_run)
        answer = _find_answer(current_review, at) if at else current_review.next(None, show, tag)
        details = None if answer is None else _answer_details(store, current_review, answer)
        next_answer = None if answer is None else current_review.next(answer, show, tag)
        return render_page(
            request,
            "review.html",
            review=current_review,
            one=answer,
            shown=details,
            here_at=_answer_key(answer),
            next_at=_answer_key(next_answer) if next_answer is not answer else None,
            show=show,
            shows=[choice for choice in SHOW_CHOICES if current_review.judged or choice[0] != "doubt"],
            tag=tag,
            agreement=_summarize_agreement(current_review),
            judge=shlex.quote(stored_run.judges[0].name) if stored_run.judges else "JUDGE",
            enough=MIN_LABELLED,
        )


def _list_page(request: Request, store: Store, after: str) -> Response:
    runs = list(islice(find_runs(store, RunFilter(), after), _PAGE_SIZE + 1))
    labelled = store.count_labelled_answers()
    listed_runs = [run for run in runs[:_PAGE_SIZE] if run.planned]
    return render_page(
        request,
        "reviews.html",
        runs=listed_runs,
        labelled=labelled,
        answers=sum(labelled.values()),
        more=runs[_PAGE_SIZE - 1].id if len(runs) > _PAGE_SIZE else None,
    )


# --- changes -----------------------------------------------------------------------------------------------


@router.post("/review/name")
def set_name(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Sets the name of the reviewer."""
    get_session(request).reviewer_name = parse_person_name(form.text("name"))
    return _redirect_back(form)


@router.post("/review/reveal")
def reveal(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Reveals the held-out answers of a run, which is a holdout access."""
    with get_project(request).open_store() as store:
        get_session(request).reveal(store, load_run(store, form.text("run")))
    return _redirect_back(form)


@router.post("/review/label")
def save_label(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Saves a label and shows the next answer."""
    session, verdict = get_session(request), form.text("label")
    by = parse_person_name(form.text("by") or session.reviewer_name)
    if verdict not in ("pass", "fail"):
        raise UsageError("The label has no verdict. Press Pass or Fail.")
    note = parse_note(form.text("note"), "note")
    session.reviewer_name = by
    with get_project(request).open_store() as store:
        run = load_run(store, form.text("run"))
        current_review = _load_review(request, store, run)
        answer = _find_answer(current_review, form.text("at"))
        if answer.held_out:
            session.record_access(store, run)
        show, tag = _parse_show(form), form.text("tag")
        new_label = Label(
            case_id=answer.case_id,
            repeat=answer.repeat,
            run=run.id,
            passed=verdict == "pass",
            by=by,
            note=note,
            drawn=current_review.draw(answer, show, tag),
            doubt=round(current_review.relative_chance(answer), 6),
        )
        store.add_label(new_label, held_out=answer.held_out)
        next_answer = _load_review(request, store, run).next(answer, show, tag)
    return _redirect_back(form, answer_key=None if next_answer is answer else _answer_key(next_answer))


@router.post("/review/undo")
def undo(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Undoes this person's last label, and shows its answer again."""
    number = form.text("number")
    with get_project(request).open_store() as store:
        current_review = _load_review(request, store, load_run(store, form.text("run")))
        last = current_review.last
        # By its number, so that pressing the button twice takes back only one label.
        if last is None or str(last[1].number) != number or not store.remove_label(last[1].number):
            raise UsageError("This label was already undone or replaced. Nothing was changed.")
        get_session(request).flash(f"Undone: your label of {one_line(last[0].case_id)}.")
    return _redirect_back(form, answer_key=_answer_key(last[0]))


@router.get("/review/labels.jsonl")
def download_labels(request: Request, run: str) -> Response:
    """Sends the labels of a run as a file that `certify --judge T --labels FILE` reads."""
    session = get_session(request)
    with get_project(request).open_store() as store:
        stored_run = load_run(store, run)
        saved_labels = store.labels(stored_run.id)
        if any(saved_label.held_out for saved_label in saved_labels):
            session.record_access(store, stored_run)
    lines = format_label_lines(saved_labels, reveal=stored_run.id in session.revealed)
    return Response(
        "".join(f"{line}\n" for line in lines),
        media_type="application/jsonl; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="{stored_run.id}.labels.jsonl"'},
    )


# --- views -------------------------------------------------------------------------------------------------


def _load_review(request: Request, store: Store, run: Run) -> Review:
    session = get_session(request)
    return Review(
        run,
        get_project(request).get_shared("answers of runs", ReviewCache).get(store, run),
        store.labels(run.id),
        by=session.reviewer_name,
        revealed=run.id in session.revealed,
    )


def _find_answer(current_review: Review, answer_key: str) -> ReviewableAnswer:
    """Returns the answer at `position.repeat`.

    Raises:
        PageNotFound: there is none, or it is held out and not revealed.
    """
    position, _, repeat = answer_key.partition(".")
    answer = (
        current_review.at(int(position), int(repeat)) if position.isdecimal() and repeat.isdecimal() else None
    )
    if answer is None:
        raise PageNotFound(
            "There is no answer to label here, or it is in the hidden holdout and must be revealed first."
        )
    return answer


def _answer_key(answer: ReviewableAnswer | None) -> str | None:
    return None if answer is None else f"{answer.position}.{answer.repeat}"


def _answer_details(store: Store, current_review: Review, answer: ReviewableAnswer) -> dict[str, Any]:
    """Returns an answer with its prompt; grades and others' labels only once this person has labelled it."""
    case_in_run = store.case_in_run(current_review.run, answer.position)
    trials = () if case_in_run is None else case_in_run.trials
    trial = next(
        (place_trial.trial for place_trial in trials if place_trial.trial.repeat == answer.repeat), None
    )
    if case_in_run is None or trial is None or trial.output is None:
        raise PageNotFound("This answer is no longer in the store.")
    own_label = current_review.mine(answer)
    return {
        "messages": case_in_run.case.case.input,
        "answer": trial.output.text,
        "done": list(_list_actions(trial.output)),
        "sheet": list(describe_judging(case_in_run.case.case)),
        "mine": own_label,
        "others": current_review.labels_of_others(answer) if own_label is not None else [],
        # The page's source must not contain it before it may be seen.
        "scores": (judged_scores(trial) or trial.scores) if own_label is not None else (),
    }


def _list_actions(output: Output) -> list[tuple[str, str]]:
    """Returns what an agent did besides answering."""
    calls = [
        f"{call.name} {json.dumps(call.arguments, ensure_ascii=False, default=str)}"
        for call in output.tool_calls
    ]
    actions = [
        ("Tools called", "\n".join(calls)),
        ("Files changed", output.file_changes or ""),
    ]
    return [(heading, text) for heading, text in actions if text]


def _summarize_agreement(current_review: Review) -> list[str]:
    """Sums up the agreement of graders and people; empty while there are few labels."""
    matrix = current_review.agreement()
    if matrix is None or not matrix.count:
        return []
    share = calibration.agreement(matrix)
    sentence = (
        f"{current_review.who.capitalize()} and people agree on {share.hits:,} of {share.total:,} answers "
        f"({percent(share.value)}, {interval(share.ci95)})"
    )
    if matrix.kappa is not None and matrix.kappa_ci95 is not None:
        low, high = matrix.kappa_ci95
        sentence += f", kappa {matrix.kappa:.2f} ({low:.2f} to {high:.2f})"
    sentences = [f"{sentence}."]
    if matrix.for_doubt:
        sentences.append(
            f"Of these, {matrix.for_doubt:,} were chosen because judges doubted them. Over all answers, "
            "the agreement is higher."
        )
    sparse_labels = [
        f"{kind.total:,} that people {verb}"
        for kind, verb in (
            (calibration.sensitivity(matrix), "pass"),
            (calibration.specificity(matrix), "fail"),
        )
        if kind.total < MIN_LABELS
    ]
    if sparse_labels:
        sentences.append(
            f"There are only {' and '.join(sparse_labels)} among them. Label at least {MIN_LABELS} of each "
            "kind."
        )
    return sentences


# --- input -------------------------------------------------------------------------------------------------


def _parse_show(form: PageForm) -> ReviewFilter:
    return next((choice for choice, _ in SHOW_CHOICES if choice == form.text("show")), "unlabelled")


def _redirect_back(form: PageForm, answer_key: str | None = "") -> Response:
    """Redirects to the review of a form with the same state."""
    parameters = {name: form.text(name)[:_MAX_WORD_LENGTH] for name in ("run", "tag")}
    show = _parse_show(form)
    next_key = form.text("at")[:_MAX_WORD_LENGTH] if answer_key == "" else answer_key
    return RedirectResponse(
        url("/review", **parameters, show=None if show == "unlabelled" else show, at=next_key),
        status_code=303,
    )
