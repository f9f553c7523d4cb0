"""Parameters that a suite cannot mean are refused when it is loaded, before anything is asked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.grading import make_grader

INF, NAN = float("inf"), float("nan")
ONE_ITEM = {"id": "a", "outcome": "o"}


def make_ranged_items(*ends: tuple[int, int]) -> dict[str, Any]:
    """An item of `rubrics` with ranges of scores."""
    ranges = [{"low": low, "high": high, "outcome": "o"} for low, high in ends]
    return {"items": [{"id": "a", "score_ranges": ranges}]}


WRONG: dict[str, list[tuple[dict[str, Any], str]]] = {
    "exact": [
        ({}, "missing required field `value`"),
        ({"value": 4}, "Expected `str`"),
        ({"value": "a", "case": True}, "unknown field `case`"),
    ],
    "contains": [({"value": ""}, "every answer would pass")],
    "contains_any": [({"values": []}, "at least one text")],
    "contains_all": [({"values": ["a", ""]}, "every answer would pass")],
    "starts_with": [({"value": " "}, "every answer would pass")],
    "ends_with": [({"value": "", "trim": False}, "every answer would pass")],
    "regex": [
        ({"pattern": ""}, "match every answer"),
        ({"pattern": "(a"}, r"'\(a' is not valid"),
        ({"pattern": "a", "flags": "iz"}, "only the letters"),
    ],
    "required_words": [({"words": ["a", " "]}, "blank text ' '")],
    "forbidden_words": [({"words": []}, "at least one text")],
    "fuzzy_match": [
        ({"values": []}, "values"),
        ({"values": ["the"]}, "no word to search"),
        ({"values": [""]}, "blank"),
    ],
    "hedges": [
        ({"phrases": []}, "`phrases` is empty"),
        ({"phrases": ["ok", " "]}, "`phrases` has the blank"),
    ],
    "unscored": [({"reason": " "}, "write a sentence")],
    "choice": [
        ({"value": "E"}, "one of the letters ABCD"),
        ({"value": "AB"}, "one of the letters ABCD"),
        ({"value": "A", "options": "A"}, "different capital letters"),
        ({"value": "A", "options": "AAB"}, "different capital letters"),
        ({"value": "A", "options": "abc"}, "different capital letters"),
    ],
    "multiple_choice": [
        ({"value": []}, "`value` is empty"),
        ({"value": 1.5}, "Expected"),
        ({"metric": "accuracy"}, "Invalid enum value 'accuracy'"),
        ({"choices": ["a", "b"]}, "unknown field `choices`"),
    ],
    "consistency": [
        ({"min_share": 0}, "above 0"),
        ({"min_share": 1.1}, "at most 1"),
        ({"expected": " "}, "is blank"),
        ({"match": "regex"}, "Invalid enum value"),
    ],
    "length": [
        ({}, "at least one"),
        ({"min_words": -1}, "`min_words` is -1"),
        ({"min_words": 3, "max_words": 2}, "no answer can satisfy both"),
        ({"max_words": "3"}, "Expected `int"),
    ],
    "number": [
        ({"value": NAN}, "finite number"),
        ({"value": INF}, "finite number"),
        ({"value": 1, "tolerance": -1}, "0 or more"),
        ({"value": "1"}, "Expected `float`"),
        ({"value": True}, "Expected `float`"),
    ],
    "numeric_match": [
        ({"value": "none"}, "contains no digit; write the expected number"),
        ({"value": "5", "rel_tolerance": -1}, "0 or more"),
    ],
    "numeric_equal": [
        ({"value": "FY2023"}, "no number that can be an answer"),
        ({"value": "5", "rel_tolerance": NAN}, "0 or more"),
    ],
    "is_json": [({"fences": True}, "unknown field `fences`")],
    "json_keys": [({"keys": []}, "at least one key")],
    "json_array": [
        ({"min_items": -1}, "0 or more"),
        ({"min_items": 3, "max_items": 2}, "no array can satisfy both"),
        ({"schema": {"type": "colour"}}, "not valid at"),
    ],
    "contains_json": [({"schema": {"type": "objekt"}}, "schema")],
    "json_schema": [
        ({"schema": {"type": "colour"}}, "not valid at"),
        ({"schema": {"required": "a"}}, "not valid at"),
        ({"schema": {"pattern": "("}}, "is not valid"),
        ({"schema": {"patternProperties": {"(": True}}}, "is not valid"),
        ({"schema": {"properties": {"a": {"items": {"pattern": "*"}}}}}, "is not valid"),
        ({"schema": {"$ref": "https://a.example/schema.json"}}, "Proctor fetches nothing"),
        ({"schema": {"properties": {"a": {"$ref": "file:///etc/passwd"}}}}, "Proctor fetches nothing"),
        ({"schema": {"$ref": "#/$defs/gone"}}, "does not exist"),
        ({"schema": {"$schema": "https://a.example/mine"}}, "is unknown"),
        ({"schema": {"$schema": 3}}, "is unknown"),
        (
            {"schema": {"$defs": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}},
            "one draft for the whole",
        ),
        (
            {"schema": {"unevaluatedProperties": False, "patternProperties": {"a": True}}},
            "instead of `unevaluatedProperties`",
        ),
        ({"schema": "{}"}, r"Expected `(object \| bool|bool \| object)`"),
        (
            {"schema": {"items": {"format": "emial"}}, "formats": True},
            "`format` 'emial'. Did you mean 'email'",
        ),
    ],
    "field_accuracy": [
        ({"fields": []}, "add at least one field"),
        *(
            ({"fields": [{"path": path}]}, "is not a valid path")
            for path in ("", "a..b", ".a", "a.", "a[x]", "a[0]b")
        ),
        ({"fields": [{"path": "a", "match": "fuzzy"}]}, "Invalid enum value 'fuzzy'"),
        ({"fields": [{"path": "a", "weight": -1}]}, "`weight` of 'a' is -1"),
        (
            {"fields": [{"path": "a", "match": "numeric_tolerance", "tolerance": -1}]},
            "`tolerance` of 'a' is -1",
        ),
        ({"fields": [{"path": "a", "tolerance": 1}]}, "set its `match` to 'numeric_tolerance'"),
        ({"fields": [{"path": "a", "relative": True}]}, "set its `match` to 'numeric_tolerance'"),
        ({"fields": [{"path": "a", "formats": ["DD/MM/YYYY"]}]}, "set its `match` to 'date'"),
        (
            {"fields": [{"path": "a", "match": "date", "formats": ["DD/MM"]}]},
            "'DD/MM' is not a valid date format",
        ),
        ({"fields": [{"path": "a", "match": "date", "formats": ["%d/%m/%Y"]}]}, "is not a valid date format"),
        ({"fields": [{"path": "a", "name": "b"}]}, "unknown field `name`"),
    ],
    "latency": [
        ({}, "missing required field `threshold_ms`"),
        ({"threshold_ms": -1}, "`threshold_ms` is -1"),
    ],
    "cost": [({"budget_usd": INF}, "`budget_usd` is inf"), ({"budget_usd": NAN}, "`budget_usd` is nan")],
    "token_usage": [({}, "No limit is set"), ({"max_total": "many"}, "Expected `float")],
    "execution_metrics": [
        ({"exploration_tolerance": 0.1}, "No limit is set"),
        ({"max_tokens": -1}, "`max_tokens` is -1"),
        ({"target_exploration_ratio": 1.5}, "`target_exploration_ratio` is 1.5"),
        ({"target_exploration_ratio": 0.5, "exploration_tolerance": -1}, "`exploration_tolerance` is -1"),
    ],
    "tool_trajectory": [
        ({"mode": "any_order"}, "needs `minimums`"),
        ({"mode": "any_order", "minimums": {"a": 1}, "expected": []}, "no `expected`"),
        ({"mode": "any_order", "minimums": {"a": -1}}, "has -1 for 'a'"),
        ({"mode": "exact"}, "needs `expected`"),
        ({"mode": "exact", "expected": [], "minimums": {"a": 1}}, "no `minimums`"),
        ({"mode": "sorted", "expected": []}, "Invalid enum value 'sorted'"),
        ({"mode": "exact", "expected": [{"tool": ""}]}, "`tool` is empty"),
        ({"mode": "exact", "expected": [{"tool": "a", "max_duration_ms": -1}]}, "`max_duration_ms` of 'a'"),
        ({"mode": "exact", "expected": [{"tool": "a", "arguments": {}}]}, "unknown field `arguments`"),
        ({"mode": "exact", "expected": [{"tool": "a", "args_match": "partial"}]}, "args_match"),
        ({"mode": "exact", "expected": [], "args_match": []}, "an empty list"),
        ({"mode": "exact", "expected": [], "args_match": ["a..b"]}, "is not a valid path"),
    ],
    "skill_trigger": [({"skill": " "}, "write the name of a skill")],
    "semantic_similarity": [
        ({"value": ""}, "blank text"),
        ({"value": []}, "at least one text"),
        ({"value": "a", "threshold": 1.5}, "from 0 to 1"),
        ({"value": "a", "threshold": NAN}, "from 0 to 1"),
        ({"value": 3}, "Expected"),
    ],
    "program": [
        ({"command": []}, "names no program"),
        ({"command": [" "]}, "names no program"),
        ({"command": ["a"], "timeout_s": 0}, "above 0"),
        ({"command": ["a"], "timeout_s": INF}, "above 0"),
        ({"command": "a b"}, "Expected `array`"),
        ({"command": ["a"], "max_calls": 0}, "1 or more"),
        ({"command": ["a"], "judge": "big"}, "without `max_calls`"),
        ({"command": ["a"], "max_calls": 1, "judge": " "}, "`judge` is empty"),
    ],
    "llm_judge": [({"prompt": " "}, "YES or NO"), ({}, "missing required field")],
    "rubric": [
        ({"rubric": ""}, "is empty"),
        ({"rubric": "r", "lowest": 5, "highest": 5}, "must be below"),
        ({"rubric": "r", "min_score": 6}, "from 1 to 5"),
        ({"rubric": "r", "highest": 9.5}, "Expected `int`"),
    ],
    "llm_grader": [
        ({"prompt": " "}, "`prompt` is empty"),
        ({"judge": ""}, "`judge` is empty"),
        ({"temperature": 3}, "from 0 to 2"),
    ],
    "classification": [
        ({"prompt": " ", "choices": {"a": 1}}, "`prompt` is empty"),
        ({"prompt": "p", "choices": {}}, "`choices` are empty"),
        ({"prompt": "p", "choices": {"Yes": 1, "yes!": 0}}, "letters or digits"),
        ({"prompt": "p", "choices": {"...": 1}}, "letters or digits"),
        ({"prompt": "p", "choices": {"a": 1.5}}, "'a' is worth 1.5"),
    ],
    "instructions": [
        ({"evaluators": [{"system": "x"}]}, "missing required field `id`"),
        ({"evaluators": [{"id": " ", "user": "x"}]}, "`id` of a judge prompt is empty"),
        ({"evaluators": [{"id": "a", "user": " "}]}, "'a' is empty"),
        ({"evaluators": [{"id": "a", "user": "x"}] * 2}, "Two evaluators have the id 'a'"),
        ({"evaluators": [{"id": "a", "user": "x", "model": "y"}]}, "unknown field `model`"),
        ({"judge": ""}, "`judge` is empty"),
        ({"temperature": 3}, "from 0 to 2"),
    ],
    "rubrics": [
        ({}, "missing required field `items`"),
        ({"items": []}, "`items` is empty"),
        ({"items": [ONE_ITEM, ONE_ITEM]}, "Two items have the id 'a'"),
        ({"items": [{**ONE_ITEM, "id": " "}]}, "`id` of an item is empty"),
        ({"items": [{"id": "a"}]}, "empty `outcome`"),
        ({"items": [{**ONE_ITEM, "weight": -1}]}, "a number of 0 or more"),
        ({"items": [{**ONE_ITEM, "weight": NAN}]}, "a number of 0 or more"),
        ({"items": [{**ONE_ITEM, "weight": 0}]}, "Every item has weight 0"),
        ({"items": [{**ONE_ITEM, "min_score": 0}]}, "above 0 and at most 1"),
        ({"items": [{**ONE_ITEM, "min_score": 7}]}, "above 0 and at most 1"),
        ({"items": [{**ONE_ITEM, "optional": True}]}, "unknown field `optional`"),
        (make_ranged_items((0, 9)), "do not cover 0 to 10"),
        (make_ranged_items((1, 10)), "do not cover 0 to 10"),
        (make_ranged_items((0, 5), (5, 10)), "do not cover 0 to 10"),
        (make_ranged_items((0, 5), (7, 10)), "do not cover 0 to 10"),
        (make_ranged_items((0, 10), (0, 10)), "do not cover 0 to 10"),
        (make_ranged_items((0, 10**15)), "do not cover 0 to 10"),
        (make_ranged_items((0, 7), (8, 6), (7, 10)), "do not cover 0 to 10"),
        (
            {"items": [{"id": "a", "score_ranges": [{"low": 0, "high": 10, "outcome": ""}]}]},
            "empty `outcome`",
        ),
        ({"items": [ONE_ITEM], "judge": " "}, "`judge` is empty"),
        ({"items": [ONE_ITEM], "temperature": -1}, "from 0 to 2"),
    ],
}


@pytest.mark.parametrize(
    ("grader", "params", "sentence"), [(name, *row) for name, rows in WRONG.items() for row in rows]
)
def test_parameters_that_cannot_be_meant_are_refused(
    grader: str, params: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        make_grader(grader, params)


@pytest.mark.parametrize(
    "ends", [[(0, 10)], [(0, 4), (5, 10)], [(6, 10), (0, 5)], [(number, number) for number in range(11)]]
)
def test_ranges_that_cover_every_score_once_are_taken(ends: list[tuple[int, int]]) -> None:
    assert make_grader("rubrics", make_ranged_items(*ends)).has_scores
