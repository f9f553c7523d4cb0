"""The turns of interleaved runs, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.engines.turns import RunTurns, make_turns
from proctor.model import Output
from proctor.plan import PlannedTrial
from support.builders import make_case
from support.virtual_time import get_time, run_virtually

Key = tuple[int, int]


class Call(NamedTuple):
    """The start of a call."""

    run: int
    key: Key
    at: float = 0.0


class Log:
    """The calls that began, and how many were made at once."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.in_flight = self.peak = 0


def plan(keys: Sequence[Key], keys_with_answers: Sequence[Key] = ()) -> Iterator[PlannedTrial]:
    """Planned trials of these positions and repeats; some need no call, as they have an answer."""
    for position, repeat in keys:
        yield PlannedTrial(
            case=make_case(f"c{position}"),
            position=position,
            repeat=repeat,
            repeats=1,
            split=None,
            sent_digest="",
            output=Output(text="x") if (position, repeat) in keys_with_answers else None,
        )


async def execute(
    turns: RunTurns,
    number: int,
    planned_trials: Iterator[PlannedTrial],
    log: Log,
    *,
    workers: int,
    call_s: float,
) -> None:
    """Does what an engine does: several workers take planned trials in order."""
    trials = turns.plan(planned_trials)

    async def work() -> None:
        for planned_trial in trials:
            if planned_trial.output is not None:
                continue
            await turns.start(planned_trial)
            key = planned_trial.position, planned_trial.repeat
            log.calls.append(Call(number, key, get_time()))
            log.in_flight += 1
            log.peak = max(log.peak, log.in_flight)
            await asyncio.sleep(call_s)
            log.in_flight -= 1
            turns.end()

    try:
        await asyncio.gather(*(work() for _ in range(workers)))
    finally:
        turns.leave()


def play(
    plans: Sequence[Sequence[Key]],
    *,
    places: int,
    call_s: Sequence[float],
    ranks: Sequence[int] | None = None,
) -> Log:
    log = Log()

    async def go() -> None:
        every_turns = make_turns(len(plans), places, ranks)
        await asyncio.gather(
            *(
                execute(turns, number, plan(keys), log, workers=places, call_s=call_s[number])
                for number, (turns, keys) in enumerate(zip(every_turns, plans, strict=True))
            )
        )

    run_virtually(go())
    return log


def check_order(log: Log) -> None:
    """No call begins before one that comes earlier in the suite."""
    in_time = sorted(log.calls, key=lambda call: (call.at, call.key))
    assert [call.key for call in in_time] == sorted(call.key for call in log.calls)


def cases(count: int) -> list[Key]:
    return [(position, 0) for position in range(count)]


def test_with_one_place_cases_are_asked_in_turns_and_each_run_is_first_in_its_turn() -> None:
    log = play([cases(4), cases(4)], places=1, call_s=[1, 1])
    assert [(call.run, call.key[0]) for call in log.calls] == [
        *((0, 0), (1, 0)),
        *((1, 1), (0, 1)),
        *((0, 2), (1, 2)),
        *((1, 3), (0, 3)),
    ]


def test_of_three_runs_each_is_first_equally_often() -> None:
    log = play([cases(6)] * 3, places=1, call_s=[1, 1, 1])
    assert [call.run for call in log.calls][::3] == [0, 1, 2, 0, 1, 2]


def test_all_runs_share_the_places() -> None:
    assert play([cases(20)] * 2, places=5, call_s=[1, 1]).peak == 5


def test_a_slow_run_holds_back_the_others() -> None:
    log = play([cases(20), cases(20)], places=4, call_s=[0.1, 5])
    check_order(log)
    starts = {(call.run, call.key): call.at for call in log.calls}
    assert max(abs(starts[0, key] - starts[1, key]) for key in cases(20)) <= 5


@given(
    plans=st.lists(
        st.sets(st.tuples(st.integers(0, 6), st.integers(0, 1))).map(sorted), min_size=2, max_size=4
    ),
    places=st.integers(1, 5),
    call_s=st.lists(st.sampled_from([0.0, 0.1, 1.0, 7.0]), min_size=4, max_size=4),
)
def test_every_call_is_made_once_in_the_order_of_the_suite(
    plans: list[list[Key]], places: int, call_s: list[float]
) -> None:
    log = play(plans, places=places, call_s=call_s)
    assert sorted(call[:2] for call in log.calls) == sorted(
        (run, key) for run, keys in enumerate(plans) for key in keys
    )
    check_order(log)
    assert log.peak <= places


def test_answers_that_are_there_already_take_no_turn() -> None:
    log = Log()

    async def go() -> None:
        first, second = make_turns(2, 1)
        await asyncio.gather(
            execute(first, 0, plan(cases(4), keys_with_answers=[(0, 0), (2, 0)]), log, workers=1, call_s=1),
            execute(second, 1, plan(cases(4)), log, workers=1, call_s=1),
        )

    run_virtually(go())
    assert [(call.run, call.key[0]) for call in log.calls] == [(1, 0), (1, 1), (0, 1), (1, 2), (1, 3), (0, 3)]


def test_a_run_that_leaves_holds_nobody_back_and_its_waiting_calls_are_cancelled() -> None:
    log = Log()

    async def go() -> None:
        first, second = make_turns(2, 1)
        stuck = asyncio.create_task(execute(first, 0, plan(cases(9)), log, workers=3, call_s=1))
        other = asyncio.create_task(execute(second, 1, plan(cases(9)), log, workers=3, call_s=1))
        await asyncio.sleep(2.5)
        first.leave()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        await other
        with pytest.raises(asyncio.CancelledError):
            await first.start(next(plan(cases(1))))

    run_virtually(go())
    assert [call.key[0] for call in log.calls if call.run == 1] == list(range(9))
    assert len([call for call in log.calls if call.run == 0]) < 4


def test_a_trial_that_makes_no_call_after_all_gives_up_its_turn() -> None:
    async def go() -> list[int]:
        first, second = make_turns(2, 1)
        (skipped,) = first.plan(plan(cases(1)))
        order = list[int]()

        async def call() -> None:
            for planned_trial in second.plan(plan(cases(1))):
                await second.start(planned_trial)
                order.append(1)
                second.end()

        waiting = asyncio.create_task(call())
        await asyncio.sleep(1)
        assert order == []
        first.skip(skipped)
        await waiting
        return order

    assert run_virtually(go()) == [1]


def test_a_call_that_waits_is_not_held_up_by_an_earlier_one_of_its_own_run() -> None:
    """Of two trials in one shared folder the later one may have entered it first."""

    async def go() -> list[Key]:
        first, second = make_turns(2, 1)
        earlier, later = first.plan(plan(cases(2)))
        order = list[Key]()

        async def call(planned_trial: PlannedTrial) -> None:
            await first.start(planned_trial)
            order.append((planned_trial.position, 0))
            first.end()

        second.leave()
        await call(later)
        await call(earlier)
        return order

    assert run_virtually(go()) == [(1, 0), (0, 0)]


def test_calls_are_in_a_shuffled_order_that_all_runs_have() -> None:
    shuffled: list[Key] = [(2, 0), (0, 0), (3, 0), (1, 0)]
    log = play([shuffled, [shuffled[0], *shuffled[2:]]], places=1, call_s=[1, 1], ranks=[1, 3, 0, 2])
    assert [call.key[0] for call in log.calls] == [2, 2, 0, 3, 3, 1, 1]


def test_runs_know_enough_when_each_that_sends_trials_does() -> None:
    first, second, third = make_turns(3, 1)
    assert not first.all_know_enough()
    assert not second.all_know_enough()
    third.leave()
    assert first.all_know_enough()
    fourth, fifth = make_turns(2, 1)
    assert list(fourth.plan(plan([]))) == []  # it has sent every case
    assert fifth.all_know_enough()


def test_a_call_cancelled_as_its_turn_comes_gives_the_place_back() -> None:
    async def go() -> None:
        (only,) = make_turns(1, 1)
        first, second, third = only.plan(plan(cases(3)))
        await only.start(first)
        task = asyncio.create_task(only.start(second))
        await asyncio.sleep(0)
        only.end()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(1):
            await only.start(third)

    run_virtually(go())
