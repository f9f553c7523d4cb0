"""Runs of the Ray engine with its workers in this process: messages, lost workers and refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.engines.ray.engine import RayEngine
from proctor.engines.ray.messages import LOST_CONNECTION, LOST_LIMITS, Delivery, TrialMessage, load
from proctor.errors import UsageError
from proctor.model import Settings, Verdict
from proctor.services import events
from proctor.services.runs.execution.session import RunSession
from proctor.services.runs.reading.totals import load_totals
from proctor.services.runs.request import Request
from proctor.stores.location import StoreLocation
from proctor.stores.sqlite.store import SqliteStore
from proctor.targets.function import register_function
from support.endpoints import JsonHandler, serve_in_thread
from support.ray_processes import LocalCluster
from support.sessions import MakeRuns, WriteModule, WriteSuite

pytestmark = pytest.mark.slow

Connect = Callable[..., LocalCluster]
RAY = Settings(engine="ray", concurrency=4)


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], folder: Path) -> Connect:
    """Makes the cluster that the runs of a test use; its processes read the environment of the test."""
    monkeypatch.syspath_prepend(folder)

    def make(**fields: Any) -> LocalCluster:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        cluster = LocalCluster(**fields)
        monkeypatch.setattr(RayEngine, "connect", staticmethod(lambda _address, _report: cluster))
        return cluster

    return make


def read_run(store: SqliteStore, result: events.RunFinished) -> list[Any]:
    """The stored trials of a run without times and durations."""
    rows = []
    for row in store.trials(result.run.id):
        trial = row.trial
        scores = [(score.name, score.outcome, score.value, score.assertion) for score in trial.scores]
        text = trial.output and trial.output.text
        rows.append((trial.case_id, trial.repeat, row.verdict, text, trial.failure, scores))
    return rows


def delivered_trials(cluster: LocalCluster) -> list[TrialMessage]:
    """The trials that processes have delivered, finished or not."""
    deliveries = [data for data in map(load, cluster.sent) if isinstance(data, Delivery)]
    messages = [message for delivery in deliveries for message in delivery.messages]
    return [message for message in messages if isinstance(message, TrialMessage)]


WORKSPACES = """
workspace:
  template: seed
  hooks: {before_all: {command: [sh, -c, 'echo ${{ WORD }} > "$1/word"', sh, '{{workspace_path}}']}}
tests:
  - {id: a, input: Look., expected_output: x, assertions: [{type: contains, value: "${{ WORD }} in a tree"}]}
  - {id: b, input: Look., expected_output: x, assertions: [{type: contains, value: a cat}]}
  - id: c
    input: "Where is ${{ WORD }}?"
    expected_output: x
    workspace: {template: seed, isolation: per_test}
    assertions: [{type: contains, value: in a tree}]
"""
SECRET = "owl-of-minerva"


async def test_verdicts_are_those_of_one_machine_and_no_value_is_sent(
    make: MakeRuns, folder: Path, store: SqliteStore, environ: dict[str, str], connect: Connect
) -> None:
    environ["WORD"] = SECRET
    cluster = connect()
    (folder / "seed").mkdir()
    (folder / "seed" / "xyz").write_text("in a tree", encoding="utf-8")
    (folder / "s.eval.yaml").write_text(WORKSPACES, encoding="utf-8")
    targets = (
        'targets: [{name: agent, provider: cli, command: \'echo the $(cat * | tr "\\n" " ") {PROMPT}\'}]'
    )
    (folder / "targets.yaml").write_text(targets, encoding="utf-8")
    settings = Settings(repeats=2, keep_workspaces="none")
    (local,) = await make("s.eval.yaml", "agent", settings=settings)
    (remote,) = await make("s.eval.yaml", "agent", settings=replace(settings, engine="ray"))
    assert read_run(store, remote) == read_run(store, local)
    assert remote.tally.all == local.tally.all
    assert remote.run.status == "finished"
    assert len(cluster.actors) == 2
    assert len(cluster.sent) > 8
    assert not any(SECRET.encode() in message for message in cluster.sent)
    assert any(b"WORD" in message for message in cluster.sent)


CALLS = """
import asyncio
from collections import Counter

asked, judged = Counter(), []
on_poison = None
fails = False


async def answer(text):
    asked[text] += 1
    await asyncio.sleep(0.01)
    if fails:
        raise RuntimeError("No.")
    if text == "poison":
        on_poison()
        await asyncio.sleep(60)
    return text


async def judge(text):
    judged.append(text)
    if len(judged) <= 4:
        await asyncio.sleep(60)
    return '{"reasoning": "yes", "score": 1, "passed": true, "verdict": "pass"}'
"""


async def test_an_answer_that_was_delivered_before_its_judge_replied_is_graded_and_not_sent_again(
    make: MakeRuns, module: WriteModule, folder: Path, connect: Connect
) -> None:
    name = module(CALLS)
    calls: Any = import_module(name)
    tests = [f"  - {{id: t{n}, input: n{n}, criteria: It says {n}.}}" for n in range(4)]
    (folder / "s.eval.yaml").write_text("\n".join(["tests:", *tests]), encoding="utf-8")
    cluster = connect(process_count=1)
    judges = (f"function:{name}:judge",)
    task = asyncio.ensure_future(make("s.eval.yaml", f"function:{name}:answer", judges=judges, settings=RAY))
    while len(calls.judged) < 4:
        await asyncio.sleep(0.01)
    while len(delivered_trials(cluster)) < 4:
        await asyncio.sleep(0.01)
    cluster.actors[0].end()
    (result,) = await task
    assert calls.asked == {f"n{n}": 1 for n in range(4)}
    assert len(calls.judged) == 8
    assert result.tally.all.passed == 4


async def test_a_trial_that_ends_its_process_four_times_is_an_error_and_its_neighbours_are_made(
    make: MakeRuns, suite: WriteSuite, module: WriteModule, store: SqliteStore, connect: Connect
) -> None:
    name = module(CALLS)
    calls: Any = import_module(name)
    cluster = connect(process_count=1)
    calls.on_poison = cluster.end_newest
    texts = [*(f"n{n}" for n in range(40)), "poison", *(f"m{n}" for n in range(40))]
    (result,) = await make(
        suite(*((text, text, text) for text in texts)), f"function:{name}:answer", settings=RAY
    )
    assert (result.tally.all.passed, result.tally.all.errors) == (80, 1)
    assert calls.asked["poison"] == len(cluster.actors) - 1 == 4
    (row,) = [row for row in store.trials(result.run.id) if row.verdict is Verdict.ERROR]
    assert row.trial.failure is not None
    assert (row.trial.case_id, row.trial.failure.kind) == ("poison", "worker")
    assert "ended 4 times before the trial was complete" in row.trial.failure.message


async def test_repeats_that_are_graded_together_stay_together_when_a_process_is_lost(
    make: MakeRuns, module: WriteModule, folder: Path, connect: Connect, session_events: list[events.Event]
) -> None:
    name = module(CALLS)
    calls: Any = import_module(name)
    cluster = connect(process_count=1)
    losses = iter(range(2))

    def lose_process() -> None:
        if next(losses, None) is not None:
            cluster.end_newest()

    calls.on_poison = lose_process
    row = {"id": "a", "prompt": "n", "expected": {"type": "consistency"}, "num_runs": 5}
    rows = [row, {**row, "id": "b", "prompt": "poison"}, {**row, "id": "c"}]
    (folder / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    settings = Settings(engine="ray", concurrency=4, repeats=5, timeout_s=0.2, retries=0)
    (result,) = await make("s.jsonl", f"function:{name}:answer", settings=settings)
    assert result.tally.all.total == 15
    assert result.tally.all.passed == 10
    assert (
        len(
            {
                (e.trial.position, e.trial.repeat)
                for e in session_events
                if isinstance(e, events.TrialFinished)
            }
        )
        == 15
    )


async def test_a_cluster_that_has_ended_is_not_waited_for(
    make: MakeRuns, suite: WriteSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr("ray.is_initialized", lambda: False)  # whatever another test has left
    with pytest.raises(UsageError, match=r"cannot be reached: Connection refused\. Start a cluster"):
        await make(suite(("a", "a", "a")), settings=RAY, engine_address="auto")


async def test_a_run_that_fails_too_often_stops_and_is_resumed_without_sending_anything_twice(
    make: MakeRuns,
    suite: WriteSuite,
    module: WriteModule,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = module(CALLS)
    calls: Any = import_module(name)
    connect()
    texts = [f"n{n}" for n in range(300)]
    words = suite(*((text, text, text) for text in texts)), f"function:{name}:answer"
    calls.answer, answer = None, calls.answer
    with pytest.raises(UsageError, match=r"On node .* of the Ray cluster: Target .* names a NoneType"):
        await make(*words, settings=RAY)
    calls.answer = answer
    calls.fails = True
    settings = Settings(engine="ray", concurrency=4, max_failures=5)
    (result,) = await make(*words, settings=settings)
    assert result.run.status == "interrupted"
    assert "the limit of --max-failures" in (result.run.stopped or "")
    assert result.tally.all.total < 300
    calls.asked.clear()
    calls.fails = False
    (resumed,) = await make("", "", resume=result.run.id, settings=RAY)
    assert resumed.run.status == "finished"
    assert resumed.tally.all.total == 300
    assert calls.asked.total() == 300 - result.tally.all.total
    # Nothing is missing now, so that no cluster is needed.
    monkeypatch.delattr(RayEngine, "connect")
    (again,) = await make("", "", resume=result.run.id, settings=RAY)
    assert (again.run.status, again.tally.all.total) == ("finished", 300)


async def test_a_stopped_run_keeps_what_is_there_and_says_so(
    session: Callable[[], RunSession], suite: WriteSuite, module: WriteModule, connect: Connect
) -> None:
    name = module(CALLS)
    calls: Any = import_module(name)
    connect()
    texts = [f"n{n}" for n in range(2000)]
    run_session = session()
    request = Request(
        suites=(suite(*((text, text, text) for text in texts)),),
        targets=(f"function:{name}:answer",),
        settings=RAY,
    )
    task = asyncio.ensure_future(run_session.run(request))
    while calls.asked.total() < 100:
        await asyncio.sleep(0.01)
    began = monotonic()
    run_session.stop()
    (result,) = await task
    assert monotonic() - began < 3
    assert (result.run.status, result.run.stopped) == ("interrupted", None)
    assert calls.asked.total() - 8 <= result.tally.all.total <= calls.asked.total()


async def test_a_budget_is_one_for_all_processes(
    make: MakeRuns, suite: WriteSuite, module: WriteModule, folder: Path, connect: Connect
) -> None:
    name = module(
        "import asyncio\n"
        "async def answer(text):\n"
        "    await asyncio.sleep(0.005)\n"
        "    return {'text': text, 'usage': {'input_tokens': 500, 'output_tokens': 1}}\n"
    )
    prices = f'[models."function:{name}:answer"]\ninput = 20\noutput = 0\n'
    (folder / "prices.toml").write_text(prices, encoding="utf-8")
    connect(process_count=4)
    texts = [f"n{n}" for n in range(400)]
    settings = Settings(engine="ray", concurrency=16, budget_usd=1.0)
    (result,) = await make(
        suite(*((text, text, text) for text in texts)), f"function:{name}:answer", settings=settings
    )
    assert result.tally.known_cost_usd is not None
    assert 1.0 <= result.tally.known_cost_usd <= 1.0 + 4 * 0.01 + 1e-9
    assert result.tally.all.errors == 400 - result.tally.all.passed


async def test_a_run_whose_limits_are_lost_stops_and_can_be_resumed(
    make: MakeRuns, suite: WriteSuite, module: WriteModule, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.engines.leased_limits.LEASE_S", 0.2)
    for engine in ("ray.engine", "asyncio_engine"):
        monkeypatch.setattr(f"proctor.engines.{engine}.LONG_GRACE_S", 0.2)
    name = module(CALLS)
    calls: Any = import_module(name)
    cluster = connect()
    texts = [f"n{n}" for n in range(600)]
    words = suite(*((text, text, text) for text in texts)), f"function:{name}:answer"
    task = asyncio.ensure_future(make(*words, settings=RAY))
    while calls.asked.total() < 50:
        await asyncio.sleep(0.01)
    cluster.get_leases().end()
    (result,) = await task
    assert (result.run.status, result.run.stopped) == ("interrupted", LOST_LIMITS)
    (resumed,) = await make("", "", resume=result.run.id, settings=RAY)
    assert (resumed.run.status, resumed.tally.all.passed) == ("finished", 600)


async def test_a_run_whose_connection_to_the_cluster_is_lost_stops_and_can_be_resumed(
    make: MakeRuns, suite: WriteSuite, module: WriteModule, connect: Connect
) -> None:
    name = module(CALLS)
    calls: Any = import_module(name)
    texts = [f"n{n}" for n in range(300)]
    words = suite(*((text, text, text) for text in texts)), f"function:{name}:answer"
    cluster = connect()
    task = asyncio.ensure_future(make(*words, settings=RAY))
    while calls.asked.total() < 50:
        await asyncio.sleep(0.01)
    cluster.cut_off()
    (result,) = await task
    assert (result.run.status, result.run.stopped) == ("interrupted", LOST_CONNECTION)
    connect()
    (resumed,) = await make("", "", resume=result.run.id, settings=RAY)
    assert (resumed.run.status, resumed.tally.all.passed) == ("finished", 300)


async def test_a_process_that_answers_nothing_is_taken_for_lost(
    make: MakeRuns, suite: WriteSuite, module: WriteModule, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.engines.ray.engine._SILENT_S", 0.5)
    monkeypatch.setattr("proctor.engines.ray.engine._BEAT_S", 0.05)
    name = module(CALLS)
    calls: Any = import_module(name)
    cluster = connect(process_count=1)

    def freeze() -> None:
        actor = cluster.actors[0]
        actor.is_stuck = actor is cluster.actors[-1]

    calls.on_poison = freeze
    texts = [*(f"n{n}" for n in range(150)), "poison"]
    settings = Settings(engine="ray", concurrency=4, timeout_s=0.2, retries=0)
    (result,) = await make(
        suite(*((text, text, text) for text in texts)), f"function:{name}:answer", settings=settings
    )
    assert len(cluster.actors) == 2
    assert (result.tally.all.passed, result.tally.all.errors) == (150, 1)


async def test_a_regrade_on_a_cluster_gives_the_same_verdicts_and_calls_no_target(
    make: MakeRuns, suite: WriteSuite, store: SqliteStore, connect: Connect
) -> None:
    connect()
    (first,) = await make(suite(*((f"t{n}", f"n{n}", "n1") for n in range(70))))
    (again,) = await make("", "", regrade=first.run.id, settings=RAY)
    assert again.run.settings.engine == "ray"
    assert read_run(store, again) == read_run(store, first)
    assert again.tally.all == first.tally.all


async def test_a_run_on_a_cluster_stops_when_enough_is_known(
    make: MakeRuns, suite: WriteSuite, module: WriteModule, connect: Connect
) -> None:
    connect()
    name = module(CALLS)
    words = suite(*((f"t{n}", f"n{n}", f"n{n}") for n in range(1000))), f"function:{name}:answer"
    (result,) = await make(*words, settings=Settings(engine="ray", concurrency=4, until=0.1, order_seed=7))
    assert result.run.status == "finished"
    assert result.run.early_stop is not None
    assert result.tally.all.total < 500


async def test_what_workers_elsewhere_cannot_do_is_refused_before_the_first_call(
    make: MakeRuns, session: Callable[[], RunSession], suite: WriteSuite, connect: Connect
) -> None:
    cluster = connect()
    name = suite(("a", "x", "x"))
    with pytest.raises(UsageError, match="--cache stores answers in a file beside the store"):
        await make(name, settings=Settings(engine="ray", cache=True))
    target = register_function(lambda text: text, name="lambda")
    with pytest.raises(UsageError, match=r"is a function of this program"):
        await session().run(Request(suites=(name,), targets=(target,), settings=RAY))
    with pytest.raises(UsageError, match="--interleave needs the engine 'asyncio'"):
        await make(name, "echo mock", settings=Settings(engine="ray", interleave=True))
    assert cluster.sent == []


async def test_processes_write_to_a_store_that_they_can_open_and_the_run_counts_what_they_wrote(
    suite: WriteSuite,
    folder: Path,
    environ: dict[str, str],
    connect: Connect,
    session_events: list[events.Event],
    postgres_location: StoreLocation,
) -> None:
    cluster = connect()
    name = suite(*((f"t{n}", f"n{n}", "n1") for n in range(70)))
    with closing(postgres_location.open_store()) as store:
        session = RunSession(store, environ, session_events.append, folder=folder)
        (result,) = await session.run(Request(suites=(name,), targets=("echo",), settings=RAY))
        rows = list(store.trials(result.run.id))
    assert [row.trial.case_id for row in rows] == [f"t{n}" for n in range(70)]
    assert [row.verdict for row in rows].count(Verdict.PASS) == result.tally.all.passed == 1
    assert result.tally.all.total == 70
    messages = delivered_trials(cluster)  # on a busy machine some are also delivered before they are graded
    assert all(message.is_stored for message in messages)
    assert sum(message.is_finished for message in messages) == 70


COUNTED_CALLS = """
import asyncio
from collections import Counter

asked = Counter()
on_call = None


async def answer(text):
    asked[text] += 1
    on_call(asked.total())
    await asyncio.sleep(0.005)
    return text if asked[text] == 1 else "something else"
"""


async def test_totals_are_those_of_the_stored_trials_when_a_process_ends_between_storing_and_telling(
    suite: WriteSuite,
    module: WriteModule,
    folder: Path,
    environ: dict[str, str],
    connect: Connect,
    postgres_location: StoreLocation,
) -> None:
    name = module(COUNTED_CALLS)
    calls: Any = import_module(name)
    cluster = connect(process_count=1)
    calls.on_call = lambda count: cluster.end_newest() if count == 150 else None
    texts = [f"n{n}" for n in range(300)]
    words = suite(*((text, text, text) for text in texts)), f"function:{name}:answer"
    with closing(postgres_location.open_store()) as store:
        session = RunSession(store, environ, lambda _event: None, folder=folder)
        (result,) = await session.run(Request(suites=words[:1], targets=words[1:], settings=RAY))
        verdicts = [row.verdict for row in store.trials(result.run.id)]
        totals = load_totals(store, result.run)
    assert len(cluster.actors) == 2
    assert len(verdicts) == result.tally.all.total == 300
    assert result.tally.all.passed == verdicts.count(Verdict.PASS)
    assert totals is not None
    assert totals.tally.all == result.tally.all


class YesHandler(JsonHandler):
    """Chat completions that say yes."""

    def handle_json(self, _body: Any) -> None:
        self.send_json({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]})


async def test_processes_share_the_cache_of_a_store_that_they_can_open_and_tell_of_it_once(
    suite: WriteSuite,
    folder: Path,
    environ: dict[str, str],
    connect: Connect,
    session_events: list[events.Event],
    postgres_location: StoreLocation,
) -> None:
    environ["OPENAI_API_KEY"] = "sk"
    connect()
    name = suite(*((f"t{n}", f"n{n}", "n1") for n in range(70)))
    settings = Settings(engine="ray", cache=True, concurrency=4)
    with serve_in_thread(YesHandler) as server, closing(postgres_location.open_store()) as store:
        target = f"openai:m@http://127.0.0.1:{server.server_port}/v1"
        for _ in range(2):
            session = RunSession(store, environ, session_events.append, folder=folder)
            (result,) = await session.run(Request(suites=(name,), targets=(target,), settings=settings))
        outputs = [row.trial.output for row in store.trials(result.run.id)]
    assert [output is not None and output.cached for output in outputs] == [True] * 70
    notes = [event.message for event in session_events if isinstance(event, events.StatusMessage)]
    assert [note for note in notes if "cache" in note] == [
        "0 answers came from the cache, 70 did not: 70 never sent before.",
        "70 answers came from the cache; no request was sent.",
    ]
