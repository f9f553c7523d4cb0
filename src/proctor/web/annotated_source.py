"""Shows the text of a suite with each problem below its line; of a long text only the lines nearby."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from proctor.model import Problem
from proctor.reports.formatting import truncate_with_count
from proctor.services.suites.upload import Upload

MAX_WHOLE_LINES: Final = 60
"""A text of at most this many lines is shown in full."""
CONTEXT_LINES: Final = 2
"""Lines shown before and after a line with a problem."""
MAX_PROBLEMS: Final = 100
"""Problems shown at their lines; more would slow down the browser and the reader."""
MAX_LINE_LENGTH: Final = 600
"""Characters shown of one line."""


class AnnotatedLine(Struct, frozen=True):
    """One line of a file."""

    number: int
    text: str
    problems: tuple[Problem, ...] = ()
    skipped: int = 0
    """Number of lines left out before this one."""


class AnnotatedFile(Struct, frozen=True, kw_only=True):
    """One file with its errors and warnings."""

    path: str
    """Empty for the whole upload."""
    anchor: str
    """Prefix of the ids of its lines."""
    unplaced: tuple[Problem, ...]
    """Problems without a line."""
    lines: tuple[AnnotatedLine, ...]
    after: int
    """Number of lines after the last one shown."""


class PlacedProblem(Struct, frozen=True):
    """A problem with the place where its line is shown."""

    problem: Problem
    anchor: str
    """The id of its line; empty if it has none."""


class AnnotatedSource(Struct, frozen=True, kw_only=True):
    """All files of an upload that have something to show."""

    problems: tuple[PlacedProblem, ...]
    """The problems that are shown, errors first."""
    files: tuple[AnnotatedFile, ...]
    left_out: int
    """Number of problems not shown."""


def annotate(upload: Upload, problems: Iterable[Problem]) -> AnnotatedSource:
    """Returns the lines of an upload that have problems; if there are too many, errors come first.

    Args:
        upload: the files.
        problems: in the order of files and lines.
    """
    problem_list = list(problems)
    shown_indices = sorted(
        range(len(problem_list)), key=lambda index: (problem_list[index].level != "error", index)
    )[:MAX_PROBLEMS]
    by_path: Mapping[str, list[Problem]] = defaultdict(list)
    for index in sorted(shown_indices):
        by_path[problem_list[index].path].append(problem_list[index])
    files = [
        _annotate_file(upload, path, file_problems, f"file-{number}-line-" if number else "line-")
        for number, (path, file_problems) in enumerate(by_path.items())
    ]
    placed = tuple(
        PlacedProblem(problem, f"{file.anchor}{line.number}" if line else "")
        for file in files
        for line, problems in ((None, file.unplaced), *((line, line.problems) for line in file.lines))
        for problem in problems
    )
    return AnnotatedSource(
        problems=tuple(sorted(placed, key=lambda place: place.problem.level != "error")),
        files=tuple(files),
        left_out=len(problem_list) - len(shown_indices),
    )


def _annotate_file(upload: Upload, path: str, problems: list[Problem], anchor: str) -> AnnotatedFile:
    data = upload.files.get(path)
    # As files have lines, and not at every character that could end one.
    texts = [] if data is None else data.decode("utf-8-sig", "replace").replace("\r\n", "\n").split("\n")
    if texts and not texts[-1]:
        texts.pop()
    by_line: dict[int, list[Problem]] = defaultdict(list)
    unplaced = []
    for problem in problems:
        if problem.line is not None and 0 < problem.line <= len(texts):
            by_line[problem.line].append(problem)
        else:
            unplaced.append(problem)
    lines = tuple(_annotate_lines(texts, by_line))
    return AnnotatedFile(
        path="" if path == upload.main and upload.is_folder else path,
        anchor=anchor,
        unplaced=tuple(unplaced),
        lines=lines,
        after=len(texts) - (lines[-1].number if lines else 0),
    )


def _annotate_lines(texts: list[str], by_line: Mapping[int, list[Problem]]) -> Iterator[AnnotatedLine]:
    numbers: Iterable[int] = range(1, len(texts) + 1)
    if len(texts) > MAX_WHOLE_LINES:
        nearby = {
            nearby for line in by_line for nearby in range(line - CONTEXT_LINES, line + CONTEXT_LINES + 1)
        }
        numbers = sorted(line for line in nearby if 0 < line <= len(texts))
    last = 0
    for number in numbers:
        text = truncate_with_count(texts[number - 1], MAX_LINE_LENGTH)
        yield AnnotatedLine(number, text, tuple(by_line.get(number, ())), number - last - 1)
        last = number
