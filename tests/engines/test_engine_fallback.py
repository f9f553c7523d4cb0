"""Asking the next one when a target fails for good."""

from __future__ import annotations

import pytest

from proctor.engines.fallback import FallbackTarget
from proctor.errors import TargetError, TargetTimeout
from proctor.model import Message, Output, Prompt

PROMPT = Prompt(messages=(Message(role="user", content="well?"),))


class Says:
    """Answers with a text, or fails."""

    def __init__(self, what: str | Exception, target: str | None = None) -> None:
        self._what = what
        self._target = target
        self.asked = 0

    async def answer(self, prompt: Prompt) -> Output:
        self.asked += 1
        if isinstance(self._what, Exception):
            raise self._what
        return Output(text=self._what, target=self._target)


def no(message: str, kind: str = "http") -> Says:
    return Says(TargetError(message, kind=kind))


async def test_who_answers_is_not_followed_and_not_named() -> None:
    other = Says("other")
    output = await FallbackTarget([("a", Says("fine")), ("b", other)]).answer(PROMPT)
    assert (output.text, output.target, other.asked) == ("fine", None, 0)


async def test_the_first_of_the_others_that_answers_is_named() -> None:
    last = Says("last")
    chain = FallbackTarget([("a", no("down")), ("b", no("down too")), ("c", Says("fine")), ("d", last)])
    output = await chain.answer(PROMPT)
    assert (output.text, output.target, last.asked) == ("fine", "c", 0)


async def test_the_fallback_of_a_fallback_keeps_its_name() -> None:
    inner = FallbackTarget([("b", no("down")), ("c", Says("fine"))])
    assert (await FallbackTarget([("a", no("down")), ("b", inner)]).answer(PROMPT)).target == "c"


async def test_when_all_fail_each_is_named_and_the_last_failure_counts() -> None:
    chain = FallbackTarget([("a", no("It is down.")), ("b", Says(TargetTimeout("It is late.")))])
    with pytest.raises(TargetError, match=r"'a': It is down\. 'b': It is late\.") as caught:
        await chain.answer(PROMPT)
    assert (caught.value.kind, caught.value.transient) == ("timeout", False)


async def test_a_spent_budget_is_no_failure_of_a_target() -> None:
    other = Says("other")
    with pytest.raises(TargetError, match=r"^spent$"):
        await FallbackTarget([("a", no("spent", "budget")), ("b", other)]).answer(PROMPT)
    assert other.asked == 0


async def test_it_is_told_once_who_was_asked_in_whose_place() -> None:
    heard = list[str]()
    chain = FallbackTarget([("a", no("It is down.")), ("b", Says("fine"))], heard.append)
    for _ in range(3):
        await chain.answer(PROMPT)
    assert heard == ["'a' failed, so 'b' was called instead: It is down."]
