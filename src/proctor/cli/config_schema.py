"""The JSON Schema of proctor.toml, made of the flags of `proctor run` and the keys for reading suites."""

from __future__ import annotations

from typing import Any

import click

from proctor.cli.config_defaults import config_names
from proctor.cli.main import load_command
from proctor.cli.number_ranges import ShareRange
from proctor.field_schemas import DRAFT, choice, object_of, of_type, text, text_or
from proctor.protocols import DialectSetting
from proctor.services.runs.config import DEFAULT_SUITES, SUITE_KEYS, dialect_settings
from proctor.validation import PERCENTAGE_PATTERN


def config_schema() -> dict[str, Any]:
    """Returns the JSON Schema of proctor.toml; it knows the settings of the installed dialects."""
    flags = {
        name: _describe_parameter(param)
        for param in load_command("run").params
        for name in config_names(param)
    }
    settings = {key: _describe_setting(setting) for key, setting in dialect_settings().items()}
    keys = {**flags, "suite": DEFAULT_SUITES, **SUITE_KEYS, **settings}
    return {"$schema": DRAFT, "title": "The project file proctor.toml", **object_of(keys)}


def _describe_setting(setting: DialectSetting) -> dict[str, Any]:
    return choice(setting.choices, setting.about) if setting.choices else of_type("boolean", setting.about)


def _describe_parameter(param: click.Parameter) -> dict[str, Any]:
    """Returns the schema of the values of a flag: its type, its range and its help."""
    schema = _describe_type(param.type)
    if param.multiple or param.nargs != 1:
        schema = {"anyOf": [schema, {"type": "array", "items": schema}]}
    about = getattr(param, "help", None)
    return {**schema, "description": " ".join(about.split())} if about else schema


def _describe_type(kind: click.ParamType[Any]) -> dict[str, Any]:
    if isinstance(kind, click.Choice):
        return choice(kind.choices)
    if isinstance(kind, click.types.BoolParamType):
        return of_type("boolean")
    if isinstance(kind, ShareRange):
        return text_or(_describe_range(kind), PERCENTAGE_PATTERN)
    if isinstance(kind, click.IntRange | click.FloatRange):
        return _describe_range(kind)
    if isinstance(kind, click.types.IntParamType):
        return of_type("integer")
    return of_type("number") if isinstance(kind, click.types.FloatParamType) else text()


def _describe_range(kind: click.IntRange | click.FloatRange) -> dict[str, Any]:
    lower = "exclusiveMinimum" if kind.min_open else "minimum"
    upper = "exclusiveMaximum" if kind.max_open else "maximum"
    bounds: dict[str, Any] = {lower: kind.min, upper: kind.max}
    return of_type(
        "integer" if isinstance(kind, click.IntRange) else "number",
        **{name: bound for name, bound in bounds.items() if bound is not None},
    )
