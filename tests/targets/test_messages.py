"""Files, images, audio and videos on each wire and in texts."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from proctor.errors import TargetError
from proctor.model import Attachment, Message, ToolCall
from proctor.targets import TARGETS
from proctor.targets.api.messages import format_message, format_messages
from support import media
from support.apis import Api, make_reply
from support.builders import make_prompt, make_spec

if TYPE_CHECKING:
    from pathlib import Path

    from proctor.targets.context import TargetContext

Make = Callable[..., Any]

NOTE = Attachment(kind="file", path='docs/"a".md', text="one\ntwo")
IMAGE = Attachment(kind="image", path="a.png", media_type="image/png", data=b"\x89PNG")
PDF = Attachment(kind="file", path="a.pdf", media_type="application/pdf", data=b"%PDF")
DRAWING = Attachment(kind="image", path="a.svg", media_type="image/svg+xml", text="<svg/>")
NOTE_TEXT = '<file path="docs/&quot;a&quot;.md">\none\ntwo\n</file>'
QUESTION = Message(role="user", content="Look:", parts=("Look:", NOTE, IMAGE, PDF))
PNG = b64encode(b"\x89PNG").decode()
PDF64 = b64encode(b"%PDF").decode()


def text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


WIRES: dict[str, tuple[list[Any], Callable[[Any], Any]]] = {
    "openai": (
        [
            text("Look:"),
            text(NOTE_TEXT),
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF64}"},
            },
        ],
        lambda body: body["messages"][-1]["content"],
    ),
    "anthropic": (
        [
            text("Look:"),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "one\ntwo"},
                "title": 'docs/"a".md',
            },
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF64},
                "title": "a.pdf",
            },
        ],
        lambda body: body["messages"][-1]["content"],
    ),
    "google": (
        [
            {"text": "Look:"},
            {"text": NOTE_TEXT},
            {"inlineData": {"mimeType": "image/png", "data": PNG}},
            {"inlineData": {"mimeType": "application/pdf", "data": PDF64}},
        ],
        lambda body: body["contents"][-1]["parts"],
    ),
}


@pytest.fixture
def send_body(api: Api) -> Callable[..., Any]:
    """The body that a kind sends for messages."""

    async def send(kind: str, *turns: Any) -> Any:
        api.reply(make_reply(kind))
        await api.ask(kind, *turns)
        return api.body

    return send


@pytest.mark.parametrize("kind", WIRES)
async def test_files_and_images_are_sent_as_the_service_takes_them(send_body: Make, kind: str) -> None:
    blocks, find = WIRES[kind]
    assert find(await send_body(kind, ("system", "Be brief."), QUESTION)) == blocks


async def test_anthropic_gets_no_blank_block_between_two_files(send_body: Make) -> None:
    running = Message(role="user", content="See  ", parts=("See ", IMAGE, " ", IMAGE), inline=True)
    body = await send_body("anthropic", running)
    assert [block["type"] for block in body["messages"][0]["content"]] == ["text", "image", "image"]


def attach(kind: Any, path: str, media_type: str, data: bytes = b"x") -> Attachment:
    return Attachment(kind=kind, path=path, media_type=media_type, data=data)


WAV64 = b64encode(media.WAV).decode()
X64 = b64encode(b"x").decode()


@pytest.mark.parametrize(
    ("kind", "attachment", "block"),
    [
        (
            "openai",
            attach("audio", "a.wav", "audio/wav", media.WAV),
            {"type": "input_audio", "input_audio": {"data": WAV64, "format": "wav"}},
        ),
        (
            "azure",
            attach("audio", "a.mp3", "audio/mpeg"),
            {"type": "input_audio", "input_audio": {"data": X64, "format": "mp3"}},
        ),
        (
            "openai",
            attach("file", "a.wav", "audio/wav"),
            {"type": "input_audio", "input_audio": {"data": X64, "format": "wav"}},
        ),
        (
            "openai",
            attach("file", "a.png", "image/png"),
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{X64}"}},
        ),
        (
            "openai",
            attach("file", "a.zip", "application/zip"),
            {
                "type": "file",
                "file": {"filename": "a.zip", "file_data": f"data:application/zip;base64,{X64}"},
            },
        ),
        (
            "anthropic",
            attach("file", "a.png", "image/png"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": X64}},
        ),
        (
            "google",
            attach("audio", "a.flac", "audio/flac"),
            {"inlineData": {"mimeType": "audio/flac", "data": X64}},
        ),
        (
            "google",
            attach("video", "a.mp4", "video/mp4"),
            {"inlineData": {"mimeType": "video/mp4", "data": X64}},
        ),
    ],
)
async def test_audio_and_video_are_sent_as_the_service_takes_them(
    send_body: Make, kind: str, attachment: Attachment, block: Any
) -> None:
    _, find = WIRES["openai" if kind == "azure" else kind]
    assert find(await send_body(kind, Message(role="user", parts=(attachment,)))) == [block]


@pytest.mark.parametrize(
    ("kind", "attachment"),
    [
        ("openai", attach("video", "a.mp4", "video/mp4")),
        ("openai", attach("audio", "a.flac", "audio/flac")),
        ("anthropic", attach("audio", "a.wav", "audio/wav")),
        ("anthropic", attach("video", "a.mp4", "video/mp4")),
        ("anthropic", attach("file", "a.zip", "application/zip")),
    ],
)
async def test_what_an_api_has_no_form_for_is_an_error_and_no_request(
    api: Api, kind: str, attachment: Attachment
) -> None:
    with pytest.raises(TargetError, match=rf"'{attachment.path}' is of type {attachment.media_type}"):
        await api.ask(kind, Message(role="user", parts=(attachment,)))
    assert api.requests == []
    assert not TARGETS.get(kind).takes(attachment.medium, attachment.media_type)


@pytest.mark.parametrize("kind", WIRES)
async def test_an_image_that_is_text_is_sent_as_text(send_body: Make, kind: str) -> None:
    body = json.dumps(await send_body(kind, Message(role="user", parts=(DRAWING,))))
    assert '<file path=\\"a.svg\\">\\n<svg/>\\n</file>' in body
    assert "base64" not in body


@pytest.mark.parametrize("kind", WIRES)
async def test_files_of_a_system_message_and_beside_tool_calls_are_sent_too(
    send_body: Make, kind: str
) -> None:
    system = Message(role="system", content="Rules:", parts=("Rules:", NOTE))
    message = Message(role="assistant", parts=("Calling.", NOTE), tool_calls=(ToolCall(name="t"),))
    tool = Message(role="tool", name="t", parts=("found", NOTE))
    body = json.dumps(await send_body(kind, system, "go", message, tool))
    assert body.count("one\\ntwo") == 3


@pytest.mark.parametrize("kind", WIRES)
async def test_a_message_whose_only_part_is_its_text_differs_in_openais_form_alone(
    send_body: Make, kind: str
) -> None:
    plain = await send_body(kind, "hello")
    parted = await send_body(kind, Message(role="user", content="hello", parts=("hello",)))
    if kind == "openai":
        assert plain["messages"] == [{"role": "user", "content": "hello"}]
        assert parted["messages"] == [{"role": "user", "content": [text("hello")]}]
    else:
        assert plain == parted


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ((QUESTION,), f'Look:\n\n{NOTE_TEXT}\n\n<image: path="a.png">\n\n<file: path="a.pdf">'),
        ((Message(role="user", content="a"), QUESTION), f"user: a\n\nuser: Look:\n\n{NOTE_TEXT}\n\n<image"),
        ((Message(role="user", content="a", parts=("a", "b")),), "a\n\nb"),
        ((Message(role="user", content="a"),), "a"),
        ((), ""),
    ],
)
def test_a_text_has_files_written_out_and_the_rest_mentioned(messages: Any, text: str) -> None:
    assert format_messages(messages).startswith(text)
    assert format_messages(messages, lambda _attachment: "").count("<") == 0


def test_audio_and_videos_are_mentioned_by_their_kind() -> None:
    message = Message(
        role="user",
        parts=(attach("audio", "a.wav", "audio/wav"), attach("video", "b.mp4", "video/mp4")),
    )
    assert format_message(message) == '<audio: path="a.wav">\n\n<video: path="b.mp4">'


def test_a_message_without_parts_is_its_content() -> None:
    assert format_message(Message(role="user", content="<b>\n")) == "<b>\n"


async def test_a_program_and_a_function_get_the_text_of_files(
    opening: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "asked_with_files.py").write_text("def f(text):\n    return text\n", encoding="utf-8")
    program = f"'{sys.executable}' -S -c 'import sys; print(sys.stdin.buffer.read().decode(), end=str())'"
    for kind, model in (("command", program), ("function", "asked_with_files:f")):
        context: TargetContext = opening(PATH="/usr/bin:/bin", LC_ALL="C.UTF-8")
        target = await TARGETS.get(kind).open_target(make_spec(kind, model), context)
        assert (await target.answer(make_prompt(QUESTION))).text == format_message(QUESTION)
