"""The files that a promptfoo configuration refers to: their paths and contents.

Text and data files are read; code is never run, and no URL is fetched.
"""

from __future__ import annotations

import re
from base64 import b64encode
from posixpath import basename, splitext
from typing import Any, Final

from proctor.dialects.shared.attachments import AUDIO_MEDIA_TYPES, IMAGE_MEDIA_TYPES, VIDEO_MEDIA_TYPES
from proctor.dialects.shared.signatures import YAML_ENDINGS
from proctor.dialects.shared.yaml_files import display_path, find_file, parse_json, parse_yaml
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import ProblemLog, quote_value

FILE_SCHEME: Final = "file://"
JSON_ENDINGS: Final = (".json",)
DATA_ENDINGS: Final = (*JSON_ENDINGS, *YAML_ENDINGS)
CODE_ENDINGS: Final = (
    *(".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".py", ".rb", ".go", ".sh", ".bash", ".pl", ".ps1"),
    *(".php", ".exe", ".bat", ".cmd"),
)
MEDIA_ENDINGS: Final = frozenset({*IMAGE_MEDIA_TYPES, *AUDIO_MEDIA_TYPES, *VIDEO_MEDIA_TYPES}) - {".svg"}
"""Endings of files whose value is their content in base64."""

_CODE_PATH: Final = re.compile(r"^(.*(\.\w+))(?::[A-Za-z_$][\w$.]*)?$")
_GLOB_CHARACTERS: Final = frozenset("*?[")
_ADDRESS: Final = re.compile(r"(?!file:)([A-Za-z][\w+.-]*)://")


def strip_scheme(reference: str) -> str:
    """Returns the path in a reference, without `file://`."""
    return reference.removeprefix(FILE_SCHEME).removeprefix("./")


def get_ending(path: str) -> str:
    """Returns the ending of a path in lower case, without a function name after a program's path."""
    match = _CODE_PATH.match(path)
    return match[2].lower() if match and match[2].lower() in CODE_ENDINGS else splitext(path)[1].lower()


def refuse_reference(reference: str, notes: ProblemLog, field: str, line: int | None, instead: str) -> bool:
    """Whether a reference is to code or to a URL; notes an error if it is.

    Args:
        reference: as it is written.
        notes: takes the error.
        field: its name in messages.
        line: its line.
        instead: what to do, as a sentence.
    """
    address = _ADDRESS.match(reference)
    if address:
        message = f"`{field}` is a URL ({address[1]}://), and Proctor fetches nothing. {instead}"
        notes.error("not-fetched", message, field, line=line)
        return True
    path = strip_scheme(reference)
    if reference.startswith("exec:") or get_ending(path) in CODE_ENDINGS:
        message = (
            f"`{field}` is the program {quote_value(basename(path))}, and Proctor runs no code from a suite. "
            f"{instead}"
        )
        notes.error("code", message, field, line=line)
        return True
    return False


def expand_reference(
    reference: str, source: SuiteSource, notes: ProblemLog, field: str, line: int | None = None
) -> list[str]:
    """Returns the path in a reference, or those that it matches as a glob; an error if it matches none."""
    path = strip_scheme(reference)
    paths = source.expand_glob(path) if _GLOB_CHARACTERS.intersection(path) else [path]
    if not paths:
        message = f"`{field}` is {quote_value(path)}, which matches no file."
        notes.error("empty-glob", message, field, line=line)
    return paths


def read_text(file: SourceFile, source: SuiteSource, notes: ProblemLog, field: str, line: int | None) -> str:
    """Decodes a text file and normalizes its line endings; an error if it is not UTF-8."""
    try:
        return file.data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        message = (
            f"`{field}` is {display_path(source, file.path)}, whose byte {error.start + 1} is not "
            f"UTF-8. Only text files can be read."
        )
        notes.error("bad-encoding", message, field, line=line)
        return ""


def read_data(file: SourceFile, source: SuiteSource, notes: ProblemLog) -> Any:
    """Parses a YAML or JSON file. Returns None and notes the problems if it is invalid."""
    inner = ProblemLog(display_path(source, file.path), 1, notes.subject)
    inner.row = notes.row
    read = parse_json if file.path.lower().endswith(JSON_ENDINGS) else parse_yaml
    value = read(file.data, inner)
    notes.extend(inner)
    return value


def read_value(reference: str, source: SuiteSource, notes: ProblemLog, field: str, line: int | None) -> Any:
    """Reads a value from a file: data for YAML and JSON, base64 for media, else its stripped text."""
    if refuse_reference(reference, notes, field, line, "Write the value itself."):
        return None
    file = find_file(strip_scheme(reference), source, notes, field, line)
    if file is None:
        return None
    if file.path.lower().endswith(DATA_ENDINGS):
        return read_data(file, source, notes)
    if get_ending(file.path) in MEDIA_ENDINGS:
        return b64encode(file.data).decode("ascii")
    return read_text(file, source, notes, field, line).strip()
