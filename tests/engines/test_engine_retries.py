"""Retries, `Retry-After`, waiting and cost: against a real server on loopback, and on a clock that jumps."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from time import monotonic
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from proctor.engines.adaptive_limit import AdaptiveLimit
from proctor.engines.retries import RetryingTarget, RetryPolicy
from proctor.errors import EndpointFailed, TargetError, TargetTimeout
from proctor.model import Message, Output, Params, Price, Prompt, TargetSpec, Usage
from proctor.targets.api.openai.chat import open_target
from proctor.targets.context import TargetContext
from support.endpoints import serve_app
from support.virtual_time import run_virtually

Asking = Callable[..., Awaitable[RetryingTarget]]
FINE = {"choices": [{"message": {"content": "fine"}}]}


# --- against a real server ---------------------------------------------------------------------------------


class Endpoint(NamedTuple):
    """A server whose answer is told by the model's name, and what it was asked."""

    url: str
    asked: Counter[str]


async def _chat(request: web.Request) -> web.StreamResponse:
    asked = request.app[ASKED]
    model = (await request.json())["model"]
    asked[model] += 1
    word, _, rest = model.partition("-")
    if word == "always":
        return web.json_response({"error": {"message": "no"}}, status=int(rest))
    if word == "drops":
        assert request.transport is not None
        request.transport.abort()
    elif word == "slow":
        await asyncio.sleep(float(rest))
    elif word == "wait" and asked[model] == 1:
        status, _, seconds = rest.partition("-")
        return web.Response(status=int(status), headers={"Retry-After": seconds})
    elif word == "once" and asked[model] == 1:
        return web.Response(status=int(rest))
    return web.json_response(FINE)


ASKED: web.AppKey[Counter[str]] = web.AppKey("asked", Counter)


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    app = web.Application()
    app[ASKED] = Counter()
    app.router.add_post("/v1/chat/completions", _chat)
    async with serve_app(app) as url:
        yield Endpoint(f"{url}/v1", app[ASKED])


@pytest.fixture
async def asking(endpoint: Endpoint) -> AsyncIterator[Callable[..., Awaitable[RetryingTarget]]]:
    opening = TargetContext({})

    async def make(
        model: str, *, limit: AdaptiveLimit | None = None, url: str = "", **patience: Any
    ) -> RetryingTarget:
        spec = TargetSpec(
            name=model, kind="openai", model=model, endpoint=url or endpoint.url, params=Params()
        )
        return RetryingTarget(
            await open_target(spec, opening), limit or AdaptiveLimit(8), RetryPolicy(**patience)
        )

    yield make
    await opening.aclose()


PROMPT = Prompt(messages=(Message(role="user", content="well?"),))


@pytest.mark.slow
async def test_what_can_pass_is_asked_again_and_what_cannot_never_is(
    endpoint: Endpoint, asking: Asking
) -> None:
    passing, lasting = [408, 409, 429, 500, 502, 503, 504, 529], [400, 401, 403, 404, 405, 410, 413, 422, 451]
    patients = [await asking(f"always-{status}", retries=1) for status in passing + lasting]
    results = await asyncio.gather(*(each.answer(PROMPT) for each in patients), return_exceptions=True)
    assert all(isinstance(result, TargetError) for result in results)
    assert all(str(status) in str(result) for status, result in zip(passing + lasting, results, strict=True))
    expected = {f"always-{status}": 2 for status in passing} | {f"always-{status}": 1 for status in lasting}
    assert endpoint.asked == expected


@pytest.mark.slow
async def test_an_answer_after_a_passing_failure_counts(endpoint: Endpoint, asking: Asking) -> None:
    output = await (await asking("once-500", retries=1)).answer(PROMPT)
    assert output.text == "fine"
    assert output.queue_ms >= 250  # the shortest wait before a first retry
    assert output.latency_ms < output.queue_ms


@pytest.mark.parametrize("model", ["always-500", "always-429", "drops"])
async def test_no_retries_means_one_request(endpoint: Endpoint, asking: Asking, model: str) -> None:
    with pytest.raises(TargetError):
        await (await asking(model, retries=0)).answer(PROMPT)
    assert endpoint.asked == {model: 1}


@pytest.mark.slow
async def test_a_lost_connection_is_tried_again(endpoint: Endpoint, asking: Asking) -> None:
    with pytest.raises(TargetError) as caught:
        await (await asking("drops", retries=1)).answer(PROMPT)
    assert caught.value.kind == "connection"
    assert endpoint.asked == {"drops": 2}


async def test_where_nobody_listens_the_error_says_so(asking: Asking) -> None:
    probe = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = probe.sockets[0].getsockname()[1]
    probe.close()
    await probe.wait_closed()
    patient = await asking("m", url=f"http://127.0.0.1:{port}/v1", retries=0)
    with pytest.raises(TargetError, match=f"127.0.0.1:{port}") as caught:
        await patient.answer(PROMPT)
    assert caught.value.kind == "connection"
    assert caught.value.transient


@pytest.mark.slow
async def test_a_timeout_is_told_as_one_and_not_tried_again(endpoint: Endpoint, asking: Asking) -> None:
    with pytest.raises(TargetTimeout):
        await (await asking("slow-3600", retries=4, timeout_s=0.1)).answer(PROMPT)
    assert endpoint.asked["slow-3600"] <= 1  # on a busy machine the time is over before it is asked


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_waited_for_and_is_no_latency(asking: Asking, status: int) -> None:
    patient = await asking(f"wait-{status}-0.3", retries=1)
    began = monotonic()
    output = await patient.answer(PROMPT)
    assert output.text == "fine"
    assert output.queue_ms >= 300
    assert output.queue_ms + output.latency_ms <= (monotonic() - began) * 1000


@pytest.mark.slow
async def test_everybody_at_a_busy_endpoint_waits_and_nobody_elsewhere(asking: Asking) -> None:
    shared = AdaptiveLimit(8)
    refused, other = await asking("wait-429-1", limit=shared, retries=1), await asking("m", limit=shared)
    elsewhere = await asking("m")
    first = asyncio.create_task(refused.answer(PROMPT))
    while not first.done() and shared.try_acquire():  # until the pause has begun
        shared.release()
        await asyncio.sleep(0.005)
    waiting = asyncio.create_task(other.answer(PROMPT))
    free = await elsewhere.answer(PROMPT)
    held = await waiting
    assert free.queue_ms < held.queue_ms
    assert (await first).text == "fine"
    assert shared.concurrency == 8  # what is paced need not be fewer at once
    assert shared.in_flight == 0


# --- on a clock that jumps ---------------------------------------------------------------------------------


class Failing:
    """Fails as often as it is told, then answers; keeps when it was asked."""

    def __init__(self, times: int, make: Callable[[], TargetError], *, usage: Usage | None = None) -> None:
        self.asked_at: list[float] = []
        self.closed = 0
        self._times = times
        self._make = make
        self._usage = usage

    async def answer(self, prompt: Prompt) -> Output:
        self.asked_at.append(asyncio.get_running_loop().time())
        if len(self.asked_at) <= self._times:
            raise self._make()
        return Output(text="fine", usage=self._usage)

    async def aclose(self) -> None:
        self.closed += 1


def _passing() -> TargetError:
    return TargetError("busy", transient=True)


def test_waits_double_with_jitter_and_end_at_thirty_seconds() -> None:
    target = Failing(9, _passing)
    run_virtually(RetryingTarget(target, AdaptiveLimit(1), RetryPolicy(retries=9)).answer(PROMPT))
    gaps = [after - before for before, after in pairwise(target.asked_at)]
    longest = [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert len(gaps) == len(longest)
    for gap, most in zip(gaps, longest, strict=True):
        assert most / 2 <= gap <= most


def test_two_that_fail_together_do_not_come_back_together() -> None:
    targets = [Failing(1, _passing) for _ in range(20)]

    async def go() -> None:
        await asyncio.gather(
            *(RetryingTarget(each, AdaptiveLimit(1), RetryPolicy()).answer(PROMPT) for each in targets)
        )

    run_virtually(go())
    assert len({target.asked_at[1] for target in targets}) > 10


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_it_asks_once_more_than_it_retries(retries: int) -> None:
    target = Failing(99, _passing)
    with pytest.raises(TargetError, match="busy"):
        run_virtually(RetryingTarget(target, AdaptiveLimit(1), RetryPolicy(retries=retries)).answer(PROMPT))
    assert len(target.asked_at) == retries + 1


def test_who_waits_for_a_retry_holds_no_place() -> None:
    limit = AdaptiveLimit(1)
    failing, other = Failing(1, _passing), Failing(0, _passing)

    async def go() -> None:
        slow = asyncio.create_task(RetryingTarget(failing, limit, RetryPolicy()).answer(PROMPT))
        await asyncio.sleep(0.1)
        await RetryingTarget(other, limit, RetryPolicy()).answer(PROMPT)
        assert len(failing.asked_at) == 1
        await slow

    run_virtually(go())


def test_who_is_cancelled_while_waiting_for_a_retry_leaves_the_endpoint_free() -> None:
    limit = AdaptiveLimit(1)

    async def go() -> None:
        asking = asyncio.create_task(
            RetryingTarget(Failing(9, _passing), limit, RetryPolicy()).answer(PROMPT)
        )
        await asyncio.sleep(0.1)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()

    run_virtually(go())
    assert limit.in_flight == 0


@pytest.mark.parametrize(("asked_for_s", "told"), [(6.0, 1), (4.0, 0)])
def test_a_long_pause_that_was_asked_for_is_told(asked_for_s: float, told: int) -> None:
    heard = list[str]()
    target = Failing(1, lambda: TargetError("busy", transient=True, retry_after_s=asked_for_s))
    run_virtually(RetryingTarget(target, AdaptiveLimit(1), RetryPolicy(), notify=heard.append).answer(PROMPT))
    assert asked_for_s <= target.asked_at[1] <= asked_for_s + 0.2
    assert len(heard) == told
    assert all("6 s" in sentence for sentence in heard)


def test_what_nobody_thought_of_is_one_failed_answer_and_leaves_the_endpoint_free() -> None:
    class Broken(Failing):
        async def answer(self, prompt: Prompt) -> Output:
            raise KeyError("a fault")

    limit = AdaptiveLimit(1)
    with pytest.raises(TargetError, match="KeyError: 'a fault'") as caught:
        run_virtually(RetryingTarget(Broken(0, _passing), limit, RetryPolicy()).answer(PROMPT))
    assert (caught.value.kind, caught.value.transient) == ("protocol", False)
    assert limit.in_flight == 0


def test_a_pause_that_is_asked_for_beyond_reason_is_not_waited_for() -> None:
    class Asleep(Failing):
        async def answer(self, prompt: Prompt) -> Output:
            raise TargetError("Busy.", transient=True, busy=True, retry_after_s=86_400)

    limit = AdaptiveLimit(2)
    with pytest.raises(EndpointFailed, match=r"86,400 s, which is too long to wait\. Try again after 20"):
        run_virtually(RetryingTarget(Asleep(0, _passing), limit, RetryPolicy()).answer(PROMPT))
    assert limit.in_flight == 0


@pytest.mark.parametrize("fields", [{"latency_ms": float("nan")}, {"latency_ms": -1.0}])
def test_a_number_that_no_store_can_hold_is_a_failed_answer(fields: dict[str, Any]) -> None:
    class Odd(Failing):
        async def answer(self, prompt: Prompt) -> Output:
            return Output(text="4", **fields)

    with pytest.raises(TargetError, match="cannot be stored"):
        run_virtually(RetryingTarget(Odd(0, _passing), AdaptiveLimit(1), RetryPolicy()).answer(PROMPT))


def test_a_known_price_makes_a_cost_and_an_unknown_one_none() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=500_000)
    price = Price(input=3.0, output=10.0)
    for given, cost in ((price, 8.0), (None, None)):
        patient = RetryingTarget(
            Failing(0, _passing, usage=usage), AdaptiveLimit(1), RetryPolicy(), price=given
        )
        assert run_virtually(patient.answer(PROMPT)).cost_usd == cost


def test_closing_it_closes_the_target() -> None:
    target = Failing(0, _passing)
    run_virtually(RetryingTarget(target, AdaptiveLimit(1), RetryPolicy()).aclose())
    assert target.closed == 1
