"""Fills in `{{ name }}` in the texts of a test by the values of its `vars`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from proctor.yaml12 import rewritten

VARIABLE: Final = re.compile(r"(?<!\$)\{\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*\}\}")
"""A name in double braces, with dots for nested values; the group is the name."""


def filled(value: Any, variables: dict[str, Any], keep: Collection[str] = ()) -> Any:
    """Replaces every `{{name}}`; a text that is a single placeholder becomes the variable's value."""

    def fill(text: str, _name: str) -> Any:
        alone = VARIABLE.fullmatch(text.strip())
        if alone is not None:
            value = value_of(variables, alone[1])
            return text if value is None else value
        return text_filled(text, variables)

    return rewritten(value, fill, keep)


def text_filled(text: str, variables: dict[str, Any]) -> str:
    """Replaces every `{{name}}` in a text; values other than texts are written as JSON."""
    return VARIABLE.sub(lambda match: _as_text(value_of(variables, match[1]), match[0]), text)


def missing_in(texts: Iterable[str], variables: dict[str, Any]) -> list[str]:
    """Returns the names in the texts that have no value, each once."""
    names = dict.fromkeys(name for text in texts for name in VARIABLE.findall(text))
    return [name for name in names if value_of(variables, name) is None]


def value_of(variables: dict[str, Any], path: str) -> Any:
    """Returns the value of a name such as `a.b`; None if it has none."""
    value: Any = variables
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _as_text(value: Any, placeholder: str) -> str:
    if value is None or isinstance(value, str):
        return placeholder if value is None else value
    return json.dumps(value, ensure_ascii=False)
