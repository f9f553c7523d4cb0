"""Reads `prompts` of AgentV 5, in the suite or in files, as texts and messages for each test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.agentv.read.templates import filled, missing_in
from proctor.dialects.shared.yaml_files import file_of, yaml_of
from proctor.protocols import Source
from proctor.validation import Fields, Notes, kind_of, shown

_SCHEME: Final = "file://"
_TEXT: Final = (".txt", ".md", ".j2")
_DATA: Final = (".json", ".yaml", ".yml")
_ENTRY: Final = ("id", "label", "prompt", "raw", "file", "path", "description")
_BODIES: Final = ("prompt", "raw", "file", "path")
_PROGRAMS: Final = ("function", "function_file", "command", "config", "prefix", "suffix")
_EXPECTED: Final = "a text or a list of messages"
_LOGIC: Final = re.compile(r"\{%|\{\{[^{}]*[|(\[\"'+~][^{}]*\}\}")
"""Template code other than plain variable names."""


class Prompt(Struct, frozen=True, kw_only=True):
    """The input of the tests, with placeholders for their variables."""

    label: str
    field: str
    line: int | None
    template: Any

    def filled(self, values: dict[str, Any], notes: Notes) -> Any:
        """Returns the `input` of a test; a name without a value is an error."""
        for name in missing_in(_texts(self.template), values):
            message = f"`vars` has no {name!r}, which `{self.field}` names. Add it."
            notes.error("missing-variable", message, "vars")
        return filled(self.template, values)


def prompts_of(value: Any, source: Source, notes: Notes, line: int | None) -> tuple[Prompt, ...]:
    """Returns the prompts of a suite, in order; problems go to `notes`."""
    if not isinstance(value, list):
        entries, lines, names = [value], [line], ["prompts"]
    else:
        entries, lines = value, getattr(value, "lines", [line] * len(value))
        names = [f"prompts[{place}]" for place in range(len(value))]
    prompts: list[Prompt] = []
    for number, (entry, name, at) in enumerate(zip(entries, names, lines, strict=True), 1):
        empty = Prompt(label=f"prompt-{number}", field=name, line=at, template="")
        prompt = _prompt(entry, empty, source, notes)
        prompts += [] if prompt is None else [prompt]
    if not entries:
        notes.error("missing-field", "`prompts` is empty; write at least one prompt.", "prompts", line=line)
    labels = [prompt.label for prompt in prompts]
    twice = next((prompt for prompt in prompts if labels.count(prompt.label) > 1), None)
    if twice is not None:
        message = f"`prompts` has the id {shown(twice.label)} twice; give each prompt an id of its own."
        notes.error("duplicate-id", message, "prompts", line=twice.line)
    return tuple(prompts)


def _prompt(entry: Any, empty: Prompt, source: Source, notes: Notes) -> Prompt | None:
    label, body = _entry(entry, empty, notes) if isinstance(entry, dict) else (empty.label, entry)
    template = _template(body, empty, source, notes) if label else None
    if template is None:
        return None
    if any(_LOGIC.search(text) for text in _texts(template)):
        message = f"`{empty.field}` has more than names in braces, which is not read here. Write it out."
        notes.error("not-supported", message, empty.field, line=empty.line)
    return Prompt(label=label, field=empty.field, line=empty.line, template=template)


def _entry(entry: dict[str, Any], empty: Prompt, notes: Notes) -> tuple[str, Any]:
    """Returns the label and body of a prompt object; an empty label and an error if it has no body."""
    fields = Fields(entry, notes, f"{empty.field}.")
    fields.forgive_null(*fields.names())
    for name in _PROGRAMS:
        if name in fields:
            fields.take(name)
            message = "is a field of AgentV 5 that is not read here. Write the prompt itself."
            fields.error("not-supported", name, message)
    labels = (fields.text("id"), fields.text("label"), empty.label)
    fields.text("description")
    names = [name for name in _BODIES if name in fields]
    body: Any = fields.take(names[0]) if names else None
    fields.finish(_ENTRY)
    if not names:
        fields.missing("prompt", _EXPECTED)
        return "", None
    if names[0] in ("file", "path") and isinstance(body, str):
        body = _SCHEME + body.removeprefix(_SCHEME)
    return next(label for label in labels if label), body


def _template(body: Any, empty: Prompt, source: Source, notes: Notes) -> Any:
    """Returns the text or the messages of a prompt, or None and an error."""
    if isinstance(body, str) and body.strip().startswith(_SCHEME):
        body = _from_file(body.strip().removeprefix(_SCHEME), empty, source, notes)
        if body is None:
            return None
    if isinstance(body, str) and body.strip():
        return body
    if isinstance(body, list) and body and all(isinstance(item, dict) and "role" in item for item in body):
        return body
    actual = "blank" if isinstance(body, str) else kind_of(body) if body is not None else "null"
    notes.error(
        "wrong-type", f"`{empty.field}` is {actual}; it must be {_EXPECTED}.", empty.field, line=empty.line
    )
    return None


def _from_file(path: str, empty: Prompt, source: Source, notes: Notes) -> Any:
    lower = path.lower()
    if not lower.endswith((*_TEXT, *_DATA)):
        message = (
            f"`{empty.field}` names {path[:200]!r}; prompts are read from files ending in "
            f"{', '.join((*_TEXT, *_DATA))}. Write the prompt into one of them."
        )
        notes.error("not-supported", message, empty.field, line=empty.line)
        return None
    file = file_of(path, source, notes, empty.field, empty.line)
    if file is None:
        return None
    if lower.endswith(_DATA):
        return yaml_of(file.data, notes)
    try:
        return file.data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        message = (
            f"`{empty.field}` names {path[:200]!r}, whose byte {error.start + 1} is not UTF-8; save it so."
        )
        notes.error("bad-encoding", message, empty.field, line=empty.line)
        return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
