"""Reads `prompts` of AgentV 5, in the suite or in files, as texts and messages for each test."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.agentv.read.case_vars import fill_value, find_missing_names, iter_texts
from proctor.dialects.shared.yaml_files import find_file, parse_yaml
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, ProblemLog, json_type, quote_value

_FILE_SCHEME: Final = "file://"
_TEXT_ENDINGS: Final = (".txt", ".md", ".j2")
_DATA_ENDINGS: Final = (".json", ".yaml", ".yml")
_ENTRY_FIELDS: Final = ("id", "label", "prompt", "raw", "file", "path", "description")
_BODY_FIELDS: Final = ("prompt", "raw", "file", "path")
_PROGRAM_FIELDS: Final = ("function", "function_file", "command", "config", "prefix", "suffix")
_EXPECTED_PROMPT: Final = "a text or a list of messages"
_TEMPLATE_LOGIC: Final = re.compile(r"\{%|\{\{[^{}]*[|(\[\"'+~][^{}]*\}\}")
"""Template code other than plain variable names."""


class Version5Prompt(Struct, frozen=True, kw_only=True):
    """The input of the tests, with placeholders for their variables."""

    label: str
    field: str
    line: int | None
    template: Any

    def fill(self, values: dict[str, Any], notes: ProblemLog) -> Any:
        """Returns the `input` of a test; a name without a value is an error."""
        for name in find_missing_names(iter_texts(self.template), values):
            message = f"`vars` has no {name!r}, which `{self.field}` names. Add it."
            notes.error("missing-variable", message, "vars")
        return fill_value(self.template, values)


def read_prompts(
    value: Any, source: SuiteSource, notes: ProblemLog, line: int | None
) -> tuple[Version5Prompt, ...]:
    """Returns the prompts of a suite, in order; problems go to `notes`."""
    if not isinstance(value, list):
        entries, lines, names = [value], [line], ["prompts"]
    else:
        entries, lines = value, getattr(value, "lines", [line] * len(value))
        names = [f"prompts[{place}]" for place in range(len(value))]
    prompts: list[Version5Prompt] = []
    for number, (entry, name, at) in enumerate(zip(entries, names, lines, strict=True), 1):
        empty = Version5Prompt(label=f"prompt-{number}", field=name, line=at, template="")
        prompt = _read_prompt(entry, empty, source, notes)
        if prompt is not None:
            prompts.append(prompt)
    if not entries:
        notes.error("missing-field", "`prompts` is empty; write at least one prompt.", "prompts", line=line)
    labels = [prompt.label for prompt in prompts]
    twice = next((prompt for prompt in prompts if labels.count(prompt.label) > 1), None)
    if twice is not None:
        message = f"`prompts` has the id {quote_value(twice.label)} twice; give each prompt an id of its own."
        notes.error("duplicate-id", message, "prompts", line=twice.line)
    return tuple(prompts)


def _read_prompt(
    entry: Any, empty: Version5Prompt, source: SuiteSource, notes: ProblemLog
) -> Version5Prompt | None:
    label, body = _parse_entry(entry, empty, notes) if isinstance(entry, dict) else (empty.label, entry)
    template = _read_template(body, empty, source, notes) if label else None
    if template is None:
        return None
    if any(_TEMPLATE_LOGIC.search(text) for text in iter_texts(template)):
        message = f"`{empty.field}` has more than names in braces, which is not read here. Write it out."
        notes.error("not-supported", message, empty.field, line=empty.line)
    return Version5Prompt(label=label, field=empty.field, line=empty.line, template=template)


def _parse_entry(entry: dict[str, Any], empty: Version5Prompt, notes: ProblemLog) -> tuple[str, Any]:
    """Returns the label and body of a prompt object; an empty label and an error if it has no body."""
    fields = FieldReader(entry, notes, f"{empty.field}.")
    fields.drop_null()
    for name in _PROGRAM_FIELDS:
        if name in fields:
            fields.pop(name)
            message = "is a field of AgentV 5 that is not read here. Write the prompt itself."
            fields.error("not-supported", name, message)
    labels = (fields.text("id"), fields.text("label"), empty.label)
    fields.text("description")
    names = [name for name in _BODY_FIELDS if name in fields]
    body: Any = fields.pop(names[0]) if names else None
    fields.finish(_ENTRY_FIELDS)
    if not names:
        fields.report_missing("prompt", _EXPECTED_PROMPT)
        return "", None
    if names[0] in ("file", "path") and isinstance(body, str):
        body = _FILE_SCHEME + body.removeprefix(_FILE_SCHEME)
    return next(label for label in labels if label), body


def _read_template(body: Any, empty: Version5Prompt, source: SuiteSource, notes: ProblemLog) -> Any:
    """Returns the text or the messages of a prompt, or None and an error."""
    if isinstance(body, str) and body.strip().startswith(_FILE_SCHEME):
        body = _read_template_file(body.strip().removeprefix(_FILE_SCHEME), empty, source, notes)
        if body is None:
            return None
    if isinstance(body, str) and body.strip():
        return body
    if isinstance(body, list) and body and all(isinstance(item, dict) and "role" in item for item in body):
        return body
    actual = "blank" if isinstance(body, str) else json_type(body) if body is not None else "null"
    notes.error(
        "wrong-type",
        f"`{empty.field}` is {actual}; it must be {_EXPECTED_PROMPT}.",
        empty.field,
        line=empty.line,
    )
    return None


def _read_template_file(path: str, empty: Version5Prompt, source: SuiteSource, notes: ProblemLog) -> Any:
    lower = path.lower()
    if not lower.endswith((*_TEXT_ENDINGS, *_DATA_ENDINGS)):
        message = (
            f"`{empty.field}` names {path[:200]!r}; prompts are read from files ending in "
            f"{', '.join((*_TEXT_ENDINGS, *_DATA_ENDINGS))}. Write the prompt into one of them."
        )
        notes.error("not-supported", message, empty.field, line=empty.line)
        return None
    file = find_file(path, source, notes, empty.field, empty.line)
    if file is None:
        return None
    if lower.endswith(_DATA_ENDINGS):
        return parse_yaml(file.data, notes)
    try:
        return file.data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        message = (
            f"`{empty.field}` names {path[:200]!r}, whose byte {error.start + 1} is not UTF-8; save it so."
        )
        notes.error("bad-encoding", message, empty.field, line=empty.line)
        return None
