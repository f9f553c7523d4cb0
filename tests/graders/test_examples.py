"""The values that graders of texts give, one example a line."""

from __future__ import annotations

from typing import Any

import pytest

from support.grading import grade_answer

PERSON_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[A-Z]"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}
A_IS_WHOLE = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
EVEN = {"$ref": "#/$defs/even", "$defs": {"even": {"multipleOf": 2}}}
NUMBERED = {"patternProperties": {"^n_": {"type": "number"}}, "additionalProperties": False}

EXAMPLES: dict[str, list[tuple[dict[str, Any], str, float]]] = {
    "exact": [
        ({"value": " Lima "}, "  Lima\n", 1),
        ({"value": "Lima", "trim": False}, "Lima\n", 0),
        ({"value": "Lima"}, "lima", 0),
        ({"value": "straße", "ignore_case": True}, "STRASSE", 1),
        ({"value": "Lima"}, "Lima.", 0),
        ({"value": "not  relevant", "any_space": True}, "not\n relevant ", 1),
        ({"value": "not relevant"}, "not  relevant", 0),
        ({"value": "a b", "any_space": True, "trim": False}, "a\tb ", 0),
        ({"value": "it's"}, "it’s", 0),
    ],
    "contains": [
        ({"value": "pear"}, "two pears", 1),
        ({"value": "Pear"}, "two pears", 0),
        ({"value": "Pear", "ignore_case": True}, "two pears", 1),
        ({"value": "don't"}, "I don’t", 0),
        ({"value": " "}, "a b", 1),
    ],
    "contains_any": [
        ({"values": ["red", "blue"]}, "a blue door", 1),
        ({"values": ["red", "Blue"]}, "a blue door", 0),
        ({"values": ["red", "Blue"], "ignore_case": True}, "a blue door", 1),
    ],
    "contains_all": [
        ({"values": ["red", "blue"]}, "a blue and a red door", 1),
        ({"values": ["red", "blue"]}, "a blue door", 0),
        ({"values": ["Red", "blue"]}, "a blue and a red door", 0),
        ({"values": ["Red", "STRASSE"], "ignore_case": True}, "die rede auf der Straße", 1),
        ({"values": ["re", "red"]}, "red", 1),
    ],
    "starts_with": [
        ({"value": "Dear"}, "Dear Sir", 1),
        ({"value": "Sir"}, "Dear Sir", 0),
        ({"value": "dear"}, "Dear", 0),
        ({"value": " Dear\n"}, "\n Dear ", 1),
        ({"value": "Dear", "trim": False}, " Dear\n", 0),
        ({"value": "Dear Sir"}, "Dear", 0),
    ],
    "ends_with": [
        ({"value": "Sir"}, "Dear Sir", 1),
        ({"value": "Dear"}, "Dear Sir", 0),
        ({"value": " Dear\n"}, "\n Dear ", 1),
        ({"value": "Dear", "trim": False}, " Dear\n", 0),
        ({"value": "\n", "trim": False}, " Dear\n", 1),
    ],
    "regex": [
        ({"pattern": r"\d{4}-\d{2}"}, "due 2031-05", 1),
        ({"pattern": "^yes$"}, "no\nyes\nno", 0),
        ({"pattern": "^yes$", "flags": "m"}, "no\nyes\nno", 1),
        ({"pattern": "YES"}, "yes", 0),
        ({"pattern": "YES", "flags": "i"}, "yes", 1),
        ({"pattern": "a.b"}, "a\nb", 0),
        ({"pattern": "a.b", "flags": "s"}, "a\nb", 1),
        ({"pattern": "a b # two letters", "flags": "x"}, "ab", 1),
        ({"pattern": "ab", "full": True}, "abc", 0),
        ({"pattern": "ab|abc", "full": True}, "abc", 1),
    ],
    "fuzzy_match": [
        ({"values": ["x", "golden gate"]}, "The Golden Gate bridge!", 1),
        ({"values": ["x", "The Golden Gate Bridge"]}, "golden gate", 1),
        ({"values": ["apple"]}, "It is   AN apple.", 1),
        ({"values": ["not now"]}, "No", 1),
        ({"values": ["obrien"]}, "O'Brien", 1),
        ({"values": ["apple"]}, "the", 0),
        ({"values": ["apple"]}, "...", 0),
        ({"values": ["apple"]}, "pear", 0),
    ],
    "length": [
        ({"max_words": 3}, "one two three", 1),
        ({"max_words": 2}, "one two three", 0),
        ({"min_words": 4, "max_characters": 99}, "one two three", 0.5),
        ({"min_sentences": 1, "max_sentences": 1}, "One. Two.", 0.5),
        ({"min_bullets": 2, "max_bullets": 2, "max_words": 9}, "- a\n- b", 1),
        ({"max_words": 0}, "", 1),
        ({"min_words": 3, "max_words": 3}, " one  two\nthree ", 1),
        ({"min_characters": 3, "max_characters": 3}, " añ🎉 \n", 1),
    ],
    "is_json": [
        *(({}, text, 1) for text in ('{"a": 1}', " [1, 2]\n", "42", "null", '"text"')),
        ({}, '```json\n{"a": 1}\n```', 1),
        ({}, '```\n{"a": 1}\n```', 1),
        ({}, '```json{"a": 1}```', 1),
        ({}, '````json\n{"a": "```"}\n````', 1),
        ({}, "~~~\n[]\n~~~", 1),
        ({}, "```true```", 1),
        ({}, "```json\nnull\n```", 1),
        *(({}, text, 0) for text in ("NaN", "[Infinity]", "-Infinity", "{'a': 1}", "[1,]", "plain words")),
        ({}, 'Here it is: {"a": 1}', 0),
        ({}, '{"a": 1} I hope this helps.', 0),
        ({}, '```json\n{"a": 1}', 0),
        ({}, '{"a": 1}\n```', 0),
        ({}, 'See:\n```json\n{"a": 1}\n```', 0),
        ({}, '```json\n{"a": 1}\n```\nDone.', 0),
        ({}, "```\n{}\n```\n```\n{}\n```", 0),
        *(({}, text, 0) for text in ("``````", "```json\n```", "```")),
        ({"strip_fences": False}, "```\n{}\n```", 0),
        ({"strip_fences": False}, "{}", 1),
    ],
    "json_schema": [
        ({"schema": PERSON_SCHEMA}, '{"name": "Ana", "age": 3}', 1),
        ({"schema": PERSON_SCHEMA}, '```json\n{"name": "Ana"}\n```', 1),
        ({"schema": True}, "no JSON", 0),
        ({"schema": True}, "1", 1),
        ({"schema": False}, "1", 0),
        ({"schema": {}}, "1", 1),
        ({"schema": EVEN}, "4", 1),
        ({"schema": EVEN}, "3", 0),
        ({"schema": {"uniqueItems": True}}, "[1, true, [1], [true], {}]", 1),
        ({"schema": {"uniqueItems": True}}, "[1, 1.0]", 0),
        ({"schema": {"uniqueItems": True}}, '[{"a": 1, "b": 2}, {"b": 2, "a": 1}]', 0),
        (
            {
                "schema": {
                    "$id": "https://a.example/s",
                    "$ref": "t",
                    "$defs": {"t": {"$id": "t", "type": "null"}},
                }
            },
            "null",
            1,
        ),
        (
            {"schema": {"properties": {"child": {"$ref": "#"}}, "additionalProperties": False}},
            '{"child": {"x": 1}}',
            0,
        ),
        ({"schema": {"$ref": "#/parts/word", "parts": {"word": {"type": "string"}}}}, '"a"', 1),
        ({"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}, '{"type": 3}', 0),
        ({"schema": NUMBERED}, '{"n_a": 1}', 1),
        ({"schema": NUMBERED}, '{"n_a": "x"}', 0),
        ({"schema": NUMBERED}, '{"b": 1}', 0),
        ({"schema": {"additionalProperties": {"type": "number"}}}, '{"b": "x"}', 0),
        (
            {"schema": {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "null"}]}},
            "[1]",
            0,
        ),
        (
            {
                "schema": {
                    "$schema": "http://json-schema.org/draft-04/schema#",
                    "maximum": 3,
                    "exclusiveMaximum": True,
                }
            },
            "3",
            0,
        ),
        ({"schema": {"properties": {"$ref": {"type": "string"}}}}, '{"$ref": "x"}', 1),
        (
            {"schema": {"const": {"$ref": "https://nowhere.example"}}},
            '{"$ref": "https://nowhere.example"}',
            1,
        ),
        (
            {"schema": {"unevaluatedProperties": False, "allOf": [{"properties": {"a": True}}]}},
            '{"b": 1}',
            0,
        ),
        ({"schema": {"format": "date"}}, '"no date"', 1),
        ({"schema": {"format": "date"}, "formats": True}, '"no date"', 0),
    ],
    "json_keys": [
        ({"keys": ["a", "b"]}, '{"a": 1, "b": null, "c": 3}', 1),
        ({"keys": ["a", "b"]}, '{"a": {"b": 1}}', 0.5),
        ({"keys": ["a", "b"]}, "{}", 0),
        ({"keys": ["a", "b"]}, '["a", "b"]', 0),
        ({"keys": ["a", "b"]}, "null", 0),
    ],
    "json_array": [
        ({}, "[]", 1),
        ({"min_items": 1}, "[]", 0),
        ({"min_items": 2, "max_items": 2}, "[1, 2]", 1),
        ({"max_items": 1}, "[1, 2]", 0),
        ({"schema": {"type": "integer"}}, "[1, 2]", 1),
        ({"schema": {"type": "integer"}}, '[1, "2"]', 0),
        ({}, "{}", 0),
        ({}, "true", 0),
        ({}, "[", 0),
    ],
    "contains_json": [
        ({}, 'So {"a": 1}.', 1),
        ({}, "So [1].", 0),
        ({"keys": ["a"]}, '{"a": 1} {"b": 2}', 1),
        ({"keys": ["a", "b"]}, '{"a": 1}', 0.5),
        ({"keys": ["a"], "which": "last"}, '{"a": 1} {"b": 2}', 0),
        ({"keys": ["a", "b"], "which": "last"}, '{"b": 2} {"a": 1, "b": 2}', 1),
        ({"keys": ["a"]}, '{"x": {"a": 1}}', 0),
        ({"schema": A_IS_WHOLE}, '{"a": "1"} {"a": 1}', 1),
        ({"schema": A_IS_WHOLE, "which": "last"}, '{"a": 1} {"a": "1"}', 0),
        ({"schema": A_IS_WHOLE, "keys": ["b"]}, '{"a": 1}', 0),
        ({"schema": A_IS_WHOLE, "keys": ["b"]}, '{"b": 1}', 0),
        ({"schema": A_IS_WHOLE, "keys": ["b"]}, '{"a": 1, "b": 2}', 1),
        ({"schema": {"format": "date"}, "formats": True}, '{"on": 1}', 1),
    ],
    "forbidden_words": [
        ({"words": ["new"]}, "The news is good.", 1),  # no inflected forms
        ({"words": ["bad"]}, "ß" * 200 + " bad", 0),
    ],
    "required_words": [
        ({"words": ["cat"], "whole_words": False}, "concatenate", 1),
        ({"words": ["Cat"], "ignore_case": False}, "the cat", 0),
        ({"words": [" cat"], "whole_words": False}, "concatenate", 0),
    ],
    "number": [
        ({"value": 10, "tolerance": 0.5}, "10.5", 1),
        ({"value": 10, "tolerance": 0.5}, "10.51", 0),
        ({"value": 10}, "10.1", 0),
        ({"value": 200, "tolerance": 0.01, "relative": True}, "202", 1),
        ({"value": 200, "tolerance": 0.01, "relative": True}, "202.1", 0),
        ({"value": -200, "tolerance": 0.01, "relative": True}, "-198", 1),
        ({"value": -200, "tolerance": 0.01, "relative": True}, "198", 0),
        ({"value": 0, "tolerance": 0.5, "relative": True}, "0", 1),
        ({"value": 0, "tolerance": 0.5, "relative": True}, "0.1", 0),
        ({"value": 3, "which": "first"}, "3 and 4", 1),
        ({"value": 2023, "which": "first"}, "In FY2023 it was $1,250.5. The answer is 7", 1),
    ],
    "numeric_match": [({"value": "$4.5B"}, "4.51 million", 1)],
}


@pytest.mark.parametrize(
    ("grader", "params", "answer", "value"),
    [(grader, *example) for grader, examples in EXAMPLES.items() for example in examples],
)
def test_an_answer_gets_this_value(grader: str, params: dict[str, Any], answer: str, value: float) -> None:
    result = grade_answer(grader, params, answer)
    assert (result.value, result.passed) == (value, value == 1)


@pytest.mark.parametrize(
    ("grader", "params", "answer", "reason"),
    [
        ("exact", {"value": "b"}, "a", "The answer is 'a'; expected 'b'."),
        ("contains", {"value": "secret"}, "the secret is out", "The answer contains 'secret'."),
        ("contains_any", {"values": ["green", "blue", "red"]}, "red and blue", "The answer contains 'blue'."),
        (
            "contains_all",
            {"values": ["one", "two", "three"]},
            "number two\nof them",
            r"The answer lacks 'one', 'three': 'number two\nof them'.",
        ),
        ("starts_with", {"value": "x"}, "A" * 400, f"The answer does not begin with 'x': '{'A' * 119}…'."),
        ("ends_with", {"value": "x"}, "Z" * 400, f"The answer does not end with 'x': '…{'Z' * 119}'."),
        ("ends_with", {"value": "b"}, "ab", "The answer ends with 'b'."),
        ("choice", {"value": "B"}, "B, of course", "The answer chooses B."),
        ("choice", {"value": "B"}, "C", "The answer chooses C; expected B."),
        ("choice", {"value": "B"}, "", "The answer chooses none of ABCD: ''."),
        ("fuzzy_match", {"values": ["x y", "tea"]}, "Tea?", "The answer's words match 'tea'."),
        ("hedges", {}, "Well, I have no idea.", "The answer admits doubt: 'have no idea'."),
        ("refusal", {}, "Hm. I cannot   help you.", "The answer refuses: 'i cannot help'."),
        ("abstention", {}, "I don't know.", 'The answer leaves the question open: "i don\'t know".'),
        (
            "abstention",
            {},
            "Bob.",
            "The answer does not decline and does not say that it does not know: 'Bob.'.",
        ),
        ("length", {"max_words": 2}, "a b c", "The answer has 3 words, expected at most 2 words."),
        ("required_words", {"words": ["a", "b"]}, "b a", "The answer contains every required word."),
        (
            "json_schema",
            {"schema": {"properties": {"on": {"format": "date"}}}, "formats": True},
            '{"on": "2023-02-29"}',
            "The answer does not match the schema at $.on: \"2023-02-29\" does not match the format 'date'.",
        ),
        ("number", {"value": 0}, "none at all", "The answer contains no number: 'none at all'."),
        ("number", {"value": 1}, "2", "The answer's number is 2; expected 1 ± 1e-06."),
        ("numeric_equal", {"value": "$4.5B"}, "It was 4,500 million.", "The answer says '4,500 million'."),
        (
            "numeric_equal",
            {"value": "$4.5B"},
            "$4.2B",
            "The answer says '$4.2B'; expected '$4.5B' within 1 %.",
        ),
        (
            "numeric_equal",
            {"value": "$4.5B"},
            "€4.5B",
            "The answer says '€4.5B'; expected '$4.5B' in a matching unit.",
        ),
        ("numeric_equal", {"value": "$4.5B"}, "FY2023", "The answer contains no number: 'FY2023'."),
        (
            "numeric_match",
            {"value": "$4.5B"},
            "In 2023 it was $4.5B",
            "The answer's first number is 2023; expected 4.5 within 1 %.",
        ),
        ("numeric_match", {"value": "$4.5B"}, "none", "The answer contains no number: 'none'."),
        ("unscored", {"reason": "No rule tells irony."}, "anything", "No rule tells irony."),
    ],
)
def test_the_reason_says_what_decided_it(
    grader: str, params: dict[str, Any], answer: str, reason: str
) -> None:
    assert grade_answer(grader, params, answer).reason == reason


@pytest.mark.parametrize(
    ("grader", "params", "answer", "entries"),
    [
        (
            "contains_all",
            {"values": ["one", "two"]},
            "number two\nof them",
            [("one", False, None), ("two", True, "number two of them")],
        ),
        ("ends_with", {"value": "c"}, "ab", [("c", False, "ab")]),
        ("length", {"min_words": 1, "max_words": 2}, "a b c",
         [("at least 1 words", True, "3 words"), ("at most 2 words", False, "3 words")]),
        ("required_words", {"words": ["one", "two"]}, "two", [("one", False, None), ("two", True, None)]),
        (
            "forbidden_words",
            {"words": ["sorry", "maybe"]},
            "Well,\nI am Sorry to say so.",
            [("sorry", False, "Well, I am Sorry to say so."), ("maybe", True, None)],
        ),
        (
            "forbidden_words",  # folding lengthens the answer, and the evidence is in place all the same
            {"words": ["bad"]},
            "ß" * 200 + " bad " + "ß" * 200,
            [("bad", False, f"…{'s' * 29} bad {'s' * 29}…")],
        ),
        ("json_keys", {"keys": ["a", "b"]}, '{"a": 1}', [("a", True, None), ("b", False, None)]),
        (
            "json_array",
            {"schema": {"properties": {"a": {"type": "null"}}}},
            '[{"a": null}, {"a": 1}]',
            [("$[1].a", False, "1 is not of type 'null'")],
        ),
    ],
)  # fmt: skip
def test_entries_show_what_each_part_came_to(
    grader: str, params: dict[str, Any], answer: str, entries: list[tuple[str, bool, str | None]]
) -> None:
    result = grade_answer(grader, params, answer)
    assert [(entry.text, entry.passed, entry.evidence) for entry in result.entries] == entries


@pytest.mark.parametrize(
    ("grader", "params", "answer", "details"),
    [
        ("choice", {"value": "B"}, "C", {"found": "C"}),
        ("number", {"value": 1}, "It is 2.5.", {"found": 2.5}),
        ("number", {"value": 1}, "1e999", {}),
        ("numeric_match", {"value": "4"}, "In 2023", {"found": 2023.0}),
        ("numeric_match", {"value": "4"}, "9" * 400, {}),
        ("numeric_equal", {"value": "4"}, "It is $5.", {"found": "$5"}),
    ],
)
def test_details_have_what_was_read(
    grader: str, params: dict[str, Any], answer: str, details: dict[str, Any]
) -> None:
    assert grade_answer(grader, params, answer).details == details
