"""Scorers for short answers: compare two texts and return 1.0 or 0.0.

Every function is pure, and so safe in any thread. Each takes time in proportion to its texts.
"""

from __future__ import annotations

from proctor.graders.numbers.numerals import not_text_error, numeric_match
from proctor.graders.numbers.quantities import numeric_equal
from proctor.graders.option_letters import find_chosen_letter

__all__ = ["contains", "exact_match", "mcq_letter", "numeric_equal", "numeric_match"]


def exact_match(predicted: str, expected: str) -> float:
    """Returns 1.0 if the texts are equal, ignoring case and white space at their ends, else 0.0.

    Inner white space and punctuation count: "Yes." is not "yes". Two blank texts are equal.

    Raises:
        TypeError: one of them is not a text.
    """
    try:
        return 1.0 if predicted.strip().lower() == expected.strip().lower() else 0.0
    except AttributeError:
        raise not_text_error(predicted, expected) from None


def contains(predicted: str, expected: str) -> float:
    """Returns 1.0 if the answer contains the expected text, ignoring case, else 0.0.

    It may be inside a word or a number: "$4.5" is in "$4.55B". A blank expected text scores 0.0.

    Raises:
        TypeError: one of them is not a text.
    """
    try:
        substring = expected.strip().lower()
        return 1.0 if substring and substring in predicted.lower() else 0.0
    except (AttributeError, TypeError):
        raise not_text_error(predicted, expected) from None


def mcq_letter(predicted: str | None, expected: str | None, *, strip_think: bool = True) -> float:
    """Returns 1.0 if the answer chooses the expected letter of A to D, else 0.0.

    The letter is found as by the grader `choice`: the answer itself, else the letter after the
    last "answer is", else after the last "option", else the first that stands alone.

    Args:
        predicted: the answer; empty text and None score 0.0.
        expected: the right letter in either case; anything else scores 0.0.
        strip_think: leave out `<think>…</think>`.

    Raises:
        TypeError: one of them is neither a text nor None.
    """
    if not predicted or not expected:
        return 0.0
    try:
        right = expected.strip().upper()
        return 1.0 if find_chosen_letter(predicted, strip_think=strip_think) == right else 0.0
    except (AttributeError, TypeError):
        raise not_text_error(predicted, expected) from None
