"""The page of a case in a run: conversation and grades, with repeats, neighbours and history."""

from __future__ import annotations

import re
import shlex
from typing import Any, Literal

from fastapi import APIRouter
from msgspec import Struct, to_builtins
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from proctor.errors import NothingSelected
from proctor.model import Attachment, Message
from proctor.protocols import Store
from proctor.reports.formatting import cost, format_utc, milliseconds, to_json, token_counts
from proctor.reports.runs.answer_parts import id_facts, logprob_text, speed_facts, view_tokens
from proctor.reports.runs.one_line import summarize_verdict
from proctor.reports.runs.serialize import TrialResult, trial_record
from proctor.services.runs.reading.case_detail import CaseDetail, load_case_detail
from proctor.services.runs.reading.run_summaries import RunSummary
from proctor.services.runs.reading.trial_table import TrialQuery
from proctor.verdicts import trial_score
from proctor.web.answer_markdown import markdown_to_html
from proctor.web.browser_sessions import get_session
from proctor.web.media_response import PLAYERS, Player, make_media_response
from proctor.web.pages import answer_media, comments
from proctor.web.person_texts import MAX_NAME_LENGTH, MAX_NOTE_LENGTH
from proctor.web.project import get_project
from proctor.web.tasks import Task
from proctor.web.templates_env import PageNotFound, load_run, render_page, url
from proctor.web.trial_filters import filter_query, parse_filter, parse_sort
from proctor.web.trial_tasks import query_trials

router = APIRouter()
router.include_router(comments.router)
router.include_router(answer_media.router)

MAX_TEXT_LENGTH = 100_000
"""Characters shown of a text; more takes browsers seconds, and the raw trial has everything."""
MAX_TOKENS = 2_000
"""Tokens shown with their probabilities; the raw trial has all."""
_TIMEOUT_S = 0.3
"""How long the page waits for the neighbours of a case."""
_THINKING = re.compile(r"\A\s*<think>(.*?)</think>\s*", re.DOTALL | re.IGNORECASE)


class AttachmentView(Struct, frozen=True):
    """An attachment of a case, with its number."""

    number: int
    attachment: Attachment

    @property
    def player(self) -> Player | None:
        """The element that shows it; None if it can only be downloaded."""
        return PLAYERS.get(self.attachment.media_type)


@router.get("/runs/{run_id}/cases/{position}")
def show_case(
    request: Request,
    run_id: str,
    position: int,
    repeat: int | None = None,
    view: Literal["plain", "markdown", "tokens"] = "plain",
) -> Response:
    """Shows a case of a run, with one of its repeats.

    Its answer is plain text, rendered Markdown, or tokens with their probabilities.
    """
    detail = _load_case(request, run_id, position, history=True)
    row = detail.rows[0] if repeat is None else _select_row(detail, repeat)
    view_query: dict[str, str] = {"view": view} if view != "plain" else {}
    with get_project(request).open_store() as store:
        run_summary = get_project(request).summaries.refresh_in(store, detail.run, _TIMEOUT_S)
        neighbours = _neighbours(request, store, run_summary, detail, row, view_query)
        case_comments = comments.list_comments(store, run_id, row)
    task = neighbours if isinstance(neighbours, Task) else None
    before, after = (None, None) if isinstance(neighbours, Task) else neighbours
    visible_row, thinking = _without_thinking(row)
    output = visible_row.trial.output
    logprobs = () if output is None or view != "tokens" else output.logprobs
    return render_page(
        request,
        "case.html",
        asked_case=detail,
        row=visible_row,
        thinking=thinking,
        answer=(f"repeat {row.trial.repeat} " if detail.planned > 1 else "") + summarize_verdict(row),
        link=f"{request.base_url}".rstrip("/")
        + url(f"/runs/{run_id}/cases/{position}", repeat=row.trial.repeat or None),
        facts=_facts(row),
        files=_list_attachments(row),
        rendered=markdown_to_html(output.text)
        if output is not None and view == "markdown" and not row.sealed
        else None,
        view=view if view != "tokens" or logprobs else "plain",
        tokens=view_tokens(logprobs, MAX_TOKENS),
        more_tokens=max(0, len(logprobs) - MAX_TOKENS),
        media=answer_media.list_media(run_id, position, row.trial),
        state=view_query | filter_query(request),
        comments=case_comments,
        max_name=MAX_NAME_LENGTH,
        max_note=MAX_NOTE_LENGTH,
        own_messages=() if output is None else output.messages,
        before=before,
        after=after,
        task=task,
        run_summary=run_summary,
        longest=MAX_TEXT_LENGTH,
        filters=filter_query(request),
        command=_command(detail, row),
        score_of=trial_score,
        spoken=lambda other: _without_thinking(other)[0].trial.output,
    )


@router.get("/runs/{run_id}/cases/{position}/{repeat}.json")
def download_trial(request: Request, run_id: str, position: int, repeat: int) -> Response:
    """Returns one trial with its case as JSON."""
    detail = _load_case(request, run_id, position)
    row = _select_row(detail, repeat)
    with get_project(request).open_store() as store:
        case_comments = comments.list_comments(store, detail.run.id, row)
    data = to_builtins(trial_record(detail.run, row)) | {
        "position": position,
        "case": row.case,
        "comments": [
            {"by": stored.comment.by, "at": format_utc(stored.at), "text": stored.comment.text}
            for stored in case_comments
        ],
    }
    return Response(_encode_utf8(to_json(data) + "\n"), media_type="application/json")


@router.get("/runs/{run_id}/cases/{position}/attachments/{number}")
def download_attachment(request: Request, run_id: str, position: int, number: int) -> Response:
    """Sends an attachment as a download, so that no browser runs it."""
    detail = _load_case(request, run_id, position)
    files = _list_attachments(detail.rows[0])
    if not 0 <= number < len(files):
        raise PageNotFound("This case has no such attachment, or it is in the hidden holdout.")
    return make_media_response(files[number].attachment, request.headers.get("range", ""))


def _load_case(request: Request, run_id: str, position: int, *, history: bool = False) -> CaseDetail:
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, run_id)
        reveal = run.id in get_session(request).revealed
        try:
            return load_case_detail(
                store, run, position, reveal=reveal, **({} if history else {"history": 0})
            )
        except NothingSelected as error:
            raise PageNotFound(str(error)) from None


def _select_row(detail: CaseDetail, repeat: int) -> TrialResult:
    try:
        return detail.get_row(repeat)
    except NothingSelected as error:
        raise PageNotFound(str(error)) from None


def _without_thinking(row: TrialResult) -> tuple[TrialResult, str]:
    """Splits a trial into the trial without the model's thinking, and the thinking."""
    output = row.trial.output
    match = None if output is None else _THINKING.match(output.text)
    if output is None or match is None:
        return row, ""
    trial = replace(row.trial, output=replace(output, text=output.text[match.end() :]))
    return replace(row, trial=trial), match[1].strip()


def _list_attachments(row: TrialResult) -> list[AttachmentView]:
    """Returns the attachments of the prompt; empty if it is hidden."""
    messages: tuple[Message, ...] = row.case.input
    parts = (part for message in messages for part in message.parts if isinstance(part, Attachment))
    return [AttachmentView(number, part) for number, part in enumerate(parts)]


def _facts(row: TrialResult) -> list[tuple[str, str]]:
    """Returns names and values of the trial that appear nowhere else on the page."""
    trial, output = row.trial, row.trial.output
    facts: list[tuple[str, str | None]] = [
        ("category", row.case.category),
        ("tags", ", ".join(row.case.tags)),
        ("split", trial.split),
        ("failed while", None if trial.failure is None else _STAGES[trial.failure.stage]),
        ("started", f"{format_utc(trial.started_at)[:19].replace('T', ' ')} UTC"),
    ]
    if output is not None:
        tokens, usage = None, output.usage
        if usage is not None:
            tokens = token_counts(usage)
        facts += [
            ("answered by", output.target if output.target != trial.target else None),
            ("model", output.model),
            ("latency", None if output.batch_id else milliseconds(output.latency_ms)),
            ("in batch", output.batch_id),
            *speed_facts(output),
            ("waited before", milliseconds(output.queue_ms) if output.queue_ms >= 1 else None),
            ("tokens", tokens),
            ("log-probability", logprob_text(output)),
            ("cost", cost(output.cost_usd)),
            ("ended by", output.finish_reason),
            ("not applied", ", ".join(output.refused_params)),
            ("from the cache", "yes" if output.cached else None),
            *id_facts(output),
        ]
    return [(name, value) for name, value in facts if value]


_STAGES = {"setup": "preparing the workspace", "target": "calling the target", "grading": "grading"}


def _command(detail: CaseDetail, row: TrialResult) -> str:
    """Returns the equivalent command."""
    output = row.trial.output
    line = f"proctor runs show {detail.run.id} --case {shlex.quote(detail.rows[0].trial.case_id)}"
    line += " --full" * (output is not None and bool(output.reasoning or output.logprobs))
    return f"{line} --reveal" if detail.is_held_out and not detail.is_sealed else line


def _encode_utf8(text: str) -> bytes:
    """Encodes text; half a character becomes a question mark."""
    return text.encode("utf-8", "replace")


# --- neighbours --------------------------------------------------------------------------------------------


def _neighbours(
    request: Request,
    store: Store,
    run_summary: RunSummary,
    detail: CaseDetail,
    row: TrialResult,
    view_query: dict[str, str],
) -> tuple[str | None, str | None] | Task[Any]:
    """Returns the addresses of the trials before and after this one within the current filter.

    While they are not known, it returns the task that reads the trials.
    """
    run, place = detail.run, (row.trial.position, row.trial.repeat)
    neighbours = query_trials(
        request,
        store,
        run_summary,
        TrialQuery(
            filter=parse_filter(request),
            sort=parse_sort(request),
            revealed=run.id in get_session(request).revealed,
        ),
        ("neighbours", place),
        lambda selection: selection.neighbours(place),
        _TIMEOUT_S,
    )
    if isinstance(neighbours, Task):
        return neighbours
    before, after = neighbours
    filters = filter_query(request)

    def address(position: tuple[int, int] | None) -> str | None:
        if position is None:
            return None
        repeat = position[1] if detail.planned > 1 or position[1] else None
        return url(f"/runs/{run.id}/cases/{position[0]}", repeat=repeat, **view_query, **filters)

    return address(before), address(after)
