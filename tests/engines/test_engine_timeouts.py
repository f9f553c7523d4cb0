"""The time limit of each call, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.engines.adaptive_limit import AdaptiveLimit
from proctor.engines.retries import RetryingTarget, RetryPolicy
from proctor.errors import TargetError, TargetTimeout
from proctor.model import Output, Prompt
from support.virtual_time import get_time, run_virtually

PROMPT = Prompt(messages=())


class CallbackTarget:
    """A target that awaits a function and answers with its text, or `done`."""

    def __init__(self, do: Callable[[Prompt], Awaitable[Any]]) -> None:
        self._do = do

    async def answer(self, prompt: Prompt) -> Output:
        text = await self._do(prompt)
        return Output(text=text or "done")

    async def aclose(self) -> None:
        pass


def _make_target(do: Callable[[Prompt], Awaitable[Any]], timeout_s: float = 10) -> RetryingTarget:
    return RetryingTarget(CallbackTarget(do), AdaptiveLimit(100), RetryPolicy(timeout_s=timeout_s, retries=3))


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


def test_a_call_just_in_time_is_answered() -> None:
    target = _make_target(lambda _prompt: asyncio.sleep(9.9))
    assert run_virtually(target.answer(PROMPT)).text == "done"


def test_a_late_call_is_cancelled_when_its_time_is_up_and_not_repeated() -> None:
    end_times = list[float]()

    async def late(_prompt: Prompt) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            end_times.append(get_time())

    with pytest.raises(TargetTimeout, match=r"within 10 s.*--timeout"):
        run_virtually(_make_target(late).answer(PROMPT))
    assert end_times == [10]


def test_a_task_goes_on_as_if_nothing_had_been_after_a_late_call() -> None:
    waits = iter([5.0, 0.5] * 3)
    target = _make_target(lambda _prompt: asyncio.sleep(next(waits)), timeout_s=1)

    async def go() -> None:
        for _ in range(3):
            with pytest.raises(TargetTimeout):
                await target.answer(PROMPT)
            assert _this_task().cancelling() == 0
            assert (await target.answer(PROMPT)).text == "done"

    run_virtually(go())


def test_an_error_of_the_target_is_not_taken_for_lateness() -> None:
    async def broken(_prompt: Prompt) -> None:
        raise TargetError("no")

    with pytest.raises(TargetError, match=r"^no$"):
        run_virtually(_make_target(broken).answer(PROMPT))


@pytest.mark.parametrize("cancelled_at", [0.0, 5.0, 10.0])
def test_cancellation_from_outside_is_not_taken_for_lateness(cancelled_at: float) -> None:
    async def go() -> None:
        task = asyncio.create_task(_make_target(lambda _prompt: asyncio.sleep(100)).answer(PROMPT))
        asyncio.get_running_loop().call_at(cancelled_at, task.cancel)
        await asyncio.wait([task])
        assert task.cancelled()

    run_virtually(go())


def test_cancellation_that_comes_while_a_late_call_cleans_up_is_not_swallowed() -> None:
    async def slow_to_go(_prompt: Prompt) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(5)

    async def go() -> None:
        task = asyncio.create_task(_make_target(slow_to_go).answer(PROMPT))
        asyncio.get_running_loop().call_at(12, task.cancel)
        await asyncio.wait([task])
        assert task.cancelled()

    run_virtually(go())


def test_a_call_that_answers_while_it_is_cancelled_leaves_no_cancellation_behind() -> None:
    async def stubborn(_prompt: Prompt) -> str:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return "partial"
        return "whole"

    async def go() -> None:
        assert (await _make_target(stubborn).answer(PROMPT)).text == "partial"
        assert _this_task().cancelling() == 0

    run_virtually(go())


def test_waiting_for_a_place_does_not_count_as_the_call() -> None:
    target = RetryingTarget(
        CallbackTarget(lambda _prompt: asyncio.sleep(8)),
        AdaptiveLimit(1),
        RetryPolicy(timeout_s=10, retries=0),
    )

    async def go() -> list[Output]:
        return list(await asyncio.gather(*(target.answer(PROMPT) for _ in range(4))))

    assert [output.text for output in run_virtually(go())] == ["done"] * 4


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the fixture holds nothing
@given(
    calls=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 40).filter(lambda took: took != 10)),
        min_size=1,
        max_size=30,
    )
)
def test_each_of_many_calls_has_ten_seconds_of_its_own(calls: list[tuple[int, int]]) -> None:
    """Each call is given as the second at which it begins and how many it takes."""
    target = _make_target(lambda prompt: asyncio.sleep(int(prompt.case_id)))

    async def call(begin: int, took: int) -> None:
        await asyncio.sleep(begin)
        try:
            await target.answer(Prompt(messages=(), case_id=str(took)))
        except TargetTimeout:
            assert took > 10
        else:
            assert took < 10
        assert get_time() == pytest.approx(begin + min(took, 10))

    async def go() -> None:
        await asyncio.gather(*(call(begin, took) for begin, took in calls))

    run_virtually(go())


def test_all_calls_whose_time_is_up_after_a_stall_end_together() -> None:
    end_times = list[float]()
    target = RetryingTarget(
        CallbackTarget(lambda _prompt: asyncio.sleep(3600)), AdaptiveLimit(200), RetryPolicy(timeout_s=1)
    )

    async def call() -> None:
        with pytest.raises(TargetTimeout):
            await target.answer(PROMPT)
        end_times.append(get_time())

    def stall() -> None:
        asyncio.get_running_loop().now += 3.0  # type: ignore[attr-defined]

    async def go() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(200):
                group.create_task(call())
                if number % 20 == 0:
                    await asyncio.sleep(0.01)
            asyncio.get_running_loop().call_later(0.5, stall)

    run_virtually(go())
    assert len(end_times) == 200
    assert max(end_times) - min(end_times) < 0.001
    assert max(end_times) < 3.1 + 0.5 + 0.1 + 0.05


def test_an_answer_that_came_during_a_stall_is_read() -> None:
    async def go() -> str:
        loop = asyncio.get_running_loop()
        answer = loop.create_future()

        def stall() -> None:
            loop.now += 30.0  # type: ignore[attr-defined]
            loop.call_later(0.01, answer.set_result, "in time")

        loop.call_later(5, stall)
        return (await _make_target(lambda _prompt: answer).answer(PROMPT)).text

    assert run_virtually(go()) == "in time"
