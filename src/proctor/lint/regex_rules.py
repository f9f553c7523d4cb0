"""Regular expressions that pass too much or take too long: the rules `regex-empty` and `regex-backtracking`.

A pattern backtracks without bound if a repeat inside a repeat can match the same letters: that is visible in
the pattern. For choices inside a repeat, and for several repeats in a row, the rule makes texts that begin to
match and then do not, and measures the time of the search.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from time import thread_time
from typing import Final

from proctor.lint.findings import (
    Finding,
    PassesAssertion,
    case_label,
    counting_assertions,
    quote_text,
    text_param,
)
from proctor.lint.regex_trees import attack_texts, is_ambiguous
from proctor.model import Assertion, Case

LIMIT_S: Final = 0.05
"""The maximum time for searching one of these texts, in seconds."""
BUDGET_S: Final = 0.5
"""The processor time for making and searching these texts in a suite; later patterns are not reported."""
MAX_PATTERN_LENGTH: Final = 1_000
"""Longer patterns are not checked."""

_QUANTIFIERS: Final = "*+{?|"


def regex_assertions(case: Case) -> list[tuple[Assertion, str]]:
    """Returns the assertions that search for a pattern, each with the pattern."""
    return [
        (assertion, pattern)
        for assertion in counting_assertions(case)
        if assertion.grader == "regex" and (pattern := text_param(assertion, "pattern"))
    ]


def find_empty_matches(case: Case, passes: PassesAssertion) -> Iterator[Finding]:
    """`regex-empty`: a required pattern that the empty answer matches."""
    for assertion, pattern in regex_assertions(case):
        if not assertion.negated and passes(assertion, ""):
            message = (
                f"{case_label(case)}: the pattern {quote_text(pattern)} matches an empty answer, so "
                f"an empty answer passes. Require at least one character, for example with + instead of *."
            )
            yield Finding("regex-empty", message, "assertions")


class BacktrackingRule:
    """`regex-backtracking`: patterns whose search may take unlimited time; each is tried once per suite."""

    def __init__(self) -> None:
        self._slow: dict[tuple[str, str, bool], bool] = {}
        self._left_s = BUDGET_S

    def check(self, case: Case, passes: PassesAssertion) -> Iterator[Finding]:  # noqa: ARG002  # as every rule is called
        """Yields the findings of one case."""
        for assertion, pattern in regex_assertions(case):
            if len(pattern) > MAX_PATTERN_LENGTH or sum(pattern.count(letter) for letter in _QUANTIFIERS) < 2:
                continue
            key = (pattern, text_param(assertion, "flags") or "", bool(assertion.params.get("full")))
            if key not in self._slow:
                self._slow[key] = self._is_slow(*key)
            if self._slow[key]:
                message = (
                    f"{case_label(case)}: the pattern {quote_text(pattern)} can backtrack without "
                    f"bound: its repeats can match the same letters in many ways, so the search in a long "
                    f"answer times out. Change the pattern so that no repeat matches the same text as the "
                    f"one around it or beside it, or use a possessive repeat such as `a++`."
                )
                yield Finding("regex-backtracking", message, "assertions")

    def _is_slow(self, pattern: str, flags: str, full: bool) -> bool:
        if is_ambiguous(pattern, flags, full=full):
            return True
        if self._left_s <= 0:
            return False
        start = thread_time()
        texts = attack_texts(pattern, flags)
        slow = bool(texts) and _times_out(pattern, flags, texts)
        self._left_s -= thread_time() - start
        return slow


def _times_out(pattern: str, flags: str, texts: tuple[str, ...]) -> bool:
    import regex

    combined = regex.VERSION0
    for letter in flags:
        combined |= regex.RegexFlag[letter.upper()]
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            matcher = regex.compile(pattern, combined, cache_pattern=False)
    except (regex.error, ValueError, OverflowError, RecursionError):
        return False
    for text in texts:
        try:
            matcher.search(text, timeout=LIMIT_S)
        except TimeoutError:
            return True
    return False
