"""Reads promptfoo's `prompts`: texts and conversations, in the configuration or in files beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.pramana.reader import ROLES
from proctor.dialects.promptfoo.files import (
    CODE,
    DATA,
    SCHEME,
    data_of,
    ending_of,
    is_refused,
    path_of,
    text_of,
)
from proctor.dialects.promptfoo.templates import BadTemplate, filled, parsed
from proctor.dialects.shared.yaml_files import file_of, shown_path
from proctor.model import Message
from proctor.protocols import Found, Source
from proctor.validation import Fields, Notes, kind_of, shown

TEXT: Final = (".txt", ".md", ".j2")
ENTRY: Final = ("id", "raw", "label", "description", "config")
MESSAGE: Final = ("role", "content", "name")
DEFAULT: Final = "{{prompt}}"
"""The prompt of a configuration without prompts."""

_FILES: Final = frozenset((*TEXT, *DATA, *CODE, ".csv", ".jsonl"))
_INSTEAD: Final = "Write the prompt as text or as a list of messages."
_BETWEEN: Final = re.compile(r"^---[ \t]*$\n?", re.MULTILINE)
_NO_WORD: Final = re.compile(r"[^\w.]+")
_WILD: Final = frozenset("*?[")


class Prompt(Struct, frozen=True, kw_only=True):
    """A prompt with placeholders."""

    label: str
    """Its name in case ids: its own label in lower case, or `prompt-` and its number."""
    field: str
    messages: tuple[Message, ...]
    is_chat: bool = False

    def filled(self, values: Mapping[str, Any], before: str, after: str) -> tuple[Message, ...]:
        """Returns the messages to send.

        Args:
            values: the vars of the test.
            before: goes before each text.
            after: goes after it.

        Raises:
            BadTemplate: a name has no value.
        """
        return tuple(
            Message(
                role=message.role, content=filled(before + message.content + after, values), name=message.name
            )
            for message in self.messages
        )


_UNREADABLE: Final = Prompt(
    label="unreadable", field="prompts", messages=(Message(role="user", content="?"),), is_chat=False
)
"""Replaces an invalid prompt; its error keeps every case from running."""


class _Entry(Struct, frozen=True, kw_only=True):
    """One entry of `prompts`, as written."""

    field: str
    line: int | None
    label: str | None = None
    path: str | None = None
    """The prompt's file, if it is not the configuration; `line` then refers to that file."""


def prompts_of(value: Any, source: Source, notes: Notes, line: int | None) -> tuple[Prompt, ...]:
    """Returns the prompts of a configuration in order; problems go to `notes`."""
    entries: list[Any] = value if isinstance(value, list) else [value]
    lines = getattr(value, "lines", [line] * len(entries)) if isinstance(value, list) else [line]
    raw_prompts: list[tuple[_Entry, Any]] = []
    if value is None:
        raw_prompts = [(_Entry(field="prompts", line=line), DEFAULT)]
    elif isinstance(value, dict):
        message = "`prompts` is an object; it must be a list of prompts, each a text or an object with `id`."
        notes.error("wrong-type", message, "prompts", line=line)
    else:
        for place, item in enumerate(entries):
            field = f"prompts[{place}]" if isinstance(value, list) else "prompts"
            raw_prompts += _read_entry(item, _Entry(field=field, line=lines[place]), source, notes)
    if not raw_prompts and not notes.failed:
        notes.error("missing-prompt", "`prompts` is empty; write at least one prompt.", "prompts", line=line)
    prompts = (_prompt(raw, entry, number, notes) for number, (entry, raw) in enumerate(raw_prompts, 1))
    readable_prompts = [prompt for prompt in prompts if prompt is not None]
    # An unreadable prompt counts for as many cases as any other.
    names = [f"prompts[{place}]" for place in range(len(entries))] if isinstance(value, list) else ["prompts"]
    readable = {prompt.field for prompt in readable_prompts}
    readable_prompts += [_UNREADABLE for name in names if name not in readable and notes.noted(name)]
    labels = [prompt.label for prompt in readable_prompts]
    return tuple(
        replace(prompt, label=f"{prompt.label}-{number}") if labels.count(prompt.label) > 1 else prompt
        for number, prompt in enumerate(readable_prompts, 1)
    )


def _read_entry(item: Any, entry: _Entry, source: Source, notes: Notes) -> Iterator[tuple[_Entry, Any]]:
    """Yields the prompts of an entry, each a text or a list of messages."""
    if isinstance(item, dict):
        fields = Fields(item, notes, entry.field + ".")
        fields.forgive_null(*ENTRY)
        label = fields.text("label")
        for name in ("description", "config"):
            if name in fields:
                fields.take(name)
                fields.warn("no-effect", name, "has no effect here.")
        name = "raw" if "raw" in fields else "id"
        inner: Any = fields.take(name)
        if name == "raw":
            fields.take("id")
        fields.finish(ENTRY)
        if not isinstance(inner, str):
            fields.missing(name, "the prompt, or the file that it is in")
        else:
            yield from _read_entry(inner, replace(entry, label=label), source, notes)
    elif isinstance(item, str) and _is_path(item):
        yield from _from_files(item, entry, source, notes)
    elif isinstance(item, str | list):
        yield entry, item
    else:
        message = f"`{entry.field}` is {shown(item)}, {kind_of(item)}; it must be a prompt or a file."
        notes.error("wrong-type", message, entry.field, line=entry.line)


def _is_path(text: str) -> bool:
    """Whether a text refers to a file, and is no prompt itself."""
    if text.startswith((SCHEME, "exec:")):
        return True
    one_word = "\n" not in text.strip() and "{{" not in text and " " not in text.strip()
    return one_word and ("://" in text or ending_of(text.strip()) in _FILES)


# --- files -------------------------------------------------------------------------------------------------


def _from_files(reference: str, entry: _Entry, source: Source, notes: Notes) -> Iterator[tuple[_Entry, Any]]:
    if is_refused(reference, notes, entry.field, entry.line, _INSTEAD):
        return
    path = path_of(reference)
    paths = source.expand(path) if _WILD.intersection(path) else [path]
    if not paths:
        message = f"`{entry.field}` is {shown(path)}, which matches no file."
        notes.error("empty-glob", message, entry.field, line=entry.line)
    for file_path in paths:
        file = file_of(file_path, source, notes, entry.field, entry.line)
        if file is not None:
            path = shown_path(source, file.path)
            for line, raw in _in_file(file, entry, source, notes):
                yield replace(entry, path=path, line=line), raw


def _in_file(file: Found, entry: _Entry, source: Source, notes: Notes) -> list[tuple[int, Any]]:
    """Returns the prompts in a file: one conversation, or texts separated by lines of `---`."""
    ending = ending_of(file.path)
    if ending in DATA:
        value = data_of(file, source, notes)
        if value is None or isinstance(value, str | list):
            return [] if value is None else [(1, value)]
        has = f"which has {kind_of(value)}"
        message = f"`{entry.field}` is {shown_path(source, file.path)}, {has}. {_INSTEAD}"
        notes.error("wrong-type", message, entry.field, line=entry.line)
        return []
    if ending not in TEXT:
        endings = ", ".join((*TEXT, *DATA))
        message = f"`{entry.field}` is {shown(file.path)}; prompts are read from files that end in {endings}."
        notes.error("unknown-ending", message, entry.field, line=entry.line)
        return []
    text = text_of(file, source, notes, entry.field, entry.line)
    texts = [
        (line, prompt_text)
        for line, prompt_text in _texts(text, several=ending == ".txt")
        if prompt_text.strip()
    ]
    if not texts and not notes.noted(entry.field):
        message = f"`{entry.field}` is {shown_path(source, file.path)}, which is empty."
        notes.error("empty-prompt", message, entry.field, line=entry.line)
    return texts


def _texts(text: str, *, several: bool) -> Iterator[tuple[int, str]]:
    """Yields the stripped texts in a file, each with its first line."""
    start = 0
    ends = [(match.start(), match.end()) for match in _BETWEEN.finditer(text)] if several else []
    for end, then in (*ends, (len(text), len(text))):
        prompt_text = text[start:end]
        blank = len(prompt_text) - len(prompt_text.lstrip())
        yield text.count("\n", 0, start + blank) + 1, prompt_text.strip()
        start = then


# --- one prompt --------------------------------------------------------------------------------------------


def _prompt(raw: Any, entry: _Entry, number: int, notes: Notes) -> Prompt | None:
    """Parses a text or a list of messages; None and an error if it is neither."""
    own = Notes(entry.path or notes.path, entry.line or notes.line)
    if isinstance(raw, str):
        raw = _as_messages(raw) or raw
    if isinstance(raw, str):
        if not raw.strip():
            own.error("empty-prompt", f"`{entry.field}` is blank; write what is asked.", entry.field)
        messages = [Message(role="user", content=raw)]
    else:
        messages = [_message(item, entry.field, place, own) for place, item in enumerate(raw)]
        if not messages:
            own.error("empty-prompt", f"`{entry.field}` has no messages; write what is asked.", entry.field)
    for message in messages:
        try:
            parsed(message.content)
        except BadTemplate as error:
            further = error.line if entry.path and isinstance(raw, str) else 0
            own.error(error.code, f"`{entry.field}` {error}", entry.field, line=own.line + further)
    notes.problems += own.problems
    notes.failed = notes.failed or own.failed
    if own.failed:
        return None
    return Prompt(
        label=_NO_WORD.sub("-", (entry.label or "").lower()).strip("-") or f"prompt-{number}",
        field=entry.field,
        messages=tuple(messages),
        is_chat=not isinstance(raw, str),
    )


def _as_messages(text: str) -> list[Any] | None:
    """Returns the messages in a JSON text; None for any other text."""
    if not text.lstrip().startswith("["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_chat = isinstance(value, list) and all(isinstance(item, dict) and "role" in item for item in value)
    return value if is_chat and value else None


def _message(item: Any, field: str, place: int, notes: Notes) -> Message:
    field = f"{field}[{place}]"
    if not isinstance(item, dict):
        message = f"`{field}` is {shown(item)}, {kind_of(item)}; it must be an object with `role`."
        notes.error("wrong-type", message, field)
        return Message(role="user")
    fields = Fields(item, notes, field + ".")
    fields.forgive_null("name")
    role = fields.choice("role", ROLES)
    content: Any = fields.take("content")
    texts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if not all(isinstance(block, dict) and isinstance(block.get("text"), str) for block in texts):
        fields.wrong("content", content, "text, or a list of parts that are text")
        texts = []
    name = fields.text("name")
    fields.finish(MESSAGE)
    return Message(role=role, content="\n\n".join(block["text"] for block in texts), name=name)
