"""Interleaved runs: their requests, stopping, resuming, and runs that cannot take turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from proctor.comparison.compare import compare_runs
from proctor.comparison.outcomes import OutcomeCollector, RunOutcomes
from proctor.engines import ENGINES
from proctor.errors import UsageError
from proctor.model import Run, Selection, Settings
from proctor.protocols import Store
from proctor.services import events
from proctor.services.runs.execution.session import RunSession
from proctor.services.runs.reading.report import read_trial_rows
from proctor.services.runs.request import Request
from support.endpoints import serve_app
from support.sessions import MakeRuns, WriteSuite

CASES = 6
IN_TURNS = Settings(interleave=True, concurrency=1, retries=0)


class ModelServer:
    """A server of several models that records each request."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, str]] = []
        """The model and the question of each request."""
        self.in_flight = self.peak = 0
        self.broken: set[str] = set()
        """The models that answer every request with an error."""
        self.on_request: Callable[[], None] = lambda: None

    def targets(self, *models: str) -> str:
        return " ".join(f"openai:{model}@{self.url}/{model}/v1" for model in models)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        model, question = body["model"], body["messages"][-1]["content"]
        self.requests.append((model, question))
        self.on_request()
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        await asyncio.sleep(0.002)
        self.in_flight -= 1
        if model in self.broken:
            return web.json_response({"error": {"message": "No."}}, status=400)
        return web.json_response(
            {"model": model, "choices": [{"message": {"role": "assistant", "content": question}}]}
        )


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    server = ModelServer()
    app = web.Application()
    app.router.add_post("/{model}/v1/chat/completions", server.answer)
    async with serve_app(app) as server.url:
        yield server


@pytest.fixture
def path(suite: WriteSuite) -> str:
    return suite(*((f"c{number}", f"q{number}", f"q{number}") for number in range(CASES)))


def outcomes(store: Store, run: Run) -> RunOutcomes:
    collector = OutcomeCollector(run)
    for row in read_trial_rows(store, run, reveal=True):
        collector.add(row.trial, row.verdict, row.case)
    return collector.finish()


def in_turns(models: str, questions: int) -> list[tuple[str, str]]:
    """The requests of several models, each first in turn."""
    return [
        (model, f"q{number}")
        for number in range(questions)
        for model in models[number % len(models) :] + models[: number % len(models)]
    ]


async def test_a_server_is_asked_case_by_case_by_all_targets(
    make: MakeRuns, server: ModelServer, path: str, session_events: list[events.Event]
) -> None:
    first, second = await make(path, server.targets("a", "b"), settings=IN_TURNS)
    assert server.requests == in_turns("ab", CASES)
    assert first.run.group == second.run.group
    assert first.run.settings.interleave
    assert (first.run.status, second.run.status) == ("finished", "finished")
    assert (first.tally.all.passed, second.tally.all.passed) == (CASES, CASES)
    started = [event.run.id for event in session_events if isinstance(event, events.RunStarted)]
    finished = [event.run for event in session_events if isinstance(event, events.TrialFinished)]
    assert (started, set(finished)) == ([first.run.id, second.run.id], set(started))


async def test_without_it_one_target_is_asked_after_the_other(
    make: MakeRuns, server: ModelServer, path: str
) -> None:
    first, second = await make(path, server.targets("a", "b"), settings=Settings(concurrency=1))
    assert [model for model, _ in server.requests] == ["a"] * CASES + ["b"] * CASES
    assert not first.run.settings.interleave
    assert not second.run.settings.interleave


async def test_repeats_are_asked_in_turns_too(make: MakeRuns, server: ModelServer, suite: WriteSuite) -> None:
    path = suite(("c0", "q0", "q0"), ("c1", "q1", "q1"))
    settings = Settings(interleave=True, concurrency=1, repeats=2)
    await make(path, server.targets("a", "b", "c"), settings=settings)
    turns = [server.requests[place : place + 3] for place in range(0, 12, 3)]
    assert [{question for _, question in turn} for turn in turns] == [{"q0"}, {"q0"}, {"q1"}, {"q1"}]
    assert all({model for model, _ in turn} == {"a", "b", "c"} for turn in turns)


async def test_targets_share_the_concurrency(make: MakeRuns, server: ModelServer, suite: WriteSuite) -> None:
    path = suite(*((f"c{number}", f"q{number}", "x") for number in range(20)))
    await make(path, server.targets("a", "b"), settings=Settings(interleave=True, concurrency=3))
    assert server.peak <= 3
    places: dict[str, list[int]] = {}
    for place, (_, question) in enumerate(server.requests):
        places.setdefault(question, []).append(place)
    assert all(abs(first - second) <= 3 for first, second in places.values())


async def test_two_interleaved_runs_have_an_interval_for_their_latencies(
    make: MakeRuns, server: ModelServer, path: str, store: Store
) -> None:
    runs = await make(path, server.targets("a", "b"), settings=IN_TURNS)
    latency = compare_runs(*(outcomes(store, finished.run) for finished in runs)).latency_ms
    assert latency is not None
    assert (latency.interleaved, latency.cases, latency.out_of_turn) == (True, CASES, 0)
    assert latency.median_ci95 is not None


async def test_suites_come_one_after_the_other(
    make: MakeRuns, server: ModelServer, suite: WriteSuite
) -> None:
    paths = [suite(("c", f"q{number}", "x"), name=f"s{number}.jsonl") for number in range(2)]
    await make(" ".join(paths), server.targets("a", "b"), settings=IN_TURNS)
    assert [question for _, question in server.requests] == ["q0", "q0", "q1", "q1"]


async def test_a_target_that_is_stopped_by_its_errors_holds_nobody_up(
    make: MakeRuns, server: ModelServer, path: str
) -> None:
    server.broken = {"b"}
    settings = Settings(interleave=True, concurrency=2, retries=0, max_failures=2)
    first, second = await make(path, server.targets("a", "b"), settings=settings)
    assert (first.run.status, first.tally.all.passed) == ("finished", CASES)
    assert (second.run.status, second.tally.all.passed) == ("interrupted", 0)
    assert "--max-failures" in (second.run.stopped or "")


async def test_an_endpoint_that_is_given_up_stops_only_its_own_run(
    make: MakeRuns, server: ModelServer, suite: WriteSuite
) -> None:
    path = suite(*((f"c{number}", f"q{number}", f"q{number}") for number in range(20)))
    unreachable = "openai:b@http://127.0.0.1:1/v1"
    first, second = await make(path, f"{server.targets('a')} {unreachable}", settings=IN_TURNS)
    assert (first.run.status, first.tally.all.passed) == ("finished", 20)
    assert (second.run.status, second.tally.all.total) == ("interrupted", 0)
    assert "Every call failed" in (second.run.stopped or "")


# --- stopping and resuming ---------------------------------------------------------------------------------


async def stop_after(server: ModelServer, session: RunSession, count: int, request: Request) -> list[Run]:
    """Stops a session when the server has got so many requests."""

    def stop() -> None:
        if len(server.requests) == count:
            session.stop()

    server.on_request = stop
    return [finished.run for finished in await session.run(request)]


@pytest.mark.parametrize("resumed_index", [0, 1, None])
async def test_interrupted_runs_are_resumed_together_and_complete_each_other(
    make: MakeRuns,
    session: Callable[[], RunSession],
    server: ModelServer,
    path: str,
    session_events: list[events.Event],
    resumed_index: int | None,
) -> None:
    targets = server.targets("a", "b")
    request = Request(suites=(path,), targets=tuple(targets.split()), settings=IN_TURNS)
    runs = await stop_after(server, session(), 5, request)
    assert [run.status for run in runs] == ["interrupted"] * 2
    if resumed_index is None:
        resumed = await make(path, targets, settings=IN_TURNS, resume="")
    else:
        resumed = await make(resume=runs[resumed_index].id)
    assert {finished.run.id for finished in resumed} == {run.id for run in runs}
    assert all(finished.run.status == "finished" for finished in resumed)
    assert sorted(set(server.requests)) == sorted(in_turns("ab", CASES))
    questions = [question for _, question in server.requests]
    assert questions == sorted(questions)
    notes = [event.message for event in session_events if isinstance(event, events.StatusMessage)]
    assert len([note for note in notes if "is resumed too, because the runs are interleaved" in note]) == (
        resumed_index is not None
    )


async def test_a_run_whose_partner_has_finished_is_resumed_by_itself(
    make: MakeRuns, server: ModelServer, path: str, store: Store
) -> None:
    server.broken = {"b"}
    settings = Settings(interleave=True, concurrency=1, retries=0, max_failures=1)
    first, second = await make(path, server.targets("a", "b"), settings=settings)
    server.broken = set()
    (again,) = await make(resume=second.run.id)
    assert (again.run.id, again.run.status, again.tally.all.passed) == (second.run.id, "finished", CASES - 1)
    latency = compare_runs(outcomes(store, first.run), outcomes(store, again.run)).latency_ms
    assert latency is not None
    assert latency.interleaved


async def test_runs_that_were_begun_one_after_the_other_go_on_like_that(
    session: Callable[[], RunSession], make: MakeRuns, server: ModelServer, path: str
) -> None:
    targets = tuple(server.targets("a", "b").split())
    request = Request(suites=(path,), targets=targets, settings=Settings(concurrency=1))
    (run,) = await stop_after(server, session(), 3, request)
    with pytest.raises(UsageError, match="--interleave: the run has off, this command sets on"):
        await make(resume=run.id, settings=IN_TURNS, flags=frozenset({"--interleave"}))
    await make(path, " ".join(targets), settings=Settings(concurrency=1), resume="")
    assert [model for model, _ in server.requests] == ["a"] * CASES + ["b"] * CASES


async def test_runs_of_which_one_cannot_be_prepared_are_interrupted(
    store: Store, tmp_path: Path, server: ModelServer, path: str
) -> None:
    started: list[str] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.RunStarted):
            started.append(event.run.id)
            if len(started) == 2:
                raise UsageError("This one cannot be prepared.")

    request = Request(suites=(path,), targets=tuple(server.targets("a", "b").split()), settings=IN_TURNS)
    with pytest.raises(UsageError, match="cannot be prepared"):
        await RunSession(store, {}, listen, folder=tmp_path).run(request)
    assert [store.run(run_id).status for run_id in started] == ["interrupted"] * 2


async def test_a_session_that_is_cancelled_keeps_what_has_finished(
    session: Callable[[], RunSession], server: ModelServer, path: str
) -> None:
    request = Request(suites=(path,), targets=tuple(server.targets("a", "b").split()), settings=IN_TURNS)
    task = asyncio.create_task(session().run(request))

    def cancel() -> None:
        if len(server.requests) == 5:
            task.cancel()

    server.on_request = cancel
    runs = await task
    assert [finished.run.status for finished in runs] == ["interrupted"] * 2
    assert sum(finished.tally.all.passed for finished in runs) == 4


async def test_an_error_beside_the_targets_stops_all_and_is_raised(
    session: Callable[[], RunSession], server: ModelServer, path: str, session_events: list[events.Event]
) -> None:
    request = Request(suites=(path,), targets=tuple(server.targets("a", "b").split()), settings=IN_TURNS)

    class Broken(Exception):
        pass

    def listen(event: events.Event) -> None:
        if isinstance(event, events.TrialFinished) and len(server.requests) >= 3:
            raise Broken

    run_session = session()
    run_session._listen = listen
    with pytest.raises(Broken):
        await run_session.run(request)
    assert len(server.requests) < 2 * CASES


async def test_a_retry_of_an_interleaved_run_is_a_run_by_itself(
    make: MakeRuns, server: ModelServer, path: str
) -> None:
    server.broken = {"b"}
    _, second = await make(path, server.targets("a", "b"), settings=IN_TURNS)
    server.broken = set()
    (again,) = await make(retry_errors=second.run.id)
    assert (again.run.settings.interleave, again.tally.all.passed) == (False, CASES)
    (regraded,) = await make(regrade=again.run.id)
    assert not regraded.run.settings.interleave


# --- what cannot take turns --------------------------------------------------------------------------------


async def test_one_target_takes_no_turns(make: MakeRuns, server: ModelServer, path: str) -> None:
    with pytest.raises(UsageError, match="--interleave needs several runs, but there is only one, on"):
        await make(path, server.targets("a"), settings=IN_TURNS, flags=frozenset({"--interleave"}))
    assert server.requests == []
    (finished,) = await make(path, server.targets("a"), settings=IN_TURNS)  # as by proctor.toml
    assert not finished.run.settings.interleave


async def test_recorded_answers_take_no_turns(
    make: MakeRuns, server: ModelServer, suite: WriteSuite, folder: Path
) -> None:
    path = suite(("c", "q", "q"))
    row = {"case_id": "c", "output": {"text": "q"}, "latency_ms": 5.0}
    (folder / "recorded.jsonl").write_text(json.dumps(row), encoding="utf-8")
    replayed, live = await make(path, f"replay:recorded.jsonl {server.targets('a')}", settings=IN_TURNS)
    assert (replayed.run.settings.interleave, live.run.settings.interleave) == (False, True)
    assert (replayed.tally.all.passed, live.tally.all.passed) == (1, 1)


async def test_only_the_engine_of_this_machine_takes_turns(
    make: MakeRuns, path: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENGINES._locations, "other", "proctor.engines.asyncio_engine:AsyncioEngine")
    with pytest.raises(UsageError, match="--interleave needs the engine 'asyncio', but the run uses 'other'"):
        await make(path, server.targets("a", "b"), settings=Settings(interleave=True, engine="other"))
    assert server.requests == []


async def test_a_program_that_answers_all_cases_at_once_takes_no_turns(
    make: MakeRuns, path: str, server: ModelServer, folder: Path
) -> None:
    batch = {
        "name": "batch",
        "provider": "cli",
        "command": "./agent {OUTPUT_FILE}",
        "provider_batching": True,
    }
    (folder / "targets.yaml").write_text(json.dumps({"targets": [batch]}), encoding="utf-8")
    with pytest.raises(UsageError, match=r"'batch' has `provider_batching`, so .* not in turns"):
        await make(path, f"{server.targets('a')} batch", settings=IN_TURNS)
    assert server.requests == []


@pytest.mark.parametrize(("workers", "peak"), [(1, 2), (None, 6)])
async def test_a_target_of_few_places_makes_the_others_take_few_as_well(
    make: MakeRuns, path: str, server: ModelServer, folder: Path, workers: int | None, peak: int
) -> None:
    narrow = {"name": "b", "provider": "openai", "model": "b", "base_url": f"{server.url}/b/v1"}
    targets = {"targets": [narrow if workers is None else narrow | {"workers": workers}]}
    (folder / "targets.yaml").write_text(json.dumps(targets), encoding="utf-8")
    await make(path, f"{server.targets('a')} b", settings=Settings(interleave=True, concurrency=6))
    assert server.peak <= peak
    assert len(server.requests) == 2 * CASES


async def test_a_case_in_a_folder_of_the_users_takes_no_turns(
    make: MakeRuns, folder: Path, server: ModelServer
) -> None:
    (folder / "place").mkdir()
    (folder / "evals.yaml").write_text(
        "name: agents\nworkspace: {path: ./place, mode: static}\n"
        "tests:\n  - {id: t, input: hi, assertions: [{type: contains, value: hi}]}\n",
        encoding="utf-8",
    )
    with pytest.raises(UsageError, match=r"works directly in the folder '.*place'"):
        await make("evals.yaml", server.targets("a", "b"), settings=IN_TURNS, dialect="agentv")


async def test_cases_in_workspaces_of_their_own_take_turns(
    make: MakeRuns, folder: Path, server: ModelServer
) -> None:
    (folder / "template").mkdir()
    checks = [{"type": "contains", "value": "q"}]
    tests = [{"id": f"t{n}", "input": f"q{n}", "assertions": checks} for n in range(4)]
    spec = {"name": "agents", "workspace": {"template": "./template"}, "tests": tests}
    (folder / "evals.yaml").write_text(json.dumps(spec), encoding="utf-8")
    settings = Settings(interleave=True, concurrency=4, selection=Selection())
    runs = await make("evals.yaml", server.targets("a", "b"), settings=settings, dialect="agentv")
    assert [finished.tally.all.passed for finished in runs] == [4, 4]
