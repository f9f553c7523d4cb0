"""The JSON Schemas that `proctor schema` prints and `proctor init` writes."""

from __future__ import annotations

import json
from importlib import import_module

SCHEMAS = {
    "agentv": "proctor.dialects.agentv.schema:suite_schema",
    "proctor": "proctor.dialects.proctor.schema:suite_schema",
    "targets": "proctor.targets.file_schema:targets_schema",
    "config": "proctor.cli.config_schema:config_schema",
}
"""The function that returns each schema, by the name for the command line."""


def render_schema(name: str) -> str:
    """Returns a schema of the table as JSON text.

    Every suite, targets.yaml or proctor.toml that Proctor accepts is valid under its schema.
    """
    module, _, attribute = SCHEMAS[name].partition(":")
    return json.dumps(getattr(import_module(module), attribute)(), indent=1, ensure_ascii=False) + "\n"


def schema_file_name(name: str) -> str:
    """Returns the name of the file of a schema."""
    return f"{name}.schema.json"
