"""Conformance checks of targets of any kind, with retries and time limits."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from proctor.conformance import (
    CheckVerdict,
    Conformance,
    ConformanceCheck,
    Question,
    Reply,
    make_checks,
    score_checks,
)
from proctor.engines.retries import RetryPolicy
from proctor.errors import TargetError, TargetTimeout, UsageError
from proctor.model import Message, Output, Params, Prompt, TargetSpec, Usage
from proctor.services.runs.execution.target_pool import Prices, TargetPool
from proctor.services.runs.planning.target_names import TargetNames
from proctor.services.targets.conformance import DEFAULT_MAX_TOKENS, collect_replies, get_reply
from support.waiting import PATIENCE_S

Probe = Callable[..., Awaitable[Conformance]]
NO_PRICES = Prices(shipped={}, own={})


def make_spec(word: str) -> TargetSpec:
    return TargetNames(os.environ).get_spec(word, Params(), judged=False)


@pytest.fixture
async def pool() -> AsyncIterator[TargetPool]:
    pool = TargetPool(
        os.environ,
        concurrency=4,
        retry_policy=RetryPolicy(timeout_s=5, retries=0),
        prices=NO_PRICES,
        notify=lambda _line: None,
    )
    yield pool
    await pool.aclose()


@pytest.fixture
def probe(pool: TargetPool) -> Probe:
    """Runs all checks on a target."""

    async def run(word: str, seed: int = 7) -> Conformance:
        checks = make_checks(seed)
        return score_checks(checks, await collect_replies(pool, make_spec(word), checks))

    return run


@pytest.fixture
def capable(folder: Path) -> str:
    shutil.copy(Path(__file__).parents[2] / "data" / "capable.py", folder)
    return "function:capable:answer"


async def test_a_capable_function_passes_all_14(probe: Probe, capable: str) -> None:
    conformance = await probe(capable)
    assert [outcome.reason for outcome in conformance.outcomes] == [""] * 14
    assert conformance.is_certified


async def test_a_target_that_always_fails_is_not_measured(probe: Probe, module: Any) -> None:
    conformance = await probe(f"function:{module('def f(x): raise RuntimeError(1)')}:f")
    assert {outcome.verdict for outcome in conformance.outcomes} == {CheckVerdict.ERROR}
    assert not conformance.is_measured


async def test_a_target_by_case_ids_knows_which_question_is_which(probe: Probe, folder: Path) -> None:
    questions = make_checks(7)[1].questions
    lines = [
        f'{{"arithmetic {n}": "{question.expected.description}"}}' for n, question in enumerate(questions, 1)
    ]
    (folder / "answers.jsonl").write_text("\n".join([*lines, '{"*": "x"}']), encoding="utf-8")
    conformance = await probe("scripted:answers.jsonl")
    assert [
        outcome.check.name for outcome in conformance.outcomes if outcome.verdict is CheckVerdict.PASS
    ] == ["arithmetic"]


@pytest.mark.slow
async def test_how_far_it_is_is_told_and_what_stands_alone_comes_last(pool: TargetPool, module: Any) -> None:
    name = module(
        "import threading\nnow = most = alone = 0\nlock = threading.Lock()\n"
        "def f(x):\n"
        "    global now, most, alone\n"
        "    with lock:\n        now += 1\n"
        "    threading.Event().wait(0.01)\n"
        "    with lock:\n"
        "        if 'Name one colour' in str(x): alone = max(alone, now)\n"
        "        most = max(most, now)\n        now -= 1\n"
        "    return 'x'\n"
    )
    counts: list[tuple[int, int]] = []
    await collect_replies(
        pool,
        make_spec(f"function:{name}:f"),
        make_checks(7),
        progress=lambda reply_count, total: counts.append((reply_count, total)),
    )
    assert counts == [(reply_count, 14) for reply_count in range(1, 15)]
    import sys

    module_state = sys.modules[name]
    assert (module_state.alone, 1 < module_state.most <= 4) == (1, True)


async def test_no_fallback_answers_for_a_target(pool: TargetPool, module: Any) -> None:
    broken = make_spec(f"function:{module('def f(x): raise RuntimeError(1)')}:f")
    spec = TargetSpec(name="both", kind=broken.kind, model=broken.model, fallbacks=(make_spec("echo"),))
    (first,) = (await collect_replies(pool, spec, make_checks(7)[:1]))[0]
    assert first.text is None


async def test_what_cannot_be_asked_at_all_is_said_in_one_sentence() -> None:
    class Refusing:
        async def open_target(self, _spec: TargetSpec) -> Scripted:
            return Scripted(UsageError("The variable CODE is not set."))

    with pytest.raises(UsageError, match="CODE"):
        await collect_replies(Refusing(), make_spec("echo"), make_checks(1))  # type: ignore[arg-type]


# --- one question ------------------------------------------------------------------------------------------


class Scripted:
    """Answers with an output or fails with an error, and records the prompts."""

    def __init__(self, reply: Output | Exception) -> None:
        self.reply = reply
        self.prompts: list[Prompt] = []

    async def answer(self, prompt: Prompt) -> Output:
        self.prompts.append(prompt)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    async def aclose(self) -> None:
        """Nothing was started."""


QUESTION = Question(messages=(Message(role="user", content="?"),), json_answer=True, temperature=0.0)


async def ask(reply: Output | Exception) -> Reply:
    return await get_reply(Scripted(reply), QUESTION, "c")


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        (TargetError("HTTP 400", kind="http"), True),
        (TargetError("blocked", kind="refused"), True),
        (TargetError("HTTP 503", kind="http", transient=True), False),
        (TargetError("no connection", kind="connection"), False),
        (TargetError("exit code 1", kind="program"), False),
        (TargetTimeout("too late"), False),
    ],
)
async def test_an_endpoint_that_says_no_is_not_one_that_is_broken(error: Exception, is_refused: bool) -> None:
    assert await ask(error) == Reply(error=str(error), is_refused=is_refused)


async def test_all_that_an_endpoint_tells_is_in_the_reply() -> None:
    output = Output(
        text="<think>It is 4?</think> I'm sorry, but I can't help with that.",
        usage=Usage(output_tokens=7),
        latency_ms=12.5,
        finish_reason="LENGTH",
        refused_params=("temperature",),
        cost_usd=0.25,
        model="m-1",
    )
    reply = await ask(output)
    assert reply == Reply(
        text=reply.text,
        is_refusal=True,
        latency_ms=12.5,
        output_tokens=7,
        is_truncated=True,
        refused_params=("temperature",),
        cost_usd=0.25,
        model="m-1",
    )
    assert "4" not in str(reply.text)


async def test_a_question_is_asked_in_its_own_form() -> None:
    target = Scripted(Output(text="x"))
    await get_reply(target, QUESTION, "JSON mode 1")
    assert target.prompts == [
        Prompt(messages=QUESTION.messages, case_id="JSON mode 1", json_answer=True, temperature=0.0)
    ]


async def test_the_limit_of_a_question_is_that_of_its_target() -> None:
    class RecordingPool:
        """A pool that records the limit of each target."""

        def __init__(self) -> None:
            self.limits: list[int | None] = []

        async def open_target(self, spec: TargetSpec) -> Scripted:
            self.limits.append(spec.params.max_tokens)
            return Scripted(Output(text="x"))

    pool, limits = (
        RecordingPool(),
        {question.max_tokens for check in make_checks(1) for question in check.questions},
    )
    every: Sequence[ConformanceCheck] = make_checks(1)
    await asyncio.wait_for(collect_replies(pool, make_spec("echo"), every), PATIENCE_S)  # type: ignore[arg-type]
    assert set(pool.limits) == {DEFAULT_MAX_TOKENS if limit is None else limit for limit in limits}
