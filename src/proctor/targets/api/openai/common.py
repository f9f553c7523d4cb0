"""What the two interfaces of OpenAI have in common, chat completions and responses. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from proctor.model import ToolCall


def can_be_strict(schema: Any) -> bool:
    """Whether every object in a schema requires all its properties and allows no others, as strict mode does.

    Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas.
    """
    if isinstance(schema, list):
        return all(map(can_be_strict, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        properties, required = schema.get("properties"), schema.get("required")
        if schema.get("additionalProperties") is not False or not isinstance(properties, dict):
            return False
        if not isinstance(required, list) or set(properties) - set(required):
            return False
    return all(map(can_be_strict, schema.values()))


def parse_call(name: str, raw_arguments: Any, call_id: str | None) -> ToolCall:
    """Parses a tool call; arguments that are not a JSON object go under `arguments`."""
    arguments = raw_arguments
    if isinstance(raw_arguments, str):
        try:
            arguments = msgspec.json.decode(raw_arguments or "{}")
        except (msgspec.DecodeError, RecursionError):
            arguments = raw_arguments
    if not isinstance(arguments, dict):
        arguments = {"arguments": arguments}
    return ToolCall(name=name, arguments=arguments, id=call_id)
