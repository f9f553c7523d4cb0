"""`{{ name }}` in the texts of a test, which stands for the value of one of its `vars`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from proctor.yaml12 import rewritten

VARIABLE: Final = re.compile(r"(?<!\$)\{\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*\}\}")
"""A name in braces; its group is the name, with dots for what is inside a value."""


def filled(value: Any, variables: dict[str, Any], keep: Collection[str] = ()) -> Any:
    """A value with every `{{name}}` replaced; a text that is one alone becomes the variable's value."""

    def fill(text: str, _name: str) -> Any:
        alone = VARIABLE.fullmatch(text.strip())
        if alone is not None:
            value = value_of(variables, alone[1])
            return text if value is None else value
        return text_filled(text, variables)

    return rewritten(value, fill, keep)


def text_filled(text: str, variables: dict[str, Any]) -> str:
    """A text with every `{{name}}` replaced; a value that is no text is written as JSON."""
    return VARIABLE.sub(lambda match: _as_text(value_of(variables, match[1]), match[0]), text)


def missing_in(texts: Iterable[str], variables: dict[str, Any]) -> list[str]:
    """The names in some texts that have no value, each once."""
    names = dict.fromkeys(name for text in texts for name in VARIABLE.findall(text))
    return [name for name in names if value_of(variables, name) is None]


def value_of(variables: dict[str, Any], path: str) -> Any:
    """What a name such as `a.b` stands for; None where nothing does."""
    value: Any = variables
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _as_text(value: Any, placeholder: str) -> str:
    if value is None or isinstance(value, str):
        return placeholder if value is None else value
    return json.dumps(value, ensure_ascii=False)
