"""`input`, `input_files` and `expected_output` of the dialect agentv to messages and expected values.

An input is a text, an object or a list of messages; the content of a message is a text, an object or a list
of blocks: texts, files, images, audio and videos. Files are read here, so that a case holds all that is sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from proctor import field_schemas as schemas
from proctor.dialects.agentv.shared import finish, read_texts, resolve_references
from proctor.dialects.shared.attachments import IMAGE_MEDIA_TYPES, build_attachment, explain_mismatch
from proctor.dialects.shared.jsonl import file_name
from proctor.dialects.shared.yaml_files import find_file, ignore_fields
from proctor.field_schemas import UNUSED, Fields, accepts, spec_fields
from proctor.model import Attachment, AttachmentKind, Message, ToolCall
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, FieldSpec, ProblemLog
from proctor.yaml12 import to_plain

ROLES: Final = ("system", "user", "assistant", "tool")
BLOCK_TYPES: Final = ("text", "file", "image", "audio", "video")
MESSAGE_FIELDS: Final[Fields] = {
    "role": schemas.choice(ROLES, "Who wrote the message."),
    "content": schemas.ref(
        "content", "The content: a text, an object, or a list of texts, files, images, audio and videos."
    ),
    "name": schemas.text("The name of the speaker."),
    "tool_calls": schemas.list_of(schemas.ref("tool_call"), "The tool calls of the assistant."),
}
BLOCK_FIELDS: Final[Fields] = {
    "type": schemas.choice(BLOCK_TYPES, "The type of the value."),
    "value": schemas.words("The text, or the path of the file, image, audio or video."),
}
_EXPECTED_MESSAGE: Final = "a message: an object with `role` and `content`"

MessageParts = tuple[str | Attachment, ...]


# --- input -------------------------------------------------------------------------------------------------


def parse_input(
    fields: FieldReader, name: str, source: SuiteSource, files: Sequence[Attachment] = ()
) -> tuple[Message, ...]:
    """Returns the messages of a required input; an empty tuple and an error if it has none.

    Args:
        fields: the object that has it.
        name: the name of the field.
        source: finds the files.
        files: go before a text; an error with anything else.
    """
    value: Any = fields.pop(name)
    text = _parse_text(value, fields, name)
    if files and text is None and value is not None:
        why = (
            "is not text, so it cannot be combined with `input_files`. Write blocks of type 'file' in a "
            "message instead."
        )
        fields.error("conflicting-fields", name, why)
    messages: tuple[Message, ...] = ()
    if text is not None:
        parts: MessageParts = (*files, text) if files else ()
        messages = (Message(role="user", content=text, parts=parts),)
    elif isinstance(value, dict):
        message = Message(role="user", content=to_pretty_json(value))
        if "role" in value:
            inner = FieldReader(value, fields.problem_log, f"{fields.path_to(name)}.")
            message = _parse_message(inner, source)
        messages = (message,)
    elif isinstance(value, list) and value:
        rows = fields.items(name, value, _EXPECTED_MESSAGE)
        messages = tuple([_parse_message(row, source) for row in rows])
    else:
        fields.report_wrong_type(name, value, "text, an object or a list of messages")
        return ()
    blank = not any(message.content.strip() or message.parts or message.tool_calls for message in messages)
    if blank and not fields.problem_log.has_error_at(fields.path_to(name)):
        fields.error("missing-field", name, "is blank; write the prompt.")
    return messages


def read_input_files(fields: FieldReader, name: str, source: SuiteSource) -> tuple[Attachment, ...]:
    """Returns the files of `input_files`; a missing file is an error."""
    attachments = [
        read_attachment("file", path, fields.problem_log, field, fields.line_for(field), source)
        for place, path in enumerate(read_texts(fields, name))
        for field in (f"{name}[{place}]",)
    ]
    return tuple([file for file in attachments if file is not None])


def _parse_message(fields: FieldReader, source: SuiteSource) -> Message:
    role, name, calls = _parse_role_and_calls(fields)
    content: Any = fields.pop("content")
    text = _parse_text(content, fields, "content")
    parts: MessageParts = ()
    if text is None and isinstance(content, list):
        parts = _parse_blocks(content, fields, source)
        text = "\n\n".join(part for part in parts if isinstance(part, str))
        if all(isinstance(part, str) for part in parts):
            parts = ()
    elif text is None and isinstance(content, dict):
        text = to_pretty_json(content)
    elif text is None and not (content is None and calls):
        fields.report_wrong_type("content", content, "text, an object or a list of blocks")
    finish(fields, tuple(MESSAGE_FIELDS))
    return Message(role=role, content=text or "", name=name, tool_calls=_to_tool_calls(calls), parts=parts)


def _parse_role_and_calls(fields: FieldReader) -> tuple[str, str | None, list[dict[str, Any]]]:
    """Returns the role, name and tool calls of a message."""
    fields.drop_null("name", "content", "tool_calls")
    role = fields.choice("role", ROLES)
    name = fields.text("name")
    calls: Any = fields.pop("tool_calls")
    if calls is not None and not isinstance(calls, list):
        fields.report_wrong_type("tool_calls", calls, "a list of calls, each with `tool` and `input`")
        calls = None
    rows = fields.items("tool_calls", calls or (), "an object with `tool` and `input`")
    return role, name, [_parse_call(row) for row in rows]


@accepts(schemas.of_type("object"))
def _read_arguments(fields: FieldReader, name: str) -> Any:
    value: Any = fields.pop(name)
    if not isinstance(value, dict):
        fields.report_wrong_type(name, value, "an object with the arguments")
    return value


_CALL_FIELDS: Final = (
    FieldSpec("tool", FieldReader.required_text, required=True, about="The name of the tool."),
    FieldSpec("input", _read_arguments, about="The arguments of the call."),
    FieldSpec("output", FieldReader.pop, about="What the tool returned."),
    FieldSpec("id", FieldReader.text, about="The id of the call."),
    FieldSpec("duration_ms", FieldReader.number, about="Duration of the call, in milliseconds."),
)


TOOL_CALL_FIELDS: Final[Fields] = {
    **spec_fields(_CALL_FIELDS),
    **dict.fromkeys(("start_time", "end_time"), UNUSED),
}


def _parse_call(fields: FieldReader) -> dict[str, Any]:
    """Returns one checked tool call as plain data."""
    fields.drop_null()
    call = fields.values(_CALL_FIELDS)
    ignore_fields(fields, ("start_time", "end_time"), call)
    finish(fields, tuple(TOOL_CALL_FIELDS))
    return {name: to_plain(value) for name, value in call.items()}


def _to_tool_calls(calls: list[dict[str, Any]]) -> tuple[ToolCall, ...]:
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


def _parse_blocks(content: list[Any], fields: FieldReader, source: SuiteSource) -> MessageParts:
    parts: list[str | Attachment] = []
    for place, block in enumerate(content):
        field = f"content[{place}]"
        if isinstance(block, str):
            parts.append(block)
        elif isinstance(block, dict):
            part = _parse_block(FieldReader(block, fields.problem_log, fields.path_to(field) + "."), source)
            if part is not None:
                parts.append(part)
        else:
            fields.report_wrong_type(field, block, "text or an object with `type` and `value`")
    return tuple(parts)


def _parse_block(fields: FieldReader, source: SuiteSource) -> str | Attachment | None:
    kind = fields.choice("type", BLOCK_TYPES)
    value = fields.required_text("value")
    finish(fields, tuple(BLOCK_FIELDS))
    if kind == "text":
        return value
    if not kind or not value:
        return None
    return read_attachment(
        cast("AttachmentKind", kind),
        value,
        fields.problem_log,
        fields.path_to("value"),
        fields.line_for("value"),
        source,
    )


def read_attachment(
    kind: AttachmentKind,
    path: str,
    notes: ProblemLog,
    field: str,
    line: int | None,
    source: SuiteSource,
) -> Attachment | None:
    """Reads a file that is sent with a message. Returns None and notes an error if it is missing."""
    path = str(resolve_references(path, source, notes, field))
    ending = file_name(path).suffix.lower()
    if kind == "image" and ending not in IMAGE_MEDIA_TYPES:
        message = (
            f"`{field}` is {path[:200]!r}; the name of an image must end in one of "
            f"{', '.join(IMAGE_MEDIA_TYPES)}."
        )
        notes.error("unknown-image", message, field, line=line)
        return None
    file = find_file(path, source, notes, field, line)
    if file is None:
        return None
    result = build_attachment(kind, path.replace("\\", "/"), file.data)
    mismatch = explain_mismatch(result)
    if mismatch is not None:
        notes.error(f"unknown-{kind}", f"`{field}` is {path[:200]!r}, {mismatch}", field, line=line)
        return None
    return result


def to_pretty_json(value: Any) -> str:
    """Returns an object or a list as the text that is sent: JSON indented by two spaces."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _parse_text(value: Any, fields: FieldReader, name: str) -> str | None:
    """Returns a text as it is, a number or boolean as JSON, and None for anything else."""
    if isinstance(value, str):
        return value
    if not isinstance(value, bool | int | float):
        return None
    text = json.dumps(value)
    if isinstance(value, float):
        message = (
            f"is the number {text}; it is read as the text {text!r}. Put the text that you mean in quotes."
        )
        fields.warn("not-text", name, message)
    return text


# --- expected output ---------------------------------------------------------------------------------------


def parse_expected(fields: FieldReader, name: str, source: SuiteSource) -> Any:
    """Returns the expected output of a required field.

    It is a text, or the object or list in a single assistant message. Several messages, or one with tool
    calls, are a list of objects with `role`, `content` and optionally `name` and `tool_calls`.
    """
    value: Any = fields.pop(name)
    text = _parse_text(value, fields, name)
    if text is not None:
        return text
    if isinstance(value, dict) and "role" not in value:
        return to_plain(value)
    rows = [value] if isinstance(value, dict) else value
    if not isinstance(rows, list) or not rows:
        fields.report_wrong_type(name, value, "text, an object or a list of messages")
        return None
    if not isinstance(rows[0], dict) or "role" not in rows[0]:
        return _parse_structured(
            rows, FieldReader({"content": rows}, fields.problem_log, fields.path_to(name) + "."), source
        )
    if isinstance(value, dict):
        readers: Iterable[FieldReader] = [FieldReader(value, fields.problem_log, f"{fields.path_to(name)}.")]
    else:
        readers = fields.items(name, value, _EXPECTED_MESSAGE)
    messages = [_parse_expected_message(row, source) for row in readers]
    first = messages[0]
    alone = len(messages) == 1 and first["role"] == "assistant" and "tool_calls" not in first
    return first["content"] if alone else messages


def _parse_expected_message(fields: FieldReader, source: SuiteSource) -> dict[str, Any]:
    role, name, calls = _parse_role_and_calls(fields)
    content: Any = fields.pop("content")
    text = _parse_text(content, fields, "content")
    if text is not None:
        content = text
    elif isinstance(content, list):
        content = _parse_structured(content, fields, source)
    elif isinstance(content, dict):
        content = to_plain(content)
    elif content is None and calls:
        content = ""
    else:
        fields.report_wrong_type("content", content, "text, an object or a list")
    finish(fields, tuple(MESSAGE_FIELDS))
    message = {"role": role, "content": content, "name": name, "tool_calls": calls}
    return {key: value for key, value in message.items() if value or key in {"role", "content"}}


def _parse_structured(content: list[Any], fields: FieldReader, source: SuiteSource) -> Any:
    """Returns the list itself, or the text of its blocks if it is a list of blocks."""
    if not all(
        isinstance(block, dict) and block.get("type") in BLOCK_TYPES and "value" in block for block in content
    ):
        return to_plain(content)
    parts = _parse_blocks(content, fields, source)
    return "\n\n".join(part if isinstance(part, str) else part.text or "" for part in parts)
