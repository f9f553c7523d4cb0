"""Writes the values of a case as one text, for where a case without an input is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proctor.prompts.templates import as_text


def format_values(values: Mapping[str, Any]) -> str:
    """Returns the values for the variables of a prompt, such as `city=Lima, lang=es`."""
    return ", ".join(f"{name}={as_text(value)}" for name, value in values.items())
