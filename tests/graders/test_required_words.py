"""Words and numbers that an answer must have, or must not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.graders.required_words import ForbiddenWords, RequiredWords
from support.grading import grade_text


@pytest.mark.parametrize(
    ("word", "answer", "there"),
    [
        ("cat", "The cat sat.", True),
        ("cat", "concatenate", False),
        ("cat", "CAT!", True),
        ("cat", "a cat's tail", True),
        ("cat", "cat_tail", False),
        ("cat", "a dog and a cat", True),
        ("50%", "about 50% of it", True),
        ("50%", "about 150% of it", False),
        ("$8.7M", "It made $8.7M.", True),
        ("$8.7M", "It made $8.7Mio", False),
        ("C++", "C++17 is fine", True),
        ("C++", "written in C++", True),
        ("C++", "OBJC++", False),
        ("...", "wait... what", True),
        ("new york", "in New York today", True),
        ("école", "L'École est là", True),
        ("cafe", "cafe\u0301", False),
        ("東京", "私は東京都に住む", True),
        ("GROSS", "groß", True),
        ("C", "written in C++", False),
        ("C", "C++17 is fine", False),
        ("C", "C# or F#", False),
        ("C", "C++ is not C.", True),
        ("a", "a+b", True),
        ("GPT-4", "GPT-4.1 did it", False),
        ("GPT-4", "It was GPT-4.", True),
        ("3.11", "Python 3.11.2", False),
        ("3.11.2", "Python 3.11.2.4", False),
        ("don't", "I don’t know", True),
        ("don’t", "I don't know", True),
        ("new york", "New\nYork", True),
        ("new  york", "New\u00a0York", True),
        ("new york", "newyork", False),
        ("5 kg", "It weighs 5kg.", True),
        ("5kg", "It weighs 5 kg.", True),
        ("5 kg", "It weighs 15 kg.", False),
        ("5 kg", "It weighs 1.5 kg.", False),
        ("10:30", "at 10:30 sharp", True),
        ("a a", "ba a a", True),
    ],
)
def test_a_word_is_bounded_only_where_it_ends_in_a_word_character(
    word: str, answer: str, there: bool
) -> None:
    assert grade_text(RequiredWords(words=(word,)), answer).passed is there
    assert grade_text(ForbiddenWords(words=(word,)), answer).passed is not there


@pytest.mark.parametrize(
    ("word", "answer", "there"),
    [
        ("8.7", "Revenue was $8.7M.", True),
        ("8.7", "Revenue was 8.70 million.", True),
        ("8.7", "Revenue was $18.7M.", False),
        ("8.7", "Revenue was $8.75M.", False),
        ("10000", "It costs $10,000.", True),
        ("10,000", "It costs 10000 euros.", True),
        ("10000", "It costs €10 000.", True),
        ("10000", "It costs 10,000.00 dollars.", True),
        ("10", "It costs $10,000.", False),
        ("5", "It is 3.5.", False),
        ("5", "It is -5.", False),
        ("-5", "It is −5 degrees.", True),
        ("5", "From 3-5 days.", True),
        ("12", "12km away", True),
        ("3", "The 3rd floor", False),
        ("3", "In Q3 and COVID19", False),
        ("2", "H2O", False),
        ("1000", "1e3 of them", True),
        ("50%", "It is 50 %.", True),
        ("50%", "It is 50.0 percent.", True),
        ("50%", "It is 50.", False),
        ("50", "It is 50%.", True),
        ("$500", "It costs $500.00.", True),
        ("$500", "It costs €500.", False),
        ("9007199254740993", "It is 9007199254740992.", False),
        ("3.11.2", "Python 3.11.2 is out.", True),
        ("5", "1e99999999999999999999 and 5", True),
        ("8.7", "Version 8.7.1 is out.", False),
        ("1", "Version 8.7.1 is out.", False),
        ("10.0", "ping 10.0.0.1", False),
        ("10", "at 10:30", False),
        ("30", "at 10:30", False),
        ("10", "It is 10.", True),
        ("10", "Score:10", True),
        ("10", "10: the last one", True),
    ],
)
def test_a_number_is_compared_as_a_number(word: str, answer: str, there: bool) -> None:
    required = grade_text(RequiredWords(words=(word,)), answer)
    assert required.passed is there
    assert required.reason == (
        "The answer has every required word." if there else f"The answer lacks {word!r}."
    )
    assert grade_text(ForbiddenWords(words=(word,)), answer).passed is not there


@pytest.mark.parametrize(
    ("word", "answer", "there"),
    [
        ("division", "It has three divisions.", True),
        ("Division", "DIVISIONS", True),
        ("box", "two boxes", True),
        ("city", "many cities", True),
        ("carry", "she carried it", True),
        ("divide", "dividing and divided", True),
        ("divide", "dividing it", True),
        ("plant", "they planted it, planting", True),
        ("car", "the car's and the cars' lights", True),
        ("James", "the Jameses", True),
        ("church", "churches", True),
        ("hero", "heroes", True),
        ("stop", "it stopped", False),
        ("car", "he cared", False),
        ("car", "she cares", False),
        ("see", "a seed", False),
        ("star", "staring", False),
        ("plan", "planed wood", False),
        ("plan", "planning", False),
        ("admit", "admitted", False),
        ("machine learning", "machine learnings", True),
        ("key", "two keies", False),
        ("divisions", "one division", False),
        ("cat", "catalogue", False),
        ("pass", "passion", False),
        ("a", "as", False),
        ("no", "nos", False),
        ("C++", "C++s", True),
        ("haus", "häuser", False),
    ],
)
def test_a_required_word_is_there_in_its_inflected_forms(word: str, answer: str, there: bool) -> None:
    assert grade_text(RequiredWords(words=(word,)), answer).passed is there


def test_a_forbidden_word_is_only_the_word_itself() -> None:
    assert grade_text(ForbiddenWords(words=("new",)), "The news is good.").passed


def test_words_may_also_be_parts_and_of_one_case() -> None:
    assert grade_text(RequiredWords(words=("cat",), whole_words=False), "concatenate").passed
    assert not grade_text(RequiredWords(words=("Cat",), ignore_case=False), "the cat").passed
    assert not grade_text(RequiredWords(words=(" cat",), whole_words=False), "concatenate").passed


def test_required_words_give_the_share_that_is_there() -> None:
    mark = grade_text(RequiredWords(words=("one", "two", "three", "four")), "four and two")
    assert (mark.passed, mark.value) == (False, 0.5)
    assert [(entry.text, entry.passed) for entry in mark.entries] == [
        ("one", False),
        ("two", True),
        ("three", False),
        ("four", True),
    ]
    assert mark.reason == "The answer lacks 'one', 'three'."


def test_a_forbidden_word_is_shown_where_it_stands() -> None:
    mark = grade_text(ForbiddenWords(words=("sorry", "maybe")), "Well,\nI am Sorry to say so.")
    assert (mark.passed, mark.value) == (False, 0.5)
    assert mark.entries[0].evidence == "Well, I am Sorry to say so."
    assert mark.entries[1].evidence is None


def test_evidence_is_in_place_although_folding_lengthens_the_answer() -> None:
    mark = grade_text(ForbiddenWords(words=("bad",)), "ß" * 200 + " bad " + "ß" * 200)
    assert " bad " in (mark.entries[0].evidence or "")


@given(
    st.lists(st.text(min_size=1).filter(lambda text: text.strip() != ""), min_size=1),
    st.text(),
    st.booleans(),
)
def test_words_are_there_or_not_and_never_an_error(words: list[str], answer: str, whole: bool) -> None:
    required = grade_text(RequiredWords(words=tuple(words), whole_words=whole), answer)
    forbidden = grade_text(ForbiddenWords(words=tuple(words), whole_words=whole), answer)
    assert required.value is not None
    assert forbidden.value is not None
    assert required.value + forbidden.value >= 1 - 1e-9  # a form of a word is required, and is not forbidden


@pytest.mark.parametrize("word", ["a b", " a", "5 kg", "1:5", "new"])
@pytest.mark.parametrize("piece", [" ", "a ", "a  ", "5", "1.", "C+"])
def test_a_long_hostile_answer_takes_time_in_proportion(word: str, piece: str) -> None:
    """These 200,000 characters would take minutes if it were by the square."""
    assert grade_text(RequiredWords(words=(word,)), piece * (200_000 // len(piece))).reason


@given(st.text(min_size=1).filter(lambda text: text.strip() != ""))
def test_a_word_is_found_in_itself(word: str) -> None:
    assert grade_text(RequiredWords(words=(word,)), word).passed
