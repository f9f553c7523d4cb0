"""The text of a suite with its problems under their lines; of a long one these lines only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from proctor.model import Problem
from proctor.services.suites.upload import Upload

MAX_WHOLE_LINES: Final = 60
"""A text of so many lines is shown whole."""
CONTEXT_LINES: Final = 2
"""So many lines before and after one with a problem."""
MAX_PROBLEMS: Final = 100
"""So many problems are shown at their lines; a browser reads so many at once, and so does a person."""
MAX_LINE_LENGTH: Final = 600
"""So many characters of a line."""


class AnnotatedLine(Struct, frozen=True):
    """One line of a file."""

    number: int
    text: str
    problems: tuple[Problem, ...] = ()
    skipped: int = 0
    """How many lines before it are not shown."""


class AnnotatedFile(Struct, frozen=True, kw_only=True):
    """One file with what is wrong or doubtful in it."""

    path: str
    """Empty for the whole upload."""
    anchor: str
    """What the ids of its lines begin with."""
    above: tuple[Problem, ...]
    """Problems that have no line."""
    lines: tuple[AnnotatedLine, ...]
    after: int
    """How many lines come after the last one shown."""


class AnnotatedSource(Struct, frozen=True, kw_only=True):
    """All files of an upload that have something to show."""

    files: tuple[AnnotatedFile, ...]
    left_out: int
    """How many problems are not shown."""


def annotate(upload: Upload, problems: Iterable[Problem]) -> AnnotatedSource:
    """The lines of an upload that have problems, errors before warnings where there are too many to show.

    Args:
        upload: the files.
        problems: in the order of files and lines.
    """
    found = list(problems)
    first = sorted(range(len(found)), key=lambda place: (found[place].level != "error", place))[:MAX_PROBLEMS]
    shown: Mapping[str, list[Problem]] = defaultdict(list)
    for place in sorted(first):
        shown[found[place].path].append(found[place])
    files = [
        _of_file(upload, path, of_it, f"file-{nth}-line-" if nth else "line-")
        for nth, (path, of_it) in enumerate(shown.items())
    ]
    return AnnotatedSource(files=tuple(files), left_out=len(found) - len(first))


def _of_file(upload: Upload, path: str, problems: list[Problem], anchor: str) -> AnnotatedFile:
    data = upload.files.get(path)
    # As files have lines, and not at every character that could end one.
    texts = [] if data is None else data.decode("utf-8-sig", "replace").replace("\r\n", "\n").split("\n")
    if texts and not texts[-1]:
        texts.pop()
    at: dict[int, list[Problem]] = defaultdict(list)
    above = []
    for one in problems:
        if one.line is not None and 0 < one.line <= len(texts):
            at[one.line].append(one)
        else:
            above.append(one)
    lines = tuple(_lines(texts, at))
    return AnnotatedFile(
        path="" if path == upload.main and upload.is_folder else path,
        anchor=anchor,
        above=tuple(above),
        lines=lines,
        after=len(texts) - (lines[-1].number if lines else 0),
    )


def _lines(texts: list[str], at: Mapping[int, list[Problem]]) -> Iterator[AnnotatedLine]:
    wanted: Iterable[int] = range(1, len(texts) + 1)
    if len(texts) > MAX_WHOLE_LINES:
        near = {near for line in at for near in range(line - CONTEXT_LINES, line + CONTEXT_LINES + 1)}
        wanted = sorted(line for line in near if 0 < line <= len(texts))
    last = 0
    for number in wanted:
        text = texts[number - 1]
        text = (
            text
            if len(text) <= MAX_LINE_LENGTH
            else f"{text[:MAX_LINE_LENGTH]}… ({len(text) - MAX_LINE_LENGTH:,} more characters)"
        )
        yield AnnotatedLine(number, text, tuple(at.get(number, ())), number - last - 1)
        last = number
