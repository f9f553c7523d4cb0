"""The files that a promptfoo configuration refers to: their paths and contents.

Text and data files are read; code is never run, and no URL is fetched.
"""

from __future__ import annotations

import re
from posixpath import basename, splitext
from typing import Any, Final

from proctor.dialects.shared.yaml_files import file_of, json_of, shown_path, yaml_of
from proctor.protocols import Found, Source
from proctor.validation import Notes, shown

SCHEME: Final = "file://"
JSON: Final = (".json",)
YAML: Final = (".yaml", ".yml")
DATA: Final = (*JSON, *YAML)
CODE: Final = (
    *(".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".py", ".rb", ".go", ".sh", ".bash", ".pl", ".ps1"),
    *(".php", ".exe", ".bat", ".cmd"),
)

_CODE_PATH: Final = re.compile(r"^(.*(\.\w+))(?::[A-Za-z_$][\w$.]*)?$")
_ADDRESS: Final = re.compile(r"(?!file:)([A-Za-z][\w+.-]*)://")


def path_of(reference: str) -> str:
    """Returns the path in a reference, without `file://`."""
    return reference.removeprefix(SCHEME).removeprefix("./")


def ending_of(path: str) -> str:
    """Returns the ending of a path in lower case, without a function name after a program's path."""
    match = _CODE_PATH.match(path)
    return match[2].lower() if match and match[2].lower() in CODE else splitext(path)[1].lower()


def is_refused(reference: str, notes: Notes, field: str, line: int | None, instead: str) -> bool:
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
        message = f"`{field}` is at an address ({address[1]}://), and nothing is fetched. {instead}"
        notes.error("not-fetched", message, field, line=line)
        return True
    path = path_of(reference)
    if reference.startswith("exec:") or ending_of(path) in CODE:
        message = (
            f"`{field}` is the program {shown(basename(path))}, and no code of a suite is run. {instead}"
        )
        notes.error("code", message, field, line=line)
        return True
    return False


def text_of(file: Found, source: Source, notes: Notes, field: str, line: int | None) -> str:
    """Decodes a text file and normalizes its line endings; an error if it is not UTF-8."""
    try:
        return file.data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        message = (
            f"`{field}` is {shown_path(source, file.path)}, whose byte {error.start + 1} is not UTF-8. Only "
            "files of text are read."
        )
        notes.error("bad-encoding", message, field, line=line)
        return ""


def data_of(file: Found, source: Source, notes: Notes) -> Any:
    """Parses a YAML or JSON file. Returns None and notes the problems if it is invalid."""
    inner = Notes(shown_path(source, file.path), 1, notes.subject)
    inner.row = notes.row
    read = json_of if file.path.lower().endswith(JSON) else yaml_of
    value = read(file.data, inner)
    notes.problems += inner.problems
    notes.failed = notes.failed or inner.failed
    return value


def value_of(reference: str, source: Source, notes: Notes, field: str, line: int | None) -> Any:
    """Reads a value from a file: data for YAML and JSON, else its stripped text."""
    if is_refused(reference, notes, field, line, "Write the value itself."):
        return None
    file = file_of(path_of(reference), source, notes, field, line)
    if file is None:
        return None
    if file.path.lower().endswith(DATA):
        return data_of(file, source, notes)
    return text_of(file, source, notes, field, line).strip()
