"""Reads the CSV form of dialect meridian (RFC 4180) as rows: dictionaries of the cells that are not blank.

Accepts a byte order mark, `;` or a tab as the separator, and any case and spaces of column names. Cells are
text and stay as they are written. The meaning of the columns is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from proctor.dialects.shared.csv_rows import column_names, extra_cell, records, separator
from proctor.dialects.shared.jsonl import peek
from proctor.errors import suggestion
from proctor.model import Problem
from proctor.validation import Notes, shown

COLUMNS: Final = ("id", "input", "prompt", "expected", "answer", "scorer", "rubric", "tags", "lint")

_PROMPTS: Final = frozenset(("input", "prompt"))
_WORDS: Final = frozenset(("id", "scorer"))
"""Columns of single words, whose cells are stripped."""


def columns(header: str) -> list[str]:
    """Returns the column names of a header line, in lower case and stripped."""
    return column_names(header, separator(header, COLUMNS))


def csv_rows(lines: Iterable[bytes], path: str) -> Iterator[tuple[int, int, dict[str, str]] | Problem]:
    """Yields each row's line, number from 1, and cells by column; a problem for each invalid row.

    A row may span several lines. Rows without any text are skipped and not numbered.
    """
    first, lines = peek(lines)
    mark = separator(first.decode("utf-8", "replace"), COLUMNS)
    header: list[str] | None = None
    number = 0
    for record in records(lines, path, mark):
        if isinstance(record, Problem):
            yield record
            continue
        line, cells = record
        notes = Notes(path, line, of_case=header is not None)
        if header is None:
            header = _header(cells, notes)
            yield from notes.problems
            if _PROMPTS.isdisjoint(header):
                return
            continue
        number += 1
        row = _row(header, cells, notes)
        yield from notes.problems
        if not notes.failed:
            yield line, number, row


def _header(cells: list[str], notes: Notes) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    for place, name in enumerate(names):
        if name and name not in COLUMNS:
            hint = suggestion(name[:60], COLUMNS)
            notes.error("unknown-field", f"Unknown column {shown(name)}. {hint}", name)
        elif name and name in names[:place]:
            notes.error("duplicate-key", f"The column {name!r} is there twice; keep one of them.", name)
    if _PROMPTS.isdisjoint(names):
        notes.error(
            "missing-prompt", "The first line names no column `input` or `prompt`; name the columns there."
        )
    return names


def _row(header: list[str], cells: list[str], notes: Notes) -> dict[str, str]:
    row: dict[str, str] = {}
    for place, cell in enumerate(cells):
        if not cell or cell.isspace():
            continue
        name = header[place] if place < len(header) else ""
        if name in COLUMNS:
            row[name] = cell.strip() if name in _WORDS else cell
        elif not name:  # a column with an unknown name was reported once, at the header
            notes.error("extra-cell", extra_cell(cell, place))
    return row
