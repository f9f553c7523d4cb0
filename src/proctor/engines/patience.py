"""Asking a target with patience: a place at its endpoint, a time limit, retries, and what the answer cost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from math import inf
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import encode
from proctor.engines.deadlines import Deadlines
from proctor.engines.limit import Limit
from proctor.errors import ProctorError, TargetError, TargetTimeout
from proctor.model import Output, Price, Prompt
from proctor.ports import Target
from proctor.pricing import cost_usd

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
_LONGEST_PAUSE_S = 300.0
"""An endpoint that asks for a longer pause is not waited for, unless --timeout is longer still."""
_WORTH_A_WORD_S = 5.0
"""A pause that an endpoint asks for is told to the user when it is at least so long."""


class Patience(Struct, frozen=True, kw_only=True):
    """How long and how often a target is asked."""

    timeout_s: float = 120.0
    """What one call may take; a call that takes longer is not asked again."""
    retries: int = 4
    """How often a call is repeated that failed for a passing reason."""


class Patient:
    """A target that waits its turn, retries what can pass, and knows its price."""

    def __init__(
        self,
        target: Target,
        limit: Limit,
        patience: Patience,
        *,
        price: Price | None = None,
        notify: Callable[[str], None] = lambda _message: None,
    ) -> None:
        """Wraps a target.

        Args:
            target: the one to ask; closing this closes it.
            limit: shared by all who ask the same endpoint.
            patience: time limit and retries.
            price: None when it is not known, and then costs stay unknown.
            notify: told, in a sentence, when the endpoint asks for a long pause.
        """
        self._target = target
        self._limit = limit
        self._patience = patience
        self._deadlines = Deadlines(patience.timeout_s)
        self._price = price
        self._notify = notify

    async def answer(self, prompt: Prompt) -> Output:
        """The answer, with what waiting for it took in `queue_ms`.

        Raises:
            TargetError: it failed for good, or as often as patience allows.
        """
        began = monotonic()
        tries = 0
        while True:
            if not self._limit.try_enter():
                await self._limit.enter()
            asked_at = monotonic()
            call = self._deadlines.begin()
            try:
                output = _checked(await self._target.answer(prompt))
            except TargetError as error:
                wait_s = self._wait_s(tries, error, asked_at)
            except ProctorError:
                raise
            except Exception as error:  # the one place where what a target's code did not foresee ends
                # One reply that nobody thought of is one trial without an output, not the end of a run.
                raise TargetError(
                    f"The answer cannot be read: {type(error).__name__}: {error}", kind="protocol"
                ) from error
            except asyncio.CancelledError:
                if self._deadlines.end(call):
                    raise self._too_late() from None
                raise
            else:
                self._limit.succeeded()
                return self._finished(output, queue_ms=(asked_at - began) * 1000)
            finally:
                self._deadlines.end(call)
                self._limit.leave()
            tries += 1
            await asyncio.sleep(wait_s)

    def _too_late(self) -> TargetTimeout:
        limit_s = self._patience.timeout_s
        return TargetTimeout(f"No answer within {limit_s:g} s. Raise --timeout if the target needs longer.")

    def _wait_s(self, tries: int, error: TargetError, asked_at: float) -> float:
        """How long to wait before the next try; raises the error when there is to be none."""
        longest_s = max(_LONGEST_PAUSE_S, self._patience.timeout_s)
        if error.retry_after_s is not None and error.retry_after_s > longest_s:
            raise TargetError(
                f"{error} It asks to wait {error.retry_after_s:,.0f} s, which is too long."
            ) from error
        if error.busy:
            self._limit.busy(asked_at, error.retry_after_s)
        if not error.transient or tries >= self._patience.retries:
            raise error
        if error.retry_after_s is not None:
            if error.retry_after_s >= _WORTH_A_WORD_S:
                self._notify(f"The endpoint asks to wait {error.retry_after_s:.0f} s; waiting.")
            # A little later than asked, and not all at the same moment.
            return error.retry_after_s + random.uniform(0, 0.1)  # noqa: S311  # spreading load, not a secret
        longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**tries)
        return random.uniform(longest / 2, longest)  # noqa: S311

    def _finished(self, output: Output, queue_ms: float) -> Output:
        cost = output.cost_usd
        if cost is None and self._price is not None:
            cost = cost_usd(output.usage, self._price)
        if queue_ms < 0.05 and cost is output.cost_usd:
            return output
        return replace(output, queue_ms=queue_ms, cost_usd=cost)

    async def aclose(self) -> None:
        """Close the target."""
        await self._target.aclose()


def _checked(output: Output) -> Output:
    """The output, unless no store could hold it: half of a surrogate pair, or a time that is no number.

    Raises:
        TargetError: it could not.
    """
    if not output.text.isascii() or output.tool_calls or output.messages:
        try:
            encode(output)
        except UnicodeEncodeError as error:
            what = f"character {error.start} is half of a surrogate pair"
            raise TargetError(f"The answer cannot be kept: {what}.", kind="protocol") from None
    if not 0 <= output.latency_ms < inf or not 0 <= (output.cost_usd or 0.0) < inf:
        raise TargetError("The answer cannot be kept: its latency or cost is not 0 or more.", kind="protocol")
    return output
