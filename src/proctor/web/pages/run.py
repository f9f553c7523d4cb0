"""The page of a run: its result, the table of its trials, and at the side its parts, charts and settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from proctor.model import Run
from proctor.protocols import Store
from proctor.reports import REPORTS
from proctor.reports.formatting import format_run_name, interval, percent
from proctor.reports.runs.command_line import rerun_command
from proctor.reports.runs.serialize import counts_by_tag
from proctor.services.runs.reading.report import build_report
from proctor.services.runs.reading.run_summaries import RunSummary
from proctor.services.runs.reading.trial_table import VERDICTS, TrialQuery, read_table_rows
from proctor.services.runs.request import new_id
from proctor.verdicts import Counts
from proctor.web.browser_sessions import BrowserSession, get_session
from proctor.web.project import get_project
from proctor.web.run_status import describe_progress, read_latest_answers
from proctor.web.runs.charts import CHARTS, list_drawings, render_svg
from proctor.web.runs.facts import list_facts
from proctor.web.runs.start import count_retryable, retry_arguments, shell_command
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
_WORST_TAGS = 5
"""Number of tags that are shown before the list of all is opened."""
_MIN_TAG_CASES = 5
"""Number of measured cases from which a tag can be one of the worst."""
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
        latest = read_latest_answers(store, run_summary) if run_summary.alive else ()
        places = () if isinstance(trials, Task) else trials.places
        trial_rows = list(read_table_rows(store, stored_run, places, revealed=revealed))
    query, address = filter_query(request), f"/runs/{run_id}"
    tags, all_tags = select_worst_tags(counts_by_tag(run_summary.totals.tally))
    return render_page(
        request,
        "run.html",
        run_summary=run_summary,
        run=stored_run,
        row=run_summary.summary,
        name=format_run_name(stored_run),
        answer=headline(run_summary, revealed=revealed),
        heading=describe_progress(run_summary),
        latest=latest,
        categories=dict(sorted(run_summary.totals.tally.categories.items())[:_MAX_GROUPS]),
        tags=tags,
        all_tags=all_tags,
        max_groups=_MAX_GROUPS,
        drawings=list_drawings(run_summary) if run_summary.whole and run_summary.done else [],
        facts=list_facts(run_summary),
        revealed=revealed,
        command=" ".join((rerun_command(stored_run), *map(shlex.quote, project.store_flags))),
        retryable=0 if run_summary.alive else count_retryable(stored_run, run_summary.counts),
        retry_command=shell_command(project, retry_arguments(stored_run)),
        retry_group=new_id(),
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
    counts, name = run_summary.counts, run_summary.run.target_title
    if run_summary.alive or not run_summary.whole:
        return describe_progress(run_summary)
    if not counts.total:
        return f"{name} answered 0 of {run_summary.planned:,}"
    result_text = f"{name} passed {counts.passed:,} of {counts.total:,}"
    if counts.pass_rate is None:
        result_text += " (nothing could be measured)"
    else:
        result_text += f" ({percent(counts.pass_rate)}, {interval(counts.ci95)})"
    if run_summary.done < run_summary.planned:
        result_text += f"; {run_summary.planned - run_summary.done:,} trials are missing"
    if "holdout" in run_summary.summary.splits:
        result_text += "; holdout revealed" if revealed else "; holdout hidden"
    return result_text


def select_worst_tags(
    counts_by_name: Mapping[str, Counts],
) -> tuple[dict[str, Counts], dict[str, Counts]]:
    """Returns the tags that are shown at once, and all tags if these are more.

    At once are shown the tags with the lowest pass rates among those with enough cases to tell.
    """
    if len(counts_by_name) <= _WORST_TAGS:
        return dict(counts_by_name), {}
    rates = {
        name: counts.pass_rate
        for name, counts in counts_by_name.items()
        if counts.pass_rate is not None and counts.cases >= _MIN_TAG_CASES
    }
    worst = sorted(rates, key=rates.__getitem__)[:_WORST_TAGS]
    return {name: counts_by_name[name] for name in worst}, dict(counts_by_name)


def _sort_link(address: str, query: dict[str, list[str]], sort: str, name: str) -> tuple[str, str]:
    """Returns the address that sorts trials by a column or reverses the order, and the current direction."""
    sort_key, direction = toggle_sort(sort, name, _DOWN_FIRST)
    parameters: dict[str, Any] = {**query, "sort": "" if sort_key == "position" else sort_key}
    return url(address, **parameters) + "#trials", direction


@router.get("/runs/{run_id}/charts/{name}.svg")
def send_chart(request: Request, run_id: str, name: str, dark: bool = False) -> Response:
    """Sends a chart for light or dark pages."""
    if name not in CHARTS:
        raise PageNotFound("This chart does not exist.")
    project = get_project(request)
    with project.open_store() as store:
        run_summary = project.summaries.refresh_in(store, load_run(store, run_id))
    svg = render_svg(run_summary, name, dark=dark)
    if svg is None:
        raise PageNotFound("There is nothing to draw: no answer of this run has this value.")
    return Response(svg, media_type="image/svg+xml", headers={"cache-control": "private, max-age=60"})


@router.get("/runs/{run_id}/export.{extension}")
def export(request: Request, run_id: str, extension: str) -> Response:
    """Sends every trial of a run as a file; held-out content is hidden unless it was revealed."""
    if extension not in _export_endings():
        endings = ", ".join(_export_endings())
        raise PageNotFound(f"A run cannot be exported as {extension!r}. The formats are {endings}.")
    project, session = get_project(request), get_session(request)
    reveal = run_id in session.revealed
    with project.open_store() as store:
        stored_run = load_run(store, run_id)

    def render_report() -> Iterator[str | bytes]:
        with project.open_store() as store:
            report = build_report(store, stored_run, reveal=reveal)
            if "holdout" in report.tally.splits:  # the reveal was recorded already
                session.record_access(store, stored_run)
                report = replace(report, looks=len(store.holdout_accesses(stored_run.suite.digest)))
            yield from REPORTS.get(f".{extension}")([report])

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
    session.flash("The holdout of this run is now revealed to you, and the holdout access is recorded.")
    run_address = f"/runs/{run_id}"
    target_address = form.text("back", run_address)
    return RedirectResponse(
        target_address
        if target_address == run_address or target_address.startswith((f"{run_address}/", f"{run_address}?"))
        else run_address,
        303,
    )
