"""Letters that answers choose."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.eval import mcq_letter
from proctor.graders.option_letters import find_chosen_letter
from support.grading import grade_answer


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("B", "B"),
        (" (c). ", "C"),
        ("**D**", "D"),
        ("a", "A"),
        ("Answer: C", "C"),
        ("The answer is b.", "B"),
        ("A is wrong, so the answer is D", "D"),
        ("The answer is **(A)**, as option B is too late.", "A"),
        ("First I thought the answer was A. The answer is C.", "C"),
        ("answer = option B", "B"),
        ("Choose option A, not choice C... so option B", "B"),
        ("The answer is a little hidden: C", "C"),
        ("It must be (B), since A comes first.", "B"),
        ("I'd say C.", "C"),
        ("<think>The answer is A, surely.</think> B", "B"),
        ("<THINK>maybe A</THINK>The answer is D", "D"),
        ("C <think>or is the answer A", "C"),
        ("There is a good reason, a very good one: d)", "D"),
        ("A careful reading shows that the answer is C", "C"),
        ("A careful reading shows that the correct option is C", "C"),
        ("After analysis, b fits best", "B"),
        ("", None),
        ("None of them.", None),
        ("E", None),
        ("ABBA", None),
        ("an A-frame or the answer is B", "B"),
    ],
)
def test_the_letter_that_an_answer_chooses(answer: str, letter: str | None) -> None:
    assert find_chosen_letter(answer) == letter


def test_there_may_be_more_letters_than_four() -> None:
    assert find_chosen_letter("The answer is F", "ABCDEF") == "F"
    assert find_chosen_letter("The answer is F, or B", "ABCD") == "B"


WORDS = (
    *("answer", "Answers", "is", "ANSWER:", "option", "choice", "letter", "so"),
    *("a", "b", "C", "(D)", "E", "_B_", "d,", "<think>", "</think>", "\n", "→"),
)


@given(
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
    st.sampled_from("ABCD"),
)
def test_the_grader_and_the_scorer_of_the_library_choose_alike(answer: str, letter: str) -> None:
    assert grade_answer("choice", {"value": letter}, answer).value == mcq_letter(answer, letter)


@given(st.text(alphabet="answer isoptABCD<think>/ .:’", max_size=60))
def test_only_a_letter_of_the_options_is_ever_chosen(answer: str) -> None:
    assert find_chosen_letter(answer) in (None, *"ABCD")


@pytest.mark.parametrize("piece", ["answer ", "answer is ", "<think>", "option: ", "a ", "( "])
def test_a_long_answer_takes_no_time(piece: str) -> None:
    begin = time.process_time()
    find_chosen_letter(piece * 20_000)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("b.", "B"),
        ("Answer: (C)", "C"),
        ("I choose option D", "D"),
        ("A good question!", None),
        ("B or C?", None),
    ],
)
def test_a_letter_that_only_stands_somewhere_can_be_left_out(answer: str, letter: str | None) -> None:
    assert find_chosen_letter(answer, anywhere=False) == letter
