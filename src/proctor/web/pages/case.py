"""A case of a run: like a conversation with its exam sheet, with its repeats, neighbours and history."""

from __future__ import annotations

import re
import shlex

from fastapi import APIRouter
from msgspec import Struct, to_builtins
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from proctor.errors import NothingSelected
from proctor.model import Attachment, Message
from proctor.reports.formatting import as_json, cost, milliseconds, utc
from proctor.reports.runs.one_line import briefly
from proctor.reports.runs.serialize import Row, trial_row
from proctor.services.runs.reading.case_detail import AskedCase, asked_case
from proctor.verdicts import score_of
from proctor.web.browser_sessions import visitor_of
from proctor.web.project import site_of
from proctor.web.templates_env import NotThere, page, run_of, url
from proctor.web.trial_filters import query_of, sort_of, wanted_of

router = APIRouter()

LONGEST = 100_000
"""Letters of a text that are shown; browsers take seconds for more, and the raw trial has all."""
_PATIENCE_S = 0.3
"""So long a page waits for the neighbours of a case in a run that nobody has looked through yet."""
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Kinds of files that a browser only draws; anything else is handed over as bytes."""
_THINKING = re.compile(r"\A\s*<think>(.*?)</think>\s*", re.DOTALL | re.IGNORECASE)


class Filed(Struct, frozen=True):
    """An attachment of a case, and its number among them."""

    number: int
    attachment: Attachment

    @property
    def is_picture(self) -> bool:
        """Whether it can be drawn."""
        return self.attachment.media_type in _PICTURES


@router.get("/runs/{run_id}/cases/{position}")
def case(request: Request, run_id: str, position: int, repeat: int | None = None) -> Response:
    """A case of a run, with one of its repeats."""
    found = _leaf(request, run_id, position, history=True)
    row = found.rows[0] if repeat is None else _row(found, repeat)
    looked = site_of(request).cataloguer.look(run_id, _PATIENCE_S)
    before, after = _beside(request, found, row)
    shown, thinking = _without_thinking(row)
    return page(
        request,
        "case.html",
        asked_case=found,
        row=shown,
        thinking=thinking,
        answer=(f"repeat {row.trial.repeat} " if found.planned > 1 else "") + briefly(row),
        facts=_facts(row),
        files=_files(row),
        own_messages=() if row.trial.output is None else row.trial.output.messages,
        before=before,
        after=after,
        looked=looked,
        longest=LONGEST,
        filters=query_of(request),
        command=_command(found),
        score_of=score_of,
        spoken=lambda other: _without_thinking(other)[0].trial.output,
    )


@router.get("/runs/{run_id}/cases/{position}/{repeat}.json")
def raw(request: Request, run_id: str, position: int, repeat: int) -> Response:
    """One trial with its case, as data."""
    found = _leaf(request, run_id, position)
    row = _row(found, repeat)
    data = {**trial_row(found.run, row), "position": position, "case": to_builtins(row.case)}
    return Response(_utf8(as_json(data) + "\n"), media_type="application/json")


@router.get("/runs/{run_id}/cases/{position}/attachments/{number}")
def attachment(request: Request, run_id: str, position: int, number: int) -> Response:
    """A file that was sent with the question, to be kept: never as something that a browser runs."""
    found = _leaf(request, run_id, position)
    files = _files(found.rows[0])
    if not 0 <= number < len(files):
        raise NotThere("This case has no such attachment, or it is sealed.")
    filed = files[number].attachment
    data = filed.data if filed.text is None else _utf8(filed.text)
    kind = filed.media_type if files[number].is_picture else "application/octet-stream"
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", filed.path.rpartition("/")[2])[-80:].lstrip(".") or "attachment"
    headers = {
        "content-disposition": f'attachment; filename="{name}"',
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
    }
    return Response(data, media_type=kind, headers=headers)


def _leaf(request: Request, run_id: str, position: int, *, history: bool = False) -> AskedCase:
    site = site_of(request)
    with site.store() as store:
        run = run_of(store, run_id)
        reveal = run.id in visitor_of(request).revealed
        try:
            return asked_case(store, run, position, reveal=reveal, **({} if history else {"history": 0}))
        except NothingSelected as error:
            raise NotThere(str(error)) from None


def _row(found: AskedCase, repeat: int) -> Row:
    try:
        return found.row(repeat)
    except NothingSelected as error:
        raise NotThere(str(error)) from None


def _without_thinking(row: Row) -> tuple[Row, str]:
    """The trial without what its model thought before it answered, and that."""
    output = row.trial.output
    thought = None if output is None else _THINKING.match(output.text)
    if output is None or thought is None:
        return row, ""
    shown = replace(row.trial, output=replace(output, text=output.text[thought.end() :]))
    return replace(row, trial=shown), thought[1].strip()


def _files(row: Row) -> list[Filed]:
    """The attachments of the question; none of one that is sealed."""
    messages: tuple[Message, ...] = row.case.input
    parts = (part for message in messages for part in message.parts if isinstance(part, Attachment))
    return [Filed(number, part) for number, part in enumerate(parts)]


def _facts(row: Row) -> list[tuple[str, str]]:
    """What is known of a trial besides its answer, each with its name."""
    trial, output, usage = (
        row.trial,
        row.trial.output,
        None if row.trial.output is None else row.trial.output.usage,
    )
    facts: list[tuple[str, str | None]] = [
        ("category", row.case.category),
        ("tags", ", ".join(row.case.tags)),
        ("split", trial.split),
        ("target", trial.target),
        ("failed while", None if trial.failure is None else _STAGES[trial.failure.stage]),
        ("started", f"{utc(trial.started_at)[:19].replace('T', ' ')} UTC"),
    ]
    if output is not None:
        facts += [
            ("answered by", output.target),
            ("model", output.model),
            ("latency", milliseconds(output.latency_ms)),
            ("waited before", milliseconds(output.queue_ms) if output.queue_ms >= 1 else None),
            (
                "tokens",
                None
                if usage is None
                else _tokens(usage.input_tokens, usage.output_tokens, usage.cached_tokens),
            ),
            ("cost", cost(output.cost_usd)),
            ("ended by", output.finish_reason),
            ("not applied", ", ".join(output.refused_params)),
            ("from the cache", "yes" if output.cached else None),
        ]
    return [(name, value) for name, value in facts if value]


_STAGES = {"setup": "its workspace was made", "target": "the target was asked", "grading": "it was graded"}


def _tokens(taken: int, given: int, cached: int) -> str:
    return f"{taken:,} in{f' ({cached:,} cached)' if cached else ''}, {given:,} out"


def _command(found: AskedCase) -> str:
    """The command line that shows the same."""
    line = f"proctor runs show {found.run.id} --case {shlex.quote(found.rows[0].trial.case_id)}"
    return f"{line} --reveal" if found.is_held_out and not found.sealed else line


def _utf8(text: str) -> bytes:
    """As bytes; half a character, which no encoding has, becomes a question mark."""
    return text.encode("utf-8", "replace")


# --- where one came from -----------------------------------------------------------------------------------


def _beside(request: Request, found: AskedCase, row: Row) -> tuple[str | None, str | None]:
    """The addresses of the trials before and after this one, within the filter one came from."""
    site, run = site_of(request), found.run
    before, after = site.catalogue.around(
        run.id,
        wanted_of(request),
        sort_of(request),
        (row.trial.position, row.trial.repeat),
        revealed=run.id in visitor_of(request).revealed,
    )
    filters = query_of(request)

    def address(place: tuple[int, int] | None) -> str | None:
        if place is None:
            return None
        repeat = place[1] if found.planned > 1 or place[1] else None
        return url(f"/runs/{run.id}/cases/{place[0]}", repeat=repeat, **filters)

    return address(before), address(after)
