"""The Gemini interface, field by field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proctor.errors import TargetError, UsageError
from proctor.model import Message, Tool, ToolCall, Usage
from proctor.targets.api.google import open_target
from support.builders import make_prompt, make_spec
from support.endpoints import Service

Make = Callable[..., Any]

REPLY = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [{"text": "hm", "thought": True}, {"text": "Fo"}, {"text": "ur."}],
            },
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 11,
        "candidatesTokenCount": 2,
        "thoughtsTokenCount": 30,
        "cachedContentTokenCount": 4,
        "totalTokenCount": 43,
    },
    "modelVersion": "m-001",
}


async def test_the_request_has_the_documented_form(service: Service, opening: Make) -> None:
    service.reply(REPLY)
    target = await open_target(
        make_spec("google", endpoint=service.url, max_tokens=9), opening(PROCTOR_API_KEY="pk")
    )
    schema = {"type": "object"}
    await target.answer(
        make_prompt(
            ("system", "Be brief."), "one", ("assistant", "yes"), "two", repeat=1, response_schema=schema
        )
    )
    (seen,) = service.seen
    assert (seen.method, seen.path) == ("POST", "/v1beta/models/m:generateContent")
    assert seen.headers["x-goog-api-key"] == "pk"
    assert seen.body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "one"}]},
            {"role": "model", "parts": [{"text": "yes"}]},
            {"role": "user", "parts": [{"text": "two"}]},
        ],
        "generationConfig": {
            "temperature": 0.0,
            "seed": 43,
            "maxOutputTokens": 9,
            "responseMimeType": "application/json",
            "responseJsonSchema": schema,
        },
    }


async def test_the_reply_becomes_an_output(service: Service, opening: Make) -> None:
    service.reply(REPLY)
    target = await open_target(make_spec("google", endpoint=f"{service.url}/v1beta/"), opening())
    output = await target.answer(make_prompt("2+2?"))
    assert output.text == "Four."
    assert output.usage == Usage(input_tokens=11, output_tokens=32, cached_tokens=4)
    assert (output.model, output.finish_reason, output.refused_params) == ("m-001", "STOP", ())
    assert output.latency_ms > 0


async def test_a_model_name_cannot_lead_to_another_address(service: Service, opening: Make) -> None:
    service.reply(REPLY)
    target = await open_target(make_spec("google", model="../x?y=é#z", endpoint=service.url), opening())
    await target.answer(make_prompt("hello"))
    assert service.seen[0].path == "/v1beta/models/..%2Fx%3Fy%3D%C3%A9%23z:generateContent"


async def test_a_blocked_prompt_is_refused_with_its_reason(service: Service, opening: Make) -> None:
    service.reply({"promptFeedback": {"blockReason": "SAFETY"}})
    target = await open_target(make_spec("google", endpoint=service.url), opening())
    with pytest.raises(TargetError, match="SAFETY") as caught:
        await target.answer(make_prompt("hello"))
    assert (caught.value.kind, caught.value.transient) == ("refused", False)


async def test_an_answer_that_was_cut_off_before_its_text_is_empty(service: Service, opening: Make) -> None:
    service.reply({"candidates": [{"finishReason": "MAX_TOKENS"}]})
    target = await open_target(make_spec("google", endpoint=service.url), opening())
    output = await target.answer(make_prompt("hello"))
    assert (output.text, output.finish_reason, output.usage) == ("", "MAX_TOKENS", None)


async def test_tools_are_read_and_sent(service: Service, opening: Make) -> None:
    call = {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}
    service.reply({"candidates": [{"content": {"parts": [call]}}]})
    target = await open_target(make_spec("google", endpoint=service.url), opening())
    output = await target.answer(make_prompt("hello"))
    assert output.tool_calls == (ToolCall(name="weather", arguments={"city": "Oslo"}),)
    assistant = Message(role="assistant", tool_calls=output.tool_calls)
    await target.answer(make_prompt("hello", assistant, Message(role="tool", name="weather", content="rain")))
    response = {"functionResponse": {"name": "weather", "response": {"result": "rain"}}}
    assert service.seen[1].body["contents"][1:] == [
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [response]},
    ]


PLACE = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = (Tool(name="weather", description="The weather of a city.", parameters=PLACE), Tool(name="stop"))


async def test_tools_are_described_and_a_call_of_one_is_an_answer_without_text(
    service: Service, opening: Make
) -> None:
    call = {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}
    service.reply({"candidates": [{"content": {"parts": [call]}}]})
    target = await open_target(make_spec("google", endpoint=service.url), opening())
    output = await target.answer(make_prompt("hello", tools=TOOLS))
    described = [
        {"name": "weather", "description": "The weather of a city.", "parametersJsonSchema": PLACE},
        {"name": "stop", "description": "stop"},
    ]
    assert service.seen[0].body["tools"] == [{"functionDeclarations": described}]
    assert (output.text, output.refused_params) == ("", ())
    assert output.tool_calls == (ToolCall(name="weather", arguments={"city": "Oslo"}),)


@pytest.mark.parametrize(
    ("fields", "config", "told"),
    [
        ({"json_answer": True}, {"responseMimeType": "application/json"}, ()),
        ({"json_answer": True, "tools": TOOLS}, {}, ("response_format",)),
        ({"response_schema": PLACE, "tools": TOOLS}, {}, ("response_format",)),
    ],
)
async def test_json_is_asked_for_where_there_are_no_tools(
    service: Service, opening: Make, fields: dict[str, Any], config: dict[str, Any], told: tuple[str, ...]
) -> None:
    service.reply(REPLY)
    target = await open_target(make_spec("google", endpoint=service.url), opening())
    output = await target.answer(make_prompt("hello", **fields))
    assert service.seen[0].body["generationConfig"] == {"temperature": 0.0, "seed": 42, **config}
    assert output.refused_params == told


@pytest.mark.parametrize(
    ("message", "fields", "told", "gone"),
    [
        ('Unknown name "seed" at generation_config', {}, "seed", {"seed"}),
        (
            'Unknown name "responseJsonSchema" at generation_config',
            {"response_schema": PLACE},
            "response_format",
            {"responseJsonSchema", "responseMimeType"},
        ),
        (
            "JSON mode is not enabled for models/m",
            {"json_answer": True},
            "response_format",
            {"responseMimeType"},
        ),
        ("Function calling is not enabled for models/m", {"tools": TOOLS}, "tools", {"tools"}),
        ('Unknown name "x" at tools[0]: Cannot find field.', {"tools": TOOLS}, "tools", {"tools"}),
    ],
)
async def test_a_refused_parameter_is_dropped_remembered_and_told(
    service: Service, opening: Make, message: str, fields: dict[str, Any], told: str, gone: set[str]
) -> None:
    service.reply({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}, 400)
    service.reply(REPLY)
    target = await open_target(make_spec("google", endpoint=service.url), opening())
    for _ in range(2):
        assert (await target.answer(make_prompt("hello", **fields))).refused_params == (told,)
    sent = [{*seen.body, *seen.body["generationConfig"]} for seen in service.seen]
    assert [gone & names for names in sent] == [gone, set(), set()]


@pytest.mark.parametrize("variable", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
async def test_either_variable_holds_the_services_key(opening: Make, variable: str) -> None:
    await open_target(make_spec("google"), opening(**{variable: "k"}))
    with pytest.raises(UsageError, match="GEMINI_API_KEY"):
        await open_target(make_spec("google"), opening())
