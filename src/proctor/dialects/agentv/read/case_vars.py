"""Fills in `{{ name }}` in the texts of a test by the values of its `vars`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from proctor.yaml12 import map_strings

PLACEHOLDER: Final = re.compile(r"(?<!\$)\{\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*\}\}")
"""A name in double braces, with dots for nested values; the group is the name."""


def fill_value(value: Any, variables: dict[str, Any], keep: Collection[str] = ()) -> Any:
    """Replaces every `{{name}}`; a text that is a single placeholder becomes the variable's value."""

    def fill(text: str, _name: str) -> Any:
        alone = PLACEHOLDER.fullmatch(text.strip())
        if alone is not None:
            value = get_value(variables, alone[1])
            return text if value is None else value
        return fill_text(text, variables)

    return map_strings(value, fill, keep)


def fill_text(text: str, variables: dict[str, Any]) -> str:
    """Replaces every `{{name}}` in a text; values other than texts are written as JSON."""

    def fill(match: re.Match[str]) -> str:
        value = get_value(variables, match[1])
        if value is None:
            return match[0]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return PLACEHOLDER.sub(fill, text)


def find_missing_names(texts: Iterable[str], variables: dict[str, Any]) -> list[str]:
    """Returns the names in the texts that have no value, each once."""
    names = dict.fromkeys(name for text in texts for name in PLACEHOLDER.findall(text))
    return [name for name in names if get_value(variables, name) is None]


def get_value(variables: dict[str, Any], path: str) -> Any:
    """Returns the value of a name such as `a.b`; None if it has none."""
    value: Any = variables
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def iter_texts(value: Any, keep: Collection[str] = ()) -> Iterator[str]:
    """Yields every text in a value, except field names and the fields in `keep`."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in keep:
                yield from iter_texts(item, keep)
    elif isinstance(value, list):
        for item in value:
            yield from iter_texts(item, keep)
