"""Sends attachments: their bytes, as a download that no browser runs, and how a page can show them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from starlette.responses import Response

from proctor.model import Attachment
from proctor.reports.runs.answer_parts import IMAGE_TYPES, attachment_data

Player = Literal["image", "audio", "video"]
"""The element that shows an attachment."""

_AUDIO_TYPES = ("audio/wav", "audio/mpeg", "audio/mp4", "audio/ogg", "audio/webm", "audio/flac", "audio/aac")
_VIDEO_TYPES = ("video/mp4", "video/webm", "video/ogg", "video/quicktime")
PLAYERS: Final[Mapping[str, Player]] = {
    **dict.fromkeys(IMAGE_TYPES, "image"),
    **dict.fromkeys(_AUDIO_TYPES, "audio"),
    **dict.fromkeys(_VIDEO_TYPES, "video"),
}
"""Media types that browsers only draw or play, each with the element that does."""
_DOWNLOAD_TYPES = frozenset({*PLAYERS, "application/pdf"})
"""Media types under which attachments are sent; any other is sent as bytes."""
_BYTE_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})?", re.ASCII)


def make_media_response(attachment: Attachment, byte_range: str = "") -> Response:
    """Returns the bytes of an attachment as a download.

    Args:
        attachment: what to send.
        byte_range: the header `Range` of a player, which seeks or does not begin without an answer to it.
    """
    data = attachment_data(attachment)
    media_type = attachment.media_type
    kind = media_type if media_type in _DOWNLOAD_TYPES else "application/octet-stream"
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", attachment.path.rpartition("/")[2])[-80:].lstrip(".")
    headers = {
        "accept-ranges": "bytes",
        "content-disposition": f'attachment; filename="{name or "attachment"}"',
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
    }
    requested = _parse_range(byte_range, len(data))
    if requested is None:
        return Response(data, media_type=kind, headers=headers)
    headers["content-range"] = f"bytes {requested.start}-{requested.stop - 1}/{len(data)}"
    return Response(data[requested], 206, media_type=kind, headers=headers)


def _parse_range(header: str, size: int) -> slice | None:
    """Returns the bytes that are requested; None for all of them."""
    match = _BYTE_RANGE.fullmatch(header.strip())
    if match is None:
        return None
    start, end = int(match[1]), min(int(match[2]) + 1, size) if match[2] else size
    return slice(start, end) if start < end else None
