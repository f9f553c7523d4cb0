"""Images and audio in answers as attachments. Pure: no address in an answer is ever opened.

The data of an answer is not trusted to have the type that it claims: only the media types of
`KNOWN_MEDIA_TYPES` are kept, and all else becomes a file of bytes.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Any, Final, Literal

from proctor.lazy_pattern import lazy_pattern
from proctor.model import Attachment

KNOWN_MEDIA_TYPES: Final[dict[str, tuple[Literal["image", "audio", "video", "file"], str]]] = {
    "image/png": ("image", "png"),
    "image/jpeg": ("image", "jpg"),
    "image/webp": ("image", "webp"),
    "image/gif": ("image", "gif"),
    "audio/wav": ("audio", "wav"),
    "audio/mpeg": ("audio", "mp3"),
    "audio/flac": ("audio", "flac"),
    "audio/ogg": ("audio", "ogg"),
    "video/mp4": ("video", "mp4"),
    "application/pdf": ("file", "pdf"),
}
"""The media types that attachments of answers may have, each with the kind and ending of its attachment."""
UNKNOWN_MEDIA_TYPE: Final = "application/octet-stream"
_DATA_URI = lazy_pattern(r"data:([^,;]*)(?:;[^,;]*)*?;base64,(.*)", re.DOTALL | re.IGNORECASE)
_SIGNATURES: Final = (
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
    (re.compile(rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]"), "audio/mpeg"),
    (re.compile(rb"fLaC"), "audio/flac"),
    (re.compile(rb"OggS"), "audio/ogg"),
)
"""The beginnings of audio files, each with its media type."""


def make_attachment(data: bytes, media_type: str, number: int) -> Attachment:
    """Returns data of an answer as an attachment whose path is its position, such as `answer-1.png`."""
    kind, ending = KNOWN_MEDIA_TYPES.get(media_type.strip().lower(), ("file", ""))
    if not ending:
        return Attachment(kind=kind, path=f"answer-{number}.bin", media_type=UNKNOWN_MEDIA_TYPE, data=data)
    media_type = media_type.strip().lower()
    return Attachment(kind=kind, path=f"answer-{number}.{ending}", media_type=media_type, data=data)


def parse_media_url(url: Any, number: int) -> Attachment | None:
    """Returns the data in a `data:` URI; any other address as a text. None if it is neither."""
    if not isinstance(url, str) or not url:
        return None
    match = _DATA_URI.fullmatch(url)
    if match is None:
        path = f"answer-{number}.uri"
        return Attachment(kind="file", path=path, media_type="text/uri-list", text=url)
    data = decode_base64(match[2])
    return None if data is None else make_attachment(data, match[1], number)


def parse_audio(encoded: Any, number: int) -> Attachment | None:
    """Returns audio in Base64, its media type by its first bytes; None if there is none."""
    data = decode_base64(encoded)
    if not data:
        return None
    media_type = next((name for pattern, name in _SIGNATURES if pattern.match(data)), "")
    return make_attachment(data, media_type, number)


def decode_base64(encoded: Any) -> bytes | None:
    """Returns the bytes of a text in Base64, with or without its padding; None if it is no such text."""
    if not isinstance(encoded, str):
        return None
    text = "".join(encoded.split()).rstrip("=")
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
