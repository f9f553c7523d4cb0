"""Reads the content parts of OpenAI's chat messages: texts, and files in base64. No URL is fetched."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any, Final

from proctor.dialects.shared.attachments import (
    AUDIO_MEDIA_TYPES,
    UNKNOWN_MEDIA_TYPE,
    build_attachment,
    detect_media_type,
    explain_mismatch,
)
from proctor.dialects.shared.yaml_files import ignore_fields
from proctor.model import Attachment, AttachmentKind, Message
from proctor.validation import FieldReader

CONTENT_PART_TYPES: Final = ("text", "image_url", "input_audio", "video_url", "file")
_DATA_PREFIX: Final = "data:"
_AUDIO_FORMATS: Final = tuple(ending.removeprefix(".") for ending in AUDIO_MEDIA_TYPES)
_WEB_PREFIXES: Final = ("http://", "https://")
_TEXT: Final = {"type": "string", "minLength": 1}


def _object_schema(description: str, required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "description": description,
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


CONTENT_PART_SCHEMA: Final[dict[str, Any]] = {
    "properties": {
        "type": {"description": "The type of the part.", "enum": list(CONTENT_PART_TYPES)},
        "text": {"description": "The text.", "type": "string"},
        "image_url": _object_schema("An image.", ("url",), url=_TEXT, detail=_TEXT),
        "input_audio": _object_schema(
            "Audio in base64.", ("data", "format"), data=_TEXT, format={"enum": list(_AUDIO_FORMATS)}
        ),
        "video_url": _object_schema("A video.", ("url",), url=_TEXT),
        "file": _object_schema("A file in base64.", ("file_data",), filename=_TEXT, file_data=_TEXT),
    },
    "required": ["type"],
    "additionalProperties": False,
}
"""The JSON Schema of a content part, besides its type; a `url` is a data URL."""


def parse_content_parts(message: FieldReader, role: str, name: str | None = None) -> Message:
    """Returns a message whose `content` is a list of parts; problems go to the notes of `message`.

    Args:
        message: the reader of the message; its `content` is read.
        role: the role of the message.
        name: the name of its speaker.
    """
    parts: list[str | Attachment] = []
    for place, item in enumerate(message.pop("content")):
        if not isinstance(item, dict):
            message.report_wrong_type(f"content[{place}]", item, "an object with `type`")
            continue
        part = _parse_part(FieldReader(item, message.problem_log, message.path_to(f"content[{place}].")))
        if part is not None:
            parts.append(part)
    texts = [part for part in parts if isinstance(part, str)]
    return Message(
        role=role,
        content="\n\n".join(texts),
        name=name,
        parts=() if len(texts) == len(parts) else tuple(parts),
    )


def _parse_part(part: FieldReader) -> str | Attachment | None:
    part.drop_null()
    kind = part.choice("type", CONTENT_PART_TYPES)
    result: str | Attachment | None = None
    if kind == "text":
        result = part.text("text")
        if result is None and not part.problem_log.has_error_at(part.path_to("text")):
            part.report_missing("text", "text")
    elif kind:
        inner = part.required_object(kind, "an object")
        if inner is not None:
            inner.drop_null()
            result = _READERS[kind](inner)
    if kind:
        part.finish(("type", kind))
    return result


def _read_image(part: FieldReader) -> Attachment | None:
    if part.peek("detail") == "auto":
        part.pop("detail")
    ignore_fields(part, ("detail",), {})
    return _read_address(part, "image")


def _read_video(part: FieldReader) -> Attachment | None:
    return _read_address(part, "video")


def _read_address(part: FieldReader, kind: AttachmentKind) -> Attachment | None:
    url = part.required_text("url")
    part.finish(("url", "detail") if kind == "image" else ("url",))
    return parse_data_url(url, kind, part, "url") if url else None


def _read_audio(part: FieldReader) -> Attachment | None:
    encoded = part.required_text("data")
    sound_format = part.choice("format", _AUDIO_FORMATS)
    part.finish(("data", "format"))
    data = _decode(encoded, part, "data") if encoded and sound_format else None
    return None if data is None else build_attachment("audio", f"audio.{sound_format}", data)


def _read_file(part: FieldReader) -> Attachment | None:
    if "file_id" in part:
        part.pop("file_id")
        part.error(
            "unsupported", "file_id", "is a file stored at a service; write its content in `file_data`."
        )
        return None
    encoded = part.required_text("file_data")
    name = part.non_blank_text("filename")
    part.finish(("filename", "file_data"))
    if not encoded:
        return None
    if encoded.startswith((_DATA_PREFIX, *_WEB_PREFIXES)):
        file = parse_data_url(encoded, "file", part, "file_data", name)
        if file is None:
            return None
        built = build_attachment("file", file.path, file.data)
        return built if built.text is not None else file
    data = _decode(encoded, part, "file_data")
    return None if data is None else build_attachment("file", name or "document", data)


_READERS: Final = {
    "image_url": _read_image,
    "input_audio": _read_audio,
    "video_url": _read_video,
    "file": _read_file,
}


def parse_data_url(
    url: str, kind: AttachmentKind, fields: FieldReader, field: str, path: str | None = None
) -> Attachment | None:
    """Returns the attachment in a base64 data URL (RFC 2397), or None and an error.

    Args:
        url: the data URL.
        kind: what its field says that it is.
        fields: the object that has it.
        field: its field there.
        path: its name; None for one made of its type.
    """
    if url.startswith(_WEB_PREFIXES):
        fields.error(
            "not-fetched", field, "is a URL, and Proctor does not fetch files; write the file as a data URL."
        )
        return None
    about, _, encoded = url.removeprefix(_DATA_PREFIX).partition(",")
    media_type, _, coding = about.partition(";")
    if not url.startswith(_DATA_PREFIX) or coding.rpartition(";")[2] != "base64" or not media_type:
        fields.error("bad-data-url", field, "is not a data URL in base64, such as data:image/png;base64,….")
        return None
    data = _decode(encoded, fields, field)
    if data is None:
        return None
    name = path or f"{'document' if kind == 'file' else kind}.{media_type.rpartition('/')[2]}"
    if media_type == UNKNOWN_MEDIA_TYPE:
        media_type = detect_media_type(kind, name, data)
    attachment = Attachment(kind=kind, path=name, media_type=media_type, data=data)
    mismatch = explain_mismatch(attachment)
    if mismatch is not None:
        fields.error(f"unknown-{kind}", field, f"is {mismatch}")
        return None
    return attachment


def _decode(encoded: str, fields: FieldReader, field: str) -> bytes | None:
    try:
        return b64decode(encoded, validate=True)
    except (NotBase64, ValueError):
        fields.error("bad-data-url", field, "is not valid base64.")
        return None
