"""What the reply of each kind of service becomes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from proctor.errors import TargetError
from proctor.model import Output, ToolCall, Usage
from proctor.targets.api.openai.chat import open_embeddings
from support.apis import WITH_KEY, Api
from support.builders import make_spec

REPLIES: dict[str, tuple[dict[str, Any], Output]] = {
    "openai": (
        {
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
        },
        Output(
            text="Four.",
            usage=Usage(input_tokens=12, output_tokens=2, cached_tokens=5),
            model="m-2026-01-01",
            fingerprint="fp_1",
            finish_reason="stop",
            response_id="chatcmpl-1",
        ),
    ),
    "anthropic": (
        {
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
        },
        Output(
            text="Four.",
            usage=Usage(input_tokens=35, output_tokens=3, cached_tokens=20, cache_write_tokens=5),
            model="claude-x-20260101",
            finish_reason="end_turn",
            reasoning="hm",
            response_id="msg_1",
            refused_params=("seed",),
        ),
    ),
    "google": (
        {
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
        },
        Output(
            text="Four.",
            reasoning="hm",
            usage=Usage(input_tokens=11, output_tokens=32, cached_tokens=4, reasoning_tokens=30),
            model="m-001",
            finish_reason="STOP",
        ),
    ),
}
REPLIES["azure"] = REPLIES["openai"]


@pytest.mark.parametrize("kind", REPLIES)
async def test_the_reply_becomes_an_output(api: Api, kind: str) -> None:
    reply, expected = REPLIES[kind]
    api.reply(reply)
    output = await api.ask(kind)
    assert 0 < output.latency_ms < 5000
    assert replace(output, latency_ms=0.0) == expected


@pytest.mark.parametrize(
    ("kind", "reply", "text"),
    [
        ("openai", {"choices": [{"message": {"content": None}}]}, ""),
        ("openai", {"choices": [{"message": {}}]}, ""),
        ("openai", {"choices": [{"message": {"content": None, "refusal": "I will not."}}]}, "I will not."),
        (
            "openai",
            {
                "choices": [
                    {"message": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}}
                ]
            },
            "ab",
        ),
        ("google", {"candidates": [{"finishReason": "MAX_TOKENS"}]}, ""),
    ],
)
async def test_content_in_its_other_forms_is_text(
    api: Api, kind: str, reply: dict[str, Any], text: str
) -> None:
    api.reply(reply)
    output = await api.ask(kind)
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
async def test_calls_for_openai_are_read_however_the_model_wrote_them(
    api: Api, arguments: Any, read: dict[str, Any]
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    api.reply({"choices": [{"message": {"content": None, "tool_calls": [call]}}]})
    assert (await api.ask("openai")).tool_calls == (ToolCall(name="weather", arguments=read, id="c1"),)


@pytest.mark.parametrize(
    ("kind", "reply", "status", "message", "how"),
    [
        ("openai", {"error": {"message": "Overloaded.", "code": 503}}, 200, "Overloaded", (True, True)),
        ("openai", {"error": {"message": "Overloaded.", "code": "x"}}, 200, "Overloaded", (False, False)),
        ("openai", {"error": "Overloaded."}, 200, "Overloaded", (False, False)),
        ("anthropic", {"error": {"type": "x", "message": "Overloaded"}}, 529, "Overloaded", (True, True)),
        ("google", {"promptFeedback": {"blockReason": "SAFETY"}}, 200, "SAFETY", (False, False)),
    ],
)
async def test_an_error_is_told_wherever_it_stands(
    api: Api, kind: str, reply: dict[str, Any], status: int, message: str, how: tuple[bool, bool]
) -> None:
    api.reply(reply, status)
    error = await api.fail(kind)
    assert message in str(error)
    assert (error.transient, error.busy) == how
    assert (error.kind == "refused") == (message == "SAFETY")


# --- embeddings --------------------------------------------------------------------------------------------


async def test_embeddings_come_back_in_the_order_of_their_texts(api: Api, opening: Any) -> None:
    api.reply({"data": [{"index": 1, "embedding": [0.0, 1.0]}, {"index": 0, "embedding": [1.0, 0.0]}]})
    embedder = open_embeddings(make_spec("openai", "e", f"{api.url}/v1"), opening(**WITH_KEY))
    assert await embedder.embed(["one", "two"]) == [[1.0, 0.0], [0.0, 1.0]]
    assert await embedder.embed([]) == []
    (request,) = api.requests
    assert request.path == "/v1/embeddings"
    assert request.body == {"model": "e", "input": ["one", "two"]}
    assert request.headers["authorization"] == f"Bearer {WITH_KEY['PROCTOR_API_KEY']}"
    assert embedder.name == "e"


async def test_a_missing_embedding_is_an_error(api: Api, opening: Any) -> None:
    api.reply({"data": [{"index": 0, "embedding": [1.0]}]})
    embedder = open_embeddings(make_spec("openai", "e", api.url), opening())
    with pytest.raises(TargetError, match="2 texts with 1"):
        await embedder.embed(["one", "two"])
