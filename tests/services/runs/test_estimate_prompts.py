"""Estimates of requests with prompts, and lists and searches of the trials of runs with a prompt."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.errors import SuiteError
from proctor.model import Message, Output, PromptTemplate, Trial, Verdict
from proctor.services.runs.reading.estimate import estimate_request
from proctor.services.runs.reading.estimate_record import Estimate
from proctor.services.runs.reading.run_summaries import SummaryReader
from proctor.services.runs.reading.trial_table import TrialFilter, TrialFinder, TrialQuery, read_table_rows
from proctor.services.runs.request import Request
from proctor.services.suites.save_and_open import Suites
from proctor.stores.sqlite.store import SqliteStore
from support.builders import NOON, make_case
from support.stores import add_run, save_cases

SHORT = PromptTemplate(name="short", messages=(Message(role="user", content="{{ input }}"),))
LONG = PromptTemplate(name="long", messages=(Message(role="user", content="x" * 400 + "{{ input }}"),))


@pytest.fixture
def saved(store: SqliteStore, folder: Path) -> None:
    rows = [{"id": f"t{n}", "input": "abcd", "expected": "4"} for n in range(10)]
    (folder / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    list(Suites(store, {}).save("s.jsonl"))


def estimate(store: SqliteStore, folder: Path, targets: str = "echo", **fields: Any) -> Estimate:
    request = Request(stored_names=("s",), targets=tuple(targets.split()), **fields)
    return estimate_request(store, request, {}, folder=folder)


@pytest.mark.usefixtures("saved")
def test_calls_and_tokens_are_those_of_each_prompt(store: SqliteStore, folder: Path) -> None:
    plain = estimate(store, folder)
    two_prompts = estimate(store, folder, "echo mock", prompts=(SHORT, LONG))
    assert (plain.prompts, plain.calls) == (0, 10)
    assert (two_prompts.prompts, two_prompts.targets, two_prompts.calls) == (2, 2, 40)
    tokens = [share.usage.input_tokens for share in two_prompts.shares]
    assert tokens == [10 * 1 + 10 * 101] * 2
    assert "× 2 prompts × 2 targets = 40 calls" in two_prompts.sentence
    assert "prompt" not in plain.sentence


@pytest.mark.usefixtures("saved")
def test_a_file_and_a_missing_variable(store: SqliteStore, folder: Path) -> None:
    (folder / "p.txt").write_text("{{ input }}", encoding="utf-8")
    assert estimate(store, folder, prompts=("p.txt",)).prompts == 1
    prompt = replace(SHORT, messages=(Message(role="user", content="{{ city }}"),))
    with pytest.raises(SuiteError, match=r"uses `\{\{ city"):
        estimate(store, folder, prompts=(prompt,))


def test_lists_and_searches_show_what_tells_cases_apart(store: SqliteStore) -> None:
    cases = [
        make_case("a", "Lima"),
        replace(make_case("b"), input=(), vars={"city": "Rome", "year": 1990}),
    ]
    prompt = replace(LONG, messages=(Message(role="user", content="Long words. {{ input }}"),))
    run = add_run(store, save_cases(store, cases), prompt=prompt)
    plain = add_run(store, save_cases(store, cases, name="t"), id="r2")
    for run_id in (run.id, plain.id):
        trial = Trial(case_id="a", position=0, sent="x", started_at=NOON, output=Output(text="no"))
        store.save_trial(run_id, trial, Verdict.PASS)
        if run_id == plain.id:
            store.save_trial(run_id, replace(trial, case_id="b", position=1), Verdict.PASS)
    store.flush()
    rows = list(read_table_rows(store, run, [(0, 0)], revealed=False))
    assert [row.question for row in rows] == ["Lima"]
    rows = list(read_table_rows(store, plain, [(1, 0)], revealed=False))
    assert [row.question for row in rows] == ["city=Rome, year=1990"]
    finder = TrialFinder()
    reader = SummaryReader(lambda: nullcontext(store))
    searches = (("rome", plain, 1), ("1990", plain, 1), ("lima", run, 1), ("long words", run, 0))
    for text, searched_run, count in searches:
        query = TrialQuery(filter=TrialFilter(text=text))
        assert finder.select(store, reader.refresh_in(store, searched_run, 60), query).total == count, text
