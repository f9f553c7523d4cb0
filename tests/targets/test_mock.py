"""The target that always gives the same answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proctor.errors import UsageError
from proctor.model import Output, Params, Price
from proctor.pricing import PriceQuote
from proctor.targets.mock import DEFAULT_RESPONSE, open_target
from proctor.targets.parse import parse_target
from proctor.targets.prices import quote_for
from support.builders import make_prompt, make_spec

Make = Callable[..., Any]


@pytest.mark.parametrize(
    ("word", "text"),
    [("mock", DEFAULT_RESPONSE), ("mock:", DEFAULT_RESPONSE), ("mock:NO", "NO"), ("mock:a: b", "a: b")],
)
async def test_it_answers_with_the_text_after_the_colon_and_nothing_else(
    opening: Make, word: str, text: str
) -> None:
    target = await open_target(parse_target(word, Params(), {}), opening())
    assert await target.answer(make_prompt("one")) == Output(text=text)
    assert await target.answer(make_prompt("two", repeat=1)) == Output(text=text)


async def test_the_response_of_a_file_is_filled_in_when_it_is_opened(opening: Make) -> None:
    spec = make_spec("mock", "", options={"response": "Dear ${{ WHO }}"})
    target = await open_target(spec, opening(WHO="Ada"))
    assert (await target.answer(make_prompt("?"))).text == "Dear Ada"
    with pytest.raises(UsageError, match="WHO"):
        await open_target(spec, opening())


async def test_an_empty_response_is_an_empty_answer(opening: Make) -> None:
    target = await open_target(make_spec("mock", "", options={"response": ""}), opening())
    assert (await target.answer(make_prompt("?"))).text == ""


def test_a_mock_answer_costs_nothing() -> None:
    assert quote_for(make_spec("mock"), {}, {}) == PriceQuote(Price(input=0.0, output=0.0))
