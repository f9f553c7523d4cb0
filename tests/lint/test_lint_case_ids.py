"""`similar-id` and `mixed-id-languages`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proctor.graders import GRADERS
from proctor.lint.linter import Linter
from proctor.model import Case, Suite
from proctor.protocols import CaseAtLine
from support.linting import lint_cases


@pytest.fixture
def lint_ids() -> Callable[..., list[tuple[int | None, str]]]:
    """Returns a function that lints cases with these ids, and returns the line and code of each problem."""

    def run(*ids: str) -> list[tuple[int | None, str]]:
        cases = [Case(id=case_id, input=(), assertions=()) for case_id in ids]
        return [(problem.line, problem.code) for problem in lint_cases(*cases, ignored=("near-duplicate",))]

    return run


@pytest.mark.parametrize(
    ("first", "second", "similar"),
    [
        ("sum_1", "Sum_1", True),
        ("sum 1", "sum1", True),
        ("sum 1", "sum  1", True),
        ("ＳＵＭ", "sum", True),
        ("sum_1", "sum_2", False),
        ("sum_1", "sum-1", False),
    ],
)
def test_ids_that_look_alike_are_told_at_the_second(
    lint_ids: Callable[..., list[tuple[int | None, str]]], first: str, second: str, similar: bool
) -> None:
    assert ((2, "similar-id") in lint_ids(first, second)) is similar


def test_the_message_names_the_other_case_and_its_line() -> None:
    (problem,) = lint_cases(Case(id="Ada", input=()), Case(id="ada", input=()), ignored=("near-duplicate",))
    assert "'Ada' at line 1" in problem.message
    assert problem.case == "ada"


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (("sum_1", "sum_2"), []),
        (("test_1", "test_2"), []),
        (("sum_1", "test_2", "test_3"), []),
        (("sum_1", "sum_2", "сумма_3"), [(3, "mixed-id-languages")]),
        (("сумма_1", "сумма_2"), []),
        (("café_1", "sum_2"), []),
        (("東京タワー", "東京の橋"), []),
        (("1", "2"), []),
    ],
)
def test_languages_of_ids(
    lint_ids: Callable[..., list[tuple[int | None, str]]],
    ids: tuple[str, ...],
    expected: list[tuple[int | None, str]],
) -> None:
    assert lint_ids(*ids) == expected


def test_letters_that_look_alike_inside_one_word_are_told_at_their_case() -> None:
    cases = [Case(id=case_id, input=()) for case_id in ("score", "sсore")]  # the second has a Cyrillic letter
    problems = lint_cases(*cases, ignored=("near-duplicate",))
    assert {problem.line for problem in problems} == {2}
    assert "Latin and Cyrillic letters" in problems[0].message


@pytest.mark.parametrize(
    ("have_ids", "lines"),
    [((False, True, False), [1]), ((True, True, True), []), ((False, False, False), [])],
)
def test_some_cases_without_an_id_among_others_are_told_once(
    have_ids: tuple[bool, ...], lines: list[int]
) -> None:
    linter = Linter("s.jsonl", GRADERS.get, ("near-duplicate",))
    for line, has_id in enumerate(have_ids, 1):
        linter.add(CaseAtLine(Case(id=f"test_{line}", input=()), line, has_own_id=has_id))
    assert [problem.line for problem in linter.finish(Suite(name="s", dialect="meridian"))] == lines
