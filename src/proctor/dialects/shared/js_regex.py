r"""Translates JavaScript's regular expressions to Python's, so that they match the same texts.

`\d`, `\w` and `\b` match ASCII only, an escape without a meaning is its letter, and syntax that only Python
has, such as `(?i)` or `a++`, is an error. Five things keep Python's meaning: `\s`, which in JavaScript
includes U+FEFF but not U+0085 and U+001C to U+001F; line breaks, as `.`, `^` and `$` know only `\n` here;
characters beyond 16 bits, which are two without the flag u in JavaScript; references to groups that did not
participate, which never match here; and, with the flag i, literal letters: i, k and s also match the dotted
or dotless i, the Kelvin sign and the long s, and ẞ matches ß.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import Final

SHARED_FLAGS: Final = "ims"
"""Flags with the same meaning in both languages."""
IGNORED_FLAGS: Final = "gudv"
"""Flags that do not change whether a text matches, or only make parsing stricter."""

_ASCII_CLASSES: Final = {"d": "[0-9]", "D": "[^0-9]", "w": "[A-Za-z0-9_]", "W": "[^A-Za-z0-9_]"}
"""Classes that match ASCII only."""
_SHARED_ESCAPES: Final = frozenset("sSfnrtv")
"""Letters whose escapes mean the same in Python."""
_SET_CLASSES: Final = {
    "d": "0-9",
    "D": r"\x00-/:-\U0010ffff",
    "w": "A-Za-z0-9_",
    # Without the four letters that Python matches with i, k or s when it ignores case.
    "W": r"\x00-/:-@\[-\^`{-\u012f\u0132-\u017e\u0180-\u2129\u212b-\U0010ffff",
}
"""The classes inside brackets, beside letters that may ignore case."""
_CASED_SET_CLASSES: Final = _SET_CLASSES | {"W": r"\x00-/:-@\[-\^`{-\U0010ffff"}
"""The classes inside brackets where case matters."""
_FOLDED_SET_CLASSES: Final = _SET_CLASSES | {
    "w": r"A-Za-z0-9_\u017f\u212a",
    "W": r"\x00-/:-@\[-\^`{-\u017e\u0180-\u2129\u212b-\U0010ffff",
}
"""The classes with the flags i and u, where ſ and the Kelvin sign match s and k."""

_ESCAPE: Final = r"""\\(?:
        k<(?P<name>\w+)>
        | c(?P<control>[A-Za-z])
        | u\{(?P<point>[0-9A-Fa-f]+)\}
        | u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})
        | (?P<code>u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})
        | (?P<digits>[0-9]{1,3})
        | (?P<letter>[A-Za-z])
        | (?P<sign>.)
    )"""
_TOKEN: Final = re.compile(
    rf"""(?P<reference>\$\{{\{{\s*[A-Za-z_][A-Za-z0-9_]*\s*\}}\}})
    | {_ESCAPE}
    | (?P<set>\[(?:\\.|[^\]\\])*\])
    | (?P<repeat>(?:[*+?]|\{{[0-9]+(?:,[0-9]*)?\}})\??)
    | (?P<group>\((?!\?)|\(\?(?:[:=!]|<[=!]|<(?=[^\W\d])|(?!-?:)[ims]*-?[ims]*:))
    | (?P<wrong>\(\?.?)
    | (?P<brace>\{{(?=,[0-9]*\}}))
    | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_SET_MEMBER: Final = re.compile(rf"{_ESCAPE}|(?P<other>.)", re.DOTALL | re.VERBOSE)


class BadPattern(ValueError):
    """JavaScript rejects the pattern; the message is a clause that says why."""


@lru_cache(maxsize=1024)
def to_python(pattern: str, flags: str) -> tuple[str, str]:
    """Returns the pattern and the flags for Python; references `${{ NAME }}` stay.

    Args:
        pattern: as `new RegExp` takes it.
        flags: JavaScript's letters.

    Raises:
        BadPattern: JavaScript rejects the pattern.
        ValueError: a flag is not one of JavaScript's.
    """
    unknown = [letter for letter in flags if letter not in SHARED_FLAGS + IGNORED_FLAGS + "y"]
    if unknown:
        raise ValueError(
            f"has the flag {unknown[0]!r}; use only i (ignore case), m (multiline) and s (dot matches line "
            f"breaks)"
        )
    pattern = _PatternTranslator(pattern, flags).translate()
    if "y" in flags:
        pattern = rf"\A(?:{pattern})"
    return pattern, "".join(letter for letter in SHARED_FLAGS if letter in flags)


@lru_cache(maxsize=1024)
def get_compile_error(pattern: str) -> str | None:
    """Returns why Python cannot compile a pattern, or None if it can."""
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            re.compile(pattern)  # compiled again for each search, which the library's cache makes cheap
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    return None


def with_ascii_classes(pattern: str) -> str:
    r"""Returns a Python pattern whose `\d`, `\w` and `\b` know ASCII only, as JavaScript's do."""

    def narrow(token: re.Match[str]) -> str:
        if token["set"] is not None:
            return _SET_MEMBER.sub(
                lambda member: _SET_CLASSES.get(member["letter"] or "", member[0]), token[0]
            )
        if token["letter"] in ("b", "B"):
            return f"(?a:{token[0]})"
        return _ASCII_CLASSES.get(token["letter"] or "", token[0])

    # Parts that are already ASCII-only stay.
    return "".join(
        part if part.startswith("(?a:") else _TOKEN.sub(narrow, part)
        for part in re.split(r"(\(\?a:\\[bB]\))", pattern)
    )


class _PatternTranslator:
    """Translates a pattern from left to right."""

    def __init__(self, pattern: str, flags: str) -> None:
        self._pattern = pattern
        self._strict = "u" in flags or "v" in flags
        self._multiline_groups = ["m" in flags]
        """For each open group, whether `$` matches before line breaks."""
        self._open_groups: list[int] = []
        """The numbers of the open groups; 0 for groups without a number."""
        self._closed_groups: set[int] = set()
        self._group_count = 0
        self._unrepeatable = ""
        """The previous token, if it cannot be repeated."""
        groups = [token["group"] for token in _TOKEN.finditer(pattern)]
        on = "".join(group.partition("-")[0] for group in groups if group and group.startswith("(?"))
        self._ignores_case = "i" in flags + on
        self._total_groups = sum(group in ("(", "(?<") for group in groups)
        self._has_names = "(?<" in groups

    def translate(self) -> str:
        """Returns the pattern for Python.

        Raises:
            BadPattern: JavaScript rejects it.
        """
        return "".join(map(self._translate_token, _TOKEN.finditer(self._pattern)))

    def _translate_token(self, token: re.Match[str]) -> str:
        kind, text, last = token.lastgroup, token[0], self._unrepeatable
        self._unrepeatable = ""
        if kind == "repeat":
            if last:
                raise BadPattern(f"nothing to repeat: {text!r} follows {last!r}")
            self._unrepeatable = text
        elif kind == "wrong":
            raise BadPattern(f"invalid group: JavaScript has none that begins with {text!r}")
        elif kind == "group":
            return self._translate_group(text)
        elif kind == "set":
            return self._translate_set(text)
        elif kind == "brace":
            return "\\{"
        elif kind == "other":
            return self._translate_other(text)
        elif kind != "reference":
            return self._translate_escape(token)
        return text

    def _translate_group(self, text: str) -> str:
        numbered = text in ("(", "(?<")
        self._group_count += numbered
        self._open_groups.append(self._group_count if numbered else 0)
        on, _, off = text.removeprefix("(?").removesuffix(":").partition("-")
        self._multiline_groups.append("m" in on or ("m" not in off and self._multiline_groups[-1]))
        return "(?P<" if text == "(?<" else text

    def _translate_other(self, text: str) -> str:
        if text == "[":
            raise BadPattern("the set that begins with '[' is not closed")
        if text == ")" and self._open_groups:
            self._closed_groups.add(self._open_groups.pop())
            self._multiline_groups.pop()
        if text in "^$":
            self._unrepeatable = text
        # Python's `$` also stands before a last line break.
        return r"\Z" if text == "$" and not self._multiline_groups[-1] else text

    def _translate_escape(self, token: re.Match[str]) -> str:
        """Translates an escape outside brackets."""
        letter, digits = token["letter"], token["digits"]
        if letter in ("w", "W") and self._ignores_case:
            return self._translate_set(r"[\w]" if letter == "w" else r"[^\w]")
        if letter in _ASCII_CLASSES:
            return _ASCII_CLASSES[letter]
        if letter in ("b", "B"):
            self._unrepeatable = token[0]
            return f"(?a:{token[0]})"
        if digits is not None and 0 < int(digits) <= self._total_groups:
            return token[0] if int(digits) in self._closed_groups else "(?:)"
        if token["name"] is not None and self._has_names:
            return f"(?P={token['name']})"
        return self._translate_character(token)

    def _translate_set(self, text: str) -> str:
        """Translates a set of characters, with its brackets."""
        if text in ("[]", "[^]"):
            return "(?!)" if text == "[]" else r"[\s\S]"
        members = list(_SET_MEMBER.finditer(text, 1, len(text) - 1))
        classes, before, after = self._get_set_classes(members)
        parts = []
        for place, member in enumerate(members):
            neighbours = members[max(place - 1, 0) : place + 2]
            if member[0] == "-" and any(
                neighbour["letter"] in _SET_CLASSES.keys() | set("sS") for neighbour in neighbours
            ):
                parts.append(r"\-")  # no range begins or ends with a class
            elif member["letter"] in classes:
                parts.append(classes[member["letter"]])
            else:
                parts.append(r"\b" if member["letter"] == "b" else self._translate_character(member))
        return f"{before}[{''.join(parts)}]{after}"

    def _get_set_classes(self, members: list[re.Match[str]]) -> tuple[dict[str, str], str, str]:
        """Returns how classes are written in a set with these members, and what goes around the set."""
        if not self._ignores_case:
            return _CASED_SET_CLASSES, "", ""
        letters = [member["letter"] for member in members]
        # With a letter or a range the set must ignore case, and Python then does so for the classes, too.
        if not {"w", "W"}.intersection(letters) or any(map(_has_case, members)) or _has_range(members):
            return _SET_CLASSES, "", ""
        return (_FOLDED_SET_CLASSES if self._strict else _CASED_SET_CLASSES), "(?-i:", ")"

    def _translate_character(self, token: re.Match[str]) -> str:
        """Translates an escape of one character, or an unescaped character."""
        text, letter, digits = token[0], token["letter"], token["digits"]
        if token["control"] is not None:
            return f"\\x{ord(token['control']) % 32:02x}"
        if token["high"] is not None:
            point = 0x10000 + (int(token["high"], 16) - 0xD800 << 10) + int(token["low"], 16) - 0xDC00
            return f"\\U{point:08x}"
        if token["point"] is not None and self._strict and len(token["point"]) <= 6:
            return f"\\U{token['point']:0>8}"
        if digits is not None and not self._strict:
            return _translate_octal(digits)
        if letter in _SHARED_ESCAPES or (letter is not None and self._strict):
            return text
        if letter == "c":
            return r"\\c"
        # Without a meaning, `\u{3}` is the letter u three times, and `\A` an A.
        plain = token["point"] is not None or token["name"] is not None or letter is not None
        return text[1:] if plain else text


def _has_case(member: re.Match[str]) -> bool:
    """Whether a member of a set may be a letter with case."""
    if member["letter"] is not None:
        return member["letter"] not in {*_SET_CLASSES, *_SHARED_ESCAPES, "b"}
    if member["other"] is None and member["sign"] is None:
        return True  # the number of a character
    return member[0].lower() != member[0].upper()


def _has_range(members: list[re.Match[str]]) -> bool:
    """Whether a set has a range, which no class begins or ends."""
    return any(
        middle[0] == "-" and low["letter"] is None and high["letter"] is None
        for low, middle, high in zip(members, members[1:], members[2:], strict=False)
    )


def _translate_octal(digits: str) -> str:
    """Translates digits after a backslash that are no group reference: octal up to 255, then digits."""
    length = next((size for size in (3, 2, 1) if re.fullmatch("[0-3]?[0-7]?[0-7]", digits[:size])), 0)
    first = f"\\x{int(digits[:length], 8):02x}" if length else ""
    return first + "".join(f"\\x{ord(digit):02x}" for digit in digits[length:])
