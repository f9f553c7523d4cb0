"""The chat-completions interface, field by field."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from proctor.errors import TargetError, UsageError
from proctor.model import Message, Tool, ToolCall, Usage
from proctor.targets.api.openai import OpenAiTarget, open_embeddings, open_target
from support.builders import make_prompt, make_spec
from support.endpoints import Service

Make = Callable[..., Any]

REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m-2026-01-01",
    "system_fingerprint": "fp_1",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Four."},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 12,
        "completion_tokens": 2,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 5},
    },
}


def _reply(message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"choices": [{"message": message}], **fields}


@pytest.fixture
def target(service: Service, opening: Make) -> Callable[..., Any]:
    async def make(**params: Any) -> OpenAiTarget:
        return await open_target(
            make_spec("openai", endpoint=f"{service.url}/v1/", **params), opening(PROCTOR_API_KEY="pk")
        )

    return make


async def test_the_request_has_the_documented_form(service: Service, target: Make) -> None:
    service.reply(REPLY)
    prompt = make_prompt(("system", "Be brief."), Message(role="user", content="2+2?", name="ann"), repeat=3)
    await (await target(max_tokens=50)).answer(prompt)
    (seen,) = service.seen
    assert (seen.method, seen.path) == ("POST", "/v1/chat/completions")
    assert seen.headers["authorization"] == "Bearer pk"
    assert seen.headers["content-type"] == "application/json"
    assert seen.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "2+2?", "name": "ann"},
        ],
        "temperature": 0.0,
        "seed": 45,
        "max_tokens": 50,
    }


async def test_parameters_that_are_none_and_a_key_that_is_not_set_are_left_out(
    service: Service, opening: Make
) -> None:
    service.reply(REPLY)
    made = await open_target(
        make_spec("openai", endpoint=service.url, temperature=None, seed=None), opening()
    )
    await made.answer(make_prompt(""))
    assert service.seen[0].body == {"model": "m", "messages": [{"role": "user", "content": ""}]}
    assert "authorization" not in service.seen[0].headers


async def test_the_reply_becomes_an_output(service: Service, target: Make) -> None:
    service.reply(REPLY)
    output = await (await target()).answer(make_prompt("2+2?"))
    assert output.text == "Four."
    assert output.usage == Usage(input_tokens=12, output_tokens=2, cached_tokens=5)
    assert (output.model, output.fingerprint, output.finish_reason) == ("m-2026-01-01", "fp_1", "stop")
    assert 0 < output.latency_ms < 5000
    assert (output.cost_usd, output.refused_params, output.tool_calls) == (None, (), ())


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None}, ""),
        ({}, ""),
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
    ],
)
async def test_content_in_its_other_forms_is_text(
    service: Service, target: Make, message: dict[str, Any], text: str
) -> None:
    service.reply(_reply(message))
    output = await (await target()).answer(make_prompt("hello"))
    assert (output.text, output.usage) == (text, None)


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ('{"city": "Oslo"}', {"city": "Oslo"}),
        ({"city": "Oslo"}, {"city": "Oslo"}),
        ("", {}),
        ('{"city": ', {"arguments": '{"city": '}),
        ("[1]", {"arguments": [1]}),
    ],
)
async def test_tool_calls_are_read_however_the_model_wrote_them(
    service: Service, target: Make, arguments: Any, read: dict[str, Any]
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    service.reply(_reply({"content": None, "tool_calls": [call]}))
    output = await (await target()).answer(make_prompt("hello"))
    assert output.tool_calls == (ToolCall(name="weather", arguments=read, id="c1"),)


async def test_tool_calls_and_their_results_are_sent_with_matching_ids(
    service: Service, target: Make
) -> None:
    service.reply(REPLY)
    calls = (ToolCall(name="weather", arguments={"city": "Oslo"}, id="c1"), ToolCall(name="time"))
    await (await target()).answer(
        make_prompt(
            "hello",
            Message(role="assistant", tool_calls=calls),
            Message(role="tool", name="weather", content="rain"),
            Message(role="tool", name="time", content="noon"),
        )
    )
    sent = service.seen[0].body["messages"][1:]
    first, second = sent[0]["tool_calls"]
    assert first["id"] == "c1"
    assert first["type"] == "function"
    assert json.loads(first["function"]["arguments"]) == {"city": "Oslo"}
    assert second["id"] == "time"
    assert sent[1] == {"role": "tool", "content": "rain", "tool_call_id": "c1"}
    assert sent[2] == {"role": "tool", "content": "noon", "tool_call_id": "time"}


CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/b"}}},
    "required": ["a"],
    "additionalProperties": False,
    "$defs": {"b": {"type": "object", "properties": {}, "required": [], "additionalProperties": False}},
}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "$defs": {"b": {"type": "object"}}}, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [{"properties": {"c": {}}}, {"type": "null"}]}}}, False),
        ({"type": "object"}, False),
        ({}, True),
    ],
)
async def test_a_schema_is_sent_and_strictly_where_it_allows_nothing_that_it_does_not_name(
    service: Service, target: Make, schema: dict[str, Any], strict: bool
) -> None:
    service.reply(REPLY)
    await (await target()).answer(make_prompt("hello", response_schema=schema, json_answer=True))
    assert service.seen[0].body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "strict": strict, "schema": schema},
    }


async def test_json_of_any_shape_is_asked_for_where_there_is_no_schema(
    service: Service, target: Make
) -> None:
    service.reply(REPLY)
    await (await target()).answer(make_prompt("hello", json_answer=True))
    assert service.seen[0].body["response_format"] == {"type": "json_object"}


PLACE = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
TOOLS = (Tool(name="weather", description="The weather of a town.", parameters=PLACE), Tool(name="stop"))


async def test_tools_are_described_and_a_call_of_one_is_an_answer_without_text(
    service: Service, target: Make
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"town": "Oslo"}'}}
    service.reply({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})
    output = await (await target()).answer(make_prompt("hello", tools=TOOLS))
    body = service.seen[0].body
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "weather", "description": "The weather of a town.", "parameters": PLACE},
        },
        {"type": "function", "function": {"name": "stop"}},
    ]
    assert "tool_choice" not in body
    assert (output.text, output.finish_reason) == ("", "tool_calls")
    assert output.tool_calls == (ToolCall(name="weather", arguments={"town": "Oslo"}, id="c1"),)


def _refusal(param: str | None, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": "x"}}


@pytest.mark.parametrize(
    ("param", "refusal"),
    [
        ("temperature", _refusal("temperature", "Only the default is supported.")),
        ("temperature", _refusal(None, "'temperature' is not supported with this model.")),
        ("seed", {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}),
        ("response_format", _refusal("response_format.type", "Not here.")),
        ("tools", _refusal("tools", "Not here.")),
        ("tools", _refusal(None, "library/m:latest does not support tools")),
    ],
)
async def test_a_refused_parameter_is_dropped_remembered_and_told(
    service: Service, target: Make, param: str, refusal: dict[str, Any]
) -> None:
    service.reply(refusal, 400)
    service.reply(REPLY)
    made = await target()
    prompt = make_prompt("hello", response_schema={"type": "object"}, tools=TOOLS)
    for _ in range(2):
        output = await made.answer(prompt)
        assert output.refused_params == (param,)
    assert [param in seen.body for seen in service.seen] == [True, False, False]
    others = {"temperature", "seed", "response_format", "tools"} - {param}
    assert all(name in service.seen[-1].body for name in others)
    if param in {"response_format", "tools"}:
        assert (await made.answer(make_prompt("hello"))).refused_params == ()


async def test_several_refused_parameters_are_dropped_one_after_the_other(
    service: Service, target: Make
) -> None:
    service.reply(_refusal("temperature", "No."), 400)
    service.reply(_refusal("seed", "No."), 422)
    service.reply(REPLY)
    output = await (await target()).answer(make_prompt("hello"))
    assert output.refused_params == ("temperature", "seed")
    assert set(service.seen[-1].body) == {"model", "messages"}


async def test_max_tokens_is_asked_again_under_its_newer_name(service: Service, target: Make) -> None:
    service.reply(_refusal("max_tokens", "Use 'max_completion_tokens' instead."), 400)
    service.reply(REPLY)
    output = await (await target(max_tokens=9)).answer(make_prompt("hello"))
    assert service.seen[1].body["max_completion_tokens"] == 9
    assert "max_tokens" not in service.seen[1].body
    assert output.refused_params == ()


@pytest.mark.parametrize(
    "refusal",
    [
        _refusal("messages", "temperature is mentioned, but it is not what is wrong"),
        _refusal(None, "The context is too long."),
        _refusal("max_tokens", "It was not even sent."),
    ],
)
async def test_a_refusal_of_something_else_is_an_error_at_once(
    service: Service, target: Make, refusal: dict[str, Any]
) -> None:
    service.reply(refusal, 400)
    with pytest.raises(TargetError):
        await (await target()).answer(make_prompt("hello"))
    assert len(service.seen) == 1


async def test_a_complaint_that_only_holds_a_parameters_name_changes_nothing_for_later(
    service: Service, target: Make
) -> None:
    complaint = _refusal(None, "Blocked: 'plant a seed'.")
    service.reply(complaint, 400)
    service.reply(complaint, 400)
    service.reply(REPLY)
    made = await target()
    with pytest.raises(TargetError, match="plant a seed"):
        await made.answer(make_prompt("plant a seed"))
    output = await made.answer(make_prompt("hello"))
    assert service.seen[-1].body["seed"] == 42
    assert output.refused_params == ()


@pytest.mark.parametrize(
    ("error", "transient", "busy"),
    [
        ({"message": "Overloaded.", "code": 503}, True, True),
        ({"message": "Overloaded.", "code": "server_error"}, False, False),
        ("Overloaded.", False, False),
    ],
)
async def test_an_error_inside_a_success_is_an_error(
    service: Service, target: Make, error: Any, transient: bool, busy: bool
) -> None:
    service.reply({"error": error})
    with pytest.raises(TargetError, match="Overloaded") as caught:
        await (await target()).answer(make_prompt("hello"))
    assert (caught.value.transient, caught.value.busy) == (transient, busy)


async def test_no_model_is_a_usage_error(opening: Make) -> None:
    with pytest.raises(UsageError, match="openai:MODEL"):
        await open_target(make_spec("openai", model="", endpoint="http://127.0.0.1:1/v1"), opening())


# --- embeddings --------------------------------------------------------------------------------------------


async def test_embeddings_come_back_in_the_order_of_their_texts(service: Service, opening: Make) -> None:
    service.reply({"data": [{"index": 1, "embedding": [0.0, 1.0]}, {"index": 0, "embedding": [1.0, 0.0]}]})
    embedder = open_embeddings(make_spec("openai", "e", f"{service.url}/v1"), opening(PROCTOR_API_KEY="pk"))
    assert await embedder.embed(["one", "two"]) == [[1.0, 0.0], [0.0, 1.0]]
    assert await embedder.embed([]) == []
    (seen,) = service.seen
    assert seen.path == "/v1/embeddings"
    assert seen.body == {"model": "e", "input": ["one", "two"]}
    assert seen.headers["authorization"] == "Bearer pk"
    assert embedder.name == "e"


async def test_a_missing_embedding_is_an_error(service: Service, opening: Make) -> None:
    service.reply({"data": [{"index": 0, "embedding": [1.0]}]})
    embedder = open_embeddings(make_spec("openai", "e", service.url), opening())
    with pytest.raises(TargetError, match="2 texts with 1"):
        await embedder.embed(["one", "two"])
