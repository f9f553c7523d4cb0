"""What a prompt holds to texts and to what goes over a wire: messages with their files, and a form. Pure.

A text file is written as `<file path="…">`, its content and `</file>`; anything else, and what can be opened
where it is, is mentioned as `<file: path="…">`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from msgspec.structs import replace

from proctor.env_vars import filled
from proctor.model import Attachment, Message, Prompt, TargetSpec

FORM = "PROCTOR_FORM"
"""The environment variable with JSON of `json_answer`, `response_schema` and `tools`."""


def system_of(spec: TargetSpec, environ: Mapping[str, str]) -> Message | None:
    """The system message that a target puts before every prompt, if it has one.

    Raises:
        UsageError: a variable that it names is not set.
    """
    text = spec.options.get("system_prompt")
    return None if text is None else Message(role="system", content=filled(text, environ))


def instructed(prompt: Prompt, system: Message | None) -> Prompt:
    """The prompt with a target's own system message before it."""
    return prompt if system is None else replace(prompt, messages=(system, *prompt.messages))


def written(attachment: Attachment) -> str:
    """An attachment as text."""
    if attachment.text is None:
        return mentioned(attachment.kind, attachment.path)
    return f'<file path="{escape(attachment.path)}">\n{attachment.text}\n</file>'


def as_text(message: Message, write: Callable[[Attachment], str] = written) -> str:
    """A message as one text, each attachment as `write` gives it and nothing where that is empty."""
    if not message.parts:
        return message.content
    texts = (part if isinstance(part, str) else write(part) for part in message.parts)
    return message.between.join(text for text in texts if text)


def written_out(messages: Sequence[Message], write: Callable[[Attachment], str] = written) -> str:
    """A conversation as one text: that of the one user message, else each as `role: content`."""
    if len(messages) == 1 and messages[0].role == "user":
        return as_text(messages[0], write)
    return "\n\n".join(f"{message.role}: {as_text(message, write)}" for message in messages)


def mentioned(kind: str, path: str) -> str:
    """Where an attachment is, for one who can open it."""
    return f'<{kind}: path="{escape(path)}">'


def form_of(prompt: Prompt) -> dict[str, Any]:
    """What is asked besides the messages, as programs and functions are given it, without what is not."""
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in prompt.tools
    ]
    form = {"json_answer": prompt.json_answer, "response_schema": prompt.response_schema, "tools": tools}
    return {name: part for name, part in form.items() if part not in (False, None, [])}


def form_variable(prompt: Prompt) -> dict[str, str]:
    """The environment variable with the requested answer format and tools; empty where there are none."""
    form = form_of(prompt)
    return {FORM: json.dumps(form)} if form else {}


def base64_of(attachment: Attachment) -> str:
    """The content in Base64, as JSON carries it."""
    data = attachment.data if attachment.text is None else attachment.text.encode("utf-8")
    return b64encode(data).decode("ascii")


def data_uri(attachment: Attachment) -> str:
    """The content as an address of its own (RFC 2397)."""
    return f"data:{attachment.media_type};base64,{base64_of(attachment)}"
