"""Writes data as YAML in block style that YAML 1.1 and YAML 1.2 parsers read alike.

Where the two differ (`yes`, `012`, dates, characters that used to end lines), a text is quoted or escaped. A
text of several lines is a literal block if that preserves it exactly.
"""

from __future__ import annotations

import re
from typing import Any, Final

_PRINTABLE: Final = (
    " -~\u00a1-\u00ac\u00ae-\u200a\u2010-\u2027\u202f-\u205f\u2070-\ud7ff\ue000-\ufefe\uff00-\uffef"
    "\U00010000-\U000dffff"
)
"""Characters that are written as they are; all others are escaped."""
_PLAIN_TEXT: Final = re.compile(rf"(?![!-@\[-`{{-~ ])[{_PRINTABLE}]+")
_NEVER_PLAIN: Final = re.compile(r":(\s|$)|\s#|\s$")
_RESERVED_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""Words that some readers do not take for text, in any case."""
_LITERAL_TEXT: Final = re.compile(rf"\n*[{_PRINTABLE}\t][{_PRINTABLE}\t\n]*")
_TRAILING_SPACE: Final = re.compile(r"[ \t](\n|$)")
_UNPRINTABLE: Final = re.compile(rf"[^{_PRINTABLE}]|[\"\\]")
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MAX_KEY_LENGTH: Final = 200
"""The longest key that is written on one line with its value; readers take at most 1,024 characters."""


def dump_yaml(value: Any, indent: int = 0) -> str:
    """Returns JSON data as whole lines of YAML.

    Args:
        value: objects with text keys, lists, texts, finite numbers, booleans and None.
        indent: the number of spaces before each line.
    """
    if isinstance(value, dict | list | tuple) and value:
        return _format_block(value, indent)
    return f"{' ' * indent}{_format_inline(value)}\n"


def _format_block(value: Any, indent: int) -> str:
    margin = " " * indent
    if isinstance(value, dict):
        return "".join(
            [
                margin + _format_key(key, margin) + _format_node(item, indent + 2)
                for key, item in value.items()
            ]
        )
    return "".join([f"{margin}-{_format_item(item, indent + 2)}" for item in value])


def _format_key(key: str, margin: str) -> str:
    text = _format_inline(key)
    return f"{text}:" if len(text) <= _MAX_KEY_LENGTH else f"? {text}\n{margin}:"


def _format_item(item: Any, indent: int) -> str:
    """Returns what follows a hyphen: the first field of an object is on the same line."""
    if isinstance(item, dict | list | tuple) and item:
        return " " + _format_block(item, indent)[indent:]
    return _format_node(item, indent)


def _format_node(value: Any, indent: int) -> str:
    """Returns what follows a key, from the space on; `indent` is that of further lines."""
    if isinstance(value, dict | list | tuple) and value:
        return "\n" + _format_block(value, indent)
    if isinstance(value, str) and "\n" in value and _is_literal(value):
        return _format_literal(value, indent)
    return f" {_format_inline(value)}\n"


def _is_literal(text: str) -> bool:
    """Whether a block preserves the text; trailing white space is clearer in quotes."""
    return _LITERAL_TEXT.fullmatch(text) is not None and _TRAILING_SPACE.search(text) is None


def _format_literal(text: str, indent: int) -> str:
    # Without the number, spaces of the first line would count as indentation.
    number = "2" if text[0] in " \t\n" else ""
    chomping = "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") else ""
    margin = " " * indent
    lines = text.removesuffix("\n").split("\n")
    return f" |{number}{chomping}\n" + "".join([f"{margin}{line}\n" if line else "\n" for line in lines])


def _format_inline(value: Any) -> str:
    if isinstance(value, str):
        return value if _is_plain(value) else f'"{_UNPRINTABLE.sub(_escape, value)}"'
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list | tuple):
        return "{}" if isinstance(value, dict) else "[]"
    number = repr(value)
    # YAML 1.1 reads a number with an exponent and no point as text.
    return number.replace("e", ".0e") if "e" in number and "." not in number else number


def _is_plain(text: str) -> bool:
    return (
        _PLAIN_TEXT.fullmatch(text) is not None
        and _NEVER_PLAIN.search(text) is None
        and text.lower() not in _RESERVED_WORDS
    )


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    short = _ESCAPES.get(character)
    if short is not None:
        return short
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
