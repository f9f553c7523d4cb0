"""The content parts of OpenAI's chat messages in suites of JSON Lines, and of Inspect's samples."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from proctor.dialects import DIALECTS
from proctor.model import Attachment, Message, Problem
from support import media
from support.suite_files import list_errors, read_rows

ROWS: dict[str, dict[str, Any]] = {
    "pramana": {
        "id": "a",
        "category": "factual",
        "ideal": "x",
        "assertion": {"type": "contains"},
        "metadata": {"difficulty": "easy", "tokens_est": 1},
    },
    "openai_evals": {"ideal": "x"},
    "proctor": {"id": "a", "assertions": [{"grader": "contains", "params": {"value": "x"}}]},
}
OPTIONS: dict[str, Any] = {"openai_evals": {"evals_class": "Match"}}
HEADERS: dict[str, Any] = {"proctor": [{"proctor": 1, "name": "n"}]}
DIALECT_NAMES = list(ROWS)


def to_base64(data: bytes) -> str:
    return b64encode(data).decode()


def data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{to_base64(data)}"


def read_content(dialect: str, *parts: Any) -> tuple[list[Message], list[Problem]]:
    """What a dialect reads in one message of these parts."""
    row = ROWS[dialect] | {"input": [{"role": "user", "content": list(parts)}]}
    _, cases, problems = read_rows(
        DIALECTS.get(dialect), *HEADERS.get(dialect, []), row, **OPTIONS.get(dialect, {})
    )
    return [message for case in cases for message in case.input], problems


TEXT = {"type": "text", "text": "What is it?"}


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@pytest.mark.parametrize(
    ("part", "attachment"),
    [
        (
            {"type": "image_url", "image_url": {"url": data_url("image/png", media.PNG), "detail": "auto"}},
            Attachment(kind="image", path="image.png", media_type="image/png", data=media.PNG),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": to_base64(media.WAV), "format": "wav"}},
            Attachment(kind="audio", path="audio.wav", media_type="audio/wav", data=media.WAV),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": to_base64(media.M4A), "format": "m4a"}},
            Attachment(kind="audio", path="audio.m4a", media_type="audio/mp4", data=media.M4A),
        ),
        (
            {"type": "video_url", "video_url": {"url": data_url("video/mp4", media.MP4)}},
            Attachment(kind="video", path="video.mp4", media_type="video/mp4", data=media.MP4),
        ),
        (
            {
                "type": "file",
                "file": {"filename": "r.pdf", "file_data": data_url("application/pdf", media.PDF)},
            },
            Attachment(kind="file", path="r.pdf", media_type="application/pdf", data=media.PDF),
        ),
        (
            {"type": "file", "file": {"filename": "r", "file_data": to_base64(media.PDF)}},
            Attachment(kind="file", path="r", media_type="application/pdf", data=media.PDF),
        ),
        (
            {"type": "file", "file": {"filename": "n.md", "file_data": data_url("text/markdown", b"one")}},
            Attachment(kind="file", path="n.md", text="one"),
        ),
    ],
)
def test_files_in_content_parts_are_attached(dialect: str, part: Any, attachment: Attachment) -> None:
    messages, problems = read_content(dialect, TEXT, part)
    assert problems == []
    assert messages == [Message(role="user", content="What is it?", parts=("What is it?", attachment))]


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_texts_alone_are_one_text(dialect: str) -> None:
    messages, problems = read_content(dialect, TEXT, {"type": "text", "text": "Be brief."})
    assert (messages, problems) == ([Message(role="user", content="What is it?\n\nBe brief.")], [])


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@pytest.mark.parametrize(
    ("part", "code", "field"),
    [
        ("text", "wrong-type", "content[0]"),
        ({"type": "picture"}, "unknown-value", "content[0].type"),
        ({"type": "text"}, "missing-field", "content[0].text"),
        ({"type": "image_url"}, "missing-field", "content[0].image_url"),
        (
            {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}},
            "not-fetched",
            "content[0].image_url.url",
        ),
        (
            {"type": "image_url", "image_url": {"url": "a.png"}},
            "bad-data-url",
            "content[0].image_url.url",
        ),
        (
            {"type": "image_url", "image_url": {"url": data_url("audio/wav", b"x")}},
            "unknown-image",
            "content[0].image_url.url",
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "???", "format": "wav"}},
            "bad-data-url",
            "content[0].input_audio.data",
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "midi"}},
            "unknown-value",
            "content[0].input_audio.format",
        ),
        ({"type": "file", "file": {"file_id": "file-1"}}, "unsupported", "content[0].file.file_id"),
        ({"type": "text", "text": "a", "size": 1}, "unknown-field", "content[0].size"),
    ],
)
def test_a_part_that_cannot_be_sent_is_an_error(dialect: str, part: Any, code: str, field: str) -> None:
    _, problems = read_content(dialect, part)
    assert list_errors(problems)[:1] == [(code, f"input[0].{field}")]


def test_a_level_of_detail_is_warned_about_because_it_has_no_effect() -> None:
    image = {"url": data_url("image/png", media.PNG), "detail": "high"}
    messages, (problem,) = read_content("proctor", {"type": "image_url", "image_url": image})
    assert (problem.level, problem.code) == ("warning", "no-effect")
    assert len(messages[0].parts) == 1


@pytest.mark.parametrize(
    ("part", "attachment"),
    [
        (
            {"type": "audio", "audio": data_url("audio/wav", media.WAV), "format": "wav"},
            Attachment(kind="audio", path="audio.wav", media_type="audio/wav", data=media.WAV),
        ),
        (
            {"type": "video", "video": data_url("video/mp4", media.MP4), "format": "mp4"},
            Attachment(kind="video", path="video.mp4", media_type="video/mp4", data=media.MP4),
        ),
        (
            {"type": "document", "document": data_url("application/pdf", media.PDF)},
            Attachment(kind="file", path="document.pdf", media_type="application/pdf", data=media.PDF),
        ),
    ],
)
def test_a_sample_of_inspect_has_audio_video_and_documents(part: Any, attachment: Attachment) -> None:
    row = {"input": [{"role": "user", "content": [TEXT, part]}], "target": "x"}
    _, (case,), problems = read_rows(DIALECTS.get("inspect"), row)
    assert list_errors(problems) == []
    assert case.input[0].parts == ("What is it?", attachment)


def test_content_without_a_media_type_gets_that_of_its_bytes() -> None:
    parts = [
        {"kind": "file", "path": "r", "data": to_base64(media.PDF)},
        {"kind": "image", "path": "a.png", "data": to_base64(media.PNG)},
        {"kind": "audio", "path": "speech", "data": to_base64(media.WAV)},
        {"kind": "video", "path": "clip.webm", "data": to_base64(media.WEBM)},
        {"kind": "file", "path": "n.md", "data": to_base64(b"one")},
    ]
    row = ROWS["proctor"] | {"input": [{"role": "user", "parts": parts}]}
    _, (case,), problems = read_rows(DIALECTS.get("proctor"), *HEADERS["proctor"], row)
    types = [part.media_type for part in case.input[0].parts if isinstance(part, Attachment)]
    assert (types, problems) == (
        ["application/pdf", "image/png", "audio/wav", "video/webm", "text/plain"],
        [],
    )


def test_an_audio_part_with_a_file_of_another_type_is_an_error() -> None:
    row = ROWS["proctor"] | {
        "input": [
            {"role": "user", "parts": [{"kind": "audio", "path": "a.pdf", "data": to_base64(media.PDF)}]}
        ]
    }
    _, cases, problems = read_rows(DIALECTS.get("proctor"), *HEADERS["proctor"], row)
    assert (cases, list_errors(problems)) == ([], [("unknown-audio", "input[0].parts[0].path")])
