"""promptfoo's tests in CSV, one for each row: columns are vars, or begin with `__` for everything else.

An expectation is written as `type(threshold): value`; a text without a known type must equal the answer.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from io import StringIO
from typing import Any, Final

from proctor.dialects.promptfoo.assertions import CODE_TYPES, TYPES, UNMEASURED_TYPES
from proctor.dialects.shared.csv_rows import explain_csv_error
from proctor.dialects.shared.yaml_files import display_path
from proctor.errors import suggestion
from proctor.model import Problem, UnreadableRow
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import ProblemLog, quote_value

COLUMNS: Final = (
    *("__expected", "__description", "__prefix", "__suffix", "__metric", "__threshold", "__metadata:NAME"),
    "__config:__expected:threshold",
)

_EXPECTED_COLUMN: Final = re.compile(r"__expected(\d*)")
_CONFIG_COLUMN: Final = re.compile(r"__config:__expected(\d*):threshold")
_METADATA_COLUMN: Final = re.compile(r"__metadata:(.*?)(\[\])?")
_KNOWN_TYPES: Final = "|".join(
    map(re.escape, sorted((*TYPES, *UNMEASURED_TYPES, *CODE_TYPES), key=len, reverse=True))
)
_ASSERTION: Final = re.compile(
    rf"(?P<type>(?:not-)?(?:{_KNOWN_TYPES}))(?:\((?P<at>\d+(?:\.\d+)?)\))?(?::(?P<value>.*))?", re.DOTALL
)
_SHORTHANDS: Final = (("grade:", "llm-rubric"), ("fn:", "javascript"), ("eval:", "javascript"))
_DEFAULT_SIMILARITY: Final = 0.8
"""The default threshold of `similar` in CSV; it is lower elsewhere."""
_PLAIN_COLUMNS: Final = {"__description": "description", "__threshold": "threshold"}
_OPTION_COLUMNS: Final = {"__prefix": "prefix", "__suffix": "suffix"}

NumberedTest = tuple[int, dict[str, Any]]
"""A test's line, and the test as a configuration would have it."""


def read_csv_tests(file: SourceFile, text: str, source: SuiteSource) -> Iterator[NumberedTest | Problem]:
    """Yields the tests of a CSV file in order, and a problem for each invalid row or column."""
    path = display_path(source, file.path)
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    while True:
        notes = ProblemLog(path, reader.line_num + 1, "Test", of_case=header is not None)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            notes.row = UnreadableRow(path=path, line=notes.line, is_rest=True)
            notes.error("bad-csv", explain_csv_error(error))
            yield from notes.problems
            return
        if cells is None:
            return
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = [cell.strip() for cell in cells]
            _check_header(header, notes)
        elif len(cells) != len(header):
            message = (
                f"The row has {len(cells)} cells, but the first line has {len(header)}. Quote cells "
                f"with commas."
            )
            notes.error("extra-cell", message)
        else:
            test = _parse_test(dict(zip(header, cells, strict=True)), notes)
            if not notes.has_errors:
                yield notes.line, test
        yield from notes.problems


def _check_header(header: list[str], notes: ProblemLog) -> None:
    for place, name in enumerate(header):
        if name in header[:place]:
            notes.error("duplicate-key", f"The column {name!r} is listed twice; keep one of them.", name)
        elif name.startswith("__") and not _is_special(name):
            hint = suggestion(name[:60], COLUMNS)
            notes.error("unknown-field", f"The column {quote_value(name)} is not read. {hint}", name)


def _is_special(name: str) -> bool:
    patterns = (_EXPECTED_COLUMN, _CONFIG_COLUMN, _METADATA_COLUMN)
    return name in COLUMNS or any(pattern.fullmatch(name) for pattern in patterns)


def _parse_test(cells: dict[str, str], notes: ProblemLog) -> dict[str, Any]:
    """Returns a row as a test; empty cells of special columns are ignored."""
    test: dict[str, Any] = {"vars": {}, "assert": [], "options": {}, "metadata": {}}
    expected: dict[str, dict[str, Any]] = {}
    for name, cell in cells.items():
        metadata = _METADATA_COLUMN.fullmatch(name)
        match = _EXPECTED_COLUMN.fullmatch(name)
        if not name.startswith("__"):
            test["vars"][name] = cell
        elif not cell.strip():
            continue
        elif match:
            expected[match[1]] = parse_assertion(cell)
        elif metadata:
            items = [item.strip() for item in cell.split(",")]
            test["metadata"][metadata[1]] = items if metadata[2] else cell
        elif name in _OPTION_COLUMNS:
            test["options"][_OPTION_COLUMNS[name]] = cell
        elif name in _PLAIN_COLUMNS:
            test[_PLAIN_COLUMNS[name]] = _parse_number(cell, name, notes) if name == "__threshold" else cell
    for name, cell in cells.items():
        config = _CONFIG_COLUMN.fullmatch(name)
        places = [] if not config else [config[1]] if config[1] else list(expected)
        for number in places if cell.strip() else ():
            if number in expected:
                expected[number]["threshold"] = _parse_number(cell, name, notes)
    metric = cells.get("__metric", "").strip()
    test["assert"] = [
        assertion | {"metric": metric} if metric else assertion for assertion in expected.values()
    ]
    return test


def _parse_number(cell: str, name: str, notes: ProblemLog) -> float | None:
    if re.fullmatch(r"\s*\d{1,15}(\.\d{1,15})?\s*", cell):
        return float(cell)
    notes.error("wrong-type", f"`{name}` is {quote_value(cell)}; it must be a number.", name)
    return None


def parse_assertion(text: str) -> dict[str, Any]:
    """Parses an expectation into an assertion as a configuration would have it."""
    for before, kind in _SHORTHANDS:
        if text.startswith(before):
            return {"type": kind, "value": text.removeprefix(before).strip()}
    match = _ASSERTION.fullmatch(text.strip())
    if match is None:
        return {"type": "equals", "value": text}
    assertion: dict[str, Any] = {"type": match["type"]}
    if match["value"] is not None and match["value"].strip():
        assertion["value"] = match["value"].strip()
    if match["at"] is not None:
        assertion["threshold"] = float(match["at"])
    elif match["type"].endswith("similar"):
        assertion["threshold"] = _DEFAULT_SIMILARITY
    return assertion
