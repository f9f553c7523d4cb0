from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import CannotScore
from proctor.graders import safe_regex
from proctor.graders.json_structure import IsJson, JsonArray, JsonKeys, JsonSchema
from proctor.model import GraderResult
from support.grading import grade_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def mark_of(kind: type[Any], params: dict[str, Any], text: str) -> GraderResult:
    return grade_text(msgspec.convert(params, kind), text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        " [1, 2]\n",
        "42",
        "null",
        '"text"',
        '```json\n{"a": 1}\n```',
        '```\n{"a": 1}\n```',
        '```json {"a": 1} ```',
        '```{"a": 1}```',
        '```json{"a": 1}```',
        '````json\n{"a": "```"}\n````',
        "~~~\n[]\n~~~",
        "```true```",
        "```json\nnull\n```",
    ],
)
def test_json_is_taken_bare_or_as_one_whole_fenced_block(text: str) -> None:
    assert mark_of(IsJson, {}, text).passed


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "NaN",
        "[Infinity]",
        "-Infinity",
        "{'a': 1}",
        "[1,]",
        'Here it is: {"a": 1}',
        '{"a": 1} I hope this helps.',
        '```json\n{"a": 1}',
        '{"a": 1}\n```',
        'See:\n```json\n{"a": 1}\n```',
        '```json\n{"a": 1}\n```\nDone.',
        "```\n{}\n```\n```\n{}\n```",
        "``````",
        "```json\n```",
        "```",
        "plain words",
    ],
)
def test_anything_else_is_not_json(text: str) -> None:
    mark = mark_of(IsJson, {}, text)
    assert (mark.passed, mark.value) == (False, 0.0)
    assert mark.reason.startswith("The answer is not JSON: ")


def test_fences_can_be_refused() -> None:
    assert not mark_of(IsJson, {"strip_fences": False}, "```\n{}\n```").passed
    assert mark_of(IsJson, {"strip_fences": False}, "{}").passed


@given(JSON, st.sampled_from(["{}", "```json\n{}\n```", "``` {} ```"]))
def test_whatever_is_written_as_json_is_json(value: Any, frame: str) -> None:
    assert mark_of(IsJson, {}, frame.replace("{}", msgspec.json.encode(value).decode("utf-8"))).passed


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, "1" * 5_000])
def test_json_that_is_too_much_to_read_is_unscored(text: str) -> None:
    with pytest.raises(CannotScore):
        mark_of(IsJson, {}, text)


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
    mark = mark_of(JsonSchema, {"schema": PERSON}, text)
    assert mark.passed is (not paths)
    assert sorted(entry.text for entry in mark.entries) == paths


def test_an_answer_that_is_not_json_fails_its_schema() -> None:
    mark = mark_of(JsonSchema, {"schema": True}, "no JSON")
    assert (mark.passed, mark.value) == (False, 0.0)


@pytest.mark.parametrize(("schema", "passed"), [(True, True), (False, False), ({}, True)])
def test_a_schema_may_be_true_or_false(schema: bool | dict[str, Any], passed: bool) -> None:
    assert mark_of(JsonSchema, {"schema": schema}, "1").passed is passed


@pytest.mark.parametrize(
    ("schema", "text", "passed"),
    [
        ({"$ref": "#/$defs/even", "$defs": {"even": {"multipleOf": 2}}}, "4", True),
        ({"$ref": "#/$defs/even", "$defs": {"even": {"multipleOf": 2}}}, "3", False),
        (
            {"$id": "https://a.example/s", "$ref": "t", "$defs": {"t": {"$id": "t", "type": "null"}}},
            "null",
            True,
        ),
        (
            {"properties": {"child": {"$ref": "#"}}, "additionalProperties": False},
            '{"child": {"x": 1}}',
            False,
        ),
        ({"$ref": "#/parts/word", "parts": {"word": {"type": "string"}}}, '"a"', True),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, '{"type": 3}', False),
        (
            {"patternProperties": {"^n_": {"type": "number"}}, "additionalProperties": False},
            '{"n_a": 1}',
            True,
        ),
        (
            {"patternProperties": {"^n_": {"type": "number"}}, "additionalProperties": False},
            '{"n_a": "x"}',
            False,
        ),
        (
            {"patternProperties": {"^n_": {"type": "number"}}, "additionalProperties": False},
            '{"b": 1}',
            False,
        ),
        ({"additionalProperties": {"type": "number"}}, '{"b": "x"}', False),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "null"}]}, "[1]", False),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 3, "exclusiveMaximum": True},
            "3",
            False,
        ),
        ({"properties": {"$ref": {"type": "string"}}}, '{"$ref": "x"}', True),
        ({"const": {"$ref": "https://nowhere.example"}}, '{"$ref": "https://nowhere.example"}', True),
        ({"unevaluatedProperties": False, "allOf": [{"properties": {"a": True}}]}, '{"b": 1}', False),
        ({"format": "date"}, '"no date"', True),
    ],
)
def test_schemas_mean_what_their_draft_says(schema: dict[str, Any], text: str, passed: bool) -> None:
    assert mark_of(JsonSchema, {"schema": schema}, text).passed is passed


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"type": "colour"}, "not valid at"),
        ({"required": "a"}, "not valid at"),
        ({"pattern": "("}, "is not valid"),
        ({"patternProperties": {"(": True}}, "is not valid"),
        ({"properties": {"a": {"items": {"pattern": "*"}}}}, "is not valid"),
        ({"$ref": "https://a.example/schema.json"}, "nothing is ever fetched"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "nothing is ever fetched"),
        ({"$ref": "#/$defs/gone"}, "leads nowhere"),
        ({"$schema": "https://a.example/mine"}, "is not known"),
        ({"$schema": 3}, "is not known"),
        (
            {"$defs": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}},
            "use one draft for all of it",
        ),
        (
            {"unevaluatedProperties": False, "patternProperties": {"a": True}},
            "`additionalProperties` in place",
        ),
        ("{}", "Expected `object | bool`|Expected `bool | object`"),
    ],
)
def test_a_schema_that_cannot_be_kept_is_refused_before_anything_is_asked(schema: Any, sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert({"schema": schema}, JsonSchema)


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
        mark_of(JsonSchema, {"schema": schema}, text)


@pytest.mark.parametrize(
    ("schema", "text"),
    [({"$ref": "#"}, "1"), ({"allOf": [{"$ref": "#"}]}, "1"), ({"multipleOf": 0.5}, "1e999")],
)
def test_a_schema_that_cannot_be_computed_is_unscored(schema: dict[str, Any], text: str) -> None:
    with pytest.raises(CannotScore):
        mark_of(JsonSchema, {"schema": schema}, text)


@given(JSON)
def test_every_value_keeps_the_schema_that_it_is_constant(value: Any) -> None:
    text = msgspec.json.encode(value).decode("utf-8")
    assert mark_of(JsonSchema, {"schema": {"const": msgspec.json.decode(text)}}, text).passed


def test_many_violations_are_counted_and_the_first_twenty_kept() -> None:
    mark = mark_of(JsonSchema, {"schema": {"items": {"type": "null"}}}, str([1] * 500))
    assert len(mark.entries) == 20
    assert "499 more" in mark.reason


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, "b": null, "c": 3}', 1.0),
        ('{"a": {"b": 1}}', 0.5),
        ("{}", 0.0),
        ('["a", "b"]', 0.0),
        ("null", 0.0),
        ("", 0.0),
    ],
)
def test_json_keys_gives_the_share_at_the_top_level(text: str, value: float) -> None:
    mark = mark_of(JsonKeys, {"keys": ["a", "b"]}, text)
    assert (mark.value, mark.passed) == (value, value == 1.0)


@pytest.mark.parametrize(
    ("params", "text", "passed"),
    [
        ({}, "[]", True),
        ({"min_items": 1}, "[]", False),
        ({"min_items": 2, "max_items": 2}, "[1, 2]", True),
        ({"max_items": 1}, "[1, 2]", False),
        ({"schema": {"type": "integer"}}, "[1, 2]", True),
        ({"schema": {"type": "integer"}}, '[1, "2"]', False),
        ({}, "{}", False),
        ({}, "true", False),
        ({}, "[", False),
    ],
)
def test_json_array_checks_count_and_items(params: dict[str, Any], text: str, passed: bool) -> None:
    assert mark_of(JsonArray, params, text).passed is passed


def test_an_item_that_breaks_its_schema_is_named_by_its_place() -> None:
    schema = {"properties": {"a": {"type": "null"}}}
    mark = mark_of(JsonArray, {"schema": schema}, '[{"a": null}, {"a": 1}]')
    assert [entry.text for entry in mark.entries] == ["$[1].a"]


@pytest.mark.parametrize(
    ("kind", "params", "sentence"),
    [
        (JsonKeys, {"keys": []}, "at least one key"),
        (JsonArray, {"min_items": -1}, "0 or more"),
        (JsonArray, {"min_items": 3, "max_items": 2}, "no array can have both"),
        (JsonArray, {"schema": {"type": "colour"}}, "not valid at"),
    ],
)
def test_wrong_parameters_are_refused(kind: type[Any], params: dict[str, Any], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(params, kind)
