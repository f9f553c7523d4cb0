"""Retries, `Retry-After`, waiting and cost: against a real server on loopback, and on virtual time."""

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

MakeTarget = Callable[..., Awaitable[RetryingTarget]]
FINE = {"choices": [{"message": {"content": "fine"}}]}


# --- against a real server ---------------------------------------------------------------------------------


class Endpoint(NamedTuple):
    """A server whose answer depends on the model's name, with how often each model was asked for."""

    url: str
    call_counts: Counter[str]


async def _chat(request: web.Request) -> web.StreamResponse:
    call_counts = request.app[CALL_COUNTS]
    model = (await request.json())["model"]
    call_counts[model] += 1
    word, _, argument = model.partition("-")
    if word == "always":
        return web.json_response({"error": {"message": "no"}}, status=int(argument))
    if word == "drops":
        assert request.transport is not None
        request.transport.abort()
    elif word == "slow":
        await asyncio.sleep(float(argument))
    elif word == "wait" and call_counts[model] == 1:
        status, _, seconds = argument.partition("-")
        return web.Response(status=int(status), headers={"Retry-After": seconds})
    elif word == "once" and call_counts[model] == 1:
        return web.Response(status=int(argument))
    return web.json_response(FINE)


CALL_COUNTS: web.AppKey[Counter[str]] = web.AppKey("call_counts", Counter)


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    app = web.Application()
    app[CALL_COUNTS] = Counter()
    app.router.add_post("/v1/chat/completions", _chat)
    async with serve_app(app) as url:
        yield Endpoint(f"{url}/v1", app[CALL_COUNTS])


@pytest.fixture
async def make_target(endpoint: Endpoint) -> AsyncIterator[Callable[..., Awaitable[RetryingTarget]]]:
    context = TargetContext({})

    async def make(
        model: str, *, limit: AdaptiveLimit | None = None, url: str = "", **policy: Any
    ) -> RetryingTarget:
        spec = TargetSpec(
            name=model, kind="openai", model=model, endpoint=url or endpoint.url, params=Params()
        )
        return RetryingTarget(
            await open_target(spec, context), limit or AdaptiveLimit(8), RetryPolicy(**policy)
        )

    yield make
    await context.aclose()


PROMPT = Prompt(messages=(Message(role="user", content="well?"),))


@pytest.mark.slow
async def test_what_can_pass_is_asked_again_and_what_cannot_never_is(
    endpoint: Endpoint, make_target: MakeTarget
) -> None:
    passing, lasting = [408, 409, 429, 500, 502, 503, 504, 529], [400, 401, 403, 404, 405, 410, 413, 422, 451]
    targets = [await make_target(f"always-{status}", retries=1) for status in passing + lasting]
    results = await asyncio.gather(*(target.answer(PROMPT) for target in targets), return_exceptions=True)
    assert all(isinstance(result, TargetError) for result in results)
    assert all(str(status) in str(result) for status, result in zip(passing + lasting, results, strict=True))
    expected = {f"always-{status}": 2 for status in passing} | {f"always-{status}": 1 for status in lasting}
    assert endpoint.call_counts == expected


@pytest.mark.slow
async def test_an_answer_after_a_passing_failure_counts(endpoint: Endpoint, make_target: MakeTarget) -> None:
    output = await (await make_target("once-500", retries=1)).answer(PROMPT)
    assert output.text == "fine"
    assert output.queue_ms >= 250  # the shortest wait before a first retry
    assert output.latency_ms < output.queue_ms


@pytest.mark.parametrize("model", ["always-500", "always-429", "drops"])
async def test_no_retries_means_one_request(endpoint: Endpoint, make_target: MakeTarget, model: str) -> None:
    with pytest.raises(TargetError):
        await (await make_target(model, retries=0)).answer(PROMPT)
    assert endpoint.call_counts == {model: 1}


@pytest.mark.slow
async def test_a_lost_connection_is_tried_again(endpoint: Endpoint, make_target: MakeTarget) -> None:
    with pytest.raises(TargetError) as caught:
        await (await make_target("drops", retries=1)).answer(PROMPT)
    assert caught.value.kind == "connection"
    assert endpoint.call_counts == {"drops": 2}


async def test_where_nobody_listens_the_error_says_so(make_target: MakeTarget) -> None:
    probe = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = probe.sockets[0].getsockname()[1]
    probe.close()
    await probe.wait_closed()
    target = await make_target("m", url=f"http://127.0.0.1:{port}/v1", retries=0)
    with pytest.raises(TargetError, match=f"127.0.0.1:{port}") as caught:
        await target.answer(PROMPT)
    assert caught.value.kind == "connection"
    assert caught.value.transient


@pytest.mark.slow
async def test_a_timeout_is_told_as_one_and_not_tried_again(
    endpoint: Endpoint, make_target: MakeTarget
) -> None:
    with pytest.raises(TargetTimeout):
        await (await make_target("slow-3600", retries=4, timeout_s=0.1)).answer(PROMPT)
    assert endpoint.call_counts["slow-3600"] <= 1  # on a busy machine the time is over before it is asked


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_waited_for_and_is_no_latency(make_target: MakeTarget, status: int) -> None:
    target = await make_target(f"wait-{status}-0.3", retries=1)
    began = monotonic()
    output = await target.answer(PROMPT)
    assert output.text == "fine"
    assert output.queue_ms >= 300
    assert output.queue_ms + output.latency_ms <= (monotonic() - began) * 1000


@pytest.mark.slow
async def test_everybody_at_a_busy_endpoint_waits_and_nobody_elsewhere(make_target: MakeTarget) -> None:
    shared = AdaptiveLimit(8)
    throttled, other = (
        await make_target("wait-429-1", limit=shared, retries=1),
        await make_target("m", limit=shared),
    )
    unlimited = await make_target("m")
    first = asyncio.create_task(throttled.answer(PROMPT))
    while not first.done() and shared.try_acquire():  # until the pause begins
        shared.release()
        await asyncio.sleep(0.005)
    waiting = asyncio.create_task(other.answer(PROMPT))
    free_output = await unlimited.answer(PROMPT)
    delayed_output = await waiting
    assert free_output.queue_ms < delayed_output.queue_ms
    assert (await first).text == "fine"
    assert shared.concurrency == 8  # what is paced need not be fewer at once
    assert shared.in_flight == 0


# --- on virtual time ---------------------------------------------------------------------------------------


class FailingTarget:
    """Fails `times` times, then answers; records when it was called."""

    def __init__(self, times: int, make: Callable[[], TargetError], *, usage: Usage | None = None) -> None:
        self.called_at: list[float] = []
        self.closed = 0
        self._times = times
        self._make = make
        self._usage = usage

    async def answer(self, prompt: Prompt) -> Output:
        self.called_at.append(asyncio.get_running_loop().time())
        if len(self.called_at) <= self._times:
            raise self._make()
        return Output(text="fine", usage=self._usage)

    async def aclose(self) -> None:
        self.closed += 1


def _make_transient_error() -> TargetError:
    return TargetError("busy", transient=True)


def test_waits_double_with_jitter_and_end_at_thirty_seconds() -> None:
    target = FailingTarget(9, _make_transient_error)
    run_virtually(RetryingTarget(target, AdaptiveLimit(1), RetryPolicy(retries=9)).answer(PROMPT))
    gaps = [after - before for before, after in pairwise(target.called_at)]
    longest = [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert len(gaps) == len(longest)
    for gap, most in zip(gaps, longest, strict=True):
        assert most / 2 <= gap <= most


def test_two_that_fail_together_do_not_come_back_together() -> None:
    targets = [FailingTarget(1, _make_transient_error) for _ in range(20)]

    async def go() -> None:
        await asyncio.gather(
            *(RetryingTarget(target, AdaptiveLimit(1), RetryPolicy()).answer(PROMPT) for target in targets)
        )

    run_virtually(go())
    assert len({target.called_at[1] for target in targets}) > 10


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_it_asks_once_more_than_it_retries(retries: int) -> None:
    target = FailingTarget(99, _make_transient_error)
    with pytest.raises(TargetError, match="busy"):
        run_virtually(RetryingTarget(target, AdaptiveLimit(1), RetryPolicy(retries=retries)).answer(PROMPT))
    assert len(target.called_at) == retries + 1


def test_who_waits_for_a_retry_holds_no_place() -> None:
    limit = AdaptiveLimit(1)
    failing, other = FailingTarget(1, _make_transient_error), FailingTarget(0, _make_transient_error)

    async def go() -> None:
        slow = asyncio.create_task(RetryingTarget(failing, limit, RetryPolicy()).answer(PROMPT))
        await asyncio.sleep(0.1)
        await RetryingTarget(other, limit, RetryPolicy()).answer(PROMPT)
        assert len(failing.called_at) == 1
        await slow

    run_virtually(go())


def test_who_is_cancelled_while_waiting_for_a_retry_leaves_the_endpoint_free() -> None:
    limit = AdaptiveLimit(1)

    async def go() -> None:
        task = asyncio.create_task(
            RetryingTarget(FailingTarget(9, _make_transient_error), limit, RetryPolicy()).answer(PROMPT)
        )
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    run_virtually(go())
    assert limit.in_flight == 0


@pytest.mark.parametrize(("retry_after_s", "note_count"), [(6.0, 1), (4.0, 0)])
def test_a_long_pause_that_was_asked_for_is_told(retry_after_s: float, note_count: int) -> None:
    notes = list[str]()
    target = FailingTarget(1, lambda: TargetError("busy", transient=True, retry_after_s=retry_after_s))
    run_virtually(RetryingTarget(target, AdaptiveLimit(1), RetryPolicy(), notify=notes.append).answer(PROMPT))
    assert retry_after_s <= target.called_at[1] <= retry_after_s + 0.2
    assert len(notes) == note_count
    assert all("6 s" in sentence for sentence in notes)


def test_what_nobody_thought_of_is_one_failed_answer_and_leaves_the_endpoint_free() -> None:
    class Broken(FailingTarget):
        async def answer(self, prompt: Prompt) -> Output:
            raise KeyError("a fault")

    limit = AdaptiveLimit(1)
    with pytest.raises(TargetError, match="KeyError: 'a fault'") as caught:
        run_virtually(RetryingTarget(Broken(0, _make_transient_error), limit, RetryPolicy()).answer(PROMPT))
    assert (caught.value.kind, caught.value.transient) == ("protocol", False)
    assert limit.in_flight == 0


def test_a_pause_that_is_asked_for_beyond_reason_is_not_waited_for() -> None:
    class AlwaysBusy(FailingTarget):
        async def answer(self, prompt: Prompt) -> Output:
            raise TargetError("Busy.", transient=True, busy=True, retry_after_s=86_400)

    limit = AdaptiveLimit(2)
    with pytest.raises(EndpointFailed, match=r"86,400 s, which is too long to wait\. Try again after 20"):
        run_virtually(
            RetryingTarget(AlwaysBusy(0, _make_transient_error), limit, RetryPolicy()).answer(PROMPT)
        )
    assert limit.in_flight == 0


@pytest.mark.parametrize("fields", [{"latency_ms": float("nan")}, {"latency_ms": -1.0}])
def test_a_number_that_no_store_can_hold_is_a_failed_answer(fields: dict[str, Any]) -> None:
    class OddNumber(FailingTarget):
        async def answer(self, prompt: Prompt) -> Output:
            return Output(text="4", **fields)

    with pytest.raises(TargetError, match="cannot be stored"):
        run_virtually(
            RetryingTarget(OddNumber(0, _make_transient_error), AdaptiveLimit(1), RetryPolicy()).answer(
                PROMPT
            )
        )


def test_a_known_price_makes_a_cost_and_an_unknown_one_none() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=500_000)
    price = Price(input=3.0, output=10.0)
    for known_price, cost in ((price, 8.0), (None, None)):
        target = RetryingTarget(
            FailingTarget(0, _make_transient_error, usage=usage),
            AdaptiveLimit(1),
            RetryPolicy(),
            price=known_price,
        )
        assert run_virtually(target.answer(PROMPT)).cost_usd == cost


def test_closing_it_closes_the_target() -> None:
    target = FailingTarget(0, _make_transient_error)
    run_virtually(RetryingTarget(target, AdaptiveLimit(1), RetryPolicy()).aclose())
    assert target.closed == 1
