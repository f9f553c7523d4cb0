"""The bytes of an attached file to what is sent: a text, or bytes with their media type."""

from __future__ import annotations

import pytest

from proctor.dialects.agentv.dialect import DIALECT
from proctor.dialects.shared.attachments import build_attachment
from proctor.model import Attachment, Problem
from support.suite_files import find_in, make_source, split_items

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
    ],
)
def test_the_type_of_a_file_follows_its_content_then_its_name(
    path: str, data: bytes, media_type: str
) -> None:
    made = build_attachment("file", path, data)
    assert (made.media_type, made.data, made.text) == (media_type, data, None)


@pytest.mark.parametrize("path", ["a.txt", "a.md", "a.csv", "a", "a.pdf", "a.png"])
def test_a_file_of_letters_is_sent_as_text(path: str) -> None:
    made = build_attachment("file", path, "\ufeffone\r\ntwo".encode())
    assert (made.media_type, made.text, made.data) == ("text/plain", "one\ntwo", b"")


def test_an_image_is_sent_as_bytes_even_where_it_is_text() -> None:
    made = build_attachment("image", "a.svg", b"<svg/>")
    assert (made.media_type, made.text, made.data) == ("image/svg+xml", None, b"<svg/>")


def blocks(kind: str, name: str, data: bytes) -> tuple[list[Attachment], list[Problem]]:
    """What a block of an agentv suite sends of a file."""
    content = f"[{{type: {kind}, value: {name}}}]"
    text = f"tests: [{{id: a, criteria: c, input: [{{role: user, content: {content}}}]}}]"
    _, cases, problems = split_items(
        DIALECT.read(make_source(text, "s.yaml", find_file=find_in({name: data})))
    )
    parts = [part for case in cases for message in case.input for part in message.parts]
    return [part for part in parts if isinstance(part, Attachment)], problems


def test_a_pdf_in_a_file_block_is_sent_as_a_pdf() -> None:
    assert blocks("file", "docs/r.pdf", PDF) == (
        [Attachment(kind="file", path="docs/r.pdf", media_type="application/pdf", data=PDF)],
        [],
    )


def test_an_image_block_with_a_pdf_under_the_name_of_an_image_is_an_error() -> None:
    sent, (problem,) = blocks("image", "r.png", PDF)
    assert (sent, problem.code) == ([], "unknown-image")
    assert "'r.png', a file of type application/pdf. Write `type: file`" in problem.message
