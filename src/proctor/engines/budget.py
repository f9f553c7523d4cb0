"""A run's budget: what a call may cost is set aside before it is made, and settled when its answer is there.

As long as no call costs more than was set aside for it, a run costs at most its budget and one call. A call
that could cost more than is left is made all the same while no other is under way, so that a small budget
is used as well.
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
from proctor.protocols import Answers

OUTPUT_TOKENS = 32_768
"""The tokens that an answer is assumed to have at most, without a limit: few models ever write more."""
_PER_CALL = 512
"""What an endpoint may add to a prompt, such as the instructions for a schema; in tokens."""
_PER_MESSAGE = 16
"""The marks around a message; in tokens."""
_PER_TOOL = 64
"""The marks around a tool; in tokens."""
_PER_IMAGE = 50_000
"""More tokens than any endpoint takes an image for, whatever its size."""
_NO_PRICE = Price(input=0.0, output=0.0)
_MAY_BE_PAID = frozenset({"protocol", "timeout"})
"""Failures after which an endpoint may have charged for an answer that could not be used."""


class Budget:
    """What a run may cost, shared by its targets and judges."""

    def __init__(
        self,
        limit_usd: float,
        *,
        spent_usd: float = 0.0,
        notify: Callable[[str], None] = lambda _message: None,
    ) -> None:
        """Nothing is set aside.

        Args:
            limit_usd: no call is begun once so much is spent.
            spent_usd: what the run had cost before.
            notify: told once, in a sentence, that calls wait for one another.
        """
        self.limit_usd = limit_usd
        self.spent_usd = spent_usd
        self.assumed = 0
        """How many calls did not tell what they cost."""
        self._notify = notify
        self._is_announced = False
        self._held_usd = 0.0
        self._under_way = 0
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()

    async def enter(self, most_usd: float, *, first: bool = False) -> None:
        """Set an amount aside, waiting in turn until it fits or nothing else is under way.

        Args:
            most_usd: what the call may cost at most; `inf` lets it begin only alone.
            first: it need not wait for those that wait already.

        Raises:
            TargetError: of kind `budget`: all is spent.
        """
        if self.spent_usd >= self.limit_usd:
            raise self._refusal()
        if (first or not self._waiting) and self._fits(most_usd):
            self._take(most_usd)
            return
        self._tell(most_usd)
        place = asyncio.get_running_loop().create_future()
        if first:
            self._waiting.appendleft((most_usd, place))
        else:
            self._waiting.append((most_usd, place))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.leave(most_usd, 0.0)  # the place came just as its taker went
            else:
                self._let_in()  # whoever stood behind may fit
            raise

    def leave(self, most_usd: float, cost_usd: float) -> None:
        """Settle a call.

        Args:
            most_usd: what was set aside for it.
            cost_usd: what it did cost.
        """
        self._under_way -= 1
        self._held_usd = self._held_usd - most_usd if self._under_way else 0.0
        self.spend(cost_usd)

    def spend(self, cost_usd: float) -> None:
        """Count what was paid for a call for which nothing was set aside."""
        self.spent_usd += cost_usd
        self._let_in()

    def _fits(self, most_usd: float) -> bool:
        return not self._under_way or self.spent_usd + self._held_usd + most_usd <= self.limit_usd

    def _take(self, most_usd: float) -> None:
        self._under_way += 1
        self._held_usd += most_usd

    def _let_in(self) -> None:
        while self._waiting:
            most_usd, place = self._waiting[0]
            is_spent = self.spent_usd >= self.limit_usd
            if not place.done() and not is_spent and not self._fits(most_usd):
                return
            self._waiting.popleft()
            if place.done():
                continue
            if is_spent:
                place.set_exception(self._refusal())
            else:
                self._take(most_usd)
                place.set_result(None)

    def _refusal(self) -> TargetError:
        return TargetError(
            f"The budget of ${self.limit_usd:g} is spent (${self.spent_usd:.4f}). "
            "Go on with --retry-errors=RUN --budget-usd X.",
            kind="budget",
        )

    def _tell(self, most_usd: float) -> None:
        if not self._is_announced and isfinite(most_usd):
            self._is_announced = True
            self._notify(
                f"Calls wait for one another: one may cost up to ${most_usd:.4f}, and "
                f"${self.limit_usd - self.spent_usd:.4f} of the budget is left. "
                "A smaller --max-tokens lets more of them go at once."
            )


class Budgeted:
    """A target whose calls are paid from a budget."""

    def __init__(
        self,
        target: Answers,
        budget: Budget,
        *,
        price: Price | None,
        output_tokens: int = OUTPUT_TOKENS,
        also_sent: int = 0,
        bounded: bool = True,
        judging: bool = False,
    ) -> None:
        """Wraps a target.

        Args:
            target: the one to ask, with its retries.
            budget: shared with all others of the run.
            price: what it takes; None where the target itself tells what each answer has cost. Then its first
                call goes alone too, and once that told no cost it is asked no more.
            output_tokens: the most that an answer has.
            also_sent: how many bytes the target adds to every prompt.
            bounded: what it is asked is all that it reads. Else it may ask a model again and again: its first
                call goes alone, and what the dearest has cost so far is set aside for every other.
            judging: it is asked about answers that are paid for already, and goes before those who give more.
        """
        self._target = target
        self._budget = budget
        self._unpriced = price is None
        self._price = _NO_PRICE if price is None else price
        self._output_tokens = output_tokens
        self._judging = judging
        self._also_usd = also_sent * _dearer(self._price) / 1_000_000
        self._unknown = self._unpriced or (not bounded and bool(self._price.input or self._price.output))
        """No call has reported its cost."""
        self._untold = False
        """A call that may have cost something told no cost, and nothing tells how much to count for it."""
        self._first = asyncio.Lock()
        self._dearest_usd = 0.0

    async def answer(self, prompt: Prompt) -> Output:
        """The answer, with what waiting for the budget took in its `queue_ms`.

        Raises:
            TargetError: there is none; of kind `budget` where it could not be paid.
        """
        self._require_costs()
        bound_usd = self._also_usd + most_usd(prompt, self._price, self._output_tokens)
        began = monotonic()
        if self._unknown:
            async with self._first:
                self._require_costs()
                if self._unknown:
                    return await self._paid(prompt, inf, bound_usd, began)
        held_usd = max(bound_usd, self._dearest_usd)
        if held_usd:
            return await self._paid(prompt, held_usd, bound_usd, began)
        output = await self._target.answer(prompt)
        if output.cost_usd:  # it was thought to be free
            self._budget.spend(self._highest_cost(output.cost_usd))
        return output

    async def _paid(self, prompt: Prompt, held_usd: float, bound_usd: float, began: float) -> Output:
        await self._budget.enter(held_usd, first=self._judging)
        queue_ms = (monotonic() - began) * 1000
        # Also of a call that is cancelled: nobody knows what it came to.
        assumed_usd = charged_usd = self._dearest_usd if self._unpriced else bound_usd
        try:
            output = await self._target.answer(prompt)
            if output.cost_usd is not None:
                charged_usd = self._highest_cost(output.cost_usd)
            else:
                self._assume(assumed_usd)
                self._highest_cost(assumed_usd)
        except ProctorError as error:
            if isinstance(error, TargetError) and self._may_be_paid(error.kind):
                self._assume(assumed_usd)
            else:
                charged_usd = 0.0
            raise
        finally:
            self._budget.leave(held_usd, charged_usd)
        return output if queue_ms < 0.05 else replace(output, queue_ms=output.queue_ms + queue_ms)

    def _may_be_paid(self, kind: str) -> bool:
        """Whether a failure may have cost something; so may a program's that told before what calls cost."""
        return kind in _MAY_BE_PAID or (kind == "program" and self._unpriced and not self._unknown)

    def _assume(self, cost_usd: float) -> None:
        self._budget.assumed += cost_usd > 0
        self._untold = self._unpriced and self._unknown

    def _require_costs(self) -> None:
        if self._untold:
            raise TargetError(
                "The target has no price and did not tell what a call has cost: the budget cannot be kept. "
                "Let it report `cost_usd`, or put its price into a prices.toml beside the store; then go on "
                "with --retry-errors=RUN --budget-usd X.",
                kind="budget",
            )

    def _highest_cost(self, cost_usd: float) -> float:
        self._unknown = False
        self._dearest_usd = max(self._dearest_usd, cost_usd)
        return cost_usd


def most_usd(prompt: Prompt, price: Price, output_tokens: int) -> float:
    """What a call may cost at most in US dollars: no token is shorter than one byte of text."""
    schema = prompt.response_schema
    tokens = _PER_CALL + (0 if schema is None else len(encode(schema)))
    tokens += sum(_PER_TOOL + len(encode(tool)) for tool in prompt.tools)
    tokens += sum(_estimate_tokens(message) for message in prompt.messages)
    return (tokens * _dearer(price) + output_tokens * price.output) / 1_000_000


def _dearer(price: Price) -> float:
    return max(price.input, price.cached or 0.0)


def _estimate_tokens(message: Message) -> int:
    tokens = (
        _PER_MESSAGE + _utf8_size(message.content) + _utf8_size(message.role) + _utf8_size(message.name or "")
    )
    if message.tool_calls:
        tokens += len(encode(message.tool_calls))
    return tokens + sum(_attached(part) for part in message.parts if isinstance(part, Attachment))


def _attached(part: Attachment) -> int:
    if part.kind == "image":
        return _PER_IMAGE
    # A file goes as its text, or as base64, which has four bytes for three.
    return _PER_MESSAGE + _utf8_size(part.path) + _utf8_size(part.text or "") + len(part.data) * 4 // 3


def _utf8_size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
