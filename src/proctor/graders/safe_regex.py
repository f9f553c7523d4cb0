"""Compiles regular expressions of suites, and searches with a time limit.

Patterns have the syntax of Python's `re`. The `regex` package runs them, because it can stop a search; its
version-0 mode keeps the behaviour of `re`.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING

from proctor.errors import CannotScore
from proctor.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import regex

SEARCH_TIMEOUT_S = 0.25
"""The processor time that one search may take, in seconds."""
FLAGS = "imsx"
"""The letters that `flags` may have, with their meaning in `(?imsx)`."""

_MAX_STEPS = 20_000
_TOKEN = lazy_pattern(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]|\{(\d+)(?:,\d*)?\}|.", re.DOTALL)


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str, flags: str = "") -> regex.Pattern[str]:
    """Returns the compiled pattern.

    Args:
        pattern: a regular expression as Python's `re` reads it.
        flags: any of the letters `i`, `m`, `s` and `x`.

    Raises:
        ValueError: the pattern or a flag is invalid, or its repeats would take too much memory.
    """
    import regex

    unknown = sorted(set(flags) - set(FLAGS))
    if unknown:
        raise ValueError(f"The flags {flags!r} contain {unknown[0]!r}; use only the letters i, m, s and x.")
    if _count_steps(pattern) > _MAX_STEPS:
        raise ValueError(
            f"The pattern {quote_full(pattern[:80])} repeats too often: it has more than {_MAX_STEPS} steps "
            "when "
            "its counts are written out. Use smaller counts."
        )
    combined = regex.VERSION0
    for letter in flags:
        combined |= regex.RegexFlag[letter.upper()]
    try:
        # The package warns of syntax that may change in later versions; version 0 reads it as `re` does.
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            re.compile(pattern)  # a suite may use only what the standard library accepts
            return regex.compile(_escape_extensions(pattern), combined, cache_pattern=False)
    except (re.error, regex.error, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"The pattern {quote_full(pattern[:80])} is not valid: {error}. Correct it."
        ) from None


def pattern_matches(pattern: str, text: str, *, flags: str = "", full: bool = False) -> bool:
    """Whether the pattern matches somewhere in the text, or with `full` all of it.

    Raises:
        ValueError: the pattern is not valid.
        CannotScore: the search did not end within `SEARCH_TIMEOUT_S`.
    """
    matcher = compile_pattern(pattern, flags)
    try:
        match = (
            matcher.fullmatch(text, timeout=SEARCH_TIMEOUT_S)
            if full
            else matcher.search(text, timeout=SEARCH_TIMEOUT_S)
        )
    except TimeoutError:
        raise CannotScore(
            f"Searching for the pattern {quote_full(pattern[:80])} did not end within {SEARCH_TIMEOUT_S} s; "
            "rewrite it so that nested repeats cannot match the same text."
        ) from None
    return match is not None


def _count_steps(pattern: str) -> int:
    """Counts the items of the pattern with every `x{n}` written out n times.

    `regex` writes them out, so a short pattern with a large count could take all memory.
    """
    totals, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if token[1] is not None:
            again = last * (int(token[1][:9]) - 1)
            totals[-1] += max(again, 0)
            last += max(again, 0)
        elif text == "(":
            totals.append(0)
        elif text == ")" and len(totals) > 1:
            last = totals.pop()
            totals[-1] += last
        else:
            last = 1
            totals[-1] += 1
    return sum(totals)


def quote_full(text: str) -> str:
    """Returns the text in quotes, on one line; backslashes stay single, so that patterns can be copied."""
    return repr(text).replace("\\\\", "\\")


_QUANTIFIER = lazy_pattern(r"\{(\d+(,\d*)?|,\d+)\}")


def _escape_extensions(pattern: str) -> str:
    """Escapes what only the package `regex` reads specially, so that it is literal as in `re`.

    These are braces that begin no repeat (`x{e}` would match approximately) and `[:` inside a set.
    """
    parts: list[str] = []
    place, in_set = 0, False
    while place < len(pattern):
        letter = pattern[place]
        width = 1
        if letter == "\\":
            name = re.match(r"\\N\{[^}]*\}", pattern[place:])
            width = name.end() if name else 2
        elif in_set:
            in_set = letter != "]"
            if pattern.startswith("[:", place):
                parts.append("\\")
        elif letter == "[":
            in_set = True
            # A `]` right after the beginning is a member of the set.
            width = 3 if pattern.startswith("[^]", place) else 2 if pattern.startswith("[]", place) else 1
        elif letter == "{" and not _QUANTIFIER.match(pattern, place):
            parts.append("\\")
        parts.append(pattern[place : place + width])
        place += width
    return "".join(parts)
