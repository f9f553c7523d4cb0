"""The schema of dialect proctor: strict copies of the records, their JSON Schema, and its errors.

The records themselves ignore unknown fields, as a store must. A strict copy has the same fields and rejects
everything else. It checks a line at once; only a rejected line is checked again field by field, so that every
error is described.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Meta, Struct, ValidationError
from msgspec.structs import fields

from proctor.dialects.shared.content_parts import CONTENT_PART_SCHEMA
from proctor.dialects.shared.jsonl import HOLDOUT_FIELD
from proctor.errors import suggestion
from proctor.model import (
    Assertion,
    Attachment,
    Case,
    Hook,
    Message,
    PassRule,
    Record,
    Repository,
    ResponseFormat,
    SplitRule,
    Suite,
    SuiteDefaults,
    Tool,
    ToolCall,
)
from proctor.parameters import case_fields
from proctor.validation import ProblemLog, json_type, quote_value

VERSION: Final = 1
SCHEMA_FIELD: Final = "$schema"
"""The field of a header in which editors look for the JSON Schema; it has no effect."""

HEADER_FIELDS: Final = (
    *("name", "description", "declared_version", "pass_rule", "split_rule", "repeats_rule", "defaults"),
    *("notes", "suite_hash"),
)
"""The suite fields that a file contains; the others are set by a store."""
_NON_BLANK = Meta(min_length=1, pattern=r"\S")
_SHARE = Meta(ge=0, le=1)
_POSITIVE = Meta(gt=0)
_COUNT = Meta(ge=1)
_LIMITS: Final[dict[tuple[type[Record], str], Meta]] = {
    (Suite, "name"): _NON_BLANK,
    (Case, "id"): _NON_BLANK,
    (Case, "assertions"): Meta(min_length=1),
    (Case, "repeats"): _COUNT,
    (Message, "role"): _NON_BLANK,
    (ToolCall, "name"): _NON_BLANK,
    (Tool, "name"): _NON_BLANK,
    (Assertion, "grader"): _NON_BLANK,
    (Assertion, "weight"): Meta(ge=0),
    (Assertion, "required"): _SHARE,
    (Assertion, "pass_at"): _SHARE,
    (PassRule, "threshold"): _SHARE,
    (SplitRule, "ratio"): Meta(gt=0, lt=1),
    (SuiteDefaults, "concurrency"): _COUNT,
    (SuiteDefaults, "budget_usd"): _POSITIVE,
    (Hook, "timeout_s"): _POSITIVE,
    (Repository, "ancestor"): Meta(ge=0),
    (Repository, "depth"): _COUNT,
}
"""What a field must be, besides its type."""
_ABOUT: Final[dict[type[Record], dict[str, str]]] = {
    Suite: {
        "name": "The name of the suite.",
        "description": "What the suite is about.",
        "declared_version": "Your own version number of the suite.",
        "pass_rule": "When a case passes.",
        "split_rule": "Which cases belong to the holdout.",
        "repeats_rule": "How the verdicts of a case's trials are combined.",
        "defaults": "Defaults for running the suite; options of a command override them.",
        "notes": "Fields of another format that have no effect.",
        "suite_hash": "The hash under which the suite was published.",
    },
    Case: {
        "id": "The id of the case, unique in the suite.",
        "input": "The prompt. It can be missing if there are `vars` for the prompt of a run.",
        "expected": "A correct answer.",
        "criteria": "What a correct answer does; judges see it.",
        "assertions": "The checks of the answer.",
        "tags": "For selecting cases and for tables in reports.",
        "category": "For selecting cases and for tables in reports.",
        "metadata": "Your own data.",
        "repeats": "How many trials the case has.",
        "pass_rule": "When the case passes; replaces the rule of the suite.",
        "target": "The target to run instead of the suite's target.",
        "only_targets": "The only targets that run the case.",
        "workspace": "The workspace in which an agent runs.",
        "form": "What the request contains besides the messages.",
        "variables": "The environment variables that the case uses as ${{ NAME }}.",
        "vars": "The values of {{ names }} in the prompt of a run.",
        "prefix": "Text before the prompt of a run.",
        "suffix": "Text after the prompt of a run.",
        "prompts": "The prompts of the suite to run the case with; empty if the case has its own prompt in "
        "`input`.",
        "notes": "Fields of another format that have no effect.",
    },
    Message: {
        "role": "Who wrote the message.",
        "content": "The content: a text, or a list of OpenAI content parts.",
        "name": "The name of the speaker.",
        "tool_calls": "The tool calls of the assistant.",
        "parts": "Texts, files, images, audio and videos, instead of `content`.",
    },
    Assertion: {
        "grader": "The name of the grader.",
        "params": "The parameters of the grader.",
        "weight": "The weight of the assertion.",
        "required": "The score below which the case fails.",
        "negated": "Whether the result is inverted.",
        "pass_at": "The lowest score that passes.",
        "label": "Its name in results.",
        "on": "What is graded: the answer, or the model's reasoning.",
    },
    ResponseFormat: {
        "choices": "Answers to choose from. The target reports how likely each one is instead of writing "
        "an answer.",
        "choice_delimiter": "Text before each choice; a space by default.",
    },
    Attachment: {
        "path": "The path of the file, relative to the folder of the suite.",
        "text": "Its content as text.",
        "data": "Its content as base64.",
    },
    PassRule: {"threshold": "The weighted mean score that passes. Without it, every assertion must pass."},
    SplitRule: {"ratio": "The share of cases to hold out.", "seed": "The seed of the division."},
    SuiteDefaults: {
        "targets": "The targets to run.",
        "prompts": "The prompts to use, each in its own run.",
        "concurrency": "Maximum concurrent requests.",
        "budget_usd": "Maximum cost of a run, in US dollars.",
    },
    Hook: {
        "command": "The command and its arguments.",
        "timeout_s": "Time limit in seconds.",
        "cwd": "The working directory of the command.",
    },
}
"""What a field means, for editors."""
_WRITTEN_TYPES: Final[dict[tuple[type[Record], str], Any]] = {
    (Message, "content"): str | list[Annotated[dict[str, Any], Meta(extra_json_schema=CONTENT_PART_SCHEMA)]],
}
"""Fields that a file may give in another form than the record has."""
_UNWRITTEN_FIELDS: Final = frozenset({(Case, "problems")})
"""Fields that no file contains."""
_OPTIONAL_FIELDS: Final[dict[tuple[type[Record], str], Any]] = {(Case, "input"): ()}
"""Fields that need not be given although they have no default, each with its default in a file."""
_REQUIRED_FIELDS: Final = frozenset({(Case, "assertions")})
"""Fields that must be given although they have a default."""


# --- strict copies -----------------------------------------------------------------------------------------


@cache
def _strict_copy(noun: type[Record]) -> type[Struct]:
    written_fields = tuple(name for name in noun.__struct_fields__ if (noun, name) not in _UNWRITTEN_FIELDS)
    about = (noun.__doc__ or "").partition("\n\n")[0]
    return _define_strict(noun.__name__, about, _strict_fields(noun, written_fields))


def _define_strict(name: str, about: str | None, struct_fields: list[tuple[Any, ...]]) -> type[Struct]:
    return msgspec.defstruct(
        name,
        struct_fields,
        rename={"from_": "from", "schema_": SCHEMA_FIELD},
        namespace={"__doc__": about},
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
        gc=False,
    )


def _strict_fields(noun: type[Record], names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    struct_fields: list[tuple[Any, ...]] = []
    for field_info in fields(noun):
        if field_info.name not in names:
            continue
        written_type = _WRITTEN_TYPES.get((noun, field_info.name), field_info.type)
        kind = _strict_type(written_type, _LIMITS.get((noun, field_info.name)))
        about = _ABOUT.get(noun, {}).get(field_info.name)
        if about is not None:
            kind = Annotated[kind, Meta(description=about)]
        default = field_info.default
        if default is NODEFAULT and field_info.default_factory is not NODEFAULT:
            default = field_info.default_factory()
        default = _OPTIONAL_FIELDS.get((noun, field_info.name), default)
        if default is NODEFAULT or (noun, field_info.name) in _REQUIRED_FIELDS:
            struct_fields.append((field_info.name, kind))
        else:
            struct_fields.append((field_info.name, kind, default))
    return struct_fields


def _strict_type(kind: Any, limit: Meta | None = None) -> Any:
    """Returns a field's type with strict copies of its records, and its limit, if any."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        arguments = [
            _strict_type(argument, None if argument is type(None) else limit) for argument in get_args(kind)
        ]
        return Union[tuple(arguments)]  # noqa: UP007  # made at run time
    if origin is tuple:
        kind = tuple[_strict_type(get_args(kind)[0]), ...]  # type: ignore[misc]  # made at run time
    elif isinstance(kind, type) and issubclass(kind, Record):
        kind = _strict_copy(kind)
    return kind if limit is None else Annotated[kind, limit]


@cache
def _header_type() -> type[Struct]:
    about = "The first line of a suite file: settings for all of its cases."
    share = bool | Annotated[float, Meta(ge=0, lt=1)] | None
    own = [
        ("proctor", Literal[1]),
        ("schema_", str | None, None),
        ("from_", str | None, None),
        (HOLDOUT_FIELD, share, None),
    ]
    return _define_strict("Header", about, [*own, *_strict_fields(Suite, HEADER_FIELDS)])


def suite_schema() -> dict[str, Any]:
    """Returns the JSON Schema (draft 2020-12) of one line of a suite."""
    (header, case), parts = msgspec.json.schema_components(
        (_header_type(), _strict_copy(Case)), ref_template="#/$defs/{name}"
    )
    params = parts["ResponseFormat"]["properties"]["params"]
    params |= {"additionalProperties": False, "properties": case_fields()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of a suite in the format proctor",
        "description": "The first line of a file is a header, with `proctor`; each other line is a case.",
        "if": {"type": "object", "required": ["proctor"]},
        "then": header,
        "else": case,
        "$defs": {name: parts[name] for name in sorted(parts)},
    }


# --- what is wrong -----------------------------------------------------------------------------------------


def check_case(row: dict[str, Any], notes: ProblemLog) -> None:
    """Notes everything in a row that is invalid in a case."""
    _check(row, _strict_copy(Case), "Case", notes)


def check_header(row: dict[str, Any], notes: ProblemLog) -> None:
    """Notes everything in a row that is invalid in a header."""
    _check(row, _header_type(), "Header", notes)


def _check(row: dict[str, Any], twin: type[Struct], name: str, notes: ProblemLog) -> None:
    try:
        msgspec.convert(row, twin)
    except ValidationError as error:
        parts = _schema_parts()
        _SchemaErrors(parts, notes).check(row, parts[name], "")
        if not notes.has_errors:  # a rule that only msgspec checks
            notes.error("wrong-type", f"{error}.")


@cache
def _schema_parts() -> dict[str, Any]:
    parts: dict[str, Any] = suite_schema()["$defs"]
    return parts


_TYPE_CHECKS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "string": (lambda value: isinstance(value, str), "text"),
    "boolean": (lambda value: isinstance(value, bool), "true or false"),
    "integer": (lambda value: type(value) is int, "a whole number"),
    "number": (lambda value: type(value) in (int, float), "a number"),
    "array": (lambda value: isinstance(value, list), "a list"),
    "object": (lambda value: isinstance(value, dict), "an object"),
    "null": (lambda value: value is None, "null"),
}
_BOUND_CHECKS: Final[dict[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "minimum": (lambda value, bound: value >= bound, "at least"),
    "maximum": (lambda value, bound: value <= bound, "at most"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "above"),
    "exclusiveMaximum": (lambda value, bound: value < bound, "below"),
}


class _SchemaErrors:
    """Compares a value with its schema, and notes each difference."""

    def __init__(self, parts: dict[str, Any], notes: ProblemLog) -> None:
        self._parts = parts
        self._notes = notes

    def check(self, value: Any, schema: dict[str, Any], place: str) -> None:
        choices = [self._resolve(choice) for choice in schema.get("anyOf", (schema,))]
        fitting = [
            choice for choice in choices if "type" not in choice or _TYPE_CHECKS[choice["type"]][0](value)
        ]
        if not fitting:
            expected = " or ".join(_TYPE_CHECKS[choice["type"]][1] for choice in choices)
            actual = "null" if value is None else f"{quote_value(value)}, {json_type(value)}"
            self._note_error("wrong-type", place, f"is {actual}; it must be {expected}.")
            return
        (kind,) = fitting
        if "enum" in kind:
            self._check_choice(value, kind["enum"], place)
        elif isinstance(value, str):
            self._check_text(value, kind, place)
        elif isinstance(value, list) and "items" in kind:
            if len(value) < kind.get("minItems", 0):
                self._note_error("missing-field", place, "is an empty list; it must have at least one item.")
            for number, item in enumerate(value):
                self.check(item, kind["items"], f"{place}[{number}]")
        elif isinstance(value, dict) and "properties" in kind:
            self._check_object(value, kind, place)
        else:
            for bound, (holds, words) in _BOUND_CHECKS.items():
                if bound in kind and not holds(value, kind[bound]):
                    self._note_error("out-of-range", place, f"is {value}; it must be {words} {kind[bound]}.")

    def _resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        return self._parts[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def _check_choice(self, value: Any, allowed: list[Any], place: str) -> None:
        if value in allowed and not isinstance(value, bool):
            return
        if isinstance(value, str) and isinstance(allowed[0], str):
            self._note_error(
                "unknown-value", place, f"is {quote_value(value)}. {suggestion(value[:60], allowed)}"
            )
        else:
            choices = " or ".join(map(quote_value, allowed))
            self._note_error("unknown-value", place, f"is {quote_value(value)}; it must be {choices}.")

    def _check_text(self, value: str, kind: dict[str, Any], place: str) -> None:
        if kind.get("minLength") and not value.strip():
            self._note_error("missing-field", place, "is blank; it must be text.")
        if kind.get("contentEncoding") == "base64" and not _is_base64(value):
            self._note_error("wrong-type", place, "is not base64; encode the bytes of the file as base64.")

    def _check_object(self, value: dict[str, Any], kind: dict[str, Any], place: str) -> None:
        prefix = f"{place}." if place else ""
        properties = kind["properties"]
        for name in kind.get("required", ()):
            if name not in value:
                expected = self._describe_expected(properties[name])
                self._note_error("missing-field", prefix + name, f"is missing; it must be {expected}.")
        for name, item in value.items():
            if name in properties:
                self.check(item, properties[name], prefix + name)
            else:
                field = prefix + name
                hint = suggestion(name[:60], list(properties))
                self._notes.error("unknown-field", f"Unknown field {quote_value(field)}. {hint}", field)

    def _describe_expected(self, schema: dict[str, Any]) -> str:
        kind = self._resolve(schema)
        if "enum" in kind:
            return " or ".join(map(quote_value, kind["enum"]))
        return _TYPE_CHECKS[kind["type"]][1]

    def _note_error(self, code: str, place: str, what: str) -> None:
        self._notes.error(code, f"`{place}` {what}", place)


def _is_base64(text: str) -> bool:
    try:
        a2b_base64(text.encode("utf-8"), strict_mode=True)
    except (Base64Error, ValueError):
        return False
    return True
