"""Resolves words to targets: names in the nearest targets file, and targets as on the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from proctor.errors import SuiteError, UnknownName, UsageError
from proctor.model import Params, Problem, TargetSpec
from proctor.parameters import merge_parameters
from proctor.services.runs.config import find_upward
from proctor.targets import check_params_taken
from proctor.targets.parse import known_words, parse_target

if TYPE_CHECKING:
    from proctor.targets.targets_file import TargetsFile

TARGETS_FILE_NAMES = ("targets.yaml", "targets.yml")
_CANDIDATE_PATHS = tuple(
    folder + name for folder in ("", ".proctor/", ".agentv/") for name in TARGETS_FILE_NAMES
)
DEFAULT_TARGET = "default"
"""The name of the target for commands that name none."""


class TargetNames:
    """Resolves words to targets. The targets file is found and read when it is first needed."""

    def __init__(self, environ: Mapping[str, str], start: Path | None = None) -> None:
        """Stores its arguments; reads no file.

        Args:
            environ: the variables that the file refers to, and the addresses of services.
            start: the folder where the search for the file starts; it goes upward to the repository's root.
                None is the working directory.
        """
        self._environ = environ
        self._start = start
        self._suite_names: TargetNames | None = None
        """The names for the suite's folder, which are only used in error messages."""

    @cached_property
    def path(self) -> Path | None:
        """The absolute path of the targets file; None if there is none."""
        return find_upward(self._start, _CANDIDATE_PATHS)

    @cached_property
    def file(self) -> TargetsFile | None:
        """The parsed targets file; None if there is none.

        Raises:
            SuiteError: the file is malformed; has all of its problems.
            UsageError: it cannot be read.
        """
        path = self.path
        if path is None:
            return None
        from proctor.targets.targets_file import TargetsFile

        shown_path = os.path.relpath(path)
        try:
            text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode("utf-8")
        except OSError as error:
            raise UsageError(f"The targets file {shown_path!r} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            problem = Problem(
                code="bad-encoding", message="The line is not UTF-8.", path=shown_path, line=line
            )
            raise SuiteError([problem]) from None
        return TargetsFile(text, shown_path, str(path.parent))

    def for_folder(self, folder: str) -> TargetNames:
        """Returns these names; without a targets file, those of the file nearest to a suite's folder."""
        if not folder:
            return self
        suite_names = TargetNames(self._environ, Path(folder))
        if self.path is None:
            return suite_names
        near = copy(self)
        near._suite_names = suite_names
        return near

    def names(self) -> list[str]:
        """Returns the names in the file, in its order; raises as `file` does."""
        return [] if self.file is None else self.file.names()

    @property
    def default(self) -> tuple[str, ...]:
        """The target to use without a name: the file's `default`, if it has one; raises as `file` does."""
        return (DEFAULT_TARGET,) if DEFAULT_TARGET in self.names() else ()

    def get_spec(self, word: str | TargetSpec, params: Params, *, judged: bool = True) -> TargetSpec:
        """Returns the target of a name in the file, else of a word of the command line.

        Args:
            word: the name; a target stays what it is, but for parameters that the user set.
            params: the parameters that the user set.
            judged: whether its answers are judged; else its judge is left out.

        Raises:
            SuiteError: the targets file is invalid; or the target, its judge or a fallback is invalid there,
                or names a variable that is not set.
            UnknownName: there is no such target.
            UsageError: the word is not complete, the file cannot be read, or the target does not take a
                parameter.
        """
        if isinstance(word, TargetSpec):
            spec = replace(word, params=merge_parameters(word.params, params))
        else:
            spec = self._resolve(word, params, judged=judged)
        check_params_taken(spec)
        return spec

    def _resolve(self, word: str, params: Params, *, judged: bool) -> TargetSpec:
        if self.file is not None and word in self.names():
            return self.file.get_spec(word, params, self._environ, judged=judged)
        try:
            return parse_target(word, params, self._environ)
        except UnknownName as error:
            from difflib import get_close_matches

            from proctor.services.targets.priced_models import find_near_models

            near = [*get_close_matches(word, self.names(), n=2), *error.suggested, *find_near_models(word)]
            unknown = UnknownName("target", error.name, {*self.names(), *known_words()}, near[:3])
            unknown.args = (f"{unknown}{self._suggest_suite_file(word)}{self._suggest_naming()}",)
            raise unknown from None

    def _suggest_suite_file(self, word: str) -> str:
        """Returns a hint if only the targets file of the suite's folder has the name."""
        other = self._suite_names
        if self.file is None or other is None or other.path is None or other.path == self.path:
            return ""
        try:
            if word not in other.names():
                return ""
        except (SuiteError, UsageError):
            return ""
        shown_path, folder = os.path.relpath(other.path), os.path.relpath(other._start or Path.cwd())
        return (
            f" The file {shown_path!r} has it, but {self.file.path!r} applies here. Run the command in "
            f"{folder!r}, or copy the target."
        )

    def _suggest_naming(self) -> str:
        """Returns a hint about entries without a name, one of which may be meant; empty if there are none."""
        if self.file is None or not self.file.unnamed_problems:
            return ""
        lines = " and ".join(str(problem.line) for problem in self.file.unnamed_problems)
        return f" In {self.file.path!r}, the entries on these lines have no name: {lines}. Name each of them."
