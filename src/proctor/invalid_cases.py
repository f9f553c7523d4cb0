"""What cannot be run in a suite's file, to placeholders: cases that are never sent and count as errors. Pure.

A row that a dialect cannot read becomes as many placeholders as it would be cases, so that no suite shrinks.
If the number is unknown, it becomes one, and so does every case.
A problem of the file that changes no case becomes one placeholder; any other problem of the file makes a
placeholder of every case, since it is unknown what the cases would mean without it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import Final, Literal

from msgspec.structs import replace

from proctor.model import Case, Failure, Problem, Row, Suite
from proctor.plurals import counted, listed
from proctor.protocols import Placed, Source

UNSUPPORTED: Final = frozenset(
    {
        *("code", "few-shot", "not-fetched", "not-supported", "template-code", "unknown-class"),
        *("unsupported", "unsupported-type"),
    }
)
"""Codes of problems with what Proctor knows and cannot do; all others are mistakes in the file."""
_BESIDE_CASES: Final = frozenset(
    {"hash-mismatch", "late-header", "manifest-mismatch", "unknown-field", "unsupported"}
)
"""Codes of problems of a file that may leave its cases what they are."""
_INSIDE: Final = re.compile(r"[.\[]")
_MAX_NAMED: Final = 10
"""How many placeholders one line names."""


def kind_of(problems: Iterable[Problem]) -> Literal["invalid", "unsupported"]:
    """The kind of the ERROR: `unsupported` where nothing in the file is a mistake."""
    return "unsupported" if all(problem.code in UNSUPPORTED for problem in problems) else "invalid"


def failure_of(case: Case) -> Failure | None:
    """Why a case is never sent; None for one that is no placeholder."""
    if not case.problems:
        return None
    reasons = (f"{_place(problem)}: {problem.message}" for problem in case.problems)
    return Failure(stage="setup", kind=kind_of(case.problems), message=" ".join(reasons))


def summary(cases: Iterable[tuple[str, Case]]) -> str:
    """One line that counts placeholders, each given by its name and itself; empty without any."""
    names: dict[str, list[str]] = {"invalid": [], "unsupported": []}
    for name, case in cases:
        names[kind_of(case.problems)].append(f"{name} ({_place(case.problems[0])})")
    return " ".join(
        f"{counted(len(entries), 'case')} {'is' if len(entries) == 1 else 'are'} {kind} and "
        f"{'counts as an error' if len(entries) == 1 else 'count as errors'}: {listed(entries, _MAX_NAMED)}."
        for kind, entries in names.items()
        if entries
    )


def _place(problem: Problem) -> str:
    return problem.path if problem.line is None else f"{problem.path}:{problem.line}"


class Placeholders:
    """The placeholders of one suite, each with an id of its own."""

    def __init__(self, source: Source, items: Iterable[Suite | Placed | Problem]) -> None:
        """Read a suite to its end for its errors and its ids.

        Args:
            source: the suite, for its path.
            items: what its dialect reads from it.
        """
        self._path = source.path
        self._folder = source.path if source.is_folder else os.path.dirname(source.path)  # noqa: PTH120
        self._shared_problems: list[Problem] = []
        self._ids: set[str] = set()
        self.has_cases = False
        """Whether anything in the file is a case, right or wrong."""
        for item in items:
            if isinstance(item, Placed):
                self._ids.add(item.case.id)
                self.has_cases = True
            elif isinstance(item, Problem) and item.level == "error":
                is_rest = item.row is not None and item.row.is_rest
                self.has_cases = self.has_cases or (_is_row_problem(item) and not is_rest)
                if is_rest or not (_is_row_problem(item) or self._is_beside_cases(item)):
                    self._shared_problems.append(item)

    def in_place_of_rows(
        self, items: Iterable[Suite | Placed | Problem]
    ) -> Iterator[Suite | Placed | Problem | Case]:
        """The same suite again, with placeholders where errors are."""
        problems: list[Problem] = []
        for item in items:
            if not isinstance(item, Problem):
                yield from self._row_placeholders(problems)
                yield item
            elif item.level == "warning":
                yield item
            elif _is_row_problem(item):
                if problems and not _share_row(problems[-1], item):
                    yield from self._row_placeholders(problems)
                problems.append(item)
            elif self._is_beside_cases(item):
                yield from self._row_placeholders(problems)
                yield self._placeholder([item], Row(path=item.path, line=item.line or 1))
        yield from self._row_placeholders(problems)

    def of_case(self, placed: Placed, problems: list[Problem]) -> Case | None:
        """The placeholder of a case that was read; None where it can be run.

        Args:
            placed: the case.
            problems: what is wrong with it.
        """
        case = placed.case
        if not problems and not self._shared_problems:
            return None
        again = any(problem.code == "duplicate-id" for problem in problems)
        return Case(
            id=self._unused(case.id) if again else case.id,
            input=(),
            tags=case.tags,
            category=case.category,
            problems=self._with_relative_paths([*self._shared_problems, *problems]),
        )

    def of_file(self, problems: Iterable[Problem]) -> Case:
        """The placeholder of a file in which nothing can be read."""
        return self._placeholder([*problems], Row(path=self._path, line=1))

    def _is_beside_cases(self, problem: Problem) -> bool:
        """Whether it leaves the cases what they are: of a whole field of the file itself.

        What stands in another file, such as a prompt or a tool, is a part of the cases that use it.
        """
        is_top_level = problem.path == self._path and _INSIDE.search(problem.field or "") is None
        return is_top_level and problem.code in _BESIDE_CASES

    def _row_placeholders(self, problems: list[Problem]) -> Iterator[Case]:
        """The placeholders of the row that has these problems, which are taken from the list."""
        if problems:
            row = problems[0].row or Row(path=problems[0].path, line=problems[0].line or 1)
            for _ in range(row.cases):
                yield self._placeholder(problems, row)
            problems.clear()

    def _placeholder(self, problems: list[Problem], row: Row) -> Case:
        where = self._relative_path(row.path)
        other = "" if row.path == self._path else f"{where}-"
        name = next((problem.case for problem in problems if problem.case), f"{other}line-{row.line}")
        row = replace(row, path=where, cases=1)
        return Case(
            id=self._unused(name),
            input=(),
            problems=tuple(replace(problem, row=row) for problem in self._with_relative_paths(problems)),
        )

    def _unused(self, name: str) -> str:
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        unused = next(candidate for candidate in names if candidate not in self._ids)
        self._ids.add(unused)
        return unused

    def _with_relative_paths(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """The problems with paths from the suite's folder, so that they say nothing of this machine."""
        return tuple(replace(problem, path=self._relative_path(problem.path)) for problem in problems)

    def _relative_path(self, path: str) -> str:
        """The path from the suite's folder, however that was written."""
        return os.path.relpath(path or self._path, self._folder or ".").replace(os.sep, "/")


def _is_row_problem(problem: Problem) -> bool:
    """Whether it keeps a row from being a case; a dialect of another package may only say which case."""
    return problem.row is not None or problem.case is not None


def _share_row(first: Problem, second: Problem) -> bool:
    if first.row is None and second.row is None:
        return (first.path, first.case) == (second.path, second.case)
    return first.row is second.row  # rows on one line are equal
