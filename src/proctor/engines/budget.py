"""A run's budget: the maximum cost of a call is reserved before the call, and settled with its answer.

As long as no call costs more than its reservation, a run costs at most its budget and one call. A call that
could cost more than is left is still made while no other is in flight, so that small budgets can be used.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf, isfinite
from time import monotonic

from msgspec.structs import replace

from proctor.codec import encode
from proctor.errors import ProctorError, TargetError
from proctor.model import Attachment, Message, Output, Price, Prompt
from proctor.protocols import Answerer

DEFAULT_OUTPUT_TOKENS = 32_768
"""The assumed maximum tokens of an answer without a limit: few models ever write more."""
_TOKENS_PER_CALL = 512
"""What an endpoint may add to a prompt, such as the instructions for a schema; in tokens."""
_TOKENS_PER_MESSAGE = 16
"""The marks around a message; in tokens."""
_TOKENS_PER_TOOL = 64
"""The marks around a tool; in tokens."""
_TOKENS_PER_IMAGE = 50_000
"""More tokens than any endpoint counts for an image, whatever its size."""
_BYTES_PER_TOKEN = {"audio": 16, "video": 4}
"""Fewer bytes than a token has: services count at most 32 tokens for a second of sound, 332 of video."""
_NO_PRICE = Price(input=0.0, output=0.0)
_POSSIBLY_BILLED_KINDS = frozenset({"protocol", "timeout"})
"""Failures for which the endpoint may have charged, though the answer could not be used."""


class Budget:
    """The budget of a run, shared by its targets and judges."""

    def __init__(
        self,
        limit_usd: float,
        *,
        spent_usd: float = 0.0,
        notify: Callable[[str], None] = lambda _message: None,
    ) -> None:
        """Reserves nothing.

        Args:
            limit_usd: no call is started once this much is spent.
            spent_usd: the cost of the run so far.
            notify: called once, with a sentence, when calls wait for one another.
        """
        self.limit_usd = limit_usd
        self.spent_usd = spent_usd
        self.assumed_calls = 0
        """The number of calls without a reported cost."""
        self._notify = notify
        self._is_announced = False
        self._reserved_usd = 0.0
        self._calls_in_flight = 0
        self._waiters: deque[tuple[float, asyncio.Future[None]]] = deque()

    @property
    def is_spent(self) -> bool:
        """Whether no further call is started."""
        return self.spent_usd >= self.limit_usd

    @property
    def waiting(self) -> int:
        """The number of calls that wait for money."""
        return sum(not waiter.done() for _, waiter in self._waiters)

    async def reserve(self, most_usd: float, *, first: bool = False) -> None:
        """Reserves an amount; waits in turn until it fits or no other call is in flight.

        Args:
            most_usd: the maximum cost of the call; with `inf` it only starts alone.
            first: go ahead of the calls that wait already.

        Raises:
            TargetError: of kind `budget`: all is spent.
        """
        if self.is_spent:
            raise self._spent_error()
        if (first or not self._waiters) and self._fits(most_usd):
            self._reserve_now(most_usd)
            return
        self._announce_wait(most_usd)
        waiter = asyncio.get_running_loop().create_future()
        if first:
            self._waiters.appendleft((most_usd, waiter))
        else:
            self._waiters.append((most_usd, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.settle(most_usd, 0.0)  # admitted just as it was cancelled
            else:
                self._admit_waiters()  # the next call in the queue may fit
            raise

    def reserve_now(self, most_usd: float, *, is_sent: bool = False) -> bool:
        """Reserves an amount without waiting; returns False if it does not fit.

        Args:
            most_usd: the maximum cost of the call.
            is_sent: whether it has been sent already, so that it is reserved even if it does not fit.

        Raises:
            TargetError: of kind `budget`: all is spent, and the call has not been sent.
        """
        if not is_sent:
            if self.is_spent:
                raise self._spent_error()
            if self._waiters or not self._fits(most_usd):
                return False
        self._reserve_now(most_usd)
        return True

    def settle(self, most_usd: float, cost_usd: float) -> None:
        """Settles a call.

        Args:
            most_usd: the amount reserved for it.
            cost_usd: its actual cost.
        """
        self._calls_in_flight -= 1
        self._reserved_usd = self._reserved_usd - most_usd if self._calls_in_flight else 0.0
        self.spend(cost_usd)

    def spend(self, cost_usd: float) -> None:
        """Counts the cost of a call without a reservation."""
        self.spent_usd += cost_usd
        self._admit_waiters()

    def _fits(self, most_usd: float) -> bool:
        return not self._calls_in_flight or self.spent_usd + self._reserved_usd + most_usd <= self.limit_usd

    def _reserve_now(self, most_usd: float) -> None:
        self._calls_in_flight += 1
        self._reserved_usd += most_usd

    def _admit_waiters(self) -> None:
        while self._waiters:
            most_usd, waiter = self._waiters[0]
            is_spent = self.is_spent
            if not waiter.done() and not is_spent and not self._fits(most_usd):
                return
            self._waiters.popleft()
            if waiter.done():
                continue
            if is_spent:
                waiter.set_exception(self._spent_error())
            else:
                self._reserve_now(most_usd)
                waiter.set_result(None)

    def _spent_error(self) -> TargetError:
        return self.make_spent_error(self.limit_usd, self.spent_usd)

    @staticmethod
    def make_spent_error(limit_usd: float, spent_usd: float) -> TargetError:
        """Returns the error of a call that is not made."""
        return TargetError(
            f"The budget of ${limit_usd:g} is spent (${spent_usd:.4f}). To continue, run with "
            "--retry-errors=RUN --budget-usd X.",
            kind="budget",
        )

    def _announce_wait(self, most_usd: float, /) -> None:
        if not self._is_announced and isfinite(most_usd):
            self._is_announced = True
            self._notify(
                f"Requests wait for one another: each may cost up to ${most_usd:.4f}, and "
                f"${self.limit_usd - self.spent_usd:.4f} of the budget is left. Lower --max-tokens to "
                "send more requests at a time."
            )


class BudgetedTarget:
    """A target whose calls are paid from a budget."""

    def __init__(
        self,
        target: Answerer,
        budget: Budget,
        *,
        price: Price | None,
        output_tokens: int = DEFAULT_OUTPUT_TOKENS,
        also_sent: int = 0,
        bounded: bool = True,
        judging: bool = False,
    ) -> None:
        """Wraps a target.

        Args:
            target: the target to call, with its retries.
            budget: shared with all targets and judges of the run.
            price: its price; None if the target reports the cost of each answer. Then its first call runs
                alone, and if that reports no cost, no further calls are made.
            output_tokens: the maximum tokens of an answer.
            also_sent: how many bytes the target adds to every prompt.
            bounded: whether the prompt bounds its input. If not, it may call a model many times: its first
                call runs alone, and for every other the highest cost so far is reserved.
            judging: whether it is a judge; judges go first, as their answers are paid for already.
        """
        self._target = target
        self._budget = budget
        self._is_unpriced = price is None
        self._price = _NO_PRICE if price is None else price
        self._output_tokens = output_tokens
        self._is_judge = judging
        self._extra_usd = also_sent * _max_input_price(self._price) / 1_000_000
        self._is_cost_unknown = self._is_unpriced or (
            not bounded and bool(self._price.input or self._price.output)
        )
        """Whether no call has reported its cost yet."""
        self._is_cost_unreported = False
        """Whether a call that may have cost something reported no cost, and there is no estimate either."""
        self._first_call_lock = asyncio.Lock()
        self._highest_cost_usd = 0.0

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the answer; its `queue_ms` includes the wait for the budget.

        Raises:
            TargetError: there is none; of kind `budget` if the budget does not suffice.
        """
        self._require_costs()
        bound_usd = self._extra_usd + estimate_max_usd(prompt, self._price, self._output_tokens)
        began = monotonic()
        if self._is_cost_unknown:
            async with self._first_call_lock:
                self._require_costs()
                if self._is_cost_unknown:
                    return await self._answer_within_budget(prompt, inf, bound_usd, began)
        held_usd = max(bound_usd, self._highest_cost_usd)
        if held_usd:
            return await self._answer_within_budget(prompt, held_usd, bound_usd, began)
        output = await self._target.answer(prompt)
        if output.cost_usd:  # it was thought to be free
            self._budget.spend(self._record_cost(output.cost_usd))
        return output

    async def _answer_within_budget(
        self, prompt: Prompt, held_usd: float, bound_usd: float, began: float
    ) -> Output:
        await self._budget.reserve(held_usd, first=self._is_judge)
        queue_ms = (monotonic() - began) * 1000
        # Also charged for a cancelled call, whose cost is unknown.
        assumed_usd = charged_usd = self._highest_cost_usd if self._is_unpriced else bound_usd
        try:
            output = await self._target.answer(prompt)
            if output.cost_usd is not None:
                charged_usd = self._record_cost(output.cost_usd)
            else:
                self._count_assumed_cost(assumed_usd)
                self._record_cost(assumed_usd)
        except ProctorError as error:
            if isinstance(error, TargetError) and self._may_have_cost(error.kind):
                self._count_assumed_cost(assumed_usd)
            else:
                charged_usd = 0.0
            raise
        finally:
            self._budget.settle(held_usd, charged_usd)
        return output if queue_ms < 0.05 else replace(output, queue_ms=output.queue_ms + queue_ms)

    def _may_have_cost(self, kind: str) -> bool:
        """Whether a failure may have cost something; also true for programs that reported costs before."""
        return kind in _POSSIBLY_BILLED_KINDS or (
            kind == "program" and self._is_unpriced and not self._is_cost_unknown
        )

    def _count_assumed_cost(self, cost_usd: float) -> None:
        self._budget.assumed_calls += cost_usd > 0
        self._is_cost_unreported = self._is_unpriced and self._is_cost_unknown

    def _require_costs(self) -> None:
        if self._is_cost_unreported:
            raise TargetError(
                "The target has no price and did not report the cost of a call, so the budget cannot "
                "be enforced. Make it report `cost_usd`, or add its price to a prices.toml beside the "
                "store. Then continue with --retry-errors=RUN --budget-usd X.",
                kind="budget",
            )

    def _record_cost(self, cost_usd: float) -> float:
        self._is_cost_unknown = False
        self._highest_cost_usd = max(self._highest_cost_usd, cost_usd)
        return cost_usd


def estimate_max_usd(prompt: Prompt, price: Price, output_tokens: int) -> float:
    """Returns the maximum cost of a call in US dollars: no token is shorter than one byte of text."""
    schema = prompt.response_schema
    tokens = _TOKENS_PER_CALL + (0 if schema is None else len(encode(schema)))
    tokens += sum(_TOKENS_PER_TOOL + len(encode(tool)) for tool in prompt.tools)
    tokens += sum(_estimate_tokens(message) for message in prompt.messages)
    if prompt.choices:  # the prompt is sent alone, and once with each of them
        output_tokens = len(prompt.choices) + 1
        tokens = tokens * output_tokens + _utf8_size("".join(prompt.choices))
    return (tokens * _max_input_price(price) + output_tokens * price.output) / 1_000_000


def _max_input_price(price: Price) -> float:
    return max(price.input, price.cached or 0.0)


def _estimate_tokens(message: Message) -> int:
    tokens = (
        _TOKENS_PER_MESSAGE
        + _utf8_size(message.content)
        + _utf8_size(message.role)
        + _utf8_size(message.name or "")
    )
    if message.tool_calls:
        tokens += len(encode(message.tool_calls))
    return tokens + sum(_attachment_tokens(part) for part in message.parts if isinstance(part, Attachment))


def _attachment_tokens(part: Attachment) -> int:
    medium = part.medium
    if part.kind == "image":
        return _TOKENS_PER_IMAGE
    if medium in _BYTES_PER_TOKEN:
        return _TOKENS_PER_MESSAGE + len(part.data) // _BYTES_PER_TOKEN[medium]
    # A file is sent as text, or as Base64, which has four bytes for three.
    return _TOKENS_PER_MESSAGE + _utf8_size(part.path) + _utf8_size(part.text or "") + len(part.data) * 4 // 3


def _utf8_size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
