"""Budget, cache, fallbacks and places around targets, against a server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from proctor.engines.budget import DEFAULT_OUTPUT_TOKENS
from proctor.engines.retries import RetryingTarget, RetryPolicy
from proctor.errors import TargetError, UsageError
from proctor.model import Message, Output, Params, Price, Prompt, TargetSpec
from proctor.protocols import Answerer
from proctor.services.runs.execution.target_pool import Prices, TargetPool
from proctor.stores.sqlite.location import SqliteLocation
from proctor.targets.targets_file import TargetsFile
from support.builders import ECHO
from support.endpoints import serve_app
from support.waiting import PATIENCE_S

PROMPT = Prompt(messages=(Message(role="user", content="well?"),), case_id="c")
PRICE = Price(input=0.0, output=1_000_000.0)
"""A dollar a token of output; the server's answers have ten."""


Reach = Callable[..., TargetPool]


class Server:
    """Answers with what it is asked, or fails if the model is called `down`."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = self.under_way = self.most_under_way = 0

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(3600 if body["model"] == "slow" else 0.005)
        self.under_way -= 1
        if body["model"] == "down":
            return web.json_response({"error": {"message": "It is down."}}, status=503)
        content = body["messages"][-1]["content"]
        usage = {"prompt_tokens": 3, "completion_tokens": 10}
        return web.json_response({"choices": [{"message": {"content": content}}], "usage": usage})

    def spec(self, model: str = "m", **fields: Any) -> TargetSpec:
        given: dict[str, Any] = {"name": model, "kind": "openai", "params": Params(max_tokens=10)}
        return TargetSpec(model=model, endpoint=self.url, **given | fields)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", made.chat)
    async with serve_app(app) as url:
        made.url = f"{url}/v1"
        yield made


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
async def reach(tmp_path: Path, told: list[str]) -> AsyncIterator[Callable[..., TargetPool]]:
    opened: list[TargetPool] = []

    def make(environ: dict[str, str] | None = None, **own: Price) -> TargetPool:
        made = TargetPool(
            environ or {},
            concurrency=32,
            retry_policy=RetryPolicy(timeout_s=10, retries=1),
            prices=Prices(shipped={"gpt-x": PRICE}, own=own),
            notify=told.append,
            open_cache=SqliteLocation(str(tmp_path / "proctor.db")).open_answer_cache,
        )
        opened.append(made)
        return made

    yield make
    for one in opened:
        await one.aclose()


async def ask(target: Answerer, *questions: str) -> list[Output | str]:
    """The answers to questions that are asked at once; of a failure its kind."""

    async def once(question: str) -> Output | str:
        message = Message(role="user", content=question)
        try:
            return await target.answer(Prompt(messages=(message,), case_id=question))
        except TargetError as error:
            return error.kind

    return await asyncio.gather(*map(once, questions))


def texts(outputs: list[Output | str]) -> list[str]:
    return [output if isinstance(output, str) else output.text for output in outputs]


QUESTIONS = [f"question {number}" for number in range(20)]


async def test_where_nothing_is_asked_for_a_target_is_only_patient(server: Server, reach: Reach) -> None:
    opened = reach()
    for _ in range(2):
        target = await opened.open_target(server.spec())
        assert type(target) is RetryingTarget
        assert await opened.open_target(replace(server.spec(), name="the same")) is target
        account = opened.start_run()
        assert account.notes() == []


# --- budget ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "spent", "answered"), [(200, 0, 20), (65, 0, 7), (70, 0, 7), (5, 0, 1), (25, 10, 2)]
)
async def test_calls_that_are_made_at_once_overshoot_what_is_left_of_the_budget_by_one_at_most(
    server: Server, reach: Reach, budget: float, spent: float, answered: int
) -> None:
    opened = reach(m=PRICE)
    opened.start_run(budget_usd=budget, spent_usd=spent)
    outputs = texts(await ask(await opened.open_target(server.spec()), *QUESTIONS))
    assert (server.asked, outputs.count("budget")) == (answered, 20 - answered)


async def test_judges_and_fallbacks_pay_too_and_each_run_has_a_budget_of_its_own(
    server: Server, reach: Reach
) -> None:
    opened = reach(m=PRICE, j=PRICE, down=PRICE)
    for _ in range(2):
        opened.start_run(budget_usd=25)
        target = await opened.open_target(server.spec("down", retries=0, fallbacks=(server.spec(),)))
        judge = await opened.open_target(server.spec("j"), judging=True)
        assert texts(await ask(target, "a")) == ["a"]
        assert texts(await ask(judge, "b")) == ["b"]
        assert texts(await ask(target, "c")) == ["c"]
        assert texts([*await ask(target, "d"), *await ask(judge, "e")]) == ["budget", "budget"]


@pytest.mark.parametrize(
    ("kind", "params", "tokens"),
    [
        ("openai", Params(), DEFAULT_OUTPUT_TOKENS),
        ("openai", Params(max_tokens=9), 9),
        ("anthropic", Params(), 4096),
        ("anthropic", Params(thinking_budget=2000), 6096),
        ("anthropic", Params(thinking_budget=2000, max_tokens=2001), 2001),
    ],
)
async def test_a_budget_reserves_what_a_model_may_think_and_answer(
    server: Server, reach: Reach, kind: str, params: Params, tokens: int
) -> None:
    opened = reach(m=PRICE)
    opened.start_run(budget_usd=5)
    spec = TargetSpec(name="m", kind=kind, model="m", endpoint=server.spec().endpoint, params=params)
    target: Any = await opened._open_with_budget(spec, judging=False)
    assert target._output_tokens == tokens


async def test_an_answer_without_tokens_is_charged_and_told(reach: Reach, told: list[str]) -> None:
    opened = reach(agent=PRICE)
    account = opened.start_run(budget_usd=10)
    spec = TargetSpec(name="agent", kind="command", model="echo 4", params=Params(max_tokens=6))
    target = await opened.open_target(spec)
    assert texts(await ask(target, "a", "b", "c")) == ["4", "4", "budget"]
    (note,) = account.notes()
    assert note.startswith("2 calls did not report a cost. For each, the budget counts the maximum that ")


@pytest.mark.slow
async def test_of_a_program_the_first_call_goes_alone(reach: Reach, tmp_path: Path) -> None:
    opened, log = reach(agent=PRICE), tmp_path / "log"
    opened.start_run(budget_usd=100)
    others = f"until test $(grep -c + {log}) = 3; do sleep 0.01; done"  # the second and third are together
    wait = f"test $(grep -c + {log}) = 1 && sleep 0.1 || {others}"
    line = f"sh -c 'echo + >> {log}; {wait}; echo - >> {log}; echo 4'"
    spec = TargetSpec(name="agent", kind="command", model=line, params=Params(max_tokens=1))
    await ask(await opened.open_target(spec), "a", "b", "c")
    assert "".join(log.read_text(encoding="utf-8").split()) == "+-++--"


@pytest.mark.parametrize(("instruction", "at_once"), [("", 4), ("x" * 1000, 1)])
async def test_a_targets_own_instruction_is_paid_for(
    server: Server, reach: Reach, instruction: str, at_once: int
) -> None:
    opened = reach(m=Price(input=1_000_000.0, output=0.0))
    opened.start_run(budget_usd=2500)
    target = await opened.open_target(server.spec(options={"system_prompt": instruction}))
    await ask(target, *QUESTIONS[:6])
    assert server.most_under_way == at_once


async def test_a_command_line_that_tells_its_cost_needs_no_price(reach: Reach) -> None:
    opened = reach()
    line = """echo '{"text": "4", "cost_usd": 2}'"""
    spec = TargetSpec(name="agent", kind="cli", model=line)
    opened.require_prices([spec])
    opened.start_run(budget_usd=5)
    outputs = await ask(await opened.open_target(spec), "a", "b", "c", "d", "e")
    assert [output if isinstance(output, str) else output.cost_usd for output in outputs] == [
        *(2, 2, 2),
        *("budget", "budget"),
    ]


COMMAND = TargetSpec(name="agent", kind="command", model="./agent")


@pytest.mark.parametrize(
    ("specs", "own", "unknown"),
    [
        (
            [ECHO, replace(ECHO, kind="scripted"), replace(ECHO, kind="replay"), replace(ECHO, kind="mock")],
            {},
            [],
        ),
        ([TargetSpec(name="x", kind="openai", model="gpt-x")], {}, []),
        ([TargetSpec(name="x", kind="openai", model="gpt-x", endpoint="http://127.0.0.1:1/v1")], {}, ["x"]),
        ([ECHO, COMMAND, TargetSpec(name="f", kind="function", model="a:b")], {}, ["agent", "f"]),
        ([COMMAND], {"agent": PRICE}, []),
        ([COMMAND], {"./agent": PRICE}, []),
        ([replace(COMMAND, kind="cli")], {}, []),
        (
            [replace(ECHO, fallbacks=(replace(COMMAND, fallbacks=(replace(COMMAND, name="b"),)),))],
            {},
            ["agent", "b"],
        ),
    ],
)
async def test_a_budget_names_everybody_whose_price_is_not_known(
    reach: Reach, specs: list[TargetSpec], own: dict[str, Price], unknown: list[str]
) -> None:
    opened = reach(**own)
    if not unknown:
        opened.require_prices(specs)
        return
    tables = ", ".join(rf'\[models\."{"gpt-x" if name == "x" else name}"\]' for name in unknown)
    said = (
        rf"the price of {', '.join(unknown)} is unknown\. In a prices\.toml beside the store, add {tables}, "
    )
    with pytest.raises(UsageError, match=said):
        opened.require_prices(specs)
    opened.start_run(budget_usd=1)
    with pytest.raises(UsageError, match=r"prices\.toml"):
        await opened.open_target(specs[-1])


# --- one process for all cases -----------------------------------------------------------------------------

BATCH = TargetSpec(name="batch", kind="cli", options={"provider_batching": True})


async def test_a_process_for_all_cases_is_one_a_run(reach: Reach, tmp_path: Path) -> None:
    log = tmp_path / "log"
    records = "".join(f' \'{{"id": "{one}", "text": "4"}}\'' for one in ("a", "b"))
    spec = replace(BATCH, model=f"echo + >> {log}; printf '%s\\n'{records}")
    opened = reach()
    for runs in (1, 2):
        opened.start_run()
        outputs = await ask(await opened.open_target(spec), "a", "b")
        assert [output.text for output in outputs if isinstance(output, Output)] == ["4", "4"]
        assert log.read_text(encoding="utf-8") == "+\n" * runs


async def test_a_process_for_all_cases_can_neither_judge_nor_keep_to_a_budget(reach: Reach) -> None:
    opened = reach(batch=PRICE)
    with pytest.raises(UsageError, match=r"'batch' .*one process answers all cases .* cannot judge.*--judge"):
        await opened.open_target(BATCH, judging=True)
    with pytest.raises(UsageError, match=r"'batch' .*one process answers all cases, and a budget"):
        opened.require_prices([replace(ECHO, fallbacks=(BATCH,))])


# --- cache -------------------------------------------------------------------------------------------------


async def test_a_second_command_asks_nobody_and_says_why_it_does(
    server: Server, reach: Reach, told: list[str]
) -> None:
    first = reach(m=PRICE)
    account = first.start_run(cached=True)
    fresh = await ask(await first.open_target(server.spec()), "a", "b")
    assert account.notes() == ["0 answers came from the cache, 2 did not: 2 never sent before."]
    await first.aclose()

    second = reach()
    account = second.start_run(cached=True)
    kept = await ask(await second.open_target(server.spec()), "a", "b")
    assert [
        replace(output, queue_ms=0.0, cached=True) for output in fresh if isinstance(output, Output)
    ] == kept
    assert server.asked == 2
    warm = server.spec(params=Params(max_tokens=10, temperature=0.7))
    await ask(await second.open_target(warm), "a")
    judge = await second.open_target(server.spec(), judging=True)
    await judge.answer(Prompt(messages=(Message(role="user", content="Is it right?"),), case_id="a"))
    (note,) = account.notes()
    assert note == (
        "2 answers came from the cache, 2 did not: 1 sent before with temperature 0 instead of 0.7, 1 "
        "never sent before."
    )
    assert second.start_run(cached=True).notes() == []
    assert told == []


async def test_what_the_cache_answers_costs_no_budget(server: Server, reach: Reach) -> None:
    opened = reach(m=PRICE)
    opened.start_run(budget_usd=10, cached=True)
    target = await opened.open_target(server.spec())
    assert texts(await ask(target, "a")) == ["a"]
    assert texts(await ask(target, "a", "b")) == ["a", "budget"]


async def test_a_run_without_the_cache_neither_uses_nor_fills_it(
    server: Server, reach: Reach, tmp_path: Path
) -> None:
    opened = reach()
    opened.start_run()
    await ask(await opened.open_target(server.spec()), "a")
    assert not (tmp_path / "cache.db").exists()
    for cached, asked in ((True, 2), (False, 3), (True, 3)):
        opened.start_run(cached=cached)
        await ask(await opened.open_target(server.spec()), "a")
        assert server.asked == asked


async def test_the_fallback_is_asked_again_next_time(server: Server, reach: Reach, told: list[str]) -> None:
    opened = reach()
    opened.start_run(cached=True)
    target = await opened.open_target(server.spec("down", retries=0, fallbacks=(server.spec(),)))
    for _ in range(2):
        (output,) = await ask(target, "a")
        assert isinstance(output, Output)
        assert (output.text, output.target, output.cached) == ("a", "m", False)
    assert server.asked == 4
    assert len(told) == 1


async def test_an_answer_that_repeats_a_secret_is_not_kept(
    server: Server, reach: Reach, tmp_path: Path
) -> None:
    opened = reach({"TOKEN": "hunter-2-hunter"})
    opened.add_secrets(["TOKEN", "UNSET"])
    opened.start_run(cached=True)
    await ask(await opened.open_target(server.spec()), "say hunter-2-hunter", "plain")
    await opened.aclose()
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"plain" in files
    assert b"hunter" not in files.replace(b"target say hunter-2-hunter", b"")  # the test's own case id


@pytest.mark.parametrize(("variable", "asked"), [("KEY", 1), ("WHO", 2)])
async def test_a_new_key_asks_nothing_anew_and_a_new_instruction_everything(
    server: Server, reach: Reach, variable: str, asked: int
) -> None:
    options = {"api_key": "${{ KEY }}", "system_prompt": "You are ${{ WHO }}."}
    for value in ("one", "two"):
        opened = reach({"KEY": "k", "WHO": "w"} | {variable: value})
        opened.start_run(cached=True)
        await ask(await opened.open_target(server.spec(options=options)), "a")
        await opened.aclose()
    assert server.asked == asked


# --- places, retries and time ------------------------------------------------------------------------------


async def test_a_target_has_no_more_places_than_its_workers(server: Server, reach: Reach) -> None:
    target = await reach().open_target(server.spec(workers=3))
    await ask(target, *QUESTIONS)
    assert server.most_under_way == 3


@pytest.mark.slow
@pytest.mark.parametrize(("retries", "asked"), [(None, 2), (0, 1)])
async def test_a_targets_own_retries_count(
    server: Server, reach: Reach, retries: int | None, asked: int
) -> None:
    target = await reach().open_target(server.spec("down", retries=retries))
    assert await ask(target, "a") == ["http"]
    assert server.asked == asked


async def test_a_targets_own_time_limit_counts(server: Server, reach: Reach) -> None:
    target = await reach().open_target(server.spec("slow", options={"timeout_seconds": 0.05}))
    assert await ask(target, "a") == ["timeout"]


@pytest.mark.slow
async def test_a_program_that_may_take_longer_than_the_run_allows_does(reach: Reach, tmp_path: Path) -> None:
    opened = TargetPool(
        {},
        concurrency=1,
        retry_policy=RetryPolicy(timeout_s=0.05),
        prices=Prices(shipped={}, own={}),
        notify=lambda _message: None,
    )
    line = "sleep 0.3 && echo 4"
    spec = TargetSpec(name="agent", kind="cli", model=line, options={"timeout_seconds": PATIENCE_S})
    assert texts(await ask(await opened.open_target(spec), "a")) == ["4"]
    await opened.aclose()


# --- addresses from variables ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "shown", "kept"),
    [
        ("http://127.0.0.1:PORT/v1", "http://127.0.0.1:PORT/v1/chat/completions", True),
        ("${{ BASE }}", "${{ BASE }}/chat/completions", False),
        ("http://${{ HOST }}:PORT/v1/", "http://${{ HOST }}:PORT/v1/chat/completions", False),
        ("http://127.0.0.1:PORT/${{ PATH }}", "http://127.0.0.1:PORT/${{ PATH }}/chat/completions", True),
    ],
)
@pytest.mark.parametrize("form", ["provider: openai, model: m, base_url: 'URL'", "target: 'openai:m@URL'"])
async def test_an_address_from_a_variable_is_told_as_it_is_written(
    unused_tcp_port: int, form: str, written: str, shown: str, kept: bool
) -> None:
    port = str(unused_tcp_port)
    environ = {"BASE": f"http://127.0.0.1:{port}/v1/", "HOST": "127.0.0.1", "PATH": "v1"}
    entry = form.replace("URL", written).replace("PORT", port)
    file = TargetsFile(f"targets: [{{name: t, {entry}}}]", "targets.yaml", "/project")
    prices = Prices(shipped={}, own={})
    patience = RetryPolicy(timeout_s=5, retries=0)
    reach = TargetPool(
        environ, concurrency=1, retry_policy=patience, prices=prices, notify=lambda _message: None
    )
    target = await reach.open_target(file.get_spec("t", Params(), environ))
    with pytest.raises(TargetError) as caught:
        await target.answer(PROMPT)
    await reach.aclose()
    assert str(caught.value).startswith(f"Cannot connect to {shown.replace('PORT', port)}: ")
    assert ("127.0.0.1" in str(caught.value)) is kept
    assert caught.value.transient
