"""Raw samples of sound, which no program plays, as WAV files. Pure."""

from __future__ import annotations

import re
import wave
from io import BytesIO
from typing import Final

_PCM_TYPE: Final = re.compile(r"audio/(l16|pcm)\s*(;.*)?", re.IGNORECASE)
_RATE: Final = re.compile(r"\brate=([1-9]\d{2,5})\b", re.IGNORECASE)
_DEFAULT_RATE: Final = 24_000


def wrap_samples(data: bytes, media_type: str) -> tuple[bytes, str]:
    """Returns samples as a WAV file with its media type; anything else as it is.

    Args:
        data: 16-bit little-endian samples of one channel.
        media_type: their type with their rate, such as `audio/L16;codec=pcm;rate=24000`.
    """
    if not _PCM_TYPE.fullmatch(media_type):
        return data, media_type
    rate = _RATE.search(media_type)
    file = BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(int(rate[1]) if rate else _DEFAULT_RATE)
        writer.writeframes(data)
    return file.getvalue(), "audio/wav"
