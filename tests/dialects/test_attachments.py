"""Attached files are sent as text, or as bytes with their media type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proctor.dialects.agentv.dialect import DIALECT
from proctor.dialects.shared.attachments import build_attachment
from proctor.model import Attachment, Problem
from proctor.services.suites.load import load_suite
from support import media
from support.suite_files import find_in, make_source, split_items, write_files

PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
PNG = b"\x89PNG\r\n\x1a\n\x00"
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF"
WEBP = b"RIFF\x24\x00\x00\x00WEBPVP8 "


@pytest.mark.parametrize(
    ("path", "data", "media_type"),
    [
        ("report.pdf", PDF, "application/pdf"),
        ("REPORT.PDF", b"\xff", "application/pdf"),
        ("report", PDF, "application/pdf"),
        ("report.txt", b"%PDF-1.4\nplain letters only", "application/pdf"),
        ("photo.png", PNG, "image/png"),
        ("photo.png", JPEG, "image/jpeg"),
        ("photo.jpg", WEBP, "image/webp"),
        ("photo.bin", b"GIF89a\xff", "image/gif"),
        ("photo.bmp", b"BM\xff", "image/bmp"),
        (
            "table.xlsx",
            b"PK\x03\x04\xff",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        ),
        ("speech.mp3", b"ID3\xff", "audio/mpeg"),
        ("noise.bin", b"\x00\xff", "application/octet-stream"),
        ("speech", media.WAV, "audio/wav"),
        ("speech.mp3", media.WAV, "audio/wav"),
        ("speech", media.MP3, "audio/mpeg"),
        ("speech", b"\xff\xfb\x90\0", "audio/mpeg"),
        ("speech", b"\xff\xf1\x50", "audio/aac"),
        ("speech", media.FLAC, "audio/flac"),
        ("speech", media.OGG, "audio/ogg"),
        ("speech.opus", media.OGG, "audio/ogg"),
        ("speech", media.M4A, "audio/mp4"),
        ("speech.m4a", media.MP4, "audio/mp4"),
        ("clip", media.MP4, "video/mp4"),
        ("clip", media.MOV, "video/quicktime"),
        ("clip.mov", media.MP4, "video/quicktime"),
        ("clip", media.WEBM, "video/webm"),
        ("clip.MPEG", b"\xff", "video/mpeg"),
        ("letter.doc", b"\xd0\xcf", "application/msword"),
    ],
)
def test_the_type_of_a_file_follows_its_content_then_its_name(
    path: str, data: bytes, media_type: str
) -> None:
    attachment = build_attachment("file", path, data)
    assert (attachment.media_type, attachment.data, attachment.text) == (media_type, data, None)


@pytest.mark.parametrize("path", ["a.txt", "a.md", "a.csv", "a", "a.pdf", "a.png"])
def test_a_text_file_is_sent_as_text(path: str) -> None:
    attachment = build_attachment("file", path, "\ufeffone\r\ntwo".encode())
    assert (attachment.media_type, attachment.text, attachment.data) == ("text/plain", "one\ntwo", b"")


def test_a_text_that_begins_like_a_recording_stays_a_text() -> None:
    attachment = build_attachment("file", "notes.txt", b"ID3 is an algorithm, OggS a container.")
    assert (attachment.media_type, attachment.data) == ("text/plain", b"")


@pytest.mark.parametrize(
    ("kind", "path", "data", "media_type"),
    [
        ("audio", "a.mp4", media.MP4, "audio/mp4"),
        ("audio", "a", media.WEBM, "audio/webm"),
        ("video", "a.ogg", media.OGG, "video/ogg"),
        ("video", "a.mp4", media.MP4, "video/mp4"),
    ],
)
def test_the_kind_in_the_suite_decides_whether_a_container_is_audio_or_video(
    kind: Any, path: str, data: bytes, media_type: str
) -> None:
    assert build_attachment(kind, path, data).media_type == media_type


@pytest.mark.parametrize(
    ("attachment", "medium"),
    [
        (Attachment(kind="file", path="a", text="one"), "text"),
        (Attachment(kind="image", path="a", text="<svg/>"), "text"),
        (Attachment(kind="image", path="a", media_type="image/png", data=b"x"), "image"),
        (Attachment(kind="audio", path="a", media_type="audio/wav", data=b"x"), "audio"),
        (Attachment(kind="file", path="a", media_type="application/pdf", data=b"x"), "pdf"),
        (Attachment(kind="file", path="a", media_type="audio/wav", data=b"x"), "audio"),
        (Attachment(kind="file", path="a", media_type="video/mp4", data=b"x"), "video"),
        (Attachment(kind="file", path="a", media_type="application/zip", data=b"x"), "file"),
    ],
)
def test_the_medium_of_a_file_follows_its_media_type(attachment: Attachment, medium: str) -> None:
    assert attachment.medium == medium


def test_an_image_is_sent_as_bytes_even_if_it_is_text() -> None:
    attachment = build_attachment("image", "a.svg", b"<svg/>")
    assert (attachment.media_type, attachment.text, attachment.data) == ("image/svg+xml", None, b"<svg/>")


def read_block(kind: str, name: str, data: bytes) -> tuple[list[Attachment], list[Problem]]:
    """The attachments and problems of a content block with a file in an agentv suite."""
    content = f"[{{type: {kind}, value: {name}}}]"
    text = f"tests: [{{id: a, criteria: c, input: [{{role: user, content: {content}}}]}}]"
    _, cases, problems = split_items(
        DIALECT.read(make_source(text, "s.yaml", find_file=find_in({name: data})))
    )
    parts = [part for case in cases for message in case.input for part in message.parts]
    return [part for part in parts if isinstance(part, Attachment)], problems


def test_a_pdf_in_a_file_block_is_sent_as_a_pdf() -> None:
    assert read_block("file", "docs/r.pdf", PDF) == (
        [Attachment(kind="file", path="docs/r.pdf", media_type="application/pdf", data=PDF)],
        [],
    )


def test_an_image_block_with_a_pdf_under_the_name_of_an_image_is_an_error() -> None:
    attachments, (problem,) = read_block("image", "r.png", PDF)
    assert (attachments, problem.code) == ([], "unknown-image")
    assert "'r.png', a file of type application/pdf. Write `type: file`" in problem.message


@pytest.mark.parametrize(
    ("kind", "name", "data", "media_type"),
    [
        ("audio", "a.wav", media.WAV, "audio/wav"),
        ("audio", "a.mp3", media.MP3, "audio/mpeg"),
        ("audio", "a.flac", media.FLAC, "audio/flac"),
        ("audio", "a.m4a", media.M4A, "audio/mp4"),
        ("audio", "a.ogg", media.OGG, "audio/ogg"),
        ("audio", "a.opus", media.OGG, "audio/ogg"),
        ("audio", "a.aac", b"\xff\xf1", "audio/aac"),
        ("audio", "recording", media.WAV, "audio/wav"),
        ("video", "a.mp4", media.MP4, "video/mp4"),
        ("video", "a.webm", media.WEBM, "video/webm"),
        ("video", "a.mov", media.MOV, "video/quicktime"),
        ("video", "a.mpeg", b"\0\0\x01\xba", "video/mpeg"),
        ("file", "a.mp3", media.MP3, "audio/mpeg"),
    ],
)
def test_audio_and_video_blocks_are_read_with_their_media_type(
    kind: Any, name: str, data: bytes, media_type: str
) -> None:
    assert read_block(kind, name, data) == (
        [Attachment(kind=kind, path=name, media_type=media_type, data=data)],
        [],
    )


@pytest.mark.parametrize(
    ("kind", "name", "data", "words"),
    [
        ("audio", "a.mov", media.MOV, "a file of type video/quicktime. Write `type: video`"),
        (
            "audio",
            "a.bin",
            b"\xfe",
            "whose type is unknown. The name of an audio file must end in one of .wav",
        ),
        ("video", "a.pdf", media.PDF, "a file of type application/pdf. Write `type: file`"),
        ("image", "a.png", media.WAV, "a file of type audio/wav. Write `type: audio`"),
    ],
)
def test_a_block_with_a_file_of_another_type_is_an_error_that_says_what_to_write(
    kind: str, name: str, data: bytes, words: str
) -> None:
    attachments, (problem,) = read_block(kind, name, data)
    assert (attachments, problem.code) == ([], f"unknown-{kind}")
    assert words in problem.message


def test_a_suite_with_texts_images_and_pdfs_keeps_its_digest(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "n.md": b"one\r\ntwo",
            "a.png": b"\x89PNG\r\n\x1a\n\xff",
            "b.jpg": b"\xff\xd8\xff\xe0",
            "r.pdf": b"%PDF-1.7\n\xff",
            "s.yaml": "tests:\n- id: a\n  criteria: c\n  input:\n  - role: user\n    content: [look, "
            "{type: file, value: n.md}, {type: image, value: a.png}, {type: file, value: b.jpg}, "
            "{type: file, value: r.pdf}]\n",
        },
    )
    digest = "sha256:ce950cd3d02d40c5c93e8c43665e02adda03568e3fa475cc461ee236bbd43d85"
    assert load_suite(tmp_path / "s.yaml").suite.digest == digest
