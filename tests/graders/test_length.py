from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.graders.length import count_sentences
from support.grading import grade_answer


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("   \n", 0),
        ("...", 0),
        ("Hello", 1),
        ("Hello. World!", 2),
        ("one. two. three.", 3),
        ("What?! No.", 2),
        ("Dr. Ito is 3.5 m tall.", 1),
        ("Use a list, e.g. of names.", 1),
        ("He left at 5 p.m. Then he ate.", 2),
        ("He left at 5 p.m. and ate.", 1),
        ("Bring bread, milk, etc. Then go home.", 2),
        ("Wait... what?", 1),
        ('"Stop!" she said.', 1),
        ('She said "Stop." Then she left.', 2),
        ("The answer is B. Because it fits.", 2),
        ("By J. Ito and Anna W. Berg.", 1),
        ("So do I. You too.", 2),
        ("- one\n- two", 2),
        ("1. One\n2. Two", 2),
        ("A title\n\nIts text.", 2),
        ("A line that\nis wrapped.", 1),
        ("Done. 🎉", 1),
        ("See https://a.example/b?c.d today.", 1),
        ("你好。再见！", 2),
        ("It costs $3.50. Cheap!", 2),
    ],
)
def test_sentences_end_where_a_reader_would_say_so(text: str, count: int) -> None:
    assert count_sentences(text) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("- a\n* b\n+ c\n• d\n•e", 5),
        ("1. a\n2) b\n  10. c", 3),
        ("---\n**bold** a\n-5 degrees\n3.5 m\n-", 0),
        ("a - b\nc * d", 0),
        ("", 0),
    ],
)
def test_bullets_are_lines_that_begin_with_a_mark(text: str, count: int) -> None:
    assert grade_answer("length", {"max_bullets": 9}, text).entries[0].evidence == f"{count} bullets"


@given(st.text(alphabet='ab. !?\n-1)"…。A'))
def test_there_are_no_more_sentences_than_letters_and_digits(text: str) -> None:
    assert 0 <= count_sentences(text) <= sum(char.isalnum() for char in text)


@pytest.mark.slow
@pytest.mark.parametrize("piece", [".", ". ", "a. ", "\n \n", "- ", "J. ", "a", '!"', "\n"])
def test_a_long_hostile_answer_is_counted_to_its_end(piece: str) -> None:
    count = 200_000 // len(piece)
    assert 1 <= count_sentences(piece * count + "x") <= count + 1
    assert grade_answer("length", {"max_bullets": 1}, piece * count + "x").passed
