"""Sessions: events, stored runs, refused requests, stopping and cancelling."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import NothingSelected, StoreError, SuiteError, UsageError
from proctor.model import Params, Selection, Settings, Verdict
from proctor.services import events
from proctor.services.runs.execution.session import RunSession
from proctor.services.runs.request import Request
from proctor.stores import open_store
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteModule, WriteSuite

Write = Callable[..., str]


@pytest.fixture
def three(suite: WriteSuite) -> str:
    return suite(("a", "x", "x"), ("b", "x", "no"), ("c", "x", "x"))


async def test_events_come_in_order_and_the_last_has_the_numbers(
    make: MakeRuns, three: str, session_events: list[events.Event]
) -> None:
    (result,) = await make(three)
    assert [type(event).__name__ for event in session_events] == [
        "RunStarted",
        *["TrialFinished"] * 3,
        "RunFinished",
    ]
    assert session_events[-1] is result
    started = session_events[0]
    assert isinstance(started, events.RunStarted)
    assert (started.total, started.dev, started.holdout) == (3, 2, 1)
    assert (result.tally.all.passed, result.tally.all.failed) == (2, 1)
    assert (result.run.status, result.run.planned) == ("finished", 3)


async def test_what_is_told_is_what_is_stored(make: MakeRuns, three: str, store: SqliteStore) -> None:
    (result,) = await make(three)
    assert store.run(result.run.id) == result.run
    verdicts = [(record.trial.case_id, record.verdict) for record in store.trials(result.run.id)]
    assert verdicts == [("a", Verdict.PASS), ("b", Verdict.FAIL), ("c", Verdict.PASS)]
    assert [record.case.id for record in store.cases(result.run.suite.content)] == ["a", "b", "c"]


async def test_a_run_remembers_what_it_was_made_with(make: MakeRuns, three: str) -> None:
    settings = Settings(selection=Selection(limit=2), repeats=2, concurrency=3, threshold=0.5)
    (result,) = await make(three, settings=settings, params=Params(temperature=0.5, seed=7))
    assert result.run.settings == settings
    assert result.run.target.params == Params(temperature=0.5, seed=7)
    assert result.run.planned == result.tally.all.total == 4
    assert {"proctor", "python"} <= set(result.run.versions)


async def test_the_same_suite_is_kept_once(make: MakeRuns, three: str, store: SqliteStore) -> None:
    first, second = [(await make(three))[0].run for _ in range(2)]
    assert first.suite == second.suite
    store.delete_run(first.id)
    assert len(list(store.cases(second.suite.content))) == 3


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"suites": "missing"}, UsageError),
        ({"suites": ""}, UsageError),
        ({"suites": "s.jsonl", "targets": ""}, UsageError),
        ({"suites": "s.jsonl", "targets": "echo nobody"}, UsageError),
        ({"suites": "s.jsonl", "targets": "echo scripted:missing.jsonl"}, UsageError),
        ({"suites": "s.jsonl bad.jsonl"}, SuiteError),
        ({"suites": "s.jsonl", "settings": Settings(selection=Selection(tags=("no",)))}, NothingSelected),
        ({"suites": "s.jsonl", "resume": "zzz"}, StoreError),
        ({"suites": "s.jsonl", "retry_errors": "zzz"}, StoreError),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_asked(
    make: MakeRuns,
    three: str,
    suite: WriteSuite,
    store: SqliteStore,
    fields: dict[str, Any],
    error: type[Exception],
) -> None:
    Path("bad.jsonl").write_text('{"id": "a", "expected": "x"}\n', encoding="utf-8")
    with pytest.raises(error):
        await make(**fields)
    assert list(store.runs()) == []
    assert [result.tally.all.total for result in await make(three)] == [
        3
    ]  # and nothing is in the way of the next


async def test_problems_of_all_suites_are_told_together(make: MakeRuns, folder: Path) -> None:
    for name in ("one", "two"):
        Path(f"{name}.jsonl").write_text('{"id": "a", "expected": "x"}\n' * 2, encoding="utf-8")
    with pytest.raises(SuiteError) as caught:
        await make("one.jsonl two.jsonl")
    assert {(problem.path, problem.line) for problem in caught.value.problems} == {
        ("one.jsonl", 1),
        ("one.jsonl", 2),
        ("two.jsonl", 1),
        ("two.jsonl", 2),
    }


async def test_stopping_keeps_what_finished_and_the_next_session_does_the_rest(
    store: SqliteStore, make: MakeRuns, suite: WriteSuite, module: WriteModule, folder: Path
) -> None:
    name = module("asked = []\nasync def f(prompt):\n    asked.append(prompt)\n    return prompt\n")
    many = suite(*((f"c{n}", f"q{n}", f"q{n}") for n in range(300)))
    finished = 0

    def stop_at_ten(event: events.Event) -> None:
        nonlocal finished
        finished += isinstance(event, events.TrialFinished)
        if finished == 10:
            session.stop()

    session = RunSession(store, {}, stop_at_ten, folder=folder)
    request = Request(suites=(many,), targets=(f"function:{name}:f",), settings=Settings(concurrency=2))
    (interrupted,) = await session.run(request)
    assert interrupted.run.status == "interrupted"
    assert 10 <= interrupted.tally.all.total < 300
    (result,) = await make(resume=interrupted.run.id)
    assert (result.run.id, result.run.status, result.tally.all.passed) == (
        interrupted.run.id,
        "finished",
        300,
    )
    assert sorted(sys.modules[name].asked) == sorted(f"q{n}" for n in range(300))


async def test_a_session_that_was_stopped_before_it_runs_asks_nothing(
    session: Callable[[], RunSession], three: str, session_events: list[events.Event]
) -> None:
    stopped = session()
    stopped.stop()
    assert await stopped.run(Request(suites=(three,), targets=("echo",))) == []
    assert not any(isinstance(event, events.TrialFinished) for event in session_events)


async def test_a_session_cancelled_at_once_tells_and_stores_that_it_was(
    session: Callable[[], RunSession], three: str, module: WriteModule, store: SqliteStore
) -> None:
    name = module(
        "import asyncio\nstarted = asyncio.Event()\nasync def f(prompt):\n"
        "    started.set()\n    await asyncio.sleep(60)\n    return prompt\n"
    )
    request = Request(suites=(three,), targets=(f"function:{name}:f",))
    task = asyncio.create_task(session().run(request))
    while not task.done() and not (name in sys.modules and sys.modules[name].started.is_set()):
        await asyncio.sleep(0.005)
    task.cancel()
    (result,) = await task
    assert result.run.status == "interrupted"
    assert store.run(result.run.id).status == "interrupted"


@pytest.mark.parametrize("address", ["kept.db"])
async def test_a_store_that_fails_in_the_middle_is_told_and_the_targets_are_closed(
    make: MakeRuns, three: str, store: SqliteStore, folder: Path
) -> None:
    Path("drop.py").write_text(
        "import sqlite3\nasync def f(prompt):\n    db = sqlite3.connect('kept.db')\n"
        "    db.execute('DROP TABLE IF EXISTS trials')\n    db.close()\n    return prompt\n",
        encoding="utf-8",
    )
    with pytest.raises(StoreError, match="no such table"):
        await make(three, "function:drop:f")
    sys.modules.pop("drop")
    store.close()  # it has been told


async def test_repeats_are_asked_with_the_case_and_told_one_by_one(
    make: MakeRuns, suite: WriteSuite, store: SqliteStore
) -> None:
    Path("answers.jsonl").write_text('{"a": ["x", "no", "x"]}', encoding="utf-8")
    (result,) = await make(suite(("a", "?", "x")), "scripted:answers.jsonl", settings=Settings(repeats=3))
    verdicts = [
        (stored_trial.trial.repeat, stored_trial.verdict) for stored_trial in store.trials(result.run.id)
    ]
    assert verdicts == [(0, Verdict.PASS), (1, Verdict.FAIL), (2, Verdict.PASS)]


async def test_no_more_are_asked_at_once_than_was_said(
    make: MakeRuns, suite: WriteSuite, module: WriteModule
) -> None:
    name = module(
        "import asyncio\nnow = peak = 0\nasync def f(prompt):\n    global now, peak\n"
        "    now += 1\n    peak = max(peak, now)\n    await asyncio.sleep(0.001)\n"
        "    now -= 1\n    return prompt\n"
    )
    many = suite(*((f"c{n}", "x", "x") for n in range(60)))
    await make(many, f"function:{name}:f", settings=Settings(concurrency=7))
    assert sys.modules[name].peak == 7


async def test_two_sessions_of_two_stores_on_one_file_do_not_disturb_each_other(
    make: MakeRuns, suite: WriteSuite, folder: Path
) -> None:
    many = suite(*((f"c{n}", "x", "x") for n in range(200)))
    other = open_store(str(folder / "kept.db"))
    silent = RunSession(other, {}, lambda _event: None, folder=folder)
    request = Request(suites=(many,), targets=("echo",))
    results = await asyncio.gather(make(many), silent.run(request))
    assert [result.tally.all.passed for (result,) in results] == [200, 200]
    other.close()
