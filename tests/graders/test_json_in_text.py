"""JSON objects inside answers."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import CannotScore
from proctor.graders.json_in_text import find_json_objects


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
    texts = [json.dumps(item) for item in objects]
    assert find_json_objects("Look: " + " then ".join(texts) + " }") == texts


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["{", '{"', '{"a":', '{"a": [', "{ }", '{"a" '])
def test_a_long_answer_takes_no_time(piece: str) -> None:
    begin = time.process_time()
    try:
        find_json_objects(piece * 30_000)
    except CannotScore as error:
        assert "too many" in str(error)  # noqa: PT017  # whether it is raised depends on the piece
    assert time.process_time() - begin < 3
