"""What each kind of service is sent: address, key and body, field by field."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from proctor.errors import TargetError, UsageError
from proctor.model import Message, Tool, ToolCall
from proctor.targets import TARGETS
from proctor.targets.api.openai.azure import DEFAULT_API_VERSION
from support.apis import API_KINDS, KEY, Api, make_reply
from support.builders import make_prompt, make_spec

Make = Callable[..., Any]

KEY_HEADERS = {
    "openai": "authorization",
    "azure": "api-key",
    "anthropic": "x-api-key",
    "google": "x-goog-api-key",
}
OBJECT = {"type": "object"}
PLACE = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = (Tool(name="weather", description="The weather of a city.", parameters=PLACE), Tool(name="stop"))


def text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


# --- the whole request -------------------------------------------------------------------------------------

REQUESTS = {
    "openai": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "one", "name": "ann"},
            {"role": "user", "content": "two"},
            {"role": "assistant", "content": "yes"},
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "three"},
        ],
        "temperature": 0.0,
        "seed": 45,
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 4096,
        "temperature": 0.0,
        "system": "Be brief.\n\nBe kind.",
        "messages": [
            {"role": "user", "content": [text("one"), text("two")]},
            {"role": "assistant", "content": [text("yes")]},
            {"role": "user", "content": [text("three")]},
        ],
    },
    "google": {
        "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "one"}]},
            {"role": "user", "parts": [{"text": "two"}]},
            {"role": "model", "parts": [{"text": "yes"}]},
            {"role": "user", "parts": [{"text": "three"}]},
        ],
        "generationConfig": {"temperature": 0.0, "seed": 45},
    },
}


@pytest.mark.parametrize("kind", REQUESTS)
async def test_the_request_has_the_documented_form(api: Api, kind: str) -> None:
    api.reply(make_reply(kind))
    turns = [("system", "Be brief."), Message(role="user", content="one", name="ann"), "two"]
    await api.ask(kind, *turns, ("assistant", "yes"), ("system", "Be kind."), "three", repeat=3)
    (request,) = api.requests
    assert (request.method, request.headers["content-type"]) == ("POST", "application/json")
    assert request.headers.get("anthropic-version") == ("2023-06-01" if kind == "anthropic" else None)
    assert request.body == REQUESTS[kind]


@pytest.mark.parametrize(
    ("kind", "where", "name"),
    [
        ("openai", lambda body: body, "max_tokens"),
        ("azure", lambda body: body, "max_tokens"),
        ("anthropic", lambda body: body, "max_tokens"),
        ("google", lambda body: body["generationConfig"], "maxOutputTokens"),
    ],
)
async def test_parameters_are_the_targets_and_a_prompts_own_temperature_counts_more(
    api: Api, kind: str, where: Any, name: str
) -> None:
    api.reply(make_reply(kind))
    options = {"temperature": 0.25, "max_tokens": 7}
    await api.ask(kind, target_options=options)
    assert (where(api.body)["temperature"], where(api.body)[name]) == (0.25, 7)
    await api.ask(kind, target_options=options, temperature=0.9)
    assert where(api.body)["temperature"] == 0.9


async def test_parameters_that_are_none_and_a_key_that_is_not_set_are_left_out(api: Api) -> None:
    api.reply(make_reply("openai"))
    await api.ask("openai", "", target_options={"temperature": None, "seed": None, "environ": {}})
    assert api.body == {"model": "m", "messages": [{"role": "user", "content": ""}]}
    assert "authorization" not in api.requests[0].headers


AZURE = "/openai/deployments/m/chat/completions?api-version="


@pytest.mark.parametrize(
    ("kind", "options", "path"),
    [
        ("openai", {"at": "/v1"}, "/v1/chat/completions"),
        ("openai", {"at": "/v1/"}, "/v1/chat/completions"),
        ("anthropic", {}, "/v1/messages"),
        ("anthropic", {"at": "/v1"}, "/v1/messages"),
        ("google", {}, "/v1beta/models/m:generateContent"),
        ("google", {"at": "/v1beta/"}, "/v1beta/models/m:generateContent"),
        ("google", {"model": "../x?y=é#z"}, "/v1beta/models/..%2Fx%3Fy%3D%C3%A9%23z:generateContent"),
        ("azure", {}, AZURE + DEFAULT_API_VERSION),
        ("azure", {"at": "/openai/"}, AZURE + DEFAULT_API_VERSION),
        ("azure", {"at": "/", "options": {"api_version": "1"}}, f"{AZURE}1"),
        (
            "azure",
            {"model": "a/b?c", "options": {"api_version": "1&x=2"}},
            "/openai/deployments/a%2Fb%3Fc/chat/completions?api-version=1%26x%3D2",
        ),
    ],
)
async def test_a_model_is_asked_under_its_address_and_no_name_leads_to_another(
    api: Api, kind: str, options: dict[str, Any], path: str
) -> None:
    api.reply(make_reply(kind))
    assert (await api.ask(kind, target_options=options)).text == "4"
    assert api.requests[0].path == path


@pytest.mark.parametrize("kind", API_KINDS)
async def test_no_model_is_a_usage_error(api: Api, kind: str) -> None:
    with pytest.raises(UsageError, match=f"names no model. Write {kind}:MODEL"):
        await api.open(kind, model="")


# --- keys --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", API_KINDS)
async def test_a_target_gets_the_key_that_it_names_or_that_of_unknown_servers_and_no_other(
    api: Api, kind: str
) -> None:
    api.reply(make_reply(kind))
    environ = {"MINE": "the-key", "OPENAI_API_KEY": "theirs", "AZURE_OPENAI_API_KEY": "theirs"}
    for options, variables, key in (
        ({"api_key": "${{ MINE }}"}, {"PROCTOR_API_KEY": "other"}, "the-key"),
        ({}, {"PROCTOR_API_KEY": "other"}, "other"),
        ({}, {}, None),
    ):
        await api.ask(kind, target_options={"environ": environ | variables, "options": options})
        headers = api.requests[-1].headers
        keys = {name: headers[name] for name in KEY_HEADERS.values() if name in headers}
        assert keys == ({KEY_HEADERS[kind]: f"Bearer {key}" if kind == "openai" else key} if key else {})
    with pytest.raises(UsageError, match="NOT_SET is not set"):
        await api.open(kind, environ=environ, options={"api_key": "${{ NOT_SET }}"})


@pytest.mark.parametrize("kind", API_KINDS)
@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_a_target_names_is_removed_from_errors(api: Api, kind: str, status: int) -> None:
    api.reply({"error": {"message": "wrong key the-key"}}, status)
    options = {"api_key": "${{ MINE }}"}
    error = await api.fail(kind, environ={"MINE": "the-key"}, options=options)
    assert "wrong key [key]" in str(error)
    assert "the-key" not in str(error)
    assert b"the-key" not in msgspec.json.encode(make_spec(kind, options=options))


@pytest.mark.parametrize("kind", API_KINDS)
async def test_an_answer_that_echoes_the_key_is_given_without_it(api: Api, kind: str) -> None:
    call = ToolCall(name="f", arguments={"k": KEY}, id=KEY)
    api.reply(make_reply(kind, f"key {KEY}", call, model=KEY))
    output = await api.ask(kind)
    assert KEY in str(api.requests[0].headers)
    assert (output.text, output.model) == ("key [key]", "[key]")
    assert output.tool_calls[0].arguments == {"k": "[key]"}
    assert KEY not in str(output)


@pytest.mark.parametrize(
    ("kind", "endpoint", "variable", "message"),
    [
        ("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_API_KEY"),
        ("anthropic", None, "ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"),
        ("google", None, "GEMINI_API_KEY", "GEMINI_API_KEY"),
        ("google", None, "GOOGLE_API_KEY", "GEMINI_API_KEY"),
        ("azure", "https://x.openai.azure.com", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_API_KEY is not set"),
        ("azure", "https://x.services.ai.azure.com", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_API_KEY is"),
    ],
)
async def test_the_service_itself_needs_its_key(
    opening: Make, kind: str, endpoint: str | None, variable: str, message: str
) -> None:
    spec = make_spec(kind, endpoint=endpoint)
    await TARGETS.get(kind).open_target(spec, opening(**{variable: "k"}))
    with pytest.raises(UsageError, match=message):
        await TARGETS.get(kind).open_target(spec, opening(GROQ_API_KEY="sk-q"))


# --- system prompts, tools and forms -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "system"),
    [
        ("openai", lambda body: [part["content"] for part in body["messages"] if part["role"] == "system"]),
        ("anthropic", lambda body: body["system"].split("\n\n")),
        ("google", lambda body: [part["text"] for part in body["systemInstruction"]["parts"]]),
    ],
)
async def test_a_targets_system_prompt_comes_before_that_of_the_case(
    api: Api, kind: str, system: Any
) -> None:
    api.reply(make_reply(kind))
    options = {"options": {"system_prompt": "You are ${{ WHO }}."}, "environ": {"WHO": "Ada"}}
    await api.ask(kind, ("system", "Be brief."), "hello", target_options=options)
    assert system(api.body) == ["You are Ada.", "Be brief."]
    with pytest.raises(UsageError, match="NOBODY"):
        await api.open(kind, options={"system_prompt": "${{ NOBODY }}"})


FUNCTIONS = [
    {
        "type": "function",
        "function": {"name": "weather", "description": "The weather of a city.", "parameters": PLACE},
    },
    {"type": "function", "function": {"name": "stop"}},
]
TOOL_FIELDS: dict[str, list[Any]] = {
    "openai": FUNCTIONS,
    "azure": FUNCTIONS,
    "anthropic": [
        {"name": "weather", "description": "The weather of a city.", "input_schema": PLACE},
        {"name": "stop", "input_schema": OBJECT},
    ],
    "google": [
        {
            "functionDeclarations": [
                {"name": "weather", "description": "The weather of a city.", "parametersJsonSchema": PLACE},
                {"name": "stop", "description": "stop"},
            ]
        }
    ],
}


@pytest.mark.parametrize("kind", TOOL_FIELDS)
async def test_tools_are_described_and_a_call_of_one_is_an_answer_without_text(api: Api, kind: str) -> None:
    call = ToolCall(name="weather", arguments={"city": "Oslo"}, id=None if kind == "google" else "c1")
    api.reply(make_reply(kind, "", call))
    output = await api.ask(kind, tools=TOOLS, target_options={"seed": None})
    assert api.body["tools"] == TOOL_FIELDS[kind]
    assert "tool_choice" not in api.body
    assert (output.text, output.tool_calls, output.refused_params) == ("", (call,), ())


CALLED = {
    "openai": [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
                },
                {"id": "time", "type": "function", "function": {"name": "time", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "content": "rain", "tool_call_id": "c1"},
        {"role": "tool", "content": "noon", "tool_call_id": "time"},
        {"role": "user", "content": "and?"},
    ],
    "anthropic": [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}},
                {"type": "tool_use", "id": "time", "name": "time", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "rain"},
                {"type": "tool_result", "tool_use_id": "time", "content": "noon"},
                text("and?"),
            ],
        },
    ],
    "google": [
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}},
                {"functionCall": {"name": "time", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "weather", "response": {"result": "rain"}}},
                {"functionResponse": {"name": "time", "response": {"result": "noon"}}},
            ],
        },
        {"role": "user", "parts": [{"text": "and?"}]},
    ],
}


@pytest.mark.parametrize("kind", CALLED)
async def test_tool_calls_and_their_results_are_sent_with_matching_ids(api: Api, kind: str) -> None:
    api.reply(make_reply(kind))
    calls = (ToolCall(name="weather", arguments={"city": "Oslo"}, id="c1"), ToolCall(name="time"))
    results_by_tool = {"weather": "rain", "time": "noon"}.items()
    results = [Message(role="tool", name=name, content=content) for name, content in results_by_tool]
    await api.ask(kind, "hello", Message(role="assistant", tool_calls=calls), *results, "and?")
    assert api.body["contents" if kind == "google" else "messages"][1:] == CALLED[kind]


USUAL = {"temperature": 0.0, "seed": 42}
JSON = {"json_answer": True}
SCHEMA, TOOLS_FIELD = {"response_schema": PLACE}, {"tools": TOOLS}
OBJECT_FORM = {"response_format": {"type": "json_object"}}
REFUSED_FORMAT = ("response_format",)


@pytest.mark.parametrize(
    ("kind", "fields", "body_fields", "refused_params"),
    [
        ("openai", JSON, OBJECT_FORM, ()),
        ("azure", JSON | TOOLS_FIELD, {**OBJECT_FORM, "tools": FUNCTIONS}, ()),
        ("google", JSON, {"generationConfig": {**USUAL, "responseMimeType": "application/json"}}, ()),
        (
            "google",
            SCHEMA,
            {
                "generationConfig": {
                    **USUAL,
                    "responseMimeType": "application/json",
                    "responseJsonSchema": PLACE,
                }
            },
            (),
        ),
        ("google", JSON | TOOLS_FIELD, {"generationConfig": USUAL}, REFUSED_FORMAT),
        ("google", SCHEMA | TOOLS_FIELD, {"generationConfig": USUAL}, REFUSED_FORMAT),
        ("anthropic", JSON, {"tools": None}, REFUSED_FORMAT),
        ("anthropic", JSON | TOOLS_FIELD, {"tools": TOOL_FIELDS["anthropic"]}, REFUSED_FORMAT),
        ("anthropic", SCHEMA | TOOLS_FIELD, {"tools": TOOL_FIELDS["anthropic"]}, REFUSED_FORMAT),
    ],
)
async def test_a_format_of_the_answer_is_requested_or_reported_as_not_applied(
    api: Api, kind: str, fields: dict[str, Any], body_fields: dict[str, Any], refused_params: tuple[str, ...]
) -> None:
    call = ToolCall(name="reply", id="c1")
    api.reply(make_reply(kind, "", call))
    output = await api.ask(kind, **fields, target_options={"seed": None if kind == "anthropic" else 42})
    assert {name: api.body.get(name) for name in body_fields} == body_fields
    assert output.refused_params == refused_params
    assert [call.name for call in output.tool_calls] == ["reply"]  # none of them is taken for the answer


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
        (OBJECT, False),
        ({}, True),
    ],
)
async def test_openai_gets_a_schema_and_strictly_where_it_allows_nothing_that_it_does_not_name(
    api: Api, schema: dict[str, Any], strict: bool
) -> None:
    api.reply(make_reply("openai"))
    await api.ask("openai", response_schema=schema, json_answer=True)
    json_schema = {"name": "reply", "strict": strict, "schema": schema}
    assert api.body["response_format"] == {"type": "json_schema", "json_schema": json_schema}


async def test_for_anthropic_a_schema_becomes_a_tool_whose_input_is_the_answer(api: Api) -> None:
    call = ToolCall(name="reply", arguments={"city": "Oslo"}, id="c1")
    api.reply(make_reply("anthropic", "So:", call))
    output = await api.ask("anthropic", response_schema=PLACE)
    assert api.body["tool_choice"] == {"type": "tool", "name": "reply"}
    assert [(tool["name"], tool["input_schema"]) for tool in api.body["tools"]] == [("reply", PLACE)]
    assert (json.loads(output.text), output.tool_calls) == ({"city": "Oslo"}, ())


# --- what a service refuses --------------------------------------------------------------------------------


def complaint(message: str, param: str | None = None) -> dict[str, Any]:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": "x"}
    return {"type": "error", "error": error}


@pytest.mark.parametrize(
    ("kind", "refusal", "fields", "parameter", "dropped_fields"),
    [
        ("openai", complaint("Only the default is supported.", "temperature"), {}, "temperature", ""),
        ("openai", complaint("'temperature' is not supported with this model."), {}, "temperature", ""),
        (
            "openai",
            {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
            {},
            "seed",
            "",
        ),
        (
            "openai",
            complaint("Not here.", "response_format.type"),
            SCHEMA | TOOLS_FIELD,
            "response_format",
            "",
        ),
        ("openai", complaint("Not here.", "tools"), SCHEMA | TOOLS_FIELD, "tools", ""),
        ("openai", complaint("library/m:latest does not support tools"), TOOLS_FIELD, "tools", ""),
        ("anthropic", complaint("`temperature` is deprecated for this model."), SCHEMA, "temperature", ""),
        ("anthropic", complaint("tools: not supported for this model."), TOOLS_FIELD, "tools", ""),
        ("google", complaint('Unknown name "seed" at generation_config'), {}, "seed", ""),
        (
            "google",
            complaint('Unknown name "responseJsonSchema" at generation_config'),
            SCHEMA,
            "response_format",
            "responseJsonSchema responseMimeType",
        ),
        (
            "google",
            complaint("JSON mode is not enabled for models/m"),
            {"json_answer": True},
            "response_format",
            "responseMimeType",
        ),
        ("google", complaint("Function calling is not enabled for models/m"), TOOLS_FIELD, "tools", ""),
        ("google", complaint('Unknown name "x" at tools[0]: Cannot find field.'), TOOLS_FIELD, "tools", ""),
    ],
)
async def test_a_refused_parameter_is_dropped_remembered_and_told(
    api: Api, kind: str, refusal: dict[str, Any], fields: dict[str, Any], parameter: str, dropped_fields: str
) -> None:
    api.reply(refusal, 400)
    api.reply(make_reply(kind))
    target = await api.open(kind, seed=None if kind == "anthropic" else 42)
    for _ in range(2):
        assert (await target.answer(make_prompt("hello", **fields))).refused_params == (parameter,)
    first, *later = ({*request.body, *request.body.get("generationConfig", ())} for request in api.requests)
    assert first >= set((dropped_fields or parameter).split())
    assert later == [first - set((dropped_fields or parameter).split())] * 2
    last = await target.answer(make_prompt("hello"))
    assert last.refused_params == (() if parameter in {"response_format", "tools"} else (parameter,))


async def test_several_refused_parameters_are_dropped_one_after_the_other(api: Api) -> None:
    api.reply(complaint("No.", "temperature"), 400)
    api.reply(complaint("No.", "seed"), 422)
    api.reply(make_reply("openai"))
    assert (await api.ask("openai")).refused_params == ("temperature", "seed")
    assert set(api.body) == {"model", "messages"}


async def test_max_tokens_is_asked_again_under_its_newer_name(api: Api) -> None:
    api.reply(complaint("Use 'max_completion_tokens' instead.", "max_tokens"), 400)
    api.reply(make_reply("openai"))
    output = await api.ask("openai", target_options={"max_tokens": 9})
    assert api.body["max_completion_tokens"] == 9
    assert "max_tokens" not in api.body
    assert output.refused_params == ()


@pytest.mark.parametrize(
    "refusal",
    [
        complaint("temperature is mentioned, but it is not what is wrong", "messages"),
        complaint("The context is too long."),
        complaint("It was not even sent.", "max_tokens"),
    ],
)
async def test_a_refusal_of_something_else_is_an_error_at_once(api: Api, refusal: dict[str, Any]) -> None:
    api.reply(refusal, 400)
    await api.fail()
    assert len(api.requests) == 1


async def test_a_complaint_that_only_holds_a_parameters_name_changes_nothing_for_later(api: Api) -> None:
    for _ in range(2):
        api.reply(complaint("Blocked: 'plant a seed'."), 400)
    api.reply(make_reply("openai"))
    target = await api.open()
    with pytest.raises(TargetError, match="plant a seed"):
        await target.answer(make_prompt("plant a seed"))
    assert (await target.answer(make_prompt("hello"))).refused_params == ()
    assert api.body["seed"] == 42


@pytest.mark.parametrize(("kind", "field"), [("openai", "stop"), ("anthropic", "stop_sequences")])
async def test_a_single_text_at_which_an_answer_to_a_case_ends_is_sent_as_a_list(
    api: Api, kind: str, field: str
) -> None:
    api.reply(make_reply(kind))
    await api.ask(kind, params={"stop": "END"})
    assert api.body[field] == ["END"]
