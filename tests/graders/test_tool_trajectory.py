"""Tool calls to marks: modes, arguments, durations, and what is said where nothing was reported."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import CannotScore
from proctor.model import GraderResult, Message, Output, ToolCall
from support.grading import grade_answer

MESSAGES = (Message(role="assistant", content="Done."),)


def call(name: str, duration_ms: float | None = None, /, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, arguments=arguments, duration_ms=duration_ms)


def grade(grader: str, params: dict[str, Any], *calls: ToolCall, **fields: Any) -> GraderResult:
    return grade_answer(
        grader, params, Output(text="Done.", **{"tool_calls": calls, "messages": MESSAGES} | fields)
    )


def grade_letters(mode: str, expected: str, called: str) -> GraderResult:
    """The mark of tools named by single letters."""
    params = {"mode": mode, "expected": [{"tool": letter} for letter in expected]}
    return grade("tool_trajectory", params, *map(call, called))


# --- modes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "expected", "called", "value"),
    [
        ("in_order", "ab", "ab", 1),
        ("in_order", "ab", "xaxbx", 1),
        ("in_order", "ab", "ba", 0.5),
        ("in_order", "aa", "a", 0.5),
        # the walk never goes back, so nothing is found behind what is missing
        ("in_order", "abc", "ac", 1 / 3),
        ("in_order", "", "ab", 1),
        ("in_order", "ab", "", 0),
        ("exact", "ab", "ab", 1),
        ("exact", "ab", "ba", 0),
        ("exact", "ab", "a", 0.5),
        # calls too many lower the score
        ("exact", "ab", "abx", 2 / 3),
        ("exact", "a", "axxx", 0.25),
        ("exact", "", "", 1),
        ("exact", "", "a", 0),
        ("superset", "ab", "xbya", 1),
        ("superset", "aa", "a", 0.5),
        ("superset", "aab", "aa", 2 / 3),
        ("superset", "", "a", 1),
        ("subset", "ab", "aaa", 1),
        ("subset", "ab", "", 1),
        ("subset", "ab", "abxy", 0.5),
        ("subset", "", "a", 0),
    ],
)
def test_the_value_is_the_share_of_checks_that_hold(
    mode: str, expected: str, called: str, value: float
) -> None:
    mark = grade_letters(mode, expected, called)
    assert mark.value == pytest.approx(value)
    assert mark.passed is (value == 1)


@pytest.mark.parametrize(
    ("minimums", "called", "value"),
    [
        ({"a": 2, "b": 1}, "aba", 1),
        ({"a": 2, "b": 1}, "ab", 0.5),
        ({"a": 1}, "xx", 0),
        ({"a": 0}, "", 1),
    ],
)
def test_any_order_counts_each_tool(minimums: dict[str, int], called: str, value: float) -> None:
    mark = grade("tool_trajectory", {"mode": "any_order", "minimums": minimums}, *map(call, called))
    assert (mark.value, mark.passed) == (value, value == 1)


LETTERS = st.text("abc", max_size=6)
MODES = ["in_order", "exact", "superset", "subset"]


@given(LETTERS, st.sampled_from(MODES))
def test_what_was_expected_to_the_letter_passes_in_every_mode(letters: str, mode: str) -> None:
    assert grade_letters(mode, letters, letters).passed


@given(LETTERS, LETTERS, st.sampled_from(MODES))
def test_the_value_is_the_share_of_entries_that_passed(expected: str, called: str, mode: str) -> None:
    mark = grade_letters(mode, expected, called)
    assert mark.value is not None
    passed = [entry.passed for entry in mark.entries]
    assert mark.value == pytest.approx(sum(map(bool, passed)) / len(passed) if passed else 1)


@given(LETTERS, LETTERS)
def test_exact_is_the_strictest_and_order_is_more_than_presence(expected: str, called: str) -> None:
    exact, in_order, present = (
        grade_letters(mode, expected, called).passed for mode in ("exact", "in_order", "superset")
    )
    assert in_order or not exact
    assert present or not in_order


# --- arguments ---------------------------------------------------------------------------------------------

ARGUMENTS = {"query": "tea", "options": {"limit": 5, "deep": True}}


@pytest.mark.parametrize(
    ("match", "arguments", "fits"),
    [
        (None, ARGUMENTS, True),
        (None, {**ARGUMENTS, "extra": 1}, False),
        ("exact", {"query": "tea", "options": {"deep": True, "limit": 5.0}}, True),
        ("exact", {"query": "tea", "options": {"limit": 5, "deep": 1}}, False),
        ("exact", {"query": "tea", "options": {"limit": "5", "deep": True}}, False),
        ("superset", {**ARGUMENTS, "extra": 1}, True),
        ("superset", {"query": "tea"}, False),
        ("superset", {"query": "tea", "options": {"limit": 5, "deep": True, "more": 1}}, False),
        ("subset", {"query": "tea"}, True),
        ("subset", {}, True),
        ("subset", {"query": "coffee"}, False),
        ("subset", {"query": "tea", "extra": 1}, False),
        ("ignore", {"anything": 1}, True),
        (["query"], {"query": "tea", "extra": 1}, True),
        (["query", "options.limit"], {"query": "tea", "options": {"limit": 5}}, True),
        (["query", "options.limit"], {"query": "tea", "options": {"limit": 6}}, False),
        (["options.limit"], {}, False),
        # what the expected arguments do not have is not compared
        (["query", "unknown"], {"query": "tea", "unknown": 1}, True),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_arguments_are_compared_as_asked(
    mode: str, match: Any, arguments: dict[str, Any], fits: bool
) -> None:
    step = {"tool": "search", "args": ARGUMENTS}
    params = {"mode": mode, "expected": [step]} | ({} if match is None else {"args_match": match})
    assert grade("tool_trajectory", params, call("search", **arguments)).passed is fits
    if match is not None:
        params_of_step = {"mode": mode, "expected": [step | {"args_match": match}], "args_match": "exact"}
        assert grade("tool_trajectory", params_of_step, call("search", **arguments)).passed is fits


@pytest.mark.parametrize("args", [{}, {"args": "any"}, {"args": None}])
def test_no_arguments_or_any_asks_for_none_in_particular(args: dict[str, Any]) -> None:
    params = {"mode": "exact", "expected": [{"tool": "search", **args}]}
    assert grade("tool_trajectory", params, call("search", q=1)).passed


def test_empty_arguments_are_asked_for_exactly() -> None:
    params = {"mode": "exact", "expected": [{"tool": "now", "args": {}}]}
    assert grade("tool_trajectory", params, call("now")).passed
    assert not grade("tool_trajectory", params, call("now", zone="x")).passed


@pytest.mark.parametrize(("called", "value"), [("ab", 1), ("a", 0), ("", 0)])
def test_without_partial_credit_all_checks_must_hold(called: str, value: float) -> None:
    steps = [{"tool": "a"}, {"tool": "b"}]
    params = {"mode": "in_order", "expected": steps, "partial_credit": False}
    mark = grade("tool_trajectory", params, *map(call, called))
    assert (mark.value, mark.passed) == (value, value == 1)


def test_in_order_a_call_with_wrong_arguments_is_used_up() -> None:
    params = {"mode": "in_order", "expected": [{"tool": "a", "args": {"n": 1}}, {"tool": "a"}]}
    assert grade("tool_trajectory", params, call("a", n=2), call("a", n=1)).value == 0.5
    assert grade("tool_trajectory", params, call("a", n=2)).value == 0


def test_superset_gives_each_call_to_one_expected_call() -> None:
    params = {"mode": "superset", "expected": [{"tool": "a", "args": {"n": 1}}, {"tool": "a"}]}
    assert grade("tool_trajectory", params, call("a", n=2), call("a", n=1)).passed
    assert grade("tool_trajectory", params, call("a", n=1)).value == 0.5


# --- durations ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["in_order", "exact"])
@pytest.mark.parametrize(
    ("took", "value", "passed"), [(500.0, 1, True), (500.5, 0.5, False), (None, 1, True)]
)
def test_a_duration_is_a_check_of_its_own_where_it_is_known(
    mode: str, took: float | None, value: float, passed: bool
) -> None:
    params = {"mode": mode, "expected": [{"tool": "search", "max_duration_ms": 500}]}
    mark = grade("tool_trajectory", params, call("search", took))
    assert (mark.value, mark.passed) == (value, passed)
    assert [entry.passed for entry in mark.entries] == [True, None if took is None else passed]
    assert ("of unknown duration: 'search within 500 ms'" in mark.reason) is (took is None)


def test_the_duration_of_a_wrong_call_is_not_checked() -> None:
    params = {"mode": "exact", "expected": [{"tool": "a", "args": {"n": 1}, "max_duration_ms": 5}]}
    mark = grade("tool_trajectory", params, call("a", 1.0, n=2))
    assert [entry.passed for entry in mark.entries] == [False]


# --- what is reported --------------------------------------------------------------------------------------


def test_entries_name_what_was_missing_wrong_and_too_much() -> None:
    params = {"mode": "exact", "expected": [{"tool": "plan"}, {"tool": "read", "args": {"path": "a"}}]}
    mark = grade("tool_trajectory", params, call("plan"), call("read", path="b"), call("write"))
    assert [(entry.text, entry.passed, entry.evidence) for entry in mark.entries] == [
        ("plan", True, "called: plan {}"),
        ("read {'path': 'a'}", False, "called: read {'path': 'b'}"),
        ("write, which is not expected", False, "called: write {}"),
    ]
    assert mark.reason == """The tool calls differ: "read {'path': 'a'}", 'write, which is not expected'."""
    assert mark.details == {"calls": {"plan": 1, "read": 1, "write": 1}}


def test_calls_inside_messages_count_where_they_are_not_listed_beside_them() -> None:
    messages = (
        Message(role="assistant", tool_calls=(call("a"),)),
        Message(role="tool", content="1"),
        Message(role="assistant", content="Done.", tool_calls=(call("b"),)),
    )
    params = {"mode": "exact", "expected": [{"tool": "a"}, {"tool": "b"}]}
    assert grade("tool_trajectory", params, messages=messages).passed
    assert not grade("tool_trajectory", params, call("c"), messages=messages).passed


@pytest.mark.parametrize(
    "params",
    [
        {"mode": "any_order", "minimums": {"a": 1}},
        *({"mode": mode, "expected": [{"tool": "a"}]} for mode in ("in_order", "exact", "superset")),
    ],
)
@pytest.mark.parametrize("messages", [(), MESSAGES])
def test_calls_that_must_be_there_fail_when_none_was_reported(
    params: dict[str, Any], messages: tuple[Message, ...]
) -> None:
    mark = grade("tool_trajectory", params, messages=messages)
    assert (mark.value, mark.passed) == (0, False)
    assert mark.reason.endswith("the target reported no tool call.")


@pytest.mark.parametrize(
    "params",
    [
        {"mode": "exact", "expected": []},
        {"mode": "subset", "expected": [{"tool": "a"}]},
        {"mode": "any_order", "minimums": {"a": 0}},
    ],
)
def test_the_absence_of_calls_is_right_only_for_a_target_that_reports(params: dict[str, Any]) -> None:
    assert grade("tool_trajectory", params).passed
    with pytest.raises(CannotScore, match="reported neither messages nor tool calls"):
        grade("tool_trajectory", params, messages=())


def test_thousands_of_calls_leave_a_bounded_mark() -> None:
    mark = grade("tool_trajectory", {"mode": "subset", "expected": []}, *(call(f"t{n}") for n in range(3000)))
    assert mark.value == 0
    assert len(mark.entries) == 200
    assert len(mark.details["calls"]) == 30
    assert len(mark.reason) < 200


# --- skills ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skill_call", "is_used"),
    [
        (call("Skill", skill="csv"), True),
        (call("Skill", skill="tables:csv"), True),
        (call("Skill", skill="csv-export"), False),
        (call("Skill", name="csv"), False),
        (call("Skill", skill=["csv"]), False),
        (call("Read", file_path="/desk/skills/csv/SKILL.md"), True),
        (call("Read", path="skills\\csv\\SKILL.md"), True),
        (call("Read", file_path="/desk/report.csv"), False),
        (call("Read", file_path="/desk/csv2/notes.md"), False),
        (call("Write", file_path="/desk/skills/csv/SKILL.md"), False),
        (ToolCall(name="Bash", output="see .agents/skills/csv/SKILL.md"), True),
        (ToolCall(name="Bash", output={"files": ["skills/csv/run.py"]}), True),
        (ToolCall(name="Bash", output="skills/csv-export/run.py"), False),
        (ToolCall(name="Bash", output=7), False),
    ],
)
def test_a_skill_is_used_by_name_by_reading_it_or_in_an_output(skill_call: ToolCall, is_used: bool) -> None:
    calls = (call("Bash", command="ls"), skill_call)
    mark = grade("skill_trigger", {"skill": "csv"}, *calls)
    inverse_mark = grade("skill_trigger", {"skill": "csv", "should_trigger": False}, *calls)
    assert (mark.value, mark.passed) == (float(is_used), is_used)
    assert (inverse_mark.value, inverse_mark.passed) == (float(not is_used), not is_used)
    assert mark.reason == f"The skill 'csv' was {'' if is_used else 'not '}used."
    assert (mark.entries[0].evidence is not None) is is_used


def test_a_target_that_reports_nothing_may_have_used_the_skill() -> None:
    assert not grade("skill_trigger", {"skill": "csv"}).passed
    for should_trigger in (True, False):
        params = {"skill": "csv", "should_trigger": should_trigger}
        with pytest.raises(CannotScore, match="whether it used the skill 'csv'"):
            grade("skill_trigger", params, messages=())
