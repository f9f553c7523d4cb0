"""The targets that pages and agents may call: names of the project's own files, models of known services."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct

from proctor.comparison.outcomes import SplitName
from proctor.errors import ProctorError, UsageError
from proctor.model import Params
from proctor.services.project_folder import ProjectFolder
from proctor.services.runs.config import Config
from proctor.services.runs.planning.target_names import TargetNames
from proctor.targets import get_kind, iter_kinds
from proctor.targets.parse import parse_target

T = TypeVar("T")

_TARGET_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_ADDRESS = re.compile(r"@\s*https?://.*", re.DOTALL | re.IGNORECASE)
SPLITS: Final[tuple[SplitName, ...]] = ("all", "dev", "holdout")


class ProjectDefaults:
    """Values of fields that are left empty: from `proctor.toml`, else the general default."""

    def __init__(self, config: Config) -> None:
        """Reads the flags of a project.

        Args:
            config: its `proctor.toml`.
        """
        self._flags: dict[str, Any] = config.flags

    def value(self, flag: str, kind: type[T]) -> T | None:
        """Returns the value of a flag; None if it is unset or of a type that the command line refuses."""
        value = self._flags.get(flag)
        return value if isinstance(value, kind) and isinstance(value, bool) == (kind is bool) else None

    def texts(self, *flags: str) -> tuple[str, ...]:
        """Returns the values of a repeatable flag, under the first of its names that is set."""
        for flag in flags:
            value = self._flags.get(flag, [])
            if value:
                return tuple(map(str, value if isinstance(value, list) else [value]))
        return ()

    def number(self, flag: str) -> float | None:
        """Returns the number of a flag."""
        integer = self.value(flag, int)
        return self.value(flag, float) if integer is None else float(integer)

    @property
    def split(self) -> SplitName:
        """The default split."""
        return next((split for split in SPLITS if split == self._flags.get("split")), "all")


class RunContext(Struct, frozen=True, kw_only=True):
    """The folder in which runs are started, with its configuration and targets."""

    folder: Path
    environ: Mapping[str, str]
    config: Config
    names: TargetNames

    @property
    def defaults(self) -> ProjectDefaults:
        """Values of fields that are left empty."""
        return ProjectDefaults(self.config)


def load_run_context(project: ProjectFolder) -> RunContext:
    """Returns the run context of a project, with its files as they are now."""
    return RunContext(
        folder=project.folder,
        environ=project.environ,
        config=project.config,
        names=TargetNames(project.environ, project.folder),
    )


class AllowedTarget(Struct, frozen=True):
    """A target that may be called by name."""

    name: str
    description: str
    """Its kind, and its model if there is one; nothing else."""
    missing: tuple[str, ...] = ()
    """Environment variables that it names and that are not set."""


class AllowedTargets(Struct, frozen=True):
    """All targets that may be called by name, and what is wrong with the targets file."""

    targets: tuple[AllowedTarget, ...]
    error: str = ""

    @property
    def names(self) -> frozenset[str]:
        """The names of the targets."""
        return frozenset(target.name for target in self.targets)


def list_allowed_targets(context: RunContext) -> AllowedTargets:
    """Lists the targets that may be called by name: those of the project's files and the built-in ones."""
    # A command line may contain secrets, so it is not shown.
    kinds_with_models = {kind.name for kind in iter_kinds() if kind.is_typed_in_web or kind.web_note} | {"→"}
    notes = {kind.name: kind.web_note for kind in iter_kinds() if kind.web_note}
    targets, file_error = list[AllowedTarget](), ""
    try:
        file = context.names.file
        for target in file.list_targets(context.environ) if file is not None else ():
            model = _ADDRESS.sub("", target.details) if target.kind in kinds_with_models else ""
            targets.append(
                AllowedTarget(target.name, f"{target.kind} {model}".strip(), target.unset_variables)
            )
        file_error = "\n".join(map(str, file.errors if file is not None else ()))
    except ProctorError as error:
        file_error = str(error)
    defaults, known_names = context.defaults, {target.name for target in targets}
    for name in dict.fromkeys((*defaults.texts("target", "model"), *defaults.texts("judge"), *sorted(notes))):
        if name not in known_names:
            targets.append(AllowedTarget(name, notes.get(name, "named in proctor.toml")))
    return AllowedTargets(tuple(targets), file_error)


def check_allowed(name: str, allowed_targets: AllowedTargets, environ: Mapping[str, str]) -> None:
    """Refuses a target that may not be called from a page or by an agent.

    Raises:
        UsageError: it is neither listed nor a model of a known service.
    """
    if name in allowed_targets.names:
        return
    if not _TARGET_PATTERN.fullmatch(name) or "://" in name or ".." in name:
        raise UsageError(_not_allowed_message(name))
    try:
        kind = get_kind(parse_target(name, Params(), environ))
    except UsageError as error:
        raise UsageError(f"{_not_allowed_message(name)} {error}" if ":" not in name else str(error)) from None
    if not kind.is_typed_in_web:
        raise UsageError(_not_allowed_message(name))


def _not_allowed_message(name: str) -> str:
    return (
        f"{name[:80]!r} cannot be called from here. Choose a name in targets.yaml, echo or local, or a "
        "model of a service, such as openai:gpt-5.2. Add other targets to targets.yaml first."
    )
