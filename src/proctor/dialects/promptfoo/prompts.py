"""Reads promptfoo's `prompts`: texts and conversations, in the configuration or in files beside it."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.pramana.reader import ROLES
from proctor.dialects.promptfoo.files import (
    CODE_ENDINGS,
    DATA_ENDINGS,
    FILE_SCHEME,
    expand_reference,
    get_ending,
    read_data,
    read_text,
    refuse_reference,
)
from proctor.dialects.shared.attachments import detect_media_type
from proctor.dialects.shared.content_parts import CONTENT_PART_TYPES, parse_content_parts
from proctor.dialects.shared.yaml_files import display_path, find_file, ignore_fields
from proctor.model import Case, Message, PromptTemplate
from proctor.prompts.fill import get_values
from proctor.prompts.templates import BadTemplate, fill_template, parse_template
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import FieldReader, ProblemLog, json_type, quote_value
from proctor.yaml12 import to_plain

TEXT_ENDINGS: Final = (".txt", ".md", ".j2")
ENTRY_FIELDS: Final = ("id", "raw", "label", "description", "config")
MESSAGE_FIELDS: Final = ("role", "content", "name")
DEFAULT_PROMPT: Final = "{{prompt}}"
"""The prompt of a configuration without prompts."""

_FILE_ENDINGS: Final = frozenset((*TEXT_ENDINGS, *DATA_ENDINGS, *CODE_ENDINGS, ".csv", ".jsonl"))
_ADVICE: Final = "Write the prompt as text or as a list of messages."
_PROMPT_SEPARATOR: Final = re.compile(r"^---[ \t]*$\n?", re.MULTILINE)
_NON_WORD: Final = re.compile(r"[^\w.]+")


class PromptfooPrompt(Struct, frozen=True, kw_only=True):
    """A prompt of a configuration, and how tests and messages call it."""

    template: PromptTemplate
    """Named by its own label in lower case, or `prompt-` and its number."""
    label: str | None
    """Its own label, as written."""
    field: str
    is_chat: bool
    raw_messages: tuple[dict[str, Any], ...] = ()
    """Its messages as they are written if one has files, which every case fills in; else none."""

    def is_named(self, word: str) -> bool:
        """Returns whether a word of a test means this prompt: by name, label, group of labels or glob."""
        label = self.label or self.template.name
        return word in (self.template.name, label) or label.startswith(f"{word}:") or fnmatchcase(label, word)


class _PromptEntry(Struct, frozen=True, kw_only=True):
    """One entry of `prompts`, as written."""

    field: str
    line: int | None
    label: str | None = None
    path: str | None = None
    """The prompt's file, if it is not the configuration; `line` then refers to that file."""


def read_prompts(
    value: Any, source: SuiteSource, notes: ProblemLog, line: int | None
) -> tuple[PromptfooPrompt, ...]:
    """Returns the prompts of a configuration in order; problems go to `notes`."""
    entries: list[Any] = value if isinstance(value, list) else [value]
    lines = getattr(value, "lines", [line] * len(entries)) if isinstance(value, list) else [line]
    raw_prompts: list[tuple[_PromptEntry, Any]] = []
    if value is None:
        raw_prompts = [(_PromptEntry(field="prompts", line=line), DEFAULT_PROMPT)]
    elif isinstance(value, dict):
        message = "`prompts` is an object; it must be a list of prompts, each a text or an object with `id`."
        notes.error("wrong-type", message, "prompts", line=line)
    else:
        for place, item in enumerate(entries):
            field = f"prompts[{place}]" if isinstance(value, list) else "prompts"
            raw_prompts += _read_entry(item, _PromptEntry(field=field, line=lines[place]), source, notes)
    if not raw_prompts and not notes.has_errors:
        notes.error("missing-prompt", "`prompts` is empty; write at least one prompt.", "prompts", line=line)
    prompts = [
        prompt
        for number, (entry, raw) in enumerate(raw_prompts, 1)
        if (prompt := _parse_prompt(raw, entry, number, notes)) is not None
    ]
    with_files = next((prompt for prompt in prompts if prompt.raw_messages), None)
    if with_files is not None and len(prompts) > 1:
        message = (
            f"`{with_files.field}` has files, and a prompt with files must be the only one. Move it "
            f"to a separate configuration."
        )
        notes.error("unsupported", message, with_files.field, line=line)
    names = [prompt.template.name for prompt in prompts]
    return tuple(
        [
            replace(prompt, template=replace(prompt.template, name=f"{name}-{number}"))
            if names.count(name) > 1
            else prompt
            for number, (prompt, name) in enumerate(zip(prompts, names, strict=True), 1)
        ]
    )


def _read_entry(
    item: Any, entry: _PromptEntry, source: SuiteSource, notes: ProblemLog
) -> Iterator[tuple[_PromptEntry, Any]]:
    """Yields the prompts of an entry, each a text or a list of messages."""
    if isinstance(item, dict):
        fields = FieldReader(item, notes, entry.field + ".")
        fields.drop_null(*ENTRY_FIELDS)
        label = fields.text("label")
        ignore_fields(fields, ("description", "config"), {})
        name = "raw" if "raw" in fields else "id"
        inner: Any = fields.pop(name)
        if name == "raw":
            fields.pop("id")
        fields.finish(ENTRY_FIELDS)
        if not isinstance(inner, str):
            fields.report_missing(name, "the prompt, or the path of its file")
        else:
            yield from _read_entry(inner, replace(entry, label=label), source, notes)
    elif isinstance(item, str) and _is_path(item):
        yield from _read_files(item, entry, source, notes)
    elif isinstance(item, str | list):
        yield entry, item
    else:
        notes.report_wrong_type(entry.field, item, "a prompt or a file", entry.line)


def _is_path(text: str) -> bool:
    """Whether a text refers to a file, and is no prompt itself."""
    if text.startswith((FILE_SCHEME, "exec:")):
        return True
    one_word = "\n" not in text.strip() and "{{" not in text and " " not in text.strip()
    return one_word and ("://" in text or get_ending(text.strip()) in _FILE_ENDINGS)


# --- files -------------------------------------------------------------------------------------------------


def _read_files(
    reference: str, entry: _PromptEntry, source: SuiteSource, notes: ProblemLog
) -> Iterator[tuple[_PromptEntry, Any]]:
    if refuse_reference(reference, notes, entry.field, entry.line, _ADVICE):
        return
    for path in expand_reference(reference, source, notes, entry.field, entry.line):
        file = find_file(path, source, notes, entry.field, entry.line)
        if file is not None:
            shown_path = display_path(source, file.path)
            for line, raw in _read_file(file, entry, source, notes):
                yield replace(entry, path=shown_path, line=line), raw


def _read_file(
    file: SourceFile, entry: _PromptEntry, source: SuiteSource, notes: ProblemLog
) -> list[tuple[int, Any]]:
    """Returns the prompts in a file: one conversation, or texts separated by lines of `---`."""
    ending = get_ending(file.path)
    if ending in DATA_ENDINGS:
        value = read_data(file, source, notes)
        if value is None or isinstance(value, str | list):
            return [] if value is None else [(1, value)]
        has = f"which has {json_type(value)}"
        message = f"`{entry.field}` is {display_path(source, file.path)}, {has}. {_ADVICE}"
        notes.error("wrong-type", message, entry.field, line=entry.line)
        return []
    if ending not in TEXT_ENDINGS:
        endings = ", ".join((*TEXT_ENDINGS, *DATA_ENDINGS))
        message = f"`{entry.field}` is {quote_value(file.path)}; a prompt file must end in {endings}."
        notes.error("unknown-ending", message, entry.field, line=entry.line)
        return []
    text = read_text(file, source, notes, entry.field, entry.line)
    texts = [
        (line, prompt_text)
        for line, prompt_text in _split_texts(text, several=ending == ".txt")
        if prompt_text.strip()
    ]
    if not texts and not notes.has_error_at(entry.field):
        message = f"`{entry.field}` is {display_path(source, file.path)}, which is empty."
        notes.error("empty-prompt", message, entry.field, line=entry.line)
    return texts


def _split_texts(text: str, *, several: bool) -> Iterator[tuple[int, str]]:
    """Yields the stripped texts in a file, each with its first line."""
    start = 0
    ends = [(match.start(), match.end()) for match in _PROMPT_SEPARATOR.finditer(text)] if several else []
    for end, then in (*ends, (len(text), len(text))):
        prompt_text = text[start:end]
        blank = len(prompt_text) - len(prompt_text.lstrip())
        yield text.count("\n", 0, start + blank) + 1, prompt_text.strip()
        start = then


# --- one prompt --------------------------------------------------------------------------------------------


def _parse_prompt(raw: Any, entry: _PromptEntry, number: int, notes: ProblemLog) -> PromptfooPrompt | None:
    """Parses a text or a list of messages; None and an error if it is neither."""
    own = ProblemLog(entry.path or notes.path, entry.line or notes.line)
    if isinstance(raw, str):
        raw = _parse_messages(raw) or raw
    if isinstance(raw, str):
        if not raw.strip():
            own.error("empty-prompt", f"`{entry.field}` is blank; write the prompt.", entry.field)
        messages = [Message(role="user", content=raw)]
    else:
        messages = [_parse_message(item, entry.field, place, own) for place, item in enumerate(raw)]
        if not messages:
            own.error("empty-prompt", f"`{entry.field}` has no messages; write the prompt.", entry.field)
    files = [] if isinstance(raw, str) else [item for item in raw if _has_files(item)]
    for text in chain((message.content for message in messages), _iter_texts(files)):
        try:
            parse_template(text)
        except BadTemplate as error:
            further = error.line if entry.path and isinstance(raw, str) else 0
            own.error(error.code, f"`{entry.field}` {error}", entry.field, line=own.line + further)
    notes.extend(own)
    if own.has_errors:
        return None
    name = _NON_WORD.sub("-", (entry.label or "").lower()).strip("-") or f"prompt-{number}"
    return PromptfooPrompt(
        template=PromptTemplate(name=name, messages=tuple(messages)),
        label=entry.label,
        field=entry.field,
        is_chat=not isinstance(raw, str),
        raw_messages=tuple([to_plain(item) for item in raw]) if files else (),
    )


def _parse_messages(text: str) -> list[Any] | None:
    """Returns the messages in a JSON text; None for any other text."""
    if not text.lstrip().startswith("["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_chat = isinstance(value, list) and all(isinstance(item, dict) and "role" in item for item in value)
    return value if is_chat and value else None


def _parse_message(item: Any, field: str, place: int, notes: ProblemLog) -> Message:
    field = f"{field}[{place}]"
    if not isinstance(item, dict):
        notes.report_wrong_type(field, item, "an object with `role`")
        return Message(role="user")
    fields = FieldReader(item, notes, field + ".")
    fields.drop_null("name")
    role = fields.choice("role", ROLES)
    content: Any = fields.pop("content")
    texts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if _has_files(item):
        texts = [block for block in texts if _is_text_part(block)]
    if not all(isinstance(block, dict) and isinstance(block.get("text"), str) for block in texts):
        fields.report_wrong_type("content", content, "text, or a list of content parts")
        texts = []
    name = fields.text("name")
    fields.finish(MESSAGE_FIELDS)
    return Message(role=role, content="\n\n".join(block["text"] for block in texts), name=name)


# --- prompts with files ------------------------------------------------------------------------------------


def fill_files(prompt: PromptfooPrompt, case: Case, notes: ProblemLog) -> Case:
    """Returns a case whose input is a prompt with files, filled in with the values of the case.

    It has no values and no prompts then. What is wrong with a file goes to `notes`.
    """
    values = get_values(case)
    messages: list[Message] = []
    for place, raw in enumerate(prompt.raw_messages):
        try:
            message: dict[str, Any] = _fill_texts(raw, values)
        except BadTemplate as error:
            notes.error(error.code, f"`{prompt.field}` {error}", prompt.field)
            return case
        role, name, content = message["role"], message.get("name"), message["content"]
        if isinstance(content, list):
            own = {**message, "content": [_to_data_url(part) for part in content]}
            fields = FieldReader(own, notes, f"{prompt.field}[{place}].")
            messages.append(parse_content_parts(fields, role, name))
        else:
            messages.append(Message(role=role, content=content, name=name))
    return replace(case, input=tuple(messages), vars={}, prompts=None)


def _is_text_part(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def _has_files(message: Any) -> bool:
    """Whether a message has content parts that are no texts."""
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") in CONTENT_PART_TYPES and not _is_text_part(part)
        for part in content
    )


def _iter_texts(value: Any) -> Iterator[str]:
    """Yields each text inside plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _iter_texts(item)


def _fill_texts(value: Any, values: Mapping[str, Any]) -> Any:
    """Fills in the names of values in each text inside plain data."""
    if isinstance(value, str):
        return fill_template(value, values)
    if isinstance(value, dict):
        return {name: _fill_texts(item, values) for name, item in value.items()}
    return [_fill_texts(item, values) for item in value] if isinstance(value, list) else value


def _to_data_url(part: Any) -> Any:
    """Returns a content part whose address is base64 alone, as of a file's variable, with a data URL."""
    kind = part.get("type") if isinstance(part, dict) else None
    inner = part.get(kind) if kind in ("image_url", "video_url") else None
    if not isinstance(inner, dict) or not isinstance(inner.get("url"), str) or ":" in inner["url"]:
        return part
    address = inner["url"]
    try:
        data = b64decode(address, validate=True)
    except NotBase64:
        return part
    media_type = detect_media_type("image" if kind == "image_url" else "video", "", data)
    return {**part, kind: {**inner, "url": f"data:{media_type};base64,{address}"}}
