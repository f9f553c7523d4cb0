from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import CannotScore
from proctor.graders import safe_regex
from support.grading import grade_answer

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.sampled_from(["{}", "```json\n{}\n```", "``` {} ```"]))
def test_whatever_is_written_as_json_is_json(value: Any, frame: str) -> None:
    assert grade_answer("is_json", {}, frame.replace("{}", msgspec.json.encode(value).decode("utf-8"))).passed


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, "1" * 5_000])
def test_json_that_is_too_much_to_read_is_unscored(text: str) -> None:
    with pytest.raises(CannotScore):
        grade_answer("is_json", {}, text)


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[A-Z]"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('{"name": "Ana", "age": 3}', []),
        ('```json\n{"name": "Ana"}\n```', []),
        ('{"age": -1}', ["$", "$.age"]),
        ('{"name": "ana"}', ["$.name"]),
        ('{"name": "Ana", "size": 3}', ["$"]),
        ("[]", ["$"]),
    ],
)
def test_every_violation_is_named_with_its_path(text: str, paths: list[str]) -> None:
    mark = grade_answer("json_schema", {"schema": PERSON}, text)
    assert mark.passed is (not paths)
    assert sorted(entry.text for entry in mark.entries) == paths


SLOW = r"(?:a|a|aa)+$"
SLOW_TEXT = "a" * 60 + "b"


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"pattern": SLOW}, f'"{SLOW_TEXT}"'),
        ({"patternProperties": {SLOW: True}}, f'{{"{SLOW_TEXT}": 1}}'),
        ({"patternProperties": {SLOW: True}, "additionalProperties": False}, f'{{"{SLOW_TEXT}": 1}}'),
        ({"propertyNames": {"pattern": SLOW}}, f'{{"{SLOW_TEXT}": 1}}'),
        (
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "properties": {"in": {"$ref": "#"}},
                "patternProperties": {"^.{9}": {"pattern": SLOW}},
            },
            f'{{"in": {{"long enough": "{SLOW_TEXT}"}}}}',
        ),
    ],
)
def test_patterns_in_schemas_run_under_the_time_limit(
    schema: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_regex, "SEARCH_TIMEOUT_S", 0.02)
    with pytest.raises(CannotScore, match="did not end within"):
        grade_answer("json_schema", {"schema": schema}, text)


@pytest.mark.parametrize(
    ("schema", "text"),
    [({"$ref": "#"}, "1"), ({"allOf": [{"$ref": "#"}]}, "1"), ({"multipleOf": 0.5}, "1e999")],
)
def test_a_schema_that_cannot_be_computed_is_unscored(schema: dict[str, Any], text: str) -> None:
    with pytest.raises(CannotScore):
        grade_answer("json_schema", {"schema": schema}, text)


@given(JSON)
def test_every_value_keeps_the_schema_that_it_is_constant(value: Any) -> None:
    text = msgspec.json.encode(value).decode("utf-8")
    assert grade_answer("json_schema", {"schema": {"const": msgspec.json.decode(text)}}, text).passed


def test_many_violations_are_counted_and_the_first_twenty_kept() -> None:
    mark = grade_answer("json_schema", {"schema": {"items": {"type": "null"}}}, str([1] * 500))
    assert len(mark.entries) == 20
    assert "499 more" in mark.reason
