"""Finds the tests of an agentv suite and returns their raw objects.

They are in the suite itself, or in other files that it refers to: YAML, JSON Lines, files that match a glob,
or a folder in which each subfolder with a `case.yaml` is one test. A line of a JSON Lines suite is a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from posixpath import basename, normpath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.agentv.shared import folder_of, inside, resolved
from proctor.dialects.agentv.syntax import YAML
from proctor.dialects.shared.jsonl import rows
from proctor.dialects.shared.yaml_files import file_of, shown_path, yaml_of
from proctor.model import Problem, Row
from proctor.protocols import Found, Source
from proctor.validation import Notes, kind_of, shown
from proctor.yaml12 import Map, like

JSON_LINES: Final = (".jsonl", ".ndjson")
_SCHEME: Final = "file://"
_WILD: Final = frozenset("*?[")


class Raw(Struct, frozen=True, kw_only=True):
    """One test as it is written."""

    row: dict[str, Any]
    line: int
    path: str | None = None
    """The test's file as the user would write it; None for the suite's own file."""
    source: Source
    """The suite; files are looked for beside the test's own file first."""


def tests_of(value: Any, field: str, line: int, source: Source) -> Iterator[Raw | Problem]:
    """Yields the tests that a suite lists or refers to, in order, and a problem for anything else."""
    if isinstance(value, str):
        yield from _read_named_file(value.removeprefix(_SCHEME), field, line, source)
    elif isinstance(value, list):
        lines = getattr(value, "lines", [line] * len(value))
        for place, item in enumerate(value):
            yield from _item(item, f"{field}[{place}]", lines[place], source)
    else:
        actual = "missing" if value is None else f"{shown(value)}, {kind_of(value)}"
        message = (
            f"`{field}` is {actual}; it must be a list of tests, or the path of a file or folder with tests."
        )
        yield _problem("missing-field" if value is None else "wrong-type", message, source.path, line, field)


def json_lines(
    lines: Iterable[bytes], path: str, source: Source, shown_as: str | None = None
) -> Iterator[Raw | Problem]:
    """Yields each line of a JSON Lines file as a test."""
    for item in rows(lines, path):
        if isinstance(item, Problem):
            yield item
        else:
            yield Raw(row=item[1], line=item[0], path=shown_as, source=source)


def _item(item: Any, field: str, line: int, source: Source) -> Iterator[Raw | Problem]:
    if isinstance(item, dict):
        yield Raw(row=item, line=getattr(item, "line", line), source=source)
    elif isinstance(item, str) and item.startswith(_SCHEME):
        yield from _read_named_file(item.removeprefix(_SCHEME), field, line, source)
    else:
        message = f"`{field}` is {shown(item)}, {kind_of(item)}; it must be a test, or text that begins with file://."
        yield _problem("wrong-type", message, source.path, line, field)


# --- other files -------------------------------------------------------------------------------------------


def _read_named_file(path: str, field: str, line: int, source: Source) -> Iterator[Raw | Problem]:
    """Yields the tests of a file, a glob or a folder."""
    notes = Notes(source.path, line, of_case=True)
    path = str(resolved(path, source, notes, field))
    yield from notes.problems
    if notes.failed:
        return
    file = source.find(path)
    if file is not None:
        yield from _file(file, source)
    elif _WILD.intersection(path):
        matches = source.expand(path)
        if not matches:
            message = f"`{field}` is {path!r}, which matches no file. It begins at the suite's folder."
            yield _problem("empty-glob", message, source.path, line, field)
        for match in matches:
            yield from _read_matching_file(match, field, line, source)
    elif path.lower().endswith((*YAML, *JSON_LINES)):
        file_of(path, source, notes, field)
        yield from notes.problems
    else:
        yield from _folder(path, field, line, source)


def _read_matching_file(path: str, field: str, line: int, source: Source) -> Iterator[Raw | Problem]:
    """Yields the tests of a file that a glob or a folder matched."""
    file = source.find(path)
    if file is not None:
        yield from _file(file, source)
        return
    message = f"The file {path!r} of `{field}` cannot be read. May you, and does it lead anywhere as a link?"
    yield _problem("missing-file", message, source.path, line, field)


def _file(file: Found, source: Source) -> Iterator[Raw | Problem]:
    path = shown_path(source, file.path)
    near = inside(source, folder_of(file.path))
    if file.path.lower().endswith(JSON_LINES):
        yield from json_lines(BytesIO(file.data), path, near, path)
        return
    if not file.path.lower().endswith(YAML):
        endings = ", ".join((*YAML, *JSON_LINES))
        message = f"Tests stand in files that end in {endings}. Rename the file, or narrow the glob."
        yield _problem("unknown-ending", message, path, 1)
        return
    notes = Notes(path, 1)
    notes.row = Row(path=path, line=1, is_rest=True)
    value = yaml_of(file.data, notes)
    yield from notes.problems
    tests: Any = [value] if isinstance(value, dict) else value
    if notes.failed:
        return
    if not isinstance(tests, list) or not tests:
        actual = kind_of(tests) if tests else "empty"
        message = f"The file is {actual} and has no tests; write a list of tests."
        yield _problem("no-tests", message, path, 1)
        return
    lines = getattr(tests, "lines", [1] * len(tests))
    for test, line in zip(tests, lines, strict=True):
        if not isinstance(test, Map):
            message = f"{shown(test)} is {kind_of(test)} and no test. Name further files in the suite itself."
            yield _problem("wrong-type", message, path, line)
        elif "tests" in test:
            message = "The file is a suite of its own, since it has `tests`. Write a list of tests here."
            yield _problem("wrong-type", message, path, test.lines["tests"], "tests")
        else:
            yield Raw(row=test, line=test.line, path=path, source=near)


def _folder(path: str, field: str, line: int, source: Source) -> Iterator[Raw | Problem]:
    """Yields a test for each subfolder with a `case.yaml`; the default id is the folder's name."""
    expand = source.expand
    files = {folder_of(file): file for ending in reversed(YAML) for file in expand(f"{path}/*/case{ending}")}
    if not files:
        message = (
            f"`{field}` is {path!r}, which is neither a file nor a folder in which folders have a case.yaml."
        )
        yield _problem("missing-file", message, source.path, line, field)
    for folder in sorted({*map(normpath, expand(f"{path}/*/")), *files}):
        if folder not in files:
            message = f"The folder {folder!r} has no case.yaml and is passed over."
            yield replace(_problem("no-tests", message, source.path, line, field), level="warning")
            continue
        for raw in _read_matching_file(files[folder], field, line, source):
            yield _of_folder(raw, folder, expand(f"{folder}/workspace/")) if isinstance(raw, Raw) else raw


def _of_folder(raw: Raw, folder: str, workspace: list[str]) -> Raw:
    row = like(raw.row)
    row.update({"id": basename(folder), **raw.row})
    own: Any = row.get("workspace", {})
    if workspace and isinstance(own, dict) and "template" not in own:
        row["workspace"] = like(own)
        row["workspace"].update({**own, "template": normpath(workspace[0])})
    return replace(raw, row=row)


def _problem(code: str, message: str, path: str, line: int, field: str | None = None) -> Problem:
    row = Row(path=path, line=line)
    return Problem(code=code, message=message, path=path, line=line, field=field, row=row)
