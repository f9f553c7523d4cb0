"""Formats prompts as texts and wire data: messages with their files, and the requested answer form. Pure.

A text file becomes `<file path="…">`, its content and `</file>`. Any other file, and any that can be opened
in place, becomes the reference `<file: path="…">`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from proctor.env_substitution import substitute
from proctor.errors import TargetError
from proctor.model import Attachment, Message, Prompt, TargetSpec

FORM_VARIABLE = "PROCTOR_FORM"
"""The environment variable with JSON of `json_answer`, `response_schema` and `tools`."""


def get_system_message(spec: TargetSpec, environ: Mapping[str, str]) -> Message | None:
    """Returns the target's own system message, or None.

    Raises:
        UsageError: a variable in it is not set.
    """
    text = spec.options.get("system_prompt")
    return None if text is None else Message(role="system", content=substitute(text, environ))


def with_system_message(prompt: Prompt, system: Message | None) -> Prompt:
    """Returns the prompt with a target's own system message before it."""
    return prompt if system is None else replace(prompt, messages=(system, *prompt.messages))


def format_attachment(attachment: Attachment) -> str:
    """Formats an attachment as text."""
    if attachment.text is None:
        return format_file_reference(attachment.kind, attachment.path)
    from html import escape

    return f'<file path="{escape(attachment.path)}">\n{attachment.text}\n</file>'


def format_message(message: Message, write: Callable[[Attachment], str] = format_attachment) -> str:
    """Formats a message as one text; `write` formats attachments, and empty ones are left out."""
    if not message.parts:
        return message.content
    texts = (part if isinstance(part, str) else write(part) for part in message.parts)
    return message.between.join(text for text in texts if text)


def format_messages(
    messages: Sequence[Message], write: Callable[[Attachment], str] = format_attachment
) -> str:
    """Formats a conversation as one text: a single user message as it is, others as `role: content`."""
    if len(messages) == 1 and messages[0].role == "user":
        return format_message(messages[0], write)
    return "\n\n".join(f"{message.role}: {format_message(message, write)}" for message in messages)


def format_file_reference(kind: str, path: str) -> str:
    """Formats the path of an attachment as a reference, for readers who can open it."""
    from html import escape

    return f'<{kind}: path="{escape(path)}">'


def call_ids(messages: Sequence[Message]) -> Mapping[str, str]:
    """Returns the id of each tool's last call by the tool's name, which also replaces a missing id."""
    return {call.name: call.id or call.name for message in messages for call in message.tool_calls}


def get_form(prompt: Prompt) -> dict[str, Any]:
    """Returns the requested answer format and tools for programs and functions, without unset ones."""
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in prompt.tools
    ]
    form = {"json_answer": prompt.json_answer, "response_schema": prompt.response_schema, "tools": tools}
    return {name: part for name, part in form.items() if part not in (False, None, [])}


def form_variable(prompt: Prompt) -> dict[str, str]:
    """Returns an environment variable with the requested answer format and tools, or nothing without any."""
    form = get_form(prompt)
    return {FORM_VARIABLE: json.dumps(form)} if form else {}


def encode_base64(attachment: Attachment) -> str:
    """Encodes an attachment's content in Base64."""
    data = attachment.data if attachment.text is None else attachment.text.encode("utf-8")
    return b64encode(data).decode("ascii")


def data_uri(attachment: Attachment) -> str:
    """Encodes an attachment's content as a `data:` URI (RFC 2397)."""
    return f"data:{attachment.media_type};base64,{encode_base64(attachment)}"


def unsendable_attachment(attachment: Attachment, receiver: str) -> TargetError:
    """Returns the error of an attachment that an API has no form for; planning refuses most of them."""
    return TargetError(
        f"{attachment.path!r} is of type {attachment.media_type}, which {receiver} does not accept.",
        kind="refused",
    )
