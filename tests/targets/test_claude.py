"""What Claude models take: how long they think, and the schemas of their answers."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.model import Params
from proctor.targets.api.anthropic.claude import (
    find_conflict,
    get_version,
    max_tokens_for,
    takes_temperature,
    thinking_for,
    to_output_schema,
)

ADAPTIVE = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("model", "version"),
    [
        ("claude-opus-4-20250514", (4, 0)),
        ("claude-sonnet-4-5-20250929", (4, 5)),
        ("claude-3-7-sonnet-20250219", (3, 7)),
        ("claude-3-haiku-20240307", (3, 0)),
        ("claude-opus-5-5", (5, 5)),
        ("claude-sonnet-5", (5, 0)),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", (4, 5)),
        ("anthropic.claude-opus-4-6-v1", (4, 6)),
        ("anthropic/claude-opus-4.6", (4, 6)),
        ("claude-mythos-preview", None),
        ("m", None),
    ],
)
def test_the_version_of_a_model_is_in_its_name(model: str, version: tuple[int, int] | None) -> None:
    assert get_version(model) == version


@pytest.mark.parametrize(
    ("model", "params", "thinking", "max_tokens"),
    [
        ("claude-sonnet-4-5", Params(), None, 4096),
        ("claude-sonnet-4-5", Params(max_tokens=9), None, 9),
        ("claude-sonnet-4-5", Params(thinking_budget=0), {"type": "disabled"}, 4096),
        (
            "claude-sonnet-4-5",
            Params(thinking_budget=2000),
            {"type": "enabled", "budget_tokens": 2000},
            6096,
        ),
        ("claude-opus-4-5", Params(reasoning_effort="low"), None, 4096),
        ("claude-opus-4-6", Params(reasoning_effort="low"), ADAPTIVE, 16_384),
        ("claude-opus-5-5", Params(reasoning_effort="low", max_tokens=500), ADAPTIVE, 500),
        ("claude-opus-5-5", Params(), None, 16_384),
        ("claude-opus-5", Params(thinking_budget=0), {"type": "disabled"}, 4096),
        ("m", Params(reasoning_effort="low"), ADAPTIVE, 16_384),
        (
            "claude-opus-4-6",
            Params(reasoning_effort="low", thinking_budget=1024),
            {"type": "enabled", "budget_tokens": 1024},
            5120,
        ),
    ],
)
def test_thinking_is_requested_in_the_form_of_the_model_and_has_tokens_of_its_own(
    model: str, params: Params, thinking: dict[str, Any] | None, max_tokens: int
) -> None:
    assert thinking_for(model, params) == thinking
    assert max_tokens_for(model, params) == max_tokens
    assert find_conflict(model, params) is None


@pytest.mark.parametrize(
    ("model", "params", "words"),
    [
        (
            "m",
            Params(thinking_budget=1023),
            "`thinking_budget` is 1023; Claude models accept 0 or at",
        ),
        ("claude-opus-4-7", Params(thinking_budget=2000), "Set `reasoning_effort` instead."),
        ("m", Params(thinking_budget=2000, max_tokens=2000), "`max_tokens` is 2000 but must be more than"),
        ("m", Params(thinking_budget=2000, top_k=5), "`top_k` cannot be set"),
        ("m", Params(reasoning_effort="low", top_p=0.9), "`top_p` is 0.9; for a Claude model that thinks"),
    ],
)
def test_parameters_that_the_model_does_not_take_together_are_a_sentence_with_a_remedy(
    model: str, params: Params, words: str
) -> None:
    assert words in (find_conflict(model, params) or "")


def test_sampling_is_free_where_the_model_does_not_think() -> None:
    params = Params(thinking_budget=0, top_k=5, top_p=0.5)
    assert find_conflict("claude-sonnet-4-5", params) is None
    assert takes_temperature("claude-sonnet-4-5", params)


def test_a_model_that_thinks_takes_no_temperature_but_1() -> None:
    for temperature, is_taken in ((0.0, False), (1.0, True), (None, True)):
        assert takes_temperature("m", Params(temperature=temperature, thinking_budget=2000)) is is_taken


PLACE = {"type": "object", "properties": {"city": {"type": "string"}}}
CLOSED = {**PLACE, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        (PLACE, CLOSED),
        ({**PLACE, "additionalProperties": True}, {**PLACE, "additionalProperties": True}),
        ({"type": "object"}, {"type": "object"}),
        ({"type": "array", "items": PLACE}, {"type": "array", "items": CLOSED}),
        ({"$defs": {"p": PLACE}, "$ref": "#/$defs/p"}, {"$defs": {"p": CLOSED}, "$ref": "#/$defs/p"}),
        ({"anyOf": [PLACE, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
        ({"allOf": [PLACE, PLACE]}, {"allOf": [PLACE, PLACE]}),
        ({"enum": [{"properties": {}}]}, {"enum": [{"properties": {}}]}),
        (
            {"properties": {"properties": PLACE}},
            {"properties": {"properties": CLOSED}, "additionalProperties": False},
        ),
        (True, True),
        (
            {"type": "integer", "minimum": 0, "maximum": 5, "description": "A mark."},
            {"type": "integer", "description": "A mark.\n\n{minimum: 0, maximum: 5}"},
        ),
        (
            {"type": "array", "items": {"type": "string", "maxLength": 9}, "minItems": 2},
            {
                "type": "array",
                "items": {"type": "string", "description": "{maxLength: 9}"},
                "description": "{minItems: 2}",
            },
        ),
        ({"type": "array", "minItems": 1}, {"type": "array", "minItems": 1}),
        (
            {"properties": {"minimum": {"type": "string"}}},
            {"properties": {"minimum": {"type": "string"}}, "additionalProperties": False},
        ),
    ],
)
def test_a_schema_gets_the_form_that_structured_outputs_take(schema: Any, form: Any) -> None:
    assert to_output_schema(schema) == form
