"""Renders the prompt of a run as text and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Struct

from proctor.codec import template_digest
from proctor.model import PromptTemplate
from proctor.reports.formatting import to_json
from proctor.reports.record_fields import about
from proctor.reports.runs.records import PromptRecord
from proctor.safe_text import escape_invisible


class PromptMessageRecord(Struct, frozen=True, kw_only=True):
    """A message of a prompt."""

    role: str
    content: Annotated[str, about("Its text, with `{{ variables }}`.")]


class PromptTextRecord(PromptRecord, frozen=True, kw_only=True):
    """The prompt of a run with its messages."""

    messages: tuple[PromptMessageRecord, ...]


def prompt_text(prompt: PromptTemplate) -> str:
    """Returns a prompt as a file has it: its text, or Markdown with a heading for each role."""
    if len(prompt.messages) == 1 and prompt.messages[0].role == "user":
        return prompt.messages[0].content
    return "\n\n".join(f"# {message.role}\n{message.content}" for message in prompt.messages)


def prompt_lines(prompt: PromptTemplate) -> Iterator[str]:
    """Yields the lines of a prompt for a terminal."""
    yield from escape_invisible(prompt_text(prompt)).split("\n")


def prompt_text_record(prompt: PromptTemplate) -> PromptTextRecord:
    """Returns a prompt as a record."""
    messages = [
        PromptMessageRecord(role=message.role, content=message.content) for message in prompt.messages
    ]
    return PromptTextRecord(name=prompt.name, digest=template_digest(prompt), messages=tuple(messages))


def render_prompt(prompt: PromptTemplate) -> str:
    """Returns a prompt as one JSON object."""
    return to_json(prompt_text_record(prompt))
