"""The fields of targets.yaml for a target of kind `cli`. Pure."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from proctor.env_substitution import names_in, substitute
from proctor.model import TargetSpec
from proctor.targets.entries import SECRET_NAME, WHOLE_REFERENCE, TargetEntry
from proctor.targets.kind import TIMEOUT_FIELD, FileFields
from proctor.targets.process.command_template import (
    BATCH_PLACEHOLDERS,
    FILE_PLACEHOLDERS,
    FOLDER_VARIABLE,
    CommandTemplate,
)

_BATCHING_FIELD: Final = "provider_batching"
_FOLDER: Final = {"type": "string", "description": "The working directory of the command."}
_HEALTHCHECK_FIELDS: Final[FileFields] = {
    "url": {"type": "string", "description": "A URL that must respond."},
    "command": {"type": "string", "description": "A command line that must succeed."},
    "cwd": _FOLDER,
    "timeout_seconds": TIMEOUT_FIELD,
}
CLI_FIELDS: Final[FileFields] = {
    "command": {
        "type": "string",
        "pattern": r"\S",
        "description": "The command line, with placeholders such as {PROMPT} and {OUTPUT_FILE}.",
    },
    "cwd": _FOLDER,
    "timeout_seconds": TIMEOUT_FIELD,
    "files_format": {"type": "string", "description": "How to write each file of {FILES}, with {path}."},
    "healthcheck": {
        "type": "object",
        "description": "A check that must succeed before a run starts.",
        "properties": _HEALTHCHECK_FIELDS,
        "oneOf": [{"required": ["url"]}, {"required": ["command"]}],
        "additionalProperties": False,
    },
    "keep_temp_files": {
        "type": "boolean",
        "description": "Whether the files of prompts and answers are kept.",
    },
    "env": {
        "type": "object",
        "description": "Environment variables for the program.",
        "additionalProperties": {"type": ["string", "number"]},
    },
    _BATCHING_FIELD: {
        "type": "boolean",
        "description": "Whether the command line runs once for all tests.",
    },
}


def read_entry(spec: TargetSpec, entry: TargetEntry) -> TargetSpec:
    """Reads the target's command line and options; reports problems to the entry's notes."""
    fields = entry.fields
    command = entry.required_text("command")
    _check_command(entry, "command", command)
    options: dict[str, Any] = {}
    if (cwd := fields.text("cwd")) is not None:
        options["cwd"] = entry.absolute_path(cwd)
    if (seconds := entry.seconds(fields, "timeout_seconds")) is not None:
        options["timeout_seconds"] = seconds
    if (files_format := fields.text("files_format")) is not None:
        _check_template(entry, "files_format", files_format, FILE_PLACEHOLDERS)
        options["files_format"] = files_format
    if "keep_temp_files" in fields and fields.boolean("keep_temp_files", default=False):
        options["keep_temp_files"] = True
    if _BATCHING_FIELD in fields and fields.boolean(_BATCHING_FIELD, default=False):
        options[_BATCHING_FIELD] = True
        _check_batch(entry, command)
    if (health := _read_healthcheck(entry)) is not None:
        options["healthcheck"] = health
    if (variables := _read_variables(entry)) is not None:
        options["env"] = variables
    if FOLDER_VARIABLE in f"{command} {options}" or WHOLE_REFERENCE.fullmatch(command):
        options["folder"] = entry.context.folder
    return replace(spec, model=command, options=options)


def _check_command(entry: TargetEntry, name: str, command: str) -> None:
    context = entry.context
    if not WHOLE_REFERENCE.fullmatch(command):
        for variable in names_in(command)[:1]:
            reference = f"${{{{ {variable} }}}}"
            entry.fields.error(
                "reference-inside",
                name,
                f"has {reference} inside a command line, where everyone could see its value. "
                f"Write `env: {{{variable}: {reference}}}`, and ${variable} in the line.",
            )
        _check_template(entry, name, command)
    elif not context.checks_only and all(variable in context.environ for variable in names_in(command)):
        _check_template(entry, name, substitute(command, context.environ))


def _check_batch(entry: TargetEntry, command: str) -> None:
    """Reports placeholders that have no value if the command line runs once for all tests."""
    with suppress(ValueError):  # an invalid command line was reported already
        for place in sorted(CommandTemplate(command).placeholders.difference(BATCH_PLACEHOLDERS)):
            entry.fields.error(
                "bad-placeholder",
                "command",
                f"has {{{place}}}, but with `provider_batching` it runs once for all tests and does not "
                f"receive any single one. Remove one of them.",
            )


def _check_template(
    entry: TargetEntry, name: str, template: str, placeholders: tuple[str, ...] | None = None
) -> None:
    try:
        CommandTemplate(template) if placeholders is None else CommandTemplate(template, placeholders)
    except ValueError as error:
        entry.fields.error("bad-placeholder", name, str(error))


def _read_healthcheck(entry: TargetEntry) -> dict[str, Any] | None:
    health = entry.fields.object("healthcheck")
    if health is None:
        return None
    options: dict[str, Any] = {}
    for name in ("url", "command"):
        if (text := health.text(name)) is not None:
            options[name] = text
    if len(options) != 1:
        entry.fields.error("missing-field", "healthcheck", "needs either `url` or `command`.")
    if not options.get("url", "http").startswith(("http", "${{")):
        health.error("bad-address", "url", "must begin with http:// or https://.")
    if (cwd := health.text("cwd")) is not None:
        options["cwd"] = entry.absolute_path(cwd)
    if (seconds := entry.seconds(health, "timeout_seconds")) is not None:
        options["timeout_seconds"] = seconds
    health.finish(tuple(_HEALTHCHECK_FIELDS))
    return options


def _read_variables(entry: TargetEntry) -> dict[str, str] | None:
    variables = entry.fields.object("env")
    if variables is None:
        return None
    values = {}
    for name in variables.remaining_names():
        value = variables.pop(name)
        if SECRET_NAME.search(name) and not (isinstance(value, str) and WHOLE_REFERENCE.fullmatch(value)):
            variables.error(
                "literal-secret", name, "looks like a secret; it must name a variable, as in ${{ MY_KEY }}."
            )
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            variables.error("wrong-type", name, "must be text.")
        else:
            values[name] = str(value)
    return values
