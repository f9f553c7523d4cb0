"""Leases places for calls and money to the workers of one run, so that all of them keep one limit each.

A worker reports at least every `LEASE_S` what it uses, and gets what it may use until its next report.
Nothing is leased twice: what a worker may still be using counts as leased until it reports that it uses less.
Concurrency follows AIMD for all workers together, in an `AdaptiveLimit` that makes no call itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from proctor.engines.adaptive_limit import AdaptiveLimit

LEASE_S = 2.0
"""How long a lease holds that is not renewed: then its worker starts no call, and its free places are leased
to others."""
_BLOCK_SHARE = 0.01
"""Money is leased in blocks of at least this share of the budget."""
_ROUNDING_USD = 1e-9
_MAX_WAIT_S = 1.0
"""After this time, money goes to the worker that has waited longest, so that an expensive call gets its turn.
"""


class BusyReply(Struct, frozen=True, array_like=True):
    """A call that an endpoint refused because it is overloaded."""

    age_s: float
    """How long ago the call was made."""
    pause_s: float
    """The wait that the endpoint requires; 0 for none."""


class PlaceUse(Struct, frozen=True, kw_only=True):
    """What one worker does at one endpoint."""

    ceiling: int
    """The maximum number of concurrent calls of all workers."""
    places: int
    """How many calls it may make at once, by the last lease."""
    in_flight: int
    waiting: int
    successes: int = 0
    """Since the last lease, as are the refusals."""
    refusals: tuple[BusyReply, ...] = ()
    pause_s: float = 0.0
    """How long the endpoint's pause still takes."""


class MoneyUse(Struct, frozen=True, kw_only=True):
    """What one worker does with its part of the budget."""

    limit_usd: float
    """What it may spend in all, by its leases and without what it gives back."""
    spent_usd: float
    reserved_usd: float
    """The maximum cost of the calls in flight; infinite if that is unknown."""
    waiting_usd: float
    """The maximum cost of the calls that wait for money, where it is known."""
    next_usd: float
    """The maximum cost of the first of them; 0 if none waits."""


class LeaseRequest(Struct, frozen=True, kw_only=True):
    """What a worker uses, and wants."""

    worker: str
    places: Mapping[str, PlaceUse] = {}
    """By endpoint."""
    money: MoneyUse | None = None
    """None for a run without a budget."""


class Lease(Struct, frozen=True, kw_only=True):
    """What a worker may use until its next request."""

    places: Mapping[str, int] = {}
    """By endpoint."""
    pauses: Mapping[str, float] = {}
    """How long to send nothing, by endpoint."""
    limit_usd: float = 0.0
    """What it may spend in all."""
    is_spent: bool = False
    """Whether the budget of the run is spent."""
    total_spent_usd: float = 0.0
    may_exceed: bool = False
    """Whether it may make one call that costs more than is left, as no other call of the run is in flight."""
    is_scarce: bool = False
    """Whether to give back at once what is not used, as another worker waits for it."""


class _Endpoint:
    """The places of one endpoint, and who has them."""

    def __init__(self, ceiling: int) -> None:
        self.limit = AdaptiveLimit(ceiling)
        self.uses: dict[str, PlaceUse] = {}
        self.leased: dict[str, int] = {}
        """How many calls each worker may be making."""

    def renew(self, worker: str, use: PlaceUse, now: float) -> int:
        limit = self.limit
        for _ in range(use.successes):
            limit.on_success()
        for refusal in use.refusals:
            limit.on_busy(now - refusal.age_s, refusal.pause_s)
        if use.pause_s > limit.pause_s:
            limit.pause(use.pause_s)
        self.uses[worker] = use
        free = int(limit.concurrency) - sum(count for other, count in self.leased.items() if other != worker)
        places = max(0, min(self._share(worker), free))
        self.leased[worker] = max(use.places, use.in_flight, places)
        return places

    def expire(self, worker: str) -> None:
        """Frees the places of a worker but for those of its calls."""
        self.leased[worker] = self.uses[worker].in_flight

    def remove(self, worker: str) -> None:
        self.uses.pop(worker, None)
        self.leased.pop(worker, None)

    def _share(self, worker: str) -> int:
        """Returns a fair share of the places: no worker gets less than it wants while another has more.

        Places that no worker wants are divided too, so that the next call of a worker need not wait for a
        lease.
        """
        wants = {name: use.in_flight + use.waiting for name, use in self.uses.items()}
        left, names = int(self.limit.concurrency), sorted(wants, key=lambda name: (wants[name], name))
        shares = {}
        for number, name in enumerate(names):
            shares[name] = min(wants[name], -(-left // (len(names) - number)))
            left -= shares[name]
        return shares[worker] + left // len(names)


class LeaseManager:
    """Leases the places and the budget of one run."""

    def __init__(self, budget_usd: float | None = None, spent_usd: float = 0.0) -> None:
        """Starts with nothing leased.

        Args:
            budget_usd: the budget of the run; None if it has none.
            spent_usd: what a continued run has cost already.
        """
        self._budget_usd = budget_usd
        self._spent_usd = spent_usd
        """What earlier processes and lost workers have spent."""
        self._endpoints: dict[str, _Endpoint] = {}
        self._money: dict[str, MoneyUse] = {}
        """What each worker has, with the newest limit that it was given."""
        self._waits: dict[str, float] = {}
        """The workers that got less money than they want, each with the time."""
        self._exclusive: str | None = None
        """The worker that may make a call which exceeds the budget."""
        self._renewed_at: dict[str, float] = {}

    @property
    def spent_usd(self) -> float:
        """What the run has cost."""
        return self._spent_usd + sum(use.spent_usd for use in self._money.values())

    def renew(self, request: LeaseRequest, now: float | None = None) -> Lease:
        """Returns what a worker may use from now on."""
        now, worker = monotonic() if now is None else now, request.worker
        self._expire(now)
        self._renewed_at[worker] = now
        places, pauses = {}, {}
        for name, use in request.places.items():
            endpoint = self._endpoints.get(name)
            if endpoint is None:
                endpoint = self._endpoints[name] = _Endpoint(use.ceiling)
            places[name] = endpoint.renew(worker, use, now)
            if endpoint.limit.pause_s:
                pauses[name] = endpoint.limit.pause_s
        if request.money is None or self._budget_usd is None:
            return Lease(places=places, pauses=pauses)
        limit_usd, may_exceed = self._renew_money(worker, request.money, self._budget_usd, now)
        is_spent = self.spent_usd >= self._budget_usd
        return Lease(
            places=places,
            pauses=pauses,
            limit_usd=limit_usd,
            is_spent=is_spent,
            total_spent_usd=self.spent_usd,
            may_exceed=may_exceed and not is_spent,
            is_scarce=bool(self._waits.keys() - {worker}),
        )

    def lose(self, worker: str) -> None:
        """Frees the places of a worker that has ended unexpectedly; its money counts as spent."""
        for endpoint in self._endpoints.values():
            endpoint.remove(worker)
        self._waits.pop(worker, None)
        self._renewed_at.pop(worker, None)
        if self._exclusive == worker:
            self._exclusive = None

    def release(self, worker: str) -> None:
        """Frees the money of a worker whose trials are planned again or made; a call in flight may have cost.

        A call whose maximum cost is unknown counts with nothing, as nothing is known of it.
        """
        self.lose(worker)
        use = self._money.pop(worker, None)
        if use is not None:
            self._spent_usd += use.spent_usd + (use.reserved_usd if isfinite(use.reserved_usd) else 0.0)

    def _expire(self, now: float) -> None:
        for worker, renewed_at in self._renewed_at.items():
            if now - renewed_at > LEASE_S:
                self._waits.pop(worker, None)
                for endpoint in self._endpoints.values():
                    if worker in endpoint.uses:
                        endpoint.expire(worker)

    def _must_let_pass(self, worker: str, now: float) -> bool:
        """Whether another worker has waited so long that no other gets money before it."""
        first = min(self._waits, key=self._waits.__getitem__, default=worker)
        return first != worker and now - self._waits[first] > _MAX_WAIT_S

    def _renew_money(self, worker: str, use: MoneyUse, budget_usd: float, now: float) -> tuple[float, bool]:
        """Returns what a worker may spend in all, and whether one call may cost more."""
        other_accounts = [account for name, account in self._money.items() if name != worker]
        leased_usd = sum(max(account.limit_usd, account.spent_usd) for account in other_accounts)
        used_usd = max(use.limit_usd, use.spent_usd)
        free_usd = budget_usd - self._spent_usd - leased_usd - used_usd
        if self._exclusive == worker and not use.reserved_usd:
            self._exclusive = None
        limit_usd, may_exceed = use.limit_usd, False
        if use.next_usd and self._exclusive in (None, worker) and not self._must_let_pass(worker, now):
            # What it wants, or a block; or as much as there is, if the next call fits into that.
            wanted_usd = use.spent_usd + use.reserved_usd + use.waiting_usd - use.limit_usd
            if wanted_usd > 0 and free_usd > 0:
                limit_usd += min(free_usd, max(wanted_usd, _BLOCK_SHARE * budget_usd))
            fits = use.spent_usd + use.reserved_usd + use.next_usd <= limit_usd
            is_alone = not use.reserved_usd and all(
                account.limit_usd <= account.spent_usd + _ROUNDING_USD for account in other_accounts
            )
            if not fits and is_alone:
                may_exceed, self._exclusive = True, worker
            if fits or may_exceed:
                self._waits.pop(worker, None)
            else:
                self._waits.setdefault(worker, now)
                limit_usd = use.limit_usd  # a part would help no call, and another's may fit
        elif use.next_usd:
            self._waits.setdefault(worker, now)
        else:
            self._waits.pop(worker, None)
        self._money[worker] = replace(use, limit_usd=limit_usd)
        return limit_usd, may_exceed
