"""Reads the CSV form of dialect meridian (RFC 4180) as rows: dictionaries of the cells that are not blank.

Accepts a byte order mark, `;` or a tab as the separator, and any case and spaces of column names. Cells are
text and stay as they are written. The meaning of the columns is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from proctor.dialects.shared.csv_rows import (
    detect_separator,
    extra_cell_message,
    parse_column_names,
    read_records,
)
from proctor.dialects.shared.jsonl import peek
from proctor.errors import suggestion
from proctor.model import Problem
from proctor.validation import ProblemLog, quote_value

COLUMNS: Final = ("id", "input", "prompt", "expected", "answer", "scorer", "rubric", "tags", "lint")

_PROMPT_COLUMNS: Final = frozenset(("input", "prompt"))
_WORD_COLUMNS: Final = frozenset(("id", "scorer"))
"""Columns of single words, whose cells are stripped."""


def parse_csv_header(header: str) -> list[str]:
    """Returns the column names of a header line, in lower case and stripped."""
    return parse_column_names(header, detect_separator(header, COLUMNS))


def read_csv_rows(lines: Iterable[bytes], path: str) -> Iterator[tuple[int, int, dict[str, str]] | Problem]:
    """Yields each row's line, number from 1, and cells by column; a problem for each invalid row.

    A row may span several lines. Rows without any text are skipped and not numbered.
    """
    first, lines = peek(lines)
    mark = detect_separator(first.decode("utf-8", "replace"), COLUMNS)
    header: list[str] | None = None
    number = 0
    for record in read_records(lines, path, mark):
        if isinstance(record, Problem):
            yield record
            continue
        line, cells = record
        notes = ProblemLog(path, line, of_case=header is not None)
        if header is None:
            header = _read_header(cells, notes)
            yield from notes.problems
            if _PROMPT_COLUMNS.isdisjoint(header):
                return
            continue
        number += 1
        row = _read_row(header, cells, notes)
        yield from notes.problems
        if not notes.has_errors:
            yield line, number, row


def _read_header(cells: list[str], notes: ProblemLog) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    for place, name in enumerate(names):
        if name and name not in COLUMNS:
            hint = suggestion(name[:60], COLUMNS)
            notes.error("unknown-field", f"Unknown column {quote_value(name)}. {hint}", name)
        elif name and name in names[:place]:
            notes.error("duplicate-key", f"The column {name!r} is there twice; keep one of them.", name)
    if _PROMPT_COLUMNS.isdisjoint(names):
        notes.error(
            "missing-prompt", "The first line names no column `input` or `prompt`; name the columns there."
        )
    return names


def _read_row(header: list[str], cells: list[str], notes: ProblemLog) -> dict[str, str]:
    row: dict[str, str] = {}
    for place, cell in enumerate(cells):
        if not cell or cell.isspace():
            continue
        name = header[place] if place < len(header) else ""
        if name in COLUMNS:
            row[name] = cell.strip() if name in _WORD_COLUMNS else cell
        elif not name:  # a column with an unknown name was reported once, at the header
            notes.error("extra-cell", extra_cell_message(cell, place))
    return row
