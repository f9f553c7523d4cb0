"""Reads objects of users' files field by field, with checked types.

Errors become `Problem`s with their location; nothing here raises for what a user wrote. Names, types and
limits come from the caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final, Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import suggestion
from proctor.lazy_pattern import lazy_pattern
from proctor.model import Problem, UnreadableRow
from proctor.plurals import join_names

_ABSENT: Final = object()
_MAX_LISTED_LINES: Final = 5
_KINDS: Final[dict[type, str]] = {
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}

T = TypeVar("T")
FieldSchema: TypeAlias = Mapping[str, Any]
"""The JSON Schema (draft 2020-12) of a field's value: its type, its limits and what it means."""


class NumberLimit(Struct, frozen=True):
    """The allowed range of a number."""

    words: str
    """The range as the end of an error message."""
    minimum: float | None = None
    exclusive_minimum: float | None = None
    maximum: float | None = None
    is_whole: bool = False

    def allows(self, value: float) -> bool:
        """Returns whether a number is within the range."""
        return (
            (self.minimum is None or value >= self.minimum)
            and (self.exclusive_minimum is None or value > self.exclusive_minimum)
            and (self.maximum is None or value <= self.maximum)
            and (not self.is_whole or value == int(value))
        )


# --- problems ----------------------------------------------------------------------------------------------


def merge_repeats(problems: Iterable[Problem]) -> list[Problem]:
    """Returns an error of several lines once, at the first of them and with the numbers of the others.

    Errors of cases and warnings stay as they are.
    """
    groups: dict[Any, list[Problem]] = {}
    for problem in problems:
        can_merge = problem.level == "error" and problem.case is None
        key = (problem.path, problem.message) if can_merge else id(problem)
        groups.setdefault(key, []).append(problem)
    return [_merge_lines(*group) for group in groups.values()]


def _merge_lines(first: Problem, *repeats: Problem) -> Problem:
    if not repeats:
        return first
    lines = join_names([f"{problem.line}" for problem in repeats], _MAX_LISTED_LINES)
    where = f"line {lines}" if len(repeats) == 1 else f"{len(repeats):,} other lines: {lines}"
    return replace(first, message=f"{first.message} The same on {where}.")


def quote_value(value: Any) -> str:
    """Returns a value for a message, cut at 60 characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 60 else text[:59] + "…"


PERCENTAGE_PATTERN: Final = r"^\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?:%|pp)\s*$"
"""Matches percentages and percentage points."""
_PERCENTAGE = lazy_pattern(PERCENTAGE_PATTERN)


def parse_percentage(text: str) -> float | None:
    """Returns the share that a percentage such as `90%` or `5pp` is; None for any other text."""
    match = _PERCENTAGE.match(text)
    return None if match is None else float(match[1]) / 100


_SURROGATE = re.compile("[\ud800-\udfff]")


def has_surrogates(text: str) -> bool:
    """Returns whether a text has half of a character, which no file can hold."""
    return _SURROGATE.search(text) is not None


def json_type(value: Any) -> str:
    """Returns the type of a value in the words of JSON."""
    if value is None:
        return "null"
    kind = next((class_ for class_ in type(value).__mro__ if class_ in _KINDS), type(value))
    return _KINDS.get(kind, f"a {kind.__name__}")


class ProblemLog:
    """Collects the problems of one row, in the order in which they are found.

    `subject` and `case` name the row in each message once the case's id is known. `row` is where the case
    begins, and None for problems of the file.
    """

    __slots__ = ("case", "has_errors", "line", "path", "problems", "row", "subject")

    def __init__(self, path: str, line: int, subject: str = "Case", *, of_case: bool = False) -> None:
        self.path = path
        self.line = line
        self.subject = subject
        self.case: str | None = None
        self.row = UnreadableRow(path=path, line=line) if of_case else None
        self.has_errors = False
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
        self.has_errors = True
        self._add("error", code, message if named else self._prefixed(message), field, line)

    def warn(self, code: str, message: str, field: str | None = None, *, line: int | None = None) -> None:
        """Adds a warning."""
        self._add("warning", code, self._prefixed(message), field, line)

    def extend(self, other: ProblemLog) -> None:
        """Adds the problems of another log, whose errors exclude this row, too."""
        self.problems += other.problems
        self.has_errors = self.has_errors or other.has_errors

    def report_wrong_type(self, field: str, value: Any, expected: str, line: int | None = None) -> None:
        """Adds an error for a value of the wrong type, with the value and what is expected."""
        message = f"`{field}` is {quote_value(value)}, {json_type(value)}; it must be {expected}."
        self.error("wrong-type", message, field, line=line)

    def has_error_at(self, field: str) -> bool:
        """Returns whether a field, or something inside it, already has an error."""
        return any(
            problem.level == "error" and (problem.field or "").startswith(field) for problem in self.problems
        )

    def _prefixed(self, message: str) -> str:
        return message if self.case is None else f"{self.subject} {quote_value(self.case)}: {message}"

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


class FieldReader:
    """Reads the fields of one object, each once and with its expected type; those left are unknown fields.

    A getter that finds a wrong value adds an error and returns None or an empty value, so that one pass finds
    every problem; `notes.failed` says whether there was one. If the object knows the lines of its fields, as
    those of `proctor.yaml12` do, each problem has the line of its field.
    """

    __slots__ = ("_prefix", "_remaining", "_row", "problem_log")

    def __init__(self, row: dict[str, Any], notes: ProblemLog, prefix: str = "") -> None:
        self._row = row
        self._remaining = dict(row)
        self._prefix = prefix
        self.problem_log = notes

    def line_for(self, name: str) -> int | None:
        """Returns the line of a field, or of a list item such as `name[0]`, if it is known.

        For a missing field it is the first line of the object.
        """
        outer, _, place = name.partition("[")
        items, number = self._row.get(outer), place.removesuffix("]")
        if isinstance(items, list) and number.isdecimal():
            lines: Sequence[int] = getattr(items, "lines", ())
            if int(number) < len(lines):
                return lines[int(number)]
        field_lines: Mapping[str, int] = getattr(self._row, "lines", {})
        first_line: int | None = getattr(self._row, "line", None)
        return field_lines.get(name) or field_lines.get(outer) or first_line

    def path_to(self, name: str) -> str:
        """Returns the path of a field inside its case."""
        return self._prefix + name

    def error(self, code: str, name: str, message: str) -> None:
        """Adds an error of one field; the message begins with the field's path."""
        place = self._prefix + name
        self.problem_log.error(code, f"`{place}` {message}", place, line=self.line_for(name))

    def warn(self, code: str, name: str, message: str) -> None:
        """Adds a warning about one field; the message begins with the field's path."""
        place = self._prefix + name
        self.problem_log.warn(code, f"`{place}` {message}", place, line=self.line_for(name))

    def report_wrong_type(self, name: str, value: Any, expected: str) -> None:
        """Adds an error for a value of the wrong type, with the value and what is expected."""
        value_text = "null" if value is None else f"{quote_value(value)}, {json_type(value)}"
        self.error("wrong-type", name, f"is {value_text}; it must be {expected}.")

    def report_missing(self, name: str, expected: str) -> None:
        """Adds an error for a missing required field."""
        self.error("missing-field", name, f"is missing; it must be {expected}.")

    def __contains__(self, name: str) -> bool:
        return name in self._remaining

    def drop_null(self, *names: str) -> None:
        """Removes these fields, or any field if none is named, if they are null: as if not written."""
        if not names and None not in self._remaining.values():  # the usual case, and the fastest to see
            return
        for name in names or tuple(self._remaining):
            if self._remaining.get(name, _ABSENT) is None:
                del self._remaining[name]

    def pop(self, name: str) -> Any:
        """Returns the value unchecked; None if it is absent."""
        return self._remaining.pop(name, None)

    def peek(self, name: str) -> Any:
        """Returns the value without reading it; None if it is absent."""
        return self._remaining.get(name)

    def instance(self, name: str, kind: type[T]) -> T | None:
        """Returns a value of a type of JSON as it is, or None if it is absent."""
        value: Any = self._remaining.pop(name, _ABSENT)
        if isinstance(value, kind):
            return value
        if value is not _ABSENT:
            self.report_wrong_type(name, value, _KINDS[kind])
        return None

    def text(self, name: str) -> str | None:
        """Returns a text, or None if it is absent."""
        return self.instance(name, str)

    def required_text(self, name: str) -> str:
        """Returns a text that is required and must not be blank."""
        value: Any = self._remaining.pop(name, _ABSENT)
        if isinstance(value, str):
            if value.strip():
                return value
            self.error("missing-field", name, "is blank; it must be text.")
        elif value is _ABSENT:
            self.report_missing(name, "text")
        else:
            self.report_wrong_type(name, value, "text")
        return ""

    def non_blank_text(self, name: str) -> str | None:
        """Returns a text that is not blank, or None if the field is absent."""
        return self.required_text(name) or None if name in self._remaining else None

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Returns one of the choices; required."""
        value: Any = self._remaining.pop(name, _ABSENT)
        if isinstance(value, str) and value in choices:
            return value
        if value is _ABSENT:
            self.report_missing(name, f"one of {', '.join(choices)}")
        elif isinstance(value, str):
            self.error("unknown-value", name, f"is {quote_value(value)}. {suggestion(value[:60], choices)}")
        else:
            self.report_wrong_type(name, value, f"one of {', '.join(choices)}")
        return ""

    def boolean(self, name: str, default: bool) -> bool:
        """Returns a boolean, or the default if it is absent."""
        value: Any = self._remaining.pop(name, default)
        if isinstance(value, bool):
            return value
        self.report_wrong_type(name, value, "true or false")
        return default

    def integer(self, name: str, least: int = 0) -> int | None:
        """Returns a whole number of at least `least`, or None if it is absent; true and 2.0 are errors."""
        value: Any = self._remaining.pop(name, _ABSENT)
        if type(value) is int and value >= least:
            return value
        if value is not _ABSENT:
            self.report_wrong_type(name, value, f"a whole number of at least {least}")
        return None

    def number(self, name: str) -> float | None:
        """Returns a finite number, or None if it is absent."""
        value: Any = self._remaining.pop(name, _ABSENT)
        if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
            return value
        if value is not _ABSENT:
            self.report_wrong_type(name, value, "a number")
        return None

    def limited_number(self, name: str, limit: NumberLimit, code: str = "bad-number") -> float | None:
        """Returns a number within the limit, or None if it is absent; `code` is that of a number outside."""
        value = self.number(name)
        if value is None or limit.allows(value):
            return None if value is None else float(value)
        self.error(code, name, f"is {value}; it must be {limit.words}.")
        return None

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns a list of texts; empty if it is absent."""
        value: Any = self._remaining.pop(name, _ABSENT)
        if value is _ABSENT:
            return ()
        if not isinstance(value, list):
            self.report_wrong_type(name, value, "a list of texts")
            return ()
        for place, item in enumerate(value):
            if not isinstance(item, str):
                self.report_wrong_type(f"{name}[{place}]", item, "text")
        return tuple(value)

    def object(self, name: str) -> FieldReader | None:
        """Returns a reader of a nested object, or None if it is absent."""
        value: Any = self.instance(name, dict)
        return None if value is None else FieldReader(value, self.problem_log, f"{self._prefix}{name}.")

    def items(self, name: str, values: Iterable[Any], expected: str) -> Iterator[FieldReader]:
        """Yields a reader of each object in a list, the value of a field; anything else in it is an error."""
        for place, item in enumerate(values):
            field = f"{name}[{place}]"
            if isinstance(item, dict):
                yield FieldReader(item, self.problem_log, f"{self._prefix}{field}.")
            else:
                self.report_wrong_type(field, item, expected)

    def required_object(self, name: str, expected: str) -> FieldReader | None:
        """Returns a reader of a required nested object; `expected` describes it."""
        if name not in self._remaining:
            self.report_missing(name, expected)
        return self.object(name)

    def values(self, table: Iterable[FieldSpec]) -> dict[str, Any]:
        """Returns the values of the fields of a table by their destinations.

        Left out are those that are absent, and those at their defaults.
        """
        values: dict[str, Any] = {}
        for field in table:
            name, args = field.name, field.args
            if name in self._remaining or field.required:
                value = field.read(self, name, *args) if args else field.read(self, name)
                if value is not None and value != field.default:
                    values[field.to] = value
        return values

    def remaining_names(self) -> list[str]:
        """Returns the names of the fields that were not read yet."""
        return list(self._remaining)

    def finish(self, known_names: Sequence[str], advice: Mapping[str, str] | None = None) -> None:
        """Adds an error for each field that was not read, with its advice or else the nearest known name."""
        for name in self._remaining:
            place = quote_value(self._prefix + name)
            hint = (advice or {}).get(name) or (
                suggestion(name[:60], known_names)
                if known_names
                else "No other fields are allowed here; remove it."
            )
            self.problem_log.error(
                "unknown-field",
                f"Unknown field {place}. {hint}",
                self._prefix + name,
                line=self.line_for(name),
            )


class FieldSpec:
    """A row of a table of fields: how a field is read, and where its value goes."""

    __slots__ = ("about", "args", "default", "name", "read", "required", "to")

    def __init__(
        self,
        name: str,
        read: Callable[..., Any],
        *args: Any,
        to: str | None = None,
        default: Any = None,
        required: bool = False,
        about: str = "",
    ) -> None:
        """Describes a field.

        Args:
            name: the field.
            read: a getter of `FieldReader`, or a function like one: it takes the reader, the name and `args`,
                adds the problems, and returns the value, or None.
            args: what the getter takes besides, such as the choices.
            to: the destination of the value; by default the name.
            default: a value that is left out.
            required: whether the getter is called for an absent field, too, which it then reports.
            about: what the field means, for editors.
        """
        self.name = name
        self.read = read
        self.args = args
        self.to = name if to is None else to
        self.default = default
        self.required = required
        self.about = about
