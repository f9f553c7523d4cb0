"""What Anthropic's Messages API is sent for each parameter, and what its replies and streams become."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.errors import TargetError, UsageError
from proctor.model import Message, Params, Tool, ToolCall, Usage
from proctor.targets import check_params_taken
from proctor.targets.parse import parse_target
from support.apis import Api, make_reply
from support.builders import make_prompt

BARE: dict[str, Any] = {"temperature": None, "seed": None}
PLACE = {"type": "object", "properties": {"city": {"type": "string"}}}
CLOSED = {**PLACE, "additionalProperties": False}
MARK = {"cache_control": {"type": "ephemeral"}}
ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def refusal(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


# --- parameters --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "fields"),
    [
        ({"top_p": 0.9}, {"top_p": 0.9}),
        ({"top_k": 40}, {"top_k": 40}),
        ({"stop": ("END", "STOP")}, {"stop_sequences": ["END", "STOP"]}),
        ({"service_tier": "standard_only"}, {"service_tier": "standard_only"}),
        ({"thinking_budget": 0}, {"thinking": {"type": "disabled"}}),
        (
            {"thinking_budget": 2048},
            {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 6144},
        ),
        (
            {"thinking_budget": 2048, "max_tokens": 3000},
            {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 3000},
        ),
        (
            {"reasoning_effort": "low"},
            {"thinking": ADAPTIVE, "output_config": {"effort": "low"}, "max_tokens": 16_384},
        ),
        ({"extra_body": {"metadata": {"user_id": "u"}}}, {"metadata": {"user_id": "u"}}),
    ],
)
async def test_each_parameter_is_sent_under_the_name_of_the_api(
    api: Api, params: dict[str, Any], fields: dict[str, Any]
) -> None:
    api.reply(make_reply("anthropic"))
    output = await api.ask("anthropic", target_options={**BARE, **params})
    messages = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    assert api.body == {"model": "m", "max_tokens": 4096, "messages": messages, **fields}
    assert output.refused_params == ()


async def test_an_older_model_gets_an_effort_without_thinking(api: Api) -> None:
    api.reply(make_reply("anthropic"))
    await api.ask(
        "anthropic", target_options={**BARE, "model": "claude-opus-4-5", "reasoning_effort": "high"}
    )
    assert "thinking" not in api.body
    assert api.body["output_config"] == {"effort": "high"}


async def test_a_temperature_beside_thinking_is_left_out_and_told_unless_it_is_1(api: Api) -> None:
    api.reply(make_reply("anthropic"))
    output = await api.ask("anthropic", target_options={"thinking_budget": 2048})
    assert "temperature" not in api.body
    assert output.refused_params == ("temperature", "seed")
    output = await api.ask("anthropic", target_options={"thinking_budget": 2048, "temperature": 1.0})
    assert api.body["temperature"] == 1.0
    assert output.refused_params == ("seed",)


async def test_parameters_that_exclude_each_other_stop_the_run_before_its_first_request(api: Api) -> None:
    with pytest.raises(UsageError, match=r"Target 'anthropic:m': `max_tokens` is 2000 but must be more"):
        await api.open("anthropic", thinking_budget=2048, max_tokens=2000)
    target = await api.open("anthropic", max_tokens=2000)
    with pytest.raises(TargetError, match="`max_tokens` is 2000") as caught:
        await target.answer(make_prompt("hello", params={"thinking_budget": 2048}))
    assert caught.value.kind == "unsupported"
    assert api.requests == []


@pytest.mark.parametrize("name", ["verbosity", "logprobs", "presence_penalty", "frequency_penalty"])
def test_what_the_api_lacks_is_an_error_that_says_what_it_has(name: str) -> None:
    values: dict[str, Any] = {"verbosity": "low", "logprobs": 1}
    with pytest.raises(UsageError, match=rf"`anthropic` do not accept `{name}`.* It accepts prompt_cache"):
        check_params_taken(parse_target("anthropic:m", Params(**{name: values.get(name, 0.5)}), {}))


async def test_a_parameter_that_the_user_chose_is_never_left_out(api: Api) -> None:
    api.reply(refusal("`top_k` is deprecated for this model."), 400)
    error = await api.fail("anthropic", top_k=5)
    assert "top_k" in str(error)
    assert len(api.requests) == 1


# --- the cache ---------------------------------------------------------------------------------------------


async def test_the_beginning_of_a_prompt_is_marked_to_be_cached(api: Api) -> None:
    api.reply(make_reply("anthropic"))
    tools = (Tool(name="weather", parameters=PLACE), Tool(name="time"))
    turns = [("system", "Be brief."), "one", ("assistant", "yes"), ("assistant", "no"), "two"]
    options = {"prompt_cache": True, "options": {"system_prompt": "You are Ada."}}
    await api.ask("anthropic", *turns, tools=tools, target_options=options)
    assert api.body["tools"] == [
        {"name": "weather", "input_schema": PLACE},
        {"name": "time", "input_schema": {"type": "object"}, **MARK},
    ]
    assert api.body["system"] == [
        {"type": "text", "text": "You are Ada.", **MARK},
        {"type": "text", "text": "Be brief.", **MARK},
    ]
    assert api.body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "one"}]},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "yes"}, {"type": "text", "text": "no", **MARK}],
        },
        {"role": "user", "content": [{"type": "text", "text": "two"}]},
    ]
    assert json.dumps(api.body).count("cache_control") == 4  # as many as the API takes


async def test_a_single_question_and_empty_texts_are_not_marked(api: Api) -> None:
    api.reply(make_reply("anthropic"))
    await api.ask("anthropic", target_options={"prompt_cache": True})
    await api.ask(
        "anthropic", ("system", " "), ("assistant", ""), "hello", target_options={"prompt_cache": True}
    )
    assert "cache_control" not in json.dumps([request.body for request in api.requests])


async def test_the_result_of_a_tool_before_the_question_is_marked(api: Api) -> None:
    api.reply(make_reply("anthropic"))
    call = Message(role="assistant", tool_calls=(ToolCall(name="f", id="c1"),))
    turns = ["one", call, Message(role="tool", name="f", content="rain"), ("assistant", "It rains."), "And?"]
    await api.ask("anthropic", *turns, ("assistant", "So"), target_options={"prompt_cache": True})
    last_parts = [turn["content"][-1] for turn in api.body["messages"] if "cache_control" in str(turn)]
    assert last_parts == [{"type": "text", "text": "It rains.", **MARK}]


# --- schemas of answers ------------------------------------------------------------------------------------


async def test_a_model_that_thinks_gets_the_schema_as_the_format_of_its_text(api: Api) -> None:
    api.reply(make_reply("anthropic", '{"city":"Oslo"}'))
    options = {**BARE, "reasoning_effort": "low"}
    output = await api.ask("anthropic", response_schema=PLACE, target_options=options)
    form = {"type": "json_schema", "schema": CLOSED}
    assert api.body["output_config"] == {"effort": "low", "format": form}
    assert not {"tools", "tool_choice"} & set(api.body)
    assert (output.text, output.refused_params) == ('{"city":"Oslo"}', ())


async def test_a_model_that_cannot_be_made_to_call_a_tool_gets_the_format_too(api: Api) -> None:
    api.reply(refusal("tool_choice: forced tool use is not supported for this model."), 400)
    api.reply(make_reply("anthropic", "{}"))
    target = await api.open("anthropic", **BARE)
    for _ in range(2):
        output = await target.answer(make_prompt("hello", response_schema=PLACE))
        assert output.refused_params == ()
    first, *later = (
        set(request.body) & {"tools", "tool_choice", "output_config"} for request in api.requests
    )
    assert (first, later) == ({"tools", "tool_choice"}, [{"output_config"}] * 2)


async def test_a_model_with_neither_gets_no_format_and_the_output_says_so(api: Api) -> None:
    api.reply(refusal("tool_choice: not supported."), 400)
    api.reply(refusal("output_config.format: Extra inputs are not permitted"), 400)
    api.reply(make_reply("anthropic", "Oslo"))
    target = await api.open("anthropic", **BARE)
    for _ in range(2):
        output = await target.answer(make_prompt("hello", response_schema=PLACE))
        assert output.refused_params == ("response_format",)
    assert [set(request.body) for request in api.requests[2:]] == [{"model", "max_tokens", "messages"}] * 2


# --- replies -----------------------------------------------------------------------------------------------

REPLY: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x-20260101",
    "content": [
        {"type": "thinking", "thinking": "2 and 2", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "AAAA"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 2, "b": 2}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 10,
        "output_tokens": 30,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 12},
        "service_tier": "priority",
    },
}


async def test_all_that_a_reply_says_is_in_the_output(api: Api) -> None:
    api.reply(REPLY, request_id="req_1")
    output = await api.ask("anthropic", target_options=BARE)
    assert output.text == "Let me see."
    assert output.reasoning == "2 and 2\n\n[redacted]"
    assert output.tool_calls == (ToolCall(name="add", arguments={"a": 2, "b": 2}, id="c1"),)
    assert output.usage == Usage(
        input_tokens=35, output_tokens=30, cached_tokens=20, cache_write_tokens=5, reasoning_tokens=12
    )
    assert (output.response_id, output.request_id) == ("msg_1", "req_1")
    assert (output.finish_reason, output.service_tier) == ("tool_use", "priority")
    assert (output.model, output.first_token_ms) == ("claude-x-20260101", None)


async def test_thinking_that_is_not_shown_is_no_reasoning(api: Api) -> None:
    api.reply({"content": [{"type": "thinking", "thinking": "", "signature": "s"}]})
    output = await api.ask("anthropic")
    assert (output.text, output.reasoning) == ("", None)


async def test_a_reply_without_content_is_an_error(api: Api) -> None:
    api.reply({"id": "msg_1"})
    assert "has no content" in str(await api.fail("anthropic"))


# --- streams -----------------------------------------------------------------------------------------------


def _delta(index: int, kind: str, **fields: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def _start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


MESSAGE = {**REPLY, "content": [], "stop_reason": None, "usage": {**REPLY["usage"], "output_tokens": 1}}
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": MESSAGE},
    _start(0, type="thinking", thinking="", signature=""),
    {"type": "ping"},
    _delta(0, "thinking_delta", thinking="2 and"),
    _delta(0, "thinking_delta", thinking=" 2"),
    _delta(0, "signature_delta", signature="c2ln"),
    {"type": "content_block_stop", "index": 0},
    _start(1, type="redacted_thinking", data="AAAA"),
    {"type": "content_block_stop", "index": 1},
    _start(2, type="text", text=""),
    _delta(2, "text_delta", text="Let me"),
    _delta(2, "text_delta", text=" see."),
    _delta(2, "of_a_later_version", text="x"),
    {"type": "content_block_stop", "index": 2},
    _start(3, type="tool_use", id="c1", name="add", input={}),
    _delta(3, "input_json_delta", partial_json=""),
    _delta(3, "input_json_delta", partial_json='{"a": 2,'),
    _delta(3, "input_json_delta", partial_json=' "b": 2}'),
    {"type": "content_block_stop", "index": 3},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 30, "input_tokens": None},
    },
    {"type": "message_stop"},
]


def stream(api: Api, *events: dict[str, Any]) -> None:
    body = "".join(f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n" for event in events)
    api.reply(body.encode(), Content_Type="text/event-stream", request_id="req_1")


async def test_a_streamed_reply_is_the_same_output_and_has_the_time_of_its_first_token(api: Api) -> None:
    api.reply(REPLY, request_id="req_1")
    stream(api, *EVENTS)
    plain = await api.ask("anthropic", target_options=BARE)
    assert "stream" not in api.body
    target = await api.open("anthropic", **BARE, stream=True)
    streamed = await target.answer(make_prompt("hello"))
    assert api.body["stream"] is True
    assert streamed.first_token_ms is not None
    assert 0 < streamed.first_token_ms <= streamed.latency_ms
    assert replace(streamed, latency_ms=0.0, first_token_ms=None) == replace(plain, latency_ms=0.0)


async def test_a_streamed_structured_answer_is_the_input_of_its_tool(api: Api) -> None:
    stream(
        api,
        EVENTS[0],
        _start(0, type="tool_use", id="c1", name="reply", input={}),
        _delta(0, "input_json_delta", partial_json='{"city":"Oslo"}'),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )
    output = await api.ask("anthropic", response_schema=PLACE, target_options={**BARE, "stream": True})
    assert (output.text, output.tool_calls) == ('{"city":"Oslo"}', ())
    assert output.first_token_ms is not None


async def test_arguments_that_were_cut_off_are_kept_as_text(api: Api) -> None:
    stream(
        api,
        EVENTS[0],
        _start(0, type="tool_use", id="c1", name="add", input={}),
        _delta(0, "input_json_delta", partial_json='{"a": '),
        {"type": "message_stop"},
    )
    output = await api.ask("anthropic", target_options={"stream": True})
    assert output.tool_calls == (ToolCall(name="add", arguments={"arguments": '{"a": '}, id="c1"),)


@pytest.mark.parametrize(
    ("error", "words", "transient", "busy"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "529", True, True),
        ({"type": "api_error", "message": "Internal server error"}, "500", True, False),
        ({"type": "invalid_request_error", "message": "Too long"}, "400", False, False),
        ("what", "500", True, False),
    ],
)
async def test_an_error_in_a_stream_is_the_error_of_its_type(
    api: Api, error: Any, words: str, transient: bool, busy: bool
) -> None:
    stream(api, *EVENTS[:4], {"type": "error", "error": error})
    caught = await api.fail("anthropic", stream=True)
    assert words in str(caught)
    assert (caught.transient, caught.busy) == (transient, busy)


async def test_a_stream_that_ends_early_is_no_answer(api: Api) -> None:
    stream(api, *EVENTS[:-1])
    error = await api.fail("anthropic", stream=True)
    assert "ended the stream before the answer was complete" in str(error)
    assert error.transient


@pytest.mark.parametrize(
    "event",
    [
        {"type": 3},
        {"no": "type"},
        {"type": "content_block_delta", "index": "x", "delta": {"type": "text_delta"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 3}},
        {"type": "message_start", "message": []},
    ],
)
async def test_an_event_of_another_form_is_an_error(api: Api, event: dict[str, Any]) -> None:
    stream(api, EVENTS[0], event)
    error = await api.fail("anthropic", stream=True)
    assert "does not follow the Messages API" in str(error)
    assert error.kind == "protocol"
