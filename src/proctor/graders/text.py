"""Grades the text of an answer: equality, substrings and patterns.

These graders compare characters, not meanings. They normalize only what a parameter names: a typographic
quote is not a straight one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import ClassVar

from proctor.graders import safe_regex
from proctor.graders.safe_regex import quoted
from proctor.model import Entry, Mark
from proctor.protocols import MAX_STEP, Graded, Grading

_SPACES = re.compile(r"\s+")
_SPACELESS = (("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"), ("\u3040", "\u30ff"),
              ("\u3400", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0003ffff"))  # fmt: skip


def clip(text: str, limit: int = 120) -> str:
    """Returns the text, shortened with an ellipsis if it has more than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shown(text: str) -> str:
    """Returns the text in quotes, shortened, on one line."""
    return quoted(clip(text))


def listed(texts: Iterable[str]) -> str:
    """Returns the texts in quotes, separated by commas, shortened as a whole."""
    return clip(", ".join(map(quoted, texts)))


def position(phrase: str, text: str) -> int:
    """Returns the index of the first match, or -1; searches in steps, so that it can be interrupted."""
    for start in range(0, max(len(text), 1), MAX_STEP):
        at = text.find(phrase, start, start + MAX_STEP + len(phrase))
        if at >= 0:
            return at
    return -1


def folded(text: str) -> str:
    """Returns the text case-folded; works in steps too."""
    if len(text) <= MAX_STEP:
        return text.casefold()
    return "".join([text[start : start + MAX_STEP].casefold() for start in range(0, len(text), MAX_STEP)])


def _single_spaced(text: str) -> str:
    """Returns the text with one space for each run of white space; works in steps too."""
    pieces: list[str] = []
    after_space = False
    for start in range(0, len(text), MAX_STEP):
        piece = _SPACES.sub(" ", text[start : start + MAX_STEP])
        pieces.append(piece[1:] if after_space and piece[0] == " " else piece)
        after_space = piece[-1] == " "
    return "".join(pieces)


def _stripped(text: str) -> str:
    """Returns the text without white space at its ends; works in steps too."""
    start, end = 0, len(text)
    while end - start > MAX_STEP and text[start : start + MAX_STEP].isspace():
        start += MAX_STEP
    while end - start > MAX_STEP and text[end - MAX_STEP : end].isspace():
        end -= MAX_STEP
    return text[start:end].strip()


def refuse_empty(name: str, texts: tuple[str, ...]) -> None:
    """Checks a list of texts to look for.

    Raises:
        ValueError: the list is empty, or has a blank text, which would match everywhere.
    """
    if not texts:
        raise ValueError(f"`{name}` is empty; give at least one text.")
    for text in texts:
        if not text.strip():
            raise ValueError(f"`{name}` has the blank text {text!r}, which says nothing; remove it.")


def refuse_repeated(things: str, ids: Iterable[str]) -> None:
    """Checks that ids are unique.

    Raises:
        ValueError: two ids are the same; the message names the first one that is repeated.
    """
    seen_texts: set[str] = set()
    for name in ids:
        if name in seen_texts:
            raise ValueError(f"Two {things} have the id {name!r}; give each one a name of its own.")
        seen_texts.add(name)


def _refuse_nothing(values: tuple[str, ...]) -> None:
    if not values:
        raise ValueError("`values` is empty, and nothing can be looked for; give at least one text.")
    if "" in values:
        raise ValueError("`values` has an empty text, and every answer contains that; remove it.")


class Exact(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer is the expected text."""

    all_or_nothing: ClassVar[bool] = True
    reads_in_steps: ClassVar[bool] = True

    value: str
    ignore_case: bool = False
    """Whether to compare with Unicode case folding, so that `straße` equals `STRASSE`."""
    trim: bool = True
    """Whether to ignore white space at both ends of both."""
    any_space: bool = False
    """Whether any run of white space inside both counts as one space."""

    def grade(self, graded: Graded) -> Mark:
        """Scores 1 if they are equal, else 0."""
        answer, expected = graded.output.text, self.value
        if self.any_space:
            answer, expected = map(_single_spaced, (answer, expected))
        if self.trim:
            answer, expected = _stripped(answer), _stripped(expected)
        same = folded(answer) == folded(expected) if self.ignore_case else answer == expected
        if same:
            return _EXACT
        return Mark(
            value=0.0, passed=False, reason=f"The answer is {shown(answer)}; expected {shown(expected)}."
        )


_EXACT = Mark(value=1.0, passed=True, reason="The answer is the expected text.")


class Contains(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer contains the expected text, also inside a word."""

    all_or_nothing: ClassVar[bool] = True
    reads_in_steps: ClassVar[bool] = True

    value: str
    ignore_case: bool = False

    def __post_init__(self) -> None:
        if not self.value:
            raise ValueError("`value` is empty, and every answer contains that; give the text to look for.")

    def grade(self, graded: Graded) -> Mark:
        """Scores 1 if it does, else 0."""
        answer, expected = graded.output.text, self.value
        if self.ignore_case:
            answer, expected = folded(answer), expected.casefold()
        if position(expected, answer) >= 0:
            return Mark(value=1.0, passed=True, reason=f"The answer contains {shown(self.value)}.")
        return Mark(
            value=0.0,
            passed=False,
            reason=f"The answer does not contain {shown(self.value)}: {shown(graded.output.text)}.",
        )


class ContainsAny(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer contains at least one of the texts."""

    all_or_nothing: ClassVar[bool] = True
    reads_in_steps: ClassVar[bool] = True

    values: tuple[str, ...]
    ignore_case: bool = False

    def __post_init__(self) -> None:
        _refuse_nothing(self.values)

    def grade(self, graded: Graded) -> Mark:
        """Scores 1 if it contains one, else 0; the reason names the first match."""
        answer = graded.output.text
        if self.ignore_case:
            text = folded(answer)
            match = next((value for value in self.values if position(value.casefold(), text) >= 0), None)
        else:
            match = next((value for value in self.values if position(value, answer) >= 0), None)
        if match is not None:
            return Mark(value=1.0, passed=True, reason=f"The answer contains {shown(match)}.")
        return Mark(
            value=0.0,
            passed=False,
            reason=f"The answer contains none of {listed(self.values)}: {shown(answer)}.",
        )


class ContainsAll(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer contains all of the texts."""

    all_or_nothing: ClassVar[bool] = True
    reads_in_steps: ClassVar[bool] = True

    values: tuple[str, ...]
    ignore_case: bool = False

    def __post_init__(self) -> None:
        _refuse_nothing(self.values)

    def grade(self, graded: Graded) -> Mark:
        """Scores 1 if it contains all, else 0; one entry per text."""
        answer = folded(graded.output.text) if self.ignore_case else graded.output.text
        entries: list[Entry] = []
        missing: list[str] = []
        for value in self.values:
            needle = value.casefold() if self.ignore_case else value
            at = position(needle, answer)
            evidence = around(answer, at, len(needle)) if at >= 0 else None
            entries.append(Entry(text=value, passed=at >= 0, evidence=evidence))
            if at < 0:
                missing.append(value)
        return Mark(
            value=0.0 if missing else 1.0,
            passed=not missing,
            reason=f"The answer lacks {listed(missing)}: {shown(graded.output.text)}."
            if missing
            else f"The answer contains {listed(self.values)}.",
            entries=tuple(entries),
        )


class StartsWith(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer begins with the expected text."""

    all_or_nothing: ClassVar[bool] = True
    reads_in_steps: ClassVar[bool] = True

    value: str
    trim: bool = True
    """Whether to ignore white space at both ends of both."""

    def __post_init__(self) -> None:
        _refuse_no_end(self.value, trim=self.trim)

    def grade(self, graded: Graded) -> Mark:
        """Scores 1 if it does, else 0; the entry shows how the answer begins."""
        answer, expected = _ends(graded, self.value, trim=self.trim)
        is_there = answer.startswith(expected)
        return _end_mark(is_there, "begins" if is_there else "begin", expected, clip(answer))


class EndsWith(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer ends with the expected text."""

    all_or_nothing: ClassVar[bool] = True
    reads_in_steps: ClassVar[bool] = True

    value: str
    trim: bool = True
    """Whether to ignore white space at both ends of both."""

    def __post_init__(self) -> None:
        _refuse_no_end(self.value, trim=self.trim)

    def grade(self, graded: Graded) -> Mark:
        """Scores 1 if it does, else 0; the entry shows how the answer ends."""
        answer, expected = _ends(graded, self.value, trim=self.trim)
        is_there = answer.endswith(expected)
        last = answer if len(answer) <= 120 else "…" + answer[-119:]
        return _end_mark(is_there, "ends" if is_there else "end", expected, last)


class Regex(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when a Python regular expression matches somewhere in the answer."""

    all_or_nothing: ClassVar[bool] = True

    pattern: str
    flags: str = ""
    """Any of the letters i (ignore case), m (lines), s (dot matches all), x (verbose)."""
    full: bool = False
    """Whether the whole answer must match."""

    def __post_init__(self) -> None:
        if not self.pattern:
            raise ValueError("`pattern` is empty and would match every answer; give a regular expression.")
        safe_regex.compiled(self.pattern, self.flags)

    def grade(self, graded: Graded) -> Mark:
        """Scores 1 if it matches, else 0.

        Raises:
            CannotScore: the search exceeded its time limit.
        """
        answer = graded.output.text
        if safe_regex.found(self.pattern, answer, flags=self.flags, full=self.full):
            return Mark(value=1.0, passed=True, reason=f"The answer matches {shown(self.pattern)}.")
        return Mark(
            value=0.0,
            passed=False,
            reason=f"The answer does not match {shown(self.pattern)}: {shown(answer)}.",
        )


def _refuse_no_end(value: str, *, trim: bool) -> None:
    if not (value.strip() if trim else value):
        raise ValueError(
            f"`value` is {value!r}, and every answer begins and ends with that; give the text to look for."
        )


def _ends(graded: Graded, value: str, *, trim: bool) -> tuple[str, str]:
    """Returns the answer, and the text to compare with one of its ends."""
    answer = graded.output.text
    return (_stripped(answer), value.strip()) if trim else (answer, value)


def _end_mark(is_there: bool, verb: str, expected: str, evidence: str) -> Mark:
    entries = (Entry(text=expected, passed=is_there, evidence=evidence),)
    reason = f"The answer {verb} with {shown(expected)}."
    if not is_there:
        reason = f"The answer does not {verb} with {shown(expected)}: {quoted(evidence)}."
    return Mark(value=float(is_there), passed=is_there, reason=reason, entries=entries)


def place(word: str, text: str, *, whole: bool) -> int:
    """Returns the index of the word in the text, or -1; with `whole`, not as part of a longer word."""
    at = text.find(word)
    while whole and at >= 0 and not is_whole(text, at, at + len(word)):
        at = text.find(word, at + 1)
    return at


def is_whole(text: str, start: int, end: int) -> bool:
    """Whether the span is not joined to other word characters at either end."""
    joined_before = start > 0 and _joins(text[start]) and _joins(text[start - 1])
    return not joined_before and not (end < len(text) and _joins(text[end - 1]) and _joins(text[end]))


def _joins(char: str) -> bool:
    """Whether the character forms one word with an adjacent letter."""
    if char < "\u0300":
        return char.isalnum() or char == "_"
    if any(first <= char <= last for first, last in _SPACELESS):
        return False
    return char.isalnum() or unicodedata.category(char)[0] == "M"


def around(text: str, at: int, length: int) -> str:
    """Returns the text around a position, on one line."""
    start, end = max(at - 30, 0), at + length + 30
    excerpt = " ".join(text[start:end].split())
    return ("…" if start else "") + excerpt + ("…" if end < len(text) else "")
