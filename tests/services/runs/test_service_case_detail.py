"""One case of a run, read alone."""

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

Begin = Callable[..., Run]


@pytest.fixture
def begun(store: SqliteStore) -> Callable[..., Run]:
    """A run of three cases that has begun; `ids` are theirs, and each asks its own question."""

    def make(run_id: str = "r1", ids: str = "abc", **fields: Any) -> Run:
        cases = [make_case(name, f"Question {name}?") for name in ids]
        how = {name: fields.pop(name) for name in ("repeats_rule",) if name in fields}
        suite = save_cases(store, cases, dialect="proctor", digest=f"sha256:{ids.encode().hex():0<64}", **how)
        return add_run(store, suite, **{"id": run_id, "planned": 3} | fields)

    return make


def test_all_repeats_come_in_order_with_what_they_are_together(store: SqliteStore, begun: Begin) -> None:
    run = begun(settings=Settings(repeats=2), repeats_rule="any")
    for repeat, value, verdict in ((1, 1.0, Verdict.PASS), (0, 0.0, Verdict.FAIL)):
        store.save_trial(run.id, make_trial("b", make_score(value), position=1, repeat=repeat), verdict)
    store.flush()
    found = load_case_detail(store, run, 1, reveal=False)
    assert found.case.id == "b"
    assert [row.verdict for row in found.rows] == [Verdict.FAIL, Verdict.PASS]
    assert (found.planned, found.together) == (2, Verdict.PASS)
    assert found.get_row(1).trial.repeat == 1
    with pytest.raises(NothingSelected, match="no finished repeat 2"):
        found.get_row(2)


def test_without_all_repeats_or_a_rule_nothing_is_said_of_all(store: SqliteStore, begun: Begin) -> None:
    for run_id, rule in (("r1", "any"), ("r2", "each")):
        run = begun(run_id, settings=Settings(repeats=2), repeats_rule=rule)
        store.save_trial(run.id, make_trial("a"), Verdict.UNSCORED)
        store.flush()
        assert load_case_detail(store, run, 0, reveal=False).together is None


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("running", "has not been sent yet in run r1, which is in progress"),
        ("interrupted", "which was stopped. To resume it: `proctor run --resume=r1`"),
        ("finished", "was not selected"),
    ],
)
def test_a_case_without_a_trial_says_why(store: SqliteStore, begun: Begin, status: str, said: str) -> None:
    with pytest.raises(NothingSelected, match=said):
        load_case_detail(store, begun(status=status), 2, reveal=False)


def test_an_answer_that_waits_for_its_judges_is_not_shown(store: SqliteStore, begun: Begin) -> None:
    run = begun()
    store.save_output(run.id, make_trial("a"))
    store.flush()
    with pytest.raises(NothingSelected, match="is not judged yet"):
        load_case_detail(store, run, 0, reveal=False)


@pytest.mark.parametrize("position", [-1, 3, 2**63, 10**30])
def test_a_place_that_the_suite_does_not_have_is_a_sentence(
    store: SqliteStore, begun: Begin, position: int
) -> None:
    with pytest.raises(NothingSelected, match="no case at position"):
        load_case_detail(store, begun(), position, reveal=False)


def test_what_is_held_out_is_sealed_unless_it_is_revealed(store: SqliteStore, begun: Begin) -> None:
    run = begun()
    store.save_trial(run.id, make_trial("a", split="holdout"), Verdict.UNSCORED)
    store.flush()
    found = load_case_detail(store, run, 0, reveal=False)
    assert (found.is_sealed, found.is_held_out) == (True, True)
    assert found.case.input == ()
    assert found.rows[0].trial.output is None
    assert load_case_detail(store, run, 0, reveal=True).case.input


def test_other_runs_that_asked_the_same_are_told_newest_first(store: SqliteStore, begun: Begin) -> None:
    runs = [begun(f"r{n}", ids) for n, ids in enumerate(("abc", "cba", "abd", "xyz"))]
    for run, position in zip(runs, (0, 2, 0, 0), strict=True):
        store.save_trial(run.id, make_trial("a", position=position), Verdict.PASS)
    store.flush()
    found = load_case_detail(store, runs[0], 0, reveal=False)
    assert [(one.run.id, one.position) for one in found.history] == [("r2", 0), ("r1", 2)]
    assert found.history[0].verdicts == (Verdict.PASS,)
    assert load_case_detail(store, runs[0], 0, reveal=False, history=0).history == ()
    assert find_same_case(store, runs[0], 0, runs[1]) == 2
    with pytest.raises(NothingSelected, match="no case with the same input or id"):
        find_same_case(store, runs[0], 0, runs[3])
