"""One target of a targets file: its fields, and the readers that several kinds share. Pure.

Models, addresses, numbers and folders are filled in when the file is read. Keys, `env`, command lines, health
checks, responses and system prompts keep `${{ NAME }}` as written until the target is opened.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.env_vars import REFERENCE
from proctor.model import Params, TargetSpec

if TYPE_CHECKING:
    from proctor.validation import Fields

WHOLE_REFERENCE: Final = re.compile(rf"\s*(?:{REFERENCE.pattern})\s*")
"""A text that is one reference and nothing else."""
SECRET: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE)
"""What the name of a field or a variable contains if it holds a secret."""


class FileContext(Struct, frozen=True, kw_only=True):
    """Where a targets file is, and with which parameters its targets are called."""

    folder: str
    """The file's folder, absolute: where its relative paths begin."""
    environ: Mapping[str, str]
    """The environment; a stand-in where the file is only checked."""
    checks_only: bool = False
    """Whether only what can be known without the environment is checked; the specifications are of no use."""
    params: Params = Params()
    """The user's parameters; those of a target count where these are the defaults."""


class TargetEntry(Struct, frozen=True):
    """The fields of one target, and which of them are references whose value is not known."""

    fields: Fields
    unknown: frozenset[str]
    context: FileContext
    written: Mapping[str, str] = {}
    """The texts among them that have references, as they were before these were filled in."""

    def required(self, name: str) -> str:
        """A text that must be there; a stand-in where its value is not known."""
        return "unknown" if name in self.unknown else self.fields.required_text(name)

    def either(self, *names: str) -> str:
        """The first of several names for the same field that is there, else the first of all."""
        present = [name for name in names if name in self.fields or name in self.unknown]
        for name in present[1:]:
            self.fields.error(
                "duplicate-field", name, f"says the same as `{present[0]}`. Remove one of them."
            )
            self.fields.take(name)
        return present[0] if present else names[0]

    def seconds(self, fields: Fields, name: str) -> float | None:
        """A number of seconds above 0, if it is there."""
        value = fields.number(name)
        if value is not None and value <= 0:
            fields.error("out-of-range", name, f"is {value:g}; it must be more than 0 seconds.")
        return value

    def absolute_path(self, path: str) -> str:
        """A path of the file as an absolute one."""
        return os.path.normpath(os.path.join(self.context.folder, path))  # noqa: PTH118 - a path that is not opened


def read_parameters(spec: TargetSpec, entry: TargetEntry, options: dict[str, Any]) -> TargetSpec:
    """The target with its `PARAMETERS` and these options; parameters that the user set come first."""
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
    changes = {
        name: value
        for name, value in own.items()
        if value is not None and getattr(params, name) == getattr(defaults, name)
    }
    seconds = entry.seconds(fields, "timeout_seconds")
    extra = {"system_prompt": system, "timeout_seconds": seconds}
    options = options | {name: value for name, value in extra.items() if value is not None}
    return replace(spec, params=replace(params, **changes), options=options)


def read_file(spec: TargetSpec, entry: TargetEntry) -> TargetSpec:
    """The target of a file that `file` or `path` names."""
    path = entry.required(entry.either("file", "path"))
    return replace(spec, model=entry.absolute_path(path) if path else "")
