"""What every store does with totals of runs, places of trials, and heads of cases."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest
from msgspec.structs import replace

from proctor.errors import StoreError
from proctor.model import Verdict
from proctor.protocols import Store
from support.builders import make_case, make_trial
from support.stores import add_run, begin_run, save_cases


@pytest.mark.parametrize("grades", [False, True])
def test_totals_are_kept_until_a_trial_of_the_run_is_saved(
    store: Store, open_another: Callable[[], Store], grades: bool
) -> None:
    run = begin_run(store)
    assert store.totals("r1").body is None
    for finished in (run, begin_run(store, "r2")):
        store.save_output(finished.id, make_trial("x"))
        store.update_run(finished, totals=b"totals")
    store.update_run(replace(run, tags=("a",)))
    before = open_another().totals("r1")
    assert before.body == b"totals"
    if grades:
        store.save_trial("r1", make_trial("x"), Verdict.PASS)
    else:
        store.save_output("r1", make_trial("x", position=1))
    assert store.totals("r1").body is None
    assert store.totals("r1").changes > before.changes
    assert store.totals("r2").body == b"totals"


def test_totals_that_were_counted_before_the_last_trial_are_not_saved(store: Store) -> None:
    begin_run(store)
    for save_first in (False, True):
        totals = store.totals("r1")
        if save_first:
            store.save_trial("r1", make_trial("x"), Verdict.PASS)
            store.flush()
        store.save_totals("r1", replace(totals, body=b"totals"))
        assert store.totals("r1").body == (None if save_first else b"totals")
    store.save_totals("r1", replace(store.totals("r1"), body=b"new"))
    assert store.totals("r1").body == b"new"


def test_a_run_with_the_id_of_a_deleted_run_has_none_of_its_totals(store: Store) -> None:
    before = begin_run(store)
    store.update_run(before, totals=b"totals")
    old_totals = store.totals("r1")
    store.delete_run("r1")
    begin_run(store)
    assert store.totals("r1").body is None
    assert store.totals("r1").key != old_totals.key
    with pytest.raises(StoreError, match="There is no run 'r9'"):
        store.totals("r9")


def test_places_of_finished_trials_are_listed_in_suite_order_forwards_and_backwards(store: Store) -> None:
    begin_run(store)
    verdicts = [Verdict.PASS, Verdict.FAIL, Verdict.ERROR]
    places = [(position, repeat) for position in range(3) for repeat in range(3)]
    for position, repeat in reversed(places):
        trial = make_trial("x", position=position, repeat=repeat)
        store.save_trial("r1", trial, verdicts[repeat])
    store.save_output("r1", make_trial("waits", position=3))
    assert store.trial_places("r1") == places
    assert store.trial_places("r1", limit=2) == places[:2]
    assert store.trial_places("r1", after=(1, 0)) == places[4:]
    assert store.trial_places("r1", after=(1, 0), back=True, limit=2) == [(0, 2), (0, 1)]
    assert store.trial_places("r1", back=True, limit=1) == [(2, 2)]
    assert store.trial_places("r1", ("fail", "error"), after=(0, 1), limit=2) == [(0, 2), (1, 1)]
    assert store.trial_places("r1", ("nonsense",)) == []


def test_heads_of_cases_have_what_the_cases_have(store: Store) -> None:
    cases = [make_case(f"c{number}", f"q{number}", tags=("t",), category="k") for number in range(300)]
    run = add_run(store, save_cases(store, [*cases, make_case("plain")]))
    heads = list(store.case_heads(run.suite.content))
    assert [(head.id, head.input, head.tags, head.category) for head in heads] == [
        (case.id, case.input, case.tags, case.category) for case in (*cases, make_case("plain"))
    ]
    assert len(list(islice(store.case_heads("unknown"), 1))) == 0
