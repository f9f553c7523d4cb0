"""Problems to lines."""

from __future__ import annotations

import pytest

from proctor.model import Problem
from proctor.reports.problems import problem_lines


def warning(number: int, code: str = "odd", path: str = "s.jsonl") -> Problem:
    return Problem(level="warning", code=code, message=f"Odd {number}.", path=path, line=number)


def error(number: int) -> Problem:
    return Problem(code="bad", message=f"Bad {number}.", path="s.jsonl", line=number)


def test_every_problem_is_a_line_in_its_place() -> None:
    assert problem_lines([warning(1), error(2), warning(3, "rare")]) == [
        "s.jsonl:1: warning: Odd 1.",
        "s.jsonl:2: error: Bad 2.",
        "s.jsonl:3: warning: Odd 3.",
    ]
    assert problem_lines([]) == []


def test_every_error_is_listed_however_many() -> None:
    assert len(problem_lines([error(number) for number in range(40)])) == 40


@pytest.mark.parametrize(("count", "line_count", "more"), [(5, 5, []), (6, 5, [1]), (40, 5, [35])])
def test_more_than_five_warnings_of_one_code_are_counted(
    count: int, line_count: int, more: list[int]
) -> None:
    lines = problem_lines([warning(number) for number in range(count)])
    assert lines[:line_count] == [f"s.jsonl:{number}: warning: Odd {number}." for number in range(line_count)]
    assert lines[line_count:] == [
        f"s.jsonl: warning: {remainder} more with the code odd." for remainder in more
    ]


def test_warnings_are_counted_by_file_and_code() -> None:
    problems = [warning(n, code, path) for n in range(5) for code in ("a", "b") for path in ("x", "y")]
    assert len(problem_lines(problems)) == 20


def test_a_message_of_many_lines_is_one_line() -> None:
    assert problem_lines([Problem(code="c", message="One\ntwo.", path="s", line=1)]) == [
        "s:1: error: One two."
    ]
