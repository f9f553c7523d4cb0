"""One target of a targets file: its fields, and the readers that several kinds share. Pure.

References in models, addresses, numbers and folders are substituted when the file is read. Keys, `env`,
command lines, health checks, responses and system prompts keep `${{ NAME }}` until the target is opened.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.env_substitution import WHOLE_REFERENCE_PATTERN
from proctor.lazy_pattern import lazy_pattern
from proctor.model import Params, TargetSpec

if TYPE_CHECKING:
    from proctor.validation import FieldReader

WHOLE_REFERENCE: Final = lazy_pattern(WHOLE_REFERENCE_PATTERN)
"""Matches a text that is exactly one reference."""
SECRET_NAME: Final = lazy_pattern(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE)
"""Matches names of fields and variables that hold secrets."""

_FILE: Final = {
    "type": "string",
    "pattern": r"\S",
    "description": "The file with the answers, relative to the folder of targets.yaml.",
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
                "duplicate-field", name, f"means the same as `{present[0]}`. Remove one of them."
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


def read_file_path(spec: TargetSpec, entry: TargetEntry) -> TargetSpec:
    """Reads the file's path from `file` or `path` into the target's model."""
    path = entry.required_text(entry.resolve_alias("file", "path"))
    return replace(spec, model=entry.absolute_path(path) if path else "")
