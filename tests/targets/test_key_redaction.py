"""Keys that an endpoint sends back are in no part of an output."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from proctor.codec import decode, encode
from proctor.model import Message, Output, ToolCall
from proctor.targets import TARGETS
from proctor.targets.key_redaction import KeyRedactor
from support.builders import make_prompt, make_spec
from support.endpoints import Service

Make = Callable[..., Any]
KEY = 'sk/a+secret="0123456789abcdef"'
REDACTOR = KeyRedactor([KEY])


def pieces(key: str) -> list[str]:
    return [key[at : at + 8] for at in range(len(key) - 7)]


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        f"Bearer {KEY}.",
        quote(KEY, safe=""),
        quote(KEY),
        quote_plus(KEY)
        .replace("%2F", "%2f")
        .replace("%2B", "%2b")
        .replace("%3D", "%3d")
        .replace("%22", "%22"),
        json.dumps(KEY),
        KEY.replace("/", r"\/"),
    ],
)
def test_each_form_of_a_key_is_replaced(form: str) -> None:
    text = REDACTOR.redact_text(f"You sent {form} to me")
    assert text.startswith("You sent ")
    assert "[key]" in text
    assert not any(piece in text for piece in (*pieces(KEY), *pieces(form.strip('"')[7:-1])))


@pytest.mark.parametrize("encoded", [b64encode, urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "u", "us", "user:", "api-key: "])
def test_a_key_inside_base64_is_replaced_wherever_it_begins(
    encoded: Callable[[bytes], bytes], before: str
) -> None:
    whole = encoded(f"{before}{KEY}!".encode()).decode()
    assert "[key]" in REDACTOR.redact_text(f"Basic {whole}")
    assert len(REDACTOR.redact_text(whole)) < len(before) * 2 + 16


def test_every_part_of_an_output_is_searched() -> None:
    call = ToolCall(name=KEY, arguments={KEY: [KEY]}, id=KEY, output={"said": KEY})
    output = Output(
        text=KEY,
        messages=(Message(role="assistant", content=KEY, tool_calls=(call,)),),
        tool_calls=(call,),
        finish_reason=KEY,
        model=KEY,
        fingerprint=KEY,
        file_changes=KEY,
    )
    written = encode(REDACTOR.redact_output(output)).decode()
    assert not any(piece in written for piece in pieces(KEY[:20]))
    for field in ("text", "model", "fingerprint", "finish_reason"):
        assert (
            "[key]"
            in encode(REDACTOR.redact_output(decode(encode({"text": "", field: KEY}), Output))).decode()
        )


@pytest.mark.parametrize(
    "key", ["", "a", "none", "EMPTY", "ollama", "not-needed", "sk-no-key-required", "12345678"]
)
def test_a_key_that_is_an_ordinary_word_or_number_spoils_no_answer(key: str) -> None:
    output = Output(text=f"It is {key}, as none of ollama was EMPTY and not-needed: 12345678.")
    assert KeyRedactor([key]).redact_output(output) is output


def test_an_output_without_a_key_is_the_same_object() -> None:
    output = Output(text="fine", tool_calls=(ToolCall(name="f", arguments={"a": [1]}),))
    assert REDACTOR.redact_output(output) is output


REPLIES: dict[str, Any] = {
    "openai": {
        "choices": [
            {
                "message": {
                    "content": f"key {KEY}",
                    "tool_calls": [{"function": {"name": "f", "arguments": json.dumps({"k": KEY})}}],
                },
                "finish_reason": "stop",
            }
        ],
        "model": KEY,
        "system_fingerprint": KEY,
    },
    "anthropic": {
        "content": [
            {"type": "text", "text": f"key {KEY}"},
            {"type": "tool_use", "id": KEY, "name": "f", "input": {"k": KEY}},
        ],
        "model": KEY,
    },
    "google": {
        "candidates": [
            {
                "content": {
                    "parts": [{"text": f"key {KEY}"}, {"functionCall": {"name": "f", "args": {"k": KEY}}}]
                }
            }
        ],
        "modelVersion": KEY,
    },
}
REPLIES["azure"] = REPLIES["openai"]


@pytest.mark.parametrize("kind", REPLIES)
async def test_an_answer_that_echoes_the_key_is_given_without_it(
    service: Service, opening: Make, kind: str
) -> None:
    service.reply(REPLIES[kind])
    opened = TARGETS.get(kind).open_target(
        make_spec(kind, endpoint=service.url), opening(PROCTOR_API_KEY=KEY)
    )
    output = await (await opened).answer(make_prompt("hello"))
    assert KEY in str(service.seen[0].headers)
    assert output.text == "key [key]"
    assert output.model == "[key]"
    assert output.tool_calls[0].arguments == {"k": "[key]"}
    assert KEY not in str(output)
