"""What became of a target over time: its stored runs of a suite in one sentence, a chart and a table."""

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
from proctor.reports.drift.chart import chart
from proctor.reports.drift.text import COLUMNS, Drifted, rows, sentences
from proctor.services.analysis.drift import Drifting, Found, Wanted, held_out, moment
from proctor.web.browser_sessions import visitor_of
from proctor.web.project import Site, site_of
from proctor.web.tasks import Desk, Task, Told, desk_of, followed
from proctor.web.templates_env import NotThere, page, part, url

router = APIRouter()

_PATIENCE_S = 1.0
"""What is read within this time is shown at once."""
_DRAWN_S = 60.0
"""So long a picture is waited for, which the page before it has asked for already."""
_SIZE = re.compile(r'<svg\b[^>]*?\bwidth="([\d.]+)"[^>]*?\bheight="([\d.]+)"')


class Pair(Struct, frozen=True, kw_only=True):
    """A suite and a target with their runs."""

    suite: str
    target: str
    digest: str
    count: int
    first: datetime
    last: datetime

    @property
    def address(self) -> str:
        """Where its trend is shown."""
        return url("/trends", suite=self.digest, target=self.target)


class Given(Struct, frozen=True, kw_only=True):
    """What the address says; each word as it was written, and empty where it says nothing."""

    suite: str = ""
    target: str = ""
    since: str = ""
    until: str = ""
    baseline: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The words for another address."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


class Trend(Struct, frozen=True, kw_only=True):
    """What the runs show, with its picture."""

    drifted: Drifted
    """Without looks."""
    light: str
    dark: str

    @property
    def size(self) -> tuple[int, int] | None:
        """The width and height of the picture."""
        found = _SIZE.search(self.light)
        return None if found is None else (round(float(found[1])), round(float(found[2])))


@router.get("/trends")
def trends(
    request: Request, suite: str = "", target: str = "", since: str = "", until: str = "", baseline: str = ""
) -> Response:
    """What became of a target over time, or a choice of targets."""
    given = Given(suite=suite, target=target, since=since, until=until, baseline=baseline)
    site = site_of(request)
    if not site.location.exists():  # looking at nothing makes nothing
        return _choice(request, ())
    with site.store() as store:
        stored = list(store.runs())
        if not (suite or target):
            return _choice(request, stored)
        try:
            found = _found(store, site, stored, given)
        except (NothingSelected, UsageError, StoreError) as error:
            return _refused(request, stored, given, str(error))
    task = _asked(desk_of(request), site, found)
    if not task.wait(_PATIENCE_S):
        return page(request, "trends_reading.html", task=task, count=len(found.runs))
    try:
        trend = task.result()
    except ProctorError as error:
        return _refused(request, stored, given, str(error))
    return _shown(request, trend, found, given)


@router.get("/trends/chart.svg")
def trend_chart(
    request: Request,
    suite: str = "",
    target: str = "",
    since: str = "",
    until: str = "",
    baseline: str = "",
    dark: bool = False,
) -> Response:
    """The same as a picture."""
    given = Given(suite=suite, target=target, since=since, until=until, baseline=baseline)
    site = site_of(request)
    with site.store() as store:
        found = _found(store, site, list(store.runs()), given)
    task = _asked(desk_of(request), site, found)
    if not task.wait(_DRAWN_S):
        raise NotThere("This picture is still being drawn.")
    trend = task.result()
    headers = {"cache-control": "private, max-age=60"}
    return Response(trend.dark if dark else trend.light, media_type="image/svg+xml", headers=headers)


@router.get("/trends/events")
def trend_events(request: Request, task: str) -> Response:
    """How far the reading of runs is."""
    return followed(desk_of(request), task, lambda one: part(request, "reading_section.html", task=one))


def _found(store: Store, site: Site, stored: Sequence[Run], given: Given) -> Found:
    """The runs that are meant; suite and target are looked up among those that were run, and nowhere else."""
    named = [run for run in stored if given.suite in ("", run.suite.digest, run.suite.name, run.suite.title)]
    if not named:
        raise NothingSelected("No run of this suite is stored.")
    fitting = [run for run in named if given.target in ("", run.target.name)]
    if not fitting:
        raise NothingSelected("No run of this suite on this target is stored.")
    now = datetime.now(UTC)
    wanted = Wanted(
        suite=fitting[0].suite.digest if given.suite else None,
        target=given.target or None,
        since=moment(given.since, now) if given.since else None,
        until=moment(given.until, now, ends=True) if given.until else None,
        baseline=given.baseline or None,
    )
    return Drifting(store, site.environ, site.config).find(wanted)


def _asked(desk: Desk, site: Site, found: Found) -> Task[Trend]:
    """The task that reads the runs: one that is under way or done, or a new one."""

    def make(told: Told) -> Trend:
        with site.store() as store:
            drifted = Drifting(store, site.environ, site.config).gathered(found, told)
        drawn = chart(drifted)
        return Trend(drifted=drifted, light=drawn.svg(), dark=drawn.svg(dark=True))

    key = ("trends", tuple(encode(run) for run in found.runs), found.notes)
    return desk.ask(key, make, "runs read")


def _shown(request: Request, trend: Trend, found: Found, given: Given) -> Response:
    drifted = trend.drifted
    shown = held_out(drifted)
    if shown is not None:
        with site_of(request).store() as store:
            visitor_of(request).looks_at(store, shown)
            drifted = replace(drifted, looks=len(store.looks(shown.suite.digest)))
    answer, *rest = sentences(drifted)
    return page(
        request,
        "trends.html",
        run=drifted.last,
        answer=answer,
        sentences=rest,
        columns=COLUMNS,
        rows=list(rows(drifted.drift))[::-1],
        size=trend.size,
        given=given,
        runs=found.runs,
        light=url("/trends/chart.svg", **given.query),
        dark=url("/trends/chart.svg", **given.query, dark=1),
        command=_command(drifted.last, given),
    )


def _command(run: Run, given: Given) -> str:
    words = ["proctor", "drift", run.suite.digest[:19], "--target", shlex.quote(run.target.name)]
    for flag in ("since", "until", "baseline"):
        if getattr(given, flag):
            words += [f"--{flag}", shlex.quote(getattr(given, flag))]
    return " ".join(words)


# --- choosing ----------------------------------------------------------------------------------------------


def _choice(request: Request, stored: Sequence[Run]) -> Response:
    pairs = _pairs(stored)
    if len(pairs) == 1:
        return RedirectResponse(pairs[0].address, 303)
    return page(request, "trends_choose.html", pairs=pairs, wrong="", given=None, any_run=bool(stored))


def _refused(request: Request, stored: Sequence[Run], given: Given, why: str) -> Response:
    pairs = _pairs(stored)
    return page(request, "trends_choose.html", 400, pairs=pairs, wrong=why, given=given, any_run=bool(stored))


def _pairs(stored: Sequence[Run]) -> list[Pair]:
    """Every suite and target with two runs that can be held against each other, the newest first."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in stored:
        if run.status == "finished" and run.regrade_of is None and run.imported is None:
            groups.setdefault((run.suite.digest, target_digest(run.target)), []).append(run)
    return [
        Pair(
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
