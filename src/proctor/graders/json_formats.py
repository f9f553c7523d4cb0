"""Checks for `format` of JSON Schema, with the behaviour of the package ajv-formats 3.

Its JavaScript patterns are written here as Python reads them. They run under the time limit of `safe_regex`.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from ipaddress import AddressValueError, IPv6Address
from typing import Any, Final

from proctor.graders import safe_regex

_WORD: Final = r"[a-z0-9\-._~!$&'()*+,;=]|%[0-9a-f]{2}"
_STEP: Final = r"(?:[a-z0-9\-._~!$&'()*+,;=:@]|%[0-9a-f]{2})"
_QUERY_CHARS: Final = r"(?:[a-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9a-f]{2})*"
_HOST: Final = (
    rf"(?:(?:{_WORD}|:)*@)?(?:\[(?:[0-9a-f:.]+|v[0-9a-f]+\.[a-z0-9\-._~!$&'()*+,;=:]+)\]|(?:{_WORD})*)"
)
_ROOT: Final = rf"/?/{_HOST}(?::[0-9]*)?(?:/{_STEP}*)*|/(?:{_STEP}+(?:/{_STEP}*)*)?"
_PATH: Final = rf"{_STEP}+(?:/{_STEP}*)*"
_END: Final = rf"(?:\?{_QUERY_CHARS})?(?:#{_QUERY_CHARS})?"
_BYTE: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_MAILBOX: Final = r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+"
_POINTER_TOKEN: Final = r"(?:[^~/]|~0|~1)*"
_LETTERS: Final = r"[a-z0-9\u00a1-\uffff]+"
_PATTERNS: Final = {
    "duration": r"P(?!$)(?:(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+D)?"
    r"(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+S)?)?|(?:[0-9]+W)?)",
    "email": rf"{_MAILBOX}(?:\.{_MAILBOX})*@(?:{_LABEL}\.)+{_LABEL}",
    "hostname": r"(?=.{1,253}\.?\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
    r"(?:\.[a-z0-9](?:[-0-9a-z]{0,61}[0-9a-z])?)*\.?",
    "ipv4": rf"(?:{_BYTE}\.){{3}}{_BYTE}",
    "json-pointer": rf"(?:/{_POINTER_TOKEN})*",
    "json-pointer-uri-fragment": r"#(?:/(?:[a-z0-9_\-.!$&'()*+,;:=@]|%[0-9a-f]{2}|~0|~1)*)*",
    "relative-json-pointer": rf"(?:0|[1-9][0-9]*)(?:#|(?:/{_POINTER_TOKEN})*)",
    "uri": rf"(?=.*[/:])[a-z][a-z0-9+\-.]*:(?:{_ROOT}|{_PATH}){_END}",
    "uri-reference": rf"(?:[a-z][a-z0-9+\-.]*:)?(?:{_ROOT}|{_PATH})?{_END}".replace("&'", "&'\""),
    "uri-template": r"""(?:(?:[^\x00-\x20"'<>%\\^`{|}]|%[0-9a-f]{2})|\{[+#./;?&=,!@|]?"""
    r"(?:[a-z0-9_]|%[0-9a-f]{2})+(?::[1-9][0-9]{0,3}|\*)?"
    r"(?:,(?:[a-z0-9_]|%[0-9a-f]{2})+(?::[1-9][0-9]{0,3}|\*)?)*\})*",
    "url": r"(?:https?|ftp)://(?:\S+(?::\S*)?@)?(?:(?!(?:10|127)(?:\.[0-9]{1,3}){3})"
    r"(?!(?:169\.254|192\.168)(?:\.[0-9]{1,3}){2})(?!172\.(?:1[6-9]|2[0-9]|3[0-1])(?:\.[0-9]{1,3}){2})"
    r"(?:[1-9][0-9]?|1[0-9][0-9]|2[01][0-9]|22[0-3])(?:\.(?:1?[0-9]{1,2}|2[0-4][0-9]|25[0-5])){2}"
    r"(?:\.(?:[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-4]))|"
    rf"(?:{_LETTERS}-)*{_LETTERS}(?:\.(?:{_LETTERS}-)*{_LETTERS})*(?:\.[a-z\u00a1-\uffff]{{2,}}))"
    r"(?::[0-9]{2,5})?(?:/\S*)?",
    "uuid": r"(?:urn:uuid:)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
}
_CASE_SENSITIVE: Final = frozenset(("duration", "ipv4", "json-pointer", "relative-json-pointer"))
"""Formats in which the case of letters matters."""
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME: Final = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2}(?:\.[0-9]+)?)(z|([+-])([0-9]{2})(?::?([0-9]{2}))?)?", re.IGNORECASE
)
_DATE_TIME_SEPARATOR: Final = re.compile(r"[tT\s]")
_BASE_64: Final = re.compile(
    r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$", re.MULTILINE
)
_ADDRESS: Final = re.compile(r"//(?:[^/?#@\[]*@)?\[([0-9a-f:.]+)\]", re.IGNORECASE)


def matches_format(name: str, value: Any) -> bool:
    """Whether a value matches a format; a value of a type that the format does not apply to matches.

    Args:
        name: one of `FORMATS`.
        value: a JSON value.

    Raises:
        CannotScore: a pattern search exceeded its time limit.
    """
    if isinstance(value, str):
        return _TEXT_CHECKS[name](value) if name in _TEXT_CHECKS else True
    if isinstance(value, int | float) and not isinstance(value, bool) and name in ("int32", "int64"):
        return value == int(value) and (name == "int64" or -(2**31) <= value < 2**31)
    return True


def _pattern_check(name: str) -> Callable[[str], bool]:
    flags = "" if name in _CASE_SENSITIVE else "i"
    return lambda text: safe_regex.pattern_matches(_PATTERNS[name], text, flags=flags, full=True)


def _is_date(text: str) -> bool:
    parts = _DATE.fullmatch(text)
    if parts is None or not 1 <= int(parts[2]) <= 12:
        return False
    return 1 <= int(parts[3]) <= monthrange(int(parts[1]), int(parts[2]))[1]


def _is_time(text: str, *, needs_zone: bool = True) -> bool:
    parts = _TIME.fullmatch(text)
    if parts is None:
        return False
    hour, minute, second = int(parts[1]), int(parts[2]), float(parts[3])
    sign, hours, minutes = -1 if parts[5] == "-" else 1, int(parts[6] or 0), int(parts[7] or 0)
    if hours > 23 or minutes > 59 or (needs_zone and not parts[4]):
        return False
    if hour <= 23 and minute <= 59 and second < 60:
        return True
    # A leap second: the last second of a day in UTC.
    utc_minute = minute - minutes * sign
    utc_hour = hour - hours * sign - (utc_minute < 0)
    return utc_hour in (23, -1) and utc_minute in (59, -1) and second < 61


def _is_date_time(text: str, *, needs_zone: bool = True) -> bool:
    parts = _DATE_TIME_SEPARATOR.split(text)
    return len(parts) == 2 and _is_date(parts[0]) and _is_time(parts[1], needs_zone=needs_zone)


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return "%" not in text  # a zone is not part of the format


def _uri_check(name: str) -> Callable[[str], bool]:
    keeps = _pattern_check(name)

    def check(text: str) -> bool:
        address = _ADDRESS.search(text)
        return keeps(text) and (address is None or _is_ipv6(address[1]))

    return check


def _is_pattern(text: str) -> bool:
    try:
        safe_regex.compile_pattern(text)
    except ValueError:
        return False
    return True


_TEXT_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    **{name: _pattern_check(name) for name in _PATTERNS},
    "byte": lambda text: _BASE_64.search(text) is not None,
    "date": _is_date,
    "date-time": _is_date_time,
    "ipv6": _is_ipv6,
    "iso-date-time": lambda text: _is_date_time(text, needs_zone=False),
    "iso-time": lambda text: _is_time(text, needs_zone=False),
    "regex": _is_pattern,
    "time": _is_time,
    "uri": _uri_check("uri"),
    "uri-reference": _uri_check("uri-reference"),
}
FORMATS: Final = frozenset((*_TEXT_CHECKS, "int32", "int64", "float", "double", "password", "binary"))
"""The known names; the last four allow everything."""
