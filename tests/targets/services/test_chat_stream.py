"""A streamed chat completion is the same answer as an unstreamed one."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import TargetError
from proctor.model import Output, TokenLogprob, ToolCall, Usage
from proctor.targets.api.openai.reply import CHAT_REPLY_DECODER
from proctor.targets.api.openai.stream import ChatStream
from support.apis import Api
from support.media import WAV

END_OF_STREAM = "data: [DONE]\n\n"


def chunk(delta: Any, **choice: Any) -> dict[str, Any]:
    return {"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta, **choice}]}


STOP = chunk({}, finish_reason="stop")
USAGE = {"id": "r", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}


def write(*events: dict[str, Any], end: str = END_OF_STREAM) -> bytes:
    return ("".join(f"data: {json.dumps(event)}\n\n" for event in events) + end).encode()


async def ask(api: Api, *events: dict[str, Any], end: str = END_OF_STREAM) -> Output:
    api.reply(write(*events, end=end), Content_Type="text/event-stream")
    return await api.ask("openai", target_options={"stream": True})


async def test_the_pieces_of_a_stream_are_one_answer_with_the_time_to_its_first_token(api: Api) -> None:
    token = {"token": "Fo", "logprob": -0.5, "top_logprobs": []}
    output = await ask(
        api,
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "2 and"}),
        chunk({"reasoning_content": " 2"}),
        chunk({"content": "Fo"}, logprobs={"content": [token]}),
        chunk({"content": "ur."}, logprobs={"content": [{"token": "ur.", "logprob": -1}]}),
        {**STOP, "system_fingerprint": "fp", "service_tier": "default"},
        USAGE,
    )
    assert (output.text, output.reasoning, output.finish_reason) == ("Four.", "2 and 2", "stop")
    assert output.usage == Usage(input_tokens=3, output_tokens=2)
    assert (output.response_id, output.model, output.fingerprint) == ("r", "m", "fp")
    assert output.service_tier == "default"
    assert output.logprobs == (
        TokenLogprob(token="Fo", logprob=-0.5),
        TokenLogprob(token="ur.", logprob=-1.0),
    )
    assert output.first_token_ms is not None
    assert 0 < output.first_token_ms <= output.latency_ms


@pytest.mark.parametrize(
    "parts",
    [
        # OpenAI: the id and the name come once, the arguments in pieces.
        [
            {"index": 0, "id": "a", "function": {"name": "weather", "arguments": ""}},
            {"index": 0, "function": {"arguments": '{"city":'}},
            {"index": 1, "id": "b", "function": {"name": "time", "arguments": "{}"}},
            {"index": 0, "function": {"arguments": '"Oslo"}'}},
        ],
        # Mistral, Ollama: each call comes whole, with or without its index.
        [
            {"id": "a", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
            {"id": "b", "function": {"name": "time", "arguments": "{}"}},
        ],
        # Google's compatible interface: whole calls, all of index 0.
        [
            {"index": 0, "id": "a", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
            {"index": 0, "id": "b", "function": {"name": "time", "arguments": {}}},
        ],
    ],
)
async def test_calls_of_tools_are_put_together(api: Api, parts: list[dict[str, Any]]) -> None:
    events = [chunk({"tool_calls": [part]}) for part in parts]
    output = await ask(api, *events, chunk({}, finish_reason="tool_calls"))
    assert output.tool_calls == (
        ToolCall(name="weather", arguments={"city": "Oslo"}, id="a"),
        ToolCall(name="time", arguments={}, id="b"),
    )
    assert output.first_token_ms is not None


async def test_mistral_streams_its_thoughts_as_parts_of_the_content(api: Api) -> None:
    def make_thought(text: str) -> dict[str, Any]:
        return chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]})

    text = chunk({"content": [{"type": "text", "text": "4"}]})
    output = await ask(api, make_thought("2 and "), make_thought("2"), text, chunk({"content": "."}), STOP)
    assert (output.text, output.reasoning) == ("4.", "2 and 2")


async def test_sound_comes_in_pieces_of_base64_that_are_encoded_apart(api: Api) -> None:
    pieces = [WAV[:5], WAV[5:]]
    events = [chunk({"audio": {"data": b64encode(piece).decode()}}) for piece in pieces]
    words = [chunk({"audio": {"id": "a", "transcript": word}}) for word in ("Fo", "ur.")]
    output = await ask(api, *words, *events, STOP)
    assert (output.text, output.attachments[0].data) == ("Four.", WAV)


async def test_openrouter_streams_images_and_details_of_its_reasoning(api: Api) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    details = [
        chunk({"reasoning_details": [{"type": "reasoning.text", "text": text}]}) for text in ("a", "b")
    ]
    output = await ask(api, *details, chunk({"content": "4", "images": [image]}), STOP)
    assert (output.reasoning, output.attachments[0].data) == ("ab", b"\0\0\0")


async def test_groq_reports_its_counts_in_a_field_of_its_own(api: Api) -> None:
    counts = {"prompt_tokens": 3, "completion_tokens": 2}
    output = await ask(api, chunk({"content": "4"}), {**STOP, "x_groq": {"id": "q", "usage": counts}})
    assert output.usage == Usage(input_tokens=3, output_tokens=2)


async def test_further_answers_are_ignored(api: Api) -> None:
    other = {"id": "r", "choices": [{"index": 1, "delta": {"content": "5"}, "finish_reason": "stop"}]}
    assert (await ask(api, chunk({"content": "4"}), other, STOP)).text == "4"


async def test_an_error_inside_a_stream_is_the_error_of_the_call(api: Api) -> None:
    failed = {"error": {"message": "Overloaded.", "code": 503}}
    with pytest.raises(TargetError, match="Overloaded") as error:
        await ask(api, chunk({"content": "4"}), failed, end="")
    assert (error.value.transient, error.value.busy) == (True, True)


async def test_a_stream_that_is_cut_off_is_no_answer(api: Api) -> None:
    with pytest.raises(TargetError, match="ended the stream before") as error:
        await ask(api, chunk({"content": "Fo"}), end="")
    assert error.value.transient


async def test_a_stream_without_an_answer_is_an_error(api: Api) -> None:
    with pytest.raises(TargetError, match="no choices"):
        await ask(api, USAGE)


async def test_a_server_that_does_not_stream_answers_all_the_same(api: Api) -> None:
    api.reply({"choices": [{"message": {"content": "4"}}]})
    output = await api.ask("openai", target_options={"stream": True})
    assert (output.text, output.first_token_ms) == ("4", None)


@given(st.text(max_size=30), st.text(max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_an_answer_does_not_depend_on_where_it_is_cut(text: str, thoughts: str, places: list[int]) -> None:
    def split_text(whole: str) -> list[str]:
        ends = sorted({min(place, len(whole)) for place in places} | {len(whole)})
        return [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    stream = ChatStream()
    events = [chunk({"reasoning": piece}) for piece in split_text(thoughts)]
    events += [chunk({"content": piece}) for piece in split_text(text)]
    brought = [stream.add(event) for event in [*events, STOP]]
    message = CHAT_REPLY_DECODER.decode(stream.body()).choices[0].message  # type: ignore[index]
    assert (message.text, message.thoughts or "") == (text, thoughts)
    assert stream.is_complete
    assert any(brought) == bool(text or thoughts)


FIELDS = (
    *("choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "index", "id"),
    *("audio", "data", "transcript", "images", "reasoning", "reasoning_details", "logprobs", "usage"),
    *("x_groq", "finish_reason", "type", "text", "error"),
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("index", [[], {}, [1], "1"])
def test_an_index_of_another_type_breaks_nothing(index: Any) -> None:
    stream = ChatStream()
    stream.add({"choices": [{"index": index, "delta": {"tool_calls": [{"index": index, "id": index}]}}]})
    assert isinstance(msgspec.json.decode(stream.body()), dict)


@pytest.mark.fuzz
@given(
    st.lists(st.dictionaries(st.sampled_from(["choices", "usage", "x_groq", "id"]), JSON_VALUES), max_size=4)
)
def test_no_event_breaks_the_reader(events: list[dict[str, Any]]) -> None:
    stream = ChatStream()
    for event in events:
        assert isinstance(stream.add(event), bool)
    assert isinstance(msgspec.json.decode(stream.body()), dict)
