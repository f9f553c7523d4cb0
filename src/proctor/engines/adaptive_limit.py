"""The gate of one endpoint: how many requests it gets at once and a second, and whether it is worth asking.

How many at once: additive increase, multiplicative decrease, as TCP does it (V. Jacobson, "Congestion
avoidance and control", 1988), but starting at the ceiling: most endpoints take what they are given. How many
a second: `pacing`, from the first refusal on. Whether at all: a circuit breaker, as M. Nygard describes it
("Release It!", 2007).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Collection
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from proctor.errors import EndpointFailed, EndpointFault
from proctor.protocols import Quota

if TYPE_CHECKING:
    from proctor.engines.rate_pacer import RatePacer

_NEWEST_CALL = 0.1
"""How much the newest call counts in the average size of calls."""
_IDLE_S = 5.0
"""A busy time that began so long ago counts for no rate once the endpoint had nothing to do."""


MAX_OUTAGE_S = 60.0
"""How long an endpoint may fail every probe before it is given up, unless a call's retries take longer."""
MAX_THROTTLED_S = 300.0
"""The same for one that has answered before and now refuses every request as one too many."""
RETRY_AFTER_GIVING_UP_S = 30.0
"""So long after an endpoint was given up one call may try it again."""
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
_FAILURES = {EndpointFault.PERMANENT: 5, EndpointFault.UNREACHABLE: 5, EndpointFault.SERVER: 12}
"""How many calls in a row open the breaker."""


def backoff_s(tries: int) -> float:
    """How long to wait after that number of failed tries: doubling from 0.5 s to 30 s, with jitter."""
    longest_s = longest_backoff_s(tries)
    return random.uniform(longest_s / 2, longest_s)  # noqa: S311  # spreading load, not a secret


def longest_backoff_s(tries: int) -> float:
    """The same without jitter."""
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(tries, 10))


class CircuitBreaker:
    """Closed while calls succeed; when open, only one probe is sent, at growing intervals.

    Pure arithmetic over times that it is given.
    """

    def __init__(self) -> None:
        """Closed."""
        self.failures = 0
        """Failed calls since the last success."""
        self.probe_at = 0.0
        """When the next call may be made while it is open."""
        self.reason: str | None = None
        """Why the endpoint was given up, as a sentence; None while it was not."""
        self._has_answered = False
        self._opened_at: float | None = None
        self._probes = 0
        self._probe_sent_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls must wait."""
        return self._opened_at is not None

    @property
    def is_probing(self) -> bool:
        """Whether a probe is under way."""
        return self._probe_sent_at is not None

    def outage_s(self, now: float) -> float:
        """For how long it has been open."""
        return 0.0 if self._opened_at is None else now - self._opened_at

    def start_probe(self, now: float) -> None:
        """One call is made although the breaker is open."""
        self._probe_sent_at = now

    def succeed(self) -> None:
        """A call was answered: close."""
        self._has_answered = True
        self.failures = self._probes = 0
        self._opened_at = self._probe_sent_at = self.reason = None

    def trip(self, now: float, probe_at: float) -> None:
        """Let no call through before `probe_at`, and then one."""
        if self._opened_at is None:
            self._opened_at = now
            self.probe_at = probe_at
        self.failures = max(self.failures, 1)

    def lose_probe(self, now: float, least_wait_s: float = 0.0) -> None:
        """The probe failed or was given up."""
        self._probe_sent_at = None
        self.probe_at = now + max(backoff_s(self._probes), least_wait_s)
        self._probes += 1

    def fail(
        self,
        fault: EndpointFault,
        now: float,
        *,
        asked_at: float,
        is_first: bool = True,
        least_wait_s: float = 0.0,
        patience_s: float = 0.0,
    ) -> bool:
        """A call failed; True when the endpoint is to be given up.

        Args:
            fault: what the failure says of the endpoint.
            now: the time.
            asked_at: when the call was made.
            is_first: it is the call's first failure. No other counts where the request may be to blame.
            least_wait_s: how long the endpoint asked to wait.
            patience_s: how long the retries of one call take.
        """
        if self._opened_at is not None:
            if self._probe_sent_at is None or asked_at < self._probe_sent_at:
                return False  # it was under way before
            self.lose_probe(now, least_wait_s)
            return now - self._opened_at >= self._longest_s(fault, patience_s)
        if fault is EndpointFault.THROTTLED:
            return False  # that is what pacing is for
        self.failures += is_first or fault is not EndpointFault.SERVER
        if self.failures < _FAILURES[fault]:
            return False
        if fault is EndpointFault.PERMANENT:
            return True
        self.trip(now, now + max(backoff_s(0), least_wait_s))
        return self._longest_s(fault, patience_s) <= 0

    def give_up(self, reason: str, now: float) -> None:
        """Fail every call with that reason, but for one try every 30 s."""
        self.reason = reason
        self.failures = max(self.failures, 1)
        self._opened_at = now if self._opened_at is None else self._opened_at
        self._probe_sent_at = None
        self.probe_at = now + RETRY_AFTER_GIVING_UP_S

    def _longest_s(self, fault: EndpointFault, patience_s: float) -> float:
        if fault is EndpointFault.PERMANENT:
            return 0.0
        if fault is EndpointFault.UNREACHABLE and not self._has_answered:
            return patience_s
        is_throttled = fault is EndpointFault.THROTTLED and self._has_answered
        return max(MAX_THROTTLED_S if is_throttled else MAX_OUTAGE_S, patience_s)


class Limit:
    """Places for requests to one endpoint; hand them out with `enter` and take them back with `leave`."""

    def __init__(self, ceiling: int) -> None:
        """All places free.

        Args:
            ceiling: the most requests ever under way at once.
        """
        self.ceiling = ceiling
        self.allowed = float(ceiling)
        self.in_flight = 0
        self.successes = 0
        """How many calls the endpoint answered."""
        self.breaker = CircuitBreaker()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_guarded = False
        """Whether anything but the number of places may keep a request out."""
        self._halved_at = -inf
        self._closed_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._pacer: RatePacer | None = None
        self._counts_tokens = False
        self._tokens_per_call = 0.0
        self._sent_count = 0
        self._busy_since = -inf
        self._epoch = _Epoch(0.0, 0)

    def try_enter(self) -> bool:
        """Take a place if one is free now and no call waits for it."""
        if self.in_flight < int(self.allowed) and not self._waiting and not self._is_guarded:
            self._take()
            return True
        return False

    async def enter(self) -> None:
        """Take a place, waiting in turn for one and for the end of a pause that the endpoint demands.

        Raises:
            EndpointFailed: the endpoint was given up.
        """
        if self.try_enter():
            return
        if self.breaker.reason is not None and monotonic() < self.breaker.probe_at:
            raise EndpointFailed(self.breaker.reason)
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._let_in()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.leave()  # the place came just as its taker went
            raise

    def leave(self) -> None:
        """Give a place back."""
        self.in_flight -= 1
        if self.breaker.is_probing and not self.in_flight:
            self.breaker.lose_probe(monotonic())  # it was cancelled, or its time was up
        if self._waiting:
            self._let_in()

    def responded(self) -> None:
        """The endpoint answered, if only to refuse the request."""
        self.successes += 1
        if self.breaker.failures:
            self.breaker.succeed()
            self._let_in()

    def succeeded(self) -> None:
        """A request went well: one more place after as many successes as there are places now."""
        self.responded()
        if self.allowed < self.ceiling:
            self.allowed = min(float(self.ceiling), self.allowed + 1 / self.allowed)
            self._let_in()

    def busy(self, asked_at: float, pause_s: float | None) -> None:
        """The endpoint said it has too much to do: halve, once for all requests that were under way.

        Args:
            asked_at: `time.monotonic()` when the refused request was sent.
            pause_s: how long the endpoint wants nobody to ask, if it said so.
        """
        now = monotonic()
        if asked_at > self._halved_at:
            self.allowed = max(1.0, self.allowed / 2)
            self._halved_at = now
        if pause_s:
            self._close(now + pause_s)

    def throttled(self, asked_at: float, pause_s: float) -> bool:
        """The endpoint refused a request as one too many; from the end of the pause on, requests are paced.

        Args:
            asked_at: `time.monotonic()` when the refused request was sent.
            pause_s: how long nobody is to ask.

        Returns:
            Whether the endpoint never took a request, so that it may never take any.
        """
        now = monotonic()
        if asked_at < self._epoch.started_at or self.breaker.is_open:
            return not self.successes
        self._epoch.refused_count += 1
        self._epoch.refused_at = min(self._epoch.refused_at, now)
        self._close(now + pause_s)
        return not self.successes and self._epoch.accepted(self._sent_count) <= 0

    def observe(self, quotas: Collection[Quota]) -> None:
        """The endpoint said what is left of its rate limits: where too little is, wait for more.

        How many requests are left is heeded until one was refused; from then on they are paced. Of tokens
        there must be enough for a call of average size.
        """
        self._counts_tokens = self._counts_tokens or any(quota.resource == "tokens" for quota in quotas)
        for quota in quotas:
            needed = self._tokens_per_call if quota.resource == "tokens" else float(self._pacer is None)
            if quota.remaining < needed and quota.reset_s <= MAX_THROTTLED_S:
                self._close(monotonic() + quota.reset_s)

    def count_tokens(self, tokens: int) -> None:
        """A call took that number of tokens."""
        if self._counts_tokens:
            weight = _NEWEST_CALL if self._tokens_per_call else 1.0
            self._tokens_per_call += weight * (tokens - self._tokens_per_call)

    def failed(
        self,
        fault: EndpointFault,
        *,
        asked_at: float,
        is_first: bool,
        least_wait_s: float,
        patience_s: float,
    ) -> bool:
        """A request failed in a way that says something of the endpoint; arguments as `CircuitBreaker.fail`.

        Returns:
            Whether the endpoint is to be given up.
        """
        is_over = self.breaker.fail(
            fault,
            monotonic(),
            asked_at=asked_at,
            is_first=is_first,
            least_wait_s=least_wait_s,
            patience_s=patience_s,
        )
        self._is_guarded = self._is_guarded or self.breaker.is_open
        return is_over

    def give_up(self, reason: str) -> None:
        """Fail all waiting calls, and later ones, with that reason."""
        self.breaker.give_up(reason, monotonic())
        self._is_guarded = True
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_exception(EndpointFailed(reason))

    def _take(self) -> None:
        if not self.in_flight:
            now = monotonic()
            if now - self._busy_since > _IDLE_S and not self._is_guarded:
                self._epoch = _Epoch(now, self._sent_count)
                self._busy_since = now
        self._sent_count += 1
        self.in_flight += 1

    def _close(self, until: float) -> None:
        self._closed_until = max(self._closed_until, until)
        self._is_guarded = True
        self._wake_at(self._closed_until)

    def _let_in(self) -> None:
        """Let in who waits, as far as places, pauses, pace and breaker allow; look again when they may."""
        while self._waiting and self.in_flight < int(self.allowed):
            if self._is_guarded:
                now = monotonic()
                opens_at = self._opens_at(now)
                if opens_at > now:
                    self._wake_at(opens_at)
                    return
            place = self._waiting.popleft()
            if place.done():
                continue
            if self._is_guarded:
                self._pass_guard(monotonic())
            self._take()
            place.set_result(None)

    def _opens_at(self, now: float) -> float:
        """When the next request may be sent; `inf` when that depends on the probe that is under way."""
        if self._closed_until:
            if now < self._closed_until:
                return self._closed_until
            self._reopen(now)
        if self.breaker.is_open:
            return inf if self.breaker.is_probing else self.breaker.probe_at
        if self._pacer is None:
            self._is_guarded = False
            return now
        if self._pacer.is_over(now):
            self._pacer = None
            self._is_guarded = False
            return now
        return now + self._pacer.wait_s(now)

    def _pass_guard(self, now: float) -> None:
        if self.breaker.is_open:
            self.breaker.start_probe(now)
        elif self._pacer is not None:
            self._pacer.take(now)

    def _reopen(self, now: float) -> None:
        """The pause is over: what the endpoint took since the last one tells the rate."""
        epoch, closed_until = self._epoch, self._closed_until
        self._closed_until = 0.0
        self._epoch = _Epoch(now, self._sent_count)
        if not epoch.refused_count:
            return
        accepted = epoch.accepted(self._sent_count)
        if accepted <= 0:
            self.breaker.trip(now, now)
            return
        pause_s = closed_until - epoch.refused_at
        epoch_s = epoch.refused_at - epoch.started_at
        if self._pacer is None:
            from proctor.engines.rate_pacer import RatePacer  # most endpoints refuse nothing

            self._pacer = RatePacer(accepted / max(epoch_s, pause_s), pause_s, now)
        else:
            self._pacer.cut(accepted / epoch_s if epoch_s >= pause_s else None, pause_s, now)

    def _wake_at(self, at: float) -> None:
        if at >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = asyncio.get_running_loop().call_later(at - monotonic(), self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._timer_at = inf
        if self._closed_until and not self._waiting:
            now = monotonic()
            if now < self._closed_until:
                self._wake_at(self._closed_until)
            else:
                self._opens_at(now)
        self._let_in()


class _Epoch:
    """The time from the end of one pause to the next refusal: what was sent and what was refused in it."""

    __slots__ = ("_sent_before", "refused_at", "refused_count", "started_at")

    def __init__(self, started_at: float, sent_before: int) -> None:
        self.started_at = started_at
        self.refused_count = 0
        self.refused_at = inf
        self._sent_before = sent_before

    def accepted(self, sent_count: int) -> int:
        """How many requests of it were not refused, those under way among them."""
        return sent_count - self._sent_before - self.refused_count
