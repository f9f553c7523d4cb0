"""The page Compare: two or more runs with the verdict in a sentence, its evidence and the flipped cases."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal

from fastapi import APIRouter, Query
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.comparison.compare import Comparison, GroupBy, UnmeasuredOutcome, VerdictFlip
from proctor.comparison.outcomes import SplitName
from proctor.errors import ProctorError, StoreError, UsageError
from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.comparison import sentences
from proctor.reports.comparison.grid import grid_blocks, headline
from proctor.reports.comparison.headlines import format_short_name, pair_headline, ranking_headline
from proctor.reports.comparison.prompt_diff import group_prompt_blocks, prompt_diff_blocks
from proctor.reports.comparison.report import (
    ComparisonReport,
    difference_table,
    document_for,
    measure_facts,
    rank_text,
    ranking_notes,
)
from proctor.reports.document import render_markdown
from proctor.reports.runs.listing import RunListEntry
from proctor.services.analysis import compare as comparing
from proctor.services.analysis.compare import DifferentSuites
from proctor.services.runs.reading.listing import RunFilter, find_runs, summarize_run
from proctor.services.runs.reading.totals import RunTotals
from proctor.web.browser_sessions import get_session
from proctor.web.comparison_tasks import ComparisonQuery, ComparisonResult, select_flips, submit_comparison
from proctor.web.pages import compare_answers
from proctor.web.project import get_project
from proctor.web.tasks import get_task_runner, stream_reading
from proctor.web.templates_env import render_page, url

router = APIRouter()
router.include_router(compare_answers.router)

RunIds = Query(default_factory=list)
_TIMEOUT_S = 0.6
"""What is read within this time is shown at once."""
MAX_COMPARED_RUNS = 12
"""Runs that one page compares."""
_MAX_CANDIDATES = 60
"""Number of newest runs to choose from."""
_DEFAULT_FLIPS = 100
"""Cases listed of each kind, unless the address asks for more."""
_MAX_FLIPS = 2_000
"""Maximum number of cases listed of each kind."""


class FlipTable(Struct, frozen=True):
    """A table of cases whose verdict differs between the runs."""

    name: str
    title: str
    rows: Sequence[VerdictFlip | UnmeasuredOutcome]
    total: int

    @property
    def next_limit(self) -> int:
        """Number of cases on the page that lists more of them; 0 if there is none."""
        limit = min(self.total, _MAX_FLIPS)
        return limit if len(self.rows) < limit else 0


_FLIP_KINDS = (
    ("broken", "Broken: only the baseline passed"),
    ("fixed", "Fixed: only the candidate passed"),
    ("other", "Not measured: ERROR or UNSCORED in a run, so not in the numbers above"),
)


@router.get("/compare")
def compare(
    request: Request,
    run: list[str] = RunIds,
    split: SplitName = "all",
    by: GroupBy | None = None,
    by_digest: bool = False,
    flips: int = Query(_DEFAULT_FLIPS, ge=0, le=100_000),
    order: Literal["given", "time"] = "given",
) -> Response:
    """Compares runs, or lists runs to choose from."""
    run_ids = [run_id for run_id in run if run_id]
    if not run_ids or not get_project(request).location.exists():
        return _choose_page(request)
    try:
        with get_project(request).open_store() as store:
            runs = _find_runs(store, run_ids)
    except (UsageError, StoreError) as error:
        return _choose_page(request, error=str(error), selected_ids=run_ids)
    if order == "time":
        runs.sort(key=lambda stored_run: stored_run.started_at)
    ids = [stored_run.id for stored_run in runs]
    state = _query_state(split, by, by_digest=by_digest)
    if ids != run_ids or order == "time":
        return RedirectResponse(url("/compare", run=ids, **state), 303)
    query = ComparisonQuery(runs=tuple(runs), split=split, by=by, by_digest=by_digest)
    task = submit_comparison(get_task_runner(request), get_project(request), query)
    if not task.wait(_TIMEOUT_S):
        return render_page(request, "compare_reading.html", task=task, runs=runs, back=_choose_url(runs))
    try:
        result = task.result()
    except DifferentSuites as error:
        alike = url("/compare", run=ids, **_query_state(split, by, by_digest=True))
        return render_page(request, "compare_refused.html", 400, why=error.why, alike=alike, runs=runs)
    except ProctorError as error:
        return render_page(request, "compare_refused.html", 400, why=str(error), alike=None, runs=runs)
    return _comparison_page(request, query, state, result, flips)


@router.get("/compare/events")
def stream_progress(request: Request, task: str) -> Response:
    """Streams the progress of a comparison."""
    return stream_reading(request, task)


def _find_runs(store: Store, run_ids: list[str]) -> list[Run]:
    if len(run_ids) > MAX_COMPARED_RUNS:
        raise UsageError(
            f"{len(run_ids)} runs are too many for one page; it compares at most {MAX_COMPARED_RUNS}. "
            "`proctor compare` compares any number."
        )
    return comparing.resolve_runs(store, run_ids)


def _query_state(split: str, by: str | None, *, by_digest: bool) -> dict[str, Any]:
    """Returns the parameters of the address that differ from their defaults."""
    return {
        "split": None if split == "all" else split,
        "by": by,
        "by_digest": 1 if by_digest else None,
    }


def _choose_url(runs: list[Run]) -> str:
    """Returns the address to choose other runs of the same suite."""
    return url("/compare/choose", suite=runs[0].suite.name)


# --- choosing ----------------------------------------------------------------------------------------------


@router.get("/compare/choose")
def choose(request: Request, suite: str = "") -> Response:
    """Lists the runs that can be compared."""
    return _choose_page(request, suite)


def _choose_page(
    request: Request, suite: str = "", *, error: str = "", selected_ids: Sequence[str] = ()
) -> Response:
    project = get_project(request)
    if not project.location.exists():  # showing an empty list creates no store
        return render_page(request, "compare_choose.html", wrong="", rows=[], any_run=False)
    with project.open_store() as store:
        runs = list(store.runs())
        names = list(dict.fromkeys(run.suite.name for run in runs))
        selected = [run for run in runs if run.id in selected_ids]
        if len(selected) == len(selected_ids) == 1:
            suite, error = selected[0].suite.name, ""  # one run is chosen, the other is missing
        suite_name = suite or _default_suite(runs)
        candidates = list(islice(find_runs(store, RunFilter(suite=suite_name)), _MAX_CANDIDATES))
        totals = project.summaries.read_totals(store, candidates)
        rows = [_list_entry(store, run, totals.get(run.id)) for run in candidates]
    tags = sorted({tag for run in runs for tag in run.tags})
    return render_page(
        request,
        "compare_choose.html",
        400 if error else 200,
        wrong=error,
        rows=rows,
        names=names,
        chosen=suite_name,
        tags=tags,
        any_run=bool(runs),
        picked=selected_ids,
    )


def _list_entry(store: Store, run: Run, totals: RunTotals | None) -> RunListEntry:
    """Returns the list row of a run, from its totals if they are known."""
    if totals is None:
        return summarize_run(store, run)
    tally = totals.tally
    return RunListEntry(run=run, counts=tally.result_counts, verdict_count=tally.all.total)


def _default_suite(runs: list[Run]) -> str:
    """Returns the suite of the newest run whose suite has several runs."""
    counts = Counter(run.suite.digest for run in runs)
    repeated = (run for run in runs if counts[run.suite.digest] > 1)
    return next((run.suite.name for run in repeated), runs[0].suite.name if runs else "")


# --- views -------------------------------------------------------------------------------------------------


def _comparison_page(
    request: Request, query: ComparisonQuery, state: dict[str, Any], result: ComparisonResult, flips: int
) -> Response:
    report = _record_accesses(request, result)
    ids = [run.id for run in query.runs]
    query = replace(query, by=result.by)
    values: dict[str, Any] = {
        "ids": ids,
        "state": state,
        "query": query,
        "compared": report,
        "command": _command(query),
        "markdown": "".join(render_markdown(document_for(report))),
        "groupings": result.groupings,
        "has_holdout": result.has_holdout,
        "accesses": report.looks,
        "choose": _choose_url(list(query.runs)),
        "words": sentences,
        "short_name": format_short_name,
        "has_suites": len({run.suite.title for run in query.runs}) > 1,
        "has_grid": report.grid is not None and len(report.grid.grid.targets) > 1,
    }
    if report.ranking is not None:
        method, *remarks = ranking_notes(report.ranking)
        return render_page(
            request,
            "compare_several.html",
            **values,
            verdict=headline(report.grid) or ranking_headline(report.ranking),
            grid=[] if report.grid is None else list(grid_blocks(report.grid, with_headline=False)),
            prompts=list(group_prompt_blocks([ranked_run.run for ranked_run in report.ranking.runs])),
            method=method,
            remarks=remarks,
            ranks=[(ranked_run, rank_text(ranked_run)) for ranked_run in report.ranking.by_rank],
        )
    swapped = url("/compare", run=ids[::-1], **state)
    return render_page(request, "compare.html", **values, **_pair_values(result, flips), swapped=swapped)


def _pair_values(result: ComparisonResult, flips: int) -> dict[str, Any]:
    """Returns what is shown only for two runs."""
    comparison = result.report.comparisons[0]
    return {
        "found": comparison,
        "verdict": pair_headline(comparison),
        "smallest": sentences.smallest_difference(comparison) if comparison.whole.value is not None else "",
        "differences": difference_table(comparison) if comparison.pairs else None,
        "measures": measure_facts(comparison),
        "prompts": list(prompt_diff_blocks(comparison.baseline, comparison.candidate)),
        "notes": list(
            filter(None, [sentences.pair_rates_note(comparison), sentences.clusters_note(comparison)])
        ),
        "remarks": list(sentences.remarks(comparison)),
        "kinds": _flip_tables(comparison, flips),
        "positions": result.positions,
    }


def _record_accesses(request: Request, result: ComparisonResult) -> ComparisonReport:
    """Records holdout accesses, and adds their number and what is known of the judges to the report."""
    session = get_session(request)
    with get_project(request).open_store() as store:
        for run in result.holdout_runs:
            session.record_access(store, run)
        access_count = (
            len(store.holdout_accesses(result.holdout_runs[-1].suite.digest)) if result.holdout_runs else None
        )
        return replace(
            result.report, looks=access_count, judges=comparing.describe_judges(store, result.judge_outcomes)
        )


def _flip_tables(comparison: Comparison, max_rows: int) -> list[FlipTable]:
    kinds = ((name, title, select_flips(comparison, name)) for name, title in _FLIP_KINDS)
    limit = min(max_rows, _MAX_FLIPS)
    return [FlipTable(name, title, rows[:limit], len(rows)) for name, title, rows in kinds if rows]


def _command(query: ComparisonQuery) -> str:
    run_ids = " ".join(shlex.quote(run.id) for run in query.runs)
    flags = [f"--split {query.split}"] * (query.split != "all")
    flags += [f"--by {query.by}"] * (query.by == "prompt" or (query.by == "tag" and len(query.runs) == 2))
    flags += ["--by-case-digest"] * query.by_digest
    return " ".join(("proctor compare", run_ids, *flags))
