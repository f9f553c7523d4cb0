"""The page of a run: numbers with intervals, parts, charts, and the table of its trials."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from proctor.model import Run
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.reports import REPORTS
from proctor.reports.formatting import interval, percent
from proctor.reports.runs.command_line import rerun_command
from proctor.reports.runs.serialize import counts_by_tag
from proctor.services.runs.reading.report import build_report, record_report_access
from proctor.services.runs.reading.run_summaries import RunSummary
from proctor.services.runs.reading.trial_table import VERDICTS, TrialQuery, read_table_rows
from proctor.verdicts import Counts, Tally
from proctor.web.browser_sessions import BrowserSession, get_session
from proctor.web.project import get_project
from proctor.web.runs.charts import CHARTS, list_drawings, render_svg
from proctor.web.runs.facts import list_facts
from proctor.web.security import PageForm, read_form
from proctor.web.tasks import Task, stream_reading
from proctor.web.templates_env import PageNotFound, load_run, render_page, url
from proctor.web.trial_filters import (
    FilterChip,
    filter_chips,
    filter_query,
    parse_filter,
    parse_sort,
    toggle_sort,
)
from proctor.web.trial_tasks import query_trials

router = APIRouter()

_PAGE_SIZE = 50
_TIMEOUT_S = 0.6
"""Trials that are found within this time are shown at once."""
_DOWN_FIRST = frozenset({"latency", "cost"})
"""Columns that are sorted in descending order first."""
_MAX_GROUPS = 60
"""Number of categories and tags that are drawn."""
_MEDIA_TYPES = {
    "html": "text/html",
    "md": "text/markdown",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "csv": "text/csv",
    "xml": "application/xml",
    "parquet": "application/vnd.apache.parquet",
}
"""Reports with other endings are sent as plain text."""


@router.get("/runs/{run_id}")
def show_run(request: Request, run_id: str, after: str = "") -> Response:
    """Shows a run with its numbers and trials."""
    project, session = get_project(request), get_session(request)
    with project.open_store() as store:
        run_summary = _load_summary(request, store, load_run(store, run_id), session)
        stored_run, revealed = run_summary.run, run_id in session.revealed
        trial_query = TrialQuery(filter=parse_filter(request), sort=parse_sort(request), revealed=revealed)
        trials = query_trials(
            request,
            store,
            run_summary,
            trial_query,
            ("page", after),
            lambda selection: selection.page(after, _PAGE_SIZE),
            _TIMEOUT_S,
        )
        places = () if isinstance(trials, Task) else trials.places
        trial_rows = list(read_table_rows(store, stored_run, places, revealed=revealed))
    query, address = filter_query(request), f"/runs/{run_id}"
    return render_page(
        request,
        "run.html",
        run_summary=run_summary,
        run=stored_run,
        row=run_summary.summary,
        answer=headline(run_summary, revealed=revealed),
        parts_of=_group_rows(run_summary.totals.tally),
        drawings=list_drawings(run_summary) if run_summary.whole and run_summary.done else [],
        facts=list_facts(run_summary),
        revealed=revealed,
        command=rerun_command(stored_run),
        trials=trials,
        task=trials if isinstance(trials, Task) else None,
        trial_rows=trial_rows,
        verdicts=[verdict.value for verdict in VERDICTS],
        asked=trial_query.filter,
        sort=trial_query.sort,
        after=after,
        query=query,
        chips=[FilterChip(chip.text, f"{chip.address}#trials") for chip in filter_chips(request, address)],
        sorted_by=lambda name: _sort_link(address, query, trial_query.sort, name),
        failures=url(address, **query | {"verdict": ["fail", "error", "unscored"]}) + "#trials",
        endings=_export_endings(),
    )


@router.get("/runs/{run_id}/trials/events")
def stream_progress(request: Request, task: str) -> Response:
    """Streams the progress of reading the trials."""
    return stream_reading(request, task)


def _load_summary(request: Request, store: Store, run: Run, session: BrowserSession) -> RunSummary:
    """Returns the numbers of a run, and records the holdout access if it has a holdout."""
    summaries = get_project(request).summaries
    run_summary = summaries.refresh_in(store, run)
    if not _shows_holdout_rate(run_summary):
        return run_summary
    session.record_access(store, run)
    return summaries.refresh_in(store, run, 0.05)


def _shows_holdout_rate(run_summary: RunSummary) -> bool:
    """Whether the page, or its live updates, show the holdout's pass rate."""
    if "holdout" in run_summary.summary.splits:
        return True
    is_unfinished = run_summary.alive or not run_summary.whole
    return (
        is_unfinished
        and run_summary.run.suite.split_rule is not None
        and run_summary.run.settings.selection.split != "dev"
    )


def headline(run_summary: RunSummary, *, revealed: bool) -> str:
    """Sums up a run in one line."""
    counts, name = run_summary.counts, run_summary.run.target.name
    if not run_summary.whole:
        return f"{name}: {run_summary.done:,} of {run_summary.stored:,} stored trials are read so far"
    if run_summary.alive:
        return (
            f"{name} is being asked: {pluralize(run_summary.planned, 'trial')} of "
            f"{run_summary.run.suite.title}"
        )
    if not counts.total:
        return f"{name} answered none of {run_summary.planned:,}"
    result_text = f"{name} passed {counts.passed:,} of {counts.total:,}"
    if counts.pass_rate is None:
        result_text += " (nothing could be measured)"
    else:
        result_text += f" ({percent(counts.pass_rate)}, {interval(counts.ci95)})"
    if run_summary.done < run_summary.planned:
        result_text += f"; {run_summary.planned - run_summary.done:,} trials are missing"
    if "holdout" in run_summary.summary.splits:
        result_text += "; holdout revealed" if revealed else "; holdout sealed"
    return result_text


def _group_rows(tally: Tally) -> list[tuple[str, str, list[tuple[str, Counts]], int]]:
    """Returns categories and tags with counts: heading, filter name, parts, and the number left out."""
    parts = []
    categories, tags = dict(sorted(tally.categories.items())), counts_by_tag(tally)
    for heading, name, groups in (("Category", "category", categories), ("Tag", "tag", tags)):
        if groups:
            first_groups = list(groups.items())[:_MAX_GROUPS]
            parts.append((heading, name, first_groups, len(groups) - len(first_groups)))
    return parts


def _sort_link(address: str, query: dict[str, list[str]], sort: str, name: str) -> tuple[str, str]:
    """Returns the address that sorts trials by a column or reverses the order, and the current direction."""
    sort_key, direction = toggle_sort(sort, name, _DOWN_FIRST)
    parameters: dict[str, Any] = {**query, "sort": "" if sort_key == "position" else sort_key}
    return url(address, **parameters) + "#trials", direction


@router.get("/runs/{run_id}/charts/{name}.svg")
def send_chart(request: Request, run_id: str, name: str, dark: bool = False) -> Response:
    """Sends a chart for light or dark pages."""
    if name not in CHARTS:
        raise PageNotFound("There is no such chart.")
    project = get_project(request)
    with project.open_store() as store:
        run_summary = project.summaries.refresh_in(store, load_run(store, run_id))
    svg = render_svg(run_summary, name, dark=dark)
    if svg is None:
        raise PageNotFound("There is nothing to draw: no answer of this run has such a number.")
    return Response(svg, media_type="image/svg+xml", headers={"cache-control": "private, max-age=60"})


@router.get("/runs/{run_id}/export.{extension}")
def export(request: Request, run_id: str, extension: str) -> Response:
    """Sends every trial of a run as a file; held-out content is hidden unless it was revealed."""
    if extension not in _export_endings():
        endings = ", ".join(_export_endings())
        raise PageNotFound(f"A run cannot be exported as {extension!r}. It can be as {endings}.")
    project, reveal = get_project(request), run_id in get_session(request).revealed
    with project.open_store() as store:
        stored_run = load_run(store, run_id)

    def render_report() -> Iterator[str | bytes]:
        with project.open_store() as store:
            report = build_report(store, stored_run, reveal=reveal)
            # The reveal was recorded already.
            yield from REPORTS.get(f".{extension}")([record_report_access(store, report, reveal=False)])

    chunks = (
        chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk for chunk in render_report()
    )
    first_chunk = next(chunks, b"")  # an error becomes a page, not half a file
    file_name = re.sub(r"[^A-Za-z0-9_-]", "_", stored_run.id)
    headers = {"content-disposition": f'attachment; filename="{file_name}.{extension}"'}
    media_type = _MEDIA_TYPES.get(extension, "text/plain")
    return StreamingResponse(chain([first_chunk], chunks), media_type=media_type, headers=headers)


def _export_endings() -> list[str]:
    """Returns the endings of all reports without their dots, those for reading first."""
    return list(dict.fromkeys((*_MEDIA_TYPES, *(name.removeprefix(".") for name in REPORTS.names()))))


@router.post("/runs/{run_id}/reveal")
def reveal(request: Request, run_id: str, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Reveals the held-out answers of a run to this session, which is a holdout access."""
    session = get_session(request)
    with get_project(request).open_store() as store:
        session.reveal(store, load_run(store, run_id))
    session.flash("The holdout of this run is revealed to you, and the look is recorded.")
    run_address = f"/runs/{run_id}"
    target_address = form.text("back", run_address)
    return RedirectResponse(
        target_address
        if target_address == run_address or target_address.startswith((f"{run_address}/", f"{run_address}?"))
        else run_address,
        303,
    )
