"""The list of runs: filtered, sorted and paged."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from proctor.model import Run
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.reports.formatting import costs
from proctor.services.runs.reading.current_status import iter_current_status
from proctor.services.runs.reading.grid import MAX_GRID_RUNS
from proctor.services.runs.reading.listing import summarize_run
from proctor.services.runs.reading.totals import RunTotals
from proctor.verdicts import Counts
from proctor.web.pages.compare import MAX_COMPARED_RUNS
from proctor.web.paging import slice_page
from proctor.web.project import Project, get_project
from proctor.web.runs.scatter import PricedRun, Scatter, draw_scatter
from proctor.web.templates_env import render_page, url
from proctor.web.trial_filters import FilterChip, toggle_sort

router = APIRouter()

_PAGE_SIZE = 50
_STATUSES = ("running", "finished", "interrupted")
_FILTERS = ("suite", "target", "prompt", "status", "tag", "text")
_CHIP_PREFIXES = {
    "suite": "suite ",
    "target": "on ",
    "prompt": "prompt ",
    "status": "",
    "tag": "tag ",
    "text": "with ",
}
_MAX_WORD_LENGTH = 1000
"""Characters of one word that are read."""


class RunEntry(Struct, frozen=True, kw_only=True):
    """A run in the list."""

    run: Run
    status: str
    counts: Counts
    is_sealed: bool
    """Whether its pass rate is hidden, as it would be that of the holdout alone."""
    done_count: int
    cost: str
    target_usd: float | None
    """The cost without judges; None if it is not known."""
    tags: tuple[str, ...]


class RunBlock(Struct, frozen=True, kw_only=True):
    """Consecutive entries of the list whose runs one command started together."""

    entries: tuple[RunEntry, ...]
    title: str = ""
    """What they are, `tickets v1 · 2 prompts × 3 targets`; empty for a single run and for several suites."""
    compare_address: str = ""
    """Where they are compared; empty if one page cannot."""
    grid_address: str = ""
    """Where their answers are side by side; empty if one page cannot show them."""


class RunScatter(Struct, frozen=True, kw_only=True):
    """The runs of one version of a suite on a drawing."""

    suite_title: str
    count: int
    drawing: Scatter


class RunListQuery(Struct, frozen=True, kw_only=True):
    """The filter and order of the list."""

    suite: str = ""
    target: str = ""
    prompt: str = ""
    status: str = ""
    tag: str = ""
    text: str = ""
    sort: str = "-started"
    after: str = ""

    def parameters(self) -> dict[str, str]:
        """Returns filter and order as parameters of further addresses."""
        parameters = {name: getattr(self, name) for name in _FILTERS}
        return {**parameters, "sort": "" if self.sort == "-started" else self.sort}

    @property
    def is_narrowed(self) -> bool:
        """Whether it filters anything."""
        return any(getattr(self, name) for name in _FILTERS)


@router.get("/runs")
def list_runs(request: Request) -> Response:
    """Lists the matching runs, newest first by default."""
    project, query = get_project(request), _parse_query(request)
    if not project.location.exists():  # showing an empty list creates no store
        return render_page(
            request,
            "runs.html",
            blocks=[],
            scatter=None,
            answer=_headline([], [], query),
            following="",
            before=False,
            total=0,
            **_filter_values([], query),
        )
    with project.open_store() as store:
        all_runs = list(iter_current_status(store, store.runs()))
        matching = [run for run in all_runs if _matches(run, query)]
        totals = _sort_runs(project, store, matching, query.sort)
        page_runs, following, before = slice_page(matching, lambda run: run.id, query.after, _PAGE_SIZE)
        totals |= project.summaries.read_totals(store, [run for run in page_runs if run.id not in totals])
        entries = [_make_entry(store, run, totals.get(run.id)) for run in page_runs]
    return render_page(
        request,
        "runs.html",
        blocks=_make_blocks(entries, all_runs),
        scatter=_make_scatter(entries),
        answer=_headline(all_runs, matching, query),
        following=following,
        before=before,
        total=len(all_runs),
        **_filter_values(all_runs, query),
    )


def _filter_values(all_runs: Sequence[Run], query: RunListQuery) -> dict[str, Any]:
    """Returns the filter choices and the current filter."""
    return {
        "query": query,
        "suites": sorted({run.suite.name for run in all_runs}),
        "targets": sorted({run.target.name for run in all_runs}),
        "prompts": sorted({run.prompt.name for run in all_runs if run.prompt}),
        "statuses": _STATUSES,
        "tags": sorted({tag for run in all_runs for tag in run.tags}),
        "chips": _filter_chips(query),
        "sorted_by": lambda name: _sort_link(query, name),
        "command": _command(query),
    }


def _parse_query(request: Request) -> RunListQuery:
    query = request.query_params
    filters = {name: query.get(name, "")[:_MAX_WORD_LENGTH].strip() for name in _FILTERS}
    sort = query.get("sort", "")
    is_known = sort.removeprefix("-") in _SORTS
    return RunListQuery(**filters, sort=sort if is_known else "-started", after=query.get("after", ""))


def _matches(run: Run, query: RunListQuery) -> bool:
    if query.suite and run.suite.name != query.suite:
        return False
    if query.target and run.target.name != query.target:
        return False
    if query.prompt and (run.prompt is None or run.prompt.name != query.prompt):
        return False
    if query.status and run.status != query.status:
        return False
    if query.tag and query.tag not in run.tags:
        return False
    if not query.text:
        return True
    prompt = run.prompt.name if run.prompt else ""
    searched_texts = (run.id, run.suite.title, run.target.name, run.target.model, prompt, *run.tags)
    return any(query.text.casefold() in searched_text.casefold() for searched_text in searched_texts)


# --- order -------------------------------------------------------------------------------------------------


def _by_rate(run: Run, totals: RunTotals | None) -> float:
    """Sort key by pass rate; runs without a rate or with a hidden one come last."""
    if totals is None or run.settings.selection.split == "holdout":
        return -1.0
    rate = totals.tally.result_counts.pass_rate
    return -1.0 if rate is None else rate


_SORTS: dict[str, Callable[[Run], str] | None] = {
    "started": None,
    "suite": lambda run: run.suite.name.casefold(),
    "target": lambda run: run.target.name.casefold(),
    "prompt": lambda run: run.prompt.name.casefold() if run.prompt else "",
    "rate": None,
}
_DOWN_FIRST = frozenset({"started", "rate"})
"""Columns that are sorted in descending order first."""


def _sort_runs(project: Project, store: Store, matching: list[Run], sort: str) -> dict[str, RunTotals]:
    """Sorts the runs in place; returns the totals that it needed for all of them."""
    name, descending = sort.removeprefix("-"), sort.startswith("-")
    totals: dict[str, RunTotals] = {}
    key = _SORTS[name]
    if name == "started":
        if not descending:
            matching.reverse()
    elif key is not None:
        matching.sort(key=key, reverse=descending)
    else:
        totals = project.summaries.read_totals(store, matching)
        matching.sort(key=lambda run: _by_rate(run, totals.get(run.id)), reverse=descending)
    return totals


def _sort_link(query: RunListQuery, name: str) -> tuple[str, str]:
    """Returns the address that sorts by a column or reverses the order, and the current direction."""
    sort_key, direction = toggle_sort(query.sort, name, _DOWN_FIRST)
    parameters = query.parameters() | {"sort": "" if sort_key == "-started" else sort_key}
    return url("/runs", **parameters), direction


# --- texts -------------------------------------------------------------------------------------------------


def _filter_chips(query: RunListQuery) -> list[FilterChip]:
    chips = []
    for name in _FILTERS:
        value = getattr(query, name)
        if value:
            text = f"“{value}”" if name == "text" else value
            chips.append(
                FilterChip(f"{_CHIP_PREFIXES[name]}{text}", url("/runs", **query.parameters() | {name: ""}))
            )
    return chips


def _headline(all_runs: Sequence[Run], matching: Sequence[Run], query: RunListQuery) -> str:
    if not all_runs:
        return "No runs yet"
    running = sum(run.status == "running" for run in matching)
    suffix = f"; {running:,} {'is' if running == 1 else 'are'} running" if running else ""
    if query.is_narrowed:
        verb = "fits" if len(matching) == 1 else "fit"
        return f"{len(matching):,} of {pluralize(len(all_runs), 'run')} {verb}{suffix}"
    suites = {run.suite.name for run in all_runs}
    return f"{pluralize(len(all_runs), 'run')} of {pluralize(len(suites), 'suite')}{suffix}"


def _command(query: RunListQuery) -> str:
    line = "proctor runs list"
    for name in ("suite", "prompt", "tag"):
        if value := getattr(query, name):
            line += f" --{name} {shlex.quote(value)}"
    return line


def _make_entry(store: Store, run: Run, totals: RunTotals | None) -> RunEntry:
    is_sealed = run.settings.selection.split == "holdout"
    if totals is None:  # not counted yet
        listed_run = summarize_run(store, run)
        counts, done_count, cost, usd = listed_run.counts, listed_run.verdict_count, "", None
    else:
        tally, judges = totals.tally, totals.tally.judge_usage
        counts, done_count = tally.result_counts, tally.all.total
        usd = tally.target_cost_usd
        cost = costs(usd, judges.cost_usd, judges.calls) if done_count else ""
    return RunEntry(
        run=run,
        status=run.status,
        counts=counts,
        is_sealed=is_sealed,
        done_count=done_count,
        cost=cost,
        target_usd=usd,
        tags=run.tags,
    )


def _make_blocks(entries: Sequence[RunEntry], all_runs: Sequence[Run]) -> list[RunBlock]:
    """Returns the entries in blocks of the runs of one command."""
    sizes = Counter(run.group for run in all_runs)
    blocks = []
    for group, members in groupby(entries, lambda entry: entry.run.group):
        block = tuple(members)
        runs = sorted((entry.run for entry in block[::-1]), key=lambda run: run.started_at)
        has_one_suite = len({run.suite.digest for run in runs}) == 1
        if len(runs) == 1 or not has_one_suite:
            blocks.append(RunBlock(entries=block))
            continue
        ids = [run.id for run in runs]
        is_whole = sizes[group] == len(runs) and not any(run.imported for run in runs)
        grid_address = url("/grid", group=group) if is_whole else url("/grid", run=ids)
        blocks.append(
            RunBlock(
                entries=block,
                title=f"{runs[0].suite.title} · {_describe_axes(runs)}",
                compare_address=url("/compare", run=ids) if len(runs) <= MAX_COMPARED_RUNS else "",
                grid_address=grid_address if len(runs) <= MAX_GRID_RUNS else "",
            )
        )
    return blocks


def _describe_axes(runs: Sequence[Run]) -> str:
    """Returns what runs differ in, `2 prompts × 3 targets`; their number if there are more or fewer."""
    prompts, targets = {run.prompt_name for run in runs}, {run.target.name for run in runs}
    if len(prompts) * len(targets) != len(runs) or (None in prompts and len(prompts) > 1):
        return pluralize(len(runs), "run")
    axes = ((len(prompts), "prompt"), (len(targets), "target"))
    return " × ".join(pluralize(count, name) for count, name in axes if count > 1)


def _make_scatter(entries: Sequence[RunEntry]) -> RunScatter | None:
    """Returns the finished runs of the version of a suite that ran last, if at least two have a cost."""
    newest = max((entry.run for entry in entries), key=lambda run: run.started_at, default=None)
    if newest is None:
        return None
    runs = [
        PricedRun(run=entry.run, usd=entry.target_usd, rate=entry.counts.pass_rate, ci95=entry.counts.ci95)
        for entry in entries
        if entry.run.suite.digest == newest.suite.digest
        and entry.run.status == "finished"
        and not entry.is_sealed
        and entry.target_usd is not None
        and entry.counts.pass_rate is not None
        and entry.counts.ci95 is not None
    ]
    drawing = draw_scatter(runs)
    if drawing is None:
        return None
    return RunScatter(suite_title=newest.suite.title, count=len(runs), drawing=drawing)
