"""JSON Schemas (draft 2020-12) of fields: the words in which tables of fields say what they may hold. Pure.

In: tables of names and schemas, and of `FieldSpec`s. Out: schemas of objects.

Editors know different drafts, so only keywords count on here that mean the same from draft 7 on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from proctor.validation import FieldReader, FieldSchema, FieldSpec, NumberLimit

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
NON_BLANK: Final = r"\S"
REFERENCE_PATTERN: Final = r"\$\{\{"
"""Matches a text with a reference to an environment variable, which may stand for a number or boolean."""

Fields = Mapping[str, FieldSchema]
"""The fields of an object by their names."""
F = TypeVar("F", bound=Callable[..., Any])


# --- values ------------------------------------------------------------------------------------------------


def anything(about: str = "") -> dict[str, Any]:
    """Returns the schema of any value."""
    return {"description": about} if about else {}


def of_type(kind: str, about: str = "", **rules: Any) -> dict[str, Any]:
    """Returns the schema of a value of a type of JSON, with further keywords."""
    return {"type": kind, **rules, **anything(about)}


def text(about: str = "", **rules: Any) -> dict[str, Any]:
    """Returns the schema of a text that may be empty."""
    return of_type("string", about, **rules)


def words(about: str = "") -> dict[str, Any]:
    """Returns the schema of a text that is not blank."""
    return text(about, pattern=NON_BLANK)


def choice(names: Iterable[str], about: str = "") -> dict[str, Any]:
    """Returns the schema of one of several texts."""
    return {"enum": list(names), **anything(about)}


def list_of(items: FieldSchema, about: str = "", **rules: Any) -> dict[str, Any]:
    """Returns the schema of a list."""
    return of_type("array", about, items=items, **rules)


def either(*schemas: FieldSchema, about: str = "") -> dict[str, Any]:
    """Returns the schema of a value that fits one of several."""
    return {"anyOf": list(schemas), **anything(about)}


def text_or(schema: FieldSchema, pattern: str = NON_BLANK, about: str = "") -> dict[str, Any]:
    """Returns the schema of a text, or else of something else; unlike `either`, errors say what is wrong."""
    return {"if": {"type": "string"}, "then": {"pattern": pattern}, "else": schema, **anything(about)}


def ref(name: str, about: str = "") -> dict[str, Any]:
    """Returns the schema of a value that is defined once under `$defs`."""
    return {"$ref": f"#/$defs/{name}", **anything(about)}


ANYTHING: Final[FieldSchema] = {}
"""The schema of any value."""
UNUSED: Final[FieldSchema] = {"description": "Has no effect in Proctor.", "deprecated": True}
"""The schema of a known field that has no effect."""
REFUSED: Final[FieldSchema] = {"not": {}}
"""The schema of a known field that is an error whatever it holds."""


# --- objects -----------------------------------------------------------------------------------------------


def object_of(
    fields: Fields,
    required: Iterable[str] = (),
    *,
    closed: bool = True,
    nullable: bool = False,
    not_null: Iterable[str] = (),
    **rules: Any,
) -> dict[str, Any]:
    """Returns the schema of an object.

    Args:
        fields: its fields.
        required: those that it must have.
        closed: whether it may have no others.
        nullable: whether null is the same as no field, where a field is not required.
        not_null: further fields that may not be null.
        rules: further keywords.
    """
    needed = list(required)
    filled = {*needed, *not_null}
    properties = {
        name: with_null(schema) if nullable and name not in filled else dict(schema)
        for name, schema in fields.items()
        if schema is not UNUSED and (schema is not REFUSED or not closed)
    }
    unused = [re.escape(name) for name, schema in fields.items() if schema is UNUSED]
    return {
        "type": "object",
        "properties": properties,
        # Editors do not offer what stands here.
        **({"patternProperties": {f"^({'|'.join(unused)})$": UNUSED}} if unused else {}),
        **({"required": needed} if needed else {}),
        **({"additionalProperties": False} if closed else {}),
        **rules,
    }


def with_null(schema: FieldSchema) -> dict[str, Any]:
    """Returns a schema that null fits as well."""
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "$ref" in schema:
        about = {name: value for name, value in schema.items() if name != "$ref"}
        return {"anyOf": [{"$ref": schema["$ref"]}, {"type": "null"}], **about}
    if "else" in schema:
        return {**schema, "else": with_null(schema["else"])}
    if "type" not in schema:
        return dict(schema)
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*kinds, *({"null"}.difference(kinds))]}


def with_references(schema: Any) -> Any:
    """Returns a schema in which a text with `${{ NAME }}` may stand for each number, boolean and choice."""
    if not isinstance(schema, dict):
        return schema
    inner = dict(schema)
    if "properties" in inner:
        inner["properties"] = {name: with_references(field) for name, field in inner["properties"].items()}
    if "if" in schema and schema["if"] == {"type": "string"}:
        return {**inner, "else": with_references(inner["else"])}
    for keyword in {"items", "additionalProperties", "then", "else"}.intersection(inner):
        inner[keyword] = with_references(inner[keyword])
    for keyword in {"anyOf", "allOf"}.intersection(inner):
        inner[keyword] = [with_references(part) for part in inner[keyword]]
    kinds = inner.get("type", ())
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if {"integer", "number", "boolean"}.intersection(kinds) and "string" not in kinds:
        return {**inner, "type": [*kinds, "string"], "pattern": REFERENCE_PATTERN}
    if "enum" in inner:
        about = {name: value for name, value in inner.items() if name != "enum"}
        return either({"enum": inner["enum"]}, text(pattern=REFERENCE_PATTERN)) | about
    return inner


# --- fields of a `FieldSpec` -------------------------------------------------------------------------------


def accepts(schema: FieldSchema | Callable[..., FieldSchema], *, required: bool = True) -> Callable[[F], F]:
    """Says what a function that reads a field accepts.

    Args:
        schema: the schema of the value, or a function that makes it of the arguments of the `FieldSpec`.
        required: whether the function reports an absent field.
    """

    def mark(function: F) -> F:
        function.schema, function.reports_absence = schema, required  # type: ignore[attr-defined]
        return function

    return mark


def limit_rules(limit: NumberLimit) -> dict[str, Any]:
    """Returns the schema of a number within a range."""
    bounds: dict[str, Any] = {
        "minimum": limit.minimum,
        "exclusiveMinimum": limit.exclusive_minimum,
        "maximum": limit.maximum,
    }
    kind = "integer" if limit.is_whole else "number"
    return of_type(kind, **{name: bound for name, bound in bounds.items() if bound is not None})


_TYPE_NAMES: Final[dict[type, str]] = {dict: "object", list: "array", str: "string"}
_GETTERS: Final[dict[Callable[..., Any], Callable[..., FieldSchema]]] = {
    FieldReader.text: text,
    FieldReader.required_text: words,
    FieldReader.non_blank_text: words,
    FieldReader.boolean: lambda *_default: of_type("boolean"),
    FieldReader.number: lambda: of_type("number"),
    FieldReader.integer: lambda least=0: of_type("integer", minimum=least),
    FieldReader.limited_number: lambda limit, _code="": limit_rules(limit),
    FieldReader.choice: choice,
    FieldReader.texts: lambda: list_of(text()),
    FieldReader.instance: lambda kind: of_type(_TYPE_NAMES[kind]),
    FieldReader.pop: anything,
}
"""The schema of what each getter accepts, by the arguments of the `FieldSpec`."""


def spec_schema(spec: FieldSpec) -> dict[str, Any]:
    """Returns the schema of a field of a table."""
    schema = getattr(spec.read, "schema", None)
    if schema is None:
        schema = _GETTERS[spec.read](*spec.args)
    elif callable(schema):
        schema = schema(*spec.args)
    return {**schema, **anything(spec.about)}


def spec_fields(table: Iterable[FieldSpec]) -> dict[str, FieldSchema]:
    """Returns the fields of a table."""
    return {spec.name: spec_schema(spec) for spec in table}


def required_names(table: Iterable[FieldSpec]) -> list[str]:
    """Returns the fields of a table that must be there."""
    return [spec.name for spec in table if spec.required and getattr(spec.read, "reports_absence", True)]
