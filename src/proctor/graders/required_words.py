"""Grades an answer by the words and numbers that it must contain, or must not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

from proctor.graders.numbers.numerals import Numeral, find_numerals, get_digits, is_negative
from proctor.graders.text import excerpt_around, is_whole_word, quote_list, require_texts
from proctor.model import Evidence, GraderResult
from proctor.protocols import BaseGrader, GradingInput

_ENGLISH = re.compile(r"[A-Za-z]{3}$")
_LONG = re.compile(r"[A-Za-z]{5}$")
"""A word that may have verb endings; a shorter one with them may be another word (car, cared)."""
_SIBILANT = re.compile(r"(?:s|x|z|ch|sh|o)$", re.IGNORECASE)
_APOSTROPHES = str.maketrans(dict.fromkeys("’‘ʼ＇", "'"))
_QUANTITY = re.compile(r"(\d[\d.,]*)([^\W\d_]+)")
_PART_BEFORE = re.compile(r"\d[.:]\Z")
_PART_AFTER = re.compile(r"[.:]\d")
_SYMBOL_AFTER = re.compile(r"\+\+|[+#](?!\w)")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)
_PERCENT = re.compile(r"\s?(?:%|percent\b|per cent\b)", re.IGNORECASE)
_MAX_POWER_DIGITS = 6
"""The maximum number of digits of a power of ten."""


class _Words(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What both graders share."""

    words: tuple[str, ...]
    ignore_case: bool = True
    whole_words: bool = True

    def __post_init__(self) -> None:
        require_texts("words", self.words)


class RequiredWords(_Words, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when every word is in the answer.

    A whole word must not be joined to other word characters. This applies only to ends of the word that are
    word characters themselves, so that `C++` can be found. `C` is not in `C++`, and `GPT-4` is not in
    `GPT-4.1`. Scripts that write without spaces have no such ends. White space matches any white space, and
    `5 kg` is the same as `5kg`. An inflected form of an English word counts as the word: `divisions`
    contains `division`.

    A number is compared as a number: `$10,000` has `10000` and not `10`, and `$8.7M` has `8.7`; the parts of
    a version, an address or a time are none. A currency or percent sign that the word has must be there too.
    """

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores the share of the words that are present, with one entry per word."""
        answer = _normalize(grading_input.output.text, ignore_case=self.ignore_case)
        entries: list[Evidence] = []
        for word in self.words:
            needle = _normalize(word, ignore_case=self.ignore_case)
            forms = _inflected_forms(needle) if self.whole_words else (needle,)
            is_there = any(_find_span(form, answer, whole=self.whole_words) for form in forms)
            entries.append(Evidence(text=word, passed=is_there))
        missing = [entry.text for entry in entries if not entry.passed]
        return GraderResult(
            value=1.0 - len(missing) / len(self.words),
            passed=not missing,
            reason=f"The answer lacks {quote_list(missing)}."
            if missing
            else "The answer contains every required word.",
            entries=tuple(entries),
        )


class ForbiddenWords(_Words, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when none of the words is in the answer; found as by `required_words`, but not inflected."""

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores the share of the words that are absent; the entry of a present word shows where it is."""
        original = grading_input.output.text
        answer = _normalize(original, ignore_case=self.ignore_case)
        # Folding only ever lengthens, so equal lengths mean that places in both are the same.
        shown_text = original if len(original) == len(answer) else answer
        entries: list[Evidence] = []
        for word in self.words:
            needle = _normalize(word, ignore_case=self.ignore_case)
            span = _find_span(needle, answer, whole=self.whole_words)
            evidence = None if span is None else excerpt_around(shown_text, span[0], span[1] - span[0])
            entries.append(Evidence(text=word, passed=span is None, evidence=evidence))
        hits = [entry.text for entry in entries if not entry.passed]
        return GraderResult(
            value=1.0 - len(hits) / len(self.words),
            passed=not hits,
            reason=f"The answer contains {quote_list(hits)}."
            if hits
            else "The answer contains none of the forbidden words.",
            entries=tuple(entries),
        )


def _find_span(word: str, text: str, *, whole: bool) -> tuple[int, int] | None:
    """Returns the first span of a word or, as a whole word, of a number with that value."""
    number = _read_number(word) if whole else None
    if number is not None:
        return next(
            (numeral.span() for numeral in find_numerals(text) if _matches_number(numeral, number)), None
        )
    spans = _find_spans(_compile_word(word), text)
    return next((span for span in spans if not whole or _is_whole_term(text, *span)), None)


def _normalize(text: str, *, ignore_case: bool) -> str:
    """Returns the text with straight apostrophes, and case-folded if case does not matter."""
    text = text.translate(_APOSTROPHES)
    return text.casefold() if ignore_case else text


def _compile_word(word: str) -> re.Pattern[str]:
    """Returns a pattern for the word with any white space; a number and its unit may have none between."""
    quantity = _QUANTITY.fullmatch(word)
    if quantity is not None:
        word = f"{quantity[1]} {quantity[2]}"
    texts = word.split()
    pattern = re.escape(texts[0])
    for last, text in pairwise(texts):
        measures = last[-1].isdigit() and text[0].isalpha()
        pattern += (r"\s*" if measures else r"\s+") + re.escape(text)
    before, after = (r"\s" if end.isspace() else "" for end in (word[0], word[-1]))
    return re.compile(before + pattern + after)


def _find_spans(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Yields the spans of all matches, including overlapping ones."""
    match = pattern.search(text)
    while match is not None:
        yield match.span()
        match = pattern.search(text, match.start() + 1)


def _is_whole_term(text: str, start: int, end: int) -> bool:
    """Whether the span is a whole word, and not part of a name such as `C++` or of a version."""
    return (
        is_whole_word(text, start, end)
        and not (text[end - 1].isalnum() and _SYMBOL_AFTER.match(text, end))
        and not (text[start].isdigit() and _PART_BEFORE.search(text, max(0, start - 2), start))
        and not (text[end - 1].isdigit() and _PART_AFTER.match(text, end))
    )


class _Number(NamedTuple):
    value: Decimal
    currency: str
    percent: bool


def _read_number(word: str) -> _Number | None:
    """Parses a word that is a number, with its currency or percent sign; returns None for other words."""
    digits = find_numerals(word.strip())
    if len(digits) != 1 or digits[0].start():
        return None
    unit, value = word.strip()[digits[0].end() :].strip(), _read_value(digits[0])
    if value is None or unit not in ("", "%"):
        return None
    return _Number(value, digits[0]["currency"] or "", unit == "%")


def _matches_number(numeral: Numeral, number: _Number) -> bool:
    """Whether a number in a text is this number; an ordinal ("3rd") is not."""
    text, start, end = numeral.string, *numeral.span()
    after = text[end : end + 12]
    return (
        _read_value(numeral) == number.value
        and not _PART_BEFORE.search(text, max(0, start - 2), start)
        and not _PART_AFTER.match(after)
        and not _ORDINAL.match(after)
        and (not number.currency or numeral["currency"] == number.currency)
        and (not number.percent or _PERCENT.match(after) is not None)
    )


def _read_value(numeral: Numeral) -> Decimal | None:
    """Returns the exact value; None if its power of ten is too large."""
    digits, power = get_digits(numeral)
    if len(power) > _MAX_POWER_DIGITS:
        return None
    value = Decimal(f"{digits}e{power or 0}")
    return -value if is_negative(numeral) else value


def _inflected_forms(word: str) -> tuple[str, ...]:
    """Returns a word, its plural and, if it is long enough, its verb forms; never doubles a letter."""
    if not _ENGLISH.search(word):
        return (word,)
    stem, last = word[:-1], word[-1].lower()
    if last == "y" and stem[-1].lower() not in "aeiou":
        plural, verb = f"{stem}ies", (f"{stem}ied", f"{word}ing")
    elif last == "e":
        plural, verb = f"{word}s", (f"{word}d", f"{stem}ing")
    else:
        plural, verb = word + ("es" if _SIBILANT.search(word) else "s"), (f"{word}ed", f"{word}ing")
    return (word, plural, *(verb if _LONG.search(word) else ()))
