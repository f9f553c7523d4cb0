"""A suite's file to everything that is wrong or doubtful in it, and its cases looked for in other files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from proctor.errors import SuiteError, UsageError
from proctor.graders import GRADERS
from proctor.linting import Contamination, Linter, in_file_order
from proctor.model import Problem
from proctor.ports import Placed
from proctor.session.loading import Loaded, survey

_PIECE = 1 << 18
"""So many bytes of another file are looked through at once."""
_BLANKS = b" \t\n\r\f\v"


class Checked(Struct, frozen=True):
    """What came of checking one file."""

    path: str
    loaded: Loaded | None
    """None where it cannot be told what the file is."""
    problems: tuple[Problem, ...]
    """Errors and warnings, those of rules among them, in file order."""

    def of_level(self, level: str) -> list[Problem]:
        """The errors, or the warnings."""
        return [problem for problem in self.problems if problem.level == level]


def check(
    path: Path,
    *,
    dialect: str | None = None,
    ignored: Collection[str] = (),
    against: Sequence[Path] = (),
    options: Mapping[str, Any] = {},
) -> Checked:
    """Everything that is wrong or doubtful in a suite.

    Args:
        path: its file, or its folder.
        dialect: its dialect's name, instead of finding it from the content.
        ignored: codes of rules that are not told; see `linting.check_codes`.
        against: other text files, in which the cases are looked for; the suite's own are none.
        options: what `proctor.toml` says of reading.

    Raises:
        UsageError: a file cannot be read, or there is no such dialect.
    """
    linter = Linter(str(path), GRADERS.get, ignored)
    contamination = Contamination(str(path), ignored) if against else None
    try:
        loaded = survey(path, _both(linter, contamination), dialect=dialect, options=options)
    except SuiteError as error:
        return Checked(str(path), None, error.problems)
    found = linter.done(loaded.suite, whole=not loaded.errors)
    if contamination is not None:
        own = {Path(file).resolve() for file in (str(path), *linter.files)}
        for file in against:
            if file.resolve() not in own:
                found += contamination.search(str(file), pieces_of(file))
    return Checked(str(path), loaded, tuple(in_file_order([*loaded.problems, *found], linter.files)))


def _both(linter: Linter, contamination: Contamination | None) -> Callable[[Placed], None]:
    if contamination is None:
        return linter.add

    def add(placed: Placed) -> None:
        linter.add(placed)
        contamination.add(placed)

    return add


# --- other files -------------------------------------------------------------------------------------------


def files_of(words: Iterable[str]) -> list[Path]:
    """The text files that words stand for: each a file, or a folder for all files in it and below.

    Raises:
        UsageError: there is no such file or folder.
    """
    files: list[Path] = []
    for word in words:
        path = Path(word)
        if path.is_dir():
            files += sorted(one for one in path.rglob("*") if one.is_file() and not _hidden(one, path))
        elif path.exists():
            files.append(path)
        else:
            raise UsageError(f"There is no file {word!r} to look for cases in.")
    return list(dict.fromkeys(files))


def _hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def pieces_of(path: Path) -> Iterator[str]:
    """The text of a file in pieces that end between two words, as UTF-8, or as Latin-1 where it is not.

    Raises:
        UsageError: the file cannot be read.
    """
    rest = b""
    try:
        with path.open("rb") as file:
            while data := file.read(_PIECE):
                rest += data
                end = max(rest.rfind(blank) for blank in map(bytes, zip(_BLANKS, strict=True)))
                if end < 0 and len(rest) < 4 * _PIECE:
                    continue
                yield _decoded(rest[: end + 1] or rest)
                rest = rest[end + 1 :] if end >= 0 else b""
    except OSError as error:
        raise UsageError(f"The file {str(path)!r} cannot be read: {error.strerror}.") from None
    if rest:
        yield _decoded(rest)


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
