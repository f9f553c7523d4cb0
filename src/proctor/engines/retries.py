"""Calls a target with a concurrency limit, a time limit, retries, and the cost of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import inf
from random import uniform
from time import monotonic
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import encode
from proctor.engines.adaptive_limit import AdaptiveLimit, CircuitBreaker, backoff_s, max_backoff_s
from proctor.engines.timeouts import SharedTimer
from proctor.errors import EndpointFailed, EndpointFault, ProctorError, TargetError, TargetTimeout
from proctor.model import Output, Price, Prompt
from proctor.pricing import MAX_COST_USD, MAX_TOKENS, cost_usd, is_valid_cost, is_valid_usage
from proctor.protocols import Target

_MAX_PAUSE_S = 300.0
"""An endpoint that requires a longer pause is given up, unless --timeout is even longer."""
_MIN_NOTICE_S = 5.0
"""Shorter pauses are not reported to the user."""
_SECONDS_PER_YEAR = 365 * 86_400.0
_SPREAD = 0.05
"""Calls wait longer than requested by up to this share of the pause, and at most this many seconds."""


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """The time limit of a call and its number of retries."""

    timeout_s: float = 120.0
    """The time limit of one call; a call that exceeds it is not retried."""
    retries: int = 4
    """How often a call is retried after a transient error."""

    @property
    def max_total_backoff_s(self) -> float:
        """The maximum time that one call waits between retries."""
        return sum(map(max_backoff_s, range(self.retries)))


class RetryingTarget:
    """A target that limits concurrency, retries transient errors and computes costs."""

    def __init__(
        self,
        target: Target,
        limit: AdaptiveLimit,
        retry_policy: RetryPolicy,
        *,
        name: str = "the target",
        price: Price | None = None,
        share_for_tier: Callable[[str | None], float | None] = lambda _tier: 1.0,
        notify: Callable[[str], None] = lambda _message: None,
    ) -> None:
        """Wraps a target.

        Args:
            target: the target to call; closing this one closes it.
            limit: shared by all targets at the same endpoint.
            retry_policy: time limit and retries.
            name: the target's name in notices.
            price: None if it is unknown; then costs are unknown, too.
            share_for_tier: returns what an answer costs, as a share of the price, by the service tier that it
                reports; None if that is unknown.
            notify: called with a sentence when the endpoint requires a long pause, or when the target reports
                invalid tokens or costs.
        """
        self._target = target
        self._limit = limit
        self._policy = retry_policy
        self._timer = SharedTimer(retry_policy.timeout_s)
        self._name = name
        self._price = price
        self._share_for_tier = share_for_tier
        self._notify = notify
        self._has_warned = False

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the answer, with the waiting time in `queue_ms`.

        Raises:
            EndpointFailed: its endpoint was given up.
            TargetError: the error is permanent, or the retries are used up.
        """
        began = monotonic()
        tries: _FailedTries | None = None
        while True:
            if not self._limit.try_acquire():
                await self._limit.acquire()
            asked_at = monotonic()
            call = self._timer.start()
            try:
                output = check_output(await self._target.answer(prompt))
            except TargetError as error:
                tries = tries or _FailedTries()
                wait_s = self._next_wait_s(tries, error, asked_at)
            except ProctorError:
                raise
            except Exception as error:  # the one place that catches unexpected errors of a target's code
                # One unexpected reply costs one trial its output; it must not end the run.
                raise TargetError(
                    f"The answer cannot be read: {type(error).__name__}: {error}", kind="protocol"
                ) from error
            except asyncio.CancelledError:
                if self._timer.stop(call):
                    raise self._timeout_error() from None
                raise
            else:
                self._limit.on_success()
                return self._complete_output(output, queue_ms=(asked_at - began) * 1000)
            finally:
                self._timer.stop(call)
                self._limit.release()
            await asyncio.sleep(wait_s)

    def _timeout_error(self) -> TargetTimeout:
        limit_s = self._policy.timeout_s
        return TargetTimeout(f"No answer within {limit_s:g} s. Raise --timeout if the target needs longer.")

    def _next_wait_s(self, tries: _FailedTries, error: TargetError, asked_at: float) -> float:
        """Returns how long to wait before the next try; raises the error if there is none."""
        fault, asked_s = error.fault, error.retry_after_s or 0.0
        if asked_s > max(_MAX_PAUSE_S, self._policy.timeout_s):
            self._give_up(_long_wait_reason(error, asked_s), error)
        # A little later than requested, and not all at the same time.
        spread_s = uniform(0, min(_SPREAD, _SPREAD * asked_s))  # noqa: S311  # spreading load, not a secret
        wait_s = max(backoff_s(tries.count), asked_s + spread_s)
        counts = True
        if fault is EndpointFault.THROTTLED:
            counts = self._limit.on_throttled(asked_at, wait_s)
        elif error.busy:
            self._limit.on_busy(asked_at, asked_s)
        if fault is None:
            self._limit.on_response()
        elif self._limit.on_failure(
            fault,
            asked_at=asked_at,
            is_first=not tries.has_failed,
            least_wait_s=asked_s,
            patience_s=self._policy.max_total_backoff_s,
        ):
            self._give_up(_failure_reason(error, self._limit.breaker), error)
        tries.has_failed = True
        # If no server listens, no request is to blame: all wait for the probe.
        counts = counts and not (fault is EndpointFault.UNREACHABLE and self._limit.breaker.is_open)
        if not error.transient or (counts and tries.count >= self._policy.retries):
            raise error
        tries.count += counts
        if asked_s >= _MIN_NOTICE_S:
            self._notify(f"The endpoint says to retry after {asked_s:.0f} s. Waiting.")
        return wait_s

    def _give_up(self, reason: str, error: TargetError) -> NoReturn:
        self._limit.give_up(reason)
        raise EndpointFailed(reason, kind=error.kind, transient=error.transient) from error

    def _complete_output(self, output: Output, queue_ms: float) -> Output:
        usage, cost = output.usage, output.cost_usd
        if usage is not None and not is_valid_usage(usage):
            self._warn_of_invalid_figures("token counts", f"whole numbers from 0 to {MAX_TOKENS:,}")
            usage = None
        if usage is not None and self._limit.counts_tokens:
            self._limit.count_tokens(usage.input_tokens + usage.output_tokens)
        if cost is not None and not is_valid_cost(cost):
            self._warn_of_invalid_figures("costs", f"numbers of US dollars from 0 to {MAX_COST_USD:,.0f}")
            cost = None
        if cost is None and self._price is not None:
            cost = cost_usd(usage, self._price, self._share_for_tier(output.service_tier))
        if queue_ms < 0.05 and cost is output.cost_usd and usage is output.usage:
            return output
        return replace(output, queue_ms=queue_ms, cost_usd=cost, usage=usage)

    def _warn_of_invalid_figures(self, what: str, form: str) -> None:
        """Warns once that the target reports invalid numbers."""
        if not self._has_warned:
            self._has_warned = True
            self._notify(
                f"{self._name!r} reports {what} that are not {form}. They count as unknown, and the "
                "budget is charged the amount that was reserved for the call."
            )

    async def aclose(self) -> None:
        """Closes the target."""
        await self._target.aclose()


class _FailedTries:
    """The failed tries of one call."""

    __slots__ = ("count", "has_failed")

    def __init__(self) -> None:
        self.count = 0
        """The tries that use up retries."""
        self.has_failed = False
        """Whether any try failed."""


def _failure_reason(error: TargetError, breaker: CircuitBreaker) -> str:
    """Returns why an endpoint is given up, and what to do."""
    outage_s = breaker.outage_s(monotonic())
    how = f", {breaker.failures} times in a row" if outage_s < 1 else f" for {outage_s:.0f} s"
    return f"Every call failed{how}: {_as_sentence(error)} {error.remedy}".rstrip()


def _long_wait_reason(error: TargetError, asked_s: float) -> str:
    failure = _as_sentence(error)
    if asked_s >= _SECONDS_PER_YEAR:
        return f"{failure} It says to retry after more than a year, which is too long to wait."
    until = datetime.now(UTC) + timedelta(seconds=asked_s)
    asks = f"It says to retry after {asked_s:,.0f} s, which is too long to wait"
    return f"{failure} {asks}. Try again after {until:%Y-%m-%d %H:%M} UTC."


def _as_sentence(error: TargetError) -> str:
    text = str(error)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def check_output(output: Output) -> Output:
    """Returns the output if it can be stored.

    Raises:
        TargetError: it has half of a surrogate pair, or an invalid latency.
    """
    if not output.text.isascii() or output.tool_calls or output.messages:
        try:
            encode(output)
        except UnicodeEncodeError as error:
            what = f"character {error.start} is half of a surrogate pair"
            raise TargetError(f"The answer cannot be stored: {what}.", kind="protocol") from None
    if not 0 <= output.latency_ms < inf:
        raise TargetError(
            "The answer cannot be stored: its latency is not a number of at least 0.", kind="protocol"
        )
    return output
