"""The trials of a run as a table: filtered, sorted, searched and paged.

In suite order, and by verdict alone, trials are found in the store. All else needs a number or a name of each
trial. These are read at once, 100,000 trials in half a second, and stay in memory for the runs that were
looked at last. Texts are read when one is first searched for, into a temporary file.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import inf, isnan, nan
from tempfile import SpooledTemporaryFile
from threading import Lock
from typing import NamedTuple
from weakref import finalize

from msgspec import Struct
from msgspec.structs import replace

from proctor.model import Run, Trial, Verdict
from proctor.plan import matches_id, split_tags
from proctor.protocols import CaseHead, Store
from proctor.reports.runs.serialize import failure_reason, question_text
from proctor.services.runs.reading.run_summaries import RunSummary
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
"""The results of filters that a table keeps, at most."""
_MAX_BYTES_IN_MEMORY = 2**20
"""The texts of a run that are not in a file, at most."""
_TEXTS_PER_CHUNK = 256
"""Texts that are searched at once: Python finds bytes in few long texts faster than in many short ones."""
_MAX_PREVIEW = 240
"""The maximum characters of a prompt, an answer or a reason in a row."""
_CURSOR = re.compile(r"(-?)([0-9]{1,12})\.([0-9]{1,6})", re.ASCII)
_SEPARATOR = b"\0"
"""Separates two texts; no text contains it."""

Place = tuple[int, int]
"""The position of a case in its suite, from 0, and the repeat."""


class TrialFilter(Struct, frozen=True, kw_only=True):
    """Selects trials; an empty field selects all."""

    verdicts: tuple[str, ...] = ()
    """Has any of these verdicts."""
    tags: tuple[str, ...] = ()
    """Has all of these; an item with commas means any of its tags."""
    graders: tuple[str, ...] = ()
    """Was graded by all of these graders."""
    missed: tuple[str, ...] = ()
    """Did not pass any of these graders."""
    category: str = ""
    split: str = ""
    case: str = ""
    """A glob that the id of the case matches."""
    text: str = ""
    """A text in the id, the question, the answer or the reasons, ignoring case."""


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
    """The beginning of the question; the two fields below are cut, too."""
    answer: str = ""
    why: str = ""
    """Why it did not pass; empty if it did."""


class TrialFinder:
    """Finds the trials of runs; safe to use from many threads at once."""

    def __init__(self) -> None:
        """Reads nothing yet."""
        self._lock = Lock()
        self._locks: dict[str, Lock] = {}
        self._tables: OrderedDict[str, _TrialTable] = OrderedDict()

    def page(
        self,
        store: Store,
        run_summary: RunSummary,
        trial_filter: TrialFilter,
        sort: str = "position",
        after: str = "",
        limit: int = 50,
        *,
        revealed: bool = False,
    ) -> TrialPage:
        """Returns one page of a run's finished trials.

        Args:
            store: has the run.
            run_summary: the run.
            trial_filter: selects the trials.
            sort: one of `SORTS`, with `-` before it for descending order.
            after: `next` or `previous` of another page; empty for the first page.
            limit: the maximum number of trials.
            revealed: whether the texts and numbers of held-out trials are searched and sorted by, too.

        Raises:
            StoreError: the store cannot be read.
        """
        cursor = _CURSOR.fullmatch(after)
        back = cursor is not None and cursor[1] == "-"
        start = None if cursor is None else (int(cursor[2]), int(cursor[3]))
        select = self._select(store, run_summary, trial_filter, sort, revealed=revealed)
        places = select.find(start, limit + 1, back)
        more = len(places) > limit
        places = places[:limit][:: -1 if back else 1]
        before = bool(places) and (more if back else start is not None)
        behind = bool(places) and (start is not None if back else more)
        return TrialPage(
            places=tuple(places),
            total=select.total,
            next=_format_cursor(places[-1]) if behind else None,
            previous=f"-{_format_cursor(places[0])}" if before else None,
        )

    def neighbours(
        self,
        store: Store,
        run_summary: RunSummary,
        trial_filter: TrialFilter,
        sort: str,
        place: Place,
        *,
        revealed: bool = False,
    ) -> tuple[Place | None, Place | None]:
        """Returns the trials before and after one; None if there is none. The arguments are as for `page`."""
        select = self._select(store, run_summary, trial_filter, sort, revealed=revealed)
        before, after = select.find(place, 1, True), select.find(place, 1, False)
        return before[0] if before else None, after[0] if after else None

    def _select(
        self, store: Store, run_summary: RunSummary, trial_filter: TrialFilter, sort: str, *, revealed: bool
    ) -> _Selection:
        run, verdicts = run_summary.run, trial_filter.verdicts
        if sort == "position" and trial_filter == TrialFilter(verdicts=verdicts):

            def find(start: Place | None, limit: int, back: bool) -> list[Place]:
                return store.trial_places(run.id, verdicts, start, limit, back=back)

            return _Selection(find, _count(run_summary.totals.tally.all, verdicts))
        table = self._load(store, run, trial_filter)
        rows = table.select(trial_filter, revealed=revealed)
        order = table.sort(sort if sort.removeprefix("-") in SORTS else "position", revealed=revealed)
        return _Selection(lambda *arguments: table.find(order, rows, *arguments), rows.count(1))

    def _load(self, store: Store, run: Run, trial_filter: TrialFilter) -> _TrialTable:
        """Returns a table with all that a filter needs; one that was made before if the run is the same."""
        with self._lock:
            lock = self._locks.setdefault(run.id, Lock())
        with lock:
            totals = store.totals(run.id)
            table = self._tables.get(run.id)
            if table is None or table.version != (totals.key, totals.changes):
                table = _TrialTable((totals.key, totals.changes))
                table.read_trials(store, run)
            if (trial_filter.category or trial_filter.tags) and not table.has_cases:
                table.read_cases(store, run)
            if trial_filter.text and not table.has_texts:
                table.read_texts(store, run)
        with self._lock:
            self._tables[run.id] = table
            self._tables.move_to_end(run.id)
            while len(self._tables) > 1 and sum(map(len, self._tables.values())) > _MAX_ROWS:
                self._tables.popitem(last=False)
        return table


class _Selection(NamedTuple):
    """The trials that a filter selects, in an order."""

    find: Callable[[Place | None, int, bool], list[Place]]
    """Returns at most so many trials after one, or from the first on; True goes towards the first."""
    total: int


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

    def __init__(self, version: tuple[int, int]) -> None:
        self.version = version
        """The key of the run, and the number of changes to its trials."""
        self.has_cases = self.has_texts = False
        self._places = array("q")
        """The places, each as one number."""
        self._case_ids: list[str] = []
        self._numbers = {name: array("d") for name in ("score", "latency", "cost")}
        self._trial_codes = array("L")
        self._trial_labels: dict[_TrialLabels, int] = {}
        self._case_codes = array("L")
        """By the position of a case."""
        self._case_labels: dict[_CaseLabels, int] = {}
        self._texts = _TextFile()
        self._sealed_texts = _TextFile()
        self._orders: dict[tuple[str, bool], array[int]] = {}
        self._selections: OrderedDict[tuple[TrialFilter, bool], bytearray] = OrderedDict()

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self._places)

    def read_trials(self, store: Store, run: Run) -> None:
        """Reads what trials are filtered and sorted by."""
        for trial, verdict in _iter_finished(store, run):
            score, output = trial_score(trial), trial.output
            self._places.append(_encode_place((trial.position, trial.repeat)))
            self._case_ids.append(trial.case_id)
            self._numbers["score"].append(nan if score is None else score)
            self._numbers["latency"].append(nan if output is None else output.latency_ms)
            cost = None if output is None else output.cost_usd
            self._numbers["cost"].append(nan if cost is None else cost)
            graders = tuple([score.grader for score in trial.scores])
            missed = tuple([score.grader for score in trial.scores if score.outcome is not Verdict.PASS])
            labels = _TrialLabels(verdict, trial.split, graders, missed)
            self._trial_codes.append(self._trial_labels.setdefault(labels, len(self._trial_labels)))

    def read_cases(self, store: Store, run: Run) -> None:
        """Reads the categories and tags of the cases."""
        self._case_codes = array("L")
        for head in store.case_heads(run.suite.content):
            labels = _CaseLabels(head.category, head.tags)
            self._case_codes.append(self._case_labels.setdefault(labels, len(self._case_labels)))
        self.has_cases = True

    def read_texts(self, store: Store, run: Run) -> None:
        """Reads the texts that a search covers."""
        self._texts, self._sealed_texts = _TextFile(), _TextFile()
        heads, head, position = store.case_heads(run.suite.content), CaseHead(id=""), -1
        for trial, verdict in _iter_finished(store, run):
            while position < trial.position:
                head, position = next(heads, head), position + 1
            row = self._find_row((trial.position, trial.repeat))
            if row is None:
                continue  # stored since the rows were read
            answer = "" if trial.output is None else trial.output.text
            reason = "" if verdict is Verdict.PASS else failure_reason(trial)
            text = "\n".join((trial.case_id, question_text(head), answer, reason))
            if trial.split == "holdout":
                self._sealed_texts.add(row, text)
                text = trial.case_id
            self._texts.add(row, text)
        self._texts.flush()
        self._sealed_texts.flush()
        self.has_texts = True

    def select(self, trial_filter: TrialFilter, *, revealed: bool) -> bytearray:
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
        if trial_filter.text:
            texts = (self._texts, self._sealed_texts) if revealed else (self._texts,)
            rows = {row for text_file in texts for row in text_file.find(trial_filter.text)}.intersection(
                rows
            )
        return rows

    def sort(self, sort: str, *, revealed: bool) -> array[int]:
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

    def find(
        self, order: array[int], selection: bytearray, start: Place | None, limit: int, back: bool
    ) -> list[Place]:
        """Returns at most so many selected trials after one in an order; `back` goes towards the first."""
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


def _iter_finished(store: Store, run: Run) -> Iterator[tuple[Trial, Verdict]]:
    return ((stored.trial, stored.verdict) for stored in store.trials(run.id) if stored.verdict is not None)


def _encode_place(place: Place) -> int:
    return place[0] * _MAX_REPEATS + place[1]


class _TextFile:
    """Texts of rows, ignoring case: few in memory, many in a temporary file without a name."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_MAX_BYTES_IN_MEMORY)  # noqa: SIM115  # open as long as its table
        finalize(self, self._file.close)
        self._lock = Lock()
        self._chunks: list[tuple[array[int], int]] = []
        """The rows of each chunk, and its number of bytes."""
        self._pending: list[tuple[int, bytes]] = []

    def add(self, row: int, text: str) -> None:
        """Adds the text of a row."""
        self._pending.append((row, _fold_case(text)))
        if len(self._pending) == _TEXTS_PER_CHUNK:
            self.flush()

    def flush(self) -> None:
        """Writes what was added."""
        if not self._pending:
            return
        body = _SEPARATOR.join([text for _, text in self._pending])
        self._chunks.append((array("L", [row for row, _ in self._pending]), len(body)))
        self._file.write(body)
        self._pending.clear()

    def find(self, text: str) -> Iterator[int]:
        """Yields the rows whose text contains a text."""
        needle = _fold_case(text)
        with self._lock:
            self._file.seek(0)
            for rows, size in self._chunks:
                body = self._file.read(size)
                if needle in body:
                    yield from (
                        row
                        for row, content in zip(rows, body.split(_SEPARATOR), strict=True)
                        if needle in content
                    )


def _fold_case(text: str) -> bytes:
    return text.casefold().encode("utf-8", "surrogatepass").replace(_SEPARATOR, b" ")


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
    for position, repeat in places:
        case_in_run = store.case_in_run(run, position)
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
                latency_ms=None if output is None else output.latency_ms,
                cost_usd=None if output is None else output.cost_usd,
                question=question_text(case)[:_MAX_PREVIEW],
                answer="" if output is None else output.text[:_MAX_PREVIEW],
                why="" if verdict is Verdict.PASS else failure_reason(trial)[:_MAX_PREVIEW],
            )
