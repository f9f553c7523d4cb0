"""Parses the `input` of an Inspect sample: a text, or messages whose content is a text or several parts.

Images, documents, audio and videos are attached from a data URL or from a file beside the dataset. No URL is
fetched.
"""

from __future__ import annotations

from typing import Any, Final

from proctor.dialects.agentv.read.messages import read_attachment
from proctor.dialects.shared.attachments import AUDIO_MEDIA_TYPES, VIDEO_MEDIA_TYPES
from proctor.dialects.shared.content_parts import parse_data_url
from proctor.dialects.shared.yaml_files import ignore_fields
from proctor.model import Attachment, AttachmentKind, Message
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader

ROLES: Final = ("system", "user", "assistant")
PART_TYPES: Final = ("text", "image", "document", "audio", "video")
_UNSENT_FIELDS: Final = ("id", "source", "metadata", "model")
"""Fields of a message that a model never sees."""
_ATTACHMENT_KINDS: Final[dict[str, AttachmentKind]] = {
    "image": "image",
    "document": "file",
    "audio": "audio",
    "video": "video",
}
_FORMATS: Final = {
    "audio": tuple(ending.removeprefix(".") for ending in AUDIO_MEDIA_TYPES),
    "video": tuple(ending.removeprefix(".") for ending in VIDEO_MEDIA_TYPES),
}
"""The values of `format` in parts that have one."""
_DATA_PREFIX: Final = "data:"


def parse_messages(fields: FieldReader, source: SuiteSource) -> tuple[Message, ...]:
    """Returns the messages of a sample; problems go to the notes of `fields`."""
    value = fields.pop("input")
    if isinstance(value, str) and value.strip():
        return (Message(role="user", content=value),)
    if not value or isinstance(value, str):
        fields.error(
            "missing-prompt", "input", "is missing or blank; write the prompt or a list of messages."
        )
    elif not isinstance(value, list):
        fields.report_wrong_type("input", value, "text or a list of messages")
    else:
        messages = tuple(
            _parse_message(item, f"input[{place}]", fields, source) for place, item in enumerate(value)
        )
        blank = not any(message.content.strip() or message.parts for message in messages)
        if blank and not fields.problem_log.has_error_at("input"):
            fields.error("missing-prompt", "input", "is blank; write the prompt.")
        return messages
    return ()


def _parse_message(item: Any, place: str, fields: FieldReader, source: SuiteSource) -> Message:
    if not isinstance(item, dict):
        fields.report_wrong_type(place, item, "an object with `role` and `content`")
        return Message(role="user")
    row = FieldReader(item, fields.problem_log, f"{place}.")
    row.drop_null()
    if item.get("role") == "tool" or "tool_calls" in row:
        row.error(
            "unsupported",
            "role",
            "belongs to tool calls, which Proctor does not read from Inspect datasets; remove it.",
        )
        return Message(role="user")
    role = row.choice("role", ROLES)
    content: Any = row.pop("content")
    parts: tuple[str | Attachment, ...] = ()
    if isinstance(content, list):
        parts_read = (_parse_part(part, f"content[{at}]", row, source) for at, part in enumerate(content))
        parts = tuple(part for part in parts_read if part is not None)
        alone = all(isinstance(part, str) for part in parts)
        content = ("\n" if alone else "\n\n").join(part for part in parts if isinstance(part, str))
        parts = () if alone else parts
    elif not isinstance(content, str):
        row.report_wrong_type("content", content, "text or a list of parts")
        content = ""
    ignore_fields(row, _UNSENT_FIELDS, {})
    row.finish(("role", "content"))
    return Message(role=role, content=content, parts=parts)


def _parse_part(item: Any, place: str, row: FieldReader, source: SuiteSource) -> str | Attachment | None:
    if not isinstance(item, dict):
        row.report_wrong_type(place, item, "an object with `type`")
        return None
    part = FieldReader(item, row.problem_log, row.path_to(f"{place}."))
    kind = part.choice("type", PART_TYPES)
    if not kind:
        return None
    value = part.required_text(kind)
    if kind == "text":
        return value
    if kind in _FORMATS and "format" in part:  # the name or the bytes tell it, too
        part.choice("format", _FORMATS[kind])
    if value.startswith(("http://", "https://")):
        part.error(
            "not-fetched",
            kind,
            "is a URL, and Proctor does not fetch files; save the file beside the dataset.",
        )
        return None
    what = _ATTACHMENT_KINDS[kind]
    if value.startswith(_DATA_PREFIX):
        return parse_data_url(value, what, part, kind)
    if not value:
        return None
    return read_attachment(what, value, row.problem_log, part.path_to(kind), None, source)
