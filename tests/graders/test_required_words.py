"""Words and numbers that an answer must have, or must not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.grading import grade_answer


@pytest.mark.parametrize(
    ("word", "answer", "is_present"),
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
        # numbers are compared as numbers
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
def test_a_word_or_number_is_there_as_a_whole(word: str, answer: str, is_present: bool) -> None:
    assert grade_answer("required_words", {"words": [word]}, answer).passed is is_present
    assert grade_answer("forbidden_words", {"words": [word]}, answer).passed is not is_present


@pytest.mark.parametrize(
    ("word", "answer", "is_present"),
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
def test_a_required_word_is_there_in_its_inflected_forms(word: str, answer: str, is_present: bool) -> None:
    assert grade_answer("required_words", {"words": [word]}, answer).passed is is_present


@given(
    st.lists(st.text(min_size=1).filter(lambda text: text.strip() != ""), min_size=1),
    st.text(),
    st.booleans(),
)
def test_words_are_there_or_not_and_never_an_error(words: list[str], answer: str, whole: bool) -> None:
    params = {"words": words, "whole_words": whole}
    required, forbidden = (
        grade_answer(f"{name}_words", params, answer) for name in ("required", "forbidden")
    )
    assert required.value is not None
    assert forbidden.value is not None
    assert required.value + forbidden.value >= 1 - 1e-9  # a form of a word is required, and is not forbidden


@pytest.mark.parametrize("word", ["a b", " a", "5 kg", "1:5", "new"])
@pytest.mark.parametrize("piece", [" ", "a ", "a  ", "5", "1.", "C+"])
def test_a_long_hostile_answer_takes_time_in_proportion(word: str, piece: str) -> None:
    """These 200,000 characters would take minutes in quadratic time."""
    assert grade_answer("required_words", {"words": [word]}, piece * (200_000 // len(piece))).reason


@given(st.text(min_size=1).filter(lambda text: text.strip() != ""))
def test_a_word_is_found_in_itself(word: str) -> None:
    assert grade_answer("required_words", {"words": [word]}, word).passed
