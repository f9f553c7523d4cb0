"""The grid: the cases of up to eight runs in rows, with the verdict and the answer of each run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.errors import StoreError, UsageError
from proctor.model import Run
from proctor.plurals import pluralize
from proctor.prompts.fill import fill_case
from proctor.protocols import Store
from proctor.reports.runs.serialize import TrialResult
from proctor.reports.word_diff import DiffSpan, WordDiff, diff_words
from proctor.services.runs.reading.grid import (
    GRID_KINDS,
    GRID_SORTS,
    MAX_GRID_RUNS,
    GridFilter,
    GridKind,
    GridQuery,
    GridSelection,
)
from proctor.services.runs.reading.grid_cells import GridCell, GridRow, list_values, read_grid_rows
from proctor.services.runs.reading.listing import RunFilter, find_runs
from proctor.services.runs.reading.run_summaries import RunSummary
from proctor.web.browser_sessions import get_session
from proctor.web.grid_tasks import query_grid
from proctor.web.pages.case import MAX_TEXT_LENGTH
from proctor.web.project import get_project
from proctor.web.security import PageForm, read_form
from proctor.web.tasks import Task, stream_reading
from proctor.web.templates_env import load_run, render_page, url
from proctor.web.trial_filters import FilterChip

router = APIRouter()

_PAGE_SIZE = 50
_TIMEOUT_S = 0.6
"""What is read within this time is shown at once."""
_MAX_OPEN = 5
"""The maximum number of rows that show whole answers at a time."""
_MAX_OFFERED = 60
"""The number of newest runs to choose from."""
_MAX_WORD_LENGTH = 1000
"""Characters of one word that are read."""
_MAX_TAGS = 500
_DIFF_STEPS = 1_000_000
"""The steps of all word differences of one page, which take about a second."""
_MIN_COMMON_SHARE = 1 / 3
"""Answers with less in common are not marked, because almost all of the text would be."""
_LETTER = re.compile(r"\w")
_KIND_NAMES: dict[GridKind, str] = {
    "differ": "verdicts differ",
    "failed": "all fail",
    "broken": "broken",
    "fixed": "fixed",
}
_SORT_NAMES = {
    "position": "suite order",
    "-disagreement": "most disagreement",
    "-cost": "highest cost",
    "-latency": "highest latency",
}


class GridState(Struct, frozen=True, kw_only=True):
    """Everything that the address of the page says."""

    runs: tuple[str, ...] = ()
    group: str = ""
    kind: GridKind | None = None
    tags: tuple[str, ...] = ()
    text: str = ""
    sort: str = "position"
    after: str = ""
    open_rows: tuple[int, ...] = ()
    """The rows that show whole answers, the one that was opened last at the end."""
    has_marks: bool = True
    """Whether differences between whole answers are marked."""

    def address(self, **changes: Any) -> str:
        """Returns the address of the page with some values changed."""
        values: dict[str, Any] = {
            "group": self.group,
            "run": [] if self.group else list(self.runs),
            "show": self.kind,
            "tag": list(self.tags),
            "text": self.text,
            "sort": "" if self.sort == "position" else self.sort,
            "after": self.after,
            "open": list(self.open_rows),
            "diff": None if self.has_marks else 0,
        }
        return url("/grid", **values | changes)

    def filter_address(self, **changes: Any) -> str:
        """Returns the address of the first page with another filter or order, and no open row."""
        return self.address(after="", open=[], **changes)

    @property
    def is_narrowed(self) -> bool:
        """Whether it filters anything."""
        return bool(self.kind or self.tags or self.text)


class WholeCell(Struct, frozen=True):
    """The whole answer of one run, with what differs from the first run's marked."""

    cell: GridCell
    pieces: tuple[DiffSpan, ...]
    hidden_length: int
    """The number of characters that are left out."""
    command: str
    """The command that shows the answer."""
    is_first: bool
    """Whether the others are compared with it."""
    sent: TrialResult | None
    """The trial with what its run sent; None if that is the input of the case, or hidden."""
    is_unlike: bool = False
    """Whether it is too unlike the first answer to mark differences."""

    @property
    def has_marks(self) -> bool:
        """Whether differences are marked in it."""
        return any(piece.changed for piece in self.pieces)


@router.get("/grid")
def show_grid(request: Request) -> Response:
    """Shows the grid of some runs, or lists runs to choose from."""
    state = _parse_state(request)
    if not (state.runs or state.group) or not get_project(request).location.exists():
        return _choose_page(request)
    with get_project(request).open_store() as store:
        try:
            runs = _find_runs(store, state)
        except (StoreError, UsageError) as error:
            return _choose_page(request, error=str(error), selected_ids=state.runs)
        is_by_time = request.query_params.get("order") == "time"  # of a form, whose order means nothing
        if is_by_time:
            runs.sort(key=lambda run: run.started_at)
        ids = tuple([run.id for run in runs])
        if not state.group and (ids != state.runs or is_by_time):
            return RedirectResponse(state.address(run=list(ids)), 303)
        return _grid_page(request, store, state, runs)


@router.get("/grid/events")
def stream_progress(request: Request, task: str) -> Response:
    """Streams the progress of reading the runs."""
    return stream_reading(request, task)


@router.post("/grid/reveal")
def reveal(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Reveals the held-out answers of the runs to this session, which records holdout accesses."""
    session = get_session(request)
    with get_project(request).open_store() as store:
        for run_id in form.texts("run")[:MAX_GRID_RUNS]:
            session.reveal(store, load_run(store, run_id))
    session.flash(
        "The holdouts of these runs are now revealed to you, and the holdout accesses are recorded."
    )
    back = form.text("back")
    return RedirectResponse(back if back.startswith("/grid?") else "/grid", 303)


# --- address -----------------------------------------------------------------------------------------------


def _parse_state(request: Request) -> GridState:
    query = request.query_params

    def read_words(name: str) -> tuple[str, ...]:
        words = (value[:_MAX_WORD_LENGTH] for value in query.getlist(name) if value.strip())
        return tuple(dict.fromkeys(words))

    kind = query.get("show", "")
    sort = query.get("sort", "")
    numbers = [int(word) for word in read_words("open") if word.isascii() and word.isdecimal()]
    return GridState(
        runs=read_words("run"),
        group=query.get("group", "").strip()[:_MAX_WORD_LENGTH],
        kind=next((name for name in GRID_KINDS if name == kind), None),
        tags=read_words("tag"),
        text=query.get("text", "").strip()[:_MAX_WORD_LENGTH],
        sort=sort if sort.removeprefix("-") in GRID_SORTS else "position",
        after=query.get("after", ""),
        open_rows=tuple(numbers[-_MAX_OPEN:]),
        has_marks=query.get("diff", "") != "0",
    )


def _find_runs(store: Store, state: GridState) -> list[Run]:
    """Returns the runs of an address, those of a group in the order in which they began.

    Raises:
        StoreError: there is no such run, or more than one.
        UsageError: there is no such group, or there are too many runs.
    """
    if state.group:
        runs = [run for run in store.runs() if run.group == state.group][::-1]
        # The group of an imported run is its maker's claim: it is never mixed with others.
        runs = [run for run in runs if run.imported is None] or runs
        if not runs:
            raise UsageError(f"No run belongs to group {state.group!r}. Choose runs from the list.")
    else:
        runs = list({run.id: run for run in map(store.run, state.runs)}.values())
    if len(runs) > MAX_GRID_RUNS:
        source = f"Group {state.group!r} has" if state.group else "You chose"
        raise UsageError(
            f"{source} {len(runs)} runs, and the grid shows at most {MAX_GRID_RUNS}. Choose fewer; "
            "`proctor compare` compares any number."
        )
    return runs


# --- views -------------------------------------------------------------------------------------------------


def _choose_page(request: Request, *, error: str = "", selected_ids: Sequence[str] = ()) -> Response:
    project = get_project(request)
    runs: list[Run] = []
    if project.location.exists():  # showing an empty list creates no store
        with project.open_store() as store:
            runs = list(islice(find_runs(store, RunFilter()), _MAX_OFFERED))
    return render_page(
        request,
        "grid_choose.html",
        400 if error else 200,
        error_text=error,
        runs=runs,
        selected_ids=selected_ids,
        max_runs=MAX_GRID_RUNS,
    )


def _grid_page(request: Request, store: Store, state: GridState, runs: Sequence[Run]) -> Response:
    session = get_session(request)
    run_summaries = [_load_summary(request, store, run) for run in runs]
    revealed = session.revealed.intersection(run.id for run in runs)
    query = GridQuery(
        filter=GridFilter(kind=state.kind, tags=state.tags, text=state.text),
        sort=state.sort,
        revealed=frozenset(revealed),
    )
    selection = query_grid(request, store, run_summaries, query, _TIMEOUT_S)
    values: dict[str, Any] = {
        "state": state,
        "columns": run_summaries,
        "names": [_column_name(run) for run in runs],
        "command": _command(runs),
    }
    if isinstance(selection, Task):
        return render_page(request, "grid_reading.html", task=selection, **values)
    page = selection.page(state.after, _PAGE_SIZE)
    rows = list(read_grid_rows(store, selection.grid, runs, page.rows, revealed))
    has_sealed = any(cell is not None and cell.sealed for row in rows for cell in row.cells)
    held_out_runs = [summary.run for summary in run_summaries if "holdout" in summary.summary.splits]
    return render_page(
        request,
        "grid.html",
        **values,
        answer=_headline(selection, state, len(runs)),
        page=page,
        counts=selection.grid.counts,
        rows=rows,
        whole=_open_rows(rows, state),
        rates=selection.rates() if state.is_narrowed else [],
        chips=_filter_chips(state),
        kind_names=_KIND_NAMES,
        list_values=list_values,
        sort_names=_SORT_NAMES,
        tags=selection.grid.tags[:_MAX_TAGS],
        held_out_runs=held_out_runs,
        has_sealed=has_sealed,
        origin=f"{request.base_url}".rstrip("/"),
        unfinished=[
            (_column_name(summary.run), summary) for summary in run_summaries if summary.status != "finished"
        ],
    )


def _load_summary(request: Request, store: Store, run: Run) -> RunSummary:
    """Returns the numbers of a run, and records the holdout access if they cover its holdout."""
    summaries = get_project(request).summaries
    run_summary = summaries.refresh_in(store, run)
    if "holdout" in run_summary.summary.splits:
        get_session(request).record_access(store, run)
    return run_summary


def _headline(selection: GridSelection, state: GridState, run_count: int) -> str:
    counts, total = selection.grid.counts, selection.grid.counts[None]
    if not total:
        return f"{pluralize(run_count, 'run')}, no finished cases yet"
    if state.is_narrowed:
        return f"{len(selection.rows):,} of {pluralize(total, 'case')} match"
    if run_count == 1:
        return f"{pluralize(total, 'case')}; {counts['failed']:,} failed"
    return (
        f"{counts['differ']:,} of {pluralize(total, 'case')} differ between {run_count} runs; "
        f"{counts['failed']:,} {'fails' if counts['failed'] == 1 else 'fail'} in all"
    )


def _column_name(run: Run) -> str:
    """Returns what a screen reader calls a column."""
    return run.target.name if run.prompt is None else f"{run.target.name} · {run.prompt.name}"


def _filter_chips(state: GridState) -> list[FilterChip]:
    chips = []
    if state.kind is not None:
        chips.append(FilterChip(_KIND_NAMES[state.kind], state.filter_address(show="")))
    for tag in state.tags:
        other_tags = [other for other in state.tags if other != tag]
        chips.append(FilterChip(f"tag {tag}", state.filter_address(tag=other_tags)))
    if state.text:
        chips.append(FilterChip(f"with “{state.text}”", state.filter_address(text="")))
    return chips


def _command(runs: Sequence[Run]) -> str:
    run_ids = " ".join(shlex.quote(run.id) for run in runs)
    return f"proctor compare {run_ids}" if len(runs) > 1 else f"proctor runs show {run_ids}"


# --- whole answers -----------------------------------------------------------------------------------------


def _open_rows(rows: Sequence[GridRow], state: GridState) -> dict[int, list[WholeCell | None]]:
    """Returns the whole answers of the open rows of a page, by the number of the row."""
    open_rows = [row for row in rows if row.number in state.open_rows]
    pair_count = sum(cell is not None for row in open_rows for cell in row.cells)
    steps = _DIFF_STEPS // max(1, pair_count)
    return {row.number: list(_whole_cells(row, steps, has_marks=state.has_marks)) for row in open_rows}


def _whole_cells(row: GridRow, steps: int, *, has_marks: bool) -> Iterator[WholeCell | None]:
    texts = [None if cell is None or cell.output is None else cell.output.text for cell in row.cells]
    answers = [(place, text[:MAX_TEXT_LENGTH]) for place, text in enumerate(texts) if text is not None]
    unlike = set[int]()
    spans: dict[int, tuple[DiffSpan, ...]] = {
        place: (DiffSpan(text, False),) for place, text in answers if text
    }
    if has_marks and answers:
        first_place, first_text = answers[0]
        diffs = {place: diff_words(first_text, text, steps) for place, text in answers[1:]}
        unlike = {place for place, diff in diffs.items() if _common_share(diff) < _MIN_COMMON_SHARE}
        diffs = {place: diff for place, diff in diffs.items() if place not in unlike}
        spans |= {place: diff.after for place, diff in diffs.items()}
        if len(answers) == 2 and diffs:  # of more, each differs from the first elsewhere
            spans[first_place] = next(iter(diffs.values())).before
    for place, (cell, text) in enumerate(zip(row.cells, texts, strict=True)):
        if cell is None:
            yield None
        else:
            hidden_length = max(0, len(text or "") - MAX_TEXT_LENGTH)
            is_first = bool(answers) and place == answers[0][0]
            pieces, command = spans.get(place, ()), _cell_command(cell)
            sent, is_unlike = _with_prompt(cell), place in unlike
            yield WholeCell(cell, pieces, hidden_length, command, is_first, sent, is_unlike)


def _common_share(diff: WordDiff) -> float:
    """Returns the share of the letters of two answers that stand in words that both have."""
    before_count, after_count = (_count_letters(pieces) for pieces in (diff.before, diff.after))
    total = before_count + after_count
    common = 2 * _count_letters([piece for piece in diff.after if not piece.changed])
    return common / total if total else 1.0


def _count_letters(pieces: Sequence[DiffSpan]) -> int:
    return sum(len(_LETTER.findall(piece.text)) for piece in pieces)


def _with_prompt(cell: GridCell) -> TrialResult | None:
    """Returns the trial of a cell with the prompt of its run filled in; None without one, or if hidden."""
    if cell.sealed or cell.run.prompt is None:
        return None
    return replace(cell.trial, case=fill_case(cell.trial.case, cell.run))


def _cell_command(cell: GridCell) -> str:
    """Returns the command that shows the answer of a cell."""
    line = f"proctor runs show {cell.run.id} --case {shlex.quote(cell.trial.trial.case_id)}"
    is_revealed = cell.trial.trial.split == "holdout" and not cell.sealed
    return f"{line} --reveal" if is_revealed else line
