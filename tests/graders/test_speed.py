"""How fast a streamed answer came, and what is said of one that was not streamed."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.errors import CannotScore
from proctor.model import Output, Usage
from support.grading import grade_answer, make_grader

STREAMED: dict[str, Any] = {
    "text": "43",
    "latency_ms": 1500.0,
    "first_token_ms": 500.0,
    "usage": Usage(output_tokens=51),
}


@pytest.mark.parametrize(
    ("grader", "params", "passed"),
    [
        ("ttft", {"max_ms": 500}, True),
        ("ttft", {"max_ms": 499.9}, False),
        ("tokens_per_second", {"min": 50}, True),
        ("tokens_per_second", {"min": 50.1}, False),
    ],
)
def test_a_streamed_answer_is_held_against_the_limit(
    grader: str, params: dict[str, Any], passed: bool
) -> None:
    result = grade_answer(grader, params, Output(**STREAMED))
    assert (result.value, result.passed) == (float(passed), passed)
    assert list(result.details.values()) == [500.0 if grader == "ttft" else 50.0]


def test_the_reason_says_the_limit_and_the_figure() -> None:
    result = grade_answer("ttft", {"max_ms": 400}, Output(**STREAMED))
    assert result.reason == "Limit not met: first token after at most 400 ms (is 500 ms)."


@pytest.mark.parametrize(("grader", "params"), [("ttft", {"max_ms": 1}), ("tokens_per_second", {"min": 1})])
@pytest.mark.parametrize(
    ("fields", "message"),
    [({"first_token_ms": None}, "Run with --stream"), ({"cached": True}, "Run without --cache")],
)
def test_an_answer_whose_speed_was_not_measured_is_unscored_with_the_remedy(
    grader: str, params: dict[str, Any], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(CannotScore, match=message):
        grade_answer(grader, params, Output(**STREAMED | fields))


@pytest.mark.parametrize(
    "fields", [{"usage": None}, {"usage": Usage(output_tokens=1)}, {"latency_ms": 500.0}]
)
def test_a_rate_needs_two_tokens_and_time_between_them(fields: dict[str, Any]) -> None:
    with pytest.raises(CannotScore, match="fewer than two output tokens"):
        grade_answer("tokens_per_second", {"min": 1}, Output(**STREAMED | fields))


@pytest.mark.parametrize(("grader", "name"), [("ttft", "max_ms"), ("tokens_per_second", "min")])
@pytest.mark.parametrize("limit", [0, -1, float("inf"), float("nan")])
def test_a_limit_is_a_finite_number_above_0(grader: str, name: str, limit: float) -> None:
    with pytest.raises(ValueError, match="finite number above 0"):
        make_grader(grader, {name: limit})
