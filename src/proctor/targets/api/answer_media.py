"""Images, audio, video and files in answers, as attachments. Pure."""

from __future__ import annotations

import re
import wave
from collections.abc import Mapping
from io import BytesIO
from typing import Final, Literal

from proctor.model import Attachment

_Kind = Literal["file", "image", "audio", "video"]
_KNOWN_TYPES: Final[Mapping[str, tuple[_Kind, str]]] = {
    "image/png": ("image", "png"),
    "image/jpeg": ("image", "jpg"),
    "image/webp": ("image", "webp"),
    "image/gif": ("image", "gif"),
    "audio/wav": ("audio", "wav"),
    "audio/mpeg": ("audio", "mp3"),
    "audio/mp3": ("audio", "mp3"),
    "audio/ogg": ("audio", "ogg"),
    "audio/flac": ("audio", "flac"),
    "audio/aac": ("audio", "aac"),
    "audio/opus": ("audio", "opus"),
    "video/mp4": ("video", "mp4"),
    "video/webm": ("video", "webm"),
    "application/pdf": ("file", "pdf"),
}
"""The media types that are kept as they are, each with the kind of attachment and the ending of its name."""
_UNKNOWN_TYPE: Final = "application/octet-stream"
_PCM_TYPE: Final = re.compile(r"audio/(l16|pcm)\s*(;.*)?", re.IGNORECASE)
_RATE: Final = re.compile(r"\brate=([1-9]\d{2,5})\b", re.IGNORECASE)
_DEFAULT_RATE: Final = 24_000


def read_media(media_type: str, data: bytes, number: int) -> Attachment:
    """Returns an attachment of an answer; a media type that is not known is that of any file.

    Raw samples, which no program plays, become a WAV file.

    Args:
        media_type: the media type as the service reported it, such as `audio/L16;codec=pcm;rate=24000`.
        data: the content.
        number: its number in the answer, from 1, which is in its name.
    """
    if _PCM_TYPE.fullmatch(media_type):
        rate = _RATE.search(media_type)
        media_type, data = "audio/wav", _to_wav(data, int(rate[1]) if rate else _DEFAULT_RATE)
    media_type = media_type.partition(";")[0].strip().lower()
    if media_type not in _KNOWN_TYPES:
        media_type = _UNKNOWN_TYPE
    kind, ending = _KNOWN_TYPES.get(media_type, ("file", "bin"))
    return Attachment(kind=kind, path=f"{kind}-{number}.{ending}", media_type=media_type, data=data)


def _to_wav(samples: bytes, rate: int) -> bytes:
    """Returns a WAV file of 16-bit little-endian samples of one channel."""
    file = BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(samples)
    return file.getvalue()
