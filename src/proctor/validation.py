"""Reads objects of users' files field by field, with checked types.

Errors become `Problem`s with their location; nothing here raises for what a user wrote. Names, types and
limits come from the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final, Literal

from proctor.errors import suggestion
from proctor.model import Problem, Row

_ABSENT: Final = object()
_KINDS: Final = {
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


# --- problems ----------------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """Returns a value for a message, cut at 60 characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 60 else text[:59] + "…"


def kind_of(value: Any) -> str:
    """Returns the type of a value in the words of JSON."""
    if value is None:
        return "null"
    kind = next((class_ for class_ in type(value).__mro__ if class_ in _KINDS), type(value))
    return _KINDS.get(kind, f"a {kind.__name__}")


class Notes:
    """Collects the problems of one row, in the order in which they are found.

    `subject` and `case` name the row in each message once the case's id is known. `row` is where the case
    begins, and None for problems of the file.
    """

    __slots__ = ("case", "failed", "line", "path", "problems", "row", "subject")

    def __init__(self, path: str, line: int, subject: str = "Case", *, of_case: bool = False) -> None:
        self.path = path
        self.line = line
        self.subject = subject
        self.case: str | None = None
        self.row = Row(path=path, line=line) if of_case else None
        self.failed = False
        self.problems: list[Problem] = []

    def error(
        self,
        code: str,
        message: str,
        field: str | None = None,
        *,
        named: bool = False,
        line: int | None = None,
    ) -> None:
        """Adds an error, which excludes the row; `named` says that the message already names the case."""
        self.failed = True
        self._add("error", code, message if named else self._prefixed(message), field, line)

    def warn(self, code: str, message: str, field: str | None = None, *, line: int | None = None) -> None:
        """Adds a warning."""
        self._add("warning", code, self._prefixed(message), field, line)

    def noted(self, field: str) -> bool:
        """Returns whether a field, or something inside it, already has an error."""
        return any(
            problem.level == "error" and (problem.field or "").startswith(field) for problem in self.problems
        )

    def _prefixed(self, message: str) -> str:
        return message if self.case is None else f"{self.subject} {shown(self.case)}: {message}"

    def _add(
        self,
        level: Literal["error", "warning"],
        code: str,
        message: str,
        field: str | None,
        line: int | None,
    ) -> None:
        self.problems.append(
            Problem(
                level=level,
                code=code,
                message=message,
                path=self.path,
                line=line or self.line,
                field=field,
                case=self.case,
                row=self.row if level == "error" else None,
            )
        )


# --- objects to values -------------------------------------------------------------------------------------


class Fields:
    """Reads the fields of one object, each once and with its expected type; those left are unknown fields.

    A getter that finds a wrong value adds an error and returns None or an empty value, so that one pass finds
    every problem; `notes.failed` says whether there was one. If the object knows the lines of its fields, as
    those of `proctor.yaml12` do, each problem has the line of its field.
    """

    __slots__ = ("_begin", "_left", "_lines", "_prefix", "_row", "notes")

    def __init__(self, row: dict[str, Any], notes: Notes, prefix: str = "") -> None:
        self._row = row
        self._left = dict(row)
        self._lines: Mapping[str, int] = getattr(row, "lines", {})
        self._begin: int | None = getattr(row, "line", None)
        self._prefix = prefix
        self.notes = notes

    def line_of(self, name: str) -> int | None:
        """Returns the line of a field, or of a list item such as `name[0]`, if it is known.

        For a missing field it is the first line of the object.
        """
        outer, _, place = name.partition("[")
        items, number = self._row.get(outer), place.removesuffix("]")
        if isinstance(items, list) and number.isdecimal():
            lines: Sequence[int] = getattr(items, "lines", ())
            if int(number) < len(lines):
                return lines[int(number)]
        return self._lines.get(name) or self._lines.get(outer) or self._begin

    def place(self, name: str) -> str:
        """Returns the path of a field inside its case."""
        return self._prefix + name

    def error(self, code: str, name: str, message: str) -> None:
        """Adds an error of one field; the message begins with the field's path."""
        place = self._prefix + name
        self.notes.error(code, f"`{place}` {message}", place, line=self.line_of(name))

    def warn(self, code: str, name: str, message: str) -> None:
        """Adds a warning about one field; the message begins with the field's path."""
        place = self._prefix + name
        self.notes.warn(code, f"`{place}` {message}", place, line=self.line_of(name))

    def wrong(self, name: str, value: Any, expected: str) -> None:
        """Adds an error for a value of the wrong type, with the value and what is expected."""
        value_text = "null" if value is None else f"{shown(value)}, {kind_of(value)}"
        self.error("wrong-type", name, f"is {value_text}; it must be {expected}.")

    def missing(self, name: str, expected: str) -> None:
        """Adds an error for a missing required field."""
        self.error("missing-field", name, f"is missing; it must be {expected}.")

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def forgive_null(self, *names: str) -> None:
        """Removes these fields if they are null, as if they were not written."""
        for name in names:
            if self._left.get(name, _ABSENT) is None:
                del self._left[name]

    def take(self, name: str) -> Any:
        """Returns the value unchecked; None if it is absent."""
        return self._left.pop(name, None)

    def text(self, name: str) -> str | None:
        """Returns a text, or None if it is absent."""
        value: Any = self._left.pop(name, _ABSENT)
        if isinstance(value, str):
            return value
        if value is not _ABSENT:
            self.wrong(name, value, "text")
        return None

    def required_text(self, name: str) -> str:
        """Returns a text that is required and must not be blank."""
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

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Returns one of the choices; required."""
        value: Any = self._left.pop(name, _ABSENT)
        if isinstance(value, str) and value in choices:
            return value
        if value is _ABSENT:
            self.missing(name, f"one of {', '.join(choices)}")
        elif isinstance(value, str):
            self.error("unknown-value", name, f"is {shown(value)}. {suggestion(value[:60], choices)}")
        else:
            self.wrong(name, value, f"one of {', '.join(choices)}")
        return ""

    def truth(self, name: str, default: bool) -> bool:
        """Returns a boolean, or the default if it is absent."""
        value: Any = self._left.pop(name, default)
        if isinstance(value, bool):
            return value
        self.wrong(name, value, "true or false")
        return default

    def integer(self, name: str, *, least: int = 0) -> int | None:
        """Returns a whole number of at least `least`, or None if it is absent; true and 2.0 are errors."""
        value: Any = self._left.pop(name, _ABSENT)
        if type(value) is int and value >= least:
            return value
        if value is not _ABSENT:
            self.wrong(name, value, f"a whole number of at least {least}")
        return None

    def number(self, name: str) -> float | None:
        """Returns a finite number, or None if it is absent."""
        value: Any = self._left.pop(name, _ABSENT)
        if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
            return value
        if value is not _ABSENT:
            self.wrong(name, value, "a number")
        return None

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns a list of texts; empty if it is absent."""
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
        """Returns a reader of a nested object, or None if it is absent."""
        value: Any = self._left.pop(name, _ABSENT)
        if isinstance(value, dict):
            return Fields(value, self.notes, f"{self._prefix}{name}.")
        if value is not _ABSENT:
            self.wrong(name, value, "an object")
        return None

    def required_object(self, name: str, expected: str) -> Fields | None:
        """Returns a reader of a required nested object; `expected` describes it."""
        if name not in self._left:
            self.missing(name, expected)
        return self.object(name)

    def names(self) -> list[str]:
        """Returns the names of the fields that were not read yet."""
        return list(self._left)

    def finish(self, known_names: Sequence[str]) -> None:
        """Adds an error for each field that was not read, with the nearest known name."""
        for name in self._left:
            place = shown(self._prefix + name)
            hint = (
                suggestion(name[:60], known_names)
                if known_names
                else "No more fields belong here; remove it."
            )
            self.notes.error(
                "unknown-field",
                f"Unknown field {place}. {hint}",
                self._prefix + name,
                line=self.line_of(name),
            )
