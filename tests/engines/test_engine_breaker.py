"""Endpoints that fail every call: when they are given up, probed and called again. On virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from proctor.engines.adaptive_limit import AdaptiveLimit
from proctor.engines.fallback import FallbackTarget
from proctor.engines.retries import RetryingTarget, RetryPolicy
from proctor.errors import EndpointFailed, EndpointFault, TargetError
from proctor.model import Output, Prompt
from support.virtual_time import Virtually, get_time

PROMPT = Prompt(messages=())


class Endpoint:
    """Fails while `is_down` says so, and records when it was called."""

    def __init__(self, error: Callable[[], TargetError], is_down: Callable[[], bool] = lambda: True) -> None:
        self.called_at = list[float]()
        self._error = error
        self._is_down = is_down

    async def answer(self, prompt: Prompt) -> Output:
        self.called_at.append(get_time())
        await asyncio.sleep(0.01)
        if self._is_down():
            raise self._error()
        return Output(text="fine")

    async def aclose(self) -> None:
        pass


def make_permanent_error() -> TargetError:
    return TargetError("It answered 401.", fault=EndpointFault.PERMANENT, remedy="Check the key.")


def make_server_error() -> TargetError:
    return TargetError("It answered 500.", transient=True, fault=EndpointFault.SERVER)


def make_connection_error() -> TargetError:
    return TargetError("No connection.", kind="connection", transient=True, fault=EndpointFault.UNREACHABLE)


def make_throttling_error() -> TargetError:
    return TargetError("It answered 429.", transient=True, busy=True, fault=EndpointFault.THROTTLED)


async def ask_all(
    target: Any, cases: int = 2_000, concurrency: int = 32
) -> tuple[list[Output], list[TargetError]]:
    """Makes many calls until the endpoint is given up; returns their outputs and errors."""
    cases_left, outputs, errors = iter(range(cases)), list[Output](), list[TargetError]()

    async def work() -> None:
        for _ in cases_left:
            try:
                outputs.append(await target.answer(PROMPT))
            except EndpointFailed as error:
                errors.append(error)
                return
            except TargetError as error:
                errors.append(error)

    await asyncio.gather(*(work() for _ in range(concurrency)))
    return outputs, errors


def make_target(endpoint: Endpoint, concurrency: int = 32, **policy: Any) -> RetryingTarget:
    return RetryingTarget(endpoint, AdaptiveLimit(concurrency), RetryPolicy(**policy))


def find_endpoint_failures(errors: list[TargetError]) -> list[TargetError]:
    return [error for error in errors if isinstance(error, EndpointFailed)]


@pytest.mark.parametrize("concurrency", [1, 8, 32, 200])
def test_a_wrong_key_sends_no_more_than_are_under_way_and_a_few(jumping: Virtually, concurrency: int) -> None:
    endpoint = Endpoint(make_permanent_error)
    outputs, errors = jumping(ask_all(make_target(endpoint, concurrency), concurrency=concurrency))
    assert outputs == []
    assert len(endpoint.called_at) <= concurrency + 5
    assert (
        str(find_endpoint_failures(errors)[0])
        == "Every call failed, 5 times in a row: It answered 401. Check the key."
    )


def test_a_success_between_failures_starts_the_count_anew(jumping: Virtually) -> None:
    endpoint = Endpoint(make_permanent_error, lambda: len(endpoint.called_at) % 5 != 0)
    outputs, errors = jumping(ask_all(make_target(endpoint, 1), cases=50, concurrency=1))
    assert (len(outputs), len(errors), find_endpoint_failures(errors)) == (10, 40, [])


def test_a_server_that_only_fails_is_asked_by_probes_that_grow_rare_and_then_given_up(
    jumping: Virtually,
) -> None:
    endpoint = Endpoint(make_server_error)
    outputs, errors = jumping(ask_all(make_target(endpoint)))
    assert outputs == []
    assert find_endpoint_failures(errors)
    assert len(endpoint.called_at) <= 32 + 12
    probes = endpoint.called_at[32:]
    gaps = [after - before for before, after in pairwise(probes)]
    assert max(gaps) > 8 * min(gaps)
    assert 60 <= endpoint.called_at[-1] <= 100


@pytest.mark.slow
def test_calls_wait_for_a_server_that_comes_back_and_none_fails(jumping: Virtually) -> None:
    endpoint = Endpoint(make_server_error, lambda: 1 < get_time() < 40)
    outputs, errors = jumping(ask_all(make_target(endpoint), cases=5_000))
    assert (len(outputs), errors) == (5_000, [])
    assert len(endpoint.called_at) < 5_000 + 60


def test_where_nobody_listens_calls_wait_as_long_as_one_is_retried(jumping: Virtually) -> None:
    endpoint = Endpoint(make_connection_error)
    _, errors = jumping(ask_all(make_target(endpoint, retries=4)))
    assert find_endpoint_failures(errors)
    assert len(endpoint.called_at) <= 32 + 8
    assert 7 <= endpoint.called_at[-1] <= 20


def test_a_server_that_is_starting_is_waited_for(jumping: Virtually) -> None:
    endpoint = Endpoint(make_connection_error, lambda: get_time() < 5)
    outputs, errors = jumping(ask_all(make_target(endpoint), cases=100))
    assert (len(outputs), errors) == (100, [])


def test_no_retries_means_that_nobody_waits_for_a_server_to_start(jumping: Virtually) -> None:
    endpoint = Endpoint(make_connection_error)
    _, errors = jumping(ask_all(make_target(endpoint, retries=0)))
    assert find_endpoint_failures(errors)
    assert len(endpoint.called_at) <= 32 + 5


def test_a_server_that_refuses_every_request_as_one_too_many_is_given_up(jumping: Virtually) -> None:
    endpoint = Endpoint(make_throttling_error)
    _, errors = jumping(ask_all(make_target(endpoint)))
    assert find_endpoint_failures(errors)
    assert len(endpoint.called_at) <= 32 + 12


@pytest.mark.slow
def test_a_server_that_fails_three_calls_of_ten_trips_nothing(
    jumping: Virtually, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(7)
    endpoint = Endpoint(make_server_error, lambda: dice.random() < 0.3)
    target = make_target(endpoint, retries=20)
    tripped = list[float]()
    monkeypatch.setattr(
        "proctor.engines.adaptive_limit.CircuitBreaker.trip", lambda _self, at, _probe_at: tripped.append(at)
    )
    outputs, errors = jumping(ask_all(target))
    assert (len(outputs), errors, tripped) == (2_000, [], [])


def test_requests_that_only_themselves_fail_do_not_end_the_others(jumping: Virtually) -> None:
    """The last calls of a run are those that are repeated: nothing else succeeds between them."""

    class FailsOneCase(Endpoint):
        async def answer(self, prompt: Prompt) -> Output:
            await asyncio.sleep(0.01)
            if int(prompt.case_id) % 100 == 0:
                raise make_server_error()
            return Output(text="fine")

    target = make_target(FailsOneCase(make_server_error))

    async def ask(number: int) -> Output | TargetError:
        try:
            return await target.answer(Prompt(messages=(), case_id=str(number)))
        except TargetError as error:
            return error

    async def go() -> list[Output | TargetError]:
        return list(await asyncio.gather(*map(ask, range(2_000))))

    results = jumping(go())
    errors = [result for result in results if isinstance(result, TargetError)]
    assert len(errors) == 20
    assert find_endpoint_failures(errors) == []


def test_a_fallback_answers_where_the_endpoint_was_given_up(jumping: Virtually) -> None:
    endpoint, other = Endpoint(make_permanent_error), Endpoint(make_permanent_error, lambda: False)
    target = FallbackTarget([("first", make_target(endpoint)), ("other", make_target(other))])
    outputs, errors = jumping(ask_all(target))
    assert (len(outputs), errors) == (2_000, [])
    assert len(endpoint.called_at) <= 32 + 5


def test_one_call_tries_an_endpoint_again_half_a_minute_after_it_was_given_up(jumping: Virtually) -> None:
    endpoint = Endpoint(make_permanent_error, lambda: get_time() < 10)
    target = make_target(endpoint)

    async def go() -> Output:
        await ask_all(target)
        call_count = len(endpoint.called_at)
        with pytest.raises(EndpointFailed):
            await target.answer(PROMPT)
        assert len(endpoint.called_at) == call_count
        await asyncio.sleep(31)
        await target.answer(PROMPT)
        return await target.answer(PROMPT)

    assert jumping(go()).text == "fine"


@pytest.mark.parametrize("retry_after_s", [0.0, 0.1])
def test_the_wait_is_the_longer_of_the_backoff_and_what_was_asked_for(
    jumping: Virtually, retry_after_s: float
) -> None:
    def busy() -> TargetError:
        return TargetError(
            "busy", transient=True, busy=True, retry_after_s=retry_after_s, fault=EndpointFault.THROTTLED
        )

    endpoint = Endpoint(busy, lambda: get_time() < 2)
    outputs, errors = jumping(ask_all(make_target(endpoint), cases=1))
    assert (len(outputs), errors) == (1, [])
    assert len(endpoint.called_at) <= 5


@pytest.mark.parametrize("retry_after_s", [301.0, 1e9, float("inf")])
def test_a_wait_beyond_the_limit_gives_the_endpoint_up_at_once(
    jumping: Virtually, retry_after_s: float
) -> None:
    endpoint = Endpoint(lambda: TargetError("busy.", transient=True, busy=True, retry_after_s=retry_after_s))
    _, errors = jumping(ask_all(make_target(endpoint)))
    assert len(endpoint.called_at) <= 32
    assert "too long" in str(find_endpoint_failures(errors)[0])


def test_a_probe_that_is_cancelled_lets_another_one_go(jumping: Virtually) -> None:
    endpoint = Endpoint(make_connection_error, lambda: get_time() < 5)
    target = make_target(endpoint)
    calls: list[Awaitable[Any]] = []

    async def go() -> str:
        tasks = [asyncio.create_task(target.answer(PROMPT)) for _ in range(20)]
        calls.extend(tasks)
        await asyncio.sleep(1.5)
        for task in tasks[:10]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        return str([output.text for output in results if isinstance(output, Output)])

    assert jumping(go()) == str(["fine"] * 10)
