"""Grades the fields of an answer's JSON against those of the expected output.

Values keep their JSON types: `1` is not `"1"` and not `true`, though it is `1.0`. Dates are calendar days as
written, without time zones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date
from functools import lru_cache
from typing import Any, Final, Literal

from msgspec import Struct

from proctor.errors import CannotScore
from proctor.graders.json_structure import NotJson, parse_json
from proctor.graders.numbers.numerals import is_near
from proctor.graders.text import clip, quote, quote_list
from proctor.model import Evidence, GraderResult
from proctor.protocols import BaseGrader, GradingInput

ABSENT: Final = object()
"""What `get_value_at` returns for a path that does not exist."""
_NOT_EXPECTED: Final = "the expected output does not contain it"

_PATH = re.compile(r"(?:[^.\[\]]+|\[\d{1,9}\])(?:\.[^.\[\]]+|\[\d{1,9}\])*")
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_NUMBER = re.compile(
    r"\s*([-+]?(?:\d{1,3}(?:,\d{3})++(?:\.\d*+)?+|\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?\d++)?+)(?![.,:/-]?\d)"
)
_ISO = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[T ].*)?", re.DOTALL)
_DAY_FIRST = re.compile(r"(\d{1,2})[-. /]{1,2}([A-Za-z]{3,9})\.?,?[-. /]{1,2}(\d{4})")
_MONTH_FIRST = re.compile(r"([A-Za-z]{3,9})\.?[-. /]{1,2}(\d{1,2}),?[-. /]{1,2}(\d{4})")
_DIGITS = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})")
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
           "october", "november", "december")  # fmt: skip
_FORMAT_TOKENS = re.compile(r"YYYY|MM{0,3}|DD?|[-/. ,]")


class Field(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One field, and how close its value must be to the expected one."""

    path: str
    """Keys separated by dots, and list indexes: `items[0].price`."""
    match: Literal["exact", "numeric_tolerance", "date"] = "exact"
    required: bool = True
    """Whether a missing field counts as wrong; otherwise a missing field does not count."""
    weight: float = 1.0
    tolerance: float = 0.0
    """The largest difference that passes, in the unit of the number."""
    relative: bool = False
    """Whether `tolerance` is a share of the expected number."""
    formats: tuple[str, ...] = ()
    """Date formats, such as `DD/MM/YYYY`; they decide which number of `3/4/2025` is the day."""

    def __post_init__(self) -> None:
        parse_path(self.path)
        if not 0 <= self.weight < math.inf:
            raise ValueError(
                f"`weight` of {self.path!r} is {self.weight}; it must be a finite number of 0 or more."
            )
        if not 0 <= self.tolerance < math.inf:
            raise ValueError(
                f"`tolerance` of {self.path!r} is {self.tolerance}; it must be a finite number of 0 or more."
            )
        if self.match != "numeric_tolerance" and (self.tolerance or self.relative):
            raise ValueError(
                f"The field {self.path!r} has a tolerance; set its `match` to 'numeric_tolerance'."
            )
        if self.match != "date" and self.formats:
            raise ValueError(f"The field {self.path!r} has date formats; set its `match` to 'date'.")
        for date_format in self.formats:
            _date_order(date_format)


class FieldAccuracy(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when every field of the answer's JSON matches the case's expected output."""

    fields: tuple[Field, ...]
    aggregation: Literal["weighted_average", "all_or_nothing"] = "weighted_average"

    def __post_init__(self) -> None:
        if not self.fields:
            raise ValueError("`fields` is empty; add at least one field.")

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores the weighted share of the fields that are right, with one entry per field.

        A field that the expected output does not have counts as right.

        Raises:
            CannotScore: the expected output is not JSON, or a compared field of it is not a number or date.
        """
        expected = _expected_json(grading_input.case.expected)
        try:
            answer = _answer_json(grading_input.output.text)
        except NotJson as error:
            reason = f"The answer contains no JSON object: {error}: {quote(grading_input.output.text)}."
            return GraderResult(value=0.0, passed=False, reason=reason)
        entries = tuple(
            _compare_field(field, get_value_at(answer, field.path), get_value_at(expected, field.path))
            for field in self.fields
        )
        wrong = [entry.text for entry in entries if entry.passed is False]
        reason = f"Wrong: {quote_list(wrong)}." if wrong else "Every field is right."
        if all(entry.evidence == _NOT_EXPECTED for entry in entries):
            reason = "The expected output contains none of the fields, so any JSON passes."
        if self.aggregation == "all_or_nothing":
            return GraderResult(value=float(not wrong), passed=not wrong, reason=reason, entries=entries)
        countable = [
            (field.weight, bool(entry.passed))
            for field, entry in zip(self.fields, entries, strict=True)
            if entry.passed is not None and field.weight > 0
        ]
        if not countable:
            return GraderResult(
                value=0.0, passed=False, reason="No field has a weight above 0.", entries=entries
            )
        value = math.fsum(weight for weight, passed in countable if passed)
        value /= math.fsum(weight for weight, _ in countable)
        right = all(passed for _, passed in countable)
        return GraderResult(value=min(value, 1.0), passed=right, reason=reason, entries=entries)


def _compare_field(field: Field, got: Any, expected: Any) -> Evidence:
    """Compares one field; `passed` is None if it does not count."""
    if expected is ABSENT:
        return Evidence(text=field.path, passed=True, evidence=_NOT_EXPECTED)
    if got is ABSENT:
        missing = f"is missing; expected {_format_value(expected)}"
        return Evidence(text=field.path, passed=False if field.required else None, evidence=missing)
    evidence = f"is {_format_value(got)}; expected {_format_value(expected)}"
    return Evidence(text=field.path, passed=_MATCHERS[field.match](field, got, expected), evidence=evidence)


def _format_value(value: Any) -> str:
    return clip(repr(value))


# --- what is compared --------------------------------------------------------------------------------------


def _expected_json(expected: Any) -> Any:
    """Returns the expected object or list; of messages, that of the last assistant message that has one."""
    turns = [expected]
    if is_conversation(expected):
        turns = [item.get("content") for item in reversed(expected) if item["role"] == "assistant"]
    for content in turns:
        if isinstance(content, str):
            try:
                content = parse_json(content)
            except NotJson:
                continue
        if isinstance(content, dict | list):
            return content
    raise CannotScore("The case has no JSON object to compare fields with; set one as its expected output.")


def is_conversation(expected: Any) -> bool:
    """Whether an expected output is a list of messages: of objects that all have a `role`."""
    return (
        isinstance(expected, list)
        and bool(expected)
        and all(isinstance(item, dict) and isinstance(item.get("role"), str) for item in expected)
    )


def _answer_json(text: str) -> Any:
    """Parses the answer as JSON, or else its text from the first `{` to the last `}`."""
    try:
        return parse_json(text)
    except NotJson:
        start, end = text.find("{"), text.rfind("}")
        if not 0 <= start < end:
            raise
        return parse_json(text[start : end + 1])


@lru_cache(maxsize=4096)
def parse_path(path: str) -> tuple[str | int, ...]:
    """Splits a path such as `items[0].price` into keys and indexes.

    Raises:
        ValueError: the path is invalid.
    """
    if not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} is not a valid path; write keys and indexes, such as 'items[0].price'.")
    return tuple(int(place) if place else key for place, key in _STEP.findall(path))


def get_value_at(value: Any, path: str) -> Any:
    """Returns the value at a path inside JSON, or ABSENT."""
    for step in parse_path(path):
        if isinstance(value, dict) and isinstance(step, str) and step in value:
            value = value[step]
            continue
        place = step if isinstance(step, int) else int(step) if step.isdecimal() and len(step) < 10 else -1
        if not isinstance(value, list) or not 0 <= place < len(value):
            return ABSENT
        value = value[place]
    return value


# --- how ---------------------------------------------------------------------------------------------------


def json_equal(left: Any, other: Any) -> bool:
    """Whether two JSON values are equal; ignores the order of keys, and compares numbers by value."""
    if isinstance(left, bool) or isinstance(other, bool):
        return left is other
    if isinstance(left, dict) and isinstance(other, dict):
        return left.keys() == other.keys() and all(
            json_equal(value, other[key]) for key, value in left.items()
        )
    if isinstance(left, list | tuple) and isinstance(other, list | tuple):
        return len(left) == len(other) and all(map(json_equal, left, other))
    return bool(left == other)


def _match_number(field: Field, got: Any, expected_value: Any) -> bool:
    expected, number = _parse_number(expected_value), _parse_number(got)
    if expected is None:
        raise CannotScore(
            f"The expected {field.path!r} is {_format_value(expected_value)}, which is not a number."
        )
    return number is not None and is_near(number, expected, field.tolerance, relative=field.relative)


def _parse_number(value: Any) -> str | None:
    """Returns a finite number as text for `float`, or the number that a text begins with.

    `1,234.5` is a number, a date is not. Floats are rounded to 15 digits, so that 0.1 + 0.2 is 0.3.
    """
    if isinstance(value, str):
        match = _NUMBER.match(value)
        number = match[1].replace(",", "") if match else ""
        return number if number and math.isfinite(float(number)) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return None if not math.isfinite(value) else str(value) if isinstance(value, int) else f"{value:.15g}"
    except OverflowError:
        return None


def _match_date(field: Field, got: Any, expected_value: Any) -> bool:
    expected = _parse_day(expected_value, field.formats)
    if expected is None:
        raise CannotScore(
            f"The expected {field.path!r} is {_format_value(expected_value)}, which is not a date."
        )
    return _parse_day(got, field.formats) == expected


_MATCHERS: Final[dict[str, Callable[[Field, Any, Any], bool]]] = {
    "exact": lambda _field, got, expected: json_equal(got, expected),
    "numeric_tolerance": _match_number,
    "date": _match_date,
}


# --- dates -------------------------------------------------------------------------------------------------


def _parse_day(value: Any, formats: tuple[str, ...]) -> date | None:
    """Parses the day that a text names, or returns None.

    Reads year-month-day, English month names, and two numbers before the year. These are month and day,
    unless the numeric formats have only the other order, or leave it open and the first number is above 12.
    """
    text = value.strip() if isinstance(value, str) else ""
    if match := _ISO.fullmatch(text):
        return _make_date(match[1], match[3], match[4])
    if match := _DAY_FIRST.fullmatch(text):
        return _make_date(match[3], _month_number(match[2]), match[1])
    if match := _MONTH_FIRST.fullmatch(text):
        return _make_date(match[3], _month_number(match[1]), match[2])
    match = _DIGITS.fullmatch(text)
    if match is None:
        return None
    orders = {_date_order(date_format) for date_format in formats} & {"DMY", "MDY"}
    first_is_day = orders == {"DMY"} if len(orders) == 1 else int(match[1]) > 12
    month, day = (match[3], match[1]) if first_is_day else (match[1], match[3])
    return _make_date(match[4], month, day)


@lru_cache(maxsize=512)
def _date_order(date_format: str) -> str:
    """Returns the order of day, month and year in a numeric format, such as `DMY`; empty for other formats.

    Raises:
        ValueError: the text is not a date format.
    """
    order = "".join(token[0] for token in _FORMAT_TOKENS.findall(date_format) if token[0] in "YMD")
    if _FORMAT_TOKENS.sub("", date_format) or sorted(order) != ["D", "M", "Y"]:
        raise ValueError(
            f"{date_format!r} is not a valid date format; write a format such as 'DD/MM/YYYY' or "
            f"'DD-MMM-YYYY'."
        )
    return "" if "MMM" in date_format else order


def _month_number(name: str) -> int:
    """Returns the number of a month from its name or a prefix of it; 0 if there is none."""
    name = "september" if name.lower() == "sept" else name.lower()
    return next((number for number, month in enumerate(_MONTHS, 1) if month.startswith(name)), 0)


def _make_date(year: str | int, month: str | int, day: str | int) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
