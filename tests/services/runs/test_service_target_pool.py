"""The target pool: budget, cache, fallbacks and limits, against a server on loopback."""

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


MakePool = Callable[..., TargetPool]


class Server:
    """Echoes the last message, or fails if the model is called `down`."""

    def __init__(self) -> None:
        self.url = ""
        self.call_count = self.under_way = self.peak = 0

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.call_count += 1
        self.under_way += 1
        self.peak = max(self.peak, self.under_way)
        await asyncio.sleep(3600 if body["model"] == "slow" else 0.005)
        self.under_way -= 1
        if body["model"] == "down":
            return web.json_response({"error": {"message": "It is down."}}, status=503)
        content = body["messages"][-1]["content"]
        usage = {"prompt_tokens": 3, "completion_tokens": 10}
        return web.json_response({"choices": [{"message": {"content": content}}], "usage": usage})

    def spec(self, model: str = "m", **fields: Any) -> TargetSpec:
        defaults: dict[str, Any] = {"name": model, "kind": "openai", "params": Params(max_tokens=10)}
        return TargetSpec(model=model, endpoint=self.url, **defaults | fields)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.chat)
    async with serve_app(app) as url:
        server.url = f"{url}/v1"
        yield server


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
async def make_pool(tmp_path: Path, notes: list[str]) -> AsyncIterator[Callable[..., TargetPool]]:
    pools: list[TargetPool] = []

    def make(environ: dict[str, str] | None = None, **own: Price) -> TargetPool:
        pool = TargetPool(
            environ or {},
            concurrency=32,
            retry_policy=RetryPolicy(timeout_s=10, retries=1),
            prices=Prices(shipped={"gpt-x": PRICE}, own=own),
            notify=notes.append,
            open_cache=SqliteLocation(str(tmp_path / "proctor.db")).open_answer_cache,
        )
        pools.append(pool)
        return pool

    yield make
    for pool in pools:
        await pool.aclose()


async def ask(target: Answerer, *questions: str) -> list[Output | str]:
    """Asks questions at once; returns the outputs, and the kind of each failure."""

    async def once(question: str) -> Output | str:
        message = Message(role="user", content=question)
        try:
            return await target.answer(Prompt(messages=(message,), case_id=question))
        except TargetError as error:
            return error.kind

    return await asyncio.gather(*map(once, questions))


def get_texts(outputs: list[Output | str]) -> list[str]:
    return [output if isinstance(output, str) else output.text for output in outputs]


QUESTIONS = [f"question {number}" for number in range(20)]


async def test_where_nothing_is_asked_for_a_target_is_only_patient(
    server: Server, make_pool: MakePool
) -> None:
    pool = make_pool()
    for _ in range(2):
        target = await pool.open_target(server.spec())
        assert type(target) is RetryingTarget
        assert await pool.open_target(replace(server.spec(), name="the same")) is target
        account = pool.start_run()
        assert account.notes() == []


# --- budget ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "spent_usd", "answer_count"), [(200, 0, 20), (65, 0, 7), (70, 0, 7), (5, 0, 1), (25, 10, 2)]
)
async def test_calls_that_are_made_at_once_overshoot_what_is_left_of_the_budget_by_one_at_most(
    server: Server, make_pool: MakePool, budget: float, spent_usd: float, answer_count: int
) -> None:
    pool = make_pool(m=PRICE)
    pool.start_run(budget_usd=budget, spent_usd=spent_usd)
    outputs = get_texts(await ask(await pool.open_target(server.spec()), *QUESTIONS))
    assert (server.call_count, outputs.count("budget")) == (answer_count, 20 - answer_count)


async def test_judges_and_fallbacks_pay_too_and_each_run_has_a_budget_of_its_own(
    server: Server, make_pool: MakePool
) -> None:
    pool = make_pool(m=PRICE, j=PRICE, down=PRICE)
    for _ in range(2):
        pool.start_run(budget_usd=25)
        target = await pool.open_target(server.spec("down", retries=0, fallbacks=(server.spec(),)))
        judge = await pool.open_target(server.spec("j"), judging=True)
        assert get_texts(await ask(target, "a")) == ["a"]
        assert get_texts(await ask(judge, "b")) == ["b"]
        assert get_texts(await ask(target, "c")) == ["c"]
        assert get_texts([*await ask(target, "d"), *await ask(judge, "e")]) == ["budget", "budget"]


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
    server: Server, make_pool: MakePool, kind: str, params: Params, tokens: int
) -> None:
    pool = make_pool(m=PRICE)
    pool.start_run(budget_usd=5)
    spec = TargetSpec(name="m", kind=kind, model="m", endpoint=server.spec().endpoint, params=params)
    target: Any = await pool._open_with_budget(spec, judging=False)
    assert target._output_tokens == tokens


async def test_an_answer_without_tokens_is_charged_and_told(make_pool: MakePool, notes: list[str]) -> None:
    pool = make_pool(agent=PRICE)
    account = pool.start_run(budget_usd=10)
    spec = TargetSpec(name="agent", kind="command", model="echo 4", params=Params(max_tokens=6))
    target = await pool.open_target(spec)
    assert get_texts(await ask(target, "a", "b", "c")) == ["4", "4", "budget"]
    (note,) = account.notes()
    assert note.startswith("2 calls did not report a cost. For each, the budget counts the maximum that ")


@pytest.mark.slow
async def test_of_a_program_the_first_call_goes_alone(make_pool: MakePool, tmp_path: Path) -> None:
    pool, log = make_pool(agent=PRICE), tmp_path / "log"
    pool.start_run(budget_usd=100)
    others = f"until test $(grep -c + {log}) = 3; do sleep 0.01; done"  # the second and third are together
    wait = f"test $(grep -c + {log}) = 1 && sleep 0.1 || {others}"
    line = f"sh -c 'echo + >> {log}; {wait}; echo - >> {log}; echo 4'"
    spec = TargetSpec(name="agent", kind="command", model=line, params=Params(max_tokens=1))
    await ask(await pool.open_target(spec), "a", "b", "c")
    assert "".join(log.read_text(encoding="utf-8").split()) == "+-++--"


@pytest.mark.parametrize(("instruction", "at_once"), [("", 4), ("x" * 1000, 1)])
async def test_a_targets_own_instruction_is_paid_for(
    server: Server, make_pool: MakePool, instruction: str, at_once: int
) -> None:
    pool = make_pool(m=Price(input=1_000_000.0, output=0.0))
    pool.start_run(budget_usd=2500)
    target = await pool.open_target(server.spec(options={"system_prompt": instruction}))
    await ask(target, *QUESTIONS[:6])
    assert server.peak == at_once


async def test_a_command_line_that_tells_its_cost_needs_no_price(make_pool: MakePool) -> None:
    pool = make_pool()
    line = """echo '{"text": "4", "cost_usd": 2}'"""
    spec = TargetSpec(name="agent", kind="cli", model=line)
    pool.require_prices([spec])
    pool.start_run(budget_usd=5)
    outputs = await ask(await pool.open_target(spec), "a", "b", "c", "d", "e")
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
    make_pool: MakePool, specs: list[TargetSpec], own: dict[str, Price], unknown: list[str]
) -> None:
    pool = make_pool(**own)
    if not unknown:
        pool.require_prices(specs)
        return
    tables = ", ".join(rf'\[models\."{"gpt-x" if name == "x" else name}"\]' for name in unknown)
    pattern = (
        rf"the price of {', '.join(unknown)} is unknown\. In a prices\.toml beside the store, add {tables}, "
    )
    with pytest.raises(UsageError, match=pattern):
        pool.require_prices(specs)
    pool.start_run(budget_usd=1)
    with pytest.raises(UsageError, match=r"prices\.toml"):
        await pool.open_target(specs[-1])


# --- one process for all cases -----------------------------------------------------------------------------

BATCH = TargetSpec(name="batch", kind="cli", options={"provider_batching": True})


async def test_a_process_for_all_cases_is_one_a_run(make_pool: MakePool, tmp_path: Path) -> None:
    log = tmp_path / "log"
    records = "".join(f' \'{{"id": "{case_id}", "text": "4"}}\'' for case_id in ("a", "b"))
    spec = replace(BATCH, model=f"echo + >> {log}; printf '%s\\n'{records}")
    pool = make_pool()
    for runs in (1, 2):
        pool.start_run()
        outputs = await ask(await pool.open_target(spec), "a", "b")
        assert [output.text for output in outputs if isinstance(output, Output)] == ["4", "4"]
        assert log.read_text(encoding="utf-8") == "+\n" * runs


async def test_a_process_for_all_cases_can_neither_judge_nor_keep_to_a_budget(make_pool: MakePool) -> None:
    pool = make_pool(batch=PRICE)
    with pytest.raises(UsageError, match=r"'batch' .*one process answers all cases .* cannot judge.*--judge"):
        await pool.open_target(BATCH, judging=True)
    with pytest.raises(UsageError, match=r"'batch' .*one process answers all cases, and a budget"):
        pool.require_prices([replace(ECHO, fallbacks=(BATCH,))])


# --- cache -------------------------------------------------------------------------------------------------


async def test_a_second_command_asks_nobody_and_says_why_it_does(
    server: Server, make_pool: MakePool, notes: list[str]
) -> None:
    first = make_pool(m=PRICE)
    account = first.start_run(cached=True)
    fresh = await ask(await first.open_target(server.spec()), "a", "b")
    assert account.notes() == ["0 answers came from the cache, 2 did not: 2 never sent before."]
    await first.aclose()

    second = make_pool()
    account = second.start_run(cached=True)
    cached_outputs = await ask(await second.open_target(server.spec()), "a", "b")
    assert [
        replace(output, queue_ms=0.0, cached=True) for output in fresh if isinstance(output, Output)
    ] == cached_outputs
    assert server.call_count == 2
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
    assert notes == []


async def test_what_the_cache_answers_costs_no_budget(server: Server, make_pool: MakePool) -> None:
    pool = make_pool(m=PRICE)
    pool.start_run(budget_usd=10, cached=True)
    target = await pool.open_target(server.spec())
    assert get_texts(await ask(target, "a")) == ["a"]
    assert get_texts(await ask(target, "a", "b")) == ["a", "budget"]


async def test_a_run_without_the_cache_neither_uses_nor_fills_it(
    server: Server, make_pool: MakePool, tmp_path: Path
) -> None:
    pool = make_pool()
    pool.start_run()
    await ask(await pool.open_target(server.spec()), "a")
    assert not (tmp_path / "cache.db").exists()
    for is_cached, call_count in ((True, 2), (False, 3), (True, 3)):
        pool.start_run(cached=is_cached)
        await ask(await pool.open_target(server.spec()), "a")
        assert server.call_count == call_count


async def test_the_fallback_is_asked_again_next_time(
    server: Server, make_pool: MakePool, notes: list[str]
) -> None:
    pool = make_pool()
    pool.start_run(cached=True)
    target = await pool.open_target(server.spec("down", retries=0, fallbacks=(server.spec(),)))
    for _ in range(2):
        (output,) = await ask(target, "a")
        assert isinstance(output, Output)
        assert (output.text, output.target, output.cached) == ("a", "m", False)
    assert server.call_count == 4
    assert len(notes) == 1


async def test_an_answer_that_repeats_a_secret_is_not_kept(
    server: Server, make_pool: MakePool, tmp_path: Path
) -> None:
    pool = make_pool({"TOKEN": "hunter-2-hunter"})
    pool.add_secrets(["TOKEN", "UNSET"])
    pool.start_run(cached=True)
    await ask(await pool.open_target(server.spec()), "say hunter-2-hunter", "plain")
    await pool.aclose()
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"plain" in files
    assert b"hunter" not in files.replace(b"target say hunter-2-hunter", b"")  # the test's own case id


@pytest.mark.parametrize(("variable", "call_count"), [("KEY", 1), ("WHO", 2)])
async def test_a_new_key_asks_nothing_anew_and_a_new_instruction_everything(
    server: Server, make_pool: MakePool, variable: str, call_count: int
) -> None:
    options = {"api_key": "${{ KEY }}", "system_prompt": "You are ${{ WHO }}."}
    for value in ("one", "two"):
        pool = make_pool({"KEY": "k", "WHO": "w"} | {variable: value})
        pool.start_run(cached=True)
        await ask(await pool.open_target(server.spec(options=options)), "a")
        await pool.aclose()
    assert server.call_count == call_count


# --- places, retries and time ------------------------------------------------------------------------------


async def test_a_target_has_no_more_places_than_its_workers(server: Server, make_pool: MakePool) -> None:
    target = await make_pool().open_target(server.spec(workers=3))
    await ask(target, *QUESTIONS)
    assert server.peak == 3


@pytest.mark.slow
@pytest.mark.parametrize(("retries", "call_count"), [(None, 2), (0, 1)])
async def test_a_targets_own_retries_count(
    server: Server, make_pool: MakePool, retries: int | None, call_count: int
) -> None:
    target = await make_pool().open_target(server.spec("down", retries=retries))
    assert await ask(target, "a") == ["http"]
    assert server.call_count == call_count


async def test_a_targets_own_time_limit_counts(server: Server, make_pool: MakePool) -> None:
    target = await make_pool().open_target(server.spec("slow", options={"timeout_seconds": 0.05}))
    assert await ask(target, "a") == ["timeout"]


@pytest.mark.slow
async def test_a_program_that_may_take_longer_than_the_run_allows_does(
    make_pool: MakePool, tmp_path: Path
) -> None:
    pool = TargetPool(
        {},
        concurrency=1,
        retry_policy=RetryPolicy(timeout_s=0.05),
        prices=Prices(shipped={}, own={}),
        notify=lambda _message: None,
    )
    line = "sleep 0.3 && echo 4"
    spec = TargetSpec(name="agent", kind="cli", model=line, options={"timeout_seconds": PATIENCE_S})
    assert get_texts(await ask(await pool.open_target(spec), "a")) == ["4"]
    await pool.aclose()


# --- addresses from variables ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "message", "has_host"),
    [
        ("http://127.0.0.1:PORT/v1", "http://127.0.0.1:PORT/v1/chat/completions", True),
        ("${{ BASE }}", "${{ BASE }}/chat/completions", False),
        ("http://${{ HOST }}:PORT/v1/", "http://${{ HOST }}:PORT/v1/chat/completions", False),
        ("http://127.0.0.1:PORT/${{ PATH }}", "http://127.0.0.1:PORT/${{ PATH }}/chat/completions", True),
    ],
)
@pytest.mark.parametrize("form", ["provider: openai, model: m, base_url: 'URL'", "target: 'openai:m@URL'"])
async def test_an_address_from_a_variable_is_told_as_it_is_written(
    unused_tcp_port: int, form: str, address: str, message: str, has_host: bool
) -> None:
    port = str(unused_tcp_port)
    environ = {"BASE": f"http://127.0.0.1:{port}/v1/", "HOST": "127.0.0.1", "PATH": "v1"}
    entry = form.replace("URL", address).replace("PORT", port)
    file = TargetsFile(f"targets: [{{name: t, {entry}}}]", "targets.yaml", "/project")
    prices = Prices(shipped={}, own={})
    retry_policy = RetryPolicy(timeout_s=5, retries=0)
    pool = TargetPool(
        environ, concurrency=1, retry_policy=retry_policy, prices=prices, notify=lambda _message: None
    )
    target = await pool.open_target(file.get_spec("t", Params(), environ))
    with pytest.raises(TargetError) as caught:
        await target.answer(PROMPT)
    await pool.aclose()
    assert str(caught.value).startswith(f"Cannot connect to {message.replace('PORT', port)}: ")
    assert ("127.0.0.1" in str(caught.value)) is has_host
    assert caught.value.transient
