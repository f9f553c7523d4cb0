"""Resolves the SUITE argument of a command to the files that it stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from proctor.errors import UsageError, suggest_file, suggestion
from proctor.model import Problem
from proctor.plurals import join_names, pluralize
from proctor.safe_text import one_line
from proctor.services.runs.config import Config, iter_upward
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX, TIERS, builtin_path
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.saved_names import split_version

if TYPE_CHECKING:
    from proctor.services.suites.folder_search import FolderContents


_MAX_NAMES = 10
"""Maximum number of suites that one sentence lists."""


class NoSuchSuite(UsageError):
    """The argument stands for no file."""


class LocatedSuites(Struct, frozen=True, kw_only=True):
    """The suite files that an argument stands for."""

    paths: tuple[Path, ...]
    problems: tuple[Problem, ...] = ()
    """One error for each file that no format recognises, with `--strict`."""
    warnings: tuple[str, ...] = ()
    """Sentences on files of a folder that are left out."""
    notes: tuple[str, ...] = ()
    """Sentences: which suite an ambiguous argument means, and which files are read by other suites."""


class SuiteLocator(Struct, frozen=True, kw_only=True):
    """Finds the files of SUITE arguments; the defaults are those of a command without flags."""

    saved_names: Callable[[str | None], Collection[str]] = lambda _name: ()
    """Lists the suites in the store: all, or only the one of that name."""
    environ: Mapping[str, str] = {}
    """What suites may name as `${{ NAME }}`."""
    config: Config = Config()
    """The project's settings for reading suites."""
    dialect: str | None = None
    """The dialect of all files; None finds it from the content of each."""
    strict: bool = False
    """A file of a folder that no format recognises is an error."""

    def find(self, word: str) -> LocatedSuites:
        """Finds the files that an argument stands for.

        In this order: `builtin:TIER`; a file; a folder, which stands for every suite in it and below; a file
        `suites/WORD.*`, here or in the nearest folder above that has `suites`; a built-in tier, unless the
        store has a suite of its name. `NAME@v2` is no file.

        Raises:
            NoSuchSuite: it stands for nothing here; a store may still have a suite of that name.
            UsageError: it stands for more than one file, or for a folder without any.
        """
        if not word.strip():
            raise UsageError("The name of the suite is empty. Is a variable not set?")
        tier = word.removeprefix(BUILTIN_PREFIX)
        if word.startswith(BUILTIN_PREFIX) and split_version(word) is None:
            if tier not in TIERS:
                raise UsageError(f"There is no built-in suite {word!r}. {suggestion(tier, sorted(TIERS))}")
            return LocatedSuites(paths=(builtin_path(tier),))
        path = Path(word)
        if path.is_file():
            return LocatedSuites(paths=(path,), notes=describe_choice(word, f"the file {word!r}"))
        if path.is_dir():
            return self._find_in_folder(word, path)
        if split_version(word) is not None:
            raise NoSuchSuite(
                f"There is no file or folder {word!r}. Only suites in a store have versions. To write "
                f"one to a file: `proctor suites export {word} -o FILE`"
            )
        return self._find_by_name(word)

    def _find_in_folder(self, word: str, folder: Path) -> LocatedSuites:
        from proctor.services.suites.folder_search import (
            search_folder,  # runs of a single file do not need it
        )

        contents = search_folder(
            folder,
            lambda path: source_from_path(path, self.environ, self.config.source_options(path)),
            self.dialect,
        )
        if not contents.suites:
            expected = "a file ending in .jsonl or .csv, or in .yaml with `tests`, or a Markdown test"
            empty = f"The folder {word!r} contains no suite ({expected})."
            raise UsageError(" ".join([empty, *_describe_skipped(contents)]))
        notes = describe_choice(word, f"the folder {word!r}")
        if contents.included:
            notes += (
                f"Not run separately, because other suites include them: {_list_files(contents.included)}.",
            )
        if self.strict:
            message = "No suite format recognises the file. Move it out of the folder, or remove --strict."
            problems = tuple(
                Problem(code="unknown-dialect", message=message, path=str(file), line=1)
                for file in contents.unrecognised
            )
            return LocatedSuites(paths=contents.suites, problems=problems, notes=notes)
        return LocatedSuites(paths=contents.suites, warnings=tuple(_describe_skipped(contents)), notes=notes)

    def _find_by_name(self, word: str) -> LocatedSuites:
        from proctor.services.suites.folder_search import is_settings_file

        folder = find_suites_folder()
        files = (file for file in folder.glob("*") if file.is_file()) if folder is not None else ()
        suites = [file for file in files if not is_settings_file(source_from_path(file))]
        matches = sorted(file for file in suites if word in (file.stem, _suite_name(file)))
        if len(matches) > 1:
            raise UsageError(
                f"Several files match the suite {word!r}: {_list_files(matches)}. Name one of them."
            )
        if matches:
            return LocatedSuites(
                paths=(matches[0],), notes=describe_choice(word, f"the file {matches[0].as_posix()!r}")
            )
        if word not in TIERS:
            if self.saved_names(word):
                raise NoSuchSuite(f"{word!r} is a suite in the store, not a file. Name its file.")
            project_suites = self.config.flags.get("suite", ())
            names = sorted(
                {*TIERS, *map(_suite_name, suites), *self.saved_names(None), *project_suites} - {word}
            )
            hint = suggest_file(word).lstrip() or suggest_suite(word, names)
            raise NoSuchSuite(
                f"There is no suite {word!r}: it is not a file, a folder or the name of a suite. {hint}"
            )
        if self.saved_names(word):
            raise NoSuchSuite(
                f"{word!r} is a suite in the store, not a file. For the built-in suite, write "
                f"`{BUILTIN_PREFIX}{word}`."
            )
        return LocatedSuites(paths=(builtin_path(word),))


def find_suites_folder() -> Path | None:
    """Returns the nearest folder `suites`, here or above, up to the repository's root; None without one."""
    for folder in iter_upward(None):
        path = folder / "suites"
        if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises without permission
            return Path(os.path.relpath(path))
    return None


def suggest_suite(word: str, names: Sequence[str]) -> str:
    """Returns sentences that suggest names of suites for a wrong one, and the command that lists many."""
    hint = suggestion(word, names, _MAX_NAMES)
    return f"{hint} To list those in the store: `proctor suites list`." if len(names) > _MAX_NAMES else hint


def describe_choice(word: str, meaning: str) -> tuple[str, ...]:
    """Returns a sentence on what a word means that also names a built-in suite; nothing for other words."""
    if word not in TIERS:
        return ()
    return (f"{word!r} means {meaning} here. For the built-in suite, write `{BUILTIN_PREFIX}{word}`.",)


def _suite_name(file: Path) -> str:
    return file.stem.removesuffix(".eval")


def _list_files(files: Sequence[Path]) -> str:
    return join_names([one_line(file.as_posix()) for file in files], 10)


def _describe_skipped(contents: FolderContents) -> Iterator[str]:
    files = contents.unrecognised
    if files:
        yield (
            f"Skipped {pluralize(len(files), 'file')} that no suite format recognises: {_list_files(files)}."
        )
