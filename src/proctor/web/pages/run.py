"""One run: its numbers with their intervals, its parts, its charts, and the table of its trials."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from proctor.model import Run
from proctor.plurals import counted
from proctor.protocols import Store
from proctor.reports import REPORTS
from proctor.reports.formatting import interval, percent
from proctor.reports.runs.command_line import command_of
from proctor.services.runs.reading.catalogue_sync import Looked
from proctor.services.runs.reading.report import looked_at, reported
from proctor.stores.catalogue.records import VERDICTS
from proctor.web.browser_sessions import BrowserSession, get_session
from proctor.web.project import get_project
from proctor.web.runs.charts import CHARTS, Drawing, list_drawings, render_svg
from proctor.web.runs.facts import list_facts
from proctor.web.security import PageForm, read_form
from proctor.web.templates_env import PageNotFound, load_run, render_page, url
from proctor.web.trial_filters import FilterChip, filter_chips, filter_query, parse_filter, parse_sort

router = APIRouter()

_AT_ONCE = 50
_DOWN_FIRST = frozenset({"latency", "cost"})
"""What one wants to see from above."""
_GROUPS = 60
"""So many categories and tags are drawn; a table of more is no overview."""
_KINDS = {
    "html": "text/html",
    "md": "text/markdown",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "csv": "text/csv",
    "xml": "application/xml",
}


@router.get("/runs/{run_id}")
def run(request: Request, run_id: str, after: str = "") -> Response:
    """A run with its numbers and its trials."""
    project, session = get_project(request), get_session(request)
    with project.store() as store:
        looked = _looked(request, store, load_run(store, run_id), session)
    found, revealed = looked.run, run_id in session.revealed
    query, address = filter_query(request), f"/runs/{run_id}"
    sort = parse_sort(request)
    trials = project.catalogue.page(run_id, parse_filter(request), sort, after, _AT_ONCE, revealed=revealed)
    return render_page(
        request,
        "run.html",
        looked=looked,
        run=found,
        row=looked.summary,
        answer=headline(looked, revealed=revealed),
        parts_of=_parts(looked.summary),
        drawings=_drawings(request, looked),
        facts=list_facts(looked),
        revealed=revealed,
        command=command_of(found),
        trials=trials,
        verdicts=[verdict.value for verdict in VERDICTS],
        asked=parse_filter(request),
        sort=sort,
        after=after,
        query=query,
        chips=_chips(request, address),
        sorted_by=lambda name: _sorted_by(address, query, sort, name),
        failures=url(address, **query | {"verdict": ["fail", "error", "unscored"]}) + "#trials",
        endings=list(_KINDS),
    )


def _looked(request: Request, store: Store, found: Run, session: BrowserSession) -> Looked:
    """The run with its numbers, and with this look at its holdout counted where it has one."""
    cataloguer = get_project(request).cataloguer
    looked = cataloguer.look_in(store, found)
    if not _tells_of_holdout(looked):
        return looked
    session.record_access(store, found)
    return cataloguer.look_in(store, found, 0.05)


def _tells_of_holdout(looked: Looked) -> bool:
    """Whether the page, or what follows in it while it is open, has the pass rate of what is held out."""
    if "holdout" in looked.summary["splits"]:
        return True
    goes_on = looked.alive or not looked.whole
    return (
        goes_on and looked.run.suite.split_rule is not None and looked.run.settings.selection.split != "dev"
    )


def headline(looked: Looked, *, revealed: bool) -> str:
    """What a run came to, in one line."""
    counts, name = looked.counts, looked.run.target.name
    if not looked.whole:
        return f"{name}: {looked.done:,} of {looked.stored:,} stored trials are read so far"
    if looked.alive:
        return f"{name} is being asked: {counted(looked.planned, 'trial')} of {looked.run.suite.title}"
    if not counts.total:
        return f"{name} answered none of {looked.planned:,}"
    said = f"{name} passed {counts.passed:,} of {counts.total:,}"
    said += f" ({percent(counts.pass_rate)}, {interval(counts.ci95)})"
    if looked.done < looked.planned:
        said += f"; {looked.planned - looked.done:,} trials are missing"
    if "holdout" in looked.summary["splits"]:
        said += "; holdout revealed" if revealed else "; holdout sealed"
    return said


def _parts(row: dict[str, Any]) -> list[tuple[str, str, list[tuple[str, dict[str, Any]]], int]]:
    """Categories and tags with their counts: a heading, the filter's name, the parts, and how many more."""
    found = []
    tags = row["by_tag"] if any(one["total"] != row["total"] for one in row["by_tag"].values()) else {}
    for heading, name, groups in (("Category", "category", row["by_category"]), ("Tag", "tag", tags)):
        if groups:
            kept = list(groups.items())[:_GROUPS]
            found.append((heading, name, kept, len(groups) - len(kept)))
    return found


def _drawings(request: Request, looked: Looked) -> list[Drawing]:
    return list_drawings(get_project(request), looked) if looked.whole and looked.done else []


def _chips(request: Request, address: str) -> Iterator[FilterChip]:
    for chip in filter_chips(request, address):
        yield FilterChip(chip.word, f"{chip.address}#trials")


def _sorted_by(address: str, query: dict[str, list[str]], sort: str, name: str) -> tuple[str, str]:
    """The address that sorts the trials by a column, or turns it around, and how it is sorted now."""
    on = sort.removeprefix("-") == name
    down = sort.startswith("-") if on else name not in _DOWN_FIRST
    word = name if down else f"-{name}"
    rest = {key: words for key, words in query.items() if key != "sort"}
    said = "" if not on else "descending" if down else "ascending"
    return url(address, **rest, sort="" if word == "position" else word) + "#trials", said


@router.get("/runs/{run_id}/charts/{name}.svg")
def chart(request: Request, run_id: str, name: str, dark: bool = False) -> Response:
    """A chart of a run, for a light page or a dark one."""
    if name not in CHARTS:
        raise PageNotFound("There is no such chart.")
    project = get_project(request)
    with project.store() as store:
        looked = project.cataloguer.look_in(store, load_run(store, run_id))
    drawn = render_svg(project, looked, name, dark=dark)
    if drawn is None:
        raise PageNotFound("There is nothing to draw: no answer of this run has such a number.")
    return Response(drawn, media_type="image/svg+xml", headers={"cache-control": "private, max-age=60"})


@router.get("/runs/{run_id}/export.{ending}")
def export(request: Request, run_id: str, ending: str) -> Response:
    """Every trial of a run as a file; what is held out is sealed unless it was revealed on its page."""
    if ending not in _KINDS:
        known = ", ".join(_KINDS)
        raise PageNotFound(f"A run cannot be exported as {ending!r}. It can be as {known}.")
    project, reveal = get_project(request), run_id in get_session(request).revealed
    with project.store() as store:
        found = load_run(store, run_id)

    def written() -> Iterator[str]:
        with project.store() as store:
            shown = reported(store, found, reveal=reveal)
            # That it was revealed is counted already.
            yield from REPORTS.get(f".{ending}")([looked_at(store, shown, reveal=False)])

    encoded = (text.encode("utf-8", "replace") for text in written())
    first = next(encoded, b"")  # what cannot be read is told by a page, and not by half a file
    headers = {"content-disposition": f'attachment; filename="{_file_name(found)}.{ending}"'}
    return StreamingResponse(chain([first], encoded), media_type=_KINDS[ending], headers=headers)


def _file_name(found: Run) -> str:
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "_" for letter in found.id
    )


@router.post("/runs/{run_id}/reveal")
def reveal(request: Request, run_id: str, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Show this visitor what a run has sealed, which is counted as a look for ever."""
    session = get_session(request)
    with get_project(request).store() as store:
        session.reveal(store, load_run(store, run_id))
    session.flash("The holdout of this run is revealed to you, and the look is recorded.")
    own = f"/runs/{run_id}"
    back = form.text("back", own)
    return RedirectResponse(back if back == own or back.startswith((f"{own}/", f"{own}?")) else own, 303)
