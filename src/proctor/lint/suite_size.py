"""Suites that are too small, and wrong token estimates: `too-few-cases` and `tokens-est`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, Final

from proctor.codec import encode
from proctor.lint.findings import Finding, PassesAssertion, case_label
from proctor.model import Case
from proctor.plurals import join_names, pluralize
from proctor.stats import wilson

RECOMMENDED_CASES: Final = 20
"""From this number of cases on there is no warning."""
_MAX_NAMED: Final = 5
"""The maximum number of suites that one line names."""
CHARACTERS_PER_TOKEN: Final = 4
ANSWER_TOKENS: Final = 50
"""The number of tokens assumed for an answer, whose length is unknown beforehand."""
_MAX_FACTOR: Final = 3
_MIN_DIFFERENCE: Final = 50


def too_few_cases(sizes: Mapping[str, int]) -> str | None:
    """`too-few-cases`: suites with too few cases for a meaningful pass rate.

    The linter does not report it: running a suite to see what fails needs no more cases.

    Args:
        sizes: the number of cases that count, by name of suite.

    Returns:
        One sentence about all suites that are too small; None if there are none.
    """
    small = {name: count for name, count in sizes.items() if 0 < count < RECOMMENDED_CASES}
    if not small:
        return None
    count = min(small.values())
    passed = ceil(count * 0.8)
    low, high = wilson(passed, count) or (0.0, 1.0)
    suite_names = join_names(
        [f"{name!r} ({pluralize(size, 'case')})" for name, size in small.items()], _MAX_NAMED
    )
    return (
        f"Too few cases to distinguish targets or to decide a gate: {suite_names}. If "
        f"{passed} of {count} passed, the true rate could be anywhere from {low * 100:.0f} to "
        f"{high * 100:.0f} %. Write at least {RECOMMENDED_CASES} cases."
    )


def check_token_estimate(case: Case, passes: PassesAssertion) -> Iterator[Finding]:  # noqa: ARG001  # as every rule
    """`tokens-est`: a token estimate of a case that is far from the length of its texts."""
    estimate = case.metadata.get("tokens_est")
    if isinstance(estimate, bool) or not isinstance(estimate, int | float) or not case.input:
        return
    characters = sum(len(message.content) for message in case.input) + _length(case.expected)
    about = max(1, round(characters / CHARACTERS_PER_TOKEN))
    if (
        abs(estimate - about) < _MIN_DIFFERENCE
        or about / _MAX_FACTOR <= estimate <= (about + ANSWER_TOKENS) * _MAX_FACTOR
    ):
        return
    message = (
        f"{case_label(case)}: `metadata.tokens_est` is {estimate}, and prompt and expected answer "
        f"have about {about} tokens ({characters:,} characters, {CHARACTERS_PER_TOKEN} per token). Correct "
        f"the estimate."
    )
    yield Finding("tokens-est", message, "metadata.tokens_est")


def _length(expected: Any) -> int:
    """Returns the characters of an expected answer; of several, those of the longest."""
    if expected is None:
        return 0
    if isinstance(expected, str):
        return len(expected)
    if isinstance(expected, list) and all(isinstance(item, str) for item in expected):
        return max(map(len, expected), default=0)
    return len(encode(expected).decode("utf-8"))
