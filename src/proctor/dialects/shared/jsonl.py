"""Reads JSON Lines as objects with their line numbers, for all JSON dialects.

Everything wrong becomes a `Problem` with its position; nothing here raises for what a user wrote.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from math import isfinite
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from proctor.errors import SuiteError
from proctor.holdout import with_holdout_share
from proctor.model import Problem, Suite, UnreadableRow
from proctor.protocols import MAX_LINE_BYTES, SuiteSource
from proctor.validation import FieldReader, json_type, quote_value

BOM: Final = b"\xef\xbb\xbf"
HOLDOUT_FIELD: Final = "holdout"
"""The header field with the share of cases to hold out."""
MAX_NESTING: Final = 64
"""Maximum nesting in one line; not every JSON library can write deeper values back."""

STRAY_RETURN: Final = (
    r"a carriage return (`\r`) inside it. Save the file with LF or CRLF at the end of each line"
)
UTF_16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_MIN_INTEGER: Final = -(1 << 63)
_MAX_INTEGER: Final = (1 << 64) - 1
_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


# --- lines to objects --------------------------------------------------------------------------------------


class _UnsupportedJson(ValueError):
    """JSON that Python accepts and this module rejects."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        duplicate = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _UnsupportedJson(
            "duplicate-key",
            f"The key {quote_value(duplicate)} appears twice in one object; keep one of them.",
        )
    return row


def _parse_integer(digits: str) -> int:
    # stored numbers have 64 bits; 20 characters are enough for each of them
    value = int(digits) if len(digits) <= 20 else 1 << 64
    if _MIN_INTEGER <= value <= _MAX_INTEGER:
        return value
    raise _UnsupportedJson(
        "bad-number", f"The number {digits[:20]}… does not fit in 64 bits; write it as text."
    )


def _parse_float(digits: str) -> float:
    value = float(digits)
    if isfinite(value):
        return value
    raise _UnsupportedJson("bad-number", f"The number {digits[:20]} is too large; write it as text.")


def _refuse_constant(name: str) -> float:
    raise _UnsupportedJson("bad-number", f"{name} is not JSON; write a number, text or null.")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_build_object,
    parse_int=_parse_integer,
    parse_float=_parse_float,
    parse_constant=_refuse_constant,
)


_FAST_DECODER = msgspec.json.Decoder()
_TEXT_TYPE: Final = frozenset({str})
_MAX_BRACKETS: Final = 32
_TOO_MANY: Final = 1 << 40
_SPACED_COLONS: Final = (b" :", b"\t:", b"\r:", b"\n:")


def _decode_usual_object(line: bytes) -> dict[str, Any] | None:
    """Decodes a line with msgspec; returns None unless that surely gives what `_DECODER` does.

    msgspec accepts two equal keys and whole numbers of any size. Each key has a colon of its own, so a line
    that has a key twice has more colons than the object has keys. Colons inside of texts count too, unless no
    colon stands behind white space: then those of keys stand behind a quote, and only these count.
    """
    try:
        row = _FAST_DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # explained by the other decoder
        return None
    if type(row) is not dict:
        return None
    if _TEXT_TYPE.issuperset(map(type, row.values())):
        keys = len(row)
    elif line.count(b"{") + line.count(b"[") > _MAX_BRACKETS:
        return None
    else:
        keys = _count_keys(row)
    if line.count(b":") == keys:
        return row
    is_compact = line.count(b'":') == keys and not any(colon in line for colon in _SPACED_COLONS)
    return row if is_compact else None


def _count_keys(value: dict[str, Any] | list[Any]) -> int:
    """Returns the number of keys in a value and below, or very many if a number is beyond 64 bits."""
    items, keys = (value, 0) if type(value) is list else (value.values(), len(value))  # type: ignore[union-attr]
    for item in items:
        kind = type(item)
        if kind is dict or kind is list:
            keys += _count_keys(item)
        elif kind is int and not _MIN_INTEGER <= item <= _MAX_INTEGER:
            return _TOO_MANY
    return keys


def parse_object(line: bytes, nesting: int = MAX_NESTING) -> dict[str, Any] | Problem:
    """Parses one line to a JSON object, or to a problem without path and line.

    Args:
        line: the line.
        nesting: the maximum number of levels of lists and objects.
    """
    usual_row = _decode_usual_object(line) if nesting >= _MAX_BRACKETS else None
    return _parse_any(line, nesting) if usual_row is None else usual_row


def _parse_any(line: bytes, nesting: int) -> dict[str, Any] | Problem:
    """Does what `parse_object` does, for any line."""
    try:
        text = line.decode("utf-8")
        row = _DECODER.decode(text)
        if _LONE_SURROGATE.search(text):
            json.dumps(row, ensure_ascii=False).encode("utf-8")
    except _UnsupportedJson as unsupported:
        return Problem(code=unsupported.code, message=str(unsupported))
    except json.JSONDecodeError as error:
        message = (
            f"The line is not JSON: {error.msg} (column {error.pos + 1}). Write one JSON object per line."
        )
        if "\r" in text[max(error.pos - 1, 0) : error.pos + 1]:
            message = f"The line has {STRAY_RETURN}, or write it in a text as the two characters `\\r`."
        return Problem(code="bad-json", message=message)
    except UnicodeDecodeError as error:
        message = f"Byte {error.start + 1} of the line is not UTF-8; save the file as UTF-8."
        return Problem(code="bad-encoding", message=message)
    except UnicodeEncodeError:
        message = (
            "The line contains half of an escaped character (a single \\ud800 to \\udfff); write the "
            "whole character."
        )
        return Problem(code="bad-encoding", message=message)
    except RecursionError:
        return _too_deep_problem(nesting)
    if not isinstance(row, dict):
        message = f"The line is {json_type(row)}, not a JSON object. Write one JSON object per line."
        return Problem(code="not-an-object", message=message)
    if line.count(b"{") + line.count(b"[") > nesting and _is_deeper_than(row, nesting):
        return _too_deep_problem(nesting)
    return row


def read_rows(
    lines: Iterable[bytes], path: str, nesting: int = MAX_NESTING
) -> Iterator[tuple[int, dict[str, Any]] | Problem]:
    """Yields the objects of JSON Lines with their line numbers from 1, and a problem for each other line.

    A byte order mark, CRLF and blank lines are accepted. A file that is one JSON value over several lines
    gives one problem and nothing else.
    """
    started = False
    for number, line in enumerate(lines, 1):
        if number == 1:
            if line.startswith(UTF_16_BOMS):
                message = "The file is UTF-16; save it as UTF-8."
                yield Problem(code="bad-encoding", message=message, path=path, line=1)
                return
            line = line.removeprefix(BOM)
        line = line.strip()
        if not line:
            continue
        row = parse_object(line, nesting)
        if isinstance(row, dict):
            yield number, row
        elif not started and _starts_multiline_value(line):
            message = (
                "The file is one JSON value over several lines, or a list. Write one object per line "
                "(JSON Lines), without brackets or commas around the objects."
            )
            yield Problem(code="not-json-lines", message=message, path=path, line=number)
            return
        else:
            yield replace(row, path=path, line=number, row=UnreadableRow(path=path, line=number))
        started = True


def read_all(source: SuiteSource) -> bytes:
    """Reads a whole file, for formats without rows.

    Raises:
        SuiteError: it is too large; it is read no further than the limit.
    """
    data = bytearray()
    for line in source.read_lines():
        data += line
        if len(data) > MAX_LINE_BYTES:
            raise too_large_error(source.path)
    return bytes(data)


def too_large_error(path: str) -> SuiteError:
    """Returns the error for a file that is too large to be read whole."""
    message = (
        f"The file has more than {MAX_LINE_BYTES // 2**20} MiB, and a file of this kind is read as a "
        f"whole. Split it, or write it as JSON Lines, one case per line."
    )
    return SuiteError([Problem(code="file-too-large", message=message, path=path)])


def peek(lines: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Returns the first line that is not blank, without a byte order mark, and an iterator over all lines."""
    iterator = iter(lines)
    consumed: list[bytes] = []
    first = b""
    for line in iterator:
        consumed.append(line)
        first = (line if len(consumed) > 1 else line.removeprefix(BOM)).strip()
        if first:
            break
    return first, chain(consumed, iterator)


def _starts_multiline_value(line: bytes) -> bool:
    if line.startswith(b"["):
        return line[1:].lstrip()[:1] in (b"", b"{")
    # `{"a": 1},` is a line with a comma too many and not the beginning of something longer
    return line.startswith(b"{") and line[-1:] in b"{[,:" and isinstance(parse_object(line[:-1]), Problem)


def _too_deep_problem(nesting: int) -> Problem:
    message = f"The line nests lists and objects more than {nesting} levels deep; flatten it."
    return Problem(code="too-deep", message=message)


def _is_deeper_than(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return levels == 0 or any(_is_deeper_than(item, levels - 1) for item in value)


def file_name(path: str) -> PurePosixPath:
    """Returns a file's name without its folder, for both kinds of separators."""
    return PurePosixPath(PurePosixPath(path.replace("\\", "/")).name)


def with_holdout(suite: Suite, fields: FieldReader) -> Suite:
    """Returns the suite with the holdout share of its header; 0 and false turn it off."""
    share: Any = fields.pop(HOLDOUT_FIELD)
    if share is None:
        return suite
    is_number = type(share) in (int, float)
    if share is False or (is_number and 0 <= share < 1):
        return with_holdout_share(suite, float(share))
    message = (
        f"is {quote_value(share)}; it must be the share of cases to hold out, such as 0.2, or 0 to hold out "
        "none."
    )
    fields.error("bad-holdout", HOLDOUT_FIELD, message)
    return suite
