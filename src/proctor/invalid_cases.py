"""Turns unreadable parts of a suite's file into placeholders, cases that are never sent and count as errors.

Pure. A row that a dialect cannot read becomes as many placeholders as it would be cases, so that no suite
shrinks. If the number is unknown, it becomes one placeholder, and so does every case.
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

from proctor.model import Case, Failure, Problem, Suite, UnreadableRow
from proctor.plurals import join_names, pluralize
from proctor.protocols import CaseAtLine, SuiteSource

UNSUPPORTED_CODES: Final = frozenset(
    {
        *("code", "few-shot", "not-fetched", "not-supported", "template-code", "unknown-class"),
        *("unsupported", "unsupported-type"),
    }
)
"""Codes of problems with features that Proctor does not support; all others are mistakes in the file."""
_FILE_LEVEL_CODES: Final = frozenset(
    {"hash-mismatch", "late-header", "manifest-mismatch", "unknown-field", "unsupported"}
)
"""Codes of problems of a file that may leave its cases intact."""
_NESTED_FIELD: Final = re.compile(r"[.\[]")
_MAX_NAMED: Final = 10
"""The maximum number of placeholders named in one line."""


def failure_kind(problems: Iterable[Problem]) -> Literal["invalid", "unsupported"]:
    """Returns the kind of the failure: `unsupported` if none of the problems is a mistake."""
    return "unsupported" if all(problem.code in UNSUPPORTED_CODES for problem in problems) else "invalid"


def setup_failure(case: Case) -> Failure | None:
    """Returns why a placeholder is not sent; None for any other case."""
    if not case.problems:
        return None
    reasons = (f"{_location(problem)}: {problem.message}" for problem in case.problems)
    return Failure(stage="setup", kind=failure_kind(case.problems), message=" ".join(reasons))


def summarize_placeholders(cases: Iterable[tuple[str, Case]]) -> str:
    """Returns one line that counts the given placeholders, pairs of name and case; empty without any."""
    names: dict[str, list[str]] = {"invalid": [], "unsupported": []}
    for name, case in cases:
        names[failure_kind(case.problems)].append(f"{name} ({_location(case.problems[0])})")
    return " ".join(
        f"{pluralize(len(entries), 'case')} {'is' if len(entries) == 1 else 'are'} {kind} and "
        f"{'counts as an error' if len(entries) == 1 else 'count as errors'}: "
        f"{join_names(entries, _MAX_NAMED)}."
        for kind, entries in names.items()
        if entries
    )


def _location(problem: Problem) -> str:
    return problem.path if problem.line is None else f"{problem.path}:{problem.line}"


class PlaceholderFactory:
    """Makes the placeholders of one suite, with unique ids."""

    def __init__(self, source: SuiteSource, items: Iterable[Suite | CaseAtLine | Problem]) -> None:
        """Reads the suite once to collect its errors and ids.

        Args:
            source: the suite, for its path.
            items: what its dialect yields.
        """
        self._path = source.path
        self._folder = source.path if source.is_folder else os.path.dirname(source.path)  # noqa: PTH120
        self._shared_problems: list[Problem] = []
        self._ids: set[str] = set()
        self.has_cases = False
        """Whether the file has any case, readable or not."""
        for item in items:
            if isinstance(item, CaseAtLine):
                self._ids.add(item.case.id)
                self.has_cases = True
            elif isinstance(item, Problem) and item.level == "error":
                is_rest = item.row is not None and item.row.is_rest
                self.has_cases = self.has_cases or (_is_row_problem(item) and not is_rest)
                if is_rest or not (_is_row_problem(item) or self._leaves_cases_intact(item)):
                    self._shared_problems.append(item)

    def replace_bad_rows(
        self, items: Iterable[Suite | CaseAtLine | Problem]
    ) -> Iterator[Suite | CaseAtLine | Problem | Case]:
        """Yields the suite again, with placeholders in place of errors."""
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
            elif self._leaves_cases_intact(item):
                yield from self._row_placeholders(problems)
                yield self._placeholder([item], UnreadableRow(path=item.path, line=item.line or 1))
        yield from self._row_placeholders(problems)

    def for_case(self, case_at_line: CaseAtLine, problems: list[Problem]) -> Case | None:
        """Returns the placeholder of a case that was read; None if the case can be run.

        Args:
            case_at_line: the case.
            problems: what is wrong with it.
        """
        case = case_at_line.case
        if not problems and not self._shared_problems:
            return None
        again = any(problem.code == "duplicate-id" for problem in problems)
        return Case(
            id=self._unused_id(case.id) if again else case.id,
            input=(),
            tags=case.tags,
            category=case.category,
            problems=self._with_relative_paths([*self._shared_problems, *problems]),
        )

    def for_file(self, problems: Iterable[Problem]) -> Case:
        """Returns the placeholder of a file in which nothing can be read."""
        return self._placeholder([*problems], UnreadableRow(path=self._path, line=1))

    def _leaves_cases_intact(self, problem: Problem) -> bool:
        """Returns whether a problem leaves the cases intact, as it is of a top-level field of the file.

        Problems of other files, such as a prompt or a tool, affect the cases that use them.
        """
        is_top_level = problem.path == self._path and _NESTED_FIELD.search(problem.field or "") is None
        return is_top_level and problem.code in _FILE_LEVEL_CODES

    def _row_placeholders(self, problems: list[Problem]) -> Iterator[Case]:
        """Yields the placeholders of the row that has these problems, and clears the list."""
        if problems:
            row = problems[0].row or UnreadableRow(path=problems[0].path, line=problems[0].line or 1)
            for _ in range(row.cases):
                yield self._placeholder(problems, row)
            problems.clear()

    def _placeholder(self, problems: list[Problem], row: UnreadableRow) -> Case:
        where = self._relative_path(row.path)
        other = "" if row.path == self._path else f"{where}-"
        name = next((problem.case for problem in problems if problem.case), f"{other}line-{row.line}")
        row = replace(row, path=where, cases=1)
        return Case(
            id=self._unused_id(name),
            input=(),
            problems=tuple(replace(problem, row=row) for problem in self._with_relative_paths(problems)),
        )

    def _unused_id(self, name: str) -> str:
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        unused = next(candidate for candidate in names if candidate not in self._ids)
        self._ids.add(unused)
        return unused

    def _with_relative_paths(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """Returns the problems with paths relative to the suite's folder, without folders of this machine."""
        return tuple(replace(problem, path=self._relative_path(problem.path)) for problem in problems)

    def _relative_path(self, path: str) -> str:
        """Returns a path relative to the suite's folder."""
        return os.path.relpath(path or self._path, self._folder or ".").replace(os.sep, "/")


def _is_row_problem(problem: Problem) -> bool:
    """Returns whether a problem excludes a row; third-party dialects may only name the case."""
    return problem.row is not None or problem.case is not None


def _share_row(first: Problem, second: Problem) -> bool:
    if first.row is None and second.row is None:
        return (first.path, first.case) == (second.path, second.case)
    return first.row is second.row  # rows on one line are equal
