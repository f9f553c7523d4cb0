"""Functions over items in parallel: order, bounds, errors and closing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import closing
from typing import Any

import pytest

from proctor.eval.parallel import MAX_AHEAD, CallOutcome, map_ordered
from support.waiting import PATIENCE_S


async def double_later(number: int) -> int:
    await asyncio.sleep(0.001 * (number % 3))
    return number * 2


def double(number: int) -> int:
    return number * 2


def fail_at_two(number: int) -> int:
    if number == 2:
        raise LookupError("no two")
    return number


@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("function", [double, double_later])
def test_outcomes_come_in_the_order_of_the_items(function: Any, workers: int) -> None:
    pairs = [
        (outcome.item, outcome.result()) for outcome in map_ordered(function, range(20), workers=workers)
    ]
    assert pairs == [(number, number * 2) for number in range(20)]


@pytest.mark.parametrize("workers", [1, 3])
def test_an_exception_is_an_outcome(workers: int) -> None:
    outcomes = list(map_ordered(fail_at_two, range(4), workers=workers))
    assert [outcome.value for outcome in outcomes] == [0, 1, None, 3]
    assert isinstance(outcomes[2].error, LookupError)
    with pytest.raises(LookupError, match="no two"):
        outcomes[2].result()


@pytest.mark.parametrize("workers", [1, 3])
def test_what_is_no_exception_is_raised(workers: int) -> None:
    def interrupted(number: int) -> int:
        if number == 2:
            raise KeyboardInterrupt
        return number

    async def interrupted_soon(number: int) -> int:
        return interrupted(number)

    for function in (interrupted, interrupted_soon):
        with pytest.raises(KeyboardInterrupt):
            list(map_ordered(function, range(9), workers=workers))


@pytest.mark.parametrize("workers", [1, 3])
def test_errors_of_the_items_are_raised_after_nothing_else(workers: int) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(map_ordered(double, items(), workers=workers))


def test_one_worker_calls_in_this_thread_and_nothing_ahead() -> None:
    began: list[int] = []

    def work(number: int) -> threading.Thread:
        began.append(number)
        return threading.current_thread()

    outcomes = map_ordered(work, range(5))
    assert next(outcomes).result() is threading.current_thread()
    assert began == [0]


@pytest.mark.parametrize("function", [False, True])
def test_as_many_run_at_once_as_there_are_workers(function: bool) -> None:
    together = threading.Barrier(3, timeout=PATIENCE_S)

    async def meet(_: int) -> int:
        return await asyncio.to_thread(together.wait)

    outcomes = list(map_ordered(meet if function else lambda _: together.wait(), range(6), workers=3))
    assert [outcome.error for outcome in outcomes] == [None] * 6


def test_a_slow_item_holds_no_more_than_the_look_ahead_back() -> None:
    started_items: list[int] = []
    free = threading.Event()

    def items() -> Iterator[int]:
        for number in range(10_000):
            started_items.append(number)
            if number == MAX_AHEAD * 2 - 1:
                free.set()  # the first ends only now
            yield number

    def work(number: int) -> int:
        if number == 0:
            free.wait(5)
        return number

    with closing(map_ordered(work, items(), workers=2)) as outcomes:
        assert next(outcomes).result() == 0
        assert len(started_items) == MAX_AHEAD * 2


@pytest.mark.parametrize("workers", [1, 3])
def test_once_it_should_stop_nothing_begins_and_what_began_is_given(workers: int) -> None:
    polls: list[int] = []

    def should_stop() -> bool:
        polls.append(len(polls))
        return len(polls) > 4

    results = [
        outcome.result()
        for outcome in map_ordered(double, range(99), workers=workers, should_stop=should_stop)
    ]
    assert results == [0, 2, 4, 6]
    assert len(polls) == 5


def test_it_works_inside_a_running_loop() -> None:
    async def notebook() -> list[int]:
        return [outcome.result() for outcome in map_ordered(double_later, range(4), workers=2)]

    assert asyncio.run(notebook()) == [0, 2, 4, 6]


def test_coroutines_share_one_loop() -> None:
    async def loop(_: int) -> int:
        return id(asyncio.get_running_loop())

    assert len({outcome.result() for outcome in map_ordered(loop, range(8), workers=4)}) == 1


@pytest.mark.parametrize("workers", [1, 4])
def test_closing_cancels_coroutines_and_leaves_no_thread(workers: int) -> None:
    before = set(threading.enumerate())
    cancelled: list[int] = []

    async def work(number: int) -> int:
        if number == 0:
            return 0
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    with closing(map_ordered(work, range(50), workers=workers)) as outcomes:
        assert next(outcomes).result() == 0
    assert len(cancelled) <= workers
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive()


def test_a_coroutine_that_cancels_itself_is_an_outcome() -> None:
    async def quits(_: int) -> int:
        raise asyncio.CancelledError

    (outcome,) = map_ordered(quits, [1])
    assert isinstance(outcome.error, CancelledError)  # and nobody is told that the work has ended


def test_workers_are_at_least_one() -> None:
    with pytest.raises(ValueError, match="workers must be at least 1, not 0"):
        list(map_ordered(double, [1], workers=0))


@pytest.mark.parametrize("workers", [1, 3])
def test_on_outcome_gets_each_outcome(workers: int) -> None:
    notices: list[CallOutcome[int]] = []
    outcomes = list(map_ordered(fail_at_two, range(6), workers=workers, on_outcome=notices.append))
    assert sorted(notices, key=lambda outcome: outcome.item) == outcomes
    assert all(outcome.seconds >= 0 for outcome in outcomes)


def test_on_outcome_gets_no_cancelled_item() -> None:
    notices: list[CallOutcome[int]] = []
    under_way = threading.Event()

    async def work(number: int) -> None:
        if number:
            under_way.set()
            await asyncio.sleep(60)

    with closing(map_ordered(work, range(3), workers=3, on_outcome=notices.append)) as outcomes:
        next(outcomes)
        under_way.wait(5)
    assert [outcome.item for outcome in notices] == [0]


@pytest.mark.parametrize("workers", [1, 3])
def test_an_exception_of_on_outcome_is_raised(workers: int) -> None:
    def fail(_: object) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        list(map_ordered(double, range(6), workers=workers, on_outcome=fail))
