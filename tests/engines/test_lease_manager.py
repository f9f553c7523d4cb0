"""Leases of places and money: no worker uses what another has, and a lost worker's lease counts as spent."""

from __future__ import annotations

import asyncio
import random
from math import inf

import pytest

from proctor.engines.lease_manager import LEASE_S, BusyReply, LeaseManager, LeaseRequest, MoneyUse, PlaceUse
from proctor.engines.leased_limits import LeasedLimits
from proctor.errors import TargetError


def request_places(
    worker: str, ceiling: int, places: int, in_flight: int, waiting: int, **fields: object
) -> LeaseRequest:
    use = PlaceUse(ceiling=ceiling, places=places, in_flight=in_flight, waiting=waiting, **fields)  # type: ignore[arg-type]
    return LeaseRequest(worker=worker, places={"e": use})


def request_money(
    worker: str, limit: float, spent_usd: float, reserved: float, waiting: float
) -> LeaseRequest:
    use = MoneyUse(
        limit_usd=limit, spent_usd=spent_usd, reserved_usd=reserved, waiting_usd=waiting, next_usd=waiting
    )
    return LeaseRequest(worker=worker, money=use)


def test_a_place_is_leased_to_one_worker_until_that_gives_it_back() -> None:
    manager = LeaseManager()
    assert manager.renew(request_places("a", 4, 0, 0, 9), now=0).places == {"e": 4}
    assert manager.renew(request_places("b", 4, 0, 0, 9), now=0).places == {"e": 0}
    # a gets its half from now on, but all of its calls are still under way
    assert manager.renew(request_places("a", 4, 4, 4, 5), now=0).places == {"e": 2}
    assert manager.renew(request_places("b", 4, 0, 0, 9), now=0).places == {"e": 0}
    assert manager.renew(request_places("a", 4, 2, 2, 5), now=0).places == {"e": 2}
    assert manager.renew(request_places("b", 4, 0, 0, 9), now=0).places == {"e": 2}


def test_places_that_nobody_wants_are_divided() -> None:
    manager = LeaseManager()
    manager.renew(request_places("a", 10, 0, 0, 1), now=0)
    assert manager.renew(request_places("a", 10, 10, 1, 0), now=0).places == {"e": 10}
    manager.renew(request_places("b", 10, 0, 0, 3), now=0)
    assert manager.renew(request_places("a", 10, 10, 1, 0), now=0).places == {"e": 4}
    assert manager.renew(request_places("a", 10, 4, 1, 0), now=0).places == {"e": 4}
    assert manager.renew(request_places("b", 10, 0, 0, 3), now=0).places == {"e": 6}


def test_a_lease_that_is_not_renewed_ends_but_for_the_calls_under_way() -> None:
    manager = LeaseManager()
    manager.renew(request_places("a", 4, 0, 0, 9), now=0)
    manager.renew(request_places("a", 4, 4, 1, 0), now=0)
    assert manager.renew(request_places("b", 4, 0, 0, 9), now=1).places == {"e": 0}
    assert manager.renew(request_places("b", 4, 0, 0, 9), now=LEASE_S + 1).places == {"e": 3}
    manager.release("a")
    assert manager.renew(request_places("b", 4, 3, 3, 9), now=LEASE_S + 1).places == {"e": 4}


async def test_one_refusal_halves_the_places_of_all_and_its_pause_is_for_all() -> None:
    manager = LeaseManager()
    manager.renew(request_places("a", 8, 0, 0, 4))
    manager.renew(request_places("b", 8, 0, 0, 4))
    busy = (BusyReply(0.0, 30.0), BusyReply(0.0, 30.0))
    lease = manager.renew(request_places("a", 8, 4, 4, 4, refusals=busy))
    assert lease.places == {"e": 2}
    assert 29 < lease.pauses["e"] <= 30
    lease = manager.renew(request_places("b", 8, 0, 0, 4))
    assert 29 < lease.pauses["e"] <= 30


def test_money_is_leased_in_blocks_and_comes_back() -> None:
    manager = LeaseManager(budget_usd=10.0, spent_usd=1.0)
    lease = manager.renew(request_money("a", 0, 0, 0, 0.01), now=0)
    assert lease.limit_usd == pytest.approx(0.1)  # 1 % of the budget
    assert manager.renew(request_money("b", 0, 0, 0, 5.0), now=0).limit_usd == pytest.approx(5.0)
    lease = manager.renew(request_money("c", 0, 0, 0, 5.0), now=0)
    assert (lease.limit_usd, lease.may_exceed, lease.is_spent) == (0, False, False)
    assert manager.renew(request_money("a", 0.1, 0, 0, 0), now=0).is_scarce
    assert manager.renew(request_money("b", 1.0, 1.0, 0, 0), now=0).limit_usd == 1.0  # gave 4 back
    assert manager.renew(request_money("c", 0, 0, 0, 5.0), now=0).limit_usd == pytest.approx(5.0)


def test_a_call_that_costs_more_than_is_left_is_made_alone() -> None:
    manager = LeaseManager(budget_usd=1.0)
    assert manager.renew(request_money("a", 0, 0, 0, 0.4), now=0).limit_usd == pytest.approx(0.4)
    assert not manager.renew(request_money("b", 0, 0, 0, 2.0), now=0).may_exceed  # a may call
    manager.renew(request_money("a", 0.1, 0.1, 0, 0), now=0)
    assert manager.renew(request_money("b", 0, 0, 0, 2.0), now=0).may_exceed
    assert not manager.renew(request_money("a", 0.1, 0.1, 0, inf), now=0).may_exceed  # b may
    manager.renew(request_money("b", 0.0, 0.3, 0, 0), now=0)
    assert manager.renew(request_money("a", 0.1, 0.1, 0, inf), now=0).may_exceed


def test_the_one_who_waits_longest_comes_first() -> None:
    manager = LeaseManager(budget_usd=1.0)
    manager.renew(request_money("a", 0, 0, 0, 0.3), now=0)
    manager.renew(request_money("b", 0, 0, 0, 5.0), now=0)
    assert manager.renew(request_money("a", 0.3, 0.1, 0.1, 0.2), now=0.5).limit_usd > 0.3
    # a gets no more until b had its turn
    assert manager.renew(request_money("a", 0.4, 0.2, 0.2, 0.2), now=2).limit_usd == 0.4


def test_the_money_of_a_lost_worker_counts_as_spent_until_its_trials_are_planned_again() -> None:
    manager = LeaseManager(budget_usd=1.0)
    manager.renew(request_money("a", 0, 0, 0, 0.9), now=0)
    manager.renew(request_money("a", 0.9, 0.2, 0.1, 0), now=0)
    manager.lose("a")
    assert manager.renew(request_money("b", 0, 0, 0, 0.5), now=9).limit_usd == 0
    manager.release("a")
    assert manager.spent_usd == pytest.approx(0.3)  # what it spent, and the call that was under way
    assert manager.renew(request_money("b", 0, 0, 0, 0.5), now=9).limit_usd == pytest.approx(0.5)


def connect(manager: LeaseManager, name: str) -> LeasedLimits:
    async def renew(request: LeaseRequest) -> object:
        await asyncio.sleep(random.random() / 1000)
        return manager.renew(request)

    return LeasedLimits(name, renew)  # type: ignore[arg-type]


async def test_workers_together_make_no_more_calls_than_the_limit_allows() -> None:
    manager, now, peak, calls = LeaseManager(), 0, 0, 0

    async def call(limits: LeasedLimits) -> None:
        nonlocal now, peak, calls
        limit = limits.open_limit("e", 5)
        await limit.acquire()
        now, calls = now + 1, calls + 1
        peak = max(peak, now)
        await asyncio.sleep(random.random() / 200)
        now -= 1
        limit.on_success()
        limit.release()

    workers = [connect(manager, name) for name in "abcd"]
    renewals = [asyncio.create_task(worker.run()) for worker in workers]
    await asyncio.gather(*[call(random.choice(workers)) for _ in range(200)])
    assert (peak, calls) == (5, 200)
    for renewal in renewals:
        renewal.cancel()


@pytest.mark.parametrize("most_usd", [0.01, 0.3, inf])
async def test_workers_together_exceed_a_budget_by_no_more_than_a_call_each(most_usd: float) -> None:
    manager, cost_total, refusals = LeaseManager(budget_usd=1.0), 0.0, set[str]()

    async def call(limits: LeasedLimits) -> None:
        nonlocal cost_total
        cost = min(most_usd, 0.1) * random.random()
        try:
            await budgets[limits].reserve(most_usd)
        except TargetError as error:
            refusals.add(str(error)[: len("The budget of $1 is spent ($1.")])
            return
        await asyncio.sleep(random.random() / 500)
        cost_total += cost
        budgets[limits].settle(most_usd, cost)

    workers = [connect(manager, name) for name in "abcd"]
    budgets = {worker: worker.open_budget(1.0) for worker in workers}
    renewals = [asyncio.create_task(worker.run()) for worker in workers]
    await asyncio.gather(*[call(random.choice(workers)) for _ in range(400)])
    assert 1.0 <= cost_total <= 1.0 + 4 * 0.1
    assert refusals == {"The budget of $1 is spent ($1."}
    assert manager.spent_usd == pytest.approx(cost_total)
    for renewal in renewals:
        renewal.cancel()
