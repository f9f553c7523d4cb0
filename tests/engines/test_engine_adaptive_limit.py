"""The limit on how many requests an endpoint gets at once."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.engines.adaptive_limit import AdaptiveLimit
from support.virtual_time import Virtually, get_time
from support.waiting import PATIENCE_S


async def _settle() -> None:
    """Lets every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


def _try_acquire_many(limit: AdaptiveLimit, count: int) -> list[bool]:
    return [limit.try_acquire() for _ in range(count)]


def test_it_starts_at_its_ceiling() -> None:
    limit = AdaptiveLimit(3)
    assert _try_acquire_many(limit, 4) == [True, True, True, False]


def test_a_burst_of_refusals_halves_it_once() -> None:
    limit = AdaptiveLimit(16)
    sent_at = monotonic()
    for _ in range(16):
        limit.on_busy(sent_at, None)
    assert limit.concurrency == 8


def test_a_refusal_of_a_request_sent_after_the_halving_halves_it_again() -> None:
    limit = AdaptiveLimit(16)
    limit.on_busy(monotonic(), None)
    limit.on_busy(monotonic() + 1e-3, None)
    assert limit.concurrency == 4


def test_it_never_falls_below_one_place() -> None:
    limit = AdaptiveLimit(2)
    for step in range(10):
        limit.on_busy(monotonic() + step, None)
    assert limit.concurrency == 1
    assert limit.try_acquire()


def test_it_grows_back_one_place_a_round_of_successes_and_not_beyond_its_ceiling() -> None:
    limit = AdaptiveLimit(8)
    limit.on_busy(monotonic(), None)
    for _ in range(5):
        limit.on_success()
    assert 5 <= limit.concurrency < 6
    for _ in range(100):
        limit.on_success()
    assert limit.concurrency == 8


async def test_places_go_to_those_who_came_first() -> None:
    limit, order = AdaptiveLimit(1), list[int]()
    await limit.acquire()

    async def take(number: int) -> None:
        await limit.acquire()
        order.append(number)
        limit.release()

    tasks = [asyncio.create_task(take(number)) for number in range(6)]
    await _settle()
    assert order == []
    limit.release()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4, 5]
    assert limit.in_flight == 0


async def test_a_newcomer_does_not_overtake_those_who_wait() -> None:
    limit = AdaptiveLimit(1)
    await limit.acquire()
    waiting = asyncio.create_task(limit.acquire())
    await _settle()
    limit.release()  # the place belongs to `waiting` now, though it has not run yet
    assert not limit.try_acquire()
    await waiting
    assert limit.in_flight == 1


async def test_a_waiter_that_is_cancelled_takes_no_place() -> None:
    limit = AdaptiveLimit(1)
    await limit.acquire()
    first, second = (asyncio.create_task(limit.acquire()) for _ in range(2))
    await _settle()
    first.cancel()
    await _settle()
    limit.release()
    await asyncio.wait_for(second, PATIENCE_S)
    assert limit.in_flight == 1
    limit.release()
    assert limit.try_acquire()


async def test_a_waiter_that_is_cancelled_as_it_gets_its_place_passes_it_on() -> None:
    limit = AdaptiveLimit(1)
    await limit.acquire()
    first, second = (asyncio.create_task(limit.acquire()) for _ in range(2))
    await _settle()
    limit.release()
    first.cancel()
    await asyncio.wait_for(second, PATIENCE_S)
    assert first.cancelled()
    assert limit.in_flight == 1


async def test_all_waiting_are_let_in_when_it_grows_back() -> None:
    limit = AdaptiveLimit(4)
    limit.on_busy(monotonic(), None)
    assert _try_acquire_many(limit, 3) == [True, True, False]
    waiting = [asyncio.create_task(limit.acquire()) for _ in range(2)]
    await _settle()
    for _ in range(20):
        limit.on_success()
    await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)
    assert limit.in_flight == 4


@pytest.mark.parametrize(
    ("pauses", "ends_at"),
    [([(0, 5.0)], 5), ([(0, 3.0), (1, 7.0)], 8), ([(0, 6.0), (0, 0.1)], 6)],
    ids=["one", "a longer one meanwhile", "a shorter one beside it"],
)
def test_a_pause_keeps_everybody_out_until_the_last_one_ends(
    jumping: Virtually, pauses: list[tuple[float, float]], ends_at: float
) -> None:
    async def go() -> None:
        limit = AdaptiveLimit(16)  # halved by each pause
        for at, seconds in pauses:
            asyncio.get_running_loop().call_at(at, limit.on_busy, at, seconds)
        await _settle()
        assert not limit.try_acquire()
        await asyncio.gather(limit.acquire(), limit.acquire(), limit.acquire())
        assert get_time() == pytest.approx(ends_at)
        assert limit.in_flight == 3
        assert limit.try_acquire()

    jumping(go())


def test_a_pause_holds_for_those_who_stand_in_line_already(jumping: Virtually) -> None:
    async def go() -> None:
        limit = AdaptiveLimit(1)
        await limit.acquire()
        entering = asyncio.create_task(limit.acquire())
        await _settle()
        limit.on_busy(get_time(), 8)
        limit.release()
        await entering
        assert get_time() == pytest.approx(8)

    jumping(go())


def test_a_waiter_that_is_cancelled_during_a_pause_takes_no_place(jumping: Virtually) -> None:
    async def go() -> None:
        limit = AdaptiveLimit(1)
        limit.on_busy(get_time(), 2)
        task = asyncio.create_task(limit.acquire())
        await _settle()
        task.cancel()
        await limit.acquire()
        assert get_time() == pytest.approx(2)
        assert limit.in_flight == 1

    jumping(go())


@pytest.mark.slow
@given(
    st.integers(1, 6), st.lists(st.sampled_from(["enter", "leave", "well", "busy", "cancel"]), max_size=60)
)
def test_whatever_happens_no_place_is_lost_and_none_is_given_twice(ceiling: int, steps: list[str]) -> None:
    asyncio.run(_play(ceiling, steps))


async def _play(ceiling: int, steps: list[str]) -> None:
    limit, inside, waiting = AdaptiveLimit(ceiling), 0, list[asyncio.Task[None]]()
    for step in steps:
        if step == "enter":
            waiting.append(asyncio.create_task(limit.acquire()))
        elif step == "leave" and inside:
            inside -= 1
            limit.release()
        elif step == "well":
            limit.on_success()
        elif step == "busy":
            limit.on_busy(monotonic(), None)
        elif step == "cancel" and waiting:
            waiting[0].cancel()
        await _settle()
        inside += sum(1 for task in waiting if task.done() and not task.cancelled())
        waiting = [task for task in waiting if not task.done()]
        assert limit.in_flight == inside <= ceiling
        assert 1 <= limit.concurrency <= ceiling
        assert not waiting or inside >= int(limit.concurrency)
    while inside or waiting:
        if inside:
            inside -= 1
            limit.release()
        await _settle()
        inside += sum(1 for task in waiting if task.done() and not task.cancelled())
        waiting = [task for task in waiting if not task.done()]
    assert limit.in_flight == 0
