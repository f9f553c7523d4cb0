"""The list of runs: filtered, sorted and in pages, from what the catalogue has counted."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from proctor.model import Run
from proctor.plurals import counted
from proctor.protocols import Store
from proctor.reports.formatting import costs
from proctor.reports.runs.serialize import counts_row
from proctor.services.runs.reading.catalogue_sync import Looked
from proctor.services.runs.reading.listing import listed
from proctor.web.project import Site, site_of
from proctor.web.templates_env import page, url
from proctor.web.trial_filters import Chip

router = APIRouter()

_AT_ONCE = 50
_STATUSES = ("running", "finished", "interrupted")
_FILTERS = ("suite", "target", "status", "tag", "text")
_SAID = {"suite": "suite ", "target": "on ", "status": "", "tag": "tag ", "text": "with "}
_LONGEST = 1000
"""Letters of one word that are looked at."""


class Entry(Struct, frozen=True, kw_only=True):
    """One run as the list has it."""

    run: Run
    status: str
    counts: dict[str, Any]
    measured: dict[str, Any]
    """The same without what is ERROR or UNSCORED."""
    sealed: bool
    """Its pass rate would be that of its holdout alone, and a list is no look."""
    done: int
    cost: str
    tags: tuple[str, ...]


class Asked(Struct, frozen=True, kw_only=True):
    """What an address of the list says."""

    suite: str = ""
    target: str = ""
    status: str = ""
    tag: str = ""
    text: str = ""
    sort: str = "-started"
    after: str = ""

    def query(self) -> dict[str, str]:
        """Filter and order for other addresses of the list."""
        words = {name: getattr(self, name) for name in _FILTERS}
        return {**words, "sort": "" if self.sort == "-started" else self.sort}

    @property
    def narrows(self) -> bool:
        """It leaves any run out."""
        return any(getattr(self, name) for name in _FILTERS)


@router.get("/runs")
def runs(request: Request) -> Response:
    """The runs that fit, newest first or as the address says."""
    site, asked = site_of(request), _asked(request)
    if not site.location.exists():  # looking at nothing makes nothing
        return page(request, "runs.html", **_empty(asked))
    with site.store() as store:
        every = list(store.runs())
        site.cataloguer.tidy([run.id for run in every])
        alive = {run.id for run in every if run.status == "running" and store.claimed(run.id)}
        fitting = [run for run in every if _fits(run, asked, alive)]
        known = _ordered(site, store, fitting, asked.sort)
        shown, following, before = _page_of(fitting, asked.after)
        known |= site.cataloguer.summaries(store, [run for run in shown if run.id not in known])
        entries = [_entry(store, run, known.get(run.id), alive) for run in shown]
    return page(
        request,
        "runs.html",
        entries=entries,
        answer=_answer(every, fitting, alive, asked),
        following=following,
        before=before,
        total=len(every),
        **_state(every, asked),
    )


def _empty(asked: Asked) -> dict[str, Any]:
    nothing = {"entries": [], "answer": _answer([], [], set(), asked), "following": "", "before": False}
    return {**nothing, "total": 0, **_state([], asked)}


def _state(every: Sequence[Run], asked: Asked) -> dict[str, Any]:
    """What the filters offer, and what is chosen of it."""
    return {
        "asked": asked,
        "suites": sorted({run.suite.name for run in every}),
        "targets": sorted({run.target.name for run in every}),
        "statuses": _STATUSES,
        "tags": sorted({tag for run in every for tag in run.tags}),
        "chips": _chips(asked),
        "sorted_by": lambda name: _sorted_by(asked, name),
        "command": _command(asked),
    }


def _asked(request: Request) -> Asked:
    query = request.query_params
    words = {name: query.get(name, "")[:_LONGEST].strip() for name in _FILTERS}
    sort = query.get("sort", "")
    known = sort.removeprefix("-") in _SORTS
    return Asked(**words, sort=sort if known else "-started", after=query.get("after", ""))


def _fits(run: Run, asked: Asked, alive: set[str]) -> bool:
    if asked.suite and run.suite.name != asked.suite:
        return False
    if asked.target and run.target.name != asked.target:
        return False
    if asked.status and _status(run, alive) != asked.status:
        return False
    if asked.tag and asked.tag not in run.tags:
        return False
    if not asked.text:
        return True
    words = (run.id, run.suite.title, run.target.name, run.target.model, *run.tags)
    return any(asked.text.casefold() in word.casefold() for word in words)


def _status(run: Run, alive: set[str]) -> str:
    return "interrupted" if run.status == "running" and run.id not in alive else run.status


# --- order -------------------------------------------------------------------------------------------------


def _by_rate(one: Looked | None) -> float:
    """What a run is sorted by; one without a rate, or whose rate is sealed, comes last."""
    if one is None or one.run.settings.selection.split == "holdout":
        return -1.0
    return -1.0 if one.counts.pass_rate is None else one.counts.pass_rate


_SORTS: dict[str, Callable[[Run], str] | None] = {
    "started": None,
    "suite": lambda run: run.suite.name.casefold(),
    "target": lambda run: run.target.name.casefold(),
    "rate": None,
}
_DOWN_FIRST = frozenset({"started", "rate"})
"""What one wants to see from above."""


def _ordered(site: Site, store: Store, fitting: list[Run], sort: str) -> dict[str, Looked]:
    """Put the runs, which are newest first, in order; what had to be known of all of them comes back."""
    name, down = sort.removeprefix("-"), sort.startswith("-")
    known: dict[str, Looked] = {}
    key = _SORTS[name]
    if name == "started":
        if not down:
            fitting.reverse()
    elif key is not None:
        fitting.sort(key=key, reverse=down)
    else:
        known = site.cataloguer.summaries(store, fitting)
        fitting.sort(key=lambda run: _by_rate(known.get(run.id)), reverse=down)
    return known


def _page_of(fitting: list[Run], after: str) -> tuple[list[Run], str, bool]:
    """One page: its runs, the id after which the next page begins, and whether there is one before."""
    ids = [run.id for run in fitting]
    begin = ids.index(after) + 1 if after in ids else 0
    shown = fitting[begin : begin + _AT_ONCE]
    more = begin + _AT_ONCE < len(fitting)
    return shown, shown[-1].id if more else "", begin > 0


def _sorted_by(asked: Asked, name: str) -> tuple[str, str]:
    """The address that sorts by a column, or turns its order around, and how it is sorted now."""
    on = asked.sort.removeprefix("-") == name
    down = asked.sort.startswith("-") if on else name not in _DOWN_FIRST
    said = "" if not on else "descending" if down else "ascending"
    word = name if down else f"-{name}"
    return url("/runs", **asked.query() | {"sort": "" if word == "-started" else word}), said


# --- words -------------------------------------------------------------------------------------------------


def _chips(asked: Asked) -> list[Chip]:
    found = []
    for name in _FILTERS:
        word = getattr(asked, name)
        if word:
            said = f"“{word}”" if name == "text" else word
            found.append(Chip(f"{_SAID[name]}{said}", url("/runs", **asked.query() | {name: ""})))
    return found


def _answer(every: Sequence[Run], fitting: Sequence[Run], alive: set[str], asked: Asked) -> str:
    if not every:
        return "Nothing was run yet"
    making = sum(run.id in alive for run in fitting)
    made = f"; {making:,} {'is' if making == 1 else 'are'} being made" if making else ""
    if asked.narrows:
        return (
            f"{len(fitting):,} of {counted(len(every), 'run')} {'fits' if len(fitting) == 1 else 'fit'}{made}"
        )
    suites = {run.suite.name for run in every}
    return f"{counted(len(every), 'run')} of {counted(len(suites), 'suite')}{made}"


def _command(asked: Asked) -> str:
    line = "proctor runs list"
    for name in ("suite", "tag"):
        if word := getattr(asked, name):
            line += f" --{name} {shlex.quote(word)}"
    return line


def _entry(store: Store, run: Run, looked: Looked | None, alive: set[str]) -> Entry:
    sealed = run.settings.selection.split == "holdout"
    if looked is None:  # not catalogued yet
        one = listed(store, run)
        counts, done, cost = one.counts, one.there, ""
    else:
        counts, done = looked.counts, looked.done
        judge = looked.summary["judge"]
        cost = costs(looked.summary["cost_usd"], judge["cost_usd"], judge["calls"]) if done else ""
    return Entry(
        run=run,
        status=_status(run, alive),
        counts=counts_row(counts),
        measured=counts_row(counts.measured),
        sealed=sealed,
        done=done,
        cost=cost,
        tags=run.tags,
    )
