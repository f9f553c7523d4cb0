"""`too-few-cases` and `tokens-est`."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.lint.suite_size import too_few_cases
from support.linting import lint_codes, make_checked_case


@pytest.mark.parametrize(("count", "too_few"), [(0, False), (1, True), (19, True), (20, False), (900, False)])
def test_fewer_than_twenty_cases_are_too_few(count: int, too_few: bool) -> None:
    assert (too_few_cases({"small": count}) is not None) is too_few


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (8, "If 7 of 8 passed, the true rate could be anywhere from 53 to 98 %."),
        (1, "If 1 of 1 passed, the true rate could be anywhere from 21 to 100 %."),
    ],
)
def test_the_message_says_what_a_pass_rate_means_at_that_number(count: int, sentence: str) -> None:
    message = too_few_cases({"small": count}) or ""
    assert sentence in message
    assert message.startswith("Too few cases to distinguish targets or to decide a gate: 'small' (")


def test_several_suites_are_named_once_and_the_smallest_is_explained() -> None:
    sizes = {"large": 40, **{f"s{number}": 12 - number for number in range(7)}}
    message = too_few_cases(sizes) or ""
    assert "'s0' (12 cases), 's1' (11 cases)" in message
    assert "'s4' (8 cases) and 2 more. If 5 of 6 passed" in message
    assert "large" not in message


@pytest.mark.parametrize(
    ("question", "expected", "estimate", "is_wrong"),
    [
        ("x" * 400, None, 100, False),
        ("x" * 400, None, 34, False),
        ("x" * 400, None, 30, True),
        ("x" * 400, None, 450, False),
        ("x" * 400, None, 451, True),
        ("x" * 40, None, 60, False),
        ("x" * 40, None, 0, False),
        ("x" * 200, "y" * 2000, 90, True),
        ("x" * 200, ["y" * 2000, "y"], 500, False),
        ("x" * 400, None, True, False),
        ("x" * 400, None, "30", False),
    ],
)
def test_an_estimate_of_tokens_may_be_off_by_a_factor_of_three(
    question: str, expected: Any, estimate: Any, is_wrong: bool
) -> None:
    estimated = make_checked_case(
        question, ("llm_grader", {}), expected=expected, metadata={"tokens_est": estimate}
    )
    assert ("tokens-est" in lint_codes(estimated)) is is_wrong
