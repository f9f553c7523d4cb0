"""Messages and expected values to `input` and `expected_output` of the dialect agentv, with attached files.

Each value is checked by reading it back with the files that will be written beside the suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import normpath
from typing import Any

from msgspec.structs import replace

from proctor.codec import encode
from proctor.dialects.agentv.read.messages import ROLES, parse_expected, parse_input
from proctor.model import Attachment, Message, ToolCall
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import FieldReader, ProblemLog


def source_with_files(source: SuiteSource, files: Mapping[str, bytes]) -> SuiteSource:
    """Returns the source with these files available."""

    def find(reference: str) -> SourceFile | None:
        data = files.get(normpath(reference))
        return None if data is None else SourceFile(path=reference, data=data)

    return replace(source, find_file=find)


# --- input -------------------------------------------------------------------------------------------------


def render_input(messages: tuple[Message, ...], source: SuiteSource) -> Any:
    """Returns the `input` that is read as these messages; None if there is none."""
    first = messages[0] if messages else None
    alone = len(messages) == 1 and first == Message(role="user", content=first.content if first else "")
    value: Any = first.content if first and alone else [_render_message(message) for message in messages]
    notes = ProblemLog("", 1)
    read = parse_input(FieldReader({"input": value}, notes), "input", source)
    return None if notes.has_errors or encode(read) != encode(messages) else value


def explain_unsupported_input(messages: tuple[Message, ...], source: SuiteSource) -> tuple[int | None, str]:
    """Returns the position of the message that cannot be written, if it is a single one, and the reason."""
    for place, message in enumerate(messages):
        if message.role not in ROLES:
            return place, f"its roles are {', '.join(ROLES)}."
        if any(isinstance(part, Attachment) for part in message.parts):
            if render_input((message,), source) is None:
                return place, (
                    "its files lie inside the suite's folder, are texts if they are UTF-8, have the media "
                    "type of their content or ending, and stand between paragraphs."
                )
        elif message.parts and render_input((message,), source) is None:
            return place, "a message without files is one text."
    return None, "its messages say something, and each call in them names its tool."


def to_plain_messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Returns the messages as plain texts, with roles that the format knows."""
    return tuple(
        [
            Message(role=message.role if message.role in ROLES else "user", content=message.content)
            for message in messages
        ]
    )


def _render_message(message: Message) -> dict[str, Any]:
    row: dict[str, Any] = {"role": message.role}
    if message.name is not None:
        row["name"] = message.name
    if message.parts:
        row["content"] = [
            part if isinstance(part, str) else {"type": part.kind, "value": part.path}
            for part in message.parts
        ]
    elif message.content or not message.tool_calls:
        row["content"] = message.content
    if message.tool_calls:
        row["tool_calls"] = [_render_call(call) for call in message.tool_calls]
    return row


def _render_call(call: ToolCall) -> dict[str, Any]:
    row = {
        "tool": call.name,
        "input": call.arguments or None,
        "output": call.output,
        "id": call.id,
        "duration_ms": call.duration_ms,
    }
    return {name: value for name, value in row.items() if value is not None}


# --- expected output ---------------------------------------------------------------------------------------


def render_expected(expected: Any, source: SuiteSource) -> Any:
    """Returns the `expected_output` that is read as this value; None if there is none."""
    for value in (expected, [{"role": "assistant", "content": expected}]):
        notes = ProblemLog("", 1)
        read = parse_expected(FieldReader({"expected_output": value}, notes), "expected_output", source)
        if not notes.has_errors and encode(read) == encode(expected):
            return value
    return None
