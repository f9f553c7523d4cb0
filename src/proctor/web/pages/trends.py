"""The page Trends: the runs of a suite on one target over time, in a sentence, a chart and a table."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from fastapi import APIRouter
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.codec import call_digest, encode
from proctor.errors import NothingSelected, ProctorError, StoreError, UsageError
from proctor.model import Run
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.reports.drift.chart import draw_chart
from proctor.reports.drift.report import DriftReport, describe_drift, format_series_title, run_table
from proctor.services.analysis.drift import (
    DriftQuery,
    DriftRequest,
    RunSelection,
    find_holdout_run,
    parse_moment,
)
from proctor.web.browser_sessions import get_session
from proctor.web.paging import slice_page
from proctor.web.project import Project, get_project
from proctor.web.runs.sparkline import Rate, Sparkline, draw_sparkline
from proctor.web.tasks import ProgressCallback, Task, TaskRunner, get_task_runner, stream_reading
from proctor.web.templates_env import PageNotFound, render_page, url
from proctor.web.trend_states import MAX_RATES, TrendState, get_trend_states, submit_states

router = APIRouter()

_TIMEOUT_S = 1.0
"""What is read within this time is shown at once."""
_LIST_TIMEOUT_S = 0.3
"""How long the list waits for what it does not know yet."""
_PAGE_SIZE = 50
_CHART_TIMEOUT_S = 60.0
"""How long the chart waits for the task that the page has started."""
_SIZE = re.compile(r'<svg\b[^>]*?\bwidth="([\d.]+)"[^>]*?\bheight="([\d.]+)"')


class TrendKey(Struct, frozen=True, kw_only=True):
    """What the runs of a trend share: suite, target and prompt."""

    runs: tuple[Run, ...]
    """In time order."""

    @property
    def last(self) -> Run:
        """The newest run."""
        return self.runs[-1]

    @property
    def address(self) -> str:
        """The address of its trend."""
        run = self.last
        prompt = run.prompt.name if run.prompt else None
        return url("/trends", suite=run.suite.digest, target=run.target.name, prompt=prompt)


class TrendEntry(Struct, frozen=True, kw_only=True):
    """A trend in the list."""

    key: TrendKey
    sparkline: Sparkline | None
    """Its pass rates; None if it has none, or only those of a holdout."""
    state: TrendState | None
    """Whether the target changed; None if that is not read yet."""


class TrendPage(Struct, frozen=True, kw_only=True):
    """A page of the list."""

    entries: Sequence[TrendEntry] = ()
    total: int = 0
    """The number of trends on all pages."""
    task: Task[int] | None = None
    """What reads the states that are not known yet."""
    following: str = ""
    """The last run of the last trend, if there is a next page."""
    before: bool = False
    """Whether there is a previous page."""


class TrendQuery(Struct, frozen=True, kw_only=True):
    """The parameters of the address as texts; empty if absent."""

    suite: str = ""
    target: str = ""
    prompt: str = ""
    since: str = ""
    until: str = ""
    baseline: str = ""

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters for another address."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


class Trend(Struct, frozen=True, kw_only=True):
    """The report on the runs, with its chart."""

    report: DriftReport
    """Without holdout accesses."""
    light: str
    dark: str

    @property
    def size(self) -> tuple[int, int] | None:
        """The width and height of the chart."""
        match = _SIZE.search(self.light)
        return None if match is None else (round(float(match[1])), round(float(match[2])))


@router.get("/trends")
def show_trend(request: Request) -> Response:
    """Shows a trend, or lists targets to choose from."""
    query, project = _parse_query(request), get_project(request)
    if not project.location.exists():  # showing an empty list creates no store
        return _choose_page(request, None, ())
    with project.open_store() as store:
        all_runs = list(store.runs())
        if not (query.suite or query.target or query.prompt):
            return _choose_page(request, store, all_runs)
        try:
            selection = _find_runs(store, project, all_runs, query)
        except (NothingSelected, UsageError, StoreError) as error:
            return _refused_page(request, store, all_runs, query, str(error))
    task = _submit_trend(get_task_runner(request), project, selection)
    if not task.wait(_TIMEOUT_S):
        return render_page(request, "trends_reading.html", task=task, count=len(selection.runs))
    try:
        trend = task.result()
    except ProctorError as error:
        with project.open_store() as store:
            return _refused_page(request, store, all_runs, query, str(error))
    return _trend_page(request, trend, selection, query)


@router.get("/trends/chart.svg")
def send_chart(request: Request, dark: bool = False) -> Response:
    """Sends the chart of a trend."""
    query, project = _parse_query(request), get_project(request)
    with project.open_store() as store:
        selection = _find_runs(store, project, list(store.runs()), query)
    task = _submit_trend(get_task_runner(request), project, selection)
    if not task.wait(_CHART_TIMEOUT_S):
        raise PageNotFound("This chart is still being drawn.")
    trend = task.result()
    headers = {"cache-control": "private, max-age=60"}
    return Response(trend.dark if dark else trend.light, media_type="image/svg+xml", headers=headers)


@router.get("/trends/events")
def stream_progress(request: Request, task: str) -> Response:
    """Streams the progress of a trend."""
    return stream_reading(request, task)


def _parse_query(request: Request) -> TrendQuery:
    return TrendQuery(**{name: request.query_params.get(name, "") for name in TrendQuery.__struct_fields__})


def _find_runs(store: Store, project: Project, all_runs: Sequence[Run], query: TrendQuery) -> RunSelection:
    """Returns the runs of a query; suite and target are looked up only among stored runs."""
    suite_runs = [
        run for run in all_runs if query.suite in ("", run.suite.digest, run.suite.name, run.suite.title)
    ]
    if not suite_runs:
        raise NothingSelected("There is no run of this suite in the store.")
    matching = [run for run in suite_runs if query.target in ("", run.target.name)]
    if not matching:
        raise NothingSelected("There is no run of this suite on this target in the store.")
    now = datetime.now(UTC)
    drift_request = DriftRequest(
        suite=matching[0].suite.digest if query.suite else None,
        target=query.target or None,
        prompt=query.prompt or None,
        since=parse_moment(query.since, now) if query.since else None,
        until=parse_moment(query.until, now, ends=True) if query.until else None,
        baseline=query.baseline or None,
    )
    return DriftQuery(store, project.environ, project.config).find(drift_request)


def _submit_trend(tasks: TaskRunner, project: Project, selection: RunSelection) -> Task[Trend]:
    """Returns the task that reads the runs: one that is running or done, or a new one."""

    def load_trend(on_progress: ProgressCallback) -> Trend:
        with project.open_store() as store:
            report = DriftQuery(store, project.environ, project.config).load(selection, on_progress)
        picture = draw_chart(report)
        return Trend(report=report, light=picture.svg(), dark=picture.svg(dark=True))

    key = ("trends", tuple(encode(run) for run in selection.runs), selection.notes)
    return tasks.submit(key, load_trend, "runs read")


def _trend_page(request: Request, trend: Trend, selection: RunSelection, query: TrendQuery) -> Response:
    report = trend.report
    holdout_run = find_holdout_run(report)
    if holdout_run is not None:
        with get_project(request).open_store() as store:
            get_session(request).record_access(store, holdout_run)
            report = replace(report, looks=len(store.holdout_accesses(holdout_run.suite.digest)))
    answer, *other_sentences = describe_drift(report)
    table = run_table(report.drift)
    return render_page(
        request,
        "trends.html",
        run=report.last_run,
        title=format_series_title(report.last_run),
        answer=answer,
        sentences=other_sentences,
        table=replace(table, rows=table.rows[::-1], caption="Runs, newest first"),
        size=trend.size,
        query=query,
        runs=selection.runs,
        light=url("/trends/chart.svg", **query.parameters),
        dark=url("/trends/chart.svg", **query.parameters, dark=1),
        command=_command(report.last_run, query),
    )


def _command(run: Run, query: TrendQuery) -> str:
    command = ["proctor", "drift", run.suite.digest[:19], "--target", shlex.quote(run.target.name)]
    if run.prompt is not None:
        command += ["--prompt", shlex.quote(run.prompt.name)]
    for flag in ("since", "until", "baseline"):
        if getattr(query, flag):
            command += [f"--{flag}", shlex.quote(getattr(query, flag))]
    return " ".join(command)


# --- choosing ----------------------------------------------------------------------------------------------


def _choose_page(request: Request, store: Store | None, all_runs: Sequence[Run]) -> Response:
    keys = _list_keys(all_runs)
    if len(keys) == 1:
        return RedirectResponse(keys[0].address, 303)
    page = TrendPage() if store is None else _read_page(request, store, keys)
    return render_page(
        request,
        "trends_choose.html",
        page=page,
        answer=_headline(page),
        wrong="",
        query=None,
        any_run=bool(all_runs),
    )


def _refused_page(
    request: Request, store: Store, all_runs: Sequence[Run], query: TrendQuery, error_text: str
) -> Response:
    return render_page(
        request,
        "trends_choose.html",
        400,
        page=_read_page(request, store, _list_keys(all_runs)),
        answer="There is no trend to show",
        wrong=error_text,
        query=query,
        any_run=bool(all_runs),
    )


def _read_page(request: Request, store: Store, keys: Sequence[TrendKey]) -> TrendPage:
    """Returns the trends of one page, with the states that are known within a short time."""
    project, after = get_project(request), request.query_params.get("after", "")
    page_keys, following, before = slice_page(keys, lambda key: key.last.id, after, _PAGE_SIZE)
    states = get_trend_states(project)
    unread = [key.runs for key in page_keys if states.get(key.runs) is None]
    task = submit_states(get_task_runner(request), project, unread) if unread else None
    sparklines = _draw_sparklines(project, store, page_keys)
    if task is not None:
        task.wait(_LIST_TIMEOUT_S)
    entries = [
        TrendEntry(key=key, sparkline=sparkline, state=states.get(key.runs))
        for key, sparkline in zip(page_keys, sparklines, strict=True)
    ]
    return TrendPage(
        entries=entries,
        total=len(keys),
        task=None if task is None or task.has_ended else task,
        following=following,
        before=before,
    )


def _headline(page: TrendPage) -> str:
    if not page.entries:
        return "No target has run the same suite twice yet"
    headline = f"{pluralize(page.total, 'target')} ran a suite more than once"
    states = [entry.state for entry in page.entries if entry.state is not None]
    if len(states) < page.total:
        return headline
    changed = sum(state.word == "changed" for state in states)
    return f"{headline}, {changed or 'none'} changed"


def _draw_sparklines(project: Project, store: Store, keys: Sequence[TrendKey]) -> list[Sparkline | None]:
    """Returns the pass rates of each trend as a line, without those of a holdout alone."""
    shown_runs = [
        [run for run in key.runs[-MAX_RATES:] if run.settings.selection.split != "holdout"] for key in keys
    ]
    totals = project.summaries.read_totals(store, [run for runs in shown_runs for run in runs])
    sparklines = []
    for runs in shown_runs:
        counted_runs = [totals[run.id].tally.result_counts for run in runs if run.id in totals]
        rates: list[Rate] = [
            (counts.pass_rate, counts.ci95)
            for counts in counted_runs
            if counts.pass_rate is not None and counts.ci95 is not None
        ]
        sparklines.append(draw_sparkline(rates) if len(counted_runs) == len(runs) else None)
    return sparklines


def _list_keys(all_runs: Sequence[Run]) -> list[TrendKey]:
    """Returns every suite, target and prompt with at least two comparable runs, newest first."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in reversed(all_runs):  # of two that started at once, the one stored later is later
        if run.status == "finished" and run.regrade_of is None and run.imported is None:
            groups.setdefault((run.suite.digest, call_digest(run.target, run.prompt)), []).append(run)
    keys = [
        TrendKey(runs=tuple(sorted(runs, key=lambda run: run.started_at)))
        for runs in groups.values()
        if len(runs) > 1
    ]
    return sorted(keys, key=lambda key: key.last.started_at, reverse=True)
