"""The parameters of models: how they are written, and which values they take. Pure.

`temperature`, `seed` and `max_tokens` have fields and flags of their own. All others are in `PARAMETERS`:
fields of targets.yaml, words `NAME=VALUE` of `--param`, entries of `params` in Python and in a case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final

from msgspec.structs import replace

from proctor.env_substitution import names_in
from proctor.errors import UsageError, suggestion
from proctor.model import Params
from proctor.safe_text import truncate
from proctor.validation import FieldSchema, NumberLimit, quote_value

MAX_STOPS: Final = 16
_MAX_TEXT: Final = 120
"""Maximum length of a value that people read."""
MAX_DEPTH: Final = 64
"""The maximum number of objects and lists of `extra_body` inside each other."""
PARAMETERS: Final[Mapping[str, FieldSchema]] = {
    "top_p": {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 1,
        "description": "Samples from the most likely tokens whose probabilities add up to this value.",
    },
    "top_k": {
        "type": "integer",
        "minimum": 1,
        "description": "Samples from this number of most likely tokens.",
    },
    "stop": {
        "type": "array",
        "items": {"type": "string", "pattern": r"[\s\S]"},
        "minItems": 1,
        "maxItems": MAX_STOPS,
        "description": "The texts that end an answer.",
    },
    "presence_penalty": {
        "type": "number",
        "minimum": -2,
        "maximum": 2,
        "description": "A value above 0 makes tokens less likely once they have occurred.",
    },
    "frequency_penalty": {
        "type": "number",
        "minimum": -2,
        "maximum": 2,
        "description": "A value above 0 makes tokens less likely the more often they have occurred.",
    },
    "reasoning_effort": {
        "type": "string",
        "pattern": r"^[a-z]+$",
        "description": "How long the model thinks: a value of its service, such as low, medium or high.",
    },
    "thinking_budget": {
        "type": "integer",
        "minimum": 0,
        "description": "Maximum thinking tokens; 0 turns thinking off if the service allows it.",
    },
    "verbosity": {
        "type": "string",
        "pattern": r"^[a-z]+$",
        "description": "How long answers are: a value of its service, such as low, medium or high.",
    },
    "service_tier": {
        "type": "string",
        "pattern": r"^[!-~]+$",
        "description": "The service tier, such as flex or priority.",
    },
    "logprobs": {
        "type": "integer",
        "minimum": 0,
        "maximum": 20,
        "description": "Returns the log-probabilities of the answer's tokens, and of this number of most "
        "likely tokens.",
    },
    "prompt_cache": {
        "type": "boolean",
        "description": "Marks the beginning of each prompt for caching by the service.",
    },
    "stream": {
        "type": "boolean",
        "description": "Streams answers, so that the time to the first token is measured.",
    },
    "api_format": {
        "enum": ["chat", "responses"],
        "description": "The OpenAI API to use: chat completions or responses.",
    },
    "extra_body": {
        "type": "object",
        "description": "Fields that are added unchanged to the body of each request.",
    },
    "headers": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "Headers that are added to each request. Write secrets only as ${{ NAME }}.",
    },
}
"""The parameters besides temperature, seed and maximum tokens, each with the JSON Schema of its value."""
UNIVERSAL_PARAMETERS: Final = frozenset({"extra_body", "headers"})
"""The parameters of every kind with an address."""
RESPONSES_PARAMETERS: Final = UNIVERSAL_PARAMETERS | {
    *("top_p", "reasoning_effort", "verbosity", "service_tier", "logprobs", "stream", "api_format")
}
"""The parameters of OpenAI's Responses API, for kinds that take `api_format`."""
CASE_PARAMETERS: Final = frozenset(
    {"temperature", "seed", "max_tokens", *PARAMETERS} - {"stream", "api_format", "headers", "prompt_cache"}
)
"""The parameters that a case may set for itself."""
VISITOR_PARAMETERS: Final = frozenset(PARAMETERS) - UNIVERSAL_PARAMETERS
"""The parameters that may be typed into a page: none that adds anything to a request unseen, or names a
variable of the server."""
PLAIN_PARAMETERS: Final[Mapping[str, FieldSchema]] = {
    "temperature": {"type": "number", "minimum": 0},
    "seed": {"type": "integer"},
    "max_tokens": {"type": "integer", "minimum": 1},
}
"""The parameters of every model, which have flags and fields of their own."""
_NESTED: Final = ("extra_body", "headers")
_RESERVED_FIELDS: Final = frozenset({"messages", "input", "contents", "stream"})
"""Fields of a body that `extra_body` may not replace, as the case decides them."""
_RESERVED_HEADERS: Final = frozenset({"content-type", "content-length", "host", "transfer-encoding"})
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
SECRET_HEADER: Final = re.compile(
    r"authorization|cookie|(^|[-_])(api-?key|key|token|secret|password|passwd|credentials?|signature)($|[-_])",
    re.IGNORECASE,
)
"""Matches the names of headers that hold secrets."""


def case_fields() -> dict[str, FieldSchema]:
    """Returns the parameters that a case may set for itself, each with the JSON Schema of its value."""
    schemas = {**PLAIN_PARAMETERS, **PARAMETERS}
    return {name: schemas[name] for name in schemas if name in CASE_PARAMETERS}


# --- values ------------------------------------------------------------------------------------------------


def check_parameter(name: str, value: Any) -> Any:
    """Returns the value of a parameter as `Params` has it; a single text counts as a list of `stop`.

    Raises:
        UsageError: the value is not valid; the message starts with its name.
    """
    schema = PARAMETERS.get(name) or PLAIN_PARAMETERS[name]
    if name == "stop" and isinstance(value, str):
        value = [value]
    if not _fits(value, schema):
        raise UsageError(f"`{name}` is {quote_value(value)}; it must be {_describe(schema)}.")
    if name == "headers":
        _check_headers(value)
    if name == "extra_body":
        _check_body(value)
    return tuple(value) if name == "stop" else value


def check_parameters(values: Mapping[str, Any], allowed: Iterable[str]) -> dict[str, Any]:
    """Returns parameters by their names, with their values checked.

    Args:
        values: the values by names.
        allowed: the names that are known here.

    Raises:
        UsageError: a name is unknown, or a value is not valid.
    """
    names = sorted(allowed)
    for name in values:
        if name not in names:
            raise UsageError(
                f"There is no parameter {name[:60]!r}. {suggestion(name[:60], names)} For a field that "
                f"Proctor does not know, use `extra_body.NAME`."
            )
    return {name: check_parameter(name, value) for name, value in values.items()}


def _fits(value: Any, schema: FieldSchema) -> bool:
    """Returns whether a value has the type of a schema and is within its limits."""
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema["type"]
    if kind in {"number", "integer"}:
        return _is_number(value, schema)
    if kind == "string":
        return isinstance(value, str) and _is_utf8(value) and _matches(value, schema.get("pattern", ""))
    if kind == "array":
        is_list = isinstance(value, list | tuple) and 1 <= len(value) <= schema["maxItems"]
        return is_list and all(_fits(item, schema["items"]) for item in value)
    if kind == "object":
        items = schema.get("additionalProperties")
        is_object = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
        return is_object and (items is None or all(_fits(item, items) for item in value.values()))
    return isinstance(value, bool)


def _matches(text: str, pattern: str) -> bool:
    """Returns whether a text matches as in JSON Schema, where `$` is the end and never before a line end."""
    return re.search(pattern.replace("$", r"\Z"), text) is not None


def _is_utf8(text: str) -> bool:
    """Returns whether a text can be written in UTF-8: arguments of programs may be other bytes."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _is_number(value: Any, schema: FieldSchema) -> bool:
    whole = schema["type"] == "integer"
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return False
    if not (_is_wire_integer(value) if isinstance(value, int) else isfinite(value)):
        return False
    limit = NumberLimit(
        "", schema.get("minimum"), schema.get("exclusiveMinimum"), schema.get("maximum"), is_whole=whole
    )
    return limit.allows(value)


def _describe(schema: FieldSchema) -> str:
    """Returns what a value must be, as the end of a sentence."""
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    if schema["type"] in {"number", "integer"}:
        limits = [
            f"{words} {schema[key]}"
            for key, words in (("minimum", "at least"), ("exclusiveMinimum", "above"), ("maximum", "at most"))
            if key in schema
        ]
        return f"a {'whole ' if schema['type'] == 'integer' else ''}number {' and '.join(limits)}".rstrip()
    if schema["type"] == "array":
        return f"a list of 1 to {schema['maxItems']} texts"
    if schema["type"] == "string":
        return "a word in lower case" if "a-z" in schema["pattern"] else "a word"
    return "true or false" if schema["type"] == "boolean" else "an object of names and values"


def _check_body(body: Mapping[str, Any]) -> None:
    if reserved := sorted(_RESERVED_FIELDS & body.keys()):
        raise UsageError(f"`extra_body` cannot contain `{reserved[0]}`, because each case sets it.")
    parts: list[tuple[Any, int]] = [(body, 1)]
    while parts:
        part, depth = parts.pop()
        if depth > MAX_DEPTH:
            raise UsageError(f"`extra_body` nests more than {MAX_DEPTH} objects and lists.")
        if isinstance(part, Mapping):
            parts += [(item, depth + 1) for pair in part.items() for item in pair]
        elif isinstance(part, list | tuple):
            parts += [(item, depth + 1) for item in part]
        elif not _is_json(part):
            raise UsageError(f"`extra_body` has {quote_value(part)}, which JSON cannot express.")


def _is_json(value: Any) -> bool:
    """Returns whether a value that is no object and no list can be sent as JSON."""
    if isinstance(value, str):
        return _is_utf8(value)
    if isinstance(value, float):
        return isfinite(value)
    return value is None or (isinstance(value, int) and _is_wire_integer(value))


def _is_wire_integer(value: int) -> bool:
    """Returns whether programs that count with 64 bits can read an integer."""
    return -(2**63) <= value < 2**64


def _check_headers(headers: Mapping[str, str]) -> None:
    names: dict[str, str] = {}
    for name, value in headers.items():
        if (other := names.setdefault(name.lower(), name)) != name:
            raise UsageError(f"`headers` has both `{other}` and `{name}`, which are the same header.")
        if not _HEADER_NAME.fullmatch(name) or not value.isprintable():
            raise UsageError(f"`headers` has {name[:60]!r}, which cannot be sent as a header.")
        if name.lower() in _RESERVED_HEADERS:
            raise UsageError(f"`headers` cannot contain `{name}`, because each request sets it.")
        if SECRET_HEADER.search(name) and not names_in(value):
            raise UsageError(
                f"The header `{name}` must name a variable, as in ${{{{ MY_KEY }}}}: keys in files and "
                f"commands can leak."
            )


# --- the command line --------------------------------------------------------------------------------------


def parse_parameters(words: Iterable[str]) -> dict[str, Any]:
    """Parses words `NAME=VALUE`, also `extra_body.NAME=VALUE` and `headers.NAME=VALUE`.

    A value is JSON where its parameter is no text.

    Raises:
        UsageError: a word has another form, names no parameter, or its value is not valid.
    """
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise UsageError(f"--param {word[:60]!r} must have the form NAME=VALUE, such as top_p=0.9.")
        if name in PLAIN_PARAMETERS:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"--param {word[:60]!r}: write {flag} {text or 'N'}.")
        group, dot, field = name.partition(".")
        if dot and group in _NESTED:
            value = text if group == "headers" else _parse_json(text, text)
            values[group] = {**check_parameter(group, values.get(group, {})), field: value}
        elif _is_text(name):
            values[name] = text
        elif name == "stop":
            values[name] = _parse_stops(text)
        else:
            values[name] = _parse_json(text, text)
    return check_parameters(values, PARAMETERS)


def format_parameters(params: Params) -> tuple[str, ...]:
    """Returns the words for `parse_parameters` that set a target's further parameters."""
    return format_words(params.further)


def format_words(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the words for `parse_parameters` that give parameters these values."""
    return tuple(
        f"{name}={value}"
        if isinstance(value, str) and _is_text(name)
        else f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in values.items()
    )


def _is_text(name: str) -> bool:
    """Returns whether the value of a parameter is a text, which its word has without quotes."""
    schema = PARAMETERS.get(name, {"type": "string"})
    return "enum" in schema or schema["type"] == "string"


def _parse_stops(text: str) -> Any:
    """Returns the list or the text that JSON has, else the word as it is: `5` is a text too."""
    value = _parse_json(text, text)
    return value if isinstance(value, str | list) else text


def _parse_json(text: str, default: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return default


# --- reports -----------------------------------------------------------------------------------------------


def describe_parameters(params: Params, *, with_defaults: bool = False) -> str:
    """Returns parameters for people to read: `temperature 1, reasoning_effort low`.

    Headers are there by name only.

    Args:
        params: the parameters.
        with_defaults: also those that are set by default, which are temperature and seed.
    """
    values = _set_values(params) if with_defaults else changed_parameters(params)
    if params.headers:
        values["headers"] = " and ".join(values["headers"])
    return ", ".join(f"{name} {_describe_value(value)}" for name, value in values.items())


def changed_parameters(params: Params) -> dict[str, Any]:
    """Returns the parameters that are not the defaults: None where a default is unset, headers by name."""
    defaults, values = Params(), {name: getattr(params, name) for name in Params.__struct_fields__}
    changes = {name: value for name, value in values.items() if value != getattr(defaults, name)}
    return changes | ({"headers": tuple(sorted(params.headers))} if params.headers else {})


def describe_changes(before: Params, after: Params) -> tuple[str, ...]:
    """Returns each parameter that differs, such as `temperature 0 → 1`; headers by name only."""
    values = [_flat_values(params) for params in (before, after)]
    names = [name for name in values[0] | values[1] if values[0].get(name) != values[1].get(name)]
    return tuple(
        truncate(f"{name} (value not shown)", _MAX_TEXT)
        if name.startswith("headers.")
        else f"{truncate(name, _MAX_TEXT)} {' → '.join(_describe_value(side.get(name)) for side in values)}"
        for name in names
    )


def _set_values(params: Params) -> dict[str, Any]:
    """Returns the parameters that are set, headers by name."""
    values = {name: getattr(params, name) for name in PLAIN_PARAMETERS}
    values = {name: value for name, value in values.items() if value is not None} | params.further
    return values | ({"headers": tuple(sorted(params.headers))} if params.headers else {})


def _flat_values(params: Params) -> dict[str, Any]:
    """Returns all parameters, None if unset, with each field of `extra_body` and `headers` on its own."""
    values = _set_values(params)
    names = (name for name in Params.__struct_fields__ if name not in _NESTED)
    fields = {f"{group}.{name}": value for group in _NESTED for name, value in getattr(params, group).items()}
    return {name: values.get(name) for name in names} | fields


def _describe_value(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return truncate(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _MAX_TEXT)


# --- targets -----------------------------------------------------------------------------------------------


def merge_parameters(own: Params, params: Params) -> Params:
    """Returns a target's own parameters, replaced by those that the user set.

    Of `extra_body` and `headers` only what has the same name is replaced.
    """
    defaults = Params()
    changes = {
        name: getattr(own, name)
        for name in Params.__struct_fields__
        if getattr(params, name) == getattr(defaults, name)
    }
    names = {name.lower() for name in params.headers}
    headers = {name: value for name, value in own.headers.items() if name.lower() not in names}
    changes["headers"] = {**headers, **params.headers}
    changes["extra_body"] = merge_objects(own.extra_body, params.extra_body)
    return replace(params, **changes)


def merge_objects(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an object with changes to its fields; objects in both are merged, anything else is replaced."""
    merged = {**base, **changes}
    for name in base.keys() & changes.keys():
        if isinstance(base[name], dict) and isinstance(changes[name], dict):
            merged[name] = merge_objects(base[name], changes[name])
    return merged
