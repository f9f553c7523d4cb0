"""Several runs as a grid: a row for each case, a column for each run; filtered, sorted and paged.

The verdicts and numbers of all runs are read once and stay in memory, some 40 bytes for each cell. Answers
are read for the rows of one page (`grid_cells.py`), and texts are searched by the tables of the runs.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from math import inf, isnan, nan
from operator import and_
from threading import Lock
from typing import Any, Literal, get_args

from msgspec import Struct

from proctor.model import Run, Verdict
from proctor.plan import split_tags
from proctor.protocols import Store
from proctor.services.runs.reading.grid_column import VERDICT_CODES, GridColumn, read_column
from proctor.services.runs.reading.run_summaries import RunSummary
from proctor.services.runs.reading.trial_table import TrialFilter, TrialFinder, TrialQuery

MAX_GRID_RUNS = 8
"""The maximum number of columns."""
GridKind = Literal["differ", "failed", "broken", "fixed"]
"""Which rows are wanted: verdicts that differ; all fail; only the first passed; only the first failed."""
GRID_KINDS: tuple[GridKind, ...] = get_args(GridKind)
GRID_SORTS = ("position", "disagreement", "cost", "latency")
"""What rows are sorted by; a leading `-` reverses the order."""
_MAX_CELLS = 2_000_000
"""The grids in memory have at most this many cells together, unless a single one has more; columns, too."""
_MAX_ORDERS = 32
"""The maximum number of filtered orders that a grid keeps."""
_LOCKS = 16
"""The number of grids that can be read at a time, if their keys fall apart."""
_MAX_TRIALS = 2**31 - 1
"""More than any run has."""
_PASS, _FAIL = VERDICT_CODES[Verdict.PASS], VERDICT_CODES[Verdict.FAIL]

_Pattern = tuple[int, ...]
"""The verdicts of one row as codes; 0 if a run has none."""
_Version = tuple[tuple[int, int], ...]
"""For each run its key and the number of changes to its trials."""


class GridFilter(Struct, frozen=True, kw_only=True):
    """Selects rows; an empty field selects all."""

    kind: GridKind | None = None
    tags: tuple[str, ...] = ()
    """Has all of these; an item with commas means any of its tags."""
    text: str = ""
    """A text in the id, the prompt, an answer or the reasons of any run, ignoring case."""


class GridQuery(Struct, frozen=True, kw_only=True):
    """Which rows are wanted, and in which order."""

    filter: GridFilter = GridFilter()
    sort: str = "position"
    """One of `GRID_SORTS`, with `-` before it for descending order; anything else means `position`."""
    revealed: frozenset[str] = frozenset()
    """The ids of runs whose held-out texts and numbers are searched and sorted by, too."""

    @property
    def order(self) -> str:
        """The known order that `sort` means."""
        return self.sort if self.sort.removeprefix("-") in GRID_SORTS else "position"


class GridPage(Struct, frozen=True, kw_only=True):
    """The rows of one page by number, and where the pages before and after it begin."""

    rows: tuple[int, ...]
    total: int
    """The number of rows on all pages."""
    first: int = 0
    """The place of its first row among all of these, from 0."""
    next: str | None = None
    """The argument `after` of the next page; None if there is none."""
    previous: str | None = None


class GridRate(Struct, frozen=True):
    """How many of some rows passed in one column, each by the verdict of its case."""

    measured: int
    """The number of rows that passed or failed."""
    passed: int

    @property
    def share(self) -> float | None:
        """The share that passed; None without a measured row."""
        return self.passed / self.measured if self.measured else None


class GridSelection(Struct, frozen=True):
    """The rows that a query selects, in its order, with the grid that they are of."""

    grid: Grid
    rows: array[int]

    def rates(self) -> list[GridRate]:
        """Returns for each column how many of these rows passed."""
        return self.grid.get_rates(self.rows)

    def page(self, after: str = "", limit: int = 50) -> GridPage:
        """Returns one page.

        Args:
            after: `next` or `previous` of another page; empty, or of a row that is gone, for the first page.
            limit: the maximum number of rows.
        """
        number = after.removeprefix("-")
        at = self.rows.index(int(number)) if self._has_row(number) else None
        start = 0 if at is None else max(0, at - limit) if after.startswith("-") else at + 1
        rows = self.rows[start : start + limit]
        return GridPage(
            rows=tuple(rows),
            total=len(self.rows),
            first=start,
            next=str(rows[-1]) if rows and start + limit < len(self.rows) else None,
            previous=f"-{rows[0]}" if rows and start else None,
        )

    def _has_row(self, number: str) -> bool:
        is_number = number.isascii() and number.isdecimal() and len(number) <= 12
        return is_number and int(number) in self.rows


def pair_cases(case_ids: Sequence[Sequence[str]]) -> tuple[list[str], list[array[int]]]:
    """Pairs the cases of several suites by their ids.

    Args:
        case_ids: the ids of the cases of each suite, in its order.

    Returns:
        The ids of all rows, those of the first suite first; and for each suite the position of each row's
        case, -1 for none.
    """
    numbers: dict[str, int] = {}
    for ids in case_ids:
        for case_id in ids:
            numbers.setdefault(case_id, len(numbers))
    positions = [array("q", [-1]) * len(numbers) for _ in case_ids]
    for suite_positions, ids in zip(positions, case_ids, strict=True):
        for position, case_id in enumerate(ids):
            suite_positions[numbers[case_id]] = position
    return list(numbers), positions


class GridFinder:
    """Finds the rows of grids; safe to use from many threads at once."""

    def __init__(self) -> None:
        """Reads nothing yet."""
        self._lock = Lock()
        self._locks = tuple([Lock() for _ in range(_LOCKS)])
        self._grids: OrderedDict[tuple[str, ...], Grid] = OrderedDict()
        self._columns: OrderedDict[tuple[str, int, int], GridColumn] = OrderedDict()

    def find(self, store: Store, runs: Sequence[Run], query: GridQuery) -> GridSelection | None:
        """Returns what a query selects if that is in memory; else None. The arguments are as for `select`."""
        grid = self._find_grid(runs, _read_version(store, runs))
        return None if grid is None else grid.find_selection(query)

    def select(
        self,
        store: Store,
        trials: TrialFinder,
        run_summaries: Sequence[RunSummary],
        query: GridQuery,
        on_progress: Callable[[int, int], None] = lambda _count, _total: None,
    ) -> GridSelection:
        """Returns what a query selects, and reads the trials of the runs where that is necessary.

        Args:
            store: has the runs.
            trials: searches their texts.
            run_summaries: the runs, one for each column.
            query: which rows are wanted.
            on_progress: called with the number of trials read, and of all.

        Raises:
            StoreError: the store cannot be read.
        """
        progress = _TotalProgress(on_progress, run_summaries)
        grid = self._load(store, run_summaries, progress)
        text, matches = query.filter.text, None
        if text and grid.find_selection(query) is None:
            progress.restart()
            matches = [
                _find_text(store, trials, run_summary, text, query, progress) for run_summary in run_summaries
            ]
        return grid.select(query, matches)

    def _load(self, store: Store, run_summaries: Sequence[RunSummary], progress: _TotalProgress) -> Grid:
        """Returns the grid of runs; one that was made before if they are the same."""
        runs = [run_summary.run for run_summary in run_summaries]
        key = _grid_key(runs)
        with self._locks[hash(key) % _LOCKS]:  # what two visitors want is read once
            version = _read_version(store, runs)
            grid = self._find_grid(runs, version)
            if grid is None:
                columns = [
                    self._load_column(store, run_summary, run_version, progress)
                    for run_summary, run_version in zip(run_summaries, version, strict=True)
                ]
                grid = _make_grid(store, runs, columns, version)
                with self._lock:
                    self._grids[key] = grid
                    _forget_oldest(self._grids)
        return grid

    def _load_column(
        self, store: Store, run_summary: RunSummary, version: tuple[int, int], progress: _TotalProgress
    ) -> GridColumn:
        key = run_summary.run.id, *version
        with self._lock:
            column = self._columns.get(key)
        if column is None:
            column = read_column(store, run_summary.run, progress.report_count)
        progress.end_run(run_summary)
        with self._lock:
            self._columns[key] = column
            self._columns.move_to_end(key)
            _forget_oldest(self._columns)
        return column

    def _find_grid(self, runs: Sequence[Run], version: _Version) -> Grid | None:
        with self._lock:
            grid = self._grids.get(_grid_key(runs))
            if grid is None or grid.version != version:
                return None
            self._grids.move_to_end(_grid_key(runs))
        return grid


class Grid:
    """The cases of several runs: a row for each case, numbered from 0, and a column for each run."""

    def __init__(
        self,
        version: _Version,
        columns: Mapping[str, GridColumn],
        case_ids: Sequence[str],
        positions: Sequence[array[int]],
        tags: Sequence[tuple[str, ...]],
    ) -> None:
        """Pairs the columns.

        Args:
            version: the state of the runs when they were read.
            columns: what each run has, by its id.
            case_ids: the id of each row's case.
            positions: for each column the position of each row's case, -1 for none.
            tags: the tags of each row's case.
        """
        self.version = version
        self.case_ids = case_ids
        """The id of each row's case."""
        self._columns, self._positions, self._tags = columns, positions, tags
        numbers: dict[_Pattern, int] = {}
        aligned = [
            _align(column.verdicts, places)
            for column, places in zip(columns.values(), positions, strict=True)
        ]
        self._pattern_codes = array(
            "L", [numbers.setdefault(pattern, len(numbers)) for pattern in zip(*aligned, strict=True)]
        )
        self._patterns = list(numbers)
        self.counts = {kind: self._count(kind) for kind in (None, *GRID_KINDS)}
        """The number of rows of each kind, and of all rows for None."""
        self.tags = sorted({tag for labels in set(tags) for tag in labels})
        """All tags of the cases."""
        self._orders: dict[tuple[str, frozenset[str]], array[int]] = {}
        self._selections: OrderedDict[GridQuery, array[int]] = OrderedDict()

    def __len__(self) -> int:
        """Returns the number of cells."""
        return len(self.case_ids) * len(self._columns)

    def get_positions(self, row: int) -> tuple[int, ...]:
        """Returns the positions of a row's case in the suites of the runs, -1 for none."""
        return tuple([positions[row] for positions in self._positions])

    def get_rates(self, rows: Sequence[int]) -> list[GridRate]:
        """Returns for each column how many of some rows passed."""
        counts = [Counter[int]() for _ in self._positions]
        for code, row_count in Counter([self._pattern_codes[row] for row in rows]).items():
            for column_counts, verdict in zip(counts, self._patterns[code], strict=True):
                column_counts[verdict] += row_count
        return [GridRate(each[_PASS] + each[_FAIL], each[_PASS]) for each in counts]

    def _count(self, kind: GridKind | None) -> int:
        is_selected = [_is_of_kind(pattern, kind) for pattern in self._patterns]
        return sum(is_selected[code] for code in self._pattern_codes)

    def find_selection(self, query: GridQuery) -> GridSelection | None:
        """Returns what a query selects if it was selected before."""
        rows = self._selections.get(query)
        return None if rows is None else GridSelection(self, rows)

    def select(self, query: GridQuery, matches: Sequence[Set[int]] | None = None) -> GridSelection:
        """Returns what a query selects.

        Args:
            query: which rows are wanted.
            matches: for each column the positions of the cases that have the text, if there is one.
        """
        rows = self._selections.get(query)
        if rows is None:
            selection = self._select(query.filter, matches)
            order = self._sort(query.order, query.revealed)
            rows = array("L", [row for row in order if selection[row]])
            self._selections[query] = rows
            if len(self._selections) > _MAX_ORDERS:
                self._selections.popitem(last=False)
        return GridSelection(self, rows)

    def _select(self, grid_filter: GridFilter, matches: Sequence[Set[int]] | None) -> bytearray:
        """Returns 1 for each row that a filter selects, and 0 for the others."""
        is_selected = [_is_of_kind(pattern, grid_filter.kind) for pattern in self._patterns]
        selection = bytearray([is_selected[code] for code in self._pattern_codes])
        if grid_filter.tags:
            words = [set(split_tags(word)) for word in grid_filter.tags]
            has_tags = {
                labels: all(not tags.isdisjoint(labels) for tags in words) for labels in set(self._tags)
            }
            selection = bytearray(
                [
                    is_selected and has_tags[tags]
                    for is_selected, tags in zip(selection, self._tags, strict=True)
                ]
            )
        if matches is not None:
            has_text = bytearray(len(selection))
            for positions, matching in zip(self._positions, matches, strict=True):
                for row, position in enumerate(positions):
                    if position in matching:
                        has_text[row] = 1
            selection = bytearray(map(and_, selection, has_text))
        return selection

    def _sort(self, sort: str, revealed: frozenset[str]) -> array[int]:
        """Returns the numbers of all rows in an order; unknown and hidden numbers come last."""
        order = self._orders.get((sort, revealed))
        if order is None:
            down, name = sort.startswith("-"), sort.removeprefix("-")
            rows = range(len(self.case_ids))
            if name == "position":
                order = array("L", reversed(rows) if down else rows)
            else:
                keys = self._sort_keys(name, revealed, unknown=-inf if down else inf)
                order = array("L", sorted(rows, key=keys.__getitem__, reverse=down))
            self._orders[sort, revealed] = order
        return order

    def _sort_keys(self, name: str, revealed: frozenset[str], *, unknown: float) -> list[float]:
        if name == "disagreement":
            ranges = self._combine("scores", revealed, _range)
            pair_counts = [_count_opposed(pattern) for pattern in self._patterns]
            codes = self._pattern_codes
            return [
                pair_counts[code] + (0.0 if isnan(width) else min(width, 1.0) / 2)
                for code, width in zip(codes, ranges, strict=True)
            ]
        numbers = (
            self._combine("costs", revealed, sum)
            if name == "cost"
            else self._combine("latencies", revealed, max)
        )
        return [unknown if isnan(number) else number for number in numbers]

    def _combine(
        self, name: str, revealed: frozenset[str], combine: Callable[[list[float]], float]
    ) -> Iterator[float]:
        """Yields one number for each row from the numbers that may be seen; NaN without any."""
        aligned = []
        for (run_id, column), positions in zip(self._columns.items(), self._positions, strict=True):
            numbers = getattr(column, name)
            if run_id not in revealed and name != "scores":
                numbers = [
                    nan if is_held_out else number
                    for number, is_held_out in zip(numbers, column.held_out, strict=True)
                ]
            aligned.append(_align(numbers, positions, nan))
        for cells in zip(*aligned, strict=True):
            known = [number for number in cells if number == number]  # noqa: PLR0124  # NaN equals nothing
            yield combine(known) if known else nan


class _TotalProgress:
    """Adds up the progress of several runs."""

    def __init__(self, on_progress: Callable[[int, int], None], run_summaries: Sequence[RunSummary]) -> None:
        self._on_progress = on_progress
        self._total = sum(run_summary.stored for run_summary in run_summaries)
        self._before = 0
        self.report_count(0)

    def restart(self) -> None:
        self._before = 0

    def report_count(self, count: int) -> None:
        done_count = self._before + count
        self._on_progress(done_count, max(done_count, self._total))

    def end_run(self, run_summary: RunSummary) -> None:
        self._before += run_summary.stored


def _find_text(
    store: Store,
    trials: TrialFinder,
    run_summary: RunSummary,
    text: str,
    query: GridQuery,
    progress: _TotalProgress,
) -> set[int]:
    """Returns the positions of the cases of a run whose texts have a text."""
    trial_query = TrialQuery(filter=TrialFilter(text=text), revealed=run_summary.run.id in query.revealed)
    selection = trials.select(
        store, run_summary, trial_query, lambda count, _total: progress.report_count(count)
    )
    progress.end_run(run_summary)
    return {position for position, _ in selection.find(None, _MAX_TRIALS, False)}


def _make_grid(store: Store, runs: Sequence[Run], columns: Sequence[GridColumn], version: _Version) -> Grid:
    heads: dict[str, tuple[list[str], list[tuple[str, ...]]]] = {}
    labels: dict[tuple[str, ...], tuple[str, ...]] = {}
    for run in runs:
        if run.suite.content not in heads:
            ids, tags = list[str](), list[tuple[str, ...]]()
            for head in store.case_heads(run.suite.content):
                ids.append(head.id)
                tags.append(labels.setdefault(head.tags, head.tags))
            heads[run.suite.content] = ids, tags
    case_ids, positions = pair_cases([ids for ids, _ in heads.values()])
    by_content = dict(zip(heads, positions, strict=True))
    tags_by_row = list[tuple[str, ...]]()
    for row in range(len(case_ids)):
        content = next(content for content, places in by_content.items() if places[row] >= 0)
        tags_by_row.append(heads[content][1][by_content[content][row]])
    by_run = {run.id: column for run, column in zip(runs, columns, strict=True)}
    return Grid(version, by_run, case_ids, [by_content[run.suite.content] for run in runs], tags_by_row)


def _forget_oldest(table: OrderedDict[Any, Any]) -> None:
    """Drops what was used longest ago while there are too many cells."""
    while len(table) > 1 and sum(map(len, table.values())) > _MAX_CELLS:
        table.popitem(last=False)


def _grid_key(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple([run.id for run in runs])


def _read_version(store: Store, runs: Sequence[Run]) -> _Version:
    totals = [store.totals(run.id) for run in runs]
    return tuple([(each.key, each.changes) for each in totals])


def _align(values: Sequence[float], positions: array[int], missing: float = 0) -> list[float]:
    return [values[position] if position >= 0 else missing for position in positions]


def _is_of_kind(pattern: _Pattern, kind: GridKind | None) -> bool:
    """Whether a row with these verdicts is of a kind; a row without any is of none."""
    verdicts = [code for code in pattern if code]
    if kind is None or not verdicts:
        return bool(verdicts)
    if kind == "differ":
        return len(set(verdicts)) > 1
    if kind == "failed":
        return set(verdicts) == {_FAIL}
    first, other = (_PASS, _FAIL) if kind == "broken" else (_FAIL, _PASS)
    return pattern[0] == first and other in pattern[1:]


def _count_opposed(pattern: _Pattern) -> int:
    """Returns the number of pairs of runs of which one passed and the other failed."""
    return pattern.count(_PASS) * pattern.count(_FAIL)


def _range(numbers: list[float]) -> float:
    return max(numbers) - min(numbers)
