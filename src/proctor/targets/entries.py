"""One target of a targets file: its fields, and the readers that several kinds share. Pure.

References in models, addresses, numbers and folders are substituted when the file is read. Keys, `env`,
command lines, health checks, responses and system prompts keep `${{ NAME }}` until the target is opened.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.env_substitution import WHOLE_REFERENCE_PATTERN
from proctor.errors import UsageError
from proctor.model import Params, TargetSpec
from proctor.parameters import PARAMETERS as FURTHER_PARAMETERS
from proctor.parameters import check_parameter
from proctor.targets import get_service

if TYPE_CHECKING:
    from proctor.targets.kind import TargetKind
    from proctor.validation import FieldReader

WHOLE_REFERENCE: Final = re.compile(WHOLE_REFERENCE_PATTERN)
"""Matches a text that is exactly one reference."""
SECRET_NAME: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE)
"""Matches names of fields and variables that hold secrets."""

_FILE: Final = {
    "type": "string",
    "pattern": r"\S",
    "description": "The file with the answers, from the folder of targets.yaml.",
}
FILE_FIELDS: Final = {"file": _FILE, "path": _FILE}
"""The fields that `read_file_path` reads."""


class FileContext(Struct, frozen=True, kw_only=True):
    """Where a targets file is, and with which parameters its targets are called."""

    folder: str
    """The file's absolute folder, the base of its relative paths."""
    environ: Mapping[str, str]
    """The environment; a stand-in where the file is only checked."""
    checks_only: bool = False
    """Checks only what does not depend on the environment; the resulting specifications are unusable."""
    params: Params = Params()
    """The user's parameters; where they are the defaults, a target's own apply."""


class TargetEntry(Struct, frozen=True):
    """The fields of one target, and which of them are references without a value."""

    fields: FieldReader
    unknown_fields: frozenset[str]
    context: FileContext
    references: Mapping[str, str] = {}
    """The texts with references, before substitution."""

    def required_text(self, name: str) -> str:
        """Reads a required text; returns a placeholder if its value is unknown."""
        return "unknown" if name in self.unknown_fields else self.fields.required_text(name)

    def resolve_alias(self, *names: str) -> str:
        """Returns the first of several names for a field that the entry has, else the first name."""
        present = [name for name in names if name in self.fields or name in self.unknown_fields]
        for name in present[1:]:
            self.fields.error(
                "duplicate-field", name, f"says the same as `{present[0]}`. Remove one of them."
            )
            self.fields.pop(name)
        return present[0] if present else names[0]

    def seconds(self, fields: FieldReader, name: str) -> float | None:
        """Reads a number of seconds above 0; None if the field is missing."""
        value = fields.number(name)
        if value is not None and value <= 0:
            fields.error("out-of-range", name, f"is {value:g}; it must be more than 0 seconds.")
        return value

    def absolute_path(self, path: str) -> str:
        """Makes a path of the file absolute."""
        return os.path.normpath(os.path.join(self.context.folder, path))  # noqa: PTH118 - a path that is not opened


def read_parameters(spec: TargetSpec, entry: TargetEntry, options: dict[str, Any]) -> TargetSpec:
    """Adds `PARAMETERS` and options to a target; parameters set by the user take precedence."""
    fields = entry.fields
    temperature = fields.number("temperature")
    if temperature is not None and not 0 <= temperature <= 2:
        fields.error("out-of-range", "temperature", f"is {temperature:g}; it must be from 0 to 2.")
    own = {
        "temperature": temperature,
        "max_tokens": fields.integer("max_output_tokens", least=1),
        "seed": fields.integer("seed"),
    }
    system = fields.text("system_prompt")
    defaults, params = Params(), entry.context.params
    own |= _read_further_parameters(entry, get_service(spec))
    changes = {
        name: value
        for name, value in own.items()
        if value is not None and getattr(params, name) == getattr(defaults, name)
    }
    seconds = entry.seconds(fields, "timeout_seconds")
    extra = {"system_prompt": system, "timeout_seconds": seconds}
    options = {
        **spec.options,
        **options,
        **{name: value for name, value in extra.items() if value is not None},
    }
    return replace(spec, params=replace(params, **changes), options=options)


def _read_further_parameters(entry: TargetEntry, kind: TargetKind) -> dict[str, Any]:
    """Reads the parameters that only some kinds take; one that this kind does not take is an error."""
    values: dict[str, Any] = {}
    for name in FURTHER_PARAMETERS:
        if name not in entry.fields:
            continue
        value = entry.fields.pop(name)
        if name == "api_format" and value == "chat":
            continue
        if name not in kind.all_params:
            entry.fields.error("unsupported", name, f"cannot be set: {kind.describe_refusal(name)}")
            continue
        try:
            values[name] = check_parameter(name, value)
        except UsageError as error:
            code = "literal-secret" if "must name a variable" in str(error) else "bad-value"
            entry.fields.error(code, name, f"cannot be used. {error}")
    return values


def read_file_path(spec: TargetSpec, entry: TargetEntry) -> TargetSpec:
    """Reads the file's path from `file` or `path` into the target's model."""
    path = entry.required_text(entry.resolve_alias("file", "path"))
    return replace(spec, model=entry.absolute_path(path) if path else "")
