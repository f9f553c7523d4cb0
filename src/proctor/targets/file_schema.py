"""The JSON Schema of targets.yaml, made of the fields of each kind of target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from proctor.field_schemas import (
    ANYTHING,
    DRAFT,
    REFERENCE_PATTERN,
    UNUSED,
    choice,
    either,
    object_of,
    ref,
    text,
    with_references,
)
from proctor.parameters import PARAMETERS as FURTHER_PARAMETERS
from proctor.targets import iter_kinds
from proctor.targets.file_kinds import AGENT_COMMANDS, DEFERRED_FIELDS, IGNORED_FIELDS
from proctor.targets.kind import MODEL_NAMES, FileFields, TargetKind
from proctor.targets.targets_file import COMMON_FIELDS, DESCRIPTION_FIELD, ROOT_FIELDS

_KIND_NAMES = ("provider", "kind")
"""The names of the field with the kind."""
_MEANS = (*_KIND_NAMES, "target", "use_target")
"""The fields of which an entry has one."""


def targets_schema() -> dict[str, Any]:
    """Returns the JSON Schema of a targets file; it knows the installed kinds."""
    kinds = [kind for kind in iter_kinds(installed=True) if kind.entry_fields is not None]
    root = {**ROOT_FIELDS, "targets": {**ROOT_FIELDS["targets"], "items": ref("target")}}
    provider = either(
        choice(name for kind in kinds for name in _provider_names(kind)),
        text(pattern=f"^({'|'.join(AGENT_COMMANDS)})(-|$)|{REFERENCE_PATTERN}"),
    )
    kind_fields = {name: {**COMMON_FIELDS[name], **provider} for name in _KIND_NAMES}
    rules = [
        *_kind_rules(kinds),
        {"if": {"required": ["use_target"]}, "then": _only({})},
        *_short_form_rules(kinds),
    ]
    definitions = _move_definitions(rules)
    target = {
        **object_of({**_shared_fields(), **kind_fields}, ("name",), closed=False),
        "oneOf": [{"required": [name]} for name in _MEANS],
        "allOf": [*rules, *_parameter_rules(kinds)],
    }
    return {
        "$schema": DRAFT,
        "title": "Targets for Proctor",
        **object_of(root, ("targets",)),
        "$defs": {"target": target, **definitions},
    }


def _move_definitions(rules: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Replaces the fields of rules by references, and returns what these refer to, by the fields' names.

    Most kinds have the same fields, which would be written once for each kind.
    """
    definitions: dict[str, Any] = {}
    for rule in rules:
        fields = rule["then"]["properties"]
        for name, schema in fields.items():
            if schema not in (ANYTHING, UNUSED) and definitions.setdefault(name, schema) == schema:
                fields[name] = ref(name)
    return definitions


def _shared_fields() -> dict[str, Any]:
    fields = {**dict.fromkeys(IGNORED_FIELDS, UNUSED), **COMMON_FIELDS}
    return {**_with_references(fields), DESCRIPTION_FIELD: {}}


def _with_references(fields: FileFields) -> dict[str, Any]:
    """Returns fields that may be references, except those in which they are substituted later."""
    return {
        name: schema if name in DEFERRED_FIELDS or schema is UNUSED else with_references(schema)
        for name, schema in fields.items()
    }


def _provider_names(kind: TargetKind) -> tuple[str, ...]:
    return (kind.name, *kind.provider_names)


def _only(fields: FileFields, required: Iterable[str] = ()) -> dict[str, Any]:
    """Returns the schema of an entry with these fields besides those of every entry."""
    shared = {name: schema if schema is UNUSED else ANYTHING for name, schema in _shared_fields().items()}
    names = tuple(required)
    rules: dict[str, Any] = {"anyOf": [{"required": [name]} for name in names]} if names else {}
    schema = object_of({**shared, **_with_references(fields)}, **rules)
    del schema["type"]
    return schema


def _kind_rules(kinds: Iterable[TargetKind]) -> list[dict[str, Any]]:
    """Returns which fields an entry has by its kind, once for all kinds with the same fields.

    Kinds that take any parameter have all here; `_parameter_rules` refuses those that they do not take.
    """
    groups: list[tuple[dict[str, Any], list[str]]] = []
    for kind in kinds:
        needed = MODEL_NAMES if kind.has_address else kind.required_fields
        schema = _only(_with_all_parameters(kind, kind.entry_fields or {}), needed)
        group = next((names for other, names in groups if other == schema), None)
        if group is None:
            groups.append((schema, list(_provider_names(kind))))
        else:
            group += _provider_names(kind)
    return [
        {
            "if": {"anyOf": [_kind_is_one_of(field, names) for field in _KIND_NAMES]},
            "then": schema,
        }
        for schema, names in groups
    ]


def _with_all_parameters(kind: TargetKind, fields: FileFields) -> FileFields:
    """Returns fields of a kind in a fixed order, with all parameters if it takes any."""
    own = {name: schema for name, schema in fields.items() if name not in FURTHER_PARAMETERS}
    return {**own, **FURTHER_PARAMETERS} if kind.all_params else own


def _kind_is_one_of(field: str, names: list[str]) -> dict[str, Any]:
    return {"properties": {field: {"enum": names}}, "required": [field]}


def _parameter_rules(kinds: Iterable[TargetKind]) -> list[dict[str, Any]]:
    """Returns which kinds do not take a parameter, once for all parameters that the same kinds lack."""
    groups: dict[tuple[str, ...], list[str]] = {}
    takers = [kind for kind in kinds if kind.all_params]
    for name in FURTHER_PARAMETERS:
        lacking = tuple(kind.name for kind in takers if name not in (kind.entry_fields or {}))
        if lacking:
            groups.setdefault(lacking, []).append(name)
    rules = []
    for lacking, parameters in groups.items():
        names = [name for kind in takers if kind.name in lacking for name in _provider_names(kind)]
        word: dict[str, Any] = text(pattern=f"^({'|'.join(lacking)})(:|$)")
        if "openai" in lacking:  # an unknown kind has its fields
            others = "|".join(kind.name for kind in takers if kind.name not in lacking)
            word = {"not": text(pattern=f"^({others})(:|$)")} if others else {}
        conditions = [_kind_is_one_of(field, names) for field in _KIND_NAMES]
        rules.append(
            {
                "if": {"anyOf": [*conditions, _short_form(word)]},
                "then": {"properties": dict.fromkeys(parameters, False)},
            }
        )
    return rules


def _short_form_rules(kinds: Iterable[TargetKind]) -> list[dict[str, Any]]:
    """Returns which fields may stand beside the short form; an unknown kind has those of `openai`."""
    groups: dict[tuple[str, ...], tuple[FileFields, list[str]]] = {}
    for kind in kinds:
        fields = _with_all_parameters(kind, kind.short_form_fields) if kind.short_form_fields else {}
        groups.setdefault(tuple(fields), (fields, []))[1].append(kind.name)
    usual = next(group for group in groups.values() if "openai" in group[1])
    others = [group for group in groups.values() if group is not usual]
    patterns = [f"^({'|'.join(names)})(:|$)" for _, names in others]
    every_other = text(pattern="|".join(patterns))
    return [
        *(
            {"if": _short_form(text(pattern=pattern)), "then": _only(fields)}
            for pattern, (fields, _) in zip(patterns, others, strict=True)
        ),
        {"if": _short_form({"not": every_other}), "then": _only(usual[0])},
    ]


def _short_form(word: dict[str, Any]) -> dict[str, Any]:
    return {"properties": {"target": word}, "required": ["target"]}
