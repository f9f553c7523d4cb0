"""The word a user gives for a suite, to files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import proctor
from proctor.errors import UsageError, suggestion
from proctor.ports import Source

TIERS = ("cheap", "moderate", "comprehensive")
"""The built-in suites, whose names no other suite may take."""

_BUILTIN = Path(proctor.__file__).with_name("suites") / "v1.0"
_ENDINGS = (".jsonl", ".csv", ".ndjson", ".json")


class NoSuchSuite(UsageError):
    """A word that stands for no file."""


def find(word: str) -> list[Path]:
    """The files a word stands for.

    In this order: a file; a folder, which stands for every suite file in it; a built-in tier; a file
    `suites/WORD.*`.

    Raises:
        NoSuchSuite: it stands for nothing here; a store may still have a suite of that name.
        UsageError: it stands for more than one file, or for a folder without any.
    """
    if not word.strip():
        raise UsageError("The name of the suite is empty. Is a variable not set?")
    path = Path(word)
    if path.is_file():
        return [path]
    if path.is_dir():
        inside = sorted(file for file in path.iterdir() if file.suffix.lower() in _ENDINGS)
        if not inside:
            raise UsageError(f"The folder {word!r} has no suite in it (a file ending in .jsonl or .csv).")
        return inside
    if word in TIERS:
        return [_BUILTIN / f"{word}.jsonl"]
    named = sorted(file for file in Path("suites").glob("*") if file.is_file() and file.stem == word)
    if len(named) > 1:
        found = ", ".join(file.as_posix() for file in named)
        raise UsageError(f"The suite {word!r} is more than one file: {found}. Name one of them.")
    if named:
        return named
    known = sorted({*TIERS, *(file.stem for file in Path("suites").glob("*") if file.is_file())})
    raise NoSuchSuite(
        f"There is no suite {word!r}: no file, no folder and no name. {suggestion(word, known)}"
    )


def source_of(path: Path) -> Source:
    """A file as a dialect sees it.

    Raises:
        UsageError: it cannot be opened.
    """
    try:
        str(path).encode("utf-8")
        path.open("rb").close()
    except UnicodeEncodeError:
        raise UsageError(f"The name of the suite {str(path)!r} is not UTF-8. Rename the file.") from None
    except OSError as error:
        raise UsageError(f"The suite {str(path)!r} cannot be read: {error.strerror}.") from None

    def lines() -> Iterator[bytes]:
        with path.open("rb") as file:
            yield from file

    def neighbour(name: str) -> bytes | None:
        beside = path.with_name(name)
        return beside.read_bytes() if beside.is_file() else None

    return Source(path=str(path), lines=lines, neighbour=neighbour)
