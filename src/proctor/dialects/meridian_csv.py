"""The CSV form of dialect meridian (RFC 4180) to rows: dictionaries of the cells that are not blank.

Forgives a byte order mark, `;` or a tab as the separator, and the case and spaces of column names. Cells are
text and stay as they are written. It knows the columns and not what they mean.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Final

from proctor.dialects.reading import BOM, peek
from proctor.errors import suggestion
from proctor.fields import Notes, shown
from proctor.model import Problem, Row

COLUMNS: Final = ("id", "input", "prompt", "expected", "answer", "scorer", "rubric", "tags", "lint")

_PROMPTS: Final = frozenset(("input", "prompt"))
_SEPARATORS: Final = ",;\t"
_WORDS: Final = frozenset(("id", "scorer"))
"""Columns of single words, around which spaces mean nothing."""


def columns(header: str) -> list[str]:
    """The names of a header line, in lower case and without spaces around them."""
    return _names(header, separator(header))


def separator(header: str) -> str:
    """The one of `,`, `;` and tab that finds the most known columns in a header line."""
    return max(_SEPARATORS, key=lambda mark: len(set(_names(header, mark)).intersection(COLUMNS)))


def _names(header: str, mark: str) -> list[str]:
    try:
        cells = next(csv.reader([header], delimiter=mark), [])
    except csv.Error:
        return []
    return [cell.strip().lower() for cell in cells]


class _Decoded:
    """Lines as text for the csv module, which remembers those that are not UTF-8."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self.wrong: list[tuple[int, int]] = []
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, 1):
            if number == 1:
                line = line.removeprefix(BOM)
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                self.wrong.append((number, error.start + 1))
                yield line.decode("utf-8", "replace")


def csv_rows(lines: Iterable[bytes], path: str) -> Iterator[tuple[int, int, dict[str, str]] | Problem]:
    """Each row's line, its number from 1, and its cells by column; a problem for each row that has one.

    A row begins on its line and may end on a later one. Rows without any text are skipped and not numbered.
    """
    first, lines = peek(lines)
    records = _records(lines, path, separator(first.decode("utf-8", "replace")))
    header: list[str] | None = None
    number = 0
    for record in records:
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


def _records(lines: Iterable[bytes], path: str, mark: str) -> Iterator[tuple[int, list[str]] | Problem]:
    decoded = _Decoded(lines)
    reader = csv.reader(decoded, delimiter=mark, strict=True)
    while True:
        begins = reader.line_num + 1
        row = Row(path=path, line=begins)
        wrong: Problem | None = None
        cells: list[str] = []
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            wrong = Problem(code="bad-csv", message=_explained(str(error)), path=path, line=begins, row=row)
        for number, place in decoded.wrong:
            message = f"Byte {place} of the line is not UTF-8; save the file as UTF-8."
            yield Problem(code="bad-encoding", message=message, path=path, line=number, row=row)
        if wrong is not None:
            yield wrong
        elif not decoded.wrong and any(cell and not cell.isspace() for cell in cells):
            yield begins, cells
        decoded.wrong.clear()


def _explained(error: str) -> str:
    if error == "unexpected end of data":
        return (
            "A quote that opens in this row is never closed; close it, and double each quote inside a cell."
        )
    if "field larger than field limit" in error:
        return (
            f"A cell has more than {csv.field_size_limit():,} characters; write such a suite as JSON Lines."
        )
    return f"The row is not CSV: {error}. Quote the cell, and double each quote inside it."


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
            notes.error(
                "extra-cell",
                f"The cell {shown(cell)} stands in column {place + 1}, which has no name. "
                "Quote cells that contain the separator, or name the column.",
            )
    return row
