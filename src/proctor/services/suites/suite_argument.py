"""Resolves the SUITE argument of a command to the files that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from proctor.errors import UsageError, suggestion
from proctor.model import Problem
from proctor.plurals import counted, listed
from proctor.safe_text import one_line
from proctor.services.runs.config import Config
from proctor.services.suites.builtin_suites import BUILTIN, TIERS, builtin
from proctor.services.suites.file_source import source_of
from proctor.services.suites.saved_names import versioned

if TYPE_CHECKING:
    from proctor.services.suites.folder_search import Contents

_MAX_NAMED = 10
"""The maximum number of files that a sentence names."""


class NoSuchSuite(UsageError):
    """The argument stands for no file."""


class Located(Struct, frozen=True, kw_only=True):
    """The suite files that an argument stands for."""

    paths: tuple[Path, ...]
    problems: tuple[Problem, ...] = ()
    """One error for each file that no format recognises, with `--strict`."""
    warnings: tuple[str, ...] = ()
    """Sentences on files of a folder that are left out."""
    notes: tuple[str, ...] = ()
    """Sentences: which suite an ambiguous argument means, and which files are read by other suites."""


class Locator(Struct, frozen=True, kw_only=True):
    """Finds the files of SUITE arguments; the defaults are those of a command without flags."""

    is_saved: Callable[[str], bool] = lambda _word: False
    """Whether the store has a suite of that name."""
    environ: Mapping[str, str] = {}
    """What suites may name as `${{ NAME }}`."""
    config: Config = Config()
    """The project's settings for reading suites."""
    dialect: str | None = None
    """The dialect of all files; None finds it from the content of each."""
    strict: bool = False
    """A file of a folder that no format recognises is an error."""

    def find(self, word: str) -> Located:
        """Finds the files that an argument stands for.

        In this order: `builtin:TIER`; a file; a folder, which stands for every suite in it and below; a file
        `suites/WORD.*`; a built-in tier, unless the store has a suite of its name. `NAME@v2` is no file.

        Raises:
            NoSuchSuite: it stands for nothing here; a store may still have a suite of that name.
            UsageError: it stands for more than one file, or for a folder without any.
        """
        if not word.strip():
            raise UsageError("The name of the suite is empty. Is a variable not set?")
        tier = word.removeprefix(BUILTIN)
        if word.startswith(BUILTIN) and versioned(word) is None:
            if tier not in TIERS:
                raise UsageError(f"There is no built-in suite {word!r}. {suggestion(tier, sorted(TIERS))}")
            return Located(paths=(builtin(tier),))
        path = Path(word)
        if path.is_file():
            return Located(paths=(path,), notes=choice(word, f"the file {word!r}"))
        if path.is_dir():
            return self._find_in_folder(word, path)
        if versioned(word) is not None:
            raise NoSuchSuite(
                f"There is no file or folder {word!r}; only suites in a store have versions. "
                f"`proctor suites export {word} -o FILE` writes one to a file."
            )
        return self._find_by_name(word)

    def _find_in_folder(self, word: str, folder: Path) -> Located:
        from proctor.services.suites.folder_search import contents_of  # runs of a single file do not need it

        contents = contents_of(
            folder, lambda path: source_of(path, self.environ, self.config.reading(path)), self.dialect
        )
        if not contents.suites:
            raise UsageError(_empty_message(word, contents))
        notes = choice(word, f"the folder {word!r}")
        if contents.used:
            notes += (f"Not run on their own, because other suites read them: {_list_files(contents.used)}.",)
        if self.strict:
            problems = tuple(_unrecognised_problem(file) for file in contents.unrecognised)
            return Located(paths=contents.suites, problems=problems, notes=notes)
        return Located(paths=contents.suites, warnings=tuple(_describe_skipped(contents)), notes=notes)

    def _find_by_name(self, word: str) -> Located:
        from proctor.services.suites.folder_search import is_settings

        files = (file for file in Path("suites").glob("*") if file.is_file())
        suites = [file for file in files if not is_settings(source_of(file))]
        matches = sorted(file for file in suites if word in (file.stem, _suite_name(file)))
        if len(matches) > 1:
            raise UsageError(
                f"The suite {word!r} is more than one file: {_list_files(matches)}. Name one of them."
            )
        if matches:
            return Located(paths=(matches[0],), notes=choice(word, f"the file {matches[0].as_posix()!r}"))
        if word not in TIERS:
            names = sorted({*TIERS, *map(_suite_name, suites)})
            raise NoSuchSuite(
                f"There is no suite {word!r}: no file, no folder and no name. {suggestion(word, names)}"
            )
        if self.is_saved(word):
            raise NoSuchSuite(
                f"{word!r} is a suite in the store, and no file. `{BUILTIN}{word}` is the built-in suite."
            )
        return Located(paths=(builtin(word),))


def choice(word: str, meaning: str) -> tuple[str, ...]:
    """Returns a sentence on what a word means that also names a built-in suite; nothing for other words."""
    if word not in TIERS:
        return ()
    return (f"{word!r} is {meaning} here. `{BUILTIN}{word}` is the built-in suite.",)


def _suite_name(file: Path) -> str:
    return file.stem.removesuffix(".eval")


def _list_files(files: Sequence[Path]) -> str:
    return listed([one_line(file.as_posix()) for file in files], _MAX_NAMED)


def _unrecognised_problem(file: Path) -> Problem:
    message = "No suite format recognises the file. Move it out of the folder, or leave --strict out."
    return Problem(code="unknown-dialect", message=message, path=str(file), line=1)


def _describe_skipped(contents: Contents) -> Iterator[str]:
    files = contents.unrecognised
    if files:
        yield f"Skipped {counted(len(files), 'file')} that no suite format recognises: {_list_files(files)}."


def _empty_message(word: str, contents: Contents) -> str:
    expected = "a file ending in .jsonl or .csv, or in .yaml with `tests`, or a Markdown test"
    return " ".join([f"The folder {word!r} has no suite in it ({expected}).", *_describe_skipped(contents)])
