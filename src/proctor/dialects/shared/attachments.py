"""Turns the bytes of an attached file into text, or into bytes with their media type. Pure."""

from __future__ import annotations

from posixpath import splitext
from typing import Final, Literal

from proctor.model import Attachment

IMAGE_MEDIA_TYPES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
    ".bmp": "image/bmp",
}
"""Media types of image files by ending."""
DOCUMENT_MEDIA_TYPES: Final = {
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".mp3": "audio/mpeg",
    ".mp4": "video/mp4",
    ".wav": "audio/wav",
    ".mkv": "video/x-matroska",
}
"""The same for other files. Not `mimetypes`, which differs by machine: digests include the type."""
_SIGNATURES: Final = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
"""The first bytes of files of these types."""


def build_attachment(kind: Literal["file", "image"], path: str, data: bytes) -> Attachment:
    """Builds an attachment: UTF-8 files as text, other files and all images as bytes.

    A PDF is bytes even if it is valid UTF-8. The media type follows the content if that is clear, else the
    ending of the path.
    """
    media_type = _detect_media_type(data)
    if kind == "file" and media_type is None:
        try:
            text = data.decode("utf-8-sig").replace("\r\n", "\n")
            return Attachment(kind=kind, path=path, text=text)
        except UnicodeDecodeError:
            pass
    if media_type is None:
        types = IMAGE_MEDIA_TYPES | DOCUMENT_MEDIA_TYPES
        media_type = types.get(splitext(path)[1].lower(), "application/octet-stream")
    return Attachment(kind=kind, path=path, media_type=media_type, data=data)


def _detect_media_type(data: bytes) -> str | None:
    """Returns the media type by the first bytes of a file, or None."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for start, media_type in _SIGNATURES if data.startswith(start)), None)
