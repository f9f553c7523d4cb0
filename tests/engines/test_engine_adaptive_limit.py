"""How many requests an endpoint gets at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patience import PATIENCE_S
from proctor.engines.adaptive_limit import Limit

Virtually = Callable[[Any], Any]


async def _settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


def _taken(limit: Limit, count: int) -> list[bool]:
    return [limit.try_enter() for _ in range(count)]


def test_it_starts_at_its_ceiling() -> None:
    limit = Limit(3)
    assert _taken(limit, 4) == [True, True, True, False]


def test_a_burst_of_refusals_halves_it_once() -> None:
    limit = Limit(16)
    sent = monotonic()
    for _ in range(16):
        limit.busy(sent, None)
    assert limit.allowed == 8


def test_a_refusal_of_a_request_sent_after_the_halving_halves_it_again() -> None:
    limit = Limit(16)
    limit.busy(monotonic(), None)
    limit.busy(monotonic() + 1e-3, None)
    assert limit.allowed == 4


def test_it_never_falls_below_one_place() -> None:
    limit = Limit(2)
    for step in range(10):
        limit.busy(monotonic() + step, None)
    assert limit.allowed == 1
    assert limit.try_enter()


def test_it_grows_back_one_place_a_round_of_successes_and_not_beyond_its_ceiling() -> None:
    limit = Limit(8)
    limit.busy(monotonic(), None)
    for _ in range(5):
        limit.succeeded()
    assert 5 <= limit.allowed < 6
    for _ in range(100):
        limit.succeeded()
    assert limit.allowed == 8


async def test_places_go_to_those_who_came_first() -> None:
    limit, order = Limit(1), list[int]()
    await limit.enter()

    async def take(number: int) -> None:
        await limit.enter()
        order.append(number)
        limit.leave()

    tasks = [asyncio.create_task(take(number)) for number in range(6)]
    await _settle()
    assert order == []
    limit.leave()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4, 5]
    assert limit.in_flight == 0


async def test_a_newcomer_does_not_overtake_those_who_wait() -> None:
    limit = Limit(1)
    await limit.enter()
    waiting = asyncio.create_task(limit.enter())
    await _settle()
    limit.leave()  # the place belongs to `waiting` now, though it has not run yet
    assert not limit.try_enter()
    await waiting
    assert limit.in_flight == 1


async def test_one_who_is_cancelled_while_waiting_takes_no_place() -> None:
    limit = Limit(1)
    await limit.enter()
    gone, stays = (asyncio.create_task(limit.enter()) for _ in range(2))
    await _settle()
    gone.cancel()
    await _settle()
    limit.leave()
    await asyncio.wait_for(stays, PATIENCE_S)
    assert limit.in_flight == 1
    limit.leave()
    assert limit.try_enter()


async def test_one_who_is_cancelled_as_the_place_comes_hands_it_on() -> None:
    limit = Limit(1)
    await limit.enter()
    gone, stays = (asyncio.create_task(limit.enter()) for _ in range(2))
    await _settle()
    limit.leave()
    gone.cancel()
    await asyncio.wait_for(stays, PATIENCE_S)
    assert gone.cancelled()
    assert limit.in_flight == 1


async def test_all_waiting_are_let_in_when_it_grows_back() -> None:
    limit = Limit(4)
    limit.busy(monotonic(), None)
    assert _taken(limit, 3) == [True, True, False]
    waiting = [asyncio.create_task(limit.enter()) for _ in range(2)]
    await _settle()
    for _ in range(20):
        limit.succeeded()
    await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)
    assert limit.in_flight == 4


@pytest.fixture
def jumping(virtually: Virtually, monkeypatch: pytest.MonkeyPatch) -> Virtually:
    """Runs a coroutine on a loop whose time costs nothing, and which the limit goes by."""
    monkeypatch.setattr("proctor.engines.adaptive_limit.monotonic", now)
    return virtually


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_pause_keeps_everybody_out_until_it_ends(jumping: Virtually) -> None:
    async def go() -> None:
        limit = Limit(8)
        limit.busy(now(), 5)
        assert not limit.try_enter()
        await asyncio.gather(limit.enter(), limit.enter(), limit.enter())
        assert now() == pytest.approx(5)
        assert limit.in_flight == 3
        assert limit.try_enter()

    jumping(go())


def test_a_longer_pause_that_comes_meanwhile_prolongs_the_wait(jumping: Virtually) -> None:
    async def go() -> None:
        limit = Limit(8)
        limit.busy(now(), 3)
        entering = asyncio.create_task(limit.enter())
        await asyncio.sleep(1)
        limit.busy(now(), 7)
        await entering
        assert now() == pytest.approx(8)

    jumping(go())


def test_a_shorter_pause_does_not_cut_a_longer_one_short(jumping: Virtually) -> None:
    async def go() -> None:
        limit = Limit(8)
        limit.busy(now(), 6)
        limit.busy(now(), 0.1)
        await limit.enter()
        assert now() == pytest.approx(6)

    jumping(go())


def test_a_pause_holds_for_those_who_stand_in_line_already(jumping: Virtually) -> None:
    async def go() -> None:
        limit = Limit(1)
        await limit.enter()
        entering = asyncio.create_task(limit.enter())
        await _settle()
        limit.busy(now(), 8)
        limit.leave()
        await entering
        assert now() == pytest.approx(8)

    jumping(go())


def test_one_who_is_cancelled_during_a_pause_takes_no_place(jumping: Virtually) -> None:
    async def go() -> None:
        limit = Limit(1)
        limit.busy(now(), 2)
        gone = asyncio.create_task(limit.enter())
        await _settle()
        gone.cancel()
        await limit.enter()
        assert now() == pytest.approx(2)
        assert limit.in_flight == 1

    jumping(go())


@given(
    st.integers(1, 6), st.lists(st.sampled_from(["enter", "leave", "well", "busy", "cancel"]), max_size=60)
)
def test_whatever_happens_no_place_is_lost_and_none_is_given_twice(ceiling: int, steps: list[str]) -> None:
    asyncio.run(_play(ceiling, steps))


async def _play(ceiling: int, steps: list[str]) -> None:
    limit, inside, waiting = Limit(ceiling), 0, list[asyncio.Task[None]]()
    for step in steps:
        if step == "enter":
            waiting.append(asyncio.create_task(limit.enter()))
        elif step == "leave" and inside:
            inside -= 1
            limit.leave()
        elif step == "well":
            limit.succeeded()
        elif step == "busy":
            limit.busy(monotonic(), None)
        elif step == "cancel" and waiting:
            waiting[0].cancel()
        await _settle()
        inside += sum(1 for task in waiting if task.done() and not task.cancelled())
        waiting = [task for task in waiting if not task.done()]
        assert limit.in_flight == inside <= ceiling
        assert 1 <= limit.allowed <= ceiling
        assert not waiting or inside >= int(limit.allowed)
    while inside or waiting:
        if inside:
            inside -= 1
            limit.leave()
        await _settle()
        inside += sum(1 for task in waiting if task.done() and not task.cancelled())
        waiting = [task for task in waiting if not task.done()]
    assert limit.in_flight == 0
