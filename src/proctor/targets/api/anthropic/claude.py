"""What Claude models accept on every service: how they think, and the schemas of their answers. Pure.

Sources: https://platform.claude.com/docs/en/build-with-claude/extended-thinking, adaptive-thinking, effort
and structured-outputs there.
"""

from __future__ import annotations

from typing import Any, Final

from proctor.lazy_pattern import lazy_pattern
from proctor.model import Params

DEFAULT_MAX_TOKENS: Final = 4096
"""The longest answer, without thinking, if the user sets no limit."""
ADAPTIVE_THINKING_TOKENS: Final = 12_288
"""What is added to that if a model decides itself how long it thinks."""
MIN_THINKING_BUDGET: Final = 1024
MIN_TOP_P_WITH_THINKING: Final = 0.95
_VERSION: Final = lazy_pattern(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")
_FIRST_ADAPTIVE: Final = (4, 6)
_FIRST_WITHOUT_BUDGET: Final = (4, 7)
_FIRST_THINKING_BY_DEFAULT: Final = (5, 0)
_SCHEMA_MAPS: Final = frozenset({"properties", "$defs", "definitions"})
_SCHEMAS: Final = frozenset({"items", "prefixItems", "anyOf", "oneOf"})
_LIMITS: Final = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
    }
)
"""The keywords that structured outputs refuse, besides `minItems` above 1."""


def get_version(model: str) -> tuple[int, int] | None:
    """Returns the version in the name of a Claude model, such as (4, 5); None if it has none."""
    match = _VERSION.search(model)
    return (int(match[1]), int(match[2] or 0)) if match else None


# --- thinking ----------------------------------------------------------------------------------------------


def thinking_for(model: str, params: Params) -> dict[str, Any] | None:
    """Returns the field `thinking` of a request; None if the parameters say nothing about it.

    An effort makes models think that decide themselves how long. Those from 4.7 on show nothing of it
    unless a summary is requested.
    """
    if params.thinking_budget is not None:
        budget = params.thinking_budget
        return {"type": "enabled", "budget_tokens": budget} if budget else {"type": "disabled"}
    version = get_version(model)
    if params.reasoning_effort is not None and (version is None or version >= _FIRST_ADAPTIVE):
        return {"type": "adaptive", "display": "summarized"}
    return None


def thinks(model: str, params: Params) -> bool:
    """Whether a request makes the model think."""
    thinking = thinking_for(model, params)
    return thinking is not None and thinking["type"] != "disabled"


def max_tokens_for(model: str, params: Params) -> int:
    """Returns the maximum tokens of a request, which count thinking and answer together."""
    if params.max_tokens is not None:
        return params.max_tokens
    if params.thinking_budget is not None:
        return DEFAULT_MAX_TOKENS + params.thinking_budget
    version = get_version(model)
    thinks_by_default = version is not None and version >= _FIRST_THINKING_BY_DEFAULT
    thinking = ADAPTIVE_THINKING_TOKENS if thinks_by_default or thinks(model, params) else 0
    return DEFAULT_MAX_TOKENS + thinking


def find_conflict(model: str, params: Params) -> str | None:
    """Returns why a model cannot be called with these parameters, and what to do, as sentences; else None."""
    budget, version = params.thinking_budget, get_version(model)
    if budget:
        if budget < MIN_THINKING_BUDGET:
            return f"`thinking_budget` is {budget}; Claude models accept 0 or at least {MIN_THINKING_BUDGET}."
        if version is not None and version >= _FIRST_WITHOUT_BUDGET:
            return (
                f"{model} does not accept `thinking_budget`, because it decides itself how long to "
                f"think. Set `reasoning_effort` instead."
            )
        if params.max_tokens is not None and params.max_tokens <= budget:
            return (
                f"`max_tokens` is {params.max_tokens} but must be more than `thinking_budget`, {budget}, "
                f"because thinking counts as well. Raise it, or remove it."
            )
    if thinks(model, params):
        if params.top_k is not None:
            return "`top_k` cannot be set for a Claude model that thinks. Remove it."
        if params.top_p is not None and params.top_p < MIN_TOP_P_WITH_THINKING:
            return (
                f"`top_p` is {params.top_p:g}; for a Claude model that thinks it must be at least "
                f"{MIN_TOP_P_WITH_THINKING:g}. Raise it, or remove it."
            )
    return None


def takes_temperature(model: str, params: Params) -> bool:
    """Whether the temperature can be sent: a model that thinks takes only 1."""
    return params.temperature in {None, 1} or not thinks(model, params)


# --- schemas of answers ------------------------------------------------------------------------------------


def to_output_schema(schema: Any) -> Any:
    """Returns a schema in the form that structured outputs take.

    Its objects allow only the properties that they name, and limits become a part of the description, as the
    service's own library does it. Parts that are combined with `allOf` stay as they are: closed, they would
    exclude each other.
    """
    if isinstance(schema, list):
        return [to_output_schema(part) for part in schema]
    if not isinstance(schema, dict) or "allOf" in schema:
        return schema
    limits = {name: part for name, part in schema.items() if _is_limit(name, part)}
    result = {name: _convert_part(name, part) for name, part in schema.items() if name not in limits}
    if isinstance(schema.get("properties"), dict):
        result.setdefault("additionalProperties", False)
    if limits:
        words = "{" + ", ".join(f"{name}: {limit}" for name, limit in limits.items()) + "}"
        description = schema.get("description")
        result["description"] = f"{description}\n\n{words}" if description else words
    return result


def _is_limit(name: str, part: Any) -> bool:
    return name in _LIMITS or (name == "minItems" and part not in (0, 1))


def _convert_part(name: str, part: Any) -> Any:
    if name in _SCHEMA_MAPS and isinstance(part, dict):
        return {key: to_output_schema(schema) for key, schema in part.items()}
    return to_output_schema(part) if name in _SCHEMAS else part
