"""Estimates of a request before any call: calls, cost and time, and what is unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import SuiteError, UsageError
from proctor.model import Params, Selection, Settings
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.plan_runs import plan_runs
from proctor.services.runs.reading.estimate import estimate_request
from proctor.services.runs.reading.estimate_record import Estimate, format_approximate_usd
from proctor.services.runs.request import Request
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.save_and_open import Suites
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteSuite

EstimateFunction = Callable[..., Estimate]


@pytest.fixture
def thirty(suite: WriteSuite) -> str:
    """Thirty cases, six of them held out."""
    return suite(*((f"t{n:02}", f"say {n}", f"say {n}") for n in range(30)), name="thirty.jsonl")


@pytest.fixture
def estimate_stored(store: SqliteStore, environ: dict[str, str], folder: Path) -> EstimateFunction:
    """Estimates a request for suites of the store."""

    def estimate(names: str = "thirty", targets: str = "echo", **fields: Any) -> Estimate:
        request = Request(stored_names=tuple(names.split()), targets=tuple(targets.split()), **fields)
        return estimate_request(store, request, environ, folder=folder)

    return estimate


def write_prices(folder: Path, **prices: tuple[float, float]) -> None:
    """Gives targets a price: dollars for a million tokens in and out."""
    tables = [
        f'[models."{name}"]\ninput = {input_price}\noutput = {output_price}\n'
        for name, (input_price, output_price) in prices.items()
    ]
    (folder / "prices.toml").write_text("\n".join(tables), encoding="utf-8")


def targets(folder: Path, *rows: dict[str, Any]) -> None:
    (folder / "targets.yaml").write_text(json.dumps({"targets": rows}), encoding="utf-8")


def answers(folder: Path, name: str = "answers.jsonl", **answer: Any) -> None:
    (folder / name).write_text(json.dumps({"*": {"text": "hello", **answer}}), encoding="utf-8")


# --- one line ----------------------------------------------------------------------------------------------


async def test_one_line_has_cases_calls_cost_and_time(
    make: MakeRuns, estimate_stored: EstimateFunction, thirty: str, folder: Path
) -> None:
    answers(folder, usage={"input_tokens": 400, "output_tokens": 50}, latency_ms=0.0)
    targets(
        folder,
        {"name": "one", "provider": "function", "function": "asked_here:f"},
        {"name": "two", "provider": "scripted", "file": "answers.jsonl"},
    )
    (folder / "asked_here.py").write_text(
        "def f(prompt):\n"
        "    usage = {'input_tokens': 100, 'output_tokens': 20}\n"
        "    return {'text': 'x', 'latency_ms': 20000.0, 'usage': usage}\n"
    )
    write_prices(folder, one=(5.0, 25.0), two=(1.0, 2.0))
    await make(thirty, "one two")
    estimate = estimate_stored(targets="one two", settings=Settings(concurrency=15))
    assert estimate.sentence == "24 dev + 6 holdout cases × 2 targets = 60 calls, about $0.04, about 40 s"
    assert estimate.cost_usd == pytest.approx(30 * (100 * 5 + 20 * 25) / 1e6 + 30 * (400 + 50 * 2) / 1e6)
    assert estimate.seconds == pytest.approx(40.0)
    assert estimate.notes == ()


async def test_what_is_not_known_is_said(
    make: MakeRuns, estimate_stored: EstimateFunction, thirty: str, folder: Path
) -> None:
    await make(thirty)
    free = estimate_stored()
    assert free.sentence == "24 dev + 6 holdout cases × 1 target = 30 calls, no cost, about 1 s"
    unknown = estimate_stored(targets="openai:some-model@http://127.0.0.1:1/v1")
    assert unknown.sentence.endswith("= 30 calls, cost unknown, time unknown")
    assert (unknown.cost_usd, unknown.seconds) == (None, None)
    mixed_targets = estimate_stored(targets="openai:gpt-5.2 openai:some-model@http://127.0.0.1:1/v1")
    assert "= 60 calls, at least $0.0" in mixed_targets.sentence
    assert mixed_targets.unpriced == mixed_targets.unlimited == ("openai:some-model@http://127.0.0.1:1/v1",)
    program = estimate_stored(targets="cli:./agent")  # its answers may have a cost
    assert (program.unpriced, program.unlimited) == (("cli:./agent",), ())
    assert any("The price of openai:some-model@" in note for note in mixed_targets.notes)
    assert any("estimated" in note and "openai:gpt-5.2" in note for note in mixed_targets.notes)
    assert len(mixed_targets.untimed) == 2


async def test_a_tier_at_half_the_price_is_estimated_so_and_one_of_unknown_price_is_not(
    make: MakeRuns, estimate_stored: EstimateFunction, thirty: str
) -> None:
    await make(thirty)
    usual, flex, priority = (
        estimate_stored(targets="openai:gpt-5.2", params=Params(service_tier=tier))
        for tier in (None, "flex", "priority")
    )
    assert usual.cost_usd
    assert flex.cost_usd == pytest.approx(usual.cost_usd / 2)
    assert (priority.cost_usd, priority.unlimited) == (None, ("openai:gpt-5.2",))


async def test_without_an_earlier_run_tokens_are_guessed_from_the_text(
    make: MakeRuns, estimate_stored: EstimateFunction, suite: Any, folder: Path
) -> None:
    suite(("a", "x" * 4000, "y"), ("b", "ä" * 2000, "y"), name="long.jsonl")
    await make("long.jsonl")
    write_prices(folder, **{"openai:m": (1.0, 10.0)})
    (share,) = estimate_stored("long", "openai:m").shares
    assert (share.usage.input_tokens, share.usage.output_tokens, share.is_measured) == (2000, 400, False)
    (short,) = estimate_stored("long", "openai:m", params=Params(max_tokens=7)).shares
    assert short.usage.output_tokens == 14


# --- calls -------------------------------------------------------------------------------------------------

RUBRIC = {"scorer": "llm_judge", "rubric": "Score 1-5 on clarity"}


@pytest.mark.parametrize(
    ("judges", "often", "calls"), [((), 1, 2), (("echo",), 1, 2), (("echo", "mock"), 1, 4), (("echo",), 3, 6)]
)
async def test_judges_are_counted_too(
    make: MakeRuns,
    estimate_stored: EstimateFunction,
    folder: Path,
    judges: tuple[str, ...],
    often: int,
    calls: int,
) -> None:
    rows = [{"id": f"j{n}", "input": "write", **RUBRIC} for n in range(2)]
    rows.append({"id": "e", "input": "say", "expected": "say"})
    (folder / "judged.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    await make("judged.jsonl", "mock")
    estimate = estimate_stored("judged", "mock", judges=judges, settings=Settings(judge_repeats=often))
    assert (estimate.calls, estimate.judge_calls) == (3, calls)
    assert f"= 3 calls + {calls} judge calls, " in estimate.sentence
    assert estimate.self_judged == (() if judges else ("mock",))
    assert any("Models favour their own answers" in note for note in estimate.notes) != bool(judges)


@pytest.mark.parametrize(
    ("settings", "targets"),
    [
        (Settings(), "echo"),
        (Settings(repeats=3), "echo mock"),
        (Settings(selection=Selection(split="dev")), "echo mock"),
        (Settings(selection=Selection(split="holdout"), repeats=2), "echo"),
        (Settings(selection=Selection(ids=("t0*",), limit=4)), "echo mock"),
    ],
)
async def test_the_calls_are_those_that_the_runs_then_make(
    make: MakeRuns,
    estimate_stored: EstimateFunction,
    store: SqliteStore,
    environ: dict[str, str],
    thirty: str,
    settings: Settings,
    targets: str,
) -> None:
    await make(thirty)
    request = Request(stored_names=("thirty",), targets=tuple(targets.split()), settings=settings)
    runs = plan_runs(request, PlanningContext(store, environ, lambda _event: None, None))
    assert estimate_stored(targets=targets, settings=settings).calls == sum(
        planned_run.run.planned for planned_run in runs
    )


async def test_one_split_alone_is_named(
    make: MakeRuns, estimate_stored: EstimateFunction, thirty: str
) -> None:
    await make(thirty)
    estimate = estimate_stored(settings=Settings(selection=Selection(split="dev"), repeats=2))
    assert estimate.sentence.startswith("24 dev cases × 2 repeats × 1 target = 48 calls, ")
    estimate = estimate_stored(settings=Settings(selection=Selection(split="holdout")))
    assert estimate.sentence.startswith("6 holdout cases × 1 target = 6 calls, ")


async def test_repeats_that_the_suite_asks_for_count(
    make: MakeRuns, estimate_stored: EstimateFunction, folder: Path
) -> None:
    check = "assertions: [{type: contains, value: x}]"
    text = f"""
execution: {{target: echo, trials: {{count: 3}}}}
tests:
  - {{id: a, input: x, criteria: x, {check}}}
  - {{id: b, input: x, criteria: x, {check}}}
"""
    (folder / "own.eval.yaml").write_text(text, encoding="utf-8")
    (result,) = await make("own.eval.yaml")
    estimate = estimate_stored(result.run.suite.name, "")
    assert estimate.sentence.startswith("2 cases × 3 repeats × 1 target = 6 calls, ")
    assert result.run.planned == estimate.calls


def test_a_suite_that_is_not_in_the_store_is_estimated_as_when_it_is(
    estimate_stored: EstimateFunction, thirty: str, store: SqliteStore, environ: dict[str, str], folder: Path
) -> None:
    source = source_from_path(Path(thirty))
    request = Request(sources=(source,), targets=("echo",))
    estimate = estimate_request(store, request, environ, folder=folder)
    assert (store.versions(), list(store.runs())) == ([], [])
    list(Suites(store, environ).save(thirty))
    assert estimate == estimate_stored()


def test_a_source_with_an_error_is_refused_with_its_line(
    store: SqliteStore, environ: dict[str, str], folder: Path
) -> None:
    (folder / "wrong.jsonl").write_text('{"id": "a", "input": "x", "expected": "y"}\n{"id": "b"}\n', "utf-8")
    request = Request(sources=(source_from_path(folder / "wrong.jsonl"),), targets=("echo",))
    with pytest.raises(SuiteError, match=r"wrong\.jsonl:2: error: "):
        estimate_request(store, request, environ, folder=folder)


def test_a_built_in_suite_is_estimated_without_being_saved(
    store: SqliteStore, environ: dict[str, str], folder: Path
) -> None:
    estimate = estimate_request(store, Request(suites=("cheap",), targets=("echo",)), environ, folder=folder)
    assert estimate.sentence == "10 cases × 1 target = 10 calls, no cost, about 1 s"
    assert (store.versions(), list(store.runs())) == ([], [])


async def test_nobody_is_asked_yet(make: MakeRuns, estimate_stored: EstimateFunction, thirty: str) -> None:
    await make(thirty)
    assert estimate_stored(targets="").sentence == "24 dev + 6 holdout cases; choose a target"


async def test_answers_that_may_be_there_already_make_it_at_most(
    make: MakeRuns, estimate_stored: EstimateFunction, thirty: str
) -> None:
    await make(thirty)
    estimate = estimate_stored(
        settings=Settings(reuse=True, budget_usd=0.5), explicit=frozenset({"reuse", "budget_usd"})
    )
    assert "= at most 30 calls, " in estimate.sentence
    assert any("$0.50" in note for note in estimate.notes)


# --- estimates from earlier runs ---------------------------------------------------------------------------


async def test_tokens_are_those_of_this_suite_and_speed_is_that_of_any(
    make: MakeRuns, estimate_stored: EstimateFunction, suite: Any, thirty: str, folder: Path
) -> None:
    (folder / "asked_too.py").write_text(
        "def f(prompt):\n"
        "    return {'text': 'x', 'latency_ms': 1000.0, 'usage': {'input_tokens': 9, 'output_tokens': 1}}\n"
    )
    targets(folder, {"name": "mine", "provider": "function", "function": "asked_too:f"})
    write_prices(folder, mine=(1.0, 1.0))
    await make(thirty, "mine")
    suite(("o", "other", "x"), name="other.jsonl")
    await make("other.jsonl", "echo")
    (share,) = estimate_stored("other", "mine").shares
    assert not share.is_measured
    assert share.seconds == pytest.approx(1.0)
    (share,) = estimate_stored("thirty", "mine", settings=Settings(concurrency=10)).shares
    assert (share.is_measured, share.usage.input_tokens) == (True, 270)
    assert share.seconds == pytest.approx(3.0)


async def test_other_parameters_and_another_name_are_the_same_target(
    make: MakeRuns, estimate_stored: EstimateFunction, thirty: str, folder: Path
) -> None:
    answers(folder, usage={"input_tokens": 10, "output_tokens": 1})
    targets(
        folder,
        {"name": "first", "provider": "scripted", "file": "answers.jsonl"},
        {"name": "second", "use_target": "first"},
    )
    await make(thirty, "first", params=Params(temperature=0.7))
    (share,) = estimate_stored(targets="second").shares
    assert (share.is_measured, share.usage.input_tokens) == (True, 300)


def test_what_cannot_be_estimated_is_refused(
    estimate_stored: EstimateFunction, store: SqliteStore, folder: Path
) -> None:
    with pytest.raises(UsageError, match="no suite 'nothing' in the store"):
        estimate_stored("nothing")
    targets(folder, {"name": "keyed", "provider": "openai", "model": "m", "api_key": "${{ NOT_SET_KEY }}"})
    request = Request(suites=("cheap",), targets=("keyed",))
    with pytest.raises(SuiteError, match="NOT_SET_KEY"):
        estimate_request(store, request, {}, folder=folder)


@pytest.mark.parametrize(
    ("usd", "words"),
    [(0.041, "$0.04"), (0.00123, "$0.0012"), (1234.5, "$1,234"), (0.00001, "less than $0.0001")],
)
def test_sums_have_the_digits_that_they_need(usd: float, words: str) -> None:
    assert format_approximate_usd(usd) == words
