"""The grid of several runs over the API."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from proctor.errors import UsageError
from proctor.latency import answer_latency
from proctor.model import Verdict
from proctor.reports.record_fields import RunId, about
from proctor.services.runs.reading.grid import MAX_GRID_RUNS, GridFilter, GridFinder, GridQuery
from proctor.services.runs.reading.grid_cells import GridCell, read_grid_rows
from proctor.web.api.operations import operation
from proctor.web.browser_sessions import get_session
from proctor.web.project import get_project
from proctor.web.templates_env import load_run

router = APIRouter(tags=["comparisons"])

_TIMEOUT_S = 5.0
"""How long a request waits while the trials of a run are counted for the first time."""


class ListGridQuery(BaseModel):
    """The runs of a grid, and which of its rows are wanted."""

    model_config = ConfigDict(extra="forbid")
    run: list[str] = Field(
        min_length=1,
        max_length=MAX_GRID_RUNS,
        json_schema_extra={"uniqueItems": True},
        examples=[["20261121-225349-e91629", "20261122-101500-0a1b2c"]],
        description="The ids of the runs, one for each column; the others are compared with the first.",
    )
    show: Literal["", "differ", "failed", "broken", "fixed"] = Field(
        default="",
        description="Only cases whose verdicts differ, that fail in all runs, that the first run passed and "
        "another failed, or the reverse.",
    )
    tag: list[str] = Field(
        default=[],
        max_length=20,
        description="Cases with all of these tags; tags separated by commas are alternatives.",
    )
    text: str = Field(
        default="",
        max_length=1000,
        description="Text in the id, prompt, answers or reasons of any run; case-insensitive.",
    )
    sort: str = Field(
        default="position",
        pattern="^-?(position|disagreement|cost|latency)$",
        description="The sort order; a leading `-` reverses it.",
    )
    after: str = Field(default="", max_length=1000, description="The `next` of the previous page.")
    limit: int = Field(default=50, ge=1, le=200, description="Maximum number of results.")


class CaseCellRecord(Struct, frozen=True, kw_only=True):
    """What one run has for one case."""

    position: Annotated[int, about("The position of the case in the suite of the run, from 0.")]
    repeat: Annotated[int, about("The repeat whose answer is given.")]
    verdict: Annotated[
        Verdict,
        about("The verdict of the case: that of its worst repeat, or the aggregation of all repeats."),
    ]
    passed: Annotated[int, about("Number of passed repeats.")]
    trials: Annotated[int, about("Number of finished repeats.")]
    sealed: Annotated[bool, about("Whether it is held out and hidden.")]
    input_changed: Annotated[bool, about("Whether the case sends a different input than in the first run.")]
    answer: Annotated[
        str | None, about("The beginning of the answer, or why there is none; null if it is hidden.")
    ]
    latency_ms: float | None
    cost_usd: float | None


class GridRowRecord(Struct, frozen=True, kw_only=True):
    """One case with its cells."""

    case: str
    input: Annotated[str | None, about("The beginning of its prompt; null if it is hidden.")]
    cells: Annotated[tuple[CaseCellRecord | None, ...], about("One for each run; null if it has no trial.")]


class GridPageRecord(Struct, frozen=True, kw_only=True):
    """A page of the grid."""

    runs: Annotated[tuple[RunId, ...], about("The runs, one for each column.")]
    rows: tuple[GridRowRecord, ...]
    total: Annotated[int, about("Number of matching rows on all pages.")]
    next: Annotated[str | None, about("The `after` of the next page; null on the last one.")]
    previous: str | None


@operation(router.get, "/grid", 400, 404)
def list_grid(request: Request, query: Annotated[ListGridQuery, Query()]) -> GridPageRecord:
    """The cases of up to eight runs side by side, with the verdict and the beginning of each answer.

    Runs of different suites are paired by the ids of their cases. The rows show the holdout's pass rates, so
    this counts as a holdout access of each run.
    """
    if len(set(query.run)) < len(query.run):
        raise UsageError("A run is named twice. Name each run once.")
    project, session = get_project(request), get_session(request)
    with project.open_store() as store:
        runs = [load_run(store, run_id) for run_id in query.run]
        run_summaries = [project.summaries.refresh_in(store, run, _TIMEOUT_S) for run in runs]
        for run_summary in run_summaries:
            if "holdout" in run_summary.summary.splits:
                session.record_access(store, run_summary.run)
        revealed = frozenset(session.revealed.intersection(query.run))
        grid_filter = GridFilter(kind=query.show or None, tags=tuple(query.tag), text=query.text)
        grids = project.get_shared("grids", GridFinder)
        selection = grids.select(
            store,
            project.trials,
            run_summaries,
            GridQuery(filter=grid_filter, sort=query.sort, revealed=revealed),
        )
        page = selection.page(query.after, query.limit)
        rows = list(read_grid_rows(store, selection.grid, runs, page.rows, revealed))
    return GridPageRecord(
        runs=tuple(query.run),
        rows=tuple(
            [
                GridRowRecord(
                    case=row.case_id,
                    input=None if row.case is None else row.question,
                    cells=tuple([None if cell is None else _cell_record(cell) for cell in row.cells]),
                )
                for row in rows
            ]
        ),
        total=page.total,
        next=page.next,
        previous=page.previous,
    )


def _cell_record(cell: GridCell) -> CaseCellRecord:
    output = cell.output
    return CaseCellRecord(
        position=cell.position,
        repeat=cell.trial.trial.repeat,
        verdict=cell.verdict,
        passed=cell.passed_count,
        trials=cell.trial_count,
        sealed=cell.sealed,
        input_changed=cell.has_other_input,
        answer=None if cell.sealed else cell.answer,
        latency_ms=answer_latency(output),
        cost_usd=None if output is None else output.cost_usd,
    )
