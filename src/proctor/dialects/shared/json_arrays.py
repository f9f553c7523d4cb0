"""Reads JSON arrays of cases as JSON Lines: any format with one case per line may be an array instead.

Each object of the array becomes a line. Only line breaks between values are replaced, so that an array is the
same suite as the JSON Lines of its objects. Cases and problems have the line numbers of the array's file.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.shared.jsonl import BOM, peek, read_all
from proctor.dialects.shared.signatures import YAML_ENDINGS
from proctor.model import Problem, Suite, UnreadableRow
from proctor.protocols import CaseAtLine, Dialect, SuiteSource

_ARRAY_START: Final = re.compile(r"[ \t\r\n]*\[[ \t\r\n]*(?=\{)")
_WHITESPACE: Final = re.compile(r"[ \t\r\n]*")
_PATH_STEP: Final = re.compile(r"[^.\[\]]+")
_BREAKS_TO_SPACES: Final = str.maketrans("\r\n", "  ")
_DECODER: Final = json.JSONDecoder(parse_int=str)
"""Finds where values end. Their content is checked when the lines are read."""


def is_array(text: str) -> bool:
    """Whether a text begins like an array of objects."""
    return _ARRAY_START.match(text) is not None


def iter_item_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each item of an array.

    Raises:
        json.JSONDecodeError: the text is no JSON after the last of them.
        RecursionError: the next item nests too deep.
    """
    opening = _ARRAY_START.match(text)
    place = opening.end() if opening else 0
    while True:
        _, end = _DECODER.raw_decode(text, place)
        yield place, end
        place = _skip_whitespace(text, end)
        mark = text[place : place + 1]
        if mark == "]":
            break
        if mark != ",":
            raise json.JSONDecodeError("Expecting ',' or ']'", text, place)
        place = _skip_whitespace(text, place + 1)
    end_of_array = _skip_whitespace(text, place + 1)
    if end_of_array < len(text):
        raise json.JSONDecodeError("Extra data", text, end_of_array)


def read_lines(source: SuiteSource) -> Iterator[bytes]:
    """Yields the lines of a file; for an array, its objects as lines."""
    array = _read_array(source)
    yield from source.read_lines() if array is None else array.lines()


def read_suite(dialect: Dialect, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
    """Reads a suite with a dialect; the items of a JSON array are read as lines."""
    array = _read_array(source) if dialect.has_rows else None
    if array is None:
        yield from dialect.read(source)
        return
    rows: dict[int, UnreadableRow] = {}
    for item in dialect.read(replace(source, read_lines=array.lines)):
        relocated = array.relocate(item, source.path)
        if isinstance(relocated, Problem) and relocated.row is not None and relocated.row.path == source.path:
            row = relocated.row  # all problems of an item share one
            relocated = replace(
                relocated, row=rows.setdefault(row.line, replace(row, line=array.item_line(row.line)))
            )
        yield relocated
    if array.problem is not None:
        yield array.problem


class _JsonArray(Struct, frozen=True, kw_only=True):
    """A file that is an array of objects."""

    text: str = ""
    items: tuple[tuple[int, int], ...] = ()
    """The start and end of each item in the text."""
    line_breaks: tuple[int, ...] = ()
    """The positions of line breaks in the text."""
    problem: Problem | None = None
    """Why nothing after the last item could be read."""

    def lines(self) -> Iterator[bytes]:
        """Yields the items, one per line."""
        for begin, end in self.items:
            yield self.text[begin:end].translate(_BREAKS_TO_SPACES).encode("utf-8") + b"\n"

    def relocate(self, item: Suite | CaseAtLine | Problem, path: str) -> Suite | CaseAtLine | Problem:
        """Returns the item with its line in the array's file; for a problem, the line of its field."""
        if isinstance(item, CaseAtLine) and item.path is None:
            return replace(item, line=self.item_line(item.line))
        if isinstance(item, Problem) and item.path == path and item.line and self.items:
            begin, _ = self.items[min(item.line, len(self.items)) - 1]
            return replace(item, line=self.line_at(_find_field(item.field or "", self.text, begin)))
        return item

    def item_line(self, number: int) -> int:
        """Returns the first line of an item, by its number from 1."""
        return self.line_at(self.items[number - 1][0])

    def line_at(self, place: int) -> int:
        """Returns the line number of a position in the text."""
        return bisect_left(self.line_breaks, place) + 1


def _read_array(source: SuiteSource) -> _JsonArray | None:
    """Reads a file that is an array of objects; returns None for any other file."""
    if source.is_folder or source.path.lower().endswith(YAML_ENDINGS):
        return None
    first, lines = peek(source.read_lines())
    if not first.startswith(b"["):
        return None
    data = read_all(replace(source, read_lines=lambda: lines)).removeprefix(BOM)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if not is_array(data.decode("utf-8", "replace")):
            return None
        message = f"Byte {error.start + 1} of the file is not UTF-8; save the file as UTF-8."
        line = data.count(b"\n", 0, error.start) + 1
        return _JsonArray(problem=_make_problem("bad-encoding", message, source, line))
    if not is_array(text):
        return None
    breaks = tuple(match.start() for match in re.finditer("\n", text))
    items: list[tuple[int, int]] = []
    problem = None
    try:
        items.extend(iter_item_spans(text))  # keeps the items before an error
    except json.JSONDecodeError as error:
        message = f"The array is not JSON: {error.msg} (column {error.colno}). Correct it there."
        problem = _make_problem("bad-array", message, source, min(error.lineno, data.count(b"\n") + 1))
    except RecursionError:
        line = text.count("\n", 0, items[-1][1] if items else 0) + 1
        problem = _make_problem(
            "too-deep", "An item of the array is nested too deeply; flatten it.", source, line
        )
    return _JsonArray(text=text, items=tuple(items), line_breaks=breaks, problem=problem)


def _make_problem(code: str, message: str, source: SuiteSource, line: int) -> Problem:
    row = UnreadableRow(path=source.path, line=line, is_rest=True)
    return Problem(code=code, message=message, path=source.path, line=line, row=row)


def _skip_whitespace(text: str, place: int) -> int:
    match = _WHITESPACE.match(text, place)
    return match.end() if match else place


def _find_field(field: str, text: str, begin: int) -> int:
    """Returns the position of a field such as `a.b[0]`, or of its nearest existing parent."""
    place = begin
    for step in _PATH_STEP.findall(field):
        member = _find_member(step, text, begin)
        if member is None:
            break
        place, begin = member
    return place


def _find_member(name: str, text: str, begin: int) -> tuple[int, int] | None:
    """Returns the position of a member of an object or list, and that of its value."""
    end = {"{": "}", "[": "]"}.get(text[begin])
    place = _skip_whitespace(text, begin + 1)
    number = 0
    while end is not None and text[place] != end:
        start, key = place, str(number)
        if end == "}":
            key, place = _DECODER.raw_decode(text, place)
            place = _skip_whitespace(text, _skip_whitespace(text, place) + 1)
        if key == name:
            return start, place
        _, place = _DECODER.raw_decode(text, place)
        place = _skip_whitespace(text, place)
        if text[place] == ",":
            place = _skip_whitespace(text, place + 1)
        number += 1
    return None
