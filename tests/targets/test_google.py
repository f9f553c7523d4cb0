"""Google's Gemini API: every parameter that it is sent, everything that it answers, and its streams."""

from __future__ import annotations

import json
import wave
from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.errors import TargetError, UsageError
from proctor.model import Attachment, Message, TokenLogprob, Tool, ToolCall, Usage
from proctor.targets import check_params_taken
from proctor.targets.api.event_stream import EventParser
from proctor.targets.api.google.gemini import GOOGLE, GoogleReplyStream
from support.apis import Api, make_reply
from support.builders import make_spec

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
USUAL = {"temperature": 0.0, "seed": 42}


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


# --- parameters --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "config"),
    [
        ({"top_p": 0.9, "top_k": 40}, {"topP": 0.9, "topK": 40}),
        ({"stop": ("END", "\n")}, {"stopSequences": ["END", "\n"]}),
        (
            {"presence_penalty": 0.0, "frequency_penalty": -1.5},
            {"presencePenalty": 0.0, "frequencyPenalty": -1.5},
        ),
        ({"logprobs": 0}, {"responseLogprobs": True}),
        ({"logprobs": 3}, {"responseLogprobs": True, "logprobs": 3}),
        (
            {"thinking_budget": 1024},
            {"thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True}},
        ),
        # Google refuses `includeThoughts` where thinking is turned off.
        ({"thinking_budget": 0}, {"thinkingConfig": {"thinkingBudget": 0}}),
        (
            {"reasoning_effort": "low"},
            {"thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True}},
        ),
    ],
)
async def test_a_parameter_is_sent_by_googles_name(
    api: Api, params: dict[str, Any], config: dict[str, Any]
) -> None:
    api.reply(make_reply("google"))
    await api.ask("google", target_options=params)
    assert api.body["generationConfig"] == {**USUAL, **config}
    await api.ask("google", params=params)  # those of a case
    assert api.body["generationConfig"] == {**USUAL, **config}


async def test_the_service_tier_stands_beside_the_contents(api: Api) -> None:
    api.reply(make_reply("google"))
    await api.ask("google", target_options={"service_tier": "flex"})
    assert api.body["serviceTier"] == "flex"


def test_every_parameter_that_google_lacks_is_refused_before_the_first_request() -> None:
    assert GOOGLE.params >= {"top_k", "thinking_budget", "stream"}
    unsupported: list[dict[str, Any]] = [
        {"verbosity": "low"},
        {"prompt_cache": True},
        {"api_format": "responses"},
    ]
    for params in unsupported:
        with pytest.raises(UsageError, match="of kind `google`"):
            check_params_taken(make_spec("google", **params))


async def test_a_budget_and_an_effort_together_are_an_error_before_the_first_request(api: Api) -> None:
    with pytest.raises(UsageError, match="not both"):
        await api.open("google", thinking_budget=5, reasoning_effort="low")
    with pytest.raises(TargetError, match="not both"):
        await api.ask("google", target_options={"thinking_budget": 5}, params={"reasoning_effort": "low"})
    assert not api.requests


async def test_extra_fields_are_merged_into_objects_and_replace_everything_else(api: Api) -> None:
    api.reply(make_reply("google"))
    extra = {
        "generationConfig": {"seed": 7, "responseModalities": ["IMAGE"]},
        "safetySettings": [{"category": "X"}],
    }
    case = {"extra_body": {"generationConfig": {"topK": 3}, "labels": {"team": "a"}}}
    await api.ask("google", target_options={"extra_body": extra}, params=case)
    assert api.body == {
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        "generationConfig": {"temperature": 0.0, "seed": 7, "responseModalities": ["IMAGE"], "topK": 3},
        "safetySettings": [{"category": "X"}],
        "labels": {"team": "a"},
    }


async def test_calls_that_gemini_3_did_not_make_are_signed_once_it_says_so(api: Api) -> None:
    message = (
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
        "work correctly."
    )
    api.reply({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}, 400)
    api.reply(make_reply("google", "It rains."))
    call = ToolCall(name="weather", arguments={"city": "Oslo"})
    turns = [
        "Weather?",
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", name="weather", content="rain"),
    ]
    output = await api.ask("google", *turns, tools=(Tool(name="weather"),))
    assert (output.text, output.refused_params) == ("It rains.", ())
    first, second = (request.body for request in api.requests)
    (part,) = first["contents"][1]["parts"]
    assert part == {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}
    part["thoughtSignature"] = "skip_thought_signature_validator"
    assert second == first


# --- answers -----------------------------------------------------------------------------------------------

REPLY: dict[str, Any] = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "Two and ", "thought": True},
                    {"text": "two.", "thought": True},
                    {"inlineData": {"mimeType": "image/png", "data": encoded(b"draft")}, "thought": True},
                    {"text": "It is "},
                    {"text": "4.", "thoughtSignature": "c2ln"},
                    {"inlineData": {"mimeType": "image/png", "data": encoded(PNG)}},
                    {"inlineData": {"mimeType": "text/html", "data": encoded(b"<script>")}},
                    {"functionCall": {"name": "add", "args": {"a": 2}, "id": "f1"}},
                ],
            },
            "finishReason": "STOP",
            "index": 0,
            "logprobsResult": {
                "chosenCandidates": [
                    {"token": "It", "tokenId": 1, "logProbability": -0.1},
                    {"token": " is", "logProbability": -0.2},
                ],
                "topCandidates": [
                    {
                        "candidates": [
                            {"token": "It", "logProbability": -0.1},
                            {"token": "The", "logProbability": -2.5},
                        ]
                    },
                ],
            },
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 20,
        "toolUsePromptTokenCount": 5,
        "cachedContentTokenCount": 8,
        "candidatesTokenCount": 6,
        "thoughtsTokenCount": 9,
        "serviceTier": "flex",
    },
    "modelVersion": "gemini-x-001",
    "responseId": "r-1",
}


async def test_an_answer_is_read_whole(api: Api) -> None:
    api.reply(REPLY, x_request_id="q-1")
    output = await api.ask("google")
    assert (output.text, output.reasoning) == ("It is 4.", "Two and two.")
    assert output.usage == Usage(input_tokens=25, output_tokens=15, cached_tokens=8, reasoning_tokens=9)
    assert output.logprobs == (
        TokenLogprob(token="It", logprob=-0.1, top=(("It", -0.1), ("The", -2.5))),
        TokenLogprob(token=" is", logprob=-0.2),
    )
    assert output.attachments == (
        Attachment(kind="image", path="answer-1.png", media_type="image/png", data=PNG),
        Attachment(kind="file", path="answer-2.bin", media_type="application/octet-stream", data=b"<script>"),
    )
    assert [(call.name, call.arguments, call.id) for call in output.tool_calls] == [("add", {"a": 2}, "f1")]
    assert (output.finish_reason, output.model, output.service_tier) == ("STOP", "gemini-x-001", "flex")
    assert (output.response_id, output.request_id) == ("r-1", "q-1")
    assert output.first_token_ms is None


async def test_samples_become_a_file_that_plays(api: Api) -> None:
    data = {"mimeType": "audio/L16;codec=pcm;rate=16000", "data": encoded(b"\1\0\2\0")}
    api.reply({"candidates": [{"content": {"parts": [{"inlineData": data}]}}]})
    (attachment,) = (await api.ask("google")).attachments
    assert (attachment.kind, attachment.path, attachment.media_type) == ("audio", "answer-1.wav", "audio/wav")
    with wave.open(BytesIO(attachment.data)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.readframes(9)) == (16000, 1, b"\1\0\2\0")


async def test_data_that_is_not_base64_is_an_error_of_the_protocol(api: Api) -> None:
    api.reply({"candidates": [{"content": {"parts": [{"inlineData": {"data": "§"}}]}}]})
    error = await api.fail("google")
    assert error.kind == "protocol"


# --- streams -----------------------------------------------------------------------------------------------


def split_reply() -> list[dict[str, Any]]:
    """The reply as the API streams it: a part in each event, texts in pieces, then the rest."""
    (candidate,) = REPLY["candidates"]
    events = [
        {"candidates": [{"content": {"parts": [part]}, "index": 0}]} for part in candidate["content"]["parts"]
    ]
    chosen_candidates, tops = (
        candidate["logprobsResult"]["chosenCandidates"],
        candidate["logprobsResult"]["topCandidates"],
    )
    events[3]["candidates"][0]["logprobsResult"] = {
        "chosenCandidates": chosen_candidates[:1],
        "topCandidates": tops,
    }
    events[4]["candidates"][0]["logprobsResult"] = {"chosenCandidates": chosen_candidates[1:]}
    last = {name: value for name, value in REPLY.items() if name != "candidates"}
    return [*events, {**last, "candidates": [{"finishReason": "STOP", "index": 0}]}]


def to_stream(events: list[dict[str, Any]]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)


async def test_a_streamed_answer_is_the_unstreamed_one(api: Api) -> None:
    api.reply(REPLY)
    api.reply(to_stream(split_reply()), Content_Type="text/event-stream")
    plain = await api.ask("google")
    streamed = await api.ask("google", target_options={"stream": True})
    assert api.requests[0].path == "/v1beta/models/m:generateContent"
    assert api.requests[1].path == "/v1beta/models/m:streamGenerateContent?alt=sse"
    assert api.requests[0].body == api.requests[1].body
    assert streamed.first_token_ms is not None
    assert 0 < streamed.first_token_ms <= streamed.latency_ms
    times = {"latency_ms": 0.0, "first_token_ms": None}
    assert replace(streamed, **times) == replace(plain, **times)


@given(st.lists(st.integers(0, len(to_stream(split_reply()))), max_size=5))
def test_the_body_does_not_depend_on_where_the_stream_is_cut(cuts: list[int]) -> None:
    data = to_stream(split_reply())
    parser, stream = EventParser(), GoogleReplyStream()
    for start, end in pairwise([0, *sorted(cuts), len(data)]):
        for event in parser.feed(data[start:end]):
            stream.add(event)
    body = json.loads(stream.body())
    assert stream.is_complete
    assert "".join(part.get("text", "") for part in body["candidates"][0]["content"]["parts"]) == (
        "Two and two.It is 4."
    )


@pytest.mark.parametrize(
    ("events", "check"),
    [
        (split_reply()[:-1], lambda error: error.transient and "ended the stream" in str(error)),
        (
            [*split_reply()[:2], {"error": {"code": 503, "message": "Overloaded."}}],
            lambda error: error.transient and error.busy and "Overloaded" in str(error),
        ),
        (
            [{"promptFeedback": {"blockReason": "SAFETY"}}, {"usageMetadata": {}}],
            lambda error: error.kind == "refused" and "SAFETY" in str(error),
        ),
        (
            [
                {"candidates": [3, {"content": None}]},
                {"candidates": [{"finishReason": "STOP", "content": 3}]},
            ],
            None,
        ),
    ],
)
async def test_a_stream_without_an_answer_is_an_error(
    api: Api, events: list[dict[str, Any]], check: Callable[[TargetError], bool] | None
) -> None:
    api.reply(to_stream(events), Content_Type="text/event-stream")
    if check is None:
        assert (await api.ask("google", target_options={"stream": True})).text == ""
    else:
        assert check(await api.fail("google", stream=True))


async def test_a_server_that_does_not_stream_is_read_all_the_same(api: Api) -> None:
    api.reply(make_reply("google", "4"))
    output = await api.ask("google", target_options={"stream": True})
    assert (output.text, output.first_token_ms) == ("4", None)
