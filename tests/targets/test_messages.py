"""Files and images on each wire and in texts, system prompts of targets, and temperatures of prompts."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from proctor.errors import TargetError, UsageError
from proctor.model import Attachment, Message, ToolCall
from proctor.targets import TARGETS
from proctor.targets.api.messages import format_message, format_messages
from support.builders import make_prompt, make_spec

if TYPE_CHECKING:
    from pathlib import Path

    from proctor.targets.context import TargetContext
    from support.endpoints import Service

Make = Callable[..., Any]

REPLIES = {
    "openai": {"choices": [{"message": {"content": "4"}}]},
    "azure": {"choices": [{"message": {"content": "4"}}]},
    "anthropic": {"content": [{"type": "text", "text": "4"}]},
    "google": {"candidates": [{"content": {"parts": [{"text": "4"}]}}]},
}
NOTE = Attachment(kind="file", path='docs/"a".md', text="one\ntwo")
IMAGE = Attachment(kind="image", path="a.png", media_type="image/png", data=b"\x89PNG")
PDF = Attachment(kind="file", path="a.pdf", media_type="application/pdf", data=b"%PDF")
DRAWING = Attachment(kind="image", path="a.svg", media_type="image/svg+xml", text="<svg/>")
WRITTEN = '<file path="docs/&quot;a&quot;.md">\none\ntwo\n</file>'
ASKED = Message(role="user", content="Look:", parts=("Look:", NOTE, IMAGE, PDF))
PNG = b64encode(b"\x89PNG").decode()
PDF64 = b64encode(b"%PDF").decode()


@pytest.fixture
def sent(service: Service, opening: Make) -> Callable[..., Any]:
    """The body that a kind sends for messages; options and fields of the prompt by name."""

    async def send(kind: str, *turns: Any, options: dict[str, Any] | None = None, **fields: Any) -> Any:
        service.reply(REPLIES[kind])
        made = replace(make_spec(kind, "m", service.url), options=options or {})
        target = await TARGETS.get(kind).open_target(
            made, opening(WHO="Ada", KEY="the-key", PROCTOR_API_KEY="other")
        )
        await target.answer(make_prompt(*turns, **fields))
        return service.seen[-1].body

    return send


async def test_openai_gets_blocks(sent: Make) -> None:
    body = await sent("openai", ("system", "Be brief."), ASKED)
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look:"},
                {"type": "text", "text": WRITTEN},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF64}"},
                },
            ],
        },
    ]


async def test_anthropic_gets_blocks(sent: Make) -> None:
    body = await sent("anthropic", ASKED)
    pdf = {"type": "base64", "media_type": "application/pdf", "data": PDF64}
    text = {"type": "text", "media_type": "text/plain", "data": "one\ntwo"}
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "Look:"},
        {"type": "document", "source": text, "title": 'docs/"a".md'},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "document", "source": pdf, "title": "a.pdf"},
    ]


async def test_anthropic_gets_no_blank_block_between_two_files(sent: Make) -> None:
    running = Message(role="user", content="See  ", parts=("See ", IMAGE, " ", IMAGE), inline=True)
    body = await sent("anthropic", running)
    assert [block["type"] for block in body["messages"][0]["content"]] == ["text", "image", "image"]


async def test_google_gets_parts(sent: Make) -> None:
    body = await sent("google", ASKED)
    assert body["contents"][0]["parts"] == [
        {"text": "Look:"},
        {"text": WRITTEN},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"inlineData": {"mimeType": "application/pdf", "data": PDF64}},
    ]


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google"])
async def test_an_image_that_is_text_is_sent_as_text(sent: Make, kind: str) -> None:
    body = json.dumps(await sent(kind, Message(role="user", parts=(DRAWING,))))
    assert '<file path=\\"a.svg\\">\\n<svg/>\\n</file>' in body
    assert "base64" not in body


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google"])
async def test_files_of_a_system_message_and_beside_tool_calls_are_sent_too(sent: Make, kind: str) -> None:
    system = Message(role="system", content="Rules:", parts=("Rules:", NOTE))
    said = Message(role="assistant", parts=("Calling.", NOTE), tool_calls=(ToolCall(name="t"),))
    tool = Message(role="tool", name="t", parts=("found", NOTE))
    body = json.dumps(await sent(kind, system, "go", said, tool))
    assert body.count("one\\ntwo") == 3


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google"])
async def test_messages_without_parts_are_sent_as_they_always_were(sent: Make, kind: str) -> None:
    """A message whose only part is its text differs from one without in OpenAI's form alone."""
    plain = await sent(kind, ("system", "s"), "hello")
    parted = await sent(kind, ("system", "s"), Message(role="user", content="hello", parts=("hello",)))
    if kind == "openai":
        assert plain["messages"][1] == {"role": "user", "content": "hello"}
        assert parted["messages"][1] == {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    else:
        assert plain == parted


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ((ASKED,), f'Look:\n\n{WRITTEN}\n\n<image: path="a.png">\n\n<file: path="a.pdf">'),
        ((Message(role="user", content="a"), ASKED), f"user: a\n\nuser: Look:\n\n{WRITTEN}\n\n<image"),
        ((Message(role="user", content="a", parts=("a", "b")),), "a\n\nb"),
        ((Message(role="user", content="a"),), "a"),
        ((), ""),
    ],
)
def test_a_text_has_files_written_out_and_the_rest_mentioned(messages: Any, text: str) -> None:
    assert format_messages(messages).startswith(text)
    assert format_messages(messages, lambda _attachment: "").count("<") == 0


def test_a_message_without_parts_is_its_content() -> None:
    assert format_message(Message(role="user", content="<b>\n")) == "<b>\n"


async def test_a_program_and_a_function_get_the_text_of_files(
    opening: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "asked_with_files.py").write_text("def f(text):\n    return text\n", encoding="utf-8")
    program = f"'{sys.executable}' -S -c 'import sys; print(sys.stdin.buffer.read().decode(), end=str())'"
    for kind, model in (("command", program), ("function", "asked_with_files:f")):
        opened: TargetContext = opening(PATH="/usr/bin:/bin", LC_ALL="C.UTF-8")
        target = await TARGETS.get(kind).open_target(make_spec(kind, model), opened)
        assert (await target.answer(make_prompt(ASKED))).text == format_message(ASKED)


# --- system prompts, temperatures and keys -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "system"),
    [
        ("openai", lambda body: [one["content"] for one in body["messages"] if one["role"] == "system"]),
        ("anthropic", lambda body: body["system"].split("\n\n")),
        ("google", lambda body: [one["text"] for one in body["systemInstruction"]["parts"]]),
    ],
)
async def test_a_targets_system_prompt_comes_before_that_of_the_case(
    sent: Make, kind: str, system: Any
) -> None:
    options = {"system_prompt": "You are ${{ WHO }}."}
    body = await sent(kind, ("system", "Be brief."), "hello", options=options)
    assert system(body) == ["You are Ada.", "Be brief."]
    with pytest.raises(UsageError, match="NOBODY"):
        await sent(kind, "hello", options={"system_prompt": "${{ NOBODY }}"})


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("openai", lambda body: body),
        ("anthropic", lambda body: body),
        ("google", lambda body: body["generationConfig"]),
    ],
)
async def test_a_prompts_temperature_comes_before_the_targets(sent: Make, kind: str, where: Any) -> None:
    assert where(await sent(kind, "hello"))["temperature"] == 0
    assert where(await sent(kind, "hello", temperature=0.9))["temperature"] == 0.9


@pytest.mark.parametrize(
    ("kind", "header"),
    [
        ("openai", "authorization"),
        ("azure", "api-key"),
        ("anthropic", "x-api-key"),
        ("google", "x-goog-api-key"),
    ],
)
async def test_a_target_that_names_its_key_gets_that_and_no_other(
    service: Service, sent: Make, opening: Make, kind: str, header: str
) -> None:
    await sent(kind, "hello", options={"api_key": "${{ KEY }}"})
    assert service.seen[-1].headers[header].removeprefix("Bearer ") == "the-key"
    await sent(kind, "hello")
    assert service.seen[-1].headers[header].removeprefix("Bearer ") == "other"
    given = replace(make_spec(kind, "m", service.url), options={"api_key": "${{ NOT_SET }}"})
    with pytest.raises(UsageError, match="NOT_SET is not set"):
        await TARGETS.get(kind).open_target(given, opening(PROCTOR_API_KEY="other"))


@pytest.mark.parametrize("kind", ["openai", "azure", "anthropic", "google"])
async def test_such_a_key_is_blotted_out_of_errors(service: Service, opening: Make, kind: str) -> None:
    service.reply({"error": {"message": "wrong key the-key"}}, status=403)
    made = replace(make_spec(kind, "m", service.url), options={"api_key": "${{ KEY }}"})
    target = await TARGETS.get(kind).open_target(made, opening(KEY="the-key"))
    with pytest.raises(TargetError, match=r"\[key\]") as caught:
        await target.answer(make_prompt("hello"))
    assert "the-key" not in str(caught.value)
    assert b"the-key" not in msgspec.json.encode(made)
