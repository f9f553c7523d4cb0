"""Finds promptfoo's tests, in the configuration or in files, and returns their raw objects."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.promptfoo.csv import read_csv_tests
from proctor.dialects.promptfoo.files import (
    DATA_ENDINGS,
    expand_reference,
    get_ending,
    read_data,
    read_text,
    refuse_reference,
)
from proctor.dialects.shared.jsonl import read_rows
from proctor.dialects.shared.yaml_files import display_path, find_file
from proctor.model import Problem, UnreadableRow
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import ProblemLog, json_type, quote_value

JSON_LINES_ENDINGS: Final = (".jsonl", ".ndjson")
CSV_ENDING: Final = ".csv"
_ADVICE: Final = "Write the tests out, in the configuration or in a file of data."


class RawPromptfooTest(Struct, frozen=True, kw_only=True):
    """One test as it is written."""

    row: dict[str, Any]
    line: int
    path: str | None = None
    """The test's file as the user would write it; None for the configuration."""


def read_tests(value: Any, line: int, source: SuiteSource) -> Iterator[RawPromptfooTest | Problem]:
    """Yields the tests of a configuration in order, and a problem for anything else.

    Without any tests there is one, with only the defaults.
    """
    if value is None:
        yield RawPromptfooTest(row={}, line=line)
    elif isinstance(value, str | dict):
        yield from _read_item(value, "tests", line, source)
    elif isinstance(value, list):
        lines = getattr(value, "lines", [line] * len(value))
        for place, item in enumerate(value):
            yield from _read_item(item, f"tests[{place}]", lines[place], source)
    else:
        notes = ProblemLog(source.path, line)
        notes.report_wrong_type("tests", value, "a list of tests, or a file")
        yield from notes.problems


def _read_item(item: Any, field: str, line: int, source: SuiteSource) -> Iterator[RawPromptfooTest | Problem]:
    if isinstance(item, dict) and isinstance(item.get("path"), str):
        item = item["path"]
    elif isinstance(item, dict) and field != "tests":
        yield RawPromptfooTest(row=item, line=getattr(item, "line", line))
        return
    notes = ProblemLog(source.path, line, of_case=True)
    if isinstance(item, str):
        yield from _read_reference(item, field, notes, source)
        return
    notes.report_wrong_type(field, item, "a test, or the path of a file")
    yield from notes.problems


def _read_reference(
    reference: str, field: str, notes: ProblemLog, source: SuiteSource
) -> Iterator[RawPromptfooTest | Problem]:
    """Yields the tests of the files that a path or a glob matches."""
    files: list[SourceFile | None] = []
    if not refuse_reference(reference, notes, field, None, _ADVICE):
        paths = expand_reference(reference, source, notes, field)
        files = [find_file(path, source, notes, field) for path in paths]
    yield from notes.problems
    for file in files:
        if file is not None:
            yield from _read_file(file, field, ProblemLog(notes.path, notes.line, of_case=True), source)


def _read_file(
    file: SourceFile, field: str, notes: ProblemLog, source: SuiteSource
) -> Iterator[RawPromptfooTest | Problem]:
    path = display_path(source, file.path)
    ending = get_ending(file.path)
    if ending == CSV_ENDING:
        text = read_text(file, source, notes, field, None)
        yield from notes.problems
        for item in read_csv_tests(file, text, source):
            yield (
                item if isinstance(item, Problem) else RawPromptfooTest(row=item[1], line=item[0], path=path)
            )
    elif ending in JSON_LINES_ENDINGS:
        for row in read_rows(BytesIO(file.data), path):
            yield row if isinstance(row, Problem) else RawPromptfooTest(row=row[1], line=row[0], path=path)
    elif ending in DATA_ENDINGS:
        yield from _read_data_file(file, path, source)
    else:
        endings = ", ".join((CSV_ENDING, *JSON_LINES_ENDINGS, *DATA_ENDINGS))
        message = f"`{field}` is {quote_value(file.path)}; a test file must end in {endings}."
        notes.error("unknown-ending", message, field)
        yield from notes.problems


def _read_data_file(file: SourceFile, path: str, source: SuiteSource) -> Iterator[RawPromptfooTest | Problem]:
    notes = ProblemLog(path, 1)
    notes.row = UnreadableRow(path=path, line=1, is_rest=True)
    value = read_data(file, source, notes)
    items: list[Any] = value if isinstance(value, list) else [value]
    lines = getattr(items, "lines", [1] * len(items))
    yield from notes.problems
    for item, line in zip(items, lines, strict=True) if not notes.has_errors else ():
        if isinstance(item, dict):
            yield RawPromptfooTest(row=item, line=getattr(item, "line", line), path=path)
        else:
            actual = "empty" if item is None else f"{quote_value(item)}, {json_type(item)}"
            own = ProblemLog(path, line, of_case=True)
            own.error("wrong-type", f"A test is {actual}; it must be an object.")
            yield from own.problems
