"""OpenAI's Responses API: each field of a request, what a reply becomes, and streams."""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from proctor.errors import TargetError, UsageError
from proctor.model import Attachment, Message, Output, Params, TokenLogprob, Tool, ToolCall, Usage
from proctor.pricing import UNREADABLE_USAGE
from proctor.targets import check_params_taken, get_kind
from proctor.targets.api.event_stream import EventParser
from proctor.targets.api.openai.responses import ResponsesStream, ResponsesTarget
from support.apis import KEY, Api
from support.builders import make_prompt, make_spec

RESPONSES: dict[str, Any] = {"api_format": "responses"}
PLAIN: dict[str, Any] = {**RESPONSES, "temperature": None, "seed": None}
PLACE = {"type": "object", "properties": {"city": {"type": "string"}}}
STRICT = {**PLACE, "required": ["city"], "additionalProperties": False}
PNG = b"\x89PNG\r\n\x1a\n"


def make_response(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A response with its items, or with one message, as OpenAI sends it."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1764000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "m-2026-01-01",
        "output": list(items) or [make_message("Four.")],
        "service_tier": "default",
        "store": False,
        "usage": {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 4},
            "output_tokens": 30,
            "output_tokens_details": {"reasoning_tokens": 20},
            "total_tokens": 42,
        },
        **fields,
    }


def make_message(text: str, **fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": [part], **fields}


def make_events(response: dict[str, Any], end: str = "response.completed") -> list[dict[str, Any]]:
    """The events that stream a response, with each text in pieces."""
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
    ]
    for index, item in enumerate(response["output"]):
        where = {"output_index": index, "item_id": item.get("id", "")}
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        for kind, parts in (
            ("output_text", item.get("content")),
            ("reasoning_summary_text", item.get("summary")),
        ):
            for part in parts or []:
                events.extend({"type": f"response.{kind}.delta", "delta": c, **where} for c in part["text"])
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return [*events, {"type": end, "response": response}]


def make_stream(events: list[dict[str, Any]]) -> bytes:
    return b"".join(f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def stream_reply(api: Api, events: list[dict[str, Any]]) -> None:
    api.reply(make_stream(events), Content_Type="text/event-stream; charset=utf-8")


async def ask(api: Api, *turns: Any, options: Any = None, **fields: Any) -> Output:
    """The answer to a prompt over the Responses API."""
    return await api.ask("openai", *turns, target_options={**PLAIN, **(options or {})}, **fields)


# --- requests ----------------------------------------------------------------------------------------------


async def test_a_conversation_becomes_items_with_the_roles_that_it_has(api: Api) -> None:
    api.reply(make_response())
    call = ToolCall(name="weather", arguments={"city": "Oslo"}, id="call_7")
    turns = [
        ("system", "Be brief."),
        ("developer", "Be kind."),
        Message(role="user", content="one", name="ann"),
        Message(role="assistant", content="I look.", tool_calls=(call,)),
        Message(role="tool", name="weather", content="rain"),
        Message(role="assistant", tool_calls=(ToolCall(name="now"),)),
        Message(role="tool", name="now", content="12:00"),
        ("user", "two"),
    ]
    await ask(api, *turns, options={"at": "/v1/"})
    (request,) = api.requests
    assert (request.method, request.path) == ("POST", "/v1/responses")
    assert request.headers["authorization"].startswith("Bearer ")
    assert request.body == {
        "model": "m",
        "store": False,
        "input": [
            {"type": "message", "role": "system", "content": "Be brief."},
            {"type": "message", "role": "developer", "content": "Be kind."},
            {"type": "message", "role": "user", "content": "one"},
            {"type": "message", "role": "assistant", "content": "I look."},
            {
                "type": "function_call",
                "call_id": "call_7",
                "name": "weather",
                "arguments": '{"city":"Oslo"}',
            },
            {"type": "function_call_output", "call_id": "call_7", "output": "rain"},
            {"type": "function_call", "call_id": "now", "name": "now", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "now", "output": "12:00"},
            {"type": "message", "role": "user", "content": "two"},
        ],
    }


@pytest.mark.parametrize(("service", "role"), [("openai", "developer"), ("llamacpp", "system")])
async def test_a_developer_is_the_system_where_that_role_is_unknown(
    api: Api, service: str, role: str
) -> None:
    api.reply(make_response())
    await ask(api, ("developer", "Be brief."), "one", options={"options": {"service": service}})
    assert [item["role"] for item in api.body["input"]] == [role, "user"]


async def test_files_are_sent_by_what_they_are_and_an_assistants_are_only_named(api: Api) -> None:
    api.reply(make_response())
    image = Attachment(kind="image", path="a.png", media_type="image/png", data=PNG)
    pdf = Attachment(kind="file", path="b.pdf", media_type="application/pdf", data=b"%PDF")
    note = Attachment(kind="file", path="c.txt", text="hm")
    await ask(
        api,
        Message(role="user", parts=("Look:", image, pdf, note)),
        Message(role="assistant", parts=("Here:", image)),
    )
    user, assistant = api.body["input"]
    assert user["content"] == [
        {"type": "input_text", "text": "Look:"},
        {
            "type": "input_image",
            "image_url": f"data:image/png;base64,{b64encode(PNG).decode()}",
            "detail": "auto",
        },
        {"type": "input_file", "filename": "b.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
        {"type": "input_text", "text": '<file path="c.txt">\nhm\n</file>'},
    ]
    assert assistant["content"] == 'Here:\n\n<image: path="a.png">'


async def test_every_parameter_has_its_field(api: Api) -> None:
    api.reply(make_response())
    options = {
        "temperature": 0.5,
        "max_tokens": 100,
        "top_p": 0.9,
        "reasoning_effort": "low",
        "verbosity": "high",
        "service_tier": "flex",
        "logprobs": 3,
        "extra_body": {"truncation": "auto", "store": True},
        "headers": {"X-Team": "a"},
    }
    await ask(api, options=options)
    assert api.requests[0].headers["x-team"] == "a"
    assert {name: value for name, value in api.body.items() if name not in {"model", "input"}} == {
        "store": True,
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 100,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "high"},
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 3,
        "service_tier": "flex",
        "truncation": "auto",
    }


async def test_a_cases_own_parameters_count_more(api: Api) -> None:
    api.reply(make_response())
    params = {"reasoning_effort": "none", "logprobs": 0, "max_tokens": 20, "extra_body": {"user": "u"}}
    await ask(api, options={"reasoning_effort": "high", "temperature": 1.0}, params=params, temperature=0.0)
    assert api.body["reasoning"] == {"effort": "none"}
    assert (api.body["temperature"], api.body["max_output_tokens"], api.body["user"]) == (0.0, 20, "u")
    assert api.body["include"] == ["message.output_text.logprobs"]
    assert "top_logprobs" not in api.body


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"json_answer": True}, {"format": {"type": "json_object"}}),
        (
            {"response_schema": STRICT},
            {"format": {"type": "json_schema", "name": "reply", "strict": True, "schema": STRICT}},
        ),
        (
            {"response_schema": PLACE, "params": {"verbosity": "low"}},
            {
                "format": {"type": "json_schema", "name": "reply", "strict": False, "schema": PLACE},
                "verbosity": "low",
            },
        ),
    ],
)
async def test_the_form_of_the_answer_is_under_text(api: Api, form: Any, text: Any) -> None:
    api.reply(make_response())
    await ask(api, **form)
    assert api.body["text"] == text


async def test_tools_are_flat_and_strict_only_if_their_schema_allows_it(api: Api) -> None:
    api.reply(make_response())
    tools = (
        Tool(name="a", description="A.", parameters=STRICT),
        Tool(name="b", parameters=PLACE),
        Tool(name="c"),
    )
    await ask(api, tools=tools)
    assert api.body["tools"] == [
        {"type": "function", "name": "a", "description": "A.", "parameters": STRICT, "strict": True},
        {"type": "function", "name": "b", "parameters": PLACE, "strict": False},
        {
            "type": "function",
            "name": "c",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
    ]


@pytest.mark.parametrize(
    ("param", "message", "name"),
    [
        ("temperature", "Unsupported parameter: 'temperature'.", "temperature"),
        (
            "reasoning.summary",
            "Your organization must be verified to generate summaries.",
            "reasoning_summary",
        ),
        ("text.format", "Not supported with this model.", "response_format"),
        ("tools", "Not supported with this model.", "tools"),
        (None, "Unknown parameters: store", "store"),
    ],
)
async def test_what_a_service_refuses_is_left_out_and_reported(
    api: Api, param: str | None, message: str, name: str
) -> None:
    api.reply({"error": {"message": message, "param": param, "code": "unsupported_parameter"}}, 400)
    api.reply(make_response())
    options = {"temperature": 0.0, "seed": 42, "reasoning_effort": "low"}
    output = await ask(api, options=options, json_answer=True, tools=(Tool(name="a", parameters=STRICT),))
    assert sorted(output.refused_params) == sorted({"seed", name})
    fields = {
        "temperature": "temperature" in api.body,
        "reasoning_summary": "summary" in api.body["reasoning"],
        "response_format": "text" in api.body,
        "tools": "tools" in api.body,
        "store": "store" in api.body,
    }
    assert [field for field, is_sent in fields.items() if not is_sent] == [name]


async def test_a_strict_tool_that_the_service_refuses_is_sent_again_unstrict(api: Api) -> None:
    api.reply({"error": {"message": "Invalid schema.", "param": "tools[0].parameters"}}, 400)
    api.reply(make_response())
    output = await ask(api, tools=(Tool(name="a", parameters=STRICT),))
    assert [tool["strict"] for tool in api.body["tools"]] == [False]
    assert output.refused_params == ()


@pytest.mark.parametrize(
    ("at", "options", "path"),
    [
        ("", {}, "/openai/v1/responses"),
        ("/openai/v1/", {}, "/openai/v1/responses"),
        ("/openai", {"api_version": "preview"}, "/openai/v1/responses?api-version=preview"),
        ("", {"api_version": "2025-03-01-preview"}, "/openai/responses?api-version=2025-03-01-preview"),
        ("", {"api_version": "a&b=c"}, "/openai/v1/responses?api-version=a%26b%3Dc"),
    ],
)
async def test_azure_has_the_deployment_in_the_body(api: Api, at: str, options: Any, path: str) -> None:
    api.reply(make_response())
    output = await api.ask("azure", target_options={**PLAIN, "at": at, "options": options, "model": "a/b"})
    (request,) = api.requests
    assert (output.text, request.path, request.body["model"]) == ("Four.", path, "a/b")
    assert "api-key" in request.headers
    assert "authorization" not in request.headers


@pytest.mark.parametrize("name", ["stop", "presence_penalty", "top_k", "prompt_cache"])
def test_what_the_interface_lacks_is_an_error_before_the_first_call(name: str) -> None:
    value = {"stop": ("END",), "top_k": 3, "presence_penalty": 1.0, "prompt_cache": True}[name]
    with pytest.raises(UsageError, match=f"do not accept `{name}`. Remove it"):
        check_params_taken(make_spec("openai", **{name: value, **RESPONSES}))


def test_over_the_interface_a_kind_takes_what_both_take_and_no_audio() -> None:
    kind = get_kind(make_spec("openai"))
    assert kind.with_format("chat") is kind
    over_responses = replace(kind, params=frozenset({"stop", "top_p", "api_format"})).with_format("responses")
    assert over_responses.all_params == {"top_p", "api_format", "extra_body", "headers"}
    assert kind.takes("audio", "audio/wav")
    assert not over_responses.takes("audio", "audio/wav")
    assert over_responses.takes("image", "image/png")
    assert "with `api_format: responses` do not accept `stop`" in over_responses.describe_refusal("stop")


async def test_audio_that_reaches_it_all_the_same_is_refused(api: Api) -> None:
    audio = Attachment(kind="audio", path="a.wav", media_type="audio/wav", data=b"RIFF")
    with pytest.raises(TargetError, match="the Responses API does not accept") as caught:
        await ask(api, Message(role="user", parts=(audio,)))
    assert (caught.value.kind, api.requests) == ("refused", [])


async def test_a_case_cannot_set_what_the_interface_lacks(api: Api) -> None:
    with pytest.raises(TargetError, match="cannot be sent: There is no parameter 'stop'") as caught:
        await ask(api, params={"stop": ("END",)})
    assert (caught.value.kind, api.requests) == ("unsupported", [])


# --- replies -----------------------------------------------------------------------------------------------


async def test_a_reply_becomes_an_output(api: Api) -> None:
    reasoning = {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Two"}, {"type": "summary_text", "text": "and two."}],
        "encrypted_content": "gAAA",
    }
    top = [{"token": "Four", "bytes": [70], "logprob": -0.1}, {"token": "4", "bytes": [52], "logprob": -2.5}]
    logprob = {"token": "Four", "bytes": [70], "logprob": -0.1, "top_logprobs": top}
    message = make_message("Four.")
    message["content"][0]["logprobs"] = [logprob]
    api.reply(make_response(reasoning, message, service_tier="flex"), x_request_id="req_1")
    output = await ask(api, options={"seed": 42})
    assert 0 < output.latency_ms < 5000
    assert replace(output, latency_ms=0.0) == Output(
        text="Four.",
        usage=Usage(
            input_tokens=12, output_tokens=30, cached_tokens=5, cache_write_tokens=4, reasoning_tokens=20
        ),
        model="m-2026-01-01",
        finish_reason="stop",
        refused_params=("seed",),
        reasoning="Two\n\nand two.",
        logprobs=(TokenLogprob(token="Four", logprob=-0.1, top=(("Four", -0.1), ("4", -2.5))),),
        response_id="resp_1",
        request_id="req_1",
        service_tier="flex",
    )


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (None, None),
        ({"input_tokens": 3, "output_tokens": 4}, Usage(input_tokens=3, output_tokens=4)),
        (
            {
                "input_tokens": 32,
                "output_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 110},
                "total_tokens": 151,
            },
            Usage(input_tokens=32, output_tokens=119, reasoning_tokens=110),
        ),
        ({"input_tokens": 3, "input_tokens_details": "x"}, UNREADABLE_USAGE),
        ("x", UNREADABLE_USAGE),
    ],
)
async def test_token_counts_are_read_in_each_services_way(api: Api, counts: Any, usage: Usage | None) -> None:
    api.reply(make_response(usage=counts))
    assert (await ask(api)).usage == usage


@pytest.mark.parametrize(
    ("items", "text", "reasoning"),
    [
        ([{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}], "No.", None),
        ([{"type": "message", "content": "plain"}], "plain", None),
        ([{"type": "message", "content": None}, {"type": "web_search_call", "content": 3}], "", None),
        ([make_message("a"), make_message("b")], "a\n\nb", None),
        (
            [make_message("I look.", phase="commentary"), make_message("4", phase="final_answer")],
            "4",
            "I look.",
        ),
        ([make_message("I look.", phase="commentary")], "I look.", None),
        (
            [
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
                make_message("4"),
            ],
            "4",
            "hm",
        ),
    ],
)
async def test_texts_are_told_from_reasoning(api: Api, items: Any, text: str, reasoning: str | None) -> None:
    api.reply(make_response(*items))
    output = await ask(api)
    assert (output.text, output.reasoning) == (text, reasoning)


@pytest.mark.parametrize(("service", "cost"), [("openrouter", 0.25), ("openai", None)])
async def test_a_service_that_reports_costs_is_believed_over_both_interfaces(
    api: Api, service: str, cost: float | None
) -> None:
    api.reply(make_response(usage={"input_tokens": 3, "output_tokens": 4, "cost": 0.25}))
    output = await ask(api, options={"options": {"service": service}})
    assert output.cost_usd == cost


async def test_a_blocked_prompt_is_told_without_the_key(api: Api) -> None:
    error = {"code": "invalid_prompt", "message": f"Your key {KEY} wrote against policy."}
    api.reply(make_response(status="failed", error=error, output=[]))
    with pytest.raises(TargetError, match="blocked the prompt") as caught:
        await ask(api)
    assert "against policy" in str(caught.value)
    assert KEY not in str(caught.value)


async def test_an_older_server_s_reply_without_anything_optional_is_read(api: Api) -> None:
    api.reply({"output": [{"type": "message", "content": [{"type": "output_text", "text": "4"}]}]})
    output = await ask(api)
    assert replace(output, latency_ms=0.0) == Output(text="4", finish_reason="stop")


@pytest.mark.parametrize(
    ("item", "call", "finish_reason"),
    [
        (
            {"type": "function_call", "name": "f", "arguments": '{"a": 1}', "call_id": "c", "id": "fc"},
            ToolCall(name="f", arguments={"a": 1}, id="c"),
            "tool_calls",
        ),
        (
            {"type": "function_call", "name": "f", "arguments": '{"a"', "call_id": "c"},
            ToolCall(name="f", arguments={"arguments": '{"a"'}, id="c"),
            "tool_calls",
        ),
        (
            {"type": "custom_tool_call", "name": "sql", "input": "SELECT 1", "call_id": "c"},
            ToolCall(name="sql", arguments={"input": "SELECT 1"}, id="c"),
            "tool_calls",
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "roll", "arguments": "{}", "output": "4"},
            ToolCall(name="roll", output="4"),
            "stop",
        ),
    ],
)
async def test_calls_of_tools_are_read(api: Api, item: Any, call: ToolCall, finish_reason: str) -> None:
    api.reply(make_response(item))
    output = await ask(api)
    assert (output.tool_calls, output.finish_reason) == ((call,), finish_reason)


async def test_images_in_an_answer_are_attachments(api: Api) -> None:
    image = {"type": "image_generation_call", "status": "completed", "result": b64encode(PNG).decode()}
    failed = {"type": "image_generation_call", "status": "failed", "result": None}
    api.reply(make_response(image, failed, {**image, "output_format": "webp"}))
    api.reply(make_response({**image, "result": "no Base64!"}))
    assert (await ask(api)).attachments == (
        Attachment(kind="image", path="answer-1.png", media_type="image/png", data=PNG),
        Attachment(kind="image", path="answer-2.webp", media_type="image/webp", data=PNG),
    )
    with pytest.raises(TargetError, match="not Base64"):
        await ask(api)


@pytest.mark.parametrize(
    ("details", "finish_reason"),
    [
        ({"reason": "max_output_tokens"}, "length"),
        ({"reason": "content_filter"}, "content_filter"),
        ({"reason": None}, "incomplete"),
        (None, "incomplete"),
    ],
)
async def test_an_incomplete_answer_says_why_in_the_words_of_chat(
    api: Api, details: Any, finish_reason: str
) -> None:
    api.reply(make_response(status="incomplete", incomplete_details=details))
    output = await ask(api)
    assert (output.text, output.finish_reason) == ("Four.", finish_reason)


@pytest.mark.parametrize(("max_tokens", "finish_reason"), [(30, "length"), (31, "stop"), (None, "stop")])
async def test_an_answer_at_its_limit_counts_as_cut_whatever_the_server_calls_it(
    api: Api, max_tokens: int | None, finish_reason: str
) -> None:
    api.reply(make_response())
    assert (await ask(api, options={"max_tokens": max_tokens})).finish_reason == finish_reason


async def test_log_probabilities_that_a_server_does_not_send_are_reported(api: Api) -> None:
    api.reply(make_response())
    assert (await ask(api, options={"logprobs": 0})).refused_params == ("logprobs",)
    api.reply(make_response(status="incomplete", output=[]))
    await ask(api, options={"logprobs": 0})
    assert (await ask(api, options={"logprobs": 0})).refused_params == ()


FAILURES = [
    ({"code": "server_error", "message": "Overloaded."}, "Overloaded", (True, False), "http"),
    ({"code": "rate_limit_exceeded", "message": "Slow."}, "Slow", (True, True), "http"),
    (
        {"code": "invalid_prompt", "message": "Against policy."},
        "blocked the prompt",
        (False, False),
        "refused",
    ),
    ({"code": "image_parse_error", "message": "No image."}, "No image", (False, False), "http"),
    ({"code": 503, "message": "Busy."}, "Busy", (True, True), "http"),
    ("Odd.", "Odd", (False, False), "http"),
]


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(("error", "text", "how", "kind"), FAILURES)
async def test_a_failed_response_is_an_error_of_the_target(
    api: Api, error: Any, text: str, how: tuple[bool, bool], kind: str, is_streamed: bool
) -> None:
    response = make_response(status="failed", error=error, output=[], usage=None)
    if is_streamed:
        stream_reply(api, make_events(response, "response.failed"))
    else:
        api.reply(response)
    with pytest.raises(TargetError, match=text) as caught:
        await ask(api, options={"stream": is_streamed})
    assert (caught.value.transient, caught.value.busy) == how
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ({"status": "queued", "output": []}, "status 'queued'. Remove `background`"),
        ({"status": "cancelled", "output": []}, "status 'cancelled'"),
        ({"choices": []}, "has no output"),
        ({"output": [{"content": "no type"}]}, "did not answer with the expected JSON"),
        (
            {"output": [{"type": "message", "content": [{"text": 3}]}]},
            "did not answer with the expected JSON",
        ),
        ({"output": 3}, "did not answer with the expected JSON"),
    ],
)
async def test_a_reply_of_another_shape_is_an_error_of_the_protocol(api: Api, reply: Any, text: str) -> None:
    api.reply(reply)
    with pytest.raises(TargetError, match=text) as caught:
        await ask(api)
    assert caught.value.kind == "protocol"


# --- streams -----------------------------------------------------------------------------------------------


async def test_a_streamed_answer_is_the_unstreamed_one_with_the_time_to_its_first_token(api: Api) -> None:
    response = make_response(
        {"id": "rs", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        make_message("Viér."),
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
    )
    api.reply(response)
    stream_reply(api, make_events(response))
    unstreamed = await ask(api)
    streamed = await ask(api, options={"stream": True})
    assert [request.body.get("stream", False) for request in api.requests] == [False, True]
    assert [request.headers.get("connection") for request in api.requests] == [None, "close"]
    assert streamed.first_token_ms is not None
    assert 0 < streamed.first_token_ms <= streamed.latency_ms
    assert replace(streamed, latency_ms=0.0, first_token_ms=None) == replace(unstreamed, latency_ms=0.0)


async def test_a_streamed_answer_may_be_incomplete_and_a_server_may_answer_without_a_stream(api: Api) -> None:
    response = make_response(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    stream_reply(api, make_events(response, "response.incomplete"))
    api.reply(response)
    for _ in range(2):
        output = await ask(api, options={"stream": True})
        assert (output.text, output.finish_reason) == ("Four.", "length")
    assert output.first_token_ms is None


async def test_a_last_event_without_items_gets_those_of_the_stream(api: Api) -> None:
    events = make_events(make_response())
    stream_reply(api, [*events[:-1], {**events[-1], "response": make_response(output=[])}])
    assert (await ask(api, options={"stream": True})).text == "Four."


async def test_a_stream_that_was_cut_off_is_no_answer(api: Api) -> None:
    stream_reply(api, make_events(make_response())[:-1])
    with pytest.raises(TargetError, match="before the answer was complete") as caught:
        await ask(api, options={"stream": True})
    assert (caught.value.kind, caught.value.transient) == ("connection", True)


@pytest.mark.parametrize(
    ("event", "is_transient"),
    [
        ({"type": "error", "code": "server_error", "message": "Overloaded.", "param": None}, True),
        ({"type": "error", "error": {"type": "server_error", "message": "Overloaded."}}, True),
        ({"error": {"message": "Overloaded.", "type": "x", "code": None}}, False),
    ],
)
async def test_an_error_within_a_stream_is_the_error(api: Api, event: Any, is_transient: bool) -> None:
    stream_reply(api, [*make_events(make_response())[:3], event])
    with pytest.raises(TargetError, match="Overloaded") as caught:
        await ask(api, options={"stream": True})
    assert caught.value.transient == is_transient


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ITEMS = st.one_of(
    TEXTS.map(make_message),
    TEXTS.map(lambda text: {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}),
    TEXTS.map(lambda text: {"type": "function_call", "name": "f", "call_id": "c", "arguments": text}),
)


@given(st.lists(ITEMS, min_size=1, max_size=4), st.lists(st.floats(0, 1), max_size=8), st.booleans())
def test_events_add_up_to_the_response_wherever_the_stream_is_cut(
    items: list[dict[str, Any]], cuts: list[float], lacks_output: bool
) -> None:
    response = make_response(*items)
    events = make_events(response)
    if lacks_output:
        events[-1] = {**events[-1], "response": {**response, "output": []}}
    data = make_stream(events)
    places = [0, *sorted(int(share * len(data)) for share in cuts), len(data)]
    parser, stream = EventParser(), ResponsesStream()
    tokens = [stream.add(event) for start, end in pairwise(places) for event in parser.feed(data[start:end])]
    assert stream.is_complete
    assert json.loads(stream.body()) == response
    assert sum(tokens) == sum(event["type"].endswith(".delta") for event in events)


WORDS = st.sampled_from(
    [
        *("message", "reasoning", "function_call", "mcp_call", "image_generation_call", "error"),
        *("response.output_item.done", "response.completed", "response.failed", "server_error", "4"),
    ]
)
NAMES = st.sampled_from(
    [
        *("type", "output", "content", "summary", "text", "refusal", "logprobs", "name", "arguments"),
        *("result", "status", "error", "code", "message", "usage", "response", "item", "output_index"),
        *("incomplete_details", "reason", "input_tokens", "input_tokens_details", "id", "delta"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=12,
)
RECORDS = st.dictionaries(NAMES, JSON, max_size=6)


@pytest.mark.slow
async def test_any_reply_and_any_stream_is_an_answer_or_an_error_of_the_target(api: Api) -> None:
    target = await api.open("openai", **PLAIN)
    assert isinstance(target, ResponsesTarget)

    def check(body: bytes) -> None:
        try:
            output = target._parse_reply(body, make_prompt("one"), Params())
        except TargetError:
            return
        json.dumps(to_builtins(output))

    @given(RECORDS | RECORDS.map(lambda item: {"output": [item]}))
    def check_reply(reply: dict[str, Any]) -> None:
        check(json.dumps(reply).encode())

    @given(st.lists(RECORDS, max_size=4))
    def check_stream(events: list[dict[str, Any]]) -> None:
        stream = ResponsesStream()
        for event in events:
            stream.add(event)
        check(stream.body())

    check_reply()
    check_stream()
