"""Parses the `input` of an Inspect sample: a text, or messages whose content is a text or several parts.

Images and documents are attached from a data URL or from a file beside the dataset. No URL is fetched.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any, Final, Literal

from proctor.dialects.agentv.read.messages import attached
from proctor.dialects.shared.yaml_files import without_effect
from proctor.model import Attachment, Message
from proctor.protocols import Source
from proctor.validation import Fields

ROLES: Final = ("system", "user", "assistant")
KINDS: Final = ("text", "image", "document")
_UNSENT: Final = ("id", "source", "metadata", "model")
"""Fields of a message that a model never sees."""
_ATTACHED: Final[dict[str, Literal["file", "image"]]] = {"image": "image", "document": "file"}
_ADDRESSES: Final = ("http://", "https://")
_DATA: Final = "data:"


def messages_of(fields: Fields, source: Source) -> tuple[Message, ...]:
    """Returns the messages of a sample; problems go to the notes of `fields`."""
    value = fields.take("input")
    if isinstance(value, str) and value.strip():
        return (Message(role="user", content=value),)
    if not value or isinstance(value, str):
        fields.error("missing-prompt", "input", "is missing or blank; write the prompt or its messages.")
    elif not isinstance(value, list):
        fields.wrong("input", value, "text or a list of messages")
    else:
        messages = tuple(
            _message(item, f"input[{place}]", fields, source) for place, item in enumerate(value)
        )
        blank = not any(message.content.strip() or message.parts for message in messages)
        if blank and not fields.notes.noted("input"):
            fields.error("missing-prompt", "input", "is blank; write the prompt.")
        return messages
    return ()


def _message(item: Any, place: str, fields: Fields, source: Source) -> Message:
    if not isinstance(item, dict):
        fields.wrong(place, item, "an object with `role` and `content`")
        return Message(role="user")
    row = Fields(item, fields.notes, f"{place}.")
    row.forgive_null(*row.names())
    if item.get("role") == "tool" or "tool_calls" in row:
        row.error("unsupported", "role", "belongs to calls of tools, which are not read; leave them out.")
        return Message(role="user")
    role = row.choice("role", ROLES)
    content: Any = row.take("content")
    parts: tuple[str | Attachment, ...] = ()
    if isinstance(content, list):
        parts_read = (_part(part, f"content[{at}]", row, source) for at, part in enumerate(content))
        parts = tuple(part for part in parts_read if part is not None)
        alone = all(isinstance(part, str) for part in parts)
        content = ("\n" if alone else "\n\n").join(part for part in parts if isinstance(part, str))
        parts = () if alone else parts
    elif not isinstance(content, str):
        row.wrong("content", content, "text or a list of parts")
        content = ""
    without_effect(row, _UNSENT, {})
    row.finish(("role", "content"))
    return Message(role=role, content=content, parts=parts)


def _part(item: Any, place: str, row: Fields, source: Source) -> str | Attachment | None:
    if not isinstance(item, dict):
        row.wrong(place, item, "an object with `type`")
        return None
    part = Fields(item, row.notes, row.place(f"{place}."))
    kind = part.choice("type", KINDS)
    if not kind:
        return None
    value = part.required_text(kind)
    if kind == "text":
        return value
    if value.startswith(_ADDRESSES):
        part.error(
            "not-fetched", kind, "is an address, and none is opened; save the file beside the dataset."
        )
        return None
    if value.startswith(_DATA):
        return _of_data(value, kind, part)
    return attached(_ATTACHED[kind], value, row.notes, part.place(kind), None, source) if value else None


def _of_data(url: str, kind: str, part: Fields) -> Attachment | None:
    """Decodes a base64 data URL (RFC 2397)."""
    about, _, encoded = url.removeprefix(_DATA).partition(",")
    media_type, _, coding = about.partition(";")
    try:
        if coding != "base64" or not media_type:
            raise NotBase64
        data = b64decode(encoded, validate=True)
    except NotBase64:
        part.error("bad-data-url", kind, "is no data URL in base64, such as data:image/png;base64,….")
        return None
    name = f"{kind}.{media_type.rpartition('/')[2]}"
    return Attachment(kind=_ATTACHED[kind], path=name, media_type=media_type, data=data)
