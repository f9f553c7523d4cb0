"""promptfoo's `prompts` to prompts: texts and conversations, in the configuration or in files beside it."""

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
"""What is asked where a configuration has no prompts."""

_FILES: Final = frozenset((*TEXT, *DATA, *CODE, ".csv", ".jsonl"))
_INSTEAD: Final = "Write the prompt as text or as a list of messages."
_BETWEEN: Final = re.compile(r"^---[ \t]*$\n?", re.MULTILINE)
_NO_WORD: Final = re.compile(r"[^\w.]+")
_WILD: Final = frozenset("*?[")


class Prompt(Struct, frozen=True, kw_only=True):
    """A prompt before a test fills it in."""

    label: str
    """What it is called in the ids of cases: its own label in small letters, or `prompt-` and its number."""
    field: str
    messages: tuple[Message, ...]
    is_chat: bool = False

    def filled(self, values: Mapping[str, Any], before: str, after: str) -> tuple[Message, ...]:
        """What is sent.

        Args:
            values: the vars of the test.
            before: what stands before a text.
            after: what stands after it.

        Raises:
            BadTemplate: a name has no value.
        """
        return tuple(
            Message(role=one.role, content=filled(before + one.content + after, values), name=one.name)
            for one in self.messages
        )


_UNREADABLE: Final = Prompt(
    label="unreadable", field="prompts", messages=(Message(role="user", content="?"),), is_chat=False
)
"""Stands in for a prompt with an error, which keeps every case from being run."""


class _Entry(Struct, frozen=True, kw_only=True):
    """One of the prompts as it is written."""

    field: str
    line: int | None
    label: str | None = None
    path: str | None = None
    """The file that it is in, where that is not the configuration; `line` is then one of it."""


def prompts_of(value: Any, source: Source, notes: Notes, line: int | None) -> tuple[Prompt, ...]:
    """Every prompt of a configuration, in order; what is wrong goes to `notes`."""
    entries: list[Any] = value if isinstance(value, list) else [value]
    lines = getattr(value, "lines", [line] * len(entries)) if isinstance(value, list) else [line]
    found: list[tuple[_Entry, Any]] = []
    if value is None:
        found = [(_Entry(field="prompts", line=line), DEFAULT)]
    elif isinstance(value, dict):
        message = "`prompts` is an object; it must be a list of prompts, each a text or an object with `id`."
        notes.error("wrong-type", message, "prompts", line=line)
    else:
        for place, item in enumerate(entries):
            field = f"prompts[{place}]" if isinstance(value, list) else "prompts"
            found += _written(item, _Entry(field=field, line=lines[place]), source, notes)
    if not found and not notes.failed:
        notes.error("missing-prompt", "`prompts` is empty; write at least one prompt.", "prompts", line=line)
    prompts = (_prompt(written, entry, number, notes) for number, (entry, written) in enumerate(found, 1))
    kept = [prompt for prompt in prompts if prompt is not None]
    # One that cannot be read stands for as many cases as any other.
    names = [f"prompts[{place}]" for place in range(len(entries))] if isinstance(value, list) else ["prompts"]
    readable = {prompt.field for prompt in kept}
    kept += [_UNREADABLE for name in names if name not in readable and notes.noted(name)]
    labels = [prompt.label for prompt in kept]
    return tuple(
        replace(prompt, label=f"{prompt.label}-{number}") if labels.count(prompt.label) > 1 else prompt
        for number, prompt in enumerate(kept, 1)
    )


def _written(item: Any, entry: _Entry, source: Source, notes: Notes) -> Iterator[tuple[_Entry, Any]]:
    """The prompts that an entry stands for, each a text or a list of messages."""
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
            yield from _written(inner, replace(entry, label=label), source, notes)
    elif isinstance(item, str) and _is_path(item):
        yield from _from_files(item, entry, source, notes)
    elif isinstance(item, str | list):
        yield entry, item
    else:
        message = f"`{entry.field}` is {shown(item)}, {kind_of(item)}; it must be a prompt or a file."
        notes.error("wrong-type", message, entry.field, line=entry.line)


def _is_path(text: str) -> bool:
    """Whether a text is a reference to a file and no prompt."""
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
    for one in paths:
        found = file_of(one, source, notes, entry.field, entry.line)
        if found is not None:
            path = shown_path(source, found.path)
            for line, written in _in_file(found, entry, source, notes):
                yield replace(entry, path=path, line=line), written


def _in_file(found: Found, entry: _Entry, source: Source, notes: Notes) -> list[tuple[int, Any]]:
    """The prompts in one file: several texts with lines of `---` between them, or one conversation."""
    ending = ending_of(found.path)
    if ending in DATA:
        value = data_of(found, source, notes)
        if value is None or isinstance(value, str | list):
            return [] if value is None else [(1, value)]
        has = f"which has {kind_of(value)}"
        message = f"`{entry.field}` is {shown_path(source, found.path)}, {has}. {_INSTEAD}"
        notes.error("wrong-type", message, entry.field, line=entry.line)
        return []
    if ending not in TEXT:
        known = ", ".join((*TEXT, *DATA))
        message = f"`{entry.field}` is {shown(found.path)}; prompts are read from files that end in {known}."
        notes.error("unknown-ending", message, entry.field, line=entry.line)
        return []
    text = text_of(found, source, notes, entry.field, entry.line)
    kept = [(line, one) for line, one in _texts(text, several=ending == ".txt") if one.strip()]
    if not kept and not notes.noted(entry.field):
        message = f"`{entry.field}` is {shown_path(source, found.path)}, which is empty."
        notes.error("empty-prompt", message, entry.field, line=entry.line)
    return kept


def _texts(text: str, *, several: bool) -> Iterator[tuple[int, str]]:
    """The texts in a file, without white space at their ends, and the line on which each begins."""
    start = 0
    ends = [(found.start(), found.end()) for found in _BETWEEN.finditer(text)] if several else []
    for end, then in (*ends, (len(text), len(text))):
        one = text[start:end]
        blank = len(one) - len(one.lstrip())
        yield text.count("\n", 0, start + blank) + 1, one.strip()
        start = then


# --- one prompt --------------------------------------------------------------------------------------------


def _prompt(written: Any, entry: _Entry, number: int, notes: Notes) -> Prompt | None:
    """A text or a list of messages as a prompt; None, and an error, where it is neither."""
    own = Notes(entry.path or notes.path, entry.line or notes.line)
    if isinstance(written, str):
        written = _as_messages(written) or written
    if isinstance(written, str):
        if not written.strip():
            own.error("empty-prompt", f"`{entry.field}` is blank; write what is asked.", entry.field)
        messages = [Message(role="user", content=written)]
    else:
        messages = [_message(item, entry.field, place, own) for place, item in enumerate(written)]
        if not messages:
            own.error("empty-prompt", f"`{entry.field}` has no messages; write what is asked.", entry.field)
    for message in messages:
        try:
            parsed(message.content)
        except BadTemplate as error:
            further = error.line if entry.path and isinstance(written, str) else 0
            own.error(error.code, f"`{entry.field}` {error}", entry.field, line=own.line + further)
    notes.problems += own.problems
    notes.failed = notes.failed or own.failed
    if own.failed:
        return None
    return Prompt(
        label=_NO_WORD.sub("-", (entry.label or "").lower()).strip("-") or f"prompt-{number}",
        field=entry.field,
        messages=tuple(messages),
        is_chat=not isinstance(written, str),
    )


def _as_messages(text: str) -> list[Any] | None:
    """The messages that a text is in JSON; None for any other text."""
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
    if not all(isinstance(one, dict) and isinstance(one.get("text"), str) for one in texts):
        fields.wrong("content", content, "text, or a list of parts that are text")
        texts = []
    name = fields.text("name")
    fields.finish(MESSAGE)
    return Message(role=role, content="\n\n".join(one["text"] for one in texts), name=name)
