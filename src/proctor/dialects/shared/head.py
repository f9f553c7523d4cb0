"""Reads the beginning of a file, by which dialects recognise it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from json import JSONDecodeError
from typing import Any, Final

from proctor.dialects.shared.json_arrays import is_array, iter_item_spans
from proctor.dialects.shared.jsonl import BOM, UTF_16_BOMS, parse_object
from proctor.lazy_pattern import lazy_pattern
from proctor.protocols import FileHead

MAX_LINES: Final = 50
"""How many lines are read."""
_MAX_MORE_LINES: Final = 20_000
"""How many more lines are read for the fields of YAML, with long texts in between, and for the objects of an
array, which may span many lines each."""

_MAX_BYTES: Final = 8 * 2**20
"""Fewer lines are read if they are long."""
_JSON_KEY = lazy_pattern(r'"(\w+)"\s*:')
_YAML_START = re.compile(
    r"([ \t\r]*(#[^\n]*|---[^\n]*|%YAML[^\n]*)?\n)*[\"']?[A-Za-z_$][\w$-]*[\"']?[ \t]*:(\s|$)"
)
"""A text whose first line, apart from comments, is a YAML field."""
_YAML_KEY = lazy_pattern(r"^[\"']?([\w$-]+)[\"']?[ \t]*:(?=\s|$)", re.MULTILINE)


def read_head(path: str, lines: Iterable[bytes]) -> FileHead:
    """Reads the beginning of a file: its first lines, and the JSON objects in them.

    Invalid lines are skipped here and reported when the file is read. The objects of an array are rows. For
    any other JSON value over several lines the only row has its keys, so that the intended dialect can say
    what is wrong with it. The same is done for YAML, in which a text may look like a row. Markdown has no
    rows.
    """
    lines = iter(lines)
    first = list(_take_lines(lines, MAX_LINES))
    data = b"".join(first)
    text = data.decode("utf-16" if data.startswith(UTF_16_BOMS) else "utf-8-sig", "replace")
    if path.lower().endswith(".md"):
        return FileHead(path=path, text=text)
    if _YAML_START.match(text):
        remainder = b"".join(_take_lines(lines, _MAX_MORE_LINES)).decode("utf-8", "replace")
        return FileHead(path=path, text=text, rows=(dict.fromkeys(_YAML_KEY.findall(text + remainder)),))
    if is_array(text):
        remainder = b"".join(_take_lines(lines, _MAX_MORE_LINES)).decode("utf-8", "replace")
        rows = _parse_array_objects(text + remainder)
    else:
        objects = (parse_object(line.removeprefix(BOM)) for line in first if line.strip())
        rows = tuple(row for row in objects if isinstance(row, dict))
    if rows and "proctor" in rows[0]:  # dialect proctor; its other lines may look like any dialect's
        rows = rows[:1]
    if not rows and text.lstrip().startswith(("{", "[")):
        keys = dict.fromkeys(_JSON_KEY.findall(text))
        rows = (dict(keys),) if keys else ()
    return FileHead(path=path, text=text, rows=rows)


def _take_lines(lines: Iterable[bytes], count: int) -> Iterator[bytes]:
    """Yields at most `count` first lines, and none after `_MAX_BYTES`."""
    size = 0
    for line in islice(lines, count):
        yield line
        size += len(line)
        if size >= _MAX_BYTES:
            return


def _parse_array_objects(text: str) -> tuple[dict[str, Any], ...]:
    """Returns the first objects of an array; the text may end before the array does."""
    rows: list[dict[str, Any]] = []
    try:
        for begin, end in islice(iter_item_spans(text), MAX_LINES):
            row = parse_object(text[begin:end].encode("utf-8", "replace"))
            if isinstance(row, dict):
                rows.append(row)
    except (JSONDecodeError, RecursionError):  # errors are reported when the file is read
        pass
    return tuple(rows)
