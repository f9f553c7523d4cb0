"""Filters, order and pages of a run's trials, compared with the same on a plain list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from proctor.model import Output, PassRule, Score, Trial, Verdict
from proctor.plan import split_tags
from proctor.protocols import Store
from proctor.services.runs.reading.run_summaries import SummaryReader
from proctor.services.runs.reading.trial_table import (
    SORTS,
    VERDICTS,
    TrialFilter,
    TrialFinder,
    TrialPage,
    TrialQuery,
    TrialSelection,
    read_table_rows,
)
from proctor.stores import open_store
from proctor.verdicts import decide_verdict
from support.builders import NOON, make_case
from support.stores import add_run, save_cases

ALL = TrialFilter()


class Row(Struct, frozen=True, kw_only=True):
    """A trial to store; texts that are searched are all in its answer."""

    position: int
    repeat: int = 0
    case_id: str = "c"
    score: float | None = None
    split: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    latency_ms: float | None = None
    cost_usd: float | None = None
    answer: str = ""
    graders: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[int, int]:
        return self.position, self.repeat

    @property
    def verdict(self) -> Verdict:
        return decide_verdict(self.trial(), PassRule())

    def trial(self) -> Trial:
        scores = [
            Score(
                grader=name,
                name=name,
                value=self.score,
                outcome=Verdict.FAIL if name in self.missed else Verdict.PASS,
                reason="no",
            )
            for name in self.graders
        ]
        output = None
        if self.latency_ms is not None:
            output = Output(text=self.answer, latency_ms=self.latency_ms, cost_usd=self.cost_usd)
        fields: dict[str, Any] = {"case_id": self.case_id, "position": self.position, "repeat": self.repeat}
        return Trial(
            **fields, sent="sha256:0", split=self.split, output=output, scores=tuple(scores), started_at=NOON
        )


class TableBench:
    """Runs in a store with readers of their trials."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.finder = TrialFinder()
        self.summaries = SummaryReader(lambda: nullcontext(store))

    def add(self, *rows: Row, run_id: str = "r1") -> None:
        """Stores a run with these trials; the category and tags of a case are those of its last row."""
        by_position = {row.position: row for row in rows}
        cases = []
        for position in range(max(by_position, default=0) + 1):
            row = by_position.get(position, Row(position=position))
            cases.append(make_case(f"{position}", f"q {position}?", category=row.category, tags=row.tags))
        add_run(self.store, save_cases(self.store, cases, name=run_id), id=run_id)
        self.save(*rows, run_id=run_id)

    def save(self, *rows: Row, run_id: str = "r1") -> None:
        for row in rows:
            self.store.save_trial(run_id, row.trial(), row.verdict)
        self.store.flush()

    def select(
        self,
        trial_filter: TrialFilter,
        sort: str = "position",
        *,
        run_id: str = "r1",
        revealed: bool = False,
        on_progress: Callable[[int, int], None] = lambda _count, _total: None,
    ) -> TrialSelection:
        summary = self.summaries.refresh_in(self.store, self.store.run(run_id), 60)
        query = TrialQuery(filter=trial_filter, sort=sort, revealed=revealed)
        return self.finder.select(self.store, summary, query, on_progress)

    def page(
        self,
        trial_filter: TrialFilter,
        sort: str = "position",
        after: str = "",
        limit: int = 50,
        **choices: Any,
    ) -> TrialPage:
        return self.select(trial_filter, sort, **choices).page(after, limit)

    def find_positions(self, trial_filter: TrialFilter, *arguments: Any, **choices: Any) -> list[int]:
        return [position for position, _ in self.page(trial_filter, *arguments, **choices).places]


@pytest.fixture
def bench() -> Iterator[TableBench]:
    with closing(open_store(":memory:")) as store:
        yield TableBench(store)


# --- against a plain list ----------------------------------------------------------------------------------

NAMES = ("a", "b", "ab", "É", " a")
names = st.sampled_from(NAMES)
several = st.lists(names, max_size=2, unique=True).map(tuple)
numbers = st.sampled_from([None, 0.0, 0.5, 1.0, 7.5])


@st.composite
def some_rows(draw: st.DrawFn) -> list[Row]:
    places = draw(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=20))
    cases = {position: (draw(st.none() | names), draw(several)) for position in range(10)}
    return [_draw_row(draw, *place, *cases[place[0]]) for place in sorted(places)]


def _draw_row(
    draw: st.DrawFn, position: int, repeat: int, category: str | None, tags: tuple[str, ...]
) -> Row:
    graders, latency = draw(several), draw(numbers)
    return Row(
        position=position,
        repeat=repeat,
        case_id=draw(names),
        score=draw(numbers) if graders else None,
        split=draw(st.sampled_from([None, "dev", "holdout"])),
        category=category,
        tags=tags,
        latency_ms=latency,
        cost_usd=None if latency is None else draw(numbers),
        answer="" if latency is None else draw(names),
        graders=graders,
        missed=graders[:1],
    )


filters = st.builds(
    TrialFilter,
    verdicts=st.lists(st.sampled_from([verdict.value for verdict in VERDICTS]), max_size=3).map(tuple),
    tags=several,
    graders=several,
    missed=several,
    category=st.just("") | names,
    split=st.sampled_from(["", "dev", "holdout"]),
    case=st.just("") | names,
    text=st.just("") | names,
)


def matches(row: Row, trial_filter: TrialFilter, *, revealed: bool) -> bool:
    texts = [row.case_id]
    if row.split != "holdout" or revealed:
        reasons = [f"{name}: no" for name in row.missed] if row.verdict is not Verdict.PASS else []
        if not reasons and row.verdict is not Verdict.PASS:
            reasons = [
                "no assertion that counts could be scored" if row.score is None else "no assertion failed"
            ]
        texts += [f"q {row.position}?", row.answer, *reasons]
    return (
        (not trial_filter.verdicts or row.verdict.value in trial_filter.verdicts)
        and all(set(split_tags(word)) & set(row.tags) for word in trial_filter.tags)
        and set(trial_filter.graders) <= set(row.graders)
        and set(trial_filter.missed) <= set(row.missed)
        and trial_filter.category in ("", row.category)
        and trial_filter.split in ("", row.split)
        and trial_filter.case in ("", row.case_id)
        and any(trial_filter.text.casefold() in text.casefold() for text in texts)
    )


def sort_places(rows: Sequence[Row], sort: str, *, down: bool, revealed: bool) -> list[tuple[int, int]]:
    def key(row: Row) -> Any:
        if row.split == "holdout" and not revealed and sort in ("latency", "cost"):
            return None
        values = {"case": row.case_id, "verdict": VERDICTS.index(row.verdict), "position": row.place}
        return {**values, "score": row.score, "latency": row.latency_ms, "cost": row.cost_usd}[sort]

    sorted_rows = sorted((row for row in rows if key(row) is not None), key=key, reverse=down)
    return [row.place for row in (*sorted_rows, *(row for row in rows if key(row) is None))]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(some_rows(), filters, st.sampled_from(SORTS), st.booleans(), st.booleans(), st.integers(1, 5))
def test_pages_forth_and_back_are_those_of_a_plain_list(
    rows: list[Row], trial_filter: TrialFilter, sort: str, down: bool, revealed: bool, limit: int
) -> None:
    fitting = [row for row in rows if matches(row, trial_filter, revealed=revealed)]
    places = sort_places(fitting, sort, down=down, revealed=revealed)
    expected = [tuple(places[start : start + limit]) for start in range(0, len(places), limit)] or [()]
    word = f"-{sort}" if down else sort
    with closing(open_store(":memory:")) as store:
        bench = TableBench(store)
        bench.add(*rows)
        pages = [bench.page(trial_filter, word, "", limit, revealed=revealed)]
        while (after := pages[-1].next) is not None:
            pages.append(bench.page(trial_filter, word, after, limit, revealed=revealed))
        assert [page.places for page in pages] == expected
        assert {page.total for page in pages} == {len(places)}
        assert pages[0].previous is None
        for earlier, later in pairwise(pages):
            assert later.previous is not None
            back = bench.page(trial_filter, word, later.previous, limit, revealed=revealed)
            assert back.places == earlier.places
            assert (back.next is None, back.previous is None) == (False, earlier.previous is None)
        around = [bench.select(trial_filter, word, revealed=revealed).neighbours(place) for place in places]
    assert around == list(zip([None, *places[:-1]], [*places[1:], None], strict=True))[: len(places)]


# --- filters -----------------------------------------------------------------------------------------------


def test_each_word_of_a_filter_leaves_out_what_does_not_fit(bench: TableBench) -> None:
    bench.add(
        Row(position=0, case_id="c0", answer="An answer", latency_ms=1, tags=("x", "y"), category="c"),
        Row(position=1, case_id="c1", answer="Ein Spaß", latency_ms=1, tags=("xx",), category="cc"),
        Row(position=2, case_id="c2", answer="ÉTÉ\n100%_", latency_ms=1, tags=("x",)),
        Row(position=3, case_id="Été", answer="été", latency_ms=1),
    )
    expected = {
        TrialFilter(tags=("x", "y")): [0],
        TrialFilter(tags=("y,xx",)): [0, 1],
        TrialFilter(tags=("x", "y, xx")): [0],
        TrialFilter(tags=(",",)): [],
        TrialFilter(category="c"): [0],
        TrialFilter(case="c*"): [0, 1, 2],
        TrialFilter(case="[!a-c]*"): [3],
        TrialFilter(case="C1"): [],
        TrialFilter(text="ANSWER"): [0],
        TrialFilter(text="Q 1?"): [1],
        TrialFilter(text="spass"): [1],
        TrialFilter(text="été"): [2, 3],
        TrialFilter(text="%_"): [2],
        TrialFilter(text="C2"): [2],
        TrialFilter(verdicts=("nonsense",)): [],
    }
    for trial_filter, positions in expected.items():
        page = bench.page(trial_filter)
        assert ([place[0] for place in page.places], page.total) == (positions, len(positions)), trial_filter


def test_a_text_is_not_found_across_two_trials_nor_in_another_run(bench: TableBench) -> None:
    bench.add(Row(position=0, answer="begin", latency_ms=1), Row(position=1, case_id="nings", latency_ms=1))
    bench.add(Row(position=0, answer="beginnings", latency_ms=1), run_id="r2")
    for text in ("begin\0nings", "beginnings"):
        assert bench.find_positions(TrialFilter(text=text)) == []
    assert bench.find_positions(TrialFilter(text="beginnings"), run_id="r2") == [0]


def test_a_text_is_found_in_many_trials_and_in_those_that_are_added_later(bench: TableBench) -> None:
    bench.add(*[Row(position=place, answer=f"rare {place}", latency_ms=1) for place in range(600)])
    assert bench.page(TrialFilter(text="rare")).total == 600
    assert bench.find_positions(TrialFilter(text="rare 599")) == [599]
    bench.save(Row(position=3, repeat=1, answer="rare 599", latency_ms=1))
    assert bench.find_positions(TrialFilter(text="rare 599")) == [3, 599]


def test_an_address_that_makes_no_sense_shows_a_page_all_the_same(bench: TableBench) -> None:
    bench.add(Row(position=0), Row(position=1))
    for sort, after in (
        ("nonsense", ""),
        ("--position", ""),
        ("latency; DROP TABLE trials", ""),
        ("", "x.y"),
    ):
        assert bench.find_positions(ALL, sort, after) == [0, 1]
    for sort in ("position", "latency"):
        assert bench.page(ALL, sort, "7.0").places == ()


# --- what is held out --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reveal_first", [False, True])
def test_nothing_of_a_sealed_answer_is_shown_found_or_sorted_by(
    bench: TableBench, reveal_first: bool
) -> None:
    held_out: dict[str, Any] = {"split": "holdout", "cost_usd": 1.0, "score": 0.5}
    bench.add(
        Row(position=0, answer="open", latency_ms=1.0),
        Row(
            position=1,
            case_id="c1",
            answer="secret",
            latency_ms=9.0,
            graders=("g",),
            missed=("g",),
            **held_out,
        ),
        Row(position=2, answer="open", latency_ms=3.0),
    )
    for revealed in (reveal_first, not reveal_first, reveal_first):  # also after another reader has found it
        for text in ("secret", "q 1?"):
            assert bench.find_positions(TrialFilter(text=text), revealed=revealed) == [1] * revealed
        assert bench.find_positions(TrialFilter(text="c1"), revealed=revealed) == [1]
        order = [1, 2, 0] if revealed else [2, 0, 1]
        assert bench.find_positions(ALL, "-latency", revealed=revealed) == order
        (row,) = read_table_rows(bench.store, bench.store.run("r1"), [(1, 0)], revealed=revealed)
        assert (row.sealed, row.case_id, row.score) == (not revealed, "c1", 0.5)
        cells = (row.question, row.answer, row.latency_ms, row.cost_usd)
        assert cells == (("q 1?", "secret", 9.0, 1.0) if revealed else ("", "", None, None))


# --- reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("earlier", "trial_filter", "read"),
    [
        (None, TrialFilter(split="dev"), [(0, 5), (2, 5), (4, 5)]),
        (None, TrialFilter(text="a"), [(0, 5), (2, 5), (4, 5)]),  # not once more for the texts
        (ALL, TrialFilter(text="a"), [(0, 5), (2, 5), (4, 5)]),
        (ALL, TrialFilter(tags=("x",)), [(0, 5), (0, 5), (4, 5)]),  # of two cases, and then of the third
        (ALL, TrialFilter(split="dev"), [(0, 5)]),
        (TrialFilter(split="dev"), TrialFilter(split="dev"), []),
        (None, TrialFilter(verdicts=("pass",)), []),  # in suite order, the store finds them
    ],
)
def test_what_must_be_read_for_a_query_is_told_as_it_is_read(
    bench: TableBench,
    monkeypatch: pytest.MonkeyPatch,
    earlier: TrialFilter | None,
    trial_filter: TrialFilter,
    read: list[tuple[int, int]],
) -> None:
    monkeypatch.setattr("proctor.services.runs.reading.trial_table._TRIALS_PER_REPORT", 2)
    bench.add(*[Row(position=place // 2, repeat=place % 2, latency_ms=1) for place in range(5)])
    sort = "position" if trial_filter.verdicts else "latency"
    if earlier is not None:
        bench.select(earlier, "latency")
    progress: list[tuple[int, int]] = []
    bench.select(trial_filter, sort, on_progress=lambda *counts: progress.append(counts))
    assert progress == read
    bench.select(trial_filter, sort, on_progress=lambda *counts: pytest.fail(f"It is read again: {counts}."))


def test_what_is_searched_in_many_runs_stays_bounded(
    bench: TableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.services.runs.reading.trial_table._MAX_ROWS", 5)
    for number in range(4):
        bench.add(*[Row(position=place, latency_ms=1) for place in range(2)], run_id=f"r{number}")
        assert bench.find_positions(ALL, "latency", run_id=f"r{number}") == [0, 1]
    assert list(bench.finder._tables) == ["r2", "r3"]
    assert bench.find_positions(ALL, "latency", run_id="r0") == [0, 1]
