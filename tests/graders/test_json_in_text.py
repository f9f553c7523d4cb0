"""JSON objects inside answers."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from proctor.errors import CannotScore
from proctor.graders.json_in_text import ContainsJson, find_json_objects
from proctor.model import Case, GraderResult, Message, Output
from proctor.protocols import GradingInput

CASE = Case(id="c", input=(Message(role="user", content="Give me JSON."),))
SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}


def mark(answer: str, **params: Any) -> GraderResult:
    return convert(params, ContainsJson).grade(GradingInput(case=CASE, output=Output(text=answer)))


@pytest.mark.parametrize(
    ("answer", "objects"),
    [
        ('{"a": 1}', ['{"a": 1}']),
        ('Here: ```json\n{"a": {"b": 1}}\n``` and {"c": "}"}.', ['{"a": {"b": 1}}', '{"c": "}"}']),
        ("{ }", ["{ }"]),
        ('{"a": {"b": 1}', ['{"b": 1}']),
        ('{"a": NaN} {"a": 1}', ['{"a": 1}']),
        ("{a: 1}, [1, 2], {'a': 1}", []),
        ('a "{" and {"a": "\\ud83d\\ude42"}', ['{"a": "\\ud83d\\ude42"}']),
        ("", []),
    ],
)
def test_the_objects_in_an_answer(answer: str, objects: list[str]) -> None:
    assert find_json_objects(answer) == objects


@pytest.mark.slow
@given(st.lists(st.dictionaries(st.text(), st.none() | st.text() | st.integers()), max_size=4))
def test_objects_between_words_are_all_found(objects: list[dict[str, Any]]) -> None:
    written = [json.dumps(each) for each in objects]
    assert find_json_objects("Look: " + " then ".join(written) + " }") == written


@pytest.mark.parametrize(
    ("answer", "params", "passed"),
    [
        ('So {"a": 1}.', {}, True),
        ("So [1].", {}, False),
        ("", {}, False),
        ('{"a": 1} {"b": 2}', {"keys": ["a"]}, True),
        ('{"a": 1} {"b": 2}', {"keys": ["a"], "which": "last"}, False),
        ('{"b": 2} {"a": 1, "b": 2}', {"keys": ["a", "b"], "which": "last"}, True),
        ('{"x": {"a": 1}}', {"keys": ["a"]}, False),
        ('{"a": "1"} {"a": 1}', {"schema": SCHEMA}, True),
        ('{"a": 1} {"a": "1"}', {"schema": SCHEMA, "which": "last"}, False),
        ('{"a": 1}', {"schema": SCHEMA, "keys": ["b"]}, False),
        ('{"a": 1, "b": 2}', {"schema": SCHEMA, "keys": ["b"]}, True),
    ],
)
def test_an_object_must_have_the_keys_and_keep_the_schema(
    answer: str, params: dict[str, Any], passed: bool
) -> None:
    assert mark(answer, **params).passed is passed


def test_the_value_is_the_share_of_the_keys() -> None:
    assert mark('{"a": 1}', keys=["a", "b"]).value == 0.5


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="schema"):
        ContainsJson(schema={"type": "objekt"})


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["{", '{"', '{"a":', '{"a": [', "{ }", '{"a" '])
def test_a_long_answer_takes_no_time(piece: str) -> None:
    begin = time.process_time()
    try:
        find_json_objects(piece * 30_000)
    except CannotScore as error:
        assert "too many" in str(error)  # noqa: PT017  # whether it is raised depends on the piece
    assert time.process_time() - begin < 3
