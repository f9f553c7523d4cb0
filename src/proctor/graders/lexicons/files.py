"""Reads the TOML files of this package, and fills in and compiles patterns on first use.

In a file, `[patterns]` has regular expressions, each a text or a list of alternatives; `[whole_words]` has
lists of alternatives that match only between word boundaries, `[words]` has lists of words, and `[fragments]`
has the replacements of `{NAME}` in patterns. A long text continues on the next line, whose indentation is
ignored.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent  # importlib.resources would load zipfile


@cache
def load_toml(name: str) -> dict[str, Any]:
    """Returns one of the TOML files, by its name without the ending."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def load_pattern(file: str, name: str) -> re.Pattern[str]:
    """Returns a pattern or the whole words of a file, compiled."""
    table = load_toml(file)
    if name in table["patterns"]:
        pattern = table["patterns"][name]
        return re.compile(fill(pattern if isinstance(pattern, str) else "|".join(pattern), file))
    return re.compile(rf"\b(?:{fill('|'.join(table['whole_words'][name]), file)})\b")


@cache
def load_words(file: str, name: str) -> frozenset[str]:
    """Returns a list of words of a file."""
    return frozenset(load_toml(file)["words"][name])


def fill(text: str, file: str) -> str:
    """Returns a pattern on one line, with the fragments of its file."""
    return _FRAGMENT.sub(lambda match: _load_fragments(file)[match[1]], _LINE_END.sub("", text))


@cache
def _load_fragments(file: str) -> dict[str, str]:
    """Returns the fragments of a file; each may have those above it."""
    fragments: dict[str, str] = {}
    for name, text in load_toml(file).get("fragments", {}).items():
        fragments[name] = _FRAGMENT.sub(lambda match: fragments[match[1]], _LINE_END.sub("", text))
    return fragments


_FRAGMENT = re.compile(r"\{([A-Z_]+)\}")
_LINE_END = re.compile(r"\n *")
