"""Reads YAML and JSON files that a suite refers to, with the lines of their fields.

Errors become problems in the given notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from posixpath import join, normpath
from typing import Any, Final

from proctor.dialects.shared.jsonl import BOM, file_name
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import FieldReader, ProblemLog, json_type
from proctor.yaml12 import YamlError, load, to_plain

_SURROGATE_PAIR: Final = re.compile(
    rb"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)
"""A JSON escape of a character beyond 16 bits: two surrogates."""


def find_file(
    reference: str, source: SuiteSource, notes: ProblemLog, field: str, line: int | None = None
) -> SourceFile | None:
    """Finds the file that a suite refers to; a missing file is an error."""
    file = source.find_file(reference)
    if file is None:
        notes.error(
            "missing-file",
            f"`{field}` is {reference[:200]!r}, and there is no such file in the folder of the suite, a "
            f"folder above it in the same repository, or the working directory.",
            field,
            line=line,
        )
    return file


def display_path(source: SuiteSource, path: str) -> str:
    """Returns a path relative to the suite's folder as the user would write it."""
    folder = source.path if source.is_folder else source.path.removesuffix(file_name(source.path).name)
    return normpath(join(folder, path))


def parse_yaml(data: bytes, notes: ProblemLog) -> Any:
    """Parses a YAML file; returns None and notes an error if it is not YAML in UTF-8."""
    try:
        return load(data.decode("utf-8-sig"))
    except YamlError as error:
        notes.error("bad-yaml", str(error), line=error.line)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"Byte {error.start + 1} of the file is not UTF-8; save the file as UTF-8."
        notes.error("bad-encoding", message, line=line)
    return None


def parse_json(data: bytes, notes: ProblemLog) -> Any:
    """Parses a JSON file; returns None and notes an error if it is not JSON in UTF-8.

    JSON is YAML except for characters escaped as surrogate pairs, so valid JSON is then parsed as YAML, which
    gives line numbers.
    """
    try:
        json.loads(data.removeprefix(BOM).decode("utf-8"))
    except json.JSONDecodeError as error:
        message = f"The file is not JSON: {error.msg} (column {error.colno}). Correct it there."
        # The end of a file is on the line after its last line break.
        notes.error("bad-json", message, line=min(error.lineno, data.count(b"\n") + 1))
        return None
    except (ValueError, RecursionError):  # yaml_of describes these better
        pass
    return parse_yaml(_SURROGATE_PAIR.sub(_join_surrogates, data), notes)


def require_object(value: Any, notes: ProblemLog, expected: str) -> dict[str, Any]:
    """Returns the parsed content of a suite; an empty object and an error if it is not an object.

    Args:
        value: the content; None if it could not be parsed.
        notes: takes the error, unless it has one already.
        expected: what the file must be, for the message.
    """
    if isinstance(value, dict):
        return value
    if not notes.has_errors:
        actual = "empty" if value is None else json_type(value)
        notes.error("not-a-suite", f"The file is {actual}; it must be {expected}.")
    return {}


def _join_surrogates(match: re.Match[bytes]) -> bytes:
    """Returns the YAML escape of a surrogate pair."""
    high, low = int(match[2], 16) - 0xD800, int(match[3], 16) - 0xDC00
    return match[1] + rb"\U%08x" % (0x10000 + (high << 10) + low)


def ignore_fields(
    fields: FieldReader, names: Iterable[str], ignored: dict[str, Any], prefix: str = ""
) -> None:
    """Moves fields that have no effect here to `ignored`, and warns about each."""
    for name in names if fields.remaining_names() else ():
        if name in fields:
            ignored[prefix + name] = to_plain(fields.pop(name))
            fields.warn("no-effect", name, "has no effect here.")


def refuse_fields(fields: FieldReader, refused: Mapping[str, tuple[str, str]]) -> None:
    """Removes fields that are not supported, and adds an error for each: a code and a message by name."""
    for name, (code, why) in refused.items():
        if name in fields:
            fields.pop(name)
            fields.error(code, name, why)
