"""The grid of several runs: pairing of cases, filters, order and pages of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.model import Case, Output, PassRule, Run, Score, Settings, SplitRule, Verdict
from proctor.protocols import Store
from proctor.services.runs.reading import grid as grids
from proctor.services.runs.reading.grid import GridFilter, GridFinder, GridKind, GridQuery, pair_cases
from proctor.services.runs.reading.grid_cells import GridRow, read_grid_rows
from proctor.services.runs.reading.run_summaries import RunSummary, SummaryReader
from proctor.services.runs.reading.trial_table import TrialFinder
from proctor.stores import open_store
from support.builders import make_case, make_score, make_trial
from support.stores import add_run, save_cases

VERDICTS = {"p": Verdict.PASS, "f": Verdict.FAIL, "e": Verdict.ERROR, "u": Verdict.UNSCORED}


class RunsInStore:
    """A store with runs, each given by the letters of its verdicts."""

    def __init__(self) -> None:
        self.store: Store = open_store(":memory:")
        self.finder, self.trials = GridFinder(), TrialFinder()
        self.runs: list[Run] = []
        self.progress: list[tuple[int, int]] = []

    def add(
        self,
        verdicts: str,
        cases: Sequence[Case] | None = None,
        *,
        name: str = "s",
        texts: dict[int, str] | None = None,
        **fields: Any,
    ) -> Run:
        """Adds a run with one case for each letter, `-` for none; `p|f` has the repeats p and f."""
        letters = verdicts.split() if " " in verdicts else list(verdicts)
        cases = cases or [make_case(f"c{place}", tags=(f"t{place % 2}",)) for place in range(len(letters))]
        holdout = fields.pop("holdout", ())
        suite = save_cases(
            self.store,
            cases,
            name=name,
            split_rule=SplitRule() if holdout else None,
            repeats_rule=fields.pop("repeats_rule", "each"),
            digest=f"sha256:{len(self.runs):064}",
        )
        run = add_run(self.store, suite, id=f"r{len(self.runs)}", **fields)
        for place, word in enumerate(letters):
            for repeat, letter in enumerate(word.replace("-", "").split("|") if word != "-" else ()):
                trial = self._trial(letter, run, place, (texts or {}).get(place))
                split = ("holdout" if place in holdout else "dev") if holdout else None
                trial = replace(trial, case_id=cases[place].id, position=place, repeat=repeat, split=split)
                self.store.save_trial(run.id, trial, VERDICTS[letter])
        self.store.update_run(replace(run, status="finished"))
        self.runs.append(self.store.run(run.id))
        return self.runs[-1]

    def _trial(self, letter: str, run: Run, place: int, text: str | None) -> Any:
        if letter == "e":
            return make_trial(None)
        score: Score = make_score({"p": 1.0, "f": 0.25 * (place % 3), "u": None}[letter], reason="why")
        number = int(run.id[1:])
        output = Output(
            text=text or f"Answer {place} of {run.id}",
            latency_ms=100.0 * (place + 1) + number,
            cost_usd=0.01 * (10 - place) + 0.001 * number,
        )
        return replace(make_trial("", score), output=output)

    def summaries(self) -> list[RunSummary]:
        reader = SummaryReader(None)  # type: ignore[arg-type]  # an open store is given
        return [reader.refresh_in(self.store, run) for run in self.runs]

    def rows(self, sort: str = "position", revealed: Sequence[str] = (), **words: Any) -> list[str]:
        """The ids of the selected cases, in order."""
        query = GridQuery(filter=GridFilter(**words), sort=sort, revealed=frozenset(revealed))
        selection = self.finder.select(
            self.store, self.trials, self.summaries(), query, lambda *counts: self.progress.append(counts)
        )
        return [selection.grid.case_ids[row] for row in selection.rows]

    def cells(self, revealed: Sequence[str] = ()) -> list[GridRow]:
        selection = self.finder.select(self.store, self.trials, self.summaries(), GridQuery())
        return list(read_grid_rows(self.store, selection.grid, self.runs, selection.rows, set(revealed)))


@pytest.fixture
def runs() -> Iterator[RunsInStore]:
    runs = RunsInStore()
    yield runs
    runs.store.close()


def test_cases_of_several_suites_are_paired_by_id_in_the_order_of_the_first() -> None:
    ids, positions = pair_cases([["b", "a"], ["x", "a"], []])
    assert ids == ["b", "a", "x"]
    assert [list(places) for places in positions] == [[0, 1, -1], [-1, 1, 0], [-1, -1, -1]]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (None, "c0 c1 c2 c3 c4 c5"),
        ("differ", "c1 c2 c4"),
        ("failed", "c3"),
        ("broken", "c1"),
        ("fixed", "c2"),
    ],
)
def test_rows_are_selected_by_how_the_verdicts_differ(
    runs: RunsInStore, kind: GridKind | None, expected: str
) -> None:
    runs.add("ppffp-")
    runs.add("pfpfep")
    assert runs.rows(kind=kind) == expected.split()


def test_a_case_that_no_run_has_is_no_row(runs: RunsInStore) -> None:
    runs.add("p-f")
    runs.add("p-p")
    assert runs.rows() == ["c0", "c2"]


def test_rows_are_selected_by_tag_and_by_a_text_of_any_run(runs: RunsInStore) -> None:
    runs.add("pppp")
    runs.add("pppp", texts={2: "A Zebra", 3: "zebra too"})
    assert runs.rows(tags=("t1",)) == ["c1", "c3"]
    assert runs.rows(tags=("t0,t1",)) == ["c0", "c1", "c2", "c3"]
    assert runs.rows(text="ZEBRA") == ["c2", "c3"]
    assert runs.rows(text="zebra", tags=("t1",)) == ["c3"]
    assert runs.rows(text="of r0") == ["c0", "c1", "c2", "c3"]
    assert runs.rows(text="c1") == ["c1"]


def test_rates_count_the_selected_cases_that_passed_or_failed(runs: RunsInStore) -> None:
    runs.add("ppfe-f")
    runs.add("pffpup")
    query = GridQuery(filter=GridFilter(tags=("t1",)))
    rates = runs.finder.select(runs.store, runs.trials, runs.summaries(), query).rates()
    assert [(rate.measured, rate.passed) for rate in rates] == [(2, 1), (3, 2)]
    errors = GridQuery(filter=GridFilter(text="Too late"))
    rates = runs.finder.select(runs.store, runs.trials, runs.summaries(), errors).rates()
    assert [rate.share for rate in rates] == [None, 1.0]


def test_most_disagreement_is_the_most_pairs_of_pass_and_fail_and_then_the_scores(runs: RunsInStore) -> None:
    runs.add("pppp")
    runs.add("pfff")
    runs.add("pfpp")
    # c1: two opposed pairs; c2 and c3: two, by scores 0.5 and 0 against 1.
    assert runs.rows("-disagreement") == ["c3", "c1", "c2", "c0"]
    assert runs.rows("disagreement")[0] == "c0"


def test_rows_are_sorted_by_total_cost_and_by_the_slowest_answer(runs: RunsInStore) -> None:
    runs.add("pppe")
    runs.add("ppp-")
    assert runs.rows("-cost") == ["c0", "c1", "c2", "c3"]
    assert runs.rows("cost") == ["c2", "c1", "c0", "c3"], "an unknown number comes last"
    assert runs.rows("-latency") == ["c2", "c1", "c0", "c3"]
    assert runs.rows("-position") == ["c3", "c2", "c1", "c0"]
    assert runs.rows("nonsense") == ["c0", "c1", "c2", "c3"]


def test_numbers_and_texts_of_hidden_answers_are_neither_sorted_by_nor_searched(runs: RunsInStore) -> None:
    run = runs.add("pppp", holdout=(0,), texts={0: "zebra"})
    assert runs.rows("-cost") == ["c1", "c2", "c3", "c0"]
    assert runs.rows(text="zebra") == []
    assert runs.rows("-cost", revealed=[run.id]) == ["c0", "c1", "c2", "c3"]
    assert runs.rows(text="zebra", revealed=[run.id]) == ["c0"]


def test_pages_lead_forwards_and_back(runs: RunsInStore) -> None:
    runs.add("p" * 7)
    selection = runs.finder.select(runs.store, runs.trials, runs.summaries(), GridQuery())
    first = selection.page("", 3)
    second = selection.page(first.next or "", 3)
    third = selection.page(second.next or "", 3)
    assert [page.rows for page in (first, second, third)] == [(0, 1, 2), (3, 4, 5), (6,)]
    assert (first.previous, third.next, third.total, third.first) == (None, None, 7, 6)
    assert selection.page(third.previous or "", 3) == second
    assert selection.page(second.previous or "", 3) == first
    for word in ("99", "-99", "x", "-", "1" * 100, "²"):
        assert selection.page(word, 3) == first


def test_what_was_read_is_read_once(runs: RunsInStore) -> None:
    runs.add("pf")
    runs.add("fp")
    query = GridQuery(filter=GridFilter(kind="differ"))
    assert runs.finder.find(runs.store, runs.runs, query) is None
    runs.rows(kind="differ")
    selection = runs.finder.find(runs.store, runs.runs, query)
    assert selection is not None
    assert selection.grid.counts == {None: 2, "differ": 2, "failed": 0, "broken": 1, "fixed": 1}
    assert runs.finder.find(runs.store, runs.runs, GridQuery(sort="-cost")) is None, "not sorted yet"
    assert runs.finder.find(runs.store, runs.runs[::-1], query) is None, "another grid"


def test_a_run_that_goes_on_is_read_again(runs: RunsInStore) -> None:
    run = runs.add("p-")
    assert runs.rows() == ["c0"]
    runs.store.save_trial(run.id, make_trial("x", make_score(1), case_id="c1", position=1), Verdict.PASS)
    runs.store.flush()
    assert runs.rows() == ["c0", "c1"]


def test_memory_is_bounded(runs: RunsInStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "_MAX_CELLS", 3)
    runs.add("pp")
    assert runs.rows() == ["c0", "c1"]
    first = [*runs.runs]
    runs.add("pp")
    assert runs.rows() == ["c0", "c1"]
    assert runs.finder.find(runs.store, first, GridQuery()) is None
    assert runs.finder.find(runs.store, runs.runs, GridQuery()) is not None


def test_a_cell_has_the_verdict_of_its_worst_repeat_and_how_many_passed(runs: RunsInStore) -> None:
    runs.add("p|f|p p|p|p p|e|u", settings=Settings(repeats=3))
    cells = [row.cells[0] for row in runs.cells()]
    facts = [
        (cell.verdict.value, cell.trial.trial.repeat, cell.passed_count, cell.trial_count)
        for cell in cells
        if cell is not None
    ]
    assert facts == [("fail", 1, 2, 3), ("pass", 0, 3, 3), ("error", 1, 1, 3)]
    assert runs.rows(kind="failed") == ["c0"]


def test_a_rule_over_repeats_decides(runs: RunsInStore) -> None:
    cases = [make_case("c0"), make_case("c1", pass_rule=PassRule(threshold=0.5)), make_case("c2")]
    runs.add("f|p p|f f|f", cases, settings=Settings(repeats=2), repeats_rule="any")
    cells = [row.cells[0] for row in runs.cells()]
    assert [cell and (cell.verdict.value, cell.trial.trial.repeat) for cell in cells] == [
        ("pass", 1),
        ("pass", 0),
        ("fail", 0),
    ]
    assert runs.rows(kind="failed") == ["c2"]


def test_an_edited_case_is_paired_and_says_so(runs: RunsInStore) -> None:
    runs.add("pp", [make_case("a", "One?"), make_case("b", "Two?")])
    runs.add("fpp", [make_case("b", "Two!"), make_case("a", "One?"), make_case("new")], name="t")
    rows = runs.cells()
    assert [row.case_id for row in rows] == ["a", "b", "new"]
    flags = [[cell and cell.has_other_input for cell in row.cells] for row in rows]
    assert flags == [[False, False], [False, True], [None, False]]
    assert [cell and cell.verdict.value for cell in rows[1].cells] == ["pass", "fail"]


def test_a_cell_begins_with_the_answer_without_reasoning(runs: RunsInStore) -> None:
    runs.add("ppe", texts={0: "<think>Hm.</think>\n\nLima", 1: "x" * 1000})
    answers = [row.cells[0].answer for row in runs.cells() if row.cells[0] is not None]
    assert answers == ["Lima", "x" * 240, "timeout: Too late."]


def test_a_hidden_cell_has_its_verdict_alone(runs: RunsInStore) -> None:
    run = runs.add("pf", holdout=(1,), texts={1: "secret"})
    sealed_row = runs.cells()[1]
    cell = sealed_row.cells[0]
    assert cell is not None
    assert (cell.sealed, cell.verdict, cell.answer, cell.output) == (True, Verdict.FAIL, "", None)
    assert (sealed_row.question, sealed_row.case) == ("", None)
    assert "secret" not in repr(sealed_row)
    revealed_row = runs.cells([run.id])[1]
    assert (revealed_row.question, revealed_row.cells[0] and revealed_row.cells[0].answer) == (
        "2 + 2?",
        "secret",
    )


def test_progress_counts_the_trials_of_all_runs(runs: RunsInStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.services.runs.reading.grid_column._TRIALS_PER_REPORT", 1)
    runs.add("ppp")
    runs.add("pp")
    runs.rows()
    assert runs.progress[0] == (0, 5)
    assert runs.progress[-1] == (5, 5)
