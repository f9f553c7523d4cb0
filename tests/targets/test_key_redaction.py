"""Keys that an endpoint sends back are in no part of an output."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from proctor.codec import encode
from proctor.model import Message, Output, ToolCall
from proctor.targets.key_redaction import KeyRedactor

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
        quote_plus(KEY).replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d"),
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
    text = encode(REDACTOR.redact_output(output)).decode()
    assert not any(piece in text for piece in pieces(KEY[:20]))
    for field in ("text", "model", "fingerprint", "finish_reason"):
        alone: dict[str, Any] = {"text": "", field: KEY}
        assert getattr(REDACTOR.redact_output(Output(**alone)), field) == "[key]"


@pytest.mark.parametrize(
    "key", ["", "a", "none", "EMPTY", "ollama", "not-needed", "sk-no-key-required", "12345678"]
)
def test_a_key_that_is_an_ordinary_word_or_number_spoils_no_answer(key: str) -> None:
    output = Output(text=f"It is {key}, as none of ollama was EMPTY and not-needed: 12345678.")
    assert KeyRedactor([key]).redact_output(output) is output


def test_an_output_without_a_key_is_the_same_object() -> None:
    output = Output(text="fine", tool_calls=(ToolCall(name="f", arguments={"a": [1]}),))
    assert REDACTOR.redact_output(output) is output
