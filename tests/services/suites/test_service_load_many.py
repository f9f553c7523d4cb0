"""A suite whose ids do not fit in memory is read like a small one."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor import spools
from proctor.model import Case, Selection, Suite
from proctor.plan import CaseIndexer
from proctor.protocols import SuiteSource
from proctor.services.suites import load
from proctor.services.suites.load import LoadedSuite, load_source
from proctor.stores import open_temporary_store
from support.suite_files import make_source

ROW = st.tuples(st.sampled_from("abcdefghijkl"), st.sampled_from(["right"] * 4 + ["wrong", "no grader"]))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes four cases many."""
    monkeypatch.setattr(spools, "MAX_ROWS", 4)
    monkeypatch.setattr(load, "MAX_ROWS", 4)


def make_row(case_id: str, kind: str = "right") -> dict[str, Any]:
    row = {"id": case_id, "input": [{"role": "user", "content": case_id}]}
    graders = {"wrong": "contains", "no grader": "kontains"}
    return row | {"assertions": [{"grader": graders.get(kind, "is_json")}]}


def make_suite(rows: list[tuple[str, str]]) -> SuiteSource:
    header = {"proctor": 1, "name": "s"}
    return make_source("".join(json.dumps(row) + "\n" for row in [header, *(make_row(*row) for row in rows)]))


class CaseList:
    """A suite writer that keeps the cases in a list."""

    def __init__(self) -> None:
        self.all: list[Case] = []

    def add(self, case: Case, _sent_digest: str) -> None:
        self.all.append(case)

    def commit(self, suite: Suite) -> Suite:
        return suite

    def discard(self) -> None:
        self.all.clear()


def read(source: SuiteSource, *, skip_invalid: bool) -> tuple[LoadedSuite, list[Case], list[int]]:
    cases = CaseList()
    suite = load_source(source, dialect="proctor", writer=cases, skip_invalid=skip_invalid)
    return suite, cases.all, list(suite.index().positions)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, min_size=1, max_size=24), st.booleans())
def test_duplicates_and_wrong_cases_among_many_are_reported_as_among_few(
    rows: list[tuple[str, str]], skip_invalid: bool
) -> None:
    source = make_suite(rows)
    many = read(source, skip_invalid=skip_invalid)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "MAX_ROWS", 1_000)
        few = read(source, skip_invalid=skip_invalid)
    assert many[0].problems == few[0].problems
    assert many[0].suite == few[0].suite
    assert many[1:] == few[1:]


def test_both_places_of_an_id_far_down_in_a_file_are_named() -> None:
    rows = [(name, "right") for name in "abcdefghijgk"]
    (problem,) = load_source(make_suite(rows), dialect="proctor").problems
    assert (problem.line, problem.code) == (12, "duplicate-id")
    assert problem.message == "Case id 'g' is already used at line 8. Give each case its own id."


def test_a_suite_that_is_read_twice_is_saved_once(tmp_path: Path) -> None:
    rows = [(name, "right") for name in "abcdefgfhi"]
    with open_temporary_store() as store:
        writer = store.open_suite_writer()
        suite = load_source(make_suite(rows), dialect="proctor", writer=writer, skip_invalid=True)
        ids = [stored_case.case.id for stored_case in store.cases(suite.suite.content)]
    assert ids == [*"abcdefg", "f-2", *"hi"]
    assert suite.suite.case_count == 10


def test_the_cases_of_one_tag_and_of_given_ids_are_selected_among_many() -> None:
    rows = [(name, "right") for name in "abcdefghi"]
    indexer = CaseIndexer(Selection(ids=("a", "f", "h", "i"), limit=3), None)
    suite = load_source(make_suite(rows), dialect="proctor", indexer=indexer)
    assert list(suite.index().positions) == [0, 5, 7]
    assert list(suite.index(case_ids=("h", "i")).positions) == [7, 8]
    assert suite.indexer.keep_known(["x", "i", "b"]) == ("i", "b")


@pytest.mark.parametrize("kind", ["right", "wrong"])
def test_no_garbage_is_collected_until_a_suite_is_saved(kind: str) -> None:
    class CollectorState(CaseList):
        def commit(self, suite: Suite) -> Suite:
            states.append(gc.isenabled())
            return suite

        def discard(self) -> None:
            states.append(gc.isenabled())

    states: list[bool] = []
    was_enabled = gc.isenabled()
    gc.enable()
    try:
        load_source(make_suite([("a", kind)]), dialect="proctor", writer=CollectorState())
        assert gc.isenabled()
    finally:
        if not was_enabled:
            gc.disable()
    assert states == [False]
