"""Validates suites: finds errors and warnings, and the cases in other files (contamination)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import SuiteError, UsageError
from proctor.graders import GRADERS
from proctor.lint.linter import ContaminationSearch, Linter, in_file_order
from proctor.model import Problem
from proctor.prompts.requirements import CaseVariables
from proctor.protocols import CaseAtLine, SuiteSource
from proctor.services import events
from proctor.services.suites.load import LoadedSuite, load_source, load_suite

_PIECE_BYTES = 1 << 18
"""The bytes of another file that are searched in one piece."""
_MAX_MISSING_INPUTS = 3
_BLANKS = b" \t\n\r\f\v"


class ValidationResult(Struct, frozen=True):
    """The result of validating one file."""

    path: str
    loaded_suite: LoadedSuite | None
    """None if no format recognises the file."""
    problems: tuple[Problem, ...]
    """Errors and warnings, those of rules among them, in file order."""
    missing_inputs: tuple[str, ...] = ()
    """Sentences on cases that can be run only with a prompt of the user, as they have values and no input."""

    def problems_of_level(self, level: str) -> list[Problem]:
        """Returns the problems of a level, `error` or `warning`."""
        return [problem for problem in self.problems if problem.level == level]


def validate_suite(
    path: Path,
    *,
    dialect: str | None = None,
    ignored: Collection[str] = (),
    against: Sequence[Path] = (),
    options: Mapping[str, Any] = {},
    listen: events.Listener = lambda _event: None,
) -> ValidationResult:
    """Finds all errors and warnings in a suite.

    Args:
        path: its file, or its folder.
        dialect: its dialect; None detects it from the content.
        ignored: codes of rules that are not reported; see `linter.check_codes`.
        against: other text files in which the cases are searched for; the suite's own files are skipped.
        options: the reading options of `proctor.toml`.
        listen: called with the progress of reading and searching.

    Raises:
        UsageError: a file cannot be read, or there is no such dialect.
    """
    linter = Linter(str(path), GRADERS.get, ignored)
    contamination = ContaminationSearch(str(path), ignored) if against else None
    variables = CaseVariables()

    def inspect_case(located_case: CaseAtLine) -> None:
        linter.add(located_case)
        variables.add(located_case.case)
        if contamination is not None:
            contamination.add(located_case)

    try:
        load_result = load_suite(
            path,
            dialect=dialect,
            inspect=inspect_case,
            tell=lambda cases: listen(events.ReadProgress(str(path), cases)),
            options=options,
        )
    except SuiteError as error:
        return ValidationResult(str(path), None, error.problems)
    problems = linter.finish(load_result.suite)
    if contamination is not None:
        suite_files = {Path(file).resolve() for file in (str(path), *linter.files)}
        for file in against:
            if file.resolve() not in suite_files:
                problems += contamination.search(
                    str(file), _with_progress(str(file), read_pieces(file), listen)
                )
    result = _build_result(str(path), load_result, problems, linter, is_folder=path.is_dir())
    if load_result.suite.defaults.prompts:
        return result
    sentences = islice(variables.find_problems((), of_suite=False), _MAX_MISSING_INPUTS)
    return replace(result, missing_inputs=tuple(sentences))


def validate_source(
    source: SuiteSource,
    inspect: Callable[[CaseAtLine], Iterable[Problem]] = lambda _case: (),
    *,
    dialect: str | None = None,
) -> ValidationResult:
    """Finds all errors and warnings in a suite from any source.

    Args:
        source: the suite.
        inspect: finds further problems of a case; called with each that has no error, in file order.
        dialect: its dialect; None detects it from the content.

    Raises:
        UsageError: there is no such dialect.
    """
    linter = Linter(source.path, GRADERS.get)
    more_problems: list[Problem] = []

    def inspect_case(located_case: CaseAtLine) -> None:
        linter.add(located_case)
        more_problems.extend(inspect(located_case))

    try:
        load_result = load_source(source, dialect=dialect, inspect=inspect_case)
    except SuiteError as error:
        return ValidationResult(source.path, None, error.problems)
    problems = more_problems + linter.finish(load_result.suite)
    return _build_result(source.path, load_result, problems, linter, is_folder=source.is_folder)


def _build_result(
    path: str, load_result: LoadedSuite, linter_problems: list[Problem], linter: Linter, *, is_folder: bool
) -> ValidationResult:
    problems = in_file_order([*load_result.problems, *linter_problems], linter.files)
    if is_folder:  # which has no lines
        problems = [replace(problem, line=None) if problem.path == path else problem for problem in problems]
    return ValidationResult(path, load_result, tuple(problems))


def _with_progress(path: str, pieces: Iterator[str], listen: events.Listener) -> Iterator[str]:
    characters = 0
    for piece in pieces:
        yield piece
        characters += len(piece)
        listen(events.SearchProgress(path, characters))


# --- other files -------------------------------------------------------------------------------------------


def find_text_files(words: Iterable[str]) -> list[Path]:
    """Finds the text files that arguments stand for: each a file, or a folder for all files below it.

    Raises:
        UsageError: there is no such file or folder, or the folder has no file.
    """
    files: list[Path] = []
    for word in words:
        path = Path(word)
        if path.is_dir():
            folder_files = sorted(
                file for file in path.rglob("*") if file.is_file() and not _is_hidden(file, path)
            )
            if not folder_files:
                raise UsageError(f"The folder {word!r} contains no file to search for cases.")
            files += folder_files
        elif path.exists():
            files.append(path)
        else:
            raise UsageError(f"There is no file {word!r} to search for cases.")
    return list(dict.fromkeys(files))


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def read_pieces(path: Path) -> Iterator[str]:
    """Yields the text of a file in pieces that end between two words, as UTF-8, or else as Latin-1.

    Raises:
        UsageError: the file cannot be read.
    """
    buffer = b""
    try:
        with path.open("rb") as file:
            while data := file.read(_PIECE_BYTES):
                buffer += data
                end = max(buffer.rfind(blank) for blank in map(bytes, zip(_BLANKS, strict=True)))
                if end < 0 and len(buffer) < 4 * _PIECE_BYTES:
                    continue
                yield _decode(buffer[: end + 1] or buffer)
                buffer = buffer[end + 1 :] if end >= 0 else b""
    except OSError as error:
        raise UsageError(f"The file {str(path)!r} cannot be read: {error.strerror}.") from None
    if buffer:
        yield _decode(buffer)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
