from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import CannotScore
from proctor.graders.consistency import normalize_answer
from proctor.model import GraderResult, Output
from support.grading import grade_answer


def grade(params: dict[str, Any], *answers: str) -> GraderResult:
    outputs = tuple(Output(text=answer) for answer in answers)
    return grade_answer("consistency", params, outputs=outputs)


@pytest.mark.parametrize(
    ("params", "answers", "value", "passed"),
    [
        ({}, ["Lima", "lima.", " LIMA "], 1.0, True),
        ({}, ["a", "a", "a", "a", "b"], 0.8, True),
        ({}, ["a", "a", "a", "b"], 0.75, False),
        ({"min_share": 0.75}, ["a", "a", "a", "b"], 0.75, True),
        ({"expected": "Lima"}, ["Lima", "lima"], 1.0, True),
        ({"expected": "Quito"}, ["Lima", "lima"], 0.0, False),
        ({"expected": "Lima"}, ["It is Lima", "It is Lima"], 0.0, False),
        ({"expected": "Lima", "match": "contains"}, ["It is Lima", "It is Lima"], 1.0, True),
        ({"expected": "Lima"}, ["Lima", "Quito"], 0.5, False),
        ({}, ["", "", ""], 0.0, False),
        ({}, ["?!", "?!", "…"], 2 / 3, False),
        ({}, ["5", "-5"], 0.5, False),
        ({}, ["50", "50%"], 0.5, False),
        ({}, ["**yes**", "“Yes”", "yes!"], 1.0, True),
    ],
)
def test_the_value_is_the_share_of_the_most_frequent_answer(
    params: dict[str, Any], answers: list[str], value: float, passed: bool
) -> None:
    mark = grade(params, *answers)
    assert mark.value == pytest.approx(value)
    assert mark.passed is passed


def test_share_and_counts_are_kept_also_when_the_answer_is_wrong() -> None:
    mark = grade({"expected": "b"}, "a", "A", "b")
    assert mark.details == {"share": pytest.approx(2 / 3), "answers": {"a": 2, "b": 1}}


@pytest.mark.parametrize("answers", [[], ["alone"]])
def test_fewer_than_two_answers_are_unscored(answers: list[str]) -> None:
    with pytest.raises(CannotScore, match="needs at least two"):
        grade({}, *answers)


@given(st.lists(st.text(), min_size=2, max_size=8))
def test_the_share_is_that_of_one_of_the_answers(answers: list[str]) -> None:
    mark = grade({}, *answers)
    share = mark.details["share"]
    assert 1 / len(answers) <= share <= 1
    assert mark.value in (0.0, share)


@given(st.text())
def test_an_answer_agrees_with_itself_in_capitals_folded(text: str) -> None:
    assert normalize_answer(text.casefold()) == normalize_answer(f" {text} ")


def test_many_different_answers_are_not_all_kept() -> None:
    assert len(grade({}, *[str(number) for number in range(100)]).details["answers"]) == 20
