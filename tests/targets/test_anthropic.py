"""The Messages interface, field by field."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from proctor.errors import TargetError, UsageError
from proctor.model import Message, Tool, ToolCall, Usage
from proctor.targets.api.anthropic import open_target
from support.builders import make_prompt, make_spec
from support.endpoints import Service

Make = Callable[..., Any]

REPLY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x-20260101",
    "content": [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "Fo"},
        {"type": "text", "text": "ur."},
    ],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 10,
        "output_tokens": 3,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 5,
    },
}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


async def test_the_request_has_the_documented_form(service: Service, opening: Make) -> None:
    service.reply(REPLY)
    target = await open_target(make_spec("anthropic", endpoint=service.url), opening(PROCTOR_API_KEY="pk"))
    await target.answer(
        make_prompt(
            ("system", "Be brief."), "one", "two", ("assistant", "yes"), ("system", "Be kind."), "three"
        )
    )
    (seen,) = service.seen
    assert (seen.method, seen.path) == ("POST", "/v1/messages")
    assert seen.headers["x-api-key"] == "pk"
    assert seen.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in seen.headers
    assert seen.body == {
        "model": "m",
        "max_tokens": 4096,
        "temperature": 0.0,
        "system": "Be brief.\n\nBe kind.",
        "messages": [
            {"role": "user", "content": [_text("one"), _text("two")]},
            {"role": "assistant", "content": [_text("yes")]},
            {"role": "user", "content": [_text("three")]},
        ],
    }


async def test_the_reply_becomes_an_output(service: Service, opening: Make) -> None:
    service.reply(REPLY)
    target = await open_target(make_spec("anthropic", endpoint=f"{service.url}/v1", max_tokens=7), opening())
    output = await target.answer(make_prompt("2+2?"))
    assert output.text == "Four."
    assert output.usage == Usage(input_tokens=35, output_tokens=3, cached_tokens=20)
    assert (output.model, output.finish_reason) == ("claude-x-20260101", "end_turn")
    assert output.refused_params == ("seed",)
    assert output.latency_ms > 0
    assert service.seen[0].path == "/v1/messages"
    assert service.seen[0].body["max_tokens"] == 7
    assert "system" not in service.seen[0].body


async def test_tools_are_read_and_sent(service: Service, opening: Make) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}}
    service.reply({**REPLY, "content": [call], "stop_reason": "tool_use"})
    target = await open_target(make_spec("anthropic", endpoint=service.url, seed=None), opening())
    output = await target.answer(make_prompt("hello"))
    assert output.text == ""
    assert output.tool_calls == (ToolCall(name="weather", arguments={"city": "Oslo"}, id="t1"),)
    assert output.refused_params == ()
    assistant = Message(role="assistant", tool_calls=output.tool_calls)
    await target.answer(
        make_prompt("hello", assistant, Message(role="tool", name="weather", content="rain"), "and?")
    )
    assert service.seen[1].body["messages"][1:] == [
        {"role": "assistant", "content": [call]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "rain"}, _text("and?")],
        },
    ]


async def test_a_schema_becomes_a_tool_whose_input_is_the_answer(service: Service, opening: Make) -> None:
    given = {"type": "tool_use", "id": "t1", "name": "reply", "input": {"verdict": "yes"}}
    service.reply({**REPLY, "content": [given]})
    target = await open_target(make_spec("anthropic", endpoint=service.url), opening())
    schema = {"type": "object", "properties": {"verdict": {"type": "string"}}}
    output = await target.answer(make_prompt("judge this", response_schema=schema))
    body = service.seen[0].body
    assert body["tool_choice"] == {"type": "tool", "name": "reply"}
    assert [(tool["name"], tool["input_schema"]) for tool in body["tools"]] == [("reply", schema)]
    assert json.loads(output.text) == {"verdict": "yes"}
    assert output.tool_calls == ()


PLACE = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = (Tool(name="weather", description="The weather of a city.", parameters=PLACE), Tool(name="stop"))
SCHEMA = {"type": "object"}


async def test_tools_are_described_and_nobody_is_made_to_call_them(service: Service, opening: Make) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}}
    service.reply({**REPLY, "content": [call], "stop_reason": "tool_use"})
    target = await open_target(make_spec("anthropic", endpoint=service.url, seed=None), opening())
    output = await target.answer(make_prompt("hello", tools=TOOLS))
    body = service.seen[0].body
    assert body["tools"] == [
        {"name": "weather", "description": "The weather of a city.", "input_schema": PLACE},
        {"name": "stop", "input_schema": {"type": "object"}},
    ]
    assert "tool_choice" not in body
    assert (output.text, output.refused_params) == ("", ())
    assert output.tool_calls == (ToolCall(name="weather", arguments={"city": "Oslo"}, id="t1"),)


@pytest.mark.parametrize(
    ("fields", "tools"),
    [
        ({"json_answer": True}, None),
        ({"response_schema": SCHEMA, "tools": TOOLS}, ["weather", "stop"]),
        ({"json_answer": True, "tools": TOOLS}, ["weather", "stop"]),
    ],
)
async def test_a_form_of_the_answer_that_cannot_be_asked_for_is_told(
    service: Service, opening: Make, fields: dict[str, Any], tools: list[str] | None
) -> None:
    given = {"type": "tool_use", "id": "t1", "name": "reply", "input": {}}
    service.reply({**REPLY, "content": [given]})
    target = await open_target(make_spec("anthropic", endpoint=service.url, seed=None), opening())
    output = await target.answer(make_prompt("hello", **fields))
    body = service.seen[0].body
    assert [tool["name"] for tool in body["tools"]] == tools if tools else "tools" not in body
    assert output.refused_params == ("response_format",)
    assert [call.name for call in output.tool_calls] == ["reply"]


@pytest.mark.parametrize(
    ("message", "fields", "told", "gone"),
    [
        (
            "`temperature` is deprecated for this model.",
            {"response_schema": SCHEMA},
            ("temperature", "seed"),
            {"temperature"},
        ),
        (
            "tool_choice: forced tools are not supported.",
            {"response_schema": SCHEMA},
            ("seed", "response_format"),
            {"tools", "tool_choice"},
        ),
        ("tools: not supported for this model.", {"tools": TOOLS}, ("seed", "tools"), {"tools"}),
    ],
)
async def test_a_refused_parameter_is_dropped_remembered_and_told(
    service: Service,
    opening: Make,
    message: str,
    fields: dict[str, Any],
    told: tuple[str, ...],
    gone: set[str],
) -> None:
    service.reply({"type": "error", "error": {"type": "invalid_request_error", "message": message}}, 400)
    service.reply(REPLY)
    target = await open_target(make_spec("anthropic", endpoint=service.url), opening())
    prompt = make_prompt("hello", **fields)
    for _ in range(2):
        assert (await target.answer(prompt)).refused_params == told
    assert [gone & set(seen.body) for seen in service.seen] == [gone, set(), set()]


async def test_an_overloaded_service_is_busy(service: Service, opening: Make) -> None:
    service.reply({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, 529)
    target = await open_target(make_spec("anthropic", endpoint=service.url), opening())
    with pytest.raises(TargetError, match="Overloaded") as caught:
        await target.answer(make_prompt("hello"))
    assert caught.value.busy


async def test_the_service_itself_needs_its_key(opening: Make) -> None:
    with pytest.raises(UsageError, match="ANTHROPIC_API_KEY"):
        await open_target(make_spec("anthropic"), opening(OPENAI_API_KEY="sk-o"))
