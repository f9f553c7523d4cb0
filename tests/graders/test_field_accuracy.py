"""Fields of an answer's JSON against those that are expected: paths, numbers, dates, shares."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import CannotScore
from proctor.graders.field_accuracy import ABSENT, get_value_at, json_equal
from proctor.model import Case, GraderResult
from support.grading import grade_answer


def grade(
    fields: list[dict[str, Any]], answer: Any, expected: Any, aggregation: str = "weighted_average"
) -> GraderResult:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    params = {"fields": fields, "aggregation": aggregation}
    return grade_answer("field_accuracy", params, text, case=Case(id="c", input=(), expected=expected))


def is_right(actual: Any, expected: Any, **field: Any) -> bool:
    return bool(grade([{"path": "x", **field}], {"x": actual}, {"x": expected}).passed)


# --- exact -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        (1, 1, True),
        (1.0, 1, True),
        ("1", 1, False),
        (1, "1", False),
        (True, 1, False),
        (0, False, False),
        (True, True, True),
        (None, None, True),
        (None, 0, False),
        ("a", "A", False),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ([], {}, False),
    ],
)
def test_exact_is_equal_in_value_and_type_all_the_way_down(actual: Any, expected: Any, same: bool) -> None:
    assert is_right(actual, expected) is same


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(JSON, JSON)
def test_equal_is_what_equal_text_is(value: Any, other_value: Any) -> None:
    assert json_equal(value, json.loads(json.dumps(value)))
    assert json_equal(value, other_value) == (
        json.dumps(value, sort_keys=True) == json.dumps(other_value, sort_keys=True)
    )


# --- numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actual", "expected", "field", "near"),
    [
        (10.5, 10, {"tolerance": 0.5}, True),
        (10.51, 10, {"tolerance": 0.5}, False),
        (1.1, 1, {"tolerance": 0.1}, True),
        (10, 10, {}, True),
        ("10", 10, {}, True),
        (10, "10.00", {}, True),
        (" 1,234.50 USD", 1234.5, {}, True),
        ("-5e2", -500, {}, True),
        (".5", 0.5, {}, True),
        ("12,5", 12, {}, False),
        ("2024-01-15", 2024, {}, False),
        ("about 10", 10, {}, False),
        ("1e999", 10, {"tolerance": 5}, False),
        (10**400, 10, {"tolerance": 5}, False),
        (True, 1, {}, False),
        (None, 0, {}, False),
        ([10], 10, {}, False),
        (105, 100, {"tolerance": 0.05, "relative": True}, True),
        (105.1, 100, {"tolerance": 0.05, "relative": True}, False),
        (-95, -100, {"tolerance": 0.05, "relative": True}, True),
        (0.01, 0, {"tolerance": 0.05, "relative": True}, True),
    ],
)
def test_a_number_may_be_off_by_the_tolerance(
    actual: Any, expected: Any, field: dict[str, Any], near: bool
) -> None:
    assert is_right(actual, expected, match="numeric_tolerance", **field) is near


DECIMALS = st.decimals(-10000, 10000, places=3)


@pytest.mark.slow
@given(DECIMALS, st.decimals(0, 100, places=3), st.sampled_from([str, float]), st.sampled_from([str, float]))
def test_the_tolerance_ends_where_decimals_say(
    expected: Decimal, tolerance: Decimal, actual_type: Callable[..., Any], expected_type: Callable[..., Any]
) -> None:
    field = {"match": "numeric_tolerance", "tolerance": float(tolerance)}
    for actual in (expected - tolerance, expected, expected + tolerance):
        assert is_right(actual_type(actual), expected_type(expected), **field)
    assert not is_right(
        actual_type(expected + tolerance + Decimal("0.000001")), expected_type(expected), **field
    )


def test_what_a_program_added_up_counts_with_its_15_digits() -> None:
    assert is_right(0.1 + 0.2, 0.3, match="numeric_tolerance")
    assert not is_right("0.30000000000000004", 0.3, match="numeric_tolerance")


# --- dates -------------------------------------------------------------------------------------------------

US, EU = "MM/DD/YYYY", "DD/MM/YYYY"


@pytest.mark.parametrize(
    ("actual", "formats", "same"),
    [
        ("2025-03-04", [], True),
        ("2025-03-04T23:59:00Z", [], True),
        ("2025/3/4", [], True),
        ("04-MAR-2025", [], True),
        ("4 March 2025", [], True),
        ("Mar 4, 2025", [], True),
        ("March 4 2025", [], True),
        (" 2025-03-04\n", [], True),
        ("03/04/2025", [], True),
        ("03/04/2025", [US], True),
        ("03/04/2025", [EU], False),
        ("04/03/2025", [EU], True),
        ("4.3.2025", ["DD.MM.YYYY"], True),
        ("03/04/2025", [EU, US], True),
        ("03/04/2025", ["DD-MMM-YYYY", "YYYY-MM-DD"], True),
        ("2025-03-05", [], False),
        ("2025-02-30", [], False),
        ("04-FOO-2025", [], False),
        ("soon", [], False),
        (20250304, [], False),
        (None, [], False),
    ],
)
def test_a_date_is_the_same_day_however_it_is_written(actual: Any, formats: list[str], same: bool) -> None:
    assert is_right(actual, "2025-03-04", match="date", formats=formats) is same


@pytest.mark.parametrize(
    ("actual", "formats", "same"),
    [("25/12/2025", [], True), ("12/25/2025", [], True), ("25/12/2025", [US], False)],
)
def test_a_number_above_12_is_the_day_unless_the_formats_say_otherwise(
    actual: str, formats: list[str], same: bool
) -> None:
    assert is_right(actual, "2025-12-25", match="date", formats=formats) is same


@given(st.dates(min_value=date(1000, 1, 1)))
def test_every_day_is_read_in_every_form(day: date) -> None:
    iso = day.isoformat()
    for form in ("%d-%b-%Y", "%d %B %Y", "%B %d, %Y", "%Y/%m/%d"):
        assert is_right(day.strftime(form), iso, match="date")


# --- paths -------------------------------------------------------------------------------------------------

TREE = {"a": {"b": [{"c": 1}, [2, 3]]}, "0": "zero", "x y": None}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b[0].c", 1),
        ("a.b[1][0]", 2),
        ("a.b.1.1", 3),
        ("0", "zero"),
        ("x y", None),
        ("a.b[2]", ABSENT),
        ("a.c", ABSENT),
        ("a[0]", ABSENT),
        ("a.b.c", ABSENT),
        ("x y.z", ABSENT),
    ],
)
def test_a_path_leads_through_keys_and_places(path: str, value: Any) -> None:
    assert get_value_at(TREE, path) == value


def test_a_list_may_be_the_whole() -> None:
    assert grade([{"path": "[1].n"}], [{"n": 1}, {"n": 2}], [{"n": 0}, {"n": 2}]).passed


# --- what is compared --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        '{"x": 1}',
        '```json\n{"x": 1}\n```',
        'Here it is: {"x": 1}. Anything else?',
        'Sure!\n```json\n{"x": 1}\n```\nDone.',
    ],
)
def test_the_answers_json_may_stand_in_prose(answer: str) -> None:
    assert grade([{"path": "x"}], answer, {"x": 1}).passed


@pytest.mark.parametrize("answer", ["", " \n", "x is 1", "{x: 1}", "} {", '{"x": 1'])
def test_an_answer_without_json_fails(answer: str) -> None:
    mark = grade([{"path": "x"}], answer, {"x": 1})
    assert (mark.value, mark.passed) == (0, False)
    assert mark.reason.startswith("The answer contains no JSON object: ")


@pytest.mark.parametrize(
    "expected",
    [
        {"x": 1},
        '{"x": 1}',
        '```json\n{"x": 1}\n```',
        [{"role": "assistant", "content": {"x": 1}}],
        [{"role": "assistant", "content": '{"x": 1}'}],
        [
            {"role": "assistant", "content": {"x": 2}},
            {"role": "assistant", "content": {"x": 1}},
            {"role": "assistant", "content": "That is all."},
            {"role": "user", "content": {"x": 3}},
        ],
    ],
)
def test_expected_is_an_object_a_text_or_the_last_assistant_message_with_json(expected: Any) -> None:
    assert grade([{"path": "x"}], {"x": 1}, expected).passed


@pytest.mark.parametrize(
    "expected", [None, "", "one", "42", 42, [{"role": "user", "content": {"x": 1}}], [{"role": "assistant"}]]
)
def test_without_expected_json_nothing_can_be_said(expected: Any) -> None:
    with pytest.raises(CannotScore, match="The case has no JSON object"):
        grade([{"path": "x"}], {"x": 1}, expected)


@pytest.mark.parametrize(
    ("match", "expected", "sentence"),
    [
        ("numeric_tolerance", "many", "is 'many', which is not a number"),
        ("date", "soon", "is 'soon', which is not a date"),
    ],
)
def test_an_expected_value_of_the_wrong_kind_is_not_held_against_the_answer(
    match: str, expected: str, sentence: str
) -> None:
    with pytest.raises(CannotScore, match=sentence):
        is_right(expected, expected, match=match)


# --- shares ------------------------------------------------------------------------------------------------


def test_the_value_is_the_weighted_share_and_entries_tell_what_was_wrong() -> None:
    fields: list[dict[str, Any]] = [{"path": "a", "weight": 3}, {"path": "b"}, {"path": "c", "weight": 0}]
    mark = grade(fields, {"a": 1, "b": "two"}, {"a": 1, "b": 2, "c": 3})
    assert (mark.value, mark.passed) == (0.75, False)
    assert mark.reason == "Wrong: 'b', 'c'."
    assert [(entry.text, entry.passed, entry.evidence) for entry in mark.entries] == [
        ("a", True, "is 1; expected 1"),
        ("b", False, "is 'two'; expected 2"),
        ("c", False, "is missing; expected 3"),
    ]


A, B, B_IF_THERE = {"path": "a"}, {"path": "b"}, {"path": "b", "required": False}
EXPECTED = {"a": 1, "b": 2}
ANY_JSON = "The expected output contains none of the fields, so any JSON passes."


@pytest.mark.parametrize(
    ("fields", "answer", "expected", "weighted", "whole", "reason"),
    [
        ([A, B], {"a": 1, "b": 2}, EXPECTED, 1, 1, ""),
        ([A, B], {"a": 1, "b": 3}, EXPECTED, 0.5, 0, ""),
        ([A, B], {"b": 2}, EXPECTED, 0.5, 0, ""),
        # a field that is not required counts only where it is there
        ([A, B_IF_THERE], {"a": 1}, EXPECTED, 1, 1, ""),
        ([A, B_IF_THERE], {"a": 1, "b": 3}, EXPECTED, 0.5, 0, ""),
        # a field of which nothing is expected is right
        ([A, B], {"a": 0}, {"a": 1}, 0.5, 0, ""),
        ([{"path": "b.c"}, B], {"a": 1}, {"a": 1}, 1, 1, ANY_JSON),
        ([{"path": "b.c"}, B], {}, {"a": 1}, 1, 1, ANY_JSON),
        ([{"path": "b.c"}, B], "[]", {"a": 1}, 1, 1, ANY_JSON),
        ([{"path": "b.c"}, B], "no JSON", {"a": 1}, 0, 0, ""),
        # all or nothing wants every field whatever it weighs; where none counts, the share is nothing
        ([A, {**B, "weight": 0}], {"a": 1, "b": 3}, EXPECTED, 1, 0, ""),
        ([{**A, "weight": 0}, B_IF_THERE], {"a": 1}, EXPECTED, 0, 1, ""),
        ([{**A, "weight": 0}], {}, EXPECTED, 0, 0, "No field has a weight above 0."),
        ([{**A, "required": False}], {}, EXPECTED, 0, 1, "No field has a weight above 0."),
    ],
)
def test_the_value_is_a_weighted_share_or_all_or_nothing(
    fields: list[dict[str, Any]], answer: Any, expected: Any, weighted: float, whole: float, reason: str
) -> None:
    for aggregation, value in (("weighted_average", weighted), ("all_or_nothing", whole)):
        mark = grade(fields, answer, expected, aggregation)
        assert (mark.value, mark.passed) == (value, value == 1)
    assert not reason or grade(fields, answer, expected).reason == reason


def test_a_field_that_is_not_required_and_not_there_is_neither_right_nor_wrong() -> None:
    assert [entry.passed for entry in grade([A, B_IF_THERE], {"a": 1}, EXPECTED).entries] == [True, None]


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 1)), st.lists(st.floats(0.1, 9), min_size=4))
def test_the_value_stays_in_range_and_is_one_exactly_when_it_passes(
    answer: dict[str, int], weights: list[float]
) -> None:
    fields: list[dict[str, Any]] = [
        {"path": key, "weight": weight} for key, weight in zip("abcd", weights, strict=False)
    ]
    mark = grade(fields, answer, dict.fromkeys("abcd", 1))
    assert mark.value is not None
    assert 0 <= mark.value <= 1
    assert mark.passed is (mark.value == 1)
