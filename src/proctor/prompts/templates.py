"""Fills in texts with names in double braces.

Only plain names such as `{{ city }}` and `{{ place.city }}` are supported: no filters, loops or conditions.
What Jinja and Nunjucks take for code is refused, and so is a name without a value, which both would replace
by nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from proctor.errors import suggestion
from proctor.lazy_pattern import lazy_pattern
from proctor.validation import quote_value

_TAG: Final = lazy_pattern(r"\{\{(?P<name>(?:(?!\}\}|\{\{).){0,400})\}\}|\{%|\{#", re.DOTALL)
_NAME: Final = lazy_pattern(r"\s*((?!\d)[\w$]+(?:\.[\w$]+)*)\s*")
_PLAIN_TAG: Final = lazy_pattern(r"\{\{\s*((?!\d)[\w$]+)\s*\}\}")


class BadTemplate(ValueError):
    """A text that cannot be filled in. The message continues after the field's name.

    `line` is the line of the text, from 0.
    """

    def __init__(self, code: str, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.line = line


class TemplatePlaceholder(Struct, frozen=True):
    """A placeholder."""

    name: str
    """May have dots for the fields of an object."""
    line: int


TemplateParts = tuple[str | TemplatePlaceholder, ...]
"""The literal texts and the placeholders of a template."""


@lru_cache(maxsize=1024)
def parse_template(text: str) -> TemplateParts:
    """Splits a text into literal texts and placeholders.

    Raises:
        BadTemplate: it has more than names in double braces.
    """
    parts: list[str | TemplatePlaceholder] = []
    end = 0
    for tag in _TAG.finditer(text):
        line = text.count("\n", 0, tag.start())
        name = None if tag["name"] is None else _NAME.fullmatch(tag["name"])
        if name is None:
            excerpt = text[tag.start() : tag.start() + 40].partition("\n")[0]
            raise BadTemplate(
                "template-code",
                f"has {quote_value(excerpt)}. Only plain names such as `{{{{ city }}}}` are filled in; "
                f"filters, loops, conditions and comments are not supported. Write the text out.",
                line,
            )
        parts += (text[end : tag.start()], TemplatePlaceholder(name[1], line))
        end = tag.end()
    return (*parts, text[end:])


def list_plain_names(text: str) -> list[str]:
    """Returns the names without dots that a text has in double braces; anything else there is skipped."""
    return _PLAIN_TAG.findall(text) if "{{" in text else []


def fill_template(text: str, values: Mapping[str, Any]) -> str:
    """Fills in the names in a text.

    Raises:
        BadTemplate: it has more than names in double braces, or one that has no value.
    """
    if "{{" not in text and "{%" not in text and "{#" not in text:
        return text
    return "".join(
        part if isinstance(part, str) else _get_value(part, values) for part in parse_template(text)
    )


def as_text(value: Any) -> str:
    """Returns a value as JavaScript converts it to text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def format_values(values: Mapping[str, Any]) -> str:
    """Returns the values of a case as one text, such as `city=Lima, lang=es`."""
    return ", ".join(f"{name}={as_text(value)}" for name, value in values.items())


def resolve_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fills in the names of other values in each value; other text is left unchanged.

    Raises:
        BadTemplate: a value refers to itself, directly or through others.
    """
    results: dict[str, Any] = {}

    def value(name: str, waiting: tuple[str, ...]) -> Any:
        if name not in results:
            if name in waiting:
                circle = " names ".join((*waiting, name))
                raise BadTemplate("circular-vars", f"refers to itself: {circle}.")
            results[name] = inside(values[name], (*waiting, name))
        return results[name]

    def inside(raw: Any, waiting: tuple[str, ...]) -> Any:
        if isinstance(raw, dict):
            return {name: inside(item, waiting) for name, item in raw.items()}
        if isinstance(raw, list):
            return [inside(item, waiting) for item in raw]
        if not isinstance(raw, str) or "{{" not in raw:
            return raw
        return _PLAIN_TAG.sub(
            lambda match: as_text(value(match[1], waiting)) if match[1] in values else match[0], raw
        )

    return {name: value(name, ()) for name in values}


def _get_value(hole: TemplatePlaceholder, values: Mapping[str, Any]) -> str:
    value: Any = values
    for name in hole.name.split("."):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            hint = suggestion(hole.name[:60], tuple(values))
            message = f"names `{{{{ {hole.name} }}}}`, but the test has no such var. {hint}"
            raise BadTemplate("unresolved-placeholder", message, hole.line)
    return as_text(value)
