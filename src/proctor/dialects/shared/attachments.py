"""Turns the bytes of an attached file into text, or into bytes with their media type. Pure.

Digests include the media type, so it comes from the tables here, and not from `mimetypes`, whose tables
differ by machine and by version of Python.
"""

from __future__ import annotations

from posixpath import splitext
from typing import Final

from proctor.model import Attachment, AttachmentKind

IMAGE_MEDIA_TYPES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
    ".bmp": "image/bmp",
    ".heic": "image/heic",
    ".heif": "image/heif",
    ".avif": "image/avif",
}
"""Media types of image files by ending."""
AUDIO_MEDIA_TYPES: Final = {
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",  # RFC 7845
    ".aac": "audio/aac",
    ".aiff": "audio/aiff",
}
"""The same for audio."""
VIDEO_MEDIA_TYPES: Final = {
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".mov": "video/quicktime",
    ".mpeg": "video/mpeg",
    ".mpg": "video/mpeg",
    ".mkv": "video/x-matroska",
    ".avi": "video/x-msvideo",
}
"""The same for videos."""
DOCUMENT_MEDIA_TYPES: Final = {
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".doc": "application/msword",
    ".xls": "application/vnd.ms-excel",
    ".ppt": "application/vnd.ms-powerpoint",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".epub": "application/epub+zip",
    ".zip": "application/zip",
}
"""The same for other files that are not text."""
TEXT_MEDIA_TYPE: Final = "text/plain"
UNKNOWN_MEDIA_TYPE: Final = "application/octet-stream"

_MEDIA_TYPES: Final = IMAGE_MEDIA_TYPES | AUDIO_MEDIA_TYPES | VIDEO_MEDIA_TYPES | DOCUMENT_MEDIA_TYPES
_TYPES_BY_KIND: Final = {
    "image": IMAGE_MEDIA_TYPES,
    "audio": AUDIO_MEDIA_TYPES,
    "video": VIDEO_MEDIA_TYPES,
}
_SIGNATURES: Final = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"fLaC\0", "audio/flac"),
    (b"ID3\x02\0", "audio/mpeg"),
    (b"ID3\x03\0", "audio/mpeg"),
    (b"ID3\x04\0", "audio/mpeg"),
)
"""The first bytes of files of these types, whatever their name."""
_RIFF_TYPES: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_NAMELESS_SIGNATURES: Final = (
    (b"OggS\0", "audio/ogg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"\0\0\x01\xba", "video/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
)
"""The same where the name says nothing: containers of several types, and two bytes that may be chance."""
_MP4_BRANDS: Final = {
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"qt  ": "video/quicktime",
    b"heic": "image/heic",
    b"avif": "image/avif",
}
_CONTAINER_FORMATS: Final = frozenset({"mp4", "ogg", "webm"})
"""Formats that hold sound alone or a video, under two media types."""


def build_attachment(kind: AttachmentKind, path: str, data: bytes) -> Attachment:
    """Builds an attachment: UTF-8 files as text; other files, images, audio and videos as bytes.

    A PDF is bytes even if it is valid UTF-8. The media type follows the content if that is clear, else the
    ending of the path, else the first bytes.
    """
    if kind == "file" and is_text(data):
        return Attachment(kind=kind, path=path, text=data.decode("utf-8-sig").replace("\r\n", "\n"))
    return Attachment(kind=kind, path=path, media_type=detect_media_type(kind, path, data), data=data)


def is_text(data: bytes) -> bool:
    """Whether a file is sent as text: valid UTF-8, and not of a type that its first bytes tell."""
    if _match_signature(data) is not None or _match_nameless_signature(data) is not None:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def detect_media_type(kind: AttachmentKind, path: str, data: bytes) -> str:
    """Returns the media type of bytes, `application/octet-stream` if nothing tells it."""
    media_type = (
        _match_signature(data)
        or _MEDIA_TYPES.get(splitext(path)[1].lower())
        or _match_nameless_signature(data)
        or UNKNOWN_MEDIA_TYPE
    )
    family, _, name = media_type.partition("/")
    if kind in ("audio", "video") and family in ("audio", "video") and name in _CONTAINER_FORMATS:
        return f"{kind}/{name}"
    return media_type


def infer_media_type(attachment: Attachment) -> str | None:
    """Returns the media type of bytes for which none is given; None if they are text or of unknown type."""
    kind, path, data = attachment.kind, attachment.path, attachment.data
    if attachment.text is not None or not data or (kind == "file" and is_text(data)):
        return None
    media_type = detect_media_type(kind, path, data)
    return None if media_type == UNKNOWN_MEDIA_TYPE and kind in ("file", "image") else media_type


def explain_mismatch(attachment: Attachment) -> str | None:
    """Returns what is wrong, as the rest of a sentence, if the bytes are not what their kind says."""
    kind, media_type = attachment.kind, attachment.media_type
    if kind == "file" or attachment.text is not None or media_type.startswith(f"{kind}/"):
        return None
    family = media_type.partition("/")[0]
    other = family if family in _TYPES_BY_KIND else "file"
    if media_type == UNKNOWN_MEDIA_TYPE:
        endings = ", ".join(_TYPES_BY_KIND[kind])
        return f"whose type is unknown. The name of {_NOUNS[kind]} must end in one of {endings}."
    return f"a file of type {media_type}. Write `type: {other}` for it."


_NOUNS: Final = {"image": "an image", "audio": "an audio file", "video": "a video"}


def _match_signature(data: bytes) -> str | None:
    """Returns the media type that the first bytes of a file tell for certain, or None."""
    if data[:4] == b"RIFF":
        return _RIFF_TYPES.get(data[8:12])
    return next((media_type for start, media_type in _SIGNATURES if data.startswith(start)), None)


def _match_nameless_signature(data: bytes) -> str | None:
    if data[:1] == b"\0" and data[4:8] == b"ftyp":
        return _MP4_BRANDS.get(data[8:12], "video/mp4")
    return next((media_type for start, media_type in _NAMELESS_SIGNATURES if data.startswith(start)), None)
