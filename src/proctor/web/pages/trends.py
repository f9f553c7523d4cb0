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

from proctor.codec import encode, target_digest
from proctor.errors import NothingSelected, ProctorError, StoreError, UsageError
from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.drift.chart import draw_chart
from proctor.reports.drift.report import DriftReport, describe_drift, run_table
from proctor.services.analysis.drift import (
    DriftQuery,
    DriftRequest,
    RunSelection,
    find_holdout_run,
    parse_moment,
)
from proctor.web.browser_sessions import get_session
from proctor.web.project import Project, get_project
from proctor.web.tasks import ProgressCallback, Task, TaskRunner, get_task_runner, stream_reading
from proctor.web.templates_env import PageNotFound, render_page, url

router = APIRouter()

_TIMEOUT_S = 1.0
"""What is read within this time is shown at once."""
_CHART_TIMEOUT_S = 60.0
"""How long the chart waits for the task that the page has started."""
_SIZE = re.compile(r'<svg\b[^>]*?\bwidth="([\d.]+)"[^>]*?\bheight="([\d.]+)"')


class TrendKey(Struct, frozen=True, kw_only=True):
    """A suite and a target with their runs."""

    suite: str
    target: str
    digest: str
    count: int
    first: datetime
    last: datetime

    @property
    def address(self) -> str:
        """The address of its trend."""
        return url("/trends", suite=self.digest, target=self.target)


class TrendQuery(Struct, frozen=True, kw_only=True):
    """The parameters of the address as texts; empty if absent."""

    suite: str = ""
    target: str = ""
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
def show_trend(
    request: Request, suite: str = "", target: str = "", since: str = "", until: str = "", baseline: str = ""
) -> Response:
    """Shows a trend, or lists targets to choose from."""
    query = TrendQuery(suite=suite, target=target, since=since, until=until, baseline=baseline)
    project = get_project(request)
    if not project.location.exists():  # showing an empty list creates no store
        return _choose_page(request, ())
    with project.open_store() as store:
        all_runs = list(store.runs())
        if not (suite or target):
            return _choose_page(request, all_runs)
        try:
            selection = _find_runs(store, project, all_runs, query)
        except (NothingSelected, UsageError, StoreError) as error:
            return _refused_page(request, all_runs, query, str(error))
    task = _submit_trend(get_task_runner(request), project, selection)
    if not task.wait(_TIMEOUT_S):
        return render_page(request, "trends_reading.html", task=task, count=len(selection.runs))
    try:
        trend = task.result()
    except ProctorError as error:
        return _refused_page(request, all_runs, query, str(error))
    return _trend_page(request, trend, selection, query)


@router.get("/trends/chart.svg")
def send_chart(
    request: Request,
    suite: str = "",
    target: str = "",
    since: str = "",
    until: str = "",
    baseline: str = "",
    dark: bool = False,
) -> Response:
    """Sends the chart of a trend."""
    query = TrendQuery(suite=suite, target=target, since=since, until=until, baseline=baseline)
    project = get_project(request)
    with project.open_store() as store:
        selection = _find_runs(store, project, list(store.runs()), query)
    task = _submit_trend(get_task_runner(request), project, selection)
    if not task.wait(_CHART_TIMEOUT_S):
        raise PageNotFound("This picture is still being drawn.")
    trend = task.result()
    headers = {"cache-control": "private, max-age=60"}
    return Response(trend.dark if dark else trend.light, media_type="image/svg+xml", headers=headers)


@router.get("/trends/events")
def stream_progress(request: Request, task: str) -> Response:
    """Streams the progress of a trend."""
    return stream_reading(request, task)


def _find_runs(store: Store, project: Project, all_runs: Sequence[Run], query: TrendQuery) -> RunSelection:
    """Returns the runs of a query; suite and target are looked up only among stored runs."""
    suite_runs = [
        run for run in all_runs if query.suite in ("", run.suite.digest, run.suite.name, run.suite.title)
    ]
    if not suite_runs:
        raise NothingSelected("No run of this suite is stored.")
    matching = [run for run in suite_runs if query.target in ("", run.target.name)]
    if not matching:
        raise NothingSelected("No run of this suite on this target is stored.")
    now = datetime.now(UTC)
    drift_request = DriftRequest(
        suite=matching[0].suite.digest if query.suite else None,
        target=query.target or None,
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
        answer=answer,
        sentences=other_sentences,
        table=replace(table, rows=table.rows[::-1], caption="Each run, the newest first"),
        size=trend.size,
        query=query,
        runs=selection.runs,
        light=url("/trends/chart.svg", **query.parameters),
        dark=url("/trends/chart.svg", **query.parameters, dark=1),
        command=_command(report.last_run, query),
    )


def _command(run: Run, query: TrendQuery) -> str:
    command = ["proctor", "drift", run.suite.digest[:19], "--target", shlex.quote(run.target.name)]
    for flag in ("since", "until", "baseline"):
        if getattr(query, flag):
            command += [f"--{flag}", shlex.quote(getattr(query, flag))]
    return " ".join(command)


# --- choosing ----------------------------------------------------------------------------------------------


def _choose_page(request: Request, all_runs: Sequence[Run]) -> Response:
    keys = _list_keys(all_runs)
    if len(keys) == 1:
        return RedirectResponse(keys[0].address, 303)
    return render_page(
        request, "trends_choose.html", pairs=keys, wrong="", query=None, any_run=bool(all_runs)
    )


def _refused_page(request: Request, all_runs: Sequence[Run], query: TrendQuery, error_text: str) -> Response:
    keys = _list_keys(all_runs)
    return render_page(
        request, "trends_choose.html", 400, pairs=keys, wrong=error_text, query=query, any_run=bool(all_runs)
    )


def _list_keys(all_runs: Sequence[Run]) -> list[TrendKey]:
    """Returns every suite and target with at least two comparable runs, newest first."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in all_runs:
        if run.status == "finished" and run.regrade_of is None and run.imported is None:
            groups.setdefault((run.suite.digest, target_digest(run.target)), []).append(run)
    return [
        TrendKey(
            suite=runs[0].suite.title,
            target=runs[0].target.name,
            digest=runs[0].suite.digest,
            count=len(runs),
            first=min(run.started_at for run in runs),
            last=max(run.started_at for run in runs),
        )
        for runs in groups.values()
        if len(runs) > 1
    ]
