"""The scorers of `proctor.eval` for short answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.eval import contains, exact_match, mcq_letter, numeric_equal, numeric_match

Scorer = Callable[..., float]


@pytest.mark.parametrize(
    ("predicted", "expected", "score"),
    [
        (" Hold\n", "hold", 1.0),
        ("\u3000HOLD\u3000", "hold", 1.0),
        ("", " ", 1.0),
        ("Hold.", "hold", 0.0),
        ("hold  fast", "hold fast", 0.0),
        ("Straße", "STRASSE", 0.0),
        ("e\u0301", "é", 0.0),
    ],
)
def test_exact_match_is_but_for_case_and_the_ends(predicted: str, expected: str, score: float) -> None:
    assert exact_match(predicted, expected) == score


@pytest.mark.parametrize(
    ("predicted", "expected", "score"),
    [
        ("The court AFFIRMED it.", " affirmed ", 1.0),
        ("Sales of $4.55B", "$4.5", 1.0),
        ("unknown", "know", 1.0),
        ("a\nb", "a b", 0.0),
        ("anything", " ", 0.0),
        ("", "", 0.0),
        ("short", "a longer text", 0.0),
    ],
)
def test_contains_looks_for_a_part(predicted: str, expected: str, score: float) -> None:
    assert contains(predicted, expected) == score


@pytest.mark.slow
@given(st.text(), st.text(min_size=1), st.text())
def test_what_stands_between_two_texts_is_contained(before: str, part: str, after: str) -> None:
    # a capital sigma has two small letters, by what stands around it
    if part.strip() and "Σ" not in part:
        assert contains(before + part + after, part) == 1.0


@pytest.mark.parametrize(
    ("predicted", "expected", "score"),
    [
        ("about 1,005 tons", "1000", 1.0),
        ("about 1,011 tons", "1000", 0.0),
        ("-5", "-5", 1.0),
        ("-5", "5", 0.0),
        ("- 5", "5", 1.0),
        ("(5)", "5", 1.0),
        ("$7M", "7 billion", 1.0),
        ("7%", "7", 1.0),
        ("In 1999 it was 7", "7", 0.0),
        ("the 8-K says 7", "8", 1.0),
        ("A-8 says 7", "-8", 1.0),
        ("<think>3</think>7", "7", 0.0),
        (".7", "7", 1.0),
        ("7e3", "7", 1.0),
        ("[7,8]", "78", 1.0),
        ("7,,8", "78", 1.0),
        ("٧", "7", 1.0),
        ("0.01", "0", 1.0),
        ("0.011", "0", 0.0),
        ("none", "7", 0.0),
        ("7", "none", 0.0),
        ("9" * 400, "9" * 400, 1.0),
        ("1.01", "1", 1.0),
        ("1.01" + "0" * 20 + "1", "1", 0.0),
    ],
)
def test_numeric_match_takes_the_first_number_of_each(predicted: str, expected: str, score: float) -> None:
    assert numeric_match(predicted, expected) == score


def test_numeric_match_has_the_tolerance_that_is_given() -> None:
    assert numeric_match("108", "100", rel_tolerance=0.1) == 1.0
    assert numeric_match("108", "100", rel_tolerance=0.05) == 0.0
    assert numeric_match("100", "100", rel_tolerance=0) == 1.0
    assert numeric_match("100", "100", rel_tolerance=-1) == 0.0


def test_the_strict_one_differs_where_the_loose_one_is_weak() -> None:
    for predicted, expected in (("$7M", "$7B"), ("In 1999 it was 7", "1999"), ("(5)", "5"), ("7%", "7")):
        assert (numeric_match(predicted, expected), numeric_equal(predicted, expected)) == (1.0, 0.0)
    for predicted, expected in (("7,000 thousand", "7 M"), ("In 1999 it was 7", "7")):
        assert (numeric_match(predicted, expected), numeric_equal(predicted, expected)) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("predicted", "letter"),
    [
        ("c", "C"),
        (" C. ", "C"),
        ("C)", "C"),
        ("(c)", "C"),
        ("**C**", "C"),
        ("answer - C", "C"),
        ("ANSWER\n\nC", "C"),
        ("My choice: <<C>>", "C"),
        ("Option D is wrong. Answer: C", "C"),
        ("Answer: C, not option D", "C"),
        ("The answer is C", "C"),
        ("A careful reading shows that the answer is C", "C"),
        ("D is wrong; the answer is C", "C"),
        ("That is a C", "C"),
        ("I'd say C", "C"),
        ("réponse : C", "C"),
        ("la choice → é C", "C"),
        ("<think>A</think>C", "C"),
        ("<think>A</think> B <think>D</think>", "B"),
        ("x<think>A</think>y<think>B</think>: C <think>D", "C"),
        ("<THINK>A</THINK>C", "C"),
        ("option 1C", None),
        ("E", None),
        ("none", None),
        ("", None),
        (None, None),
    ],
)
def test_mcq_letter_finds_one_letter(predicted: str | None, letter: str | None) -> None:
    assert [right for right in "ABCD" if mcq_letter(predicted, right) == 1.0] == ([letter] if letter else [])


@pytest.mark.parametrize("expected", ["", "E", "AB", "1", None])
def test_only_a_to_d_can_be_right(expected: str | None) -> None:
    assert mcq_letter("E", expected) == 0.0
    assert mcq_letter("B", " b\n") == 1.0


def test_thoughts_can_be_left_in() -> None:
    assert mcq_letter("<think>A</think>C", "A", strip_think=False) == 1.0
    assert mcq_letter("<think>A</think>C", "C", strip_think=False) == 0.0


@pytest.mark.parametrize("scorer", [exact_match, contains, numeric_match, numeric_equal])
@pytest.mark.parametrize(("predicted", "expected"), [(None, "a1"), ("a1", 7), (1.5, "a1")])
def test_what_is_no_text_is_a_type_error_that_names_it(scorer: Scorer, predicted: Any, expected: Any) -> None:
    name = "expected" if isinstance(predicted, str) else "predicted"
    with pytest.raises(TypeError, match=rf"`{name}` is .*; a scorer compares texts"):
        scorer(predicted, expected)


@pytest.mark.parametrize(("predicted", "expected"), [(7, "A"), ("A", 7)])
@pytest.mark.parametrize("strip_think", [True, False])
def test_what_is_no_letter_in_a_text_is_one_too(predicted: Any, expected: Any, strip_think: bool) -> None:
    with pytest.raises(TypeError, match="is 7, int; a scorer compares texts"):
        mcq_letter(predicted, expected, strip_think=strip_think)


def test_the_other_text_is_looked_at_where_one_has_no_number() -> None:
    with pytest.raises(TypeError, match="`expected` is None"):
        numeric_match("no number", None)  # type: ignore[arg-type]


@given(st.text(), st.text())
def test_any_texts_get_one_or_nought(predicted: str, expected: str) -> None:
    for scorer in (exact_match, contains, numeric_match, numeric_equal, mcq_letter):
        assert scorer(predicted, expected) in (0.0, 1.0)


HOSTILE = (
    *("<think>" * 14_000, "<think>a</think>" * 6_000, "1," * 50_000, "1" * 100_000, "-" * 100_000),
    *("answer " * 14_000, "é answer" * 12_000, "A " * 50_000, " " * 100_000, "1 " * 50_000),
)


@pytest.mark.slow
@pytest.mark.parametrize("scorer", [exact_match, contains, numeric_match, numeric_equal, mcq_letter])
def test_long_hostile_answers_take_time_in_proportion(scorer: Scorer) -> None:
    """Each of 100,000 characters, which would take an hour in quadratic time."""
    for text in HOSTILE:
        assert (scorer(text, "B"), scorer(text, "77")) == (0.0, 0.0)


@pytest.mark.slow
def test_the_scorers_import_nothing_heavy() -> None:
    program = """if True:
        import sys
        from proctor.eval.scorers import numeric_equal
        heavy = {"msgspec", "decimal", "regex", "asyncio"}
        print(numeric_equal("5 kg", "5000 g"), *sorted(heavy & set(sys.modules)))
    """
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout == "1.0\n"
