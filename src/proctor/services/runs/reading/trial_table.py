"""The trials of a run as a table: filtered, sorted, searched and paged.

In suite order, and by verdict alone, trials are found in the store. All else needs a number or a name of each
trial. These are read at once, 100,000 trials in half a second, and stay in memory for the runs viewed last.
Texts are read when one is first searched for.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import inf, isnan, nan
from threading import Lock
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from proctor.latency import answer_latency
from proctor.model import Run, Trial, Verdict
from proctor.plan import matches_id, split_tags
from proctor.protocols import Store
from proctor.reports.runs.serialize import case_subject, failure_reason
from proctor.services.runs.reading.run_summaries import RunSummary
from proctor.services.runs.reading.trial_texts import TrialTexts
from proctor.verdicts import Counts, decide_verdict, pass_rules_for, trial_score

VERDICTS = (Verdict.FAIL, Verdict.ERROR, Verdict.UNSCORED, Verdict.PASS)
"""In sort order."""
SORTS = ("position", "case", "verdict", "score", "latency", "cost")
"""The columns to sort by; a leading `-` reverses the order."""
_MAX_ROWS = 1_000_000
"""The tables in memory have at most this many rows together, unless a single one has more."""
_MAX_REPEATS = 2**20
"""More than any case has."""
_MAX_SELECTIONS = 32
"""The maximum number of filters whose results a table keeps."""
_TRIALS_PER_REPORT = 500
"""The number of trials between two reports of progress."""
_MAX_PREVIEW = 240
"""The maximum characters of a prompt, an answer or a reason in a row."""
_CURSOR = re.compile(r"(-?)([0-9]{1,12})\.([0-9]{1,6})", re.ASCII)

Place = tuple[int, int]
"""The position of a case in its suite, from 0, and the repeat."""
_Version = tuple[int, int]
"""The key of a run, and the number of changes to its trials."""


class TrialFilter(Struct, frozen=True, kw_only=True):
    """Selects trials; an empty field selects all."""

    verdicts: tuple[str, ...] = ()
    """Has any of these verdicts."""
    tags: tuple[str, ...] = ()
    """Has all of these; an item with commas means any of its tags."""
    graders: tuple[str, ...] = ()
    """Was graded by all of these graders."""
    missed: tuple[str, ...] = ()
    """Failed or unscored by any of these graders."""
    category: str = ""
    split: str = ""
    case: str = ""
    """A glob that the id of the case matches."""
    text: str = ""
    """A text in the id, the case's input or values, the answer or the reasons, ignoring case."""


class TrialQuery(Struct, frozen=True, kw_only=True):
    """Which trials are wanted, and in which order."""

    filter: TrialFilter = TrialFilter()
    sort: str = "position"
    """One of `SORTS`, with `-` before it for descending order; anything else means `position`."""
    revealed: bool = False
    """Whether the texts and numbers of held-out trials are searched and sorted by, too."""

    @property
    def order(self) -> str:
        """The known order that `sort` means."""
        return self.sort if self.sort.removeprefix("-") in SORTS else "position"


class TrialPage(Struct, frozen=True, kw_only=True):
    """One page of trials, and where the pages before and after it begin."""

    places: tuple[Place, ...]
    total: int
    """The number of trials on all pages."""
    next: str | None = None
    """The argument `after` of the next page; None if there is none."""
    previous: str | None = None


class TrialRow(Struct, frozen=True, kw_only=True, gc=False):
    """One trial as a table shows it."""

    position: int
    repeat: int
    case_id: str
    verdict: Verdict
    score: float | None
    split: str | None
    sealed: bool
    """Whether it is held out and hidden; then it has no numbers and texts."""
    latency_ms: float | None = None
    cost_usd: float | None = None
    question: str = ""
    """The beginning of the case's own input and values, without the run's prompt; the two fields below are
    cut, too."""
    answer: str = ""
    why: str = ""
    """Why it failed, errored or is unscored; empty if it passed."""


class TrialSelection(Struct, frozen=True):
    """The trials that a query selects, in its order."""

    find: Callable[[Place | None, int, bool], list[Place]]
    """Returns the trials after one, or from the first on, at most `limit`; True goes towards the first."""
    total: int

    def page(self, after: str = "", limit: int = 50) -> TrialPage:
        """Returns one page.

        Args:
            after: `next` or `previous` of another page; empty for the first page.
            limit: the maximum number of trials.

        Raises:
            StoreError: the store cannot be read.
        """
        cursor = _CURSOR.fullmatch(after)
        back = cursor is not None and cursor[1] == "-"
        start = None if cursor is None else (int(cursor[2]), int(cursor[3]))
        places = self.find(start, limit + 1, back)
        more = len(places) > limit
        places = places[:limit][:: -1 if back else 1]
        before = bool(places) and (more if back else start is not None)
        behind = bool(places) and (start is not None if back else more)
        return TrialPage(
            places=tuple(places),
            total=self.total,
            next=_format_cursor(places[-1]) if behind else None,
            previous=f"-{_format_cursor(places[0])}" if before else None,
        )

    def neighbours(self, place: Place) -> tuple[Place | None, Place | None]:
        """Returns the trials before and after one; None if there is none.

        Raises:
            StoreError: the store cannot be read.
        """
        before, after = self.find(place, 1, True), self.find(place, 1, False)
        return before[0] if before else None, after[0] if after else None


class TrialFinder:
    """Finds the finished trials of runs; safe to use from many threads at once."""

    def __init__(self) -> None:
        """Reads nothing yet."""
        self._lock = Lock()
        self._locks: dict[str, Lock] = {}
        self._tables: OrderedDict[str, _TrialTable] = OrderedDict()

    def find(self, store: Store, run_summary: RunSummary, query: TrialQuery) -> TrialSelection | None:
        """Returns what a query selects if that is in memory or soon found in the store; else None.

        The arguments are as for `select`.
        """
        run, verdicts = run_summary.run, query.filter.verdicts
        if query.sort == "position" and query.filter == TrialFilter(verdicts=verdicts):

            def find_stored(start: Place | None, limit: int, back: bool) -> list[Place]:
                return store.trial_places(run.id, verdicts, start, limit, back=back)

            return TrialSelection(find_stored, _count(run_summary.totals.tally.all, verdicts))
        table = self._find_table(run, _read_version(store, run))
        return None if table is None else table.find_selection(query)

    def select(
        self,
        store: Store,
        run_summary: RunSummary,
        query: TrialQuery,
        on_progress: Callable[[int, int], None] = lambda _count, _total: None,
    ) -> TrialSelection:
        """Returns what a query selects, and reads every trial of the run where that is necessary.

        Args:
            store: has the run; open for as long as the selection is used.
            run_summary: the run.
            query: which trials are wanted.
            on_progress: called with the number of trials read, and of all.

        Raises:
            StoreError: the store cannot be read.
        """
        selection = self.find(store, run_summary, query)
        if selection is None:

            def report_count(count: int) -> None:
                on_progress(count, max(count, run_summary.stored))

            report_count(0)
            selection = self._load(store, run_summary.run, query.filter, report_count).select(query)
        return selection

    def _load(
        self, store: Store, run: Run, trial_filter: TrialFilter, report_count: Callable[[int], None]
    ) -> _TrialTable:
        """Returns a table with all that a filter needs; one that was made before if the run is the same."""
        with self._lock:
            lock = self._locks.setdefault(run.id, Lock())
        with lock:
            version = _read_version(store, run)
            table = self._find_table(run, version)
            if table is None:
                table = _TrialTable(version)
                table.read_trials(store, run, report_count, with_texts=bool(trial_filter.text))
            elif trial_filter.text and not table.has_texts:
                table.read_texts(store, run, report_count)
            if (trial_filter.category or trial_filter.tags) and not table.has_cases:
                table.read_cases(store, run, report_count)
        with self._lock:
            self._tables[run.id] = table
            self._tables.move_to_end(run.id)
            while len(self._tables) > 1 and sum(map(len, self._tables.values())) > _MAX_ROWS:
                self._tables.popitem(last=False)
        return table

    def _find_table(self, run: Run, version: _Version) -> _TrialTable | None:
        with self._lock:
            table = self._tables.get(run.id)
            if table is None or table.version != version:
                return None
            self._tables.move_to_end(run.id)
        return table


class _TrialLabels(NamedTuple):
    """What many trials share, which is stored once."""

    verdict: Verdict
    split: str | None
    graders: tuple[str, ...]
    missed: tuple[str, ...]

    def matches(self, trial_filter: TrialFilter) -> bool:
        return (
            (not trial_filter.verdicts or self.verdict.value in trial_filter.verdicts)
            and (not trial_filter.split or self.split == trial_filter.split)
            and set(trial_filter.graders).issubset(self.graders)
            and set(trial_filter.missed).issubset(self.missed)
        )


class _CaseLabels(NamedTuple):
    category: str | None
    tags: tuple[str, ...]

    def matches(self, trial_filter: TrialFilter) -> bool:
        return (not trial_filter.category or self.category == trial_filter.category) and all(
            not set(split_tags(word)).isdisjoint(self.tags) for word in trial_filter.tags
        )


class _TrialTable:
    """The finished trials of a run in suite order: a row for each, numbered from 0, in columns."""

    def __init__(self, version: _Version) -> None:
        self.version = version
        self.has_cases = False
        self._places = array("q")
        """The places, each as one number."""
        self._case_ids: list[str] = []
        self._numbers = {name: array("d") for name in ("score", "latency", "cost")}
        self._trial_codes = array("L")
        self._trial_labels: dict[_TrialLabels, int] = {}
        self._case_codes = array("L")
        """By the position of a case."""
        self._case_labels: dict[_CaseLabels, int] = {}
        self._texts: TrialTexts | None = None
        self._orders: dict[tuple[str, bool], array[int]] = {}
        self._selections: OrderedDict[tuple[TrialFilter, bool], bytearray] = OrderedDict()

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self._places)

    @property
    def has_texts(self) -> bool:
        """Whether texts can be searched."""
        return self._texts is not None

    def read_trials(
        self, store: Store, run: Run, report_count: Callable[[int], None], *, with_texts: bool
    ) -> None:
        """Reads what trials are filtered and sorted by, and the texts if they are wanted."""
        texts = TrialTexts(store.case_heads(run.suite.content)) if with_texts else None
        for trial, verdict in _iter_finished(store, run, report_count):
            if texts is not None:
                texts.add(len(self), trial, verdict)
            self._add(trial, verdict)
        if texts is not None:
            texts.flush()
        self._texts = texts

    def _add(self, trial: Trial, verdict: Verdict) -> None:
        score, output = trial_score(trial), trial.output
        self._places.append(_encode_place((trial.position, trial.repeat)))
        self._case_ids.append(trial.case_id)
        self._numbers["score"].append(nan if score is None else score)
        latency_ms = answer_latency(output)
        self._numbers["latency"].append(nan if latency_ms is None else latency_ms)
        cost = None if output is None else output.cost_usd
        self._numbers["cost"].append(nan if cost is None else cost)
        graders = tuple([score.grader for score in trial.scores])
        missed = tuple([score.grader for score in trial.scores if score.outcome is not Verdict.PASS])
        labels = _TrialLabels(verdict, trial.split, graders, missed)
        self._trial_codes.append(self._trial_labels.setdefault(labels, len(self._trial_labels)))

    def read_texts(self, store: Store, run: Run, report_count: Callable[[int], None]) -> None:
        """Reads the texts when the rest is read already."""
        texts = TrialTexts(store.case_heads(run.suite.content))
        for trial, verdict in _iter_finished(store, run, report_count):
            row = self._find_row((trial.position, trial.repeat))
            if row is not None:  # else it was stored since the rows were read
                texts.add(row, trial, verdict)
        texts.flush()
        self._texts = texts

    def read_cases(self, store: Store, run: Run, report_count: Callable[[int], None]) -> None:
        """Reads the categories and tags of the cases; the trials of these count as read."""
        self._case_codes = array("L")
        for position, head in enumerate(store.case_heads(run.suite.content)):
            if not position % _TRIALS_PER_REPORT:
                report_count(bisect_left(self._places, _encode_place((position, 0))))
            labels = _CaseLabels(head.category, head.tags)
            self._case_codes.append(self._case_labels.setdefault(labels, len(self._case_labels)))
        self.has_cases = True

    def find_selection(self, query: TrialQuery) -> TrialSelection | None:
        """Returns what a query selects if the same filter and the same order were used before."""
        selection = self._selections.get((query.filter, query.revealed))
        order = self._orders.get((query.order, query.revealed))
        return None if selection is None or order is None else self._combine(selection, order)

    def select(self, query: TrialQuery) -> TrialSelection:
        """Returns what a query selects; what its filter needs has been read."""
        selection = self._select(query.filter, revealed=query.revealed)
        return self._combine(selection, self._sort(query.order, revealed=query.revealed))

    def _combine(self, selection: bytearray, order: array[int]) -> TrialSelection:
        return TrialSelection(partial(self._find, selection, order), selection.count(1))

    def _select(self, trial_filter: TrialFilter, *, revealed: bool) -> bytearray:
        """Returns 1 for each row that a filter selects, and 0 for the others."""
        key = (trial_filter, revealed)
        selection = self._selections.get(key)
        if selection is None:
            selection = bytearray(len(self))
            for row in self._iter_selected(trial_filter, revealed=revealed):
                selection[row] = 1
            self._selections[key] = selection
            if len(self._selections) > _MAX_SELECTIONS:
                self._selections.popitem(last=False)
        return selection

    def _iter_selected(self, trial_filter: TrialFilter, *, revealed: bool) -> Iterable[int]:
        is_selected = [labels.matches(trial_filter) for labels in self._trial_labels]
        rows: Iterable[int] = [row for row, code in enumerate(self._trial_codes) if is_selected[code]]
        if trial_filter.tags or trial_filter.category:
            is_selected = [labels.matches(trial_filter) for labels in self._case_labels]
            codes, places = self._case_codes, self._places
            rows = [row for row in rows if is_selected[codes[places[row] // _MAX_REPEATS]]]
        if trial_filter.case:
            rows = [row for row in rows if matches_id(self._case_ids[row], [trial_filter.case])]
        if self._texts is not None and trial_filter.text:
            rows = self._texts.find(trial_filter.text, revealed=revealed).intersection(rows)
        return rows

    def _sort(self, sort: str, *, revealed: bool) -> array[int]:
        """Returns the numbers of all rows in an order; unknown and hidden numbers come last."""
        order = self._orders.get((sort, revealed))
        if order is None:
            down = sort.startswith("-")
            key = self._sort_key(sort.removeprefix("-"), -inf if down else inf, revealed=revealed)
            order = array("L", sorted(range(len(self)), key=key, reverse=down))
            self._orders[sort, revealed] = order
        return order

    def _sort_key(self, name: str, unknown: float, *, revealed: bool) -> Callable[[int], float | str]:
        if name == "case":
            return self._case_ids.__getitem__
        labels = list(self._trial_labels)
        if name == "verdict":
            ranks = [VERDICTS.index(label.verdict) for label in labels]
            return lambda row: ranks[self._trial_codes[row]]
        if name == "position":
            return lambda row: row
        is_hidden = [label.split == "holdout" and not revealed and name != "score" for label in labels]
        numbers = self._numbers[name]
        return [
            unknown if is_hidden[code] or isnan(number) else number
            for code, number in zip(self._trial_codes, numbers, strict=True)
        ].__getitem__

    def _find(
        self, selection: bytearray, order: array[int], start: Place | None, limit: int, back: bool
    ) -> list[Place]:
        """Returns the selected trials after one, at most `limit`; `back` goes towards the first."""
        rows: Iterator[int] = reversed(order) if back else iter(order)
        if start is not None:
            row = self._find_row(start)
            if row is None:
                return []
            at = order.index(row)
            rows = reversed(order[:at]) if back else iter(order[at + 1 :])
        selected_rows = islice((row for row in rows if selection[row]), limit)
        return [divmod(self._places[row], _MAX_REPEATS) for row in selected_rows]

    def _find_row(self, place: Place) -> int | None:
        code = _encode_place(place)
        row = bisect_left(self._places, code)
        return row if row < len(self) and self._places[row] == code else None


def _iter_finished(
    store: Store, run: Run, report_count: Callable[[int], None]
) -> Iterator[tuple[Trial, Verdict]]:
    for count, stored in enumerate(store.trials(run.id), 1):
        if not count % _TRIALS_PER_REPORT:
            report_count(count)
        if stored.verdict is not None:
            yield stored.trial, stored.verdict


def _read_version(store: Store, run: Run) -> _Version:
    totals = store.totals(run.id)
    return totals.key, totals.changes


def _encode_place(place: Place) -> int:
    return place[0] * _MAX_REPEATS + place[1]


def _count(counts: Counts, verdicts: Sequence[str]) -> int:
    by_verdict = {
        Verdict.PASS: counts.passed,
        Verdict.FAIL: counts.failed,
        Verdict.ERROR: counts.errors,
        Verdict.UNSCORED: counts.unscored,
    }
    return sum(count for verdict, count in by_verdict.items() if not verdicts or verdict.value in verdicts)


def _format_cursor(place: Place) -> str:
    return f"{place[0]}.{place[1]}"


# --- rows --------------------------------------------------------------------------------------------------


def read_table_rows(store: Store, run: Run, places: Iterable[Place], *, revealed: bool) -> Iterator[TrialRow]:
    """Yields the rows of some trials of a run, as a table shows them.

    Args:
        store: has the run.
        run: the run.
        places: the trials; those that are no longer stored are left out.
        revealed: whether held-out trials are shown in full.

    Raises:
        StoreError: the store cannot be read.
    """
    rules = pass_rules_for(run)
    places = list(places)
    cases = store.cases_in_run(run, [position for position, _ in places])
    for (position, repeat), case_in_run in zip(places, cases, strict=True):
        if case_in_run is None:
            continue
        case = case_in_run.case.case
        for trial in (stored.trial for stored in case_in_run.trials if stored.trial.repeat == repeat):
            verdict, output = decide_verdict(trial, rules(case)), trial.output
            is_hidden = trial.split == "holdout" and not revealed
            row = TrialRow(
                position=position,
                repeat=repeat,
                case_id=trial.case_id,
                verdict=verdict,
                score=trial_score(trial),
                split=trial.split,
                sealed=is_hidden,
            )
            if is_hidden:
                yield row
                continue
            yield replace(
                row,
                latency_ms=answer_latency(output),
                cost_usd=None if output is None else output.cost_usd,
                question=case_subject(case_in_run.suite_case)[:_MAX_PREVIEW],
                answer="" if output is None else output.text[:_MAX_PREVIEW],
                why="" if verdict is Verdict.PASS else failure_reason(trial)[:_MAX_PREVIEW],
            )
