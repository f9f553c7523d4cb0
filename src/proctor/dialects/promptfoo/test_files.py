"""Finds promptfoo's tests, in the configuration or in files, and returns their raw objects."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.promptfoo.csv import csv_tests
from proctor.dialects.promptfoo.files import DATA, data_of, ending_of, is_refused, path_of, text_of
from proctor.dialects.shared.jsonl import rows
from proctor.dialects.shared.yaml_files import file_of, shown_path
from proctor.model import Problem, Row
from proctor.protocols import Found, Source
from proctor.validation import Notes, kind_of, shown

JSON_LINES: Final = (".jsonl", ".ndjson")
CSV: Final = ".csv"
_ENDINGS: Final = (CSV, *JSON_LINES, *DATA)
_INSTEAD: Final = "Write the tests out, in the configuration or in a file of data."
_WILD: Final = frozenset("*?[")


class Raw(Struct, frozen=True, kw_only=True):
    """One test as it is written."""

    row: dict[str, Any]
    line: int
    path: str | None = None
    """The test's file as the user would write it; None for the configuration."""


def tests_of(value: Any, line: int, source: Source) -> Iterator[Raw | Problem]:
    """Yields the tests of a configuration in order, and a problem for anything else.

    Without any tests there is one, with only the defaults.
    """
    notes = Notes(source.path, line)
    if value is None:
        yield Raw(row={}, line=line)
    elif isinstance(value, str | dict):
        yield from _item(value, "tests", line, source)
    elif isinstance(value, list):
        lines = getattr(value, "lines", [line] * len(value))
        for place, item in enumerate(value):
            yield from _item(item, f"tests[{place}]", lines[place], source)
    else:
        message = f"`tests` is {shown(value)}, {kind_of(value)}; it must be a list of tests, or a file."
        notes.error("wrong-type", message, "tests")
        yield from notes.problems


def _item(item: Any, field: str, line: int, source: Source) -> Iterator[Raw | Problem]:
    if isinstance(item, dict) and isinstance(item.get("path"), str):
        item = item["path"]
    elif isinstance(item, dict) and field != "tests":
        yield Raw(row=item, line=getattr(item, "line", line))
        return
    notes = Notes(source.path, line, of_case=True)
    if isinstance(item, str):
        yield from _read_reference(item, field, notes, source)
        return
    message = f"`{field}` is {shown(item)}, {kind_of(item)}; it must be a test, or the path of a file."
    notes.error("wrong-type", message, field)
    yield from notes.problems


def _read_reference(reference: str, field: str, notes: Notes, source: Source) -> Iterator[Raw | Problem]:
    """Yields the tests of the files that a path or a glob matches."""
    path = path_of(reference)
    files: list[Found | None] = []
    if not is_refused(reference, notes, field, None, _INSTEAD):
        wild = bool(_WILD.intersection(path))
        matches = source.expand(path) if wild else [path]
        if not matches:
            notes.error("empty-glob", f"`{field}` is {shown(path)}, which matches no file.", field)
        files = [file_of(match, source, notes, field) for match in matches]
    yield from notes.problems
    for file in files:
        if file is not None:
            yield from _file(file, field, Notes(notes.path, notes.line, of_case=True), source)


def _file(file: Found, field: str, notes: Notes, source: Source) -> Iterator[Raw | Problem]:
    path = shown_path(source, file.path)
    ending = ending_of(file.path)
    if ending == CSV:
        text = text_of(file, source, notes, field, None)
        yield from notes.problems
        for item in csv_tests(file, text, source):
            yield item if isinstance(item, Problem) else Raw(row=item[1], line=item[0], path=path)
    elif ending in JSON_LINES:
        for row in rows(BytesIO(file.data), path):
            yield row if isinstance(row, Problem) else Raw(row=row[1], line=row[0], path=path)
    elif ending in DATA:
        yield from _data(file, path, source)
    else:
        endings = ", ".join(_ENDINGS)
        message = f"`{field}` is {shown(file.path)}; tests are read from files that end in {endings}."
        notes.error("unknown-ending", message, field)
        yield from notes.problems


def _data(file: Found, path: str, source: Source) -> Iterator[Raw | Problem]:
    notes = Notes(path, 1)
    notes.row = Row(path=path, line=1, is_rest=True)
    value = data_of(file, source, notes)
    items: list[Any] = value if isinstance(value, list) else [value]
    lines = getattr(items, "lines", [1] * len(items))
    yield from notes.problems
    for item, line in zip(items, lines, strict=True) if not notes.failed else ():
        if isinstance(item, dict):
            yield Raw(row=item, line=getattr(item, "line", line), path=path)
        else:
            actual = "empty" if item is None else f"{shown(item)}, {kind_of(item)}"
            own = Notes(path, line, of_case=True)
            own.error("wrong-type", f"A test is {actual}; it must be an object.")
            yield from own.problems
