"""Scorers for short answers: two texts to 1.0 or 0.0.

Every function is pure, and so safe in any thread. Each takes time in proportion to its texts.
"""

from __future__ import annotations

import re

from proctor.graders.numerals import not_text, numeric_match
from proctor.graders.quantities import numeric_equal

__all__ = ["contains", "exact_match", "mcq_letter", "numeric_equal", "numeric_match"]


def exact_match(predicted: str, expected: str) -> float:
    """1.0 when the texts are the same but for white space at their ends and case, else 0.0.

    White space inside counts, and so does punctuation: "Yes." is not "yes". Two blank texts are the same.

    Raises:
        TypeError: one of them is no text.
    """
    try:
        return 1.0 if predicted.strip().lower() == expected.strip().lower() else 0.0
    except AttributeError:
        raise not_text(predicted, expected) from None


def contains(predicted: str, expected: str) -> float:
    """1.0 when the expected text stands somewhere in the answer, whatever the case, else 0.0.

    It may stand inside a word or a number: "$4.5" is in "$4.55B". A blank expected text is in none.

    Raises:
        TypeError: one of them is no text.
    """
    try:
        wanted = expected.strip().lower()
        return 1.0 if wanted and wanted in predicted.lower() else 0.0
    except (AttributeError, TypeError):
        raise not_text(predicted, expected) from None


# --- letters -----------------------------------------------------------------------------------------------

_AROUND = " .,)!:-"
_NAMED = re.compile(r"\b(?:ANSWER|CHOICE|OPTION)\b[^A-Z\d]{0,20}([A-D])\b", re.ASCII).findall
_ALONE = re.compile(r"\b[A-D]\b", re.ASCII).search
_NAMED_OF_ANY = re.compile(r"\b(?:answer|choice|option)\b[^A-Za-z0-9]{0,20}([A-D])\b", re.IGNORECASE).findall
_ALONE_OF_ANY = re.compile(r"\b[A-D]\b", re.IGNORECASE).search


_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


def mcq_letter(predicted: str | None, expected: str | None, *, strip_think: bool = True) -> float:
    """1.0 when the answer chooses the expected letter of A to D, else 0.0.

    The first of these that there is decides:

    1. the answer itself, when it is one letter with perhaps ` . , ) ! : -` around it;
    2. the letter right after the last "answer", "choice" or "option";
    3. the first letter that stands alone, be it the article "a". It is what finds "the answer is B".

    `Choice`, the grader `choice` of suites, is stricter: it knows articles, "answer is" and more letters.

    Args:
        predicted: the answer; empty text and None score 0.0.
        expected: the right letter in either case; anything else scores 0.0.
        strip_think: leave out `<think>…</think>`, in this spelling and as far as it ends.

    Raises:
        TypeError: one of them is neither a text nor None.
    """
    if not predicted or not expected:
        return 0.0
    try:
        right = expected.strip().upper()
        if right not in ("A", "B", "C", "D"):
            return 0.0
        if strip_think and "<think>" in predicted:
            predicted = _without_ended_thoughts(predicted)
        text = predicted.strip()
    except (AttributeError, TypeError):
        raise not_text(predicted, expected) from None
    upper = text.upper()
    alone = upper.strip(_AROUND)
    if alone in ("A", "B", "C", "D"):
        return 1.0 if alone == right else 0.0
    if not text.isascii():
        return 1.0 if _chosen_in_any(text) == right else 0.0
    if "ANSWER" in upper or "OPTION" in upper or "CHOICE" in upper:
        named: list[str] = _NAMED(upper)
        if named:
            return 1.0 if named[-1] == right else 0.0
    first = _ALONE(upper)
    return 1.0 if first is not None and first[0] == right else 0.0


def _chosen_in_any(text: str) -> str | None:
    """The letter that steps 2 and 3 find; letters beyond ASCII may change their number with their case."""
    named: list[str] = _NAMED_OF_ANY(text)
    if named:
        return named[-1].upper()
    first = _ALONE_OF_ANY(text)
    return None if first is None else first[0].upper()


def _without_ended_thoughts(text: str) -> str:
    """The text without each `<think>` up to the next `</think>`; what never ends stays."""
    before, _, rest = text.partition("<think>")
    _, end, after = rest.partition("</think>")
    if not end:
        return text
    if "<think>" not in after or "</think>" not in after:
        return before + after
    # Each beginning before the last end has an end, so the pattern looks at nothing twice.
    last = after.rindex("</think>") + len("</think>")
    return before + _THOUGHT.sub("", after[:last]) + after[last:]
