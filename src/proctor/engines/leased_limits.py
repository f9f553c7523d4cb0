"""The limits of one of several workers of a run: it uses what a `LeaseManager` leases it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import isfinite
from time import monotonic

from proctor.engines.adaptive_limit import AdaptiveLimit
from proctor.engines.budget import Budget
from proctor.engines.lease_manager import LEASE_S, BusyReply, Lease, LeaseRequest, MoneyUse, PlaceUse
from proctor.errors import TargetError

_RENEW_S = 0.25
"""The interval between renewals."""
_WAIT_S = 0.05
"""The same while calls wait for places or money."""
_MIN_INTERVAL_S = 0.005


class LeasedLimit(AdaptiveLimit):
    """A limit whose places are leased. Pauses and pace are its own, and shared pauses are added to them."""

    def __init__(self, ceiling: int, on_wait: Callable[[], None]) -> None:
        """Starts without a place.

        Args:
            ceiling: the maximum number of concurrent requests of all workers.
            on_wait: called when a request waits.
        """
        super().__init__(ceiling)
        self.concurrency = 0.0
        self.places = 0
        self._on_wait = on_wait
        self._new_successes = 0
        self._refusals: list[tuple[float, float]] = []

    async def acquire(self) -> None:
        """Waits in turn until the lease and the endpoint's pauses allow a request.

        Raises:
            EndpointFailed: the endpoint was given up.
        """
        if not self.try_acquire():
            self._on_wait()
            await super().acquire()

    def on_success(self) -> None:
        """Records a success; the limit of all workers grows by it."""
        self.on_response()
        self._new_successes += 1

    def on_busy(self, asked_at: float, pause_s: float | None) -> None:
        """Records that the endpoint is overloaded; the limit of all workers is halved."""
        super().on_busy(asked_at, pause_s)
        self.concurrency = min(self.concurrency, float(self.places))  # until the next lease
        self._refusals.append((asked_at, pause_s or 0.0))
        self._on_wait()

    def take_use(self) -> PlaceUse:
        """Returns what has been used since the last time."""
        successes, self._new_successes = self._new_successes, 0
        refusals, self._refusals = self._refusals, []
        now = monotonic()
        return PlaceUse(
            ceiling=self.ceiling,
            places=self.places,
            in_flight=self.in_flight,
            waiting=self.waiting,
            successes=successes,
            refusals=tuple([BusyReply(now - asked_at, pause_s) for asked_at, pause_s in refusals]),
            pause_s=self.pause_s,
        )

    def set_places(self, places: int, pause_s: float = 0.0) -> None:
        """Sets the number of places by a lease, and the pause of all workers."""
        if pause_s > self.pause_s + _RENEW_S:
            self.pause(pause_s)
        self.places = places
        self.resize(float(places))


class LeasedBudget(Budget):
    """A part of the budget of a run, which grows by leases."""

    def __init__(self, run_limit_usd: float, on_wait: Callable[[], None]) -> None:
        """Starts without money.

        Args:
            run_limit_usd: the budget of the run.
            on_wait: called when a call waits for money.
        """
        super().__init__(0.0)
        self._run_limit_usd = run_limit_usd
        self._run_spent_usd = 0.0
        self._on_wait = on_wait
        self._is_run_spent = self._may_exceed = False

    @property
    def is_spent(self) -> bool:
        """Whether the budget of the run is spent."""
        return self._is_run_spent

    def take_use(self, *, gives_back: bool) -> MoneyUse:
        """Returns what is used and wanted; returns unused money if that is requested or no call runs."""
        waiting = [most_usd for most_usd, waiter in self._waiters if not waiter.done()]
        if (gives_back or not self._calls_in_flight) and isfinite(self._reserved_usd):
            self.limit_usd = min(self.limit_usd, self.spent_usd + self._reserved_usd)
        return MoneyUse(
            limit_usd=self.limit_usd,
            spent_usd=self.spent_usd,
            reserved_usd=self._reserved_usd,
            waiting_usd=sum(filter(isfinite, waiting)),
            next_usd=waiting[0] if waiting else 0.0,
        )

    def add(self, lease: Lease) -> None:
        """Adds what is leased, and lets calls start."""
        self.limit_usd = lease.limit_usd
        self._is_run_spent, self._run_spent_usd = lease.is_spent, lease.total_spent_usd
        self._may_exceed = lease.may_exceed
        self._admit_waiters()

    def _fits(self, most_usd: float) -> bool:
        is_exception = self._may_exceed and not self._calls_in_flight
        return is_exception or self.spent_usd + self._reserved_usd + most_usd <= self.limit_usd

    def _reserve_now(self, most_usd: float) -> None:
        self._may_exceed = False
        super()._reserve_now(most_usd)

    def _announce_wait(self, _most_usd: float) -> None:
        self._on_wait()

    def _spent_error(self) -> TargetError:
        return self.make_spent_error(self._run_limit_usd, max(self._run_spent_usd, self.spent_usd))


class LeasedLimits:
    """The limits and the budget of one worker; implements `call_limits.CallLimits`."""

    def __init__(self, worker: str, renew: Callable[[LeaseRequest], Awaitable[Lease]]) -> None:
        """Leases nothing before `run`.

        Args:
            worker: the name of the worker, which no other has.
            renew: sends a request to the `LeaseManager` of the run.
        """
        self._worker = worker
        self._renew = renew
        self._limits: dict[str, LeasedLimit] = {}
        self._budget: LeasedBudget | None = None
        self._wake = asyncio.Event()
        self._is_scarce = False

    def open_limit(self, endpoint: str, ceiling: int) -> LeasedLimit:
        """Returns the limit of an endpoint."""
        limit = self._limits.get(endpoint)
        if limit is None:
            limit = self._limits[endpoint] = LeasedLimit(ceiling, self._wake.set)
        return limit

    def open_budget(self, limit_usd: float) -> LeasedBudget:
        """Returns the worker's part of the budget of the run."""
        self._budget = LeasedBudget(limit_usd, self._wake.set)
        return self._budget

    async def run(self) -> None:
        """Renews the leases until it is cancelled.

        Raises:
            Exception: what `renew` raised, when there was no lease for `LEASE_S`.
        """
        renewed_at = monotonic()
        while True:
            asked_at = monotonic()
            try:
                async with asyncio.timeout(LEASE_S):
                    lease = await self._renew(self.make_request())
            except TimeoutError:
                self._drop()
                continue
            except (
                Exception
            ):  # `renew` may be Ray's, which raises errors of many kinds; raised after `LEASE_S`
                self._drop()
                if asked_at - renewed_at > LEASE_S:
                    raise
                await asyncio.sleep(_RENEW_S)
                continue
            renewed_at = asked_at
            self.apply(lease)
            await asyncio.sleep(_MIN_INTERVAL_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _WAIT_S if self._waits() else _RENEW_S)
            self._wake.clear()

    def make_request(self) -> LeaseRequest:
        """Returns what is used since the last request, and wanted."""
        return LeaseRequest(
            worker=self._worker,
            places={name: limit.take_use() for name, limit in self._limits.items()},
            money=None if self._budget is None else self._budget.take_use(gives_back=self._is_scarce),
        )

    def apply(self, lease: Lease) -> None:
        """Uses a lease from now on."""
        self._is_scarce = lease.is_scarce
        for name, places in lease.places.items():
            self._limits[name].set_places(places, lease.pauses.get(name, 0.0))
        if self._budget is not None:
            self._budget.add(lease)

    def _waits(self) -> bool:
        has_calls = any(limit.waiting and limit.in_flight >= limit.places for limit in self._limits.values())
        return has_calls or (self._budget is not None and bool(self._budget.waiting))

    def _drop(self) -> None:
        """Starts no further call, as the lease may have ended."""
        for limit in self._limits.values():
            limit.set_places(0)
