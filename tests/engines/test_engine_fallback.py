"""Calling the next target when one fails."""

from __future__ import annotations

import pytest

from proctor.engines.fallback import FallbackTarget
from proctor.errors import TargetError, TargetTimeout
from proctor.model import Message, Output, Prompt

PROMPT = Prompt(messages=(Message(role="user", content="well?"),))


class OneReplyTarget:
    """Answers with the same text each time, or fails."""

    def __init__(self, reply: str | Exception, target: str | None = None) -> None:
        self._reply = reply
        self._target = target
        self.calls = 0

    async def answer(self, prompt: Prompt) -> Output:
        self.calls += 1
        if isinstance(self._reply, Exception):
            raise self._reply
        return Output(text=self._reply, target=self._target)


def failing(message: str, kind: str = "http") -> OneReplyTarget:
    return OneReplyTarget(TargetError(message, kind=kind))


async def test_who_answers_is_not_followed_and_not_named() -> None:
    other = OneReplyTarget("other")
    output = await FallbackTarget([("a", OneReplyTarget("fine")), ("b", other)]).answer(PROMPT)
    assert (output.text, output.target, other.calls) == ("fine", None, 0)


async def test_the_first_of_the_others_that_answers_is_named() -> None:
    last = OneReplyTarget("last")
    chain = FallbackTarget(
        [("a", failing("down")), ("b", failing("down too")), ("c", OneReplyTarget("fine")), ("d", last)]
    )
    output = await chain.answer(PROMPT)
    assert (output.text, output.target, last.calls) == ("fine", "c", 0)


async def test_the_fallback_of_a_fallback_keeps_its_name() -> None:
    inner = FallbackTarget([("b", failing("down")), ("c", OneReplyTarget("fine"))])
    assert (await FallbackTarget([("a", failing("down")), ("b", inner)]).answer(PROMPT)).target == "c"


async def test_when_all_fail_each_is_named_and_the_last_failure_counts() -> None:
    chain = FallbackTarget(
        [("a", failing("It is down.")), ("b", OneReplyTarget(TargetTimeout("It is late.")))]
    )
    with pytest.raises(TargetError, match=r"'a': It is down\. 'b': It is late\.") as caught:
        await chain.answer(PROMPT)
    assert (caught.value.kind, caught.value.transient) == ("timeout", False)


async def test_a_spent_budget_is_no_failure_of_a_target() -> None:
    other = OneReplyTarget("other")
    with pytest.raises(TargetError, match=r"^spent$"):
        await FallbackTarget([("a", failing("spent", "budget")), ("b", other)]).answer(PROMPT)
    assert other.calls == 0


async def test_it_is_told_once_who_was_asked_in_whose_place() -> None:
    notes = list[str]()
    chain = FallbackTarget([("a", failing("It is down.")), ("b", OneReplyTarget("fine"))], notes.append)
    for _ in range(3):
        await chain.answer(PROMPT)
    assert notes == ["'a' failed, so 'b' was called instead: It is down."]
