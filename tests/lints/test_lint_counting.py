"""`too-few-cases` and `tokens-est`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from proctor.lints.counting import too_few_cases
from proctor.model import Case, SplitRule, Suite

SUITE = Suite(name="small", dialect="pramana")
Codes = Callable[..., list[str]]
Make = Callable[..., Case]


@pytest.mark.parametrize(("count", "told"), [(0, False), (1, True), (19, True), (20, False), (900, False)])
def test_fewer_than_twenty_cases_are_too_few(count: int, told: bool) -> None:
    assert bool(list(too_few_cases(SUITE, count))) is told


@pytest.mark.parametrize(
    ("count", "said"),
    [(8, "with 8 cases, 7 passed means 53-98 %"), (1, "with 1 case, 1 passed means 21-100 %")],
)
def test_the_message_says_what_a_pass_rate_means_at_that_number(count: int, said: str) -> None:
    (finding,) = too_few_cases(SUITE, count)
    assert said in finding.message
    assert "holdout" not in finding.message


def test_a_suite_that_is_split_is_told_of_its_holdout_as_well() -> None:
    divided = Suite(name="small", dialect="meridian", split_rule=SplitRule(ratio=0.2))
    (finding,) = too_few_cases(divided, 11)
    assert re.search(
        r"with 11 cases, 9 passed .*; in the holdout, with 3 cases, 3 passed means 44-100 %", finding.message
    )


@pytest.mark.parametrize(
    ("asked", "expected", "stated", "told"),
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
    case: Make, codes: Codes, asked: str, expected: Any, stated: Any, told: bool
) -> None:
    estimated = case(asked, ("llm_grader", {}), expected=expected, metadata={"tokens_est": stated})
    assert ("tokens-est" in codes(estimated)) is told
