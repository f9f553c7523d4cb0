"""Latency, cost, tokens and calls against limits, and the reasons where a figure is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.errors import CannotScore
from proctor.model import GraderResult, Message, Output, ToolCall, Usage
from support.grading import grade_answer


def grade(grader: str, params: dict[str, Any], text: str = "Done.", **fields: Any) -> GraderResult:
    return grade_answer(grader, params, Output(text=text, **fields))


def make_tool_calls(*names: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name=name) for name in names)


@pytest.mark.parametrize(
    ("fields", "passed"),
    [
        ({"duration_ms": 500.0}, True),
        ({"duration_ms": 500.1}, False),
        ({"latency_ms": 499.0}, True),
        ({"latency_ms": 501.0}, False),
        # what the target says of itself outranks what was measured around it
        ({"duration_ms": 100.0, "latency_ms": 900.0}, True),
        ({"duration_ms": 900.0, "latency_ms": 100.0}, False),
        ({"duration_ms": 0.0, "latency_ms": 900.0}, True),
    ],
)
def test_latency_is_the_targets_own_or_the_measured_one(fields: dict[str, Any], passed: bool) -> None:
    mark = grade("latency", {"threshold_ms": 500}, **fields)
    assert (mark.value, mark.passed) == (float(passed), passed)


@pytest.mark.parametrize(("cost", "passed"), [(0.0, True), (0.02, True), (0.021, False)])
def test_cost_is_held_against_the_budget(cost: float, passed: bool) -> None:
    mark = grade("cost", {"budget_usd": 0.02}, cost_usd=cost)
    assert (mark.value, mark.passed) == (float(passed), passed)
    assert mark.details == {"cost": cost}


@pytest.mark.parametrize(
    ("limits", "passed"),
    [
        ({"max_total": 130}, True),
        ({"max_total": 129}, False),
        ({"max_input": 100}, True),
        ({"max_input": 99}, False),
        ({"max_output": 30}, True),
        ({"max_output": 29}, False),
        ({"max_total": 130, "max_input": 100, "max_output": 29}, False),
        ({"max_total": 210, "add_cached": True}, True),
        ({"max_total": 209, "add_cached": True}, False),
        ({"max_total": 210, "max_input": 100, "max_output": 30, "add_cached": True}, True),
        ({"max_total": 210, "max_input": 99, "add_cached": True}, False),
    ],
)
def test_tokens_keep_every_limit_or_earn_nothing(limits: dict[str, int], passed: bool) -> None:
    usage = Usage(input_tokens=100, output_tokens=30, cached_tokens=80)
    mark = grade("token_usage", limits, usage=usage)
    assert (mark.value, mark.passed) == (float(passed), passed)
    assert len(mark.entries) == len(limits.keys() - {"add_cached"})


def test_a_reason_and_the_entries_tell_figure_and_limit() -> None:
    usage = Usage(input_tokens=100, output_tokens=30)
    mark = grade("token_usage", {"max_input": 120, "max_output": 20}, usage=usage)
    assert mark.reason == "Limit not met: output tokens at most 20 (is 30)."
    assert [(entry.text, entry.passed, entry.evidence) for entry in mark.entries] == [
        ("input tokens at most 120", True, "is 100"),
        ("output tokens at most 20", False, "is 30"),
    ]
    assert grade("latency", {"threshold_ms": 5}, duration_ms=2.5).reason == "Every limit is met."


FULL: dict[str, Any] = {
    "messages": (
        Message(role="user", content="Go."),
        Message(role="assistant", tool_calls=make_tool_calls("Read", "Grep")),
        Message(role="tool", content="…"),
        Message(role="assistant", content="Done.", tool_calls=make_tool_calls("Edit", "Bash")),
    ),
    "usage": Usage(input_tokens=100, output_tokens=30),
    "cost_usd": 0.02,
    "duration_ms": 800.0,
}


@pytest.mark.parametrize(
    ("limits", "value"),
    [
        ({"max_tool_calls": 4}, 1),
        ({"max_tool_calls": 3}, 0),
        ({"max_llm_calls": 2}, 1),
        ({"max_llm_calls": 1}, 0),
        ({"max_tokens": 130}, 1),
        ({"max_tokens": 129}, 0),
        ({"max_cost_usd": 0.02}, 1),
        ({"max_duration_ms": 799}, 0),
        ({"target_exploration_ratio": 0.5}, 1),
        ({"target_exploration_ratio": 0.3}, 1),
        ({"target_exploration_ratio": 0.7}, 1),
        ({"target_exploration_ratio": 0.29}, 0),
        ({"target_exploration_ratio": 0.4, "exploration_tolerance": 0.05}, 0),
        ({"max_tool_calls": 4, "max_tokens": 10, "max_cost_usd": 1, "max_duration_ms": 1}, 0.5),
        ({"max_tool_calls": 1, "target_exploration_ratio": 0.5}, 0.5),
    ],
)
def test_execution_metrics_give_the_share_of_limits_that_are_kept(
    limits: dict[str, Any], value: float
) -> None:
    mark = grade("execution_metrics", limits, **FULL)
    assert (mark.value, mark.passed) == (value, value == 1)


@pytest.mark.parametrize("target", [0.1, 0.2, 0.3, 0.6, 0.7])
def test_a_ratio_exactly_at_its_tolerance_is_near_enough(target: float) -> None:
    calls = make_tool_calls(*["Read"] * round(target * 10 + 2), *["Edit"] * round(8 - target * 10))
    mark = grade("execution_metrics", {"target_exploration_ratio": target}, tool_calls=calls)
    assert mark.passed


@pytest.mark.parametrize(
    ("name", "explores"),
    [
        *((name, True) for name in ("read", "grep", "glob", "search", "list", "WebSearch", "WebFetch")),
        *((name, False) for name in ("Write", "Edit", "Bash", "reader")),
    ],
)
def test_exploring_is_looking_without_changing(name: str, explores: bool) -> None:
    params = {"target_exploration_ratio": 1, "exploration_tolerance": 0}
    assert grade("execution_metrics", params, tool_calls=make_tool_calls(name)).passed is explores


def test_an_answer_without_messages_is_one_llm_call() -> None:
    mark = grade("execution_metrics", {"max_llm_calls": 1})
    assert (mark.passed, mark.details) == (True, {"llm_calls": 1})


def test_no_tool_calls_in_messages_are_a_figure_and_no_absence() -> None:
    messages = (Message(role="assistant", content="Done."),)
    mark = grade("execution_metrics", {"max_tool_calls": 0}, messages=messages)
    assert (mark.passed, mark.details) == (True, {"tool_calls": 0})


@pytest.mark.parametrize(
    ("grader", "params", "fields", "sentence"),
    [
        ("latency", {"threshold_ms": 5}, {}, "The target reported no duration to check a limit against."),
        ("cost", {"budget_usd": 5}, {}, "reported no cost to"),
        ("token_usage", {"max_total": 5}, {}, "reported no tokens to"),
        ("token_usage", {"max_input": 5, "max_output": 5}, {}, "no input tokens, no output tokens to"),
        ("execution_metrics", {"max_tool_calls": 5}, {}, "reported no tool calls to"),
        ("execution_metrics", {"max_llm_calls": 5}, {"text": " "}, "reported no LLM calls to"),
        ("execution_metrics", {"target_exploration_ratio": 0.5}, {}, "no tool call, so no exploration ratio"),
        # one that is not known leaves the share unknown
        ("execution_metrics", {"max_cost_usd": 5, "max_tokens": 5}, {"cost_usd": 0.1}, "reported no tokens"),
    ],
)
def test_a_figure_that_is_not_known_is_neither_kept_nor_broken(
    grader: str, params: dict[str, Any], fields: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(CannotScore, match=sentence):
        grade(grader, params, **fields)
