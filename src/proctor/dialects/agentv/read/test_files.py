"""Finds the tests of an agentv suite and returns their raw objects.

They are in the suite itself, or in other files that it refers to: YAML, JSON Lines, files that match a glob,
or a folder in which each subfolder with a `case.yaml` is one test. A line of a JSON Lines suite is a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from posixpath import basename, dirname, normpath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.agentv.shared import resolve_references, search_in_folder, with_fields
from proctor.dialects.shared.jsonl import read_rows
from proctor.dialects.shared.signatures import YAML_ENDINGS
from proctor.dialects.shared.yaml_files import display_path, find_file, parse_yaml
from proctor.model import Problem, UnreadableRow
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import ProblemLog, json_type, quote_value
from proctor.yaml12 import YamlMap, empty_like

JSON_LINES_ENDINGS: Final = (".jsonl", ".ndjson")
_FILE_SCHEME: Final = "file://"
_GLOB_CHARACTERS: Final = frozenset("*?[")


class RawTest(Struct, frozen=True, kw_only=True):
    """One test as it is written."""

    row: dict[str, Any]
    line: int
    path: str | None = None
    """The test's file as the user would write it; None for the suite's own file."""
    source: SuiteSource
    """The suite; files are looked for beside the test's own file first."""


def read_tests(value: Any, field: str, line: int, source: SuiteSource) -> Iterator[RawTest | Problem]:
    """Yields the tests that a suite lists or refers to, in order, and a problem for anything else."""
    if isinstance(value, str):
        yield from _read_named_file(value.removeprefix(_FILE_SCHEME), field, line, source)
    elif isinstance(value, list):
        lines = getattr(value, "lines", [line] * len(value))
        for place, item in enumerate(value):
            yield from _read_item(item, f"{field}[{place}]", lines[place], source)
    else:
        actual = "missing" if value is None else f"{quote_value(value)}, {json_type(value)}"
        message = (
            f"`{field}` is {actual}; it must be a list of tests, or the path of a file or folder with tests."
        )
        yield _make_problem(
            "missing-field" if value is None else "wrong-type", message, source.path, line, field
        )


def read_json_lines(
    lines: Iterable[bytes], path: str, source: SuiteSource, shown_as: str | None = None
) -> Iterator[RawTest | Problem]:
    """Yields each line of a JSON Lines file as a test."""
    for item in read_rows(lines, path):
        if isinstance(item, Problem):
            yield item
        else:
            yield RawTest(row=item[1], line=item[0], path=shown_as, source=source)


def _read_item(item: Any, field: str, line: int, source: SuiteSource) -> Iterator[RawTest | Problem]:
    if isinstance(item, dict):
        yield RawTest(row=item, line=getattr(item, "line", line), source=source)
    elif isinstance(item, str) and item.startswith(_FILE_SCHEME):
        yield from _read_named_file(item.removeprefix(_FILE_SCHEME), field, line, source)
    else:
        message = (
            f"`{field}` is {quote_value(item)}, {json_type(item)}; it must be a test, or text that begins "
            "with file://."
        )
        yield _make_problem("wrong-type", message, source.path, line, field)


# --- other files -------------------------------------------------------------------------------------------


def _read_named_file(path: str, field: str, line: int, source: SuiteSource) -> Iterator[RawTest | Problem]:
    """Yields the tests of a file, a glob or a folder."""
    notes = ProblemLog(source.path, line, of_case=True)
    path = str(resolve_references(path, source, notes, field))
    yield from notes.problems
    if notes.has_errors:
        return
    file = source.find_file(path)
    if file is not None:
        yield from _read_file(file, source)
    elif _GLOB_CHARACTERS.intersection(path):
        matches = source.expand_glob(path)
        if not matches:
            message = (
                f"`{field}` is {path!r}, which matches no file. The path is relative to the folder of "
                f"the suite."
            )
            yield _make_problem("empty-glob", message, source.path, line, field)
        for match in matches:
            yield from _read_matching_file(match, field, line, source)
    elif path.lower().endswith((*YAML_ENDINGS, *JSON_LINES_ENDINGS)):
        find_file(path, source, notes, field)
        yield from notes.problems
    else:
        yield from _read_folder(path, field, line, source)


def _read_matching_file(path: str, field: str, line: int, source: SuiteSource) -> Iterator[RawTest | Problem]:
    """Yields the tests of a file that a glob or a folder matched."""
    file = source.find_file(path)
    if file is not None:
        yield from _read_file(file, source)
        return
    message = (
        f"The file {path!r} of `{field}` cannot be read. Check its permissions and, if it is a link, "
        f"that its target exists."
    )
    yield _make_problem("missing-file", message, source.path, line, field)


def _read_file(file: SourceFile, source: SuiteSource) -> Iterator[RawTest | Problem]:
    path = display_path(source, file.path)
    near = search_in_folder(source, dirname(file.path))
    if file.path.lower().endswith(JSON_LINES_ENDINGS):
        yield from read_json_lines(BytesIO(file.data), path, near, path)
        return
    if not file.path.lower().endswith(YAML_ENDINGS):
        endings = ", ".join((*YAML_ENDINGS, *JSON_LINES_ENDINGS))
        message = f"Test files must end in {endings}. Rename the file, or narrow the glob."
        yield _make_problem("unknown-ending", message, path, 1)
        return
    notes = ProblemLog(path, 1)
    notes.row = UnreadableRow(path=path, line=1, is_rest=True)
    value = parse_yaml(file.data, notes)
    yield from notes.problems
    tests: Any = [value] if isinstance(value, dict) else value
    if notes.has_errors:
        return
    if not isinstance(tests, list) or not tests:
        actual = json_type(tests) if tests else "empty"
        message = f"The file is {actual} and contains no tests; write a list of tests."
        yield _make_problem("no-tests", message, path, 1)
        return
    lines = getattr(tests, "lines", [1] * len(tests))
    for test, line in zip(tests, lines, strict=True):
        if not isinstance(test, YamlMap):
            message = (
                f"{quote_value(test)} is {json_type(test)}, not a test. To use more files, name them "
                f"in the suite itself."
            )
            yield _make_problem("wrong-type", message, path, line)
        elif "tests" in test:
            message = "The file has `tests`, so it is a suite itself. Write a list of tests instead."
            yield _make_problem("wrong-type", message, path, test.lines["tests"], "tests")
        else:
            yield RawTest(row=test, line=test.line, path=path, source=near)


def _read_folder(path: str, field: str, line: int, source: SuiteSource) -> Iterator[RawTest | Problem]:
    """Yields a test for each subfolder with a `case.yaml`; the default id is the folder's name."""
    expand = source.expand_glob
    files = {
        dirname(file): file for ending in reversed(YAML_ENDINGS) for file in expand(f"{path}/*/case{ending}")
    }
    if not files:
        message = (
            f"`{field}` is {path!r}, which is neither a file nor a folder whose subfolders contain a "
            f"case.yaml."
        )
        yield _make_problem("missing-file", message, source.path, line, field)
    for folder in sorted({*map(normpath, expand(f"{path}/*/")), *files}):
        if folder not in files:
            message = f"The folder {folder!r} has no case.yaml and is skipped."
            yield replace(_make_problem("no-tests", message, source.path, line, field), level="warning")
            continue
        for raw in _read_matching_file(files[folder], field, line, source):
            if isinstance(raw, RawTest):
                raw = _with_folder_defaults(raw, folder, expand(f"{folder}/workspace/"))
            yield raw


def _with_folder_defaults(raw: RawTest, folder: str, workspace: list[str]) -> RawTest:
    row = empty_like(raw.row)
    row.update({"id": basename(folder), **raw.row})
    own: Any = row.get("workspace", {})
    if workspace and isinstance(own, dict) and "template" not in own:
        row["workspace"] = with_fields(own, {"template": normpath(workspace[0])})
    return replace(raw, row=row)


def _make_problem(code: str, message: str, path: str, line: int, field: str | None = None) -> Problem:
    row = UnreadableRow(path=path, line=line)
    return Problem(code=code, message=message, path=path, line=line, field=field, row=row)
