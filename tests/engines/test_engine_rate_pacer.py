"""Endpoints with a limit of requests a second: how long many calls take, on virtual time."""

from __future__ import annotations

import asyncio
from collections import deque
from random import Random
from typing import Any, Protocol

import pytest

from proctor.engines.adaptive_limit import AdaptiveLimit
from proctor.engines.retries import RetryingTarget, RetryPolicy
from proctor.errors import EndpointFault, TargetError
from proctor.model import Output, Prompt
from proctor.protocols import Quota
from support.virtual_time import Virtually, get_time

pytestmark = pytest.mark.slow

PROMPT = Prompt(messages=())


class Allowance(Protocol):
    """What a server allows."""

    def allows(self) -> bool:
        """Whether one more request is taken now."""


class Bucket:
    """Tokens that come back one by one, up to a second's worth."""

    def __init__(self, per_s: int) -> None:
        self.per_s = per_s
        self.tokens = float(per_s)
        self.at = 0.0

    def allows(self) -> bool:
        self.tokens = min(self.per_s, self.tokens + (get_time() - self.at) * self.per_s)
        self.at = get_time()
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class FixedWindow:
    """So many requests in each second of the clock."""

    def __init__(self, per_s: int) -> None:
        self.per_s = per_s
        self.window, self.count = -1, 0

    def allows(self) -> bool:
        if int(get_time()) != self.window:
            self.window, self.count = int(get_time()), 0
        self.count += 1
        return self.count <= self.per_s


class SlidingWindow:
    """So many requests in any second."""

    def __init__(self, per_s: int) -> None:
        self.per_s = per_s
        self.sent_at = deque[float]()

    def allows(self) -> bool:
        while self.sent_at and self.sent_at[0] <= get_time() - 1:
            self.sent_at.popleft()
        if len(self.sent_at) >= self.per_s:
            return False
        self.sent_at.append(get_time())
        return True


class Server:
    """Answers what its quota allows, after a while, and refuses the rest at once."""

    def __init__(self, quota: Allowance, latency_s: float) -> None:
        self.quota = quota
        self.latency_s = latency_s
        self.refusals = 0

    async def answer(self, prompt: Prompt) -> Output:
        await asyncio.sleep(0.001)
        if not self.quota.allows():
            self.refusals += 1
            raise TargetError(
                "slow down", transient=True, busy=True, retry_after_s=1.0, fault=EndpointFault.THROTTLED
            )
        await asyncio.sleep(self.latency_s)
        return Output(text="4")

    async def aclose(self) -> None:
        pass


async def ask(target: RetryingTarget, cases: int, concurrency: int) -> float:
    """Returns how many seconds the calls take; raises what any of them raises."""
    cases_left = iter(range(cases))

    async def work() -> None:
        for _ in cases_left:
            await target.answer(PROMPT)

    began = get_time()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return get_time() - began


@pytest.mark.parametrize("latency_s", [0.001, 0.4])
@pytest.mark.parametrize("concurrency", [10, 50, 200])
@pytest.mark.parametrize("quota", [Bucket, FixedWindow, SlidingWindow])
def test_2000_calls_at_20_a_second_take_115_seconds_at_most_and_none_fails(
    jumping: Virtually, quota: type[Any], concurrency: int, latency_s: float
) -> None:
    server = Server(quota(20), latency_s)
    target = RetryingTarget(server, AdaptiveLimit(concurrency), RetryPolicy(retries=0))
    took_s = jumping(ask(target, 2_000, concurrency))
    assert took_s <= 1.15 * 100
    assert server.refusals < 400


class BigBucket(Bucket):
    """Holds a hundred times what it gets back in a second, so that the first seconds are not its rate."""

    def __init__(self, per_s: int) -> None:
        super().__init__(per_s)
        self.tokens = 100.0 * per_s

    def allows(self) -> bool:
        tokens, self.tokens = self.tokens, min(self.tokens, 100.0 * self.per_s)
        if tokens > self.per_s:
            self.tokens, self.at = tokens - 1, get_time()
            return True
        return super().allows()


def test_a_rate_that_was_only_possible_at_first_is_not_clung_to(jumping: Virtually) -> None:
    server = Server(BigBucket(20), 0.05)
    target = RetryingTarget(server, AdaptiveLimit(50), RetryPolicy())
    took_s = jumping(ask(target, 4_000, 50))
    assert took_s <= 1.15 * 100
    assert server.refusals < 400


class RandomQuota:
    """Refuses a share of all requests, however few there are."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.random = Random(7)

    def allows(self) -> bool:
        return self.random.random() >= self.share


@pytest.mark.parametrize(("share", "most_s"), [(0.02, 60), (0.1, 150), (0.3, 300)])
def test_an_endpoint_that_refuses_whatever_the_rate_is_not_slowed_down_to_a_stop(
    jumping: Virtually, share: float, most_s: float
) -> None:
    target = RetryingTarget(Server(RandomQuota(share), 0.02), AdaptiveLimit(8), RetryPolicy(retries=0))
    took_s = jumping(ask(target, 500, 8))
    assert took_s <= most_s


def test_a_limit_that_is_lifted_is_forgotten_after_minutes(jumping: Virtually) -> None:
    class Lifted(Bucket):
        def allows(self) -> bool:
            return get_time() > 60 or super().allows()

    target = RetryingTarget(Server(Lifted(20), 0.01), AdaptiveLimit(50), RetryPolicy())
    assert jumping(ask(target, 40_000, 50)) < 60 + 900


def test_an_endpoint_that_refuses_nothing_is_not_paced(jumping: Virtually) -> None:
    class Free(Bucket):
        def allows(self) -> bool:
            return True

    target = RetryingTarget(Server(Free(1), 0.099), AdaptiveLimit(50), RetryPolicy())
    assert jumping(ask(target, 5_000, 50)) == pytest.approx(10, rel=0.01)


def test_nobody_is_asked_until_there_are_requests_left_again(jumping: Virtually) -> None:
    async def go() -> float:
        limit = AdaptiveLimit(8)
        limit.on_quotas([Quota("requests", 0, 30.0)])
        await limit.acquire()
        return get_time()

    assert jumping(go()) == pytest.approx(30, abs=0.1)


@pytest.mark.parametrize(("tokens", "waits_s"), [(2_000, 0), (500, 30)])
def test_a_call_waits_where_fewer_tokens_are_left_than_calls_take(
    jumping: Virtually, tokens: int, waits_s: float
) -> None:
    async def go() -> float:
        limit = AdaptiveLimit(8)
        limit.on_quotas([Quota("tokens", 10_000, 30.0)])
        limit.count_tokens(1_000)
        limit.on_quotas([Quota("tokens", tokens, 30.0)])
        await limit.acquire()
        return get_time()

    assert jumping(go()) == pytest.approx(waits_s, abs=0.1)
