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
from proctor.graders.safe_regex import quote_full
from proctor.model import Evidence, GraderResult
from proctor.protocols import MAX_STEP_LENGTH, GradingInput, TextGrader

_SPACES = re.compile(r"\s+")
_SPACELESS = (("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"), ("\u3040", "\u30ff"),
              ("\u3400", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0003ffff"))  # fmt: skip


def clip(text: str, limit: int = 120) -> str:
    """Returns the text, shortened with an ellipsis if it has more than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quote(text: str) -> str:
    """Returns the text in quotes, shortened, on one line."""
    return quote_full(clip(text))


def quote_list(texts: Iterable[str]) -> str:
    """Returns the texts in quotes, separated by commas, shortened as a whole."""
    return clip(", ".join(map(quote_full, texts)))


def find_text(phrase: str, text: str) -> int:
    """Returns the index of the first match, or -1; searches in steps, so that it can be interrupted."""
    if len(text) <= MAX_STEP_LENGTH:
        return text.find(phrase)
    for start in range(0, len(text), MAX_STEP_LENGTH):
        at = text.find(phrase, start, start + MAX_STEP_LENGTH + len(phrase))
        if at >= 0:
            return at
    return -1


def fold_case(text: str) -> str:
    """Returns the text case-folded; works in steps too."""
    if len(text) <= MAX_STEP_LENGTH:
        return text.casefold()
    return "".join(
        [text[start : start + MAX_STEP_LENGTH].casefold() for start in range(0, len(text), MAX_STEP_LENGTH)]
    )


def _collapse_spaces(text: str) -> str:
    """Returns the text with one space for each run of white space; works in steps too."""
    pieces: list[str] = []
    after_space = False
    for start in range(0, len(text), MAX_STEP_LENGTH):
        piece = _SPACES.sub(" ", text[start : start + MAX_STEP_LENGTH])
        pieces.append(piece[1:] if after_space and piece[0] == " " else piece)
        after_space = piece[-1] == " "
    return "".join(pieces)


def _strip(text: str) -> str:
    """Returns the text without white space at its ends; works in steps too."""
    start, end = 0, len(text)
    while end - start > MAX_STEP_LENGTH and text[start : start + MAX_STEP_LENGTH].isspace():
        start += MAX_STEP_LENGTH
    while end - start > MAX_STEP_LENGTH and text[end - MAX_STEP_LENGTH : end].isspace():
        end -= MAX_STEP_LENGTH
    return text[start:end].strip()


def require_texts(name: str, texts: tuple[str, ...]) -> None:
    """Checks a list of texts to look for.

    Raises:
        ValueError: the list is empty, or has a blank text, which would match everywhere.
    """
    if not texts:
        raise ValueError(f"`{name}` is empty; write at least one text.")
    for text in texts:
        if not text.strip():
            raise ValueError(f"`{name}` has the blank text {text!r}, which checks nothing; remove it.")


def require_unique_ids(things: str, ids: Iterable[str]) -> None:
    """Checks that ids are unique.

    Raises:
        ValueError: two ids are the same; the message names the first one that is repeated.
    """
    seen_texts: set[str] = set()
    for name in ids:
        if name in seen_texts:
            raise ValueError(f"Two {things} have the id {name!r}; give each one its own id.")
        seen_texts.add(name)


class Exact(TextGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer is the expected text."""

    reads_in_steps: ClassVar[bool] = True

    value: str
    ignore_case: bool = False
    """Whether to compare with Unicode case folding, so that `straße` equals `STRASSE`."""
    trim: bool = True
    """Whether to ignore white space at both ends of both."""
    any_space: bool = False
    """Whether any run of white space inside both counts as one space."""

    def accepts(self, answer: str) -> bool:
        """Returns whether they are equal."""
        return self._are_equal(*self._normalize(answer))

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if they are equal, else 0."""
        answer, expected = self._normalize(grading_input.output.text)
        if self._are_equal(answer, expected):
            return _EXACT_RESULT
        return GraderResult(
            value=0.0, passed=False, reason=f"The answer is {quote(answer)}; expected {quote(expected)}."
        )

    def _normalize(self, answer: str) -> tuple[str, str]:
        """Returns an answer and the expected text without the white space that does not count."""
        expected = self.value
        if self.any_space:
            answer, expected = map(_collapse_spaces, (answer, expected))
        return (_strip(answer), _strip(expected)) if self.trim else (answer, expected)

    def _are_equal(self, answer: str, expected: str) -> bool:
        return fold_case(answer) == fold_case(expected) if self.ignore_case else answer == expected


_EXACT_RESULT = GraderResult(value=1.0, passed=True, reason="The answer is the expected text.")


class Contains(TextGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer contains the expected text, also inside a word."""

    reads_in_steps: ClassVar[bool] = True

    value: str
    ignore_case: bool = False

    def __post_init__(self) -> None:
        if not self.value:
            raise ValueError("`value` is empty, so every answer would pass; write the text to search for.")

    def accepts(self, answer: str) -> bool:
        """Returns whether it does."""
        if self.ignore_case:
            return find_text(self.value.casefold(), fold_case(answer)) >= 0
        return find_text(self.value, answer) >= 0

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it does, else 0."""
        if self.accepts(grading_input.output.text):
            return GraderResult(value=1.0, passed=True, reason=f"The answer contains {quote(self.value)}.")
        return GraderResult(
            value=0.0,
            passed=False,
            reason=f"The answer does not contain {quote(self.value)}: {quote(grading_input.output.text)}.",
        )


class _Texts(TextGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What graders of several texts share."""

    reads_in_steps: ClassVar[bool] = True

    values: tuple[str, ...]
    ignore_case: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("`values` is empty; write at least one text to search for.")
        if "" in self.values:
            raise ValueError("`values` contains an empty text, so every answer would pass; remove it.")


class ContainsAny(_Texts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer contains at least one of the texts."""

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it contains one, else 0; the reason names the first match."""
        answer = grading_input.output.text
        match = self._find_match(answer)
        if match is not None:
            return GraderResult(value=1.0, passed=True, reason=f"The answer contains {quote(match)}.")
        return GraderResult(
            value=0.0,
            passed=False,
            reason=f"The answer contains none of {quote_list(self.values)}: {quote(answer)}.",
        )

    def accepts(self, answer: str) -> bool:
        """Returns whether it contains one."""
        return self._find_match(answer) is not None

    def _find_match(self, answer: str) -> str | None:
        if self.ignore_case:
            text = fold_case(answer)
            return next((value for value in self.values if find_text(value.casefold(), text) >= 0), None)
        return next((value for value in self.values if find_text(value, answer) >= 0), None)


class ContainsAll(_Texts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer contains all of the texts."""

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it contains all, else 0; one entry per text."""
        answer = grading_input.output.text
        text = fold_case(answer) if self.ignore_case else answer
        entries: list[Evidence] = []
        for value in self.values:
            needle = value.casefold() if self.ignore_case else value
            at = find_text(needle, text)
            evidence = excerpt_around(text, at, len(needle)) if at >= 0 else None
            entries.append(Evidence(text=value, passed=at >= 0, evidence=evidence))
        missing = [entry.text for entry in entries if not entry.passed]
        return GraderResult(
            value=0.0 if missing else 1.0,
            passed=not missing,
            reason=f"The answer lacks {quote_list(missing)}: {quote(answer)}."
            if missing
            else f"The answer contains {quote_list(self.values)}.",
            entries=tuple(entries),
        )

    def accepts(self, answer: str) -> bool:
        """Returns whether it contains all."""
        text = fold_case(answer) if self.ignore_case else answer
        values = [value.casefold() for value in self.values] if self.ignore_case else self.values
        return all(find_text(value, text) >= 0 for value in values)


class _End(TextGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What graders of one end of the answer share."""

    reads_in_steps: ClassVar[bool] = True
    verb: ClassVar[str]

    value: str
    trim: bool = True
    """Whether to ignore white space at both ends of both."""

    def __post_init__(self) -> None:
        if not (self.value.strip() if self.trim else self.value):
            raise ValueError(
                f"`value` is {self.value!r}, so every answer would pass; write the text to search for."
            )

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it does, else 0; the entry shows that end of the answer."""
        answer, expected = self._normalize(grading_input.output.text)
        is_there, evidence = self._compare(answer, expected)
        reason = f"The answer {self.verb}s with {quote(expected)}."
        if not is_there:
            reason = f"The answer does not {self.verb} with {quote(expected)}: {quote_full(evidence)}."
        entries = (Evidence(text=expected, passed=is_there, evidence=evidence),)
        return GraderResult(value=float(is_there), passed=is_there, reason=reason, entries=entries)

    def accepts(self, answer: str) -> bool:
        """Returns whether it does."""
        return self._compare(*self._normalize(answer))[0]

    def _normalize(self, answer: str) -> tuple[str, str]:
        """Returns an answer and the expected text without the white space that does not count."""
        return (_strip(answer), self.value.strip()) if self.trim else (answer, self.value)

    def _compare(self, answer: str, expected: str) -> tuple[bool, str]:
        """Returns whether the answer has the text at its end, and the end of the answer, shortened."""
        raise NotImplementedError


class StartsWith(_End, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer begins with the expected text."""

    verb: ClassVar[str] = "begin"

    def _compare(self, answer: str, expected: str) -> tuple[bool, str]:
        return answer.startswith(expected), clip(answer)


class EndsWith(_End, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer ends with the expected text."""

    verb: ClassVar[str] = "end"

    def _compare(self, answer: str, expected: str) -> tuple[bool, str]:
        return answer.endswith(expected), answer if len(answer) <= 120 else "…" + answer[-119:]


class Regex(TextGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when a Python regular expression matches somewhere in the answer."""

    pattern: str
    flags: str = ""
    """Any of the letters i (ignore case), m (lines), s (dot matches all), x (verbose)."""
    full: bool = False
    """Whether the whole answer must match."""

    def __post_init__(self) -> None:
        if not self.pattern:
            raise ValueError("`pattern` is empty and would match every answer; write a regular expression.")
        safe_regex.compile_pattern(self.pattern, self.flags)

    def accepts(self, answer: str) -> bool:
        """Returns whether it matches.

        Raises:
            CannotScore: the search exceeded its time limit.
        """
        return safe_regex.pattern_matches(self.pattern, answer, flags=self.flags, full=self.full)

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it matches, else 0.

        Raises:
            CannotScore: the search exceeded its time limit.
        """
        answer = grading_input.output.text
        if self.accepts(answer):
            return GraderResult(value=1.0, passed=True, reason=f"The answer matches {quote(self.pattern)}.")
        return GraderResult(
            value=0.0,
            passed=False,
            reason=f"The answer does not match {quote(self.pattern)}: {quote(answer)}.",
        )


def find_word(word: str, text: str, *, whole: bool) -> int:
    """Returns the index of the word in the text, or -1; with `whole`, not as part of a longer word."""
    at = text.find(word)
    while whole and at >= 0 and not is_whole_word(text, at, at + len(word)):
        at = text.find(word, at + 1)
    return at


def is_whole_word(text: str, start: int, end: int) -> bool:
    """Whether the span is not joined to other word characters at either end."""
    joined_before = start > 0 and _is_word_character(text[start]) and _is_word_character(text[start - 1])
    return not joined_before and not (
        end < len(text) and _is_word_character(text[end - 1]) and _is_word_character(text[end])
    )


def _is_word_character(char: str) -> bool:
    """Whether the character forms one word with an adjacent letter."""
    if char < "\u0300":
        return char.isalnum() or char == "_"
    if any(first <= char <= last for first, last in _SPACELESS):
        return False
    return char.isalnum() or unicodedata.category(char)[0] == "M"


def excerpt_around(text: str, at: int, length: int) -> str:
    """Returns the text around a position, on one line."""
    start, end = max(at - 30, 0), at + length + 30
    excerpt = " ".join(text[start:end].split())
    return ("…" if start else "") + excerpt + ("…" if end < len(text) else "")
