"""Limits the requests to one endpoint: their concurrency, their rate, and whether to send any.

Concurrency: additive increase, multiplicative decrease, as in TCP (V. Jacobson, "Congestion avoidance and
control", 1988), but starting at the ceiling, which most endpoints can take. Rate: `rate_pacer`, from the
first refusal on. Whether to send any: a circuit breaker, as described by M. Nygard ("Release It!", 2007).
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

_NEWEST_CALL_WEIGHT = 0.1
"""The weight of the newest call in the average size of calls."""
_IDLE_S = 5.0
"""After an idle moment, requests sent longer ago than this do not count for the rate."""


MAX_OUTAGE_S = 60.0
"""How long an endpoint may fail every probe before it is given up, unless a call's retries take longer."""
MAX_THROTTLED_S = 300.0
"""The same for an endpoint that has answered before and now throttles every request."""
GIVEN_UP_RETRY_S = 30.0
"""How long after an endpoint was given up one call may try it again."""
FIRST_WAIT_S = 0.5
MAX_WAIT_S = 30.0
_FAILURE_THRESHOLDS = {EndpointFault.PERMANENT: 5, EndpointFault.UNREACHABLE: 5, EndpointFault.SERVER: 12}
"""How many failures in a row open the breaker."""


def backoff_s(tries: int) -> float:
    """Returns the delay after that number of failed tries: doubling from 0.5 s to 30 s, with jitter."""
    longest_s = max_backoff_s(tries)
    return random.uniform(longest_s / 2, longest_s)  # noqa: S311  # spreading load, not a secret


def max_backoff_s(tries: int) -> float:
    """Returns the same without jitter."""
    return min(MAX_WAIT_S, FIRST_WAIT_S * 2.0 ** min(tries, 10))


class CircuitBreaker:
    """Closed while calls succeed; when open, only probes are sent, one at a time, at growing intervals.

    Pure arithmetic over the times that are passed to it.
    """

    def __init__(self) -> None:
        """Starts closed."""
        self.failures = 0
        """Failed calls since the last success."""
        self.probe_at = 0.0
        """When the next call may be made while it is open."""
        self.reason: str | None = None
        """Why the endpoint was given up, as a sentence; None if it was not."""
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
        """Returns how long it has been open."""
        return 0.0 if self._opened_at is None else now - self._opened_at

    def start_probe(self, now: float) -> None:
        """Records that one call is made although the breaker is open."""
        self._probe_sent_at = now

    def succeed(self) -> None:
        """Records an answered call and closes the breaker."""
        self._has_answered = True
        self.failures = self._probes = 0
        self._opened_at = self._probe_sent_at = self.reason = None

    def trip(self, now: float, probe_at: float) -> None:
        """Opens the breaker; the first probe may be sent at `probe_at`."""
        if self._opened_at is None:
            self._opened_at = now
            self.probe_at = probe_at
        self.failures = max(self.failures, 1)

    def fail_probe(self, now: float, least_wait_s: float = 0.0) -> None:
        """Records that the probe failed or was cancelled."""
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
        """Records a failed call; returns whether to give the endpoint up.

        Args:
            fault: what the failure says about the endpoint.
            now: the current time.
            asked_at: when the call was made.
            is_first: whether it is the call's first failure; later ones do not count if the request itself
                may be the cause.
            least_wait_s: the wait that the endpoint requires.
            patience_s: how long the retries of one call take.
        """
        if self._opened_at is not None:
            if self._probe_sent_at is None or asked_at < self._probe_sent_at:
                return False  # the call was sent before the probe
            self.fail_probe(now, least_wait_s)
            return now - self._opened_at >= self._max_outage_s(fault, patience_s)
        if fault is EndpointFault.THROTTLED:
            return False  # that is what pacing is for
        self.failures += is_first or fault is not EndpointFault.SERVER
        if self.failures < _FAILURE_THRESHOLDS[fault]:
            return False
        if fault is EndpointFault.PERMANENT:
            return True
        self.trip(now, now + max(backoff_s(0), least_wait_s))
        return self._max_outage_s(fault, patience_s) <= 0

    def give_up(self, reason: str, now: float) -> None:
        """Fails every call with that reason, except for one try every 30 s."""
        self.reason = reason
        self.failures = max(self.failures, 1)
        self._opened_at = now if self._opened_at is None else self._opened_at
        self._probe_sent_at = None
        self.probe_at = now + GIVEN_UP_RETRY_S

    def _max_outage_s(self, fault: EndpointFault, patience_s: float) -> float:
        if fault is EndpointFault.PERMANENT:
            return 0.0
        if fault is EndpointFault.UNREACHABLE and not self._has_answered:
            return patience_s
        is_throttled = fault is EndpointFault.THROTTLED and self._has_answered
        return max(MAX_THROTTLED_S if is_throttled else MAX_OUTAGE_S, patience_s)


class AdaptiveLimit:
    """Limits concurrent requests to one endpoint; `acquire` before each request and `release` after it."""

    def __init__(self, ceiling: int) -> None:
        """Starts at the ceiling.

        Args:
            ceiling: the maximum number of concurrent requests.
        """
        self.ceiling = ceiling
        self.concurrency = float(ceiling)
        self.in_flight = 0
        self.successes = 0
        """How many calls the endpoint answered."""
        self.breaker = CircuitBreaker()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._is_guarded = False
        """Whether anything but the concurrency limit may delay a request."""
        self._halved_at = -inf
        self._paused_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._pacer: RatePacer | None = None
        self.counts_tokens = False
        """Whether the endpoint limits tokens."""
        self._tokens_per_call = 0.0
        self._sent_count = 0
        self._busy_since = -inf
        self._epoch = _Epoch(0.0, 0)

    @property
    def waiting(self) -> int:
        """The number of calls that wait."""
        return sum(not waiter.done() for waiter in self._waiters)

    @property
    def pause_s(self) -> float:
        """How long the endpoint's pause still takes."""
        return max(0.0, self._paused_until - monotonic())

    def pause(self, seconds: float) -> None:
        """Sends no request for that long."""
        self._pause_until(monotonic() + seconds)

    def resize(self, concurrency: float) -> None:
        """Sets the limit, which may be 0."""
        self.concurrency = concurrency
        self._admit_waiters()

    def try_acquire(self) -> bool:
        """Enters if the limit allows it now and no other call waits."""
        if self.in_flight + 1 > self.concurrency or self._waiters or self._is_guarded:
            return False
        if self.in_flight:
            self._sent_count += 1
            self.in_flight += 1
        else:
            self._admit()
        return True

    async def acquire(self) -> None:
        """Waits in turn until the limit and the endpoint's pauses allow a request.

        Raises:
            EndpointFailed: the endpoint was given up.
        """
        if self.try_acquire():
            return
        if self.breaker.reason is not None and monotonic() < self.breaker.probe_at:
            raise EndpointFailed(self.breaker.reason)
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._admit_waiters()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.release()  # admitted just as it was cancelled
            raise

    def release(self) -> None:
        """Ends a request and lets the next one in."""
        self.in_flight -= 1
        if not self.in_flight and self.breaker.is_probing:
            self.breaker.fail_probe(monotonic())  # it was cancelled, or its time was up
        if self._waiters:
            self._admit_waiters()

    def on_response(self) -> None:
        """Records that the endpoint answered, even with a refusal."""
        self.successes += 1
        if self.breaker.failures:
            self._close_breaker()

    def on_success(self) -> None:
        """Records a success; after as many successes as the current limit, the limit grows by one."""
        self.successes += 1
        if self.breaker.failures:
            self._close_breaker()
        if self.concurrency < self.ceiling:
            self.concurrency = min(float(self.ceiling), self.concurrency + 1 / self.concurrency)
            self._admit_waiters()

    def on_busy(self, asked_at: float, pause_s: float | None) -> None:
        """Records that the endpoint is overloaded; halves the limit, once for all requests in flight.

        Args:
            asked_at: `time.monotonic()` when the refused request was sent.
            pause_s: the pause that the endpoint requires, if any.
        """
        now = monotonic()
        if asked_at > self._halved_at:
            self.concurrency = max(1.0, self.concurrency / 2)
            self._halved_at = now
        if pause_s:
            self._pause_until(now + pause_s)

    def on_throttled(self, asked_at: float, pause_s: float) -> bool:
        """Records that the endpoint throttled a request; after the pause, requests are paced.

        Args:
            asked_at: `time.monotonic()` when the refused request was sent.
            pause_s: the length of the pause.

        Returns:
            Whether the endpoint never accepted a request, so that it may never accept any.
        """
        now = monotonic()
        if asked_at < self._epoch.started_at or self.breaker.is_open:
            return not self.successes
        self._epoch.refused_count += 1
        self._epoch.refused_at = min(self._epoch.refused_at, now)
        self._pause_until(now + pause_s)
        return not self.successes and self._epoch.accepted_count(self._sent_count) <= 0

    def on_quotas(self, quotas: Collection[Quota]) -> None:
        """Records what is left of the endpoint's rate limits; if that is too little, waits for the reset.

        The number of requests counts until one is refused; from then on requests are paced. The tokens must
        suffice for a call of average size.
        """
        self.counts_tokens = self.counts_tokens or any(quota.resource == "tokens" for quota in quotas)
        for quota in quotas:
            needed = self._tokens_per_call if quota.resource == "tokens" else float(self._pacer is None)
            if quota.remaining < needed and quota.reset_s <= MAX_THROTTLED_S:
                self._pause_until(monotonic() + quota.reset_s)

    def count_tokens(self, tokens: int) -> None:
        """Records the tokens of a call."""
        if self.counts_tokens:
            weight = _NEWEST_CALL_WEIGHT if self._tokens_per_call else 1.0
            self._tokens_per_call += weight * (tokens - self._tokens_per_call)

    def on_failure(
        self,
        fault: EndpointFault,
        *,
        asked_at: float,
        is_first: bool,
        least_wait_s: float,
        patience_s: float,
    ) -> bool:
        """Records a failure that says something about the endpoint; arguments as `CircuitBreaker.fail`.

        Returns:
            Whether to give the endpoint up.
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
        """Fails all waiting calls, and later ones, with that reason."""
        self.breaker.give_up(reason, monotonic())
        self._is_guarded = True
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(EndpointFailed(reason))

    def _admit(self) -> None:
        if not self.in_flight:
            now = monotonic()
            if now - self._busy_since > _IDLE_S and not self._is_guarded:
                self._epoch = _Epoch(now, self._sent_count)
                self._busy_since = now
        self._sent_count += 1
        self.in_flight += 1

    def _close_breaker(self) -> None:
        self.breaker.succeed()
        self._admit_waiters()

    def _pause_until(self, until: float) -> None:
        self._paused_until = max(self._paused_until, until)
        self._is_guarded = True
        self._wake_at(self._paused_until)

    def _admit_waiters(self) -> None:
        """Admits waiting calls as far as limit, pauses, pace and breaker allow; otherwise sets a timer."""
        while self._waiters and self.in_flight < int(self.concurrency):
            if self._is_guarded:
                now = monotonic()
                opens_at = self._next_admission_at(now)
                if opens_at > now:
                    self._wake_at(opens_at)
                    return
            waiter = self._waiters.popleft()
            if waiter.done():
                continue
            if self._is_guarded:
                self._pass_guard(monotonic())
            self._admit()
            waiter.set_result(None)

    def _next_admission_at(self, now: float) -> float:
        """Returns when the next request may be sent; `inf` if that depends on the current probe."""
        if self._paused_until:
            if now < self._paused_until:
                return self._paused_until
            self._end_pause(now)
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
            self._pacer.record_request(now)

    def _end_pause(self, now: float) -> None:
        """Ends a pause; the requests accepted since the last one determine the rate."""
        epoch, closed_until = self._epoch, self._paused_until
        self._paused_until = 0.0
        self._epoch = _Epoch(now, self._sent_count)
        if not epoch.refused_count:
            return
        accepted = epoch.accepted_count(self._sent_count)
        if accepted <= 0:
            self.breaker.trip(now, now)
            return
        pause_s = closed_until - epoch.refused_at
        epoch_s = epoch.refused_at - epoch.started_at
        if self._pacer is None:
            from proctor.engines.rate_pacer import RatePacer  # most endpoints refuse nothing

            self._pacer = RatePacer(accepted / max(epoch_s, pause_s), pause_s, now)
        else:
            self._pacer.slow_down(accepted / epoch_s if epoch_s >= pause_s else None, pause_s, now)

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
        if self._paused_until and not self._waiters:
            now = monotonic()
            if now < self._paused_until:
                self._wake_at(self._paused_until)
            else:
                self._next_admission_at(now)
        self._admit_waiters()


class _Epoch:
    """The requests from the end of one pause to the next refusal."""

    __slots__ = ("_sent_before", "refused_at", "refused_count", "started_at")

    def __init__(self, started_at: float, sent_before: int) -> None:
        self.started_at = started_at
        self.refused_count = 0
        self.refused_at = inf
        self._sent_before = sent_before

    def accepted_count(self, sent_count: int) -> int:
        """Returns how many requests were not refused, including those in flight."""
        return sent_count - self._sent_before - self.refused_count
