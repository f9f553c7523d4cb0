"""Finds the option letter that an answer chooses. Pure.

A heuristic that knows English words only.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from proctor.graders.reasoning import strip_reasoning

_AROUND = " \t\r\n.,;:!?()[]{}*_`\"'-"
_VOWELS = "aeiouy"
"""Letters that are words in English, French, Italian, Spanish or Portuguese."""


def find_chosen_letter(
    text: str, options: str = "ABCD", *, anywhere: bool = True, strip_think: bool = True
) -> str | None:
    """Returns the letter that a text chooses, in capitals; None if there is none.

    Removes `<think>` parts unless `strip_think` is false. The first of these that exists counts:

    1. the text itself, when it is one letter and punctuation;
    2. the letter after the last "answer:" or "answer is";
    3. the letter after the last "option", "choice" or "letter", perhaps followed by "is" or the like;
    4. the first letter that stands alone, if it may stand `anywhere`.

    A small vowel before another word is a word itself, such as the article "a".
    """
    if strip_think:
        text = strip_reasoning(text)
    alone = text.strip(_AROUND).upper()
    if len(alone) == 1 and alone in options:
        return alone
    patterns, lower_text = _build_patterns(options), text.lower()
    letters: list[str] = patterns.answer.findall(text) if "answer" in lower_text else []
    if not letters and ("option" in lower_text or "choice" in lower_text or "letter" in lower_text):
        letters = patterns.option.findall(text)
    if letters or not anywhere:
        return letters[-1].upper() if letters else None
    first = patterns.alone.search(text)
    return first and first[1].upper()


class _LetterPatterns(NamedTuple):
    answer: re.Pattern[str]
    option: re.Pattern[str]
    alone: re.Pattern[str]


@lru_cache(maxsize=64)
def _build_patterns(options: str) -> _LetterPatterns:
    # Every filler is bounded, so that an answer full of spaces cannot take quadratic time.
    any_case = options + options.lower()
    words = "".join(letter for letter in any_case if letter in _VOWELS)
    article = rf"(?!(?<=[{words}])\s[^\W\d_])" if words else ""
    letter = rf"(?<![\w'’])([{any_case}])(?![\w'’]){article}"
    verb = r"(?:\s{1,4}(?i:is|was|must be|should be|would be))?"
    option = rf"\b(?i:options?|choices?|letters?)\b{verb}\W{{0,10}}"
    answer = rf"\b[Aa](?i:nswers?)\b{verb}\W{{0,20}}(?:{option})?"
    return _LetterPatterns(re.compile(answer + letter), re.compile(option + letter), re.compile(letter))
