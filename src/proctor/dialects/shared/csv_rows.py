"""Reads CSV (RFC 4180): the cells of each record, and rows by the columns of a header line.

Accepts a byte order mark, `;` or a tab as the separator, and any case and spaces of column names. Cells are
text and stay as they are written.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from proctor.dialects.shared.jsonl import BOM, STRAY_RETURN, UTF_16_BOMS, peek, read_rows
from proctor.errors import has_near_name, suggestion
from proctor.lazy_pattern import lazy_pattern
from proctor.model import Problem, UnreadableRow
from proctor.protocols import SuiteSource
from proctor.validation import ProblemLog, quote_value

VARS_FIELD: Final = "vars"
"""The field of a row with its variables."""
_VARIABLE: Final = lazy_pattern(r"[^\W\d]\w*")
"""A name that a prompt can have in double braces."""
_SEPARATORS: Final = ",;\t"
_JSON_ENDINGS: Final = (".jsonl", ".ndjson", ".json")


def detect_separator(header: str, preferred: Collection[str] = ()) -> str:
    """Returns the one of `,`, `;` and tab that gives a header the most columns, preferred ones first."""

    def columns(mark: str) -> tuple[int, int]:
        names = parse_column_names(header, mark)
        return len(set(names).intersection(preferred)), len(names)

    return max(_SEPARATORS, key=columns)


def parse_column_names(header: str, mark: str) -> list[str]:
    """Returns the column names of a header line, in lower case and stripped."""
    try:
        cells = next(csv.reader([header], delimiter=mark), [])
    except csv.Error:
        return []
    return [cell.strip().lower() for cell in cells]


def read_table(source: SuiteSource) -> Iterator[tuple[int, int, dict[str, Any]] | Problem]:
    """Yields the line, number and fields of each row of JSON Lines or CSV, or a problem.

    Rows of JSON Lines have the numbers of their lines.
    """
    first, lines = peek(source.read_lines())
    if first.startswith((b"{", b"[", *UTF_16_BOMS)) or source.path.lower().endswith(_JSON_ENDINGS):
        for item in read_rows(lines, source.path):
            yield item if isinstance(item, Problem) else (item[0], *item)
    else:
        yield from read_csv_rows(lines, source.path)


def read_csv_rows(
    lines: Iterable[bytes], path: str, columns: Sequence[str] = (), prompt_columns: Sequence[str] = ()
) -> Iterator[tuple[int, int, dict[str, Any]] | Problem]:
    """Yields the line, number from 1 and cells by column of each row; a problem for each invalid row.

    A row may span several lines. Rows without any text are skipped and not numbered; blank cells are left
    out.

    Args:
        lines: of the file.
        path: of the file.
        columns: the columns with a meaning; empty for any. Each other column is a variable for prompts,
            unless its name is nearly that of a column: its cells, blank or not, are an object in `vars`.
        prompt_columns: the columns for the prompt, of which a file without variables must have one.
    """
    first, lines = peek(lines)
    header: list[str] | None = None
    number = 0
    for record in read_records(lines, path, detect_separator(first.decode("utf-8", "replace"), columns)):
        if isinstance(record, Problem):
            yield record
            continue
        notes = ProblemLog(path, record[0], of_case=header is not None)
        if header is None:
            header = _read_header(record[1], notes, columns, prompt_columns)
            yield from notes.problems
            variables = [name for name in header if _is_variable(name, columns)]
            if prompt_columns and not variables and set(prompt_columns).isdisjoint(header):
                return
            continue
        number += 1
        row = _read_row(header, record[1], notes, (*columns, *variables))
        if variables:
            row[VARS_FIELD] = {name: row.pop(name, "") for name in variables}
        if not notes.has_errors:
            yield notes.line, number, row
        yield from notes.problems


def _read_header(
    cells: list[str], notes: ProblemLog, columns: Sequence[str], prompt_columns: Sequence[str]
) -> list[str]:
    names = [_fold_name(cell.strip(), columns) for cell in cells]
    for place, name in enumerate(names):
        if name and name in names[:place]:
            notes.error("duplicate-key", f"The column {name!r} is listed twice; keep one of them.", name)
        elif name and columns and name not in columns and not _is_variable(name, columns):
            message = f"Unknown column {quote_value(name)}. {_get_advice(name, columns)}"
            notes.error("unknown-field", message, name)
    variables = any(_is_variable(name, columns) for name in names)
    if prompt_columns and not variables and set(prompt_columns).isdisjoint(names):
        either = " or ".join(f"`{name}`" for name in prompt_columns)
        message = f"The first line names no column {either}; name the columns there."
        notes.error("missing-prompt", message)
    return names


def _fold_name(name: str, columns: Sequence[str]) -> str:
    """Returns a column's name in lower case, but that of a variable as it is written."""
    lower = name.lower()
    return name if columns and lower not in columns else lower


def _is_variable(name: str, columns: Sequence[str]) -> bool:
    """Whether a column is a variable for prompts, and neither a known column nor a misspelt one."""
    return (
        bool(columns)
        and name not in columns
        and _VARIABLE.fullmatch(name) is not None
        and not has_near_name(name.lower(), columns)
    )


def _get_advice(name: str, columns: Sequence[str]) -> str:
    if has_near_name(name.lower(), columns):
        return (
            f"{suggestion(name[:60].lower(), columns)} To use it as a variable for prompts, choose a "
            f"name that is less similar."
        )
    return "The name of a variable for prompts can contain letters, digits and `_`, such as `city`."


def _read_row(
    header: list[str], cells: list[str], notes: ProblemLog, columns: Sequence[str]
) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for place, cell in enumerate(cells):
        if not cell or cell.isspace():
            continue
        name = header[place] if place < len(header) else ""
        if not name:
            message = (
                f"The cell {quote_value(cell)} is in column {place + 1}, which has no name. "
                "Quote cells that contain the separator, or name the column."
            )
            notes.error("extra-cell", message)
        elif not columns or name in columns:  # a column with an unknown name was reported at the header
            row[name] = cell
    return row


class _DecodedLines:
    """Decodes lines for the csv module, and records bytes that are not UTF-8."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self.bad_bytes: list[tuple[int, int]] = []
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, 1):
            if number == 1:
                line = line.removeprefix(BOM)
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                self.bad_bytes.append((number, error.start + 1))
                yield line.decode("utf-8", "replace")


def read_records(lines: Iterable[bytes], path: str, mark: str) -> Iterator[tuple[int, list[str]] | Problem]:
    """Yields the line and cells of each record, and a problem for each that is not CSV in UTF-8."""
    decoded = _DecodedLines(lines)
    reader = csv.reader(decoded, delimiter=mark, strict=True)
    while True:
        begins = reader.line_num + 1
        row = UnreadableRow(path=path, line=begins)
        wrong: Problem | None = None
        cells: list[str] = []
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # A quote that is not closed includes the rows below.
            row = replace(row, cases=reader.line_num - begins + 1)
            wrong = Problem(code="bad-csv", message=explain_csv_error(error), path=path, line=begins, row=row)
        for number, place in decoded.bad_bytes:
            message = f"Byte {place} of the line is not UTF-8; save the file as UTF-8."
            yield Problem(code="bad-encoding", message=message, path=path, line=number, row=row)
        if wrong is not None:
            yield wrong
        elif not decoded.bad_bytes and any(cell and not cell.isspace() for cell in cells):
            yield begins, cells
        decoded.bad_bytes.clear()


def explain_csv_error(error: csv.Error) -> str:
    """Returns what is wrong with a row that is not CSV, and what to do."""
    text = str(error)
    if text == "unexpected end of data":
        return "A quote opens in this row and is never closed. Close it, and double each quote inside a cell."
    if "field larger than field limit" in text:
        return (
            f"A cell has more than {csv.field_size_limit():,} characters; write such a suite as JSON Lines."
        )
    if "new-line character" in text:
        return f"The line has {STRAY_RETURN}, or put the cell with the `\\r` in quotes."
    return (
        "The row is not CSV: after the quote that closes a cell comes other text. Put the whole cell in "
        "quotes, and double each quote inside it."
    )
