"""`input`, `input_files` and `expected_output` of the dialect agentv to messages and expected values.

An input is a text, an object or a list of messages; the content of a message is a text, an object or a list
of blocks: texts, files and images. Files are read here, so that a case holds everything that is sent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, cast

from proctor.dialects.agentv.shared import finish, resolved, texts_of
from proctor.dialects.shared.attachments import IMAGES, attachment
from proctor.dialects.shared.jsonl import file_name
from proctor.dialects.shared.yaml_files import file_of, without_effect
from proctor.model import Attachment, Message, ToolCall
from proctor.protocols import Source
from proctor.validation import Fields, Notes
from proctor.yaml12 import plain

ROLES: Final = ("system", "user", "assistant", "tool")
BLOCKS: Final = ("text", "file", "image")
MESSAGE: Final = ("role", "content", "name", "tool_calls")
BLOCK: Final = ("type", "value")
TOOL_CALL: Final = ("tool", "input", "output", "id", "duration_ms", "start_time", "end_time")

Parts = tuple[str | Attachment, ...]


# --- input -------------------------------------------------------------------------------------------------


def input_of(
    fields: Fields, name: str, source: Source, files: Sequence[Attachment] = ()
) -> tuple[Message, ...]:
    """Returns the messages of a required input; an empty tuple and an error if it has none.

    Args:
        fields: the object that has it.
        name: the name of the field.
        source: finds the files.
        files: go before a text; an error with anything else.
    """
    value: Any = fields.take(name)
    text = _text(value, fields, name)
    if files and text is None and value is not None:
        message = "is no text, so `input_files` cannot go with it. Write blocks of type 'file' in a message."
        fields.error("conflicting-fields", name, message)
    messages: tuple[Message, ...] = ()
    if text is not None:
        parts: Parts = (*files, text) if files else ()
        messages = (Message(role="user", content=text, parts=parts),)
    elif isinstance(value, dict):
        place = fields.place(name)
        single = _message(value, place, fields.notes, source) if "role" in value else None
        messages = (single or Message(role="user", content=pretty(value)),)
    elif isinstance(value, list) and value:
        messages = _messages(value, fields, name, source)
    else:
        fields.wrong(name, value, "text, an object or a list of messages")
        return ()
    blank = not any(message.content.strip() or message.parts or message.tool_calls for message in messages)
    if blank and not fields.notes.noted(fields.place(name)):
        fields.error("missing-field", name, "is blank; write what the target is asked.")
    return messages


def files_of(fields: Fields, name: str, source: Source) -> tuple[Attachment, ...]:
    """Returns the files of `input_files`; a missing file is an error."""
    attachments = [
        attached("file", path, fields.notes, field, fields.line_of(field), source)
        for place, path in enumerate(texts_of(fields, name))
        for field in (f"{name}[{place}]",)
    ]
    return tuple([file for file in attachments if file is not None])


def _messages(value: list[Any], fields: Fields, name: str, source: Source) -> tuple[Message, ...]:
    messages: list[Message] = []
    for place, item in enumerate(value):
        field = f"{name}[{place}]"
        if isinstance(item, dict):
            messages.append(_message(item, fields.place(field), fields.notes, source))
        else:
            fields.wrong(field, item, "a message: an object with `role` and `content`")
    return tuple(messages)


def _message(row: dict[str, Any], place: str, notes: Notes, source: Source) -> Message:
    fields = Fields(row, notes, place + ".")
    role, name, calls = _around(fields, place)
    content: Any = fields.take("content")
    text = _text(content, fields, "content")
    parts: Parts = ()
    if text is None and isinstance(content, list):
        parts = _blocks(content, fields, source)
        text = _join_texts(parts)
        if all(isinstance(part, str) for part in parts):
            parts = ()
    elif text is None and isinstance(content, dict):
        text = pretty(content)
    elif text is None and not (content is None and calls):
        fields.wrong("content", content, "text, an object or a list of blocks")
    finish(fields, MESSAGE)
    return Message(role=role, content=text or "", name=name, tool_calls=_calls(calls), parts=parts)


def _around(fields: Fields, place: str) -> tuple[str, str | None, list[dict[str, Any]]]:
    """Returns the role, name and tool calls of a message."""
    fields.forgive_null("name", "content", "tool_calls")
    role = fields.choice("role", ROLES)
    name = fields.text("name")
    calls: Any = fields.take("tool_calls")
    if calls is None:
        return role, name, []
    if not isinstance(calls, list):
        fields.wrong("tool_calls", calls, "a list of calls, each with `tool` and `input`")
        return role, name, []
    good: list[dict[str, Any]] = []
    for at, call in enumerate(calls):
        field = f"tool_calls[{at}]"
        if isinstance(call, dict):
            good.append(_call(Fields(call, fields.notes, f"{place}.{field}.")))
        else:
            fields.wrong(field, call, "an object with `tool` and `input`")
    return role, name, good


def _call(fields: Fields) -> dict[str, Any]:
    """Returns one checked tool call as plain data."""
    fields.forgive_null(*fields.names())
    call: dict[str, Any] = {"tool": fields.required_text("tool")}
    if "input" in fields:
        call["input"] = fields.take("input")
        if not isinstance(call["input"], dict):
            fields.wrong("input", call["input"], "an object with the arguments")
    if "output" in fields:
        call["output"] = fields.take("output")
    call["id"] = fields.text("id")
    call["duration_ms"] = fields.number("duration_ms")
    without_effect(fields, ("start_time", "end_time"), call)
    finish(fields, TOOL_CALL)
    return {name: plain(value) for name, value in call.items() if value is not None}


def _calls(calls: list[dict[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(
        [
            ToolCall(
                name=call["tool"],
                arguments=call["input"] if isinstance(call.get("input"), dict) else {},
                id=call.get("id"),
                output=call.get("output"),
                duration_ms=call.get("duration_ms"),
            )
            for call in calls
        ]
    )


# --- content -----------------------------------------------------------------------------------------------


def _blocks(content: list[Any], fields: Fields, source: Source) -> Parts:
    parts: list[str | Attachment] = []
    for place, block in enumerate(content):
        field = f"content[{place}]"
        if isinstance(block, str):
            parts.append(block)
        elif isinstance(block, dict):
            part = _block(Fields(block, fields.notes, fields.place(field) + "."), source)
            if part is not None:
                parts.append(part)
        else:
            fields.wrong(field, block, "text or an object with `type` and `value`")
    return tuple(parts)


def _block(fields: Fields, source: Source) -> str | Attachment | None:
    kind = fields.choice("type", BLOCKS)
    value = fields.required_text("value")
    finish(fields, BLOCK)
    if kind == "text":
        return value
    if not kind or not value:
        return None
    what = cast('Literal["file", "image"]', kind)
    return attached(what, value, fields.notes, fields.place("value"), fields.line_of("value"), source)


def attached(
    kind: Literal["file", "image"], path: str, notes: Notes, field: str, line: int | None, source: Source
) -> Attachment | None:
    """Reads a file that is sent with a message. Returns None and notes an error if it is missing."""
    path = str(resolved(path, source, notes, field))
    ending = file_name(path).suffix.lower()
    if kind == "image" and ending not in IMAGES:
        message = f"`{field}` is {path[:200]!r}; the name of an image ends in one of {', '.join(IMAGES)}."
        notes.error("unknown-image", message, field, line=line)
        return None
    file = file_of(path, source, notes, field, line)
    if file is None:
        return None
    result = attachment(kind, path.replace("\\", "/"), file.data)
    if kind == "image" and not result.media_type.startswith("image/"):
        message = (
            f"`{field}` is {path[:200]!r}, a file of type {result.media_type}. Write `type: file` for it."
        )
        notes.error("unknown-image", message, field, line=line)
        return None
    return result


def _join_texts(parts: Parts) -> str:
    return "\n\n".join(part for part in parts if isinstance(part, str))


def pretty(value: Any) -> str:
    """Returns an object or a list as the text that is sent: JSON indented by two spaces."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _text(value: Any, fields: Fields, name: str) -> str | None:
    """Returns a text as it is, a number or boolean as JSON, and None for anything else."""
    if isinstance(value, str):
        return value
    if not isinstance(value, bool | int | float):
        return None
    text = json.dumps(value)
    if isinstance(value, float):
        message = f"is the number {text}; it becomes the text {text!r}. Write in quotes what you mean."
        fields.warn("not-text", name, message)
    return text


# --- expected output ---------------------------------------------------------------------------------------


def expected_of(fields: Fields, name: str, source: Source) -> Any:
    """Returns the expected output of a required field.

    It is a text, or the object or list in a single assistant message. Several messages, or one with tool
    calls, are a list of objects with `role`, `content` and optionally `name` and `tool_calls`.
    """
    value: Any = fields.take(name)
    text = _text(value, fields, name)
    if text is not None:
        return text
    if isinstance(value, dict) and "role" not in value:
        return plain(value)
    rows = [value] if isinstance(value, dict) else value
    if not isinstance(rows, list) or not rows:
        fields.wrong(name, value, "text, an object or a list of messages")
        return None
    if not isinstance(rows[0], dict) or "role" not in rows[0]:
        return _structured(rows, Fields({"content": rows}, fields.notes, fields.place(name) + "."), source)
    messages: list[dict[str, Any]] = []
    for place, row in enumerate(rows):
        field = name if isinstance(value, dict) else f"{name}[{place}]"
        if isinstance(row, dict):
            messages.append(_expected_message(row, fields.place(field), fields.notes, source))
        else:
            fields.wrong(field, row, "a message: an object with `role` and `content`")
    first = messages[0]
    alone = len(messages) == 1 and first["role"] == "assistant" and "tool_calls" not in first
    return first["content"] if alone else messages


def _expected_message(row: dict[str, Any], place: str, notes: Notes, source: Source) -> dict[str, Any]:
    fields = Fields(row, notes, place + ".")
    role, name, calls = _around(fields, place)
    content: Any = fields.take("content")
    text = _text(content, fields, "content")
    if text is not None:
        content = text
    elif isinstance(content, list):
        content = _structured(content, fields, source)
    elif isinstance(content, dict):
        content = plain(content)
    elif content is None and calls:
        content = ""
    else:
        fields.wrong("content", content, "text, an object or a list")
    finish(fields, MESSAGE)
    message = {"role": role, "content": content, "name": name, "tool_calls": calls}
    return {key: value for key, value in message.items() if value or key in {"role", "content"}}


def _structured(content: list[Any], fields: Fields, source: Source) -> Any:
    """Returns the list itself, or the text of its blocks if it is a list of blocks."""
    if not all(
        isinstance(block, dict) and block.get("type") in BLOCKS and "value" in block for block in content
    ):
        return plain(content)
    parts = _blocks(content, fields, source)
    return "\n\n".join(part if isinstance(part, str) else part.text or "" for part in parts)
