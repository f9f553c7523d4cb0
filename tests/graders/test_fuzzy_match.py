"""Answers and expected texts by their words alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.graders.fuzzy_match import FuzzyMatch, normalize_words
from proctor.model import Case, Message, Output
from proctor.protocols import GradingInput

CASE = Case(id="c", input=(Message(role="user", content="Who?"),))


def passed(answer: str, *values: str) -> bool | None:
    return FuzzyMatch(values=values).grade(GradingInput(case=CASE, output=Output(text=answer))).passed


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("The Golden Gate bridge!", "golden gate"),
        ("golden gate", "The Golden Gate Bridge"),
        ("It is   AN apple.", "apple"),
        ("No", "not now"),
        ("O'Brien", "obrien"),
    ],
)
def test_one_contains_the_other(answer: str, value: str) -> None:
    assert passed(answer, value)
    assert passed(answer, "something else", value)


@pytest.mark.parametrize("answer", ["", " ", "the", "...", "pear"])
def test_an_answer_without_those_words_fails(answer: str) -> None:
    assert passed(answer, "apple") is False


def test_the_reason_names_the_first_that_matches() -> None:
    mark = FuzzyMatch(values=("x y", "tea")).grade(GradingInput(case=CASE, output=Output(text="Tea?")))
    assert mark.reason == "The answer's words match 'tea'."


@pytest.mark.parametrize("values", [(), ("",), ("the",), ("a", "b")])
def test_values_without_words_are_refused(values: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="values"):
        FuzzyMatch(values=values)


@pytest.mark.slow
@given(st.text())
def test_words_have_no_capitals_or_double_spaces(text: str) -> None:
    words = normalize_words(text)
    assert words == " ".join(words.split())
    assert normalize_words(words) == words or any(char != char.lower() for char in words)
