"""JavaScript's regular expressions to Python's, where only the syntax differs.

Classes of characters keep Python's meaning and know all of Unicode. What has no simple counterpart, such as
named properties, is left as it stands, and then no pattern to Python.
"""

from __future__ import annotations

import re
import warnings
from typing import Final

KEPT: Final = "ims"
"""Flags that mean the same in both."""
DROPPED: Final = "gudv"
"""Flags that change nothing about whether a text has a match, or only how strictly a pattern is read."""

_DIFFERS = re.compile(r"\(\?<|\\[kcu]|\$|\[\^?\]|\{,")
_TOKEN = re.compile(
    r"""(?P<reference>\$\{\{\s*[A-Za-z_][A-Za-z0-9_]*\s*\}\})
    | \\k<(?P<again>\w+)>
    | \\c(?P<control>[A-Za-z])
    | \\u\{(?P<point>[0-9A-Fa-f]+)\}
    | \\.
    | (?P<group>\(\?<(?![=!]))
    | (?P<anything>\[\^\])
    | (?P<nothing>\[\])
    | (?P<set>\[(?:\\.|[^\]\\])*\])
    | (?P<end>\$)
    | (?P<brace>\{(?=,\d*\}))""",
    re.DOTALL | re.VERBOSE,
)


def to_python(pattern: str, flags: str) -> tuple[str, str]:
    """The pattern and the flags as Python reads them; references `${{ NAME }}` stay.

    Args:
        pattern: as `new RegExp` takes it.
        flags: JavaScript's letters.

    Raises:
        ValueError: a flag is not one of JavaScript's.
    """
    unknown = [letter for letter in flags if letter not in KEPT + DROPPED + "y"]
    if unknown:
        raise ValueError(
            f"has the flag {unknown[0]!r}; use only i (ignore case), m (lines) and s (dot is all)"
        )
    if _DIFFERS.search(pattern):
        pattern = _TOKEN.sub(lambda found: _written(found, flags), pattern)
    if "y" in flags:
        pattern = rf"\A(?:{pattern})"
    return pattern, "".join(letter for letter in KEPT if letter in flags)


def wrong_with(pattern: str) -> str | None:
    """Why a pattern is none as Python reads it; None for one that is."""
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            re.compile(pattern)  # whoever searches compiles it again, which the library's cache makes cheap
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    return None


def _written(found: re.Match[str], flags: str) -> str:
    kind, text = found.lastgroup, found[0]
    if kind == "group":
        return "(?P<"
    if kind == "again":
        return f"(?P={found['again']})"
    if kind == "control":
        return f"\\x{ord(found['control']) % 32:02x}"
    if kind == "point":
        # Without the flag, `\u{3}` is the letter u three times.
        unicode = ("u" in flags or "v" in flags) and len(found["point"]) <= 6
        return f"\\U{found['point']:0>8}" if unicode else text.removeprefix("\\")
    if kind == "anything":
        return r"[\s\S]"
    if kind == "nothing":
        return "(?!)"
    if kind == "set":
        return "[" + _TOKEN.sub(lambda inner: _in_set(inner, flags), text[1:-1]) + "]"
    if kind == "end":
        # Python's `$` also stands before a last line break.
        return "$" if "m" in flags else r"\Z"
    return "\\{" if kind == "brace" else text


def _in_set(found: re.Match[str], flags: str) -> str:
    return _written(found, flags) if found.lastgroup in ("control", "point") else found[0]
