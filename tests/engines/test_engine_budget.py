"""The budget of a run: reserved before a call, settled after it, exceeded by one call at most."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.engines.budget import DEFAULT_OUTPUT_TOKENS, Budget, BudgetedTarget, estimate_max_usd
from proctor.errors import TargetError, TargetTimeout
from proctor.model import Attachment, Message, Output, Price, Prompt, Tool, ToolCall
from support.virtual_time import run_virtually

PROMPT = Prompt(messages=(Message(role="user", content="well?"),))
A_DOLLAR = Price(input=0.0, output=1_000_000.0)
"""One dollar a token of output, so that `output_tokens` is what a call may cost."""
FREE = Price(input=0.0, output=0.0)


# --- the law -----------------------------------------------------------------------------------------------


class Call(NamedTuple):
    """A call that may cost `max_cost` and does cost `cost`; it starts at `starts_at`."""

    max_cost: int
    cost: int
    starts_at: int
    duration: int
    cancelled_after: int | None
    first: bool


@st.composite
def calls(draw: st.DrawFn) -> list[Call]:
    def draw_call() -> Call:
        max_cost = draw(st.integers(1, 50))
        cancelled_after = draw(st.one_of(st.none(), st.none(), st.integers(0, 12)))
        return Call(
            max_cost,
            draw(st.integers(0, max_cost)),
            draw(st.integers(0, 5)),
            draw(st.integers(0, 5)),
            cancelled_after,
            draw(st.booleans()),
        )

    return [draw_call() for _ in range(draw(st.integers(1, 16)))]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 120), calls())
def test_a_run_costs_at_most_its_budget_and_one_call(limit: int, drawn_calls: list[Call]) -> None:
    budget = Budget(limit)
    counts = dict.fromkeys(("answered", "refused"), 0)

    async def ask(call: Call) -> None:
        await asyncio.sleep(call.starts_at)
        try:
            await budget.reserve(call.max_cost, first=call.first)
        except TargetError:
            counts["refused"] += 1
            assert budget.spent_usd >= limit
            return
        cost = call.max_cost  # that of a cancelled call is unknown
        try:
            await asyncio.sleep(call.duration)
            cost = call.cost
            counts["answered"] += 1
        finally:
            budget.settle(call.max_cost, cost)

    async def go() -> None:
        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(ask(call)) for call in drawn_calls]
        for task, call in zip(tasks, drawn_calls, strict=True):
            if call.cancelled_after is not None:
                loop.call_later(call.cancelled_after, task.cancel)
        finished, _ = await asyncio.wait(tasks, timeout=1000)
        assert len(finished) == len(tasks), "a call waits for ever"
        for task in finished:
            assert task.cancelled() or task.exception() is None
        if budget.spent_usd < limit:  # nothing is reserved any more
            await asyncio.wait_for(budget.reserve(10**9), 1)

    run_virtually(go())
    assert budget.spent_usd <= max(limit, 0) + max(call.max_cost for call in drawn_calls) * (limit > 0)
    none_cancelled = all(call.cancelled_after is None for call in drawn_calls)
    if none_cancelled and sum(call.cost for call in drawn_calls) < limit:
        assert counts == {"answered": len(drawn_calls), "refused": 0}


class PricedTarget:
    """Answers after `takes_s` and reports a cost."""

    def __init__(
        self,
        cost: float | None = None,
        *later: float | None,
        fails: TargetError | None = None,
        takes_s: float = 1,
    ) -> None:
        """The last of several costs is that of all further calls."""
        self._costs = (cost, *later)
        self.fails = fails
        self._takes_s = takes_s
        self.under_way = self.peak = self.calls = 0

    async def answer(self, prompt: Prompt) -> Output:
        nth = self.calls
        self.calls += 1
        self.under_way += 1
        self.peak = max(self.peak, self.under_way)
        try:
            await asyncio.sleep(self._takes_s)
        finally:
            self.under_way -= 1
        if self.fails is not None:
            raise self.fails
        return Output(text="4", cost_usd=self._costs[min(nth, len(self._costs) - 1)])


async def ask(target: BudgetedTarget, times: int) -> list[str]:
    """Makes calls at once; returns `fine` or the kind of the failure for each."""

    async def once() -> str:
        try:
            await target.answer(PROMPT)
        except TargetError as error:
            return error.kind
        return "fine"

    return await asyncio.gather(*(once() for _ in range(times)))


@pytest.mark.parametrize("judging", [True, False])
def test_who_judges_what_is_paid_for_goes_before_those_who_wait(judging: bool) -> None:
    budget, order = Budget(15), list[str]()

    async def call(name: str, target: BudgetedTarget) -> None:
        await target.answer(PROMPT)
        order.append(name)

    async def go() -> None:
        target = BudgetedTarget(PricedTarget(1), budget, price=A_DOLLAR, output_tokens=10)
        judge = BudgetedTarget(PricedTarget(1), budget, price=A_DOLLAR, output_tokens=10, judging=judging)
        waiting = [asyncio.create_task(call(name, target)) for name in "abc"]
        await asyncio.sleep(0.5)
        await asyncio.gather(call("judge", judge), *waiting)

    run_virtually(go())
    assert order == (["a", "judge", "b", "c"] if judging else ["a", "b", "c", "judge"])


@pytest.mark.parametrize(
    ("limit", "max_cost", "cost", "answer_count", "at_once"),
    [
        (100, 10, 10, 10, 10),  # all that fit go at once
        (100, 10, 1, 20, 10),  # what was reserved but not spent is free again
        (15, 10, 10, 2, 1),  # the second goes alone, as half of it is left
        (5, 10, 10, 1, 1),  # a budget that no call fits into pays for one
        (5, 10, 1, 5, 1),
        (10, 10, 0, 20, 1),
    ],
)
def test_so_many_calls_are_paid_and_so_many_go_at_once(
    limit: float, max_cost: int, cost: float, answer_count: int, at_once: int
) -> None:
    seller, budget = PricedTarget(cost), Budget(limit)
    target = BudgetedTarget(seller, budget, price=A_DOLLAR, output_tokens=max_cost)
    results = run_virtually(ask(target, 20))
    assert results == ["fine"] * answer_count + ["budget"] * (20 - answer_count)
    assert (seller.calls, seller.peak) == (answer_count, at_once)
    assert budget.spent_usd == answer_count * cost


def test_a_refusal_says_what_was_spent_and_how_to_go_on() -> None:
    budget = Budget(0.5, spent_usd=0.625)
    with pytest.raises(
        TargetError, match=r"\$0\.5 is spent \(\$0\.6250\).*--retry-errors=RUN --budget-usd"
    ) as caught:
        run_virtually(BudgetedTarget(PricedTarget(1), budget, price=A_DOLLAR).answer(PROMPT))
    assert (caught.value.kind, caught.value.transient) == ("budget", False)


def test_who_came_first_is_let_in_first() -> None:
    budget, order = Budget(10), list[str]()

    async def reserve(name: str, max_cost: float) -> None:
        await budget.reserve(max_cost)
        order.append(name)
        await asyncio.sleep(1)
        budget.settle(max_cost, 0.0)

    async def go() -> None:
        await asyncio.gather(reserve("a", 6), reserve("b", 6), reserve("c", 2), reserve("d", 2))

    run_virtually(go())
    assert order == ["a", "b", "c", "d"]  # if c went with a, b could wait for ever


@pytest.mark.parametrize(
    ("failure", "charged", "assumed"),
    [
        (TargetError("no", kind="http"), 0, 0),
        (TargetError("no", kind="connection"), 0, 0),
        (TargetError("no", kind="protocol"), 7, 1),  # an answer that cannot be read was made all the same
        (TargetTimeout("late"), 7, 1),
    ],
)
def test_a_call_that_failed_costs_nothing_unless_it_may_have_been_answered(
    failure: TargetError, charged: float, assumed: int
) -> None:
    budget = Budget(100)
    target = BudgetedTarget(PricedTarget(fails=failure), budget, price=A_DOLLAR, output_tokens=7)
    assert run_virtually(ask(target, 1)) == [failure.kind]
    assert (budget.spent_usd, budget.assumed_calls) == (charged, assumed)


def test_an_answer_that_does_not_tell_its_cost_counts_as_what_it_may_have_cost() -> None:
    budget = Budget(20)
    target = BudgetedTarget(PricedTarget(None), budget, price=A_DOLLAR, output_tokens=7)
    assert run_virtually(ask(target, 4)) == ["fine", "fine", "fine", "budget"]
    assert (budget.spent_usd, budget.assumed_calls) == (21, 3)


def test_a_call_that_is_cancelled_leaves_the_others_what_is_left() -> None:
    seller, budget = PricedTarget(1), Budget(10)
    target = BudgetedTarget(seller, budget, price=A_DOLLAR, output_tokens=6)

    async def go() -> list[str]:
        first, waiting = (asyncio.create_task(target.answer(PROMPT)) for _ in range(2))
        await asyncio.sleep(0.5)
        waiting.cancel()
        first.cancel()
        await asyncio.wait([first, waiting])
        return await ask(target, 1)

    assert run_virtually(go()) == ["fine"]
    assert (seller.calls, budget.spent_usd) == (2, 6 + 1)


def test_who_goes_just_as_its_turn_comes_gives_it_back() -> None:
    budget = Budget(10)

    async def go() -> None:
        await budget.reserve(10)
        waiting = asyncio.create_task(budget.reserve(10))
        await asyncio.sleep(0)
        budget.settle(10, 0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        await asyncio.wait_for(budget.reserve(10), 1)

    run_virtually(go())


def test_who_gives_up_waiting_lets_those_behind_pass() -> None:
    budget = Budget(10)

    async def go() -> None:
        await budget.reserve(6)
        too_much, fitting = (asyncio.create_task(budget.reserve(max_cost)) for max_cost in (8, 3))
        await asyncio.sleep(0)
        too_much.cancel()
        await asyncio.wait_for(fitting, 1)

    run_virtually(go())


# --- targets that are free or have no known price ----------------------------------------------------------


def test_what_is_free_never_waits_and_is_never_refused() -> None:
    seller = PricedTarget(None)
    target = BudgetedTarget(seller, Budget(1, spent_usd=2), price=FREE)
    assert run_virtually(ask(target, 20)) == ["fine"] * 20
    assert seller.peak == 20


def test_what_was_thought_to_be_free_pays_from_its_first_cost_on() -> None:
    budget = Budget(10)
    target = BudgetedTarget(PricedTarget(4), budget, price=FREE)
    assert [run_virtually(ask(target, 1)) for _ in range(4)] == [["fine"], ["fine"], ["fine"], ["budget"]]
    assert budget.spent_usd == 12


async def ask_eight(target: BudgetedTarget, seller: PricedTarget) -> list[str]:
    """Makes eight calls at once and checks that the first is made alone; returns what `ask` does."""
    calls = asyncio.create_task(ask(target, 8))
    await asyncio.sleep(0.5)
    assert seller.calls == 1
    return await calls


def test_of_a_program_the_first_call_goes_alone_and_the_others_as_the_dearest_so_far() -> None:
    seller, budget = PricedTarget(10), Budget(41)
    target = BudgetedTarget(seller, budget, price=A_DOLLAR, output_tokens=1, bounded=False)

    results = run_virtually(ask_eight(target, seller))
    assert results.count("fine") == 5
    assert (seller.peak, budget.spent_usd) == (3, 50)


def test_without_a_price_the_first_call_goes_alone_and_the_others_as_the_dearest_so_far() -> None:
    seller, budget = PricedTarget(10, 12, 8), Budget(50)
    target = BudgetedTarget(seller, budget, price=None)

    results = run_virtually(ask_eight(target, seller))
    assert (results.count("fine"), results.count("budget")) == (6, 2)
    # 10; then four calls for which 10 each are set aside, and which cost 12, 8, 8 and 8; then one alone.
    assert (seller.peak, budget.spent_usd, budget.assumed_calls) == (4, 54, 0)


def test_without_a_price_an_answer_without_a_cost_is_the_last() -> None:
    seller, budget = PricedTarget(None), Budget(50)
    target = BudgetedTarget(seller, budget, price=None)
    assert run_virtually(ask(target, 8)) == ["fine", *["budget"] * 7]
    assert (seller.calls, budget.spent_usd) == (1, 0)
    with pytest.raises(
        TargetError, match=r"has no price and did not report .*, so the budget cannot be enforced.*`cost_usd`"
    ):
        run_virtually(target.answer(PROMPT))


@pytest.mark.parametrize(
    ("failure", "calls"),
    [
        (TargetError("no", kind="program"), 4),
        (TargetError("no", kind="protocol"), 1),
        (TargetTimeout("late"), 1),
    ],
)
def test_without_a_price_a_failure_that_may_have_cost_something_is_the_last(
    failure: TargetError, calls: int
) -> None:
    seller, budget = PricedTarget(fails=failure), Budget(50)
    target = BudgetedTarget(seller, budget, price=None)
    assert run_virtually(ask(target, 4)) == [failure.kind] * calls + ["budget"] * (4 - calls)
    assert (seller.calls, seller.peak) == (calls, 1)


def test_without_a_price_a_program_that_fails_later_counts_as_the_dearest_call() -> None:
    seller, budget = PricedTarget(10), Budget(35)
    target = BudgetedTarget(seller, budget, price=None)
    assert run_virtually(ask(target, 1)) == ["fine"]
    seller.fails = TargetError("no", kind="program")
    results = run_virtually(ask(target, 8))
    assert (results.count("program"), results.count("budget")) == (3, 5)
    assert (budget.spent_usd, budget.assumed_calls) == (40, 3)


def test_without_a_price_a_cost_that_is_missing_later_is_that_of_the_dearest_call() -> None:
    budget = Budget(50)
    target = BudgetedTarget(PricedTarget(10, None), budget, price=None)
    results = run_virtually(ask(target, 8))
    assert (results.count("fine"), budget.spent_usd, budget.assumed_calls) == (5, 50, 4)


def test_a_program_that_has_to_wait_is_not_said_to_cost_without_end() -> None:
    notes = list[str]()
    budget = Budget(10, notify=notes.append)

    async def go() -> None:
        await budget.reserve(1)
        task = asyncio.create_task(
            ask(BudgetedTarget(PricedTarget(1), budget, price=A_DOLLAR, bounded=False), 1)
        )
        await asyncio.sleep(1)
        budget.settle(1, 1)
        assert await task == ["fine"]

    run_virtually(go())
    assert notes == []


# --- what a call may cost ----------------------------------------------------------------------------------

PER_TOKEN = Price(input=1_000_000.0, output=0.0)


def tokens(*messages: Message, **fields: Any) -> float:
    return estimate_max_usd(Prompt(messages=messages, **fields), PER_TOKEN, 0)


def make_message(content: str, **fields: Any) -> Message:
    return Message(role="user", content=content, **fields)


def test_a_prompt_with_choices_is_sent_alone_and_once_with_each() -> None:
    prompt = Prompt(messages=(make_message("Late?"),), choices=("yes", "no"))
    per_answer = Price(input=0.0, output=1_000_000.0)
    assert tokens(make_message("Late?"), choices=("yes", "no")) == 3 * tokens(make_message("Late?")) + 5
    assert estimate_max_usd(prompt, per_answer, 4096) == 3


@given(st.text(max_size=200))
def test_every_byte_of_a_prompt_may_be_a_token(text: str) -> None:
    more = tokens(make_message(text)) - tokens(make_message(""))
    assert more == len(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    ("message", "least"),
    [
        (make_message("", name="x" * 50), 50),
        (make_message("", tool_calls=(ToolCall(name="look", arguments={"where": "x" * 50}),)), 50),
        (make_message("x" * 50, parts=(Attachment(kind="file", path="a", text="x" * 50),)), 100),
        (make_message("", parts=(Attachment(kind="file", path="a", data=b"x" * 30),)), 40),
        (make_message("", parts=(Attachment(kind="image", path="a", data=b"x"),)), 10_000),
        # At most 32 tokens for a second of sound, which has a kilobyte at the least; 332 for one of video.
        (make_message("", parts=(Attachment(kind="audio", path="a", data=b"x" * 10_000),)), 320),
        (make_message("", parts=(Attachment(kind="video", path="a", data=b"x" * 80_000),)), 3320),
    ],
)
def test_all_that_a_message_holds_may_be_tokens(message: Message, least: int) -> None:
    assert tokens(message) - tokens(make_message("")) >= least


TOOL = Tool(name="t", parameters={"description": "x" * 100})


@pytest.mark.parametrize(
    ("fields", "least"), [({"response_schema": TOOL.parameters}, 100), ({"tools": (TOOL,) * 3}, 300)]
)
def test_schemas_and_tools_may_be_tokens(fields: dict[str, Any], least: int) -> None:
    assert tokens(make_message(""), **fields) - tokens(make_message("")) >= least


def test_an_answer_is_as_long_as_it_may_be() -> None:
    limited, unlimited = Budget(10**9), Budget(10**9)
    run_virtually(BudgetedTarget(PricedTarget(), limited, price=A_DOLLAR, output_tokens=100).answer(PROMPT))
    run_virtually(BudgetedTarget(PricedTarget(), unlimited, price=A_DOLLAR).answer(PROMPT))
    assert (limited.spent_usd, unlimited.spent_usd) == (100, DEFAULT_OUTPUT_TOKENS)


def test_what_a_target_adds_to_every_prompt_counts() -> None:
    budget = Budget(10**9)
    run_virtually(
        BudgetedTarget(PricedTarget(None), budget, price=PER_TOKEN, output_tokens=1, also_sent=5000).answer(
            PROMPT
        )
    )
    assert budget.spent_usd == estimate_max_usd(PROMPT, PER_TOKEN, 1) + 5000


async def test_waiting_for_the_budget_is_time_in_the_queue() -> None:
    target = BudgetedTarget(PricedTarget(1, takes_s=0.03), Budget(10), price=A_DOLLAR, output_tokens=10)
    first, second = await asyncio.gather(*(target.answer(PROMPT) for _ in range(2)))
    assert first.queue_ms < 25 <= second.queue_ms


def test_it_is_told_once_that_calls_wait() -> None:
    notes = list[str]()
    target = BudgetedTarget(PricedTarget(1), Budget(10, notify=notes.append), price=A_DOLLAR, output_tokens=6)
    run_virtually(ask(target, 5))
    (sentence,) = notes
    assert "up to $6.0000" in sentence
    assert "--max-tokens" in sentence
