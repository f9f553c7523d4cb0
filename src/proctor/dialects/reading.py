"""Bytes to rows, and a row to checked fields: what every JSON dialect shares.

Turns the lines of a JSON Lines file into objects with their line numbers, and an object into typed values.
What is wrong becomes a `Problem` that says where it stands; nothing here raises for what a user wrote. It
knows no dialect: names, types and limits come from the caller.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import isfinite
from pathlib import PurePosixPath
from typing import Any, Final, Literal

from msgspec.structs import replace

from proctor.errors import suggestion
from proctor.model import Problem

BOM: Final = b"\xef\xbb\xbf"
MAX_NESTING: Final = 64
"""Levels of lists and objects in one line; deeper ones cannot be written back by every JSON library."""

UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_ABSENT: Final = object()
_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_KINDS: Final = {
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


# --- lines to objects --------------------------------------------------------------------------------------


class _Refused(ValueError):
    """JSON that Python would read and this module does not; never leaves it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _Refused(
            "duplicate-key", f"The key {shown(twice)} is written twice in one object; keep one of them."
        )
    return row


def _integer(digits: str) -> int:
    # the wire form holds 64 bits; 20 characters are enough for every such number
    value = int(digits) if len(digits) <= 20 else 1 << 64
    if -(1 << 63) <= value < 1 << 64:
        return value
    raise _Refused("bad-number", f"The number {digits[:20]}… does not fit in 64 bits; write it as text.")


def _float(digits: str) -> float:
    value = float(digits)
    if isfinite(value):
        return value
    raise _Refused("bad-number", f"The number {digits[:20]} is too large; write it as text.")


def _constant(name: str) -> float:
    raise _Refused("bad-number", f"{name} is not JSON; write a number, text or null.")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)


def parse_object(line: bytes) -> dict[str, Any] | Problem:
    """One line's JSON object, or the problem with it (which does not yet know its path and line)."""
    try:
        text = line.decode("utf-8")
        row = _DECODER.decode(text)
        if _LONE_SURROGATE.search(text):
            json.dumps(row, ensure_ascii=False).encode("utf-8")
    except _Refused as refused:
        return Problem(code=refused.code, message=str(refused))
    except json.JSONDecodeError as error:
        message = (
            f"The line is not JSON: {error.msg} (column {error.pos + 1}). Write one JSON object per line."
        )
        return Problem(code="bad-json", message=message)
    except UnicodeDecodeError as error:
        message = f"Byte {error.start + 1} of the line is not UTF-8; save the file as UTF-8."
        return Problem(code="bad-encoding", message=message)
    except UnicodeEncodeError:
        message = (
            "The line escapes half of a character (a lone \\ud800 to \\udfff); write the whole character."
        )
        return Problem(code="bad-encoding", message=message)
    except RecursionError:
        return _too_deep()
    if not isinstance(row, dict):
        message = f"The line is {_kind(row)}, not a JSON object. Write one JSON object per line."
        return Problem(code="not-an-object", message=message)
    if line.count(b"{") + line.count(b"[") > MAX_NESTING and _deeper_than(row, MAX_NESTING):
        return _too_deep()
    return row


def rows(lines: Iterable[bytes], path: str) -> Iterator[tuple[int, dict[str, Any]] | Problem]:
    """The objects of a JSON Lines file with their line numbers from 1, and a problem for each other line.

    A byte order mark, CRLF and blank lines are forgiven. A file that is one JSON value over all its lines
    gives one problem and ends there.
    """
    started = False
    for number, line in enumerate(lines, 1):
        if number == 1:
            if line.startswith(UTF_16):
                message = "The file is UTF-16; save it as UTF-8."
                yield Problem(code="bad-encoding", message=message, path=path, line=1)
                return
            line = line.removeprefix(BOM)
        line = line.strip()
        if not line:
            continue
        row = parse_object(line)
        if isinstance(row, dict):
            yield number, row
        elif not started and _begins_whole_file(line):
            message = (
                "The file is one JSON value over several lines, or a list. "
                "Write one object per line (JSON Lines), without brackets or commas around them."
            )
            yield Problem(code="not-json-lines", message=message, path=path, line=number)
            return
        else:
            yield replace(row, path=path, line=number)
        started = True


def peek(lines: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first line that is not blank, stripped and without a byte order mark, and all lines again."""
    rest = iter(lines)
    seen: list[bytes] = []
    first = b""
    for line in rest:
        seen.append(line)
        first = (line if len(seen) > 1 else line.removeprefix(BOM)).strip()
        if first:
            break
    return first, chain(seen, rest)


def _begins_whole_file(line: bytes) -> bool:
    if line.startswith(b"["):
        return line[1:].lstrip()[:1] in (b"", b"{")
    # `{"a": 1},` is a line with a comma too many and not the beginning of something longer
    return line.startswith(b"{") and line[-1:] in b"{[,:" and isinstance(parse_object(line[:-1]), Problem)


def _too_deep() -> Problem:
    message = f"The line nests lists and objects more than {MAX_NESTING} levels deep; flatten it."
    return Problem(code="too-deep", message=message)


def _deeper_than(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return levels == 0 or any(_deeper_than(item, levels - 1) for item in value)


# --- what is wrong -----------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """A value for a message, cut at 60 characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 60 else text[:59] + "…"


def file_name(path: str) -> PurePosixPath:
    """A file's name without its folder, whichever separator the path uses."""
    return PurePosixPath(PurePosixPath(path.replace("\\", "/")).name)


def _kind(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), f"a {type(value).__name__}")


class Notes:
    """The problems of one row, in the order they were found.

    `subject` and `case` name the row in each message once the case's id is known.
    """

    __slots__ = ("case", "failed", "line", "path", "problems", "subject")

    def __init__(self, path: str, line: int, subject: str = "Case") -> None:
        self.path = path
        self.line = line
        self.subject = subject
        self.case: str | None = None
        self.failed = False
        self.problems: list[Problem] = []

    def error(self, code: str, message: str, field: str | None = None, *, named: bool = False) -> None:
        """Something that keeps the row out; `named` says that the message names the case itself."""
        self.failed = True
        self._add("error", code, message if named else self._named(message), field)

    def warn(self, code: str, message: str, field: str | None = None) -> None:
        """Something doubtful."""
        self._add("warning", code, self._named(message), field)

    def noted(self, field: str) -> bool:
        """Whether a field, or something inside it, has an error already."""
        return any(
            problem.level == "error" and (problem.field or "").startswith(field) for problem in self.problems
        )

    def _named(self, message: str) -> str:
        return message if self.case is None else f"{self.subject} {shown(self.case)}: {message}"

    def _add(self, level: Literal["error", "warning"], code: str, message: str, field: str | None) -> None:
        self.problems.append(
            Problem(
                level=level,
                code=code,
                message=message,
                path=self.path,
                line=self.line,
                field=field,
                case=self.case,
            )
        )


# --- objects to values -------------------------------------------------------------------------------------


class Fields:
    """One object's fields: each is taken once under the type it must have; what is left is unknown.

    A getter that finds a wrong value notes it and returns None or an empty value, so that one pass finds
    every problem; whether the row stands is in `notes.failed`.
    """

    __slots__ = ("_left", "_prefix", "notes")

    def __init__(self, row: dict[str, Any], notes: Notes, prefix: str = "") -> None:
        self._left = row.copy()
        self._prefix = prefix
        self.notes = notes

    def error(self, code: str, name: str, message: str) -> None:
        """Note an error of one field; the message begins with the field's path."""
        place = self._prefix + name
        self.notes.error(code, f"`{place}` {message}", place)

    def warn(self, code: str, name: str, message: str) -> None:
        """Note a warning of one field; the message begins with the field's path."""
        place = self._prefix + name
        self.notes.warn(code, f"`{place}` {message}", place)

    def wrong(self, name: str, value: Any, wanted: str) -> None:
        """Note that a value has the wrong type: what was found and what is wanted."""
        found = "null" if value is None else f"{shown(value)}, {_kind(value)}"
        self.error("wrong-type", name, f"is {found}; it must be {wanted}.")

    def missing(self, name: str, wanted: str) -> None:
        """Note that a field which must be there is not."""
        self.error("missing-field", name, f"is missing; it must be {wanted}.")

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def forgive_null(self, *names: str) -> None:
        """Let these fields be null, as if they were not written."""
        for name in names:
            if self._left.get(name, _ABSENT) is None:
                del self._left[name]

    def take(self, name: str) -> Any:
        """The value as it stands; None when it is absent."""
        return self._left.pop(name, None)

    def text(self, name: str) -> str | None:
        """A text, if the field is there."""
        value: Any = self._left.pop(name, _ABSENT)
        if isinstance(value, str):
            return value
        if value is not _ABSENT:
            self.wrong(name, value, "text")
        return None

    def required_text(self, name: str) -> str:
        """A text that must be there and not be blank."""
        value: Any = self._left.pop(name, _ABSENT)
        if isinstance(value, str):
            if value.strip():
                return value
            self.error("missing-field", name, "is blank; it must be text.")
        elif value is _ABSENT:
            self.missing(name, "text")
        else:
            self.wrong(name, value, "text")
        return ""

    def choice(self, name: str, known: Sequence[str]) -> str:
        """One of the known words; it must be there."""
        value: Any = self._left.pop(name, _ABSENT)
        if isinstance(value, str) and value in known:
            return value
        if value is _ABSENT:
            self.missing(name, f"one of {', '.join(known)}")
        elif isinstance(value, str):
            self.error("unknown-value", name, f"is {shown(value)}. {suggestion(value[:60], known)}")
        else:
            self.wrong(name, value, f"one of {', '.join(known)}")
        return ""

    def truth(self, name: str, default: bool) -> bool:
        """True or false, or the default."""
        value: Any = self._left.pop(name, default)
        if isinstance(value, bool):
            return value
        self.wrong(name, value, "true or false")
        return default

    def integer(self, name: str, *, least: int = 0) -> int | None:
        """A whole number of at least `least`, if the field is there; true and 2.0 are none."""
        value: Any = self._left.pop(name, _ABSENT)
        if type(value) is int and value >= least:
            return value
        if value is not _ABSENT:
            self.wrong(name, value, f"a whole number of at least {least}")
        return None

    def number(self, name: str) -> float | None:
        """A finite number, if the field is there."""
        value: Any = self._left.pop(name, _ABSENT)
        if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
            return value
        if value is not _ABSENT:
            self.wrong(name, value, "a number")
        return None

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty when the field is absent."""
        value: Any = self._left.pop(name, _ABSENT)
        if value is _ABSENT:
            return ()
        if not isinstance(value, list):
            self.wrong(name, value, "a list of texts")
            return ()
        for place, item in enumerate(value):
            if not isinstance(item, str):
                self.wrong(f"{name}[{place}]", item, "text")
        return tuple(value)

    def object(self, name: str) -> Fields | None:
        """The fields of an object inside this one, if it is there."""
        value: Any = self._left.pop(name, _ABSENT)
        if isinstance(value, dict):
            return Fields(value, self.notes, f"{self._prefix}{name}.")
        if value is not _ABSENT:
            self.wrong(name, value, "an object")
        return None

    def required_object(self, name: str, wanted: str) -> Fields | None:
        """The fields of an object that must be there; `wanted` says what it must be."""
        if name not in self._left:
            self.missing(name, wanted)
        return self.object(name)

    def names(self) -> list[str]:
        """The fields not yet taken."""
        return list(self._left)

    def finish(self, known: Sequence[str]) -> None:
        """Note every field that was not taken as unknown, with the nearest known name."""
        for name in self._left:
            place = shown(self._prefix + name)
            hint = suggestion(name[:60], known) if known else "No more fields belong here; remove it."
            self.notes.error("unknown-field", f"Unknown field {place}. {hint}", self._prefix + name)
