"""The JSON Schema of suites of dialect agentv, made of the tables of fields in `read/`.

What depends on other files, on variables or on several tests is not in it: those are errors of the reader
only. A custom grader may have any name, so that an unknown `type` fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from proctor.dialects.agentv.read import assertions, messages, rubrics, suite, tests, v5, workspace
from proctor.dialects.agentv.read.assertions import AssertionType
from proctor.dialects.agentv.shared import PROSE_FIELDS
from proctor.dialects.agentv.syntax import TESTS_NAMES
from proctor.field_schemas import (
    ANYTHING,
    DRAFT,
    UNUSED,
    Fields,
    anything,
    choice,
    either,
    list_of,
    object_of,
    ref,
    required_names,
    spec_fields,
    text,
    text_or,
    with_references,
    words,
)
from proctor.validation import FieldSchema

_NOTE: Final[FieldSchema] = {"type": ["string", "null"]}
_PROSE: Final[Fields] = dict.fromkeys(PROSE_FIELDS, _NOTE)
_SCALAR: Final = {"type": ["string", "number", "boolean"]}
_OWN_TYPE: Final = r"^[^:.\s/]+$"
"""Matches what the name of a custom grader may be."""
_PREFIX: Final = "not-"


def suite_schema() -> dict[str, Any]:
    """Returns the JSON Schema of a suite in YAML or JSON, of version 4 or 5; `$defs/test` is one test."""
    definitions = {
        **_define_tests(),
        **_define_assertions(),
        **_define_messages(),
        **_define_workspaces(),
        **_define_version_5(),
    }
    fields = {
        **suite.SUITE_FIELDS,
        "tags": {**suite.SUITE_FIELDS["tags"], "type": ["array", "object"]},
        **_old_names(
            suite.SUITE_FIELDS, {"tests": TESTS_NAMES[1:], "assertions": tests.OLD_NAMES["assertions"]}
        ),
        **v5.TRANSLATED_FIELDS,
        **dict.fromkeys(suite.UNUSED_FIELDS, UNUSED),
        suite.SCHEMA_FIELD: anything("The JSON Schema of this file, for editors."),
    }
    version_5 = {"anyOf": [{"required": [name]} for name in v5.VERSION_5_FIELDS]}
    return {
        "$schema": DRAFT,
        "title": "A suite in the format agentv",
        **object_of(fields, nullable=True, not_null=(*TESTS_NAMES, "prompts", "evaluate_options")),
        "allOf": [
            {"anyOf": [{"required": [name]} for name in TESTS_NAMES]},
            {"if": version_5, "else": _version_4_rules()},
            {"if": {"required": ["prompts"]}, "else": _every_test({"anyOf": _named("input")})},
        ],
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _version_4_rules() -> dict[str, Any]:
    """Returns what a suite of version 4 may not have, although one of version 5 may."""
    test = dict.fromkeys(v5.TEST_FIELDS, False) | {"execution": {"properties": {"assert": False}}}
    return {
        "properties": {
            **dict.fromkeys(("targets",), False),
            "tags": {"type": ["array", "null"]},
            "workspace": {"properties": {"scope": False}},
            **_every_test({"properties": test})["properties"],
        }
    }


def _every_test(rule: FieldSchema) -> dict[str, Any]:
    """Returns the schema of a suite in which every test that stands in it fits a rule."""
    items = {"items": {"if": {"type": "object"}, "then": rule}}
    return {"properties": dict.fromkeys(TESTS_NAMES, items)}


def _named(name: str) -> list[dict[str, Any]]:
    return [{"required": [spelling]} for spelling in (name, *tests.OLD_NAMES[name])]


def _old_names(fields: Fields, names: Mapping[str, Iterable[str]]) -> dict[str, FieldSchema]:
    """Returns the fields under their old names."""
    return {
        old: {**fields[name], "deprecated": True} for name, spellings in names.items() for old in spellings
    }


def _camel_case(fields: Fields) -> dict[str, FieldSchema]:
    """Returns the fields under both of their spellings."""
    return {
        spelling: schema
        for name, schema in fields.items()
        for spelling in (name, re.sub("_(.)", lambda letter: letter[1].upper(), name))
    }


# --- tests -------------------------------------------------------------------------------------------------


def _define_tests() -> dict[str, FieldSchema]:
    fields = {
        **tests.TEST_FIELDS,
        **_old_names(tests.TEST_FIELDS, tests.OLD_NAMES),
        **v5.TEST_FIELDS,
        **dict.fromkeys(tests.UNUSED_FIELDS, UNUSED),
    }
    execution = {**tests.EXECUTION_FIELDS, "assert": ref("assertions")}
    return {
        "test": object_of(fields, ("id",), nullable=True, not_null=("input", *tests.OLD_NAMES["input"])),
        "test_execution": _options(execution),
        "suite_execution": _options(suite.EXECUTION_FIELDS),
        "trials": _options(suite.TRIALS_FIELDS, ("count",)),
        "input_files": {"type": ["array", "string"], "items": {"type": "string"}, "pattern": r"\{\{"},
    }


def _options(fields: Fields, required: Iterable[str] = ()) -> dict[str, Any]:
    both = _camel_case({**fields, **_PROSE})
    options: dict[str, Any] = with_references(object_of(both, required, nullable=True))
    return options


# --- messages ----------------------------------------------------------------------------------------------


def _define_messages() -> dict[str, FieldSchema]:
    call = object_of({**messages.TOOL_CALL_FIELDS, **_PROSE}, ("tool",), nullable=True)
    message = object_of({**messages.MESSAGE_FIELDS, **_PROSE}, ("role",), nullable=True)
    needs_content = {
        "anyOf": [
            {"required": ["content"], "properties": {"content": {"not": {"type": "null"}}}},
            {"required": ["tool_calls"], "properties": {"tool_calls": {"type": "array", "minItems": 1}}},
        ]
    }
    has_role = {"type": "object", "required": ["role"]}
    return {
        "tool_call": call,
        "message": {**message, **needs_content},
        "block": object_of({**messages.BLOCK_FIELDS, **_PROSE}, messages.BLOCK_FIELDS),
        "content": {"type": [*_SCALAR["type"], "object", "array"], "items": text_or(ref("block"), "")},
        "input": {
            "type": ["string", "number", "boolean", "object", "array"],
            "minItems": 1,
            "items": ref("message"),
            "if": has_role,
            "then": ref("message"),
        },
        "expected_output": {
            "type": ["string", "number", "boolean", "object", "array"],
            "minItems": 1,
            "if": has_role,
            "then": ref("expected_message"),
        },
        "expected_message": {
            **message,
            **needs_content,
            "properties": {**message["properties"], "content": {}},
        },
    }


# --- assertions --------------------------------------------------------------------------------------------


def _define_assertions() -> dict[str, FieldSchema]:
    include = object_of(
        {"include": words("The path or the name of a file with assertions."), **_PROSE}, ["include"]
    )
    item = object_of(
        {**rubrics.ITEM_FIELDS, **_PROSE}, anyOf=[{"required": ["outcome"]}, {"required": ["score_ranges"]}]
    )
    call_fields = {**spec_fields(assertions.CALL_FIELDS), **_PROSE}
    definitions: dict[str, Any] = {
        "assertions": list_of(text_or(ref("assertion_or_include"))),
        "assertion_or_include": {
            "if": {"required": ["include"], "not": {"required": ["type"]}},
            "then": include,
            "else": ref("assertion"),
        },
        "assertion": _assertion(),
        "member": {"allOf": [ref("assertion")], "required": ["name"]},
        "aggregator": _aggregator(),
        "rubrics": list_of(text_or(ref("rubric")), minItems=1),
        "rubric": item,
        "call": object_of(call_fields, required_names(assertions.CALL_FIELDS)),
    }
    filled = {name: with_references(schema) for name, schema in definitions.items() if name != "assertion"}
    return {**definitions, **filled}


def _assertion() -> dict[str, Any]:
    """Returns the schema of an assertion: what all have, and what each type has, grouped by their fields."""
    groups: list[tuple[dict[str, Any], list[str]]] = []
    for name, kind in (assertions.VERSION_4_TYPES | assertions.VERSION_5_TYPES).items():
        schema = _assertion_type(kind)
        group = next((names for other, names in groups if other == schema), None)
        if group is None:
            groups.append((schema, [name]))
        else:
            group.append(name)
    common = {name: with_references(schema) for name, schema in assertions.COMMON_FIELDS.items()}
    return {
        "type": "object",
        "properties": {**common, "type": _type_schema()},
        "required": ["type"],
        "allOf": [
            {"if": {"properties": {"type": {"pattern": _spellings(names)}}}, "then": schema}
            for schema, names in groups
        ],
    }


def _spellings(names: Iterable[str]) -> str:
    """Returns a pattern for types with hyphens or underscores, negated or not."""
    return f"^({_PREFIX})?({'|'.join(names)})$".replace("-", "[-_]").replace(
        _PREFIX.replace("-", "[-_]"), _PREFIX
    )


def _type_schema() -> dict[str, Any]:
    """Returns the schema of `type`, which lets editors complete the types; graders of your own fit too."""
    with_colon = [name for name in assertions.TYPES if ":" in name]
    own = text(pattern=f"{_OWN_TYPE}|{_spellings(with_colon)}")
    return either(choice(assertions.TYPES), own, about=assertions.COMMON_FIELDS["type"]["description"])


def _assertion_type(kind: AssertionType) -> dict[str, Any]:
    own = {**spec_fields(kind.fields), **kind.names, **dict.fromkeys(kind.unused_fields, UNUSED)}
    others = dict.fromkeys((*assertions.COMMON_FIELDS, *PROSE_FIELDS), ANYTHING)
    aliases = {
        alias: words() if name == "name" else assertions.COMMON_FIELDS[name] for alias, name in kind.aliases
    }
    needed = [] if kind.parse is not None else required_names(kind.fields)
    schema = object_of({**aliases, **own, **others}, needed, closed=not kind.is_open)
    del schema["type"]
    if kind.closed_by:
        names = dict.fromkeys((*schema["properties"], *kind.unused_fields), ANYTHING)
        schema["if"] = {"required": [kind.closed_by]}
        schema["then"] = {"properties": names, "additionalProperties": False}
    filled: dict[str, Any] = with_references({**schema, **kind.rules})
    return filled


def _aggregator() -> dict[str, Any]:
    """Returns the schema of a composite's aggregator, whose fields depend on its type."""
    choices = []
    for name, fields in assertions.AGGREGATOR_FIELDS.items():
        spellings = list(dict.fromkeys((name, name.replace("-", "_"), name.replace("_", "-"))))
        typed_fields = {**fields, "type": choice(spellings), **_PROSE}
        rules = assertions.AGGREGATOR_RULES.get(name, {})
        own = object_of(typed_fields, ["type"])
        choices.append({**own, **rules, "required": [*own["required"], *rules.get("required", ())]})
    return either(*choices, about="How the scores of the members are combined into one.")


# --- workspaces --------------------------------------------------------------------------------------------


def _define_workspaces() -> dict[str, FieldSchema]:
    scope = {"scope": choice(v5.ISOLATION_BY_SCOPE, "Whether all tests share one workspace.")}
    definitions = {
        "workspace": text_or(ref("workspace_fields")),
        "workspace_fields": {
            **object_of({**workspace.WORKSPACE_FIELDS, **scope, **_PROSE}, nullable=True),
            "if": {"properties": {"mode": {"const": "static"}}, "required": ["mode"]},
            "then": {"required": ["path"]},
        },
        "hooks": object_of({**workspace.HOOKS_FIELDS, **_PROSE}, nullable=True),
        "hook": object_of({**workspace.HOOK_FIELDS, **_PROSE}, nullable=True),
        "repository": object_of(
            {**workspace.REPOSITORY_FIELDS, **_PROSE},
            ("path",),
            nullable=True,
            anyOf=[{"required": ["repo"]}, {"required": ["source"]}],
        ),
        "repository_source": either(
            *(object_of({**fields, **_PROSE}, fields) for fields in workspace.SOURCE_FIELDS.values())
        ),
        "checkout": object_of({**workspace.CHECKOUT_FIELDS, **_PROSE}),
        "clone": object_of({**workspace.CLONE_FIELDS, **_PROSE}),
    }
    return {name: with_references(schema) for name, schema in definitions.items()}


# --- version 5 ---------------------------------------------------------------------------------------------


def _define_version_5() -> dict[str, FieldSchema]:
    prompt = either(
        words(),
        ref("prompt_messages"),
        object_of(v5.ENTRY_FIELDS, nullable=True, anyOf=[{"required": [name]} for name in v5.BODY_FIELDS]),
    )
    return {
        "prompts": either(
            words(), {"type": "object", "allOf": [ref("prompt")]}, list_of(ref("prompt"), minItems=1)
        ),
        "prompt": prompt,
        "prompt_messages": list_of({"type": "object", "required": ["role"]}, minItems=1),
        "default_test": object_of(v5.DEFAULT_TEST_FIELDS, nullable=True),
        "evaluate_options": with_references(object_of(v5.OPTION_FIELDS, nullable=True)),
    }
