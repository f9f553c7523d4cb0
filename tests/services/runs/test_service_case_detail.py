"""The detail of one case of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proctor.errors import NothingSelected
from proctor.model import Run, Settings, Verdict
from proctor.services.runs.reading.case_detail import find_same_case, load_case_detail
from proctor.stores.sqlite.store import SqliteStore
from support.builders import make_case, make_score, make_trial
from support.stores import add_run, save_cases

AddRun = Callable[..., Run]


@pytest.fixture
def add_case_run(store: SqliteStore) -> Callable[..., Run]:
    """Adds a run of cases with these ids, each with its own question."""

    def make(run_id: str = "r1", ids: str = "abc", **fields: Any) -> Run:
        cases = [make_case(name, f"Question {name}?") for name in ids]
        suite_fields = {name: fields.pop(name) for name in ("repeats_rule",) if name in fields}
        suite = save_cases(
            store, cases, dialect="proctor", digest=f"sha256:{ids.encode().hex():0<64}", **suite_fields
        )
        return add_run(store, suite, **{"id": run_id, "planned": 3} | fields)

    return make


def test_all_repeats_come_in_order_with_what_they_are_together(
    store: SqliteStore, add_case_run: AddRun
) -> None:
    run = add_case_run(settings=Settings(repeats=2), repeats_rule="any")
    for repeat, value, verdict in ((1, 1.0, Verdict.PASS), (0, 0.0, Verdict.FAIL)):
        store.save_trial(run.id, make_trial("b", make_score(value), position=1, repeat=repeat), verdict)
    store.flush()
    detail = load_case_detail(store, run, 1, reveal=False)
    assert detail.case.id == "b"
    assert [row.verdict for row in detail.rows] == [Verdict.FAIL, Verdict.PASS]
    assert (detail.planned, detail.together) == (2, Verdict.PASS)
    assert detail.get_row(1).trial.repeat == 1
    with pytest.raises(NothingSelected, match="no finished repeat 2"):
        detail.get_row(2)


def test_without_all_repeats_or_a_rule_nothing_is_said_of_all(
    store: SqliteStore, add_case_run: AddRun
) -> None:
    for run_id, rule in (("r1", "any"), ("r2", "each")):
        run = add_case_run(run_id, settings=Settings(repeats=2), repeats_rule=rule)
        store.save_trial(run.id, make_trial("a"), Verdict.UNSCORED)
        store.flush()
        assert load_case_detail(store, run, 0, reveal=False).together is None


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("running", "has not been sent yet in run r1, which is in progress"),
        ("interrupted", "which was stopped. To resume it: `proctor run --resume=r1`"),
        ("finished", "was not selected"),
    ],
)
def test_a_case_without_a_trial_says_why(
    store: SqliteStore, add_case_run: AddRun, status: str, words: str
) -> None:
    with pytest.raises(NothingSelected, match=words):
        load_case_detail(store, add_case_run(status=status), 2, reveal=False)


def test_an_answer_that_waits_for_its_judges_is_not_shown(store: SqliteStore, add_case_run: AddRun) -> None:
    run = add_case_run()
    store.save_output(run.id, make_trial("a"))
    store.flush()
    with pytest.raises(NothingSelected, match="is not judged yet"):
        load_case_detail(store, run, 0, reveal=False)


@pytest.mark.parametrize("position", [-1, 3, 2**63, 10**30])
def test_a_place_that_the_suite_does_not_have_is_a_sentence(
    store: SqliteStore, add_case_run: AddRun, position: int
) -> None:
    with pytest.raises(NothingSelected, match="no case at position"):
        load_case_detail(store, add_case_run(), position, reveal=False)


def test_what_is_held_out_is_sealed_unless_it_is_revealed(store: SqliteStore, add_case_run: AddRun) -> None:
    run = add_case_run()
    store.save_trial(run.id, make_trial("a", split="holdout"), Verdict.UNSCORED)
    store.flush()
    detail = load_case_detail(store, run, 0, reveal=False)
    assert (detail.is_sealed, detail.is_held_out) == (True, True)
    assert detail.case.input == ()
    assert detail.rows[0].trial.output is None
    assert load_case_detail(store, run, 0, reveal=True).case.input


def test_other_runs_that_asked_the_same_are_told_newest_first(
    store: SqliteStore, add_case_run: AddRun
) -> None:
    runs = [add_case_run(f"r{n}", ids) for n, ids in enumerate(("abc", "cba", "abd", "xyz"))]
    for run, position in zip(runs, (0, 2, 0, 0), strict=True):
        store.save_trial(run.id, make_trial("a", position=position), Verdict.PASS)
    store.flush()
    detail = load_case_detail(store, runs[0], 0, reveal=False)
    assert [(entry.run.id, entry.position) for entry in detail.history] == [("r2", 0), ("r1", 2)]
    assert detail.history[0].verdicts == (Verdict.PASS,)
    assert load_case_detail(store, runs[0], 0, reveal=False, history=0).history == ()
    assert find_same_case(store, runs[0], 0, runs[1]) == 2
    with pytest.raises(NothingSelected, match="no case with the same input or id"):
        find_same_case(store, runs[0], 0, runs[3])
