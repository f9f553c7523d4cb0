"""The CSV form of dialect meridian (RFC 4180) to rows: dictionaries of the cells that are not blank.

Forgives a byte order mark, `;` or a tab as the separator, and the case and spaces of column names. Cells are
text and stay as they are written. It knows the columns and not what they mean.
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
"""Columns of single words, around which spaces mean nothing."""


def columns(header: str) -> list[str]:
    """The names of a header line, in lower case and without spaces around them."""
    return column_names(header, separator(header, COLUMNS))


def csv_rows(lines: Iterable[bytes], path: str) -> Iterator[tuple[int, int, dict[str, str]] | Problem]:
    """Each row's line, its number from 1, and its cells by column; a problem for each row that has one.

    A row begins on its line and may end on a later one. Rows without any text are skipped and not numbered.
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
