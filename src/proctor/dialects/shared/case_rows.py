"""Reads rows as cases: what all formats with one case a row have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from proctor.model import Problem
from proctor.protocols import CaseAtLine
from proctor.validation import ProblemLog


def read_cases(
    rows: Iterable[tuple[int, dict[str, Any]] | tuple[int, int, dict[str, Any]] | Problem],
    path: str,
    parse: Callable[[ProblemLog, dict[str, Any], int], CaseAtLine | None],
    subject: str = "Case",
    parse_usual: Callable[[dict[str, Any], int, int], CaseAtLine | None] | None = None,
) -> Iterator[CaseAtLine | Problem]:
    """Yields the case and the problems of each row; a row with an error has no case.

    Args:
        rows: the line, the number, if it is not the line, and the fields of each row, or a problem instead.
        path: the file.
        parse: takes the log for the problems, the fields and the number of a row, and returns its case.
        subject: what messages call a row.
        parse_usual: takes the fields, the line and the number of a row, and returns its case if the row has
            only usual fields and no problem; None for any other row, which is then parsed by `parse`.
    """
    for row in rows:
        if isinstance(row, Problem):
            yield row
            continue
        usual_case = None if parse_usual is None else parse_usual(row[-1], row[0], row[-2])
        if usual_case is not None:
            yield usual_case
            continue
        notes = ProblemLog(path, row[0], subject, of_case=True)
        case = parse(notes, row[-1], row[-2])
        if notes.problems:
            yield from notes.problems
        if case is not None and not notes.has_errors:
            yield case


def list_objects(
    items: list[Any], name: str, path: str
) -> Iterator[tuple[int, int, dict[str, Any]] | Problem]:
    """Yields the line, the place and the value of each object of the list in a field, or a problem."""
    lines = getattr(items, "lines", [1] * len(items))
    for place, item in enumerate(items):
        if isinstance(item, dict):
            yield lines[place], place, item
        else:
            notes = ProblemLog(path, lines[place], of_case=True)
            notes.report_wrong_type(f"{name}[{place}]", item, "an object")
            yield from notes.problems
