"""Assertions of a case to the fields of a meridian test: the inverse of `expected.py`.

A shape is a way to write some checks as fields of a test. All shapes for the checks of a case are listed; the
best one also gives the expected answer and the label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.meridian.expected import (
    LIMIT_FIELDS,
    NUMERIC_TYPES,
    TYPES,
    parse_expected,
    parse_number,
)
from proctor.model import Assertion
from proctor.validation import ProblemLog

Params = dict[str, Any]


class Shape(Struct, frozen=True):
    """One way to write the checks of a case."""

    row: dict[str, Any]
    """The fields of the test."""
    expected: Any
    """The expected value that the test is read with."""
    label: str
    """The label that its assertions are read with."""


UNSCORED_SHAPE: Final = Shape({"expected": {"type": "length"}}, None, "length")
"""A test that explicitly checks nothing: a length without limits."""


def find_shape(assertions: Sequence[Assertion], expected: Any) -> Shape | None:
    """Returns the best way to write these checks; None if there is none."""
    checks = [(assertion.grader, assertion.params) for assertion in assertions]
    names = tuple(grader for grader, _ in checks)
    make = _SHAPE_FINDERS.get(names)
    if make is None:
        return None
    label = assertions[0].label
    shapes = list(make([params for _, params in checks], expected))
    # Python's sort is stable: among equals the first, which is the simplest, stays the first.
    shapes.sort(key=lambda shape: (shape.expected != expected, shape.label != label))
    return shapes[0] if shapes else None


# --- one function for each sequence of graders -------------------------------------------------------------


def _make_full_shape(kind: str, expected: Any = None, **fields: Any) -> Shape:
    return Shape({"expected": {"type": kind, **fields}}, expected, kind)


def _is_non_blank(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _has_words(params: Params) -> bool:
    words = params.get("words")
    return (
        params.keys() == {"words"}
        and isinstance(words, list)
        and bool(words)
        and all(map(_is_non_blank, words))
    )


def _has_counts(params: Params) -> bool:
    return all(type(value) is int and value >= 0 for value in params.values())


def _exact_shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
    value = all_params[0].get("value")
    if all_params[0].keys() == {"value"} and _is_non_blank(value):
        yield Shape({"expected": value, "scorer": "exact"}, value, "exact")


def _number_shapes(all_params: list[Params], expected: Any) -> Iterator[Shape]:
    params = all_params[0]
    value, tolerance = params.get("value"), params.get("tolerance")
    if type(value) is not float or not params.keys() <= {"value", "tolerance"}:
        return
    text = expected if isinstance(expected, str) and parse_number(expected) == value else repr(value)
    if params.keys() == {"value"}:
        yield _make_full_shape("numeric", text, value=text)
        yield Shape({"expected": text, "scoring": "numeric_match"}, text, "exact")
    elif type(tolerance) is float and tolerance >= 0:
        yield _make_full_shape("numeric", text, value=text, tolerance=tolerance)


def _numeric_text_shapes(kind: str) -> Callable[[list[Params], Any], Iterator[Shape]]:
    def shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
        value, tolerance = all_params[0].get("value"), all_params[0].get("rel_tolerance", 0.0)
        if not all_params[0].keys() <= {"value", "rel_tolerance"} or not _is_non_blank(value):
            return
        if all_params[0].keys() == {"value"}:
            yield Shape({"expected": value, "scorer": kind}, value, kind)
        if type(tolerance) is float and tolerance >= 0:
            yield _make_full_shape(kind, value, **all_params[0])

    return shapes


def _get_contains_value(params: Params) -> Any:
    value = params.get("value")
    fits = (
        params.keys() == {"value", "ignore_case"} and params["ignore_case"] is True and _is_non_blank(value)
    )
    return value if fits else None


def _contains_shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
    value = _get_contains_value(all_params[0])
    if value is not None:
        yield Shape({"expected": value, "scorer": "contains"}, value, "contains")


def _word_list_shapes(*graders: str) -> Callable[[list[Params], Any], Iterator[Shape]]:
    """Returns shapes of required words, a contained text and forbidden words, in this order."""

    def shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
        fields: dict[str, Any] = {}
        for grader, params in zip(graders, all_params, strict=True):
            if grader == "contains":
                fields["value"] = _get_contains_value(params)
            else:
                fields[grader] = params["words"] if _has_words(params) else None
        if None in fields.values():
            return
        yield _make_full_shape("contains", fields.get("value"), **fields)
        if len(graders) == 1:
            yield _make_full_shape(graders[0], **fields)
        if graders == ("forbidden_words",):
            yield _make_full_shape("forbidden", value=fields["forbidden_words"])

    return shapes


def _regex_shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
    pattern = all_params[0].get("pattern")
    if all_params[0].keys() == {"pattern"} and _is_non_blank(pattern):
        yield Shape({"expected": pattern, "scorer": "regex"}, pattern, "regex")
        yield _make_full_shape("regex", pattern=pattern)


def _rubric_shapes(all_params: list[Params], expected: Any) -> Iterator[Shape]:
    if all_params[0].keys() == {"rubric"} and _is_non_blank(all_params[0]["rubric"]):
        answer = {"expected": expected} if _is_non_blank(expected) else {}
        row = {**answer, "scorer": "llm_judge", "rubric": all_params[0]["rubric"]}
        yield Shape(row, answer.get("expected"), "llm_judge")


def _length_shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
    limits = all_params[0]
    if not limits or not _has_counts(limits):
        return
    limit_names = limits.keys()
    if limit_names <= set(LIMIT_FIELDS):
        yield _make_full_shape("length", **limits)
    if limit_names <= {"min_bullets", "max_bullets"}:
        yield _make_full_shape("format", **limits)
    if limit_names <= {"min_words", "max_words"}:
        yield _make_full_shape(
            "word_count", **{name.removesuffix("_words"): limit for name, limit in limits.items()}
        )
    if (
        limit_names == {"min_sentences", "max_sentences"}
        and limits["min_sentences"] == limits["max_sentences"]
    ):
        yield _make_full_shape("sentence_count", value=limits["min_sentences"])


def _json_schema_shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
    schema = all_params[0].get("schema")
    if all_params[0].keys() == {"schema"} and isinstance(schema, dict):
        if schema.get("type") not in TYPES:
            yield Shape({"expected": schema, "scorer": "json_schema"}, None, "json_schema")
        yield from _json_shapes({"schema": schema})


def _json_keys_shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
    keys = all_params[0].get("keys")
    if all_params[0].keys() == {"keys"} and isinstance(keys, list) and keys and all(map(_is_non_blank, keys)):
        yield from _json_shapes({"required_keys": keys})


def _schema_and_keys_shapes(all_params: list[Params], expected: Any) -> Iterator[Shape]:
    if list(_json_schema_shapes(all_params[:1], expected)) and list(
        _json_keys_shapes(all_params[1:], expected)
    ):
        yield from _json_shapes({"schema": all_params[0]["schema"], "required_keys": all_params[1]["keys"]})


def _is_json_shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
    if not all_params[0]:
        yield from _json_shapes({})


def _json_shapes(fields: dict[str, Any]) -> Iterator[Shape]:
    for kind in ("json_schema", "json"):
        yield _make_full_shape(kind, **fields)


def _json_array_shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
    if all_params[0].keys() <= {"min_items", "max_items"} and _has_counts(all_params[0]):
        yield _make_full_shape("json_array", **all_params[0])


def _refusal_shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
    if not all_params[0]:
        yield _make_full_shape("refusal")


def _consistency_shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
    if not all_params[0]:
        yield _make_full_shape("consistency")
    elif all_params[0].keys() == {"expected"} and _is_non_blank(all_params[0]["expected"]):
        yield _make_full_shape("consistency", all_params[0]["expected"], value=all_params[0]["expected"])


def _unscored_shapes(all_params: list[Params], _expected: Any) -> Iterator[Shape]:
    for kind, params in _unscored_types():
        if params == all_params[0]:
            yield _make_full_shape(kind)


@cache
def _unscored_types() -> list[tuple[str, Params]]:
    """Returns the types that no rule can check without further fields, each with its parsed parameters."""
    call_lists = ((kind, parse_expected({"type": kind}, ProblemLog("", 1), None)[1]) for kind in TYPES)
    return [(kind, checks[0][1]) for kind, checks in call_lists if checks and checks[0][0] == "unscored"]


_SHAPE_FINDERS: Final[dict[tuple[str, ...], Callable[[list[Params], Any], Iterator[Shape]]]] = {
    ("exact",): _exact_shapes,
    ("number",): _number_shapes,
    **{(kind,): _numeric_text_shapes(kind) for kind in NUMERIC_TYPES},
    ("contains",): _contains_shapes,
    ("regex",): _regex_shapes,
    ("rubric",): _rubric_shapes,
    ("length",): _length_shapes,
    ("json_schema",): _json_schema_shapes,
    ("json_keys",): _json_keys_shapes,
    ("json_schema", "json_keys"): _schema_and_keys_shapes,
    ("is_json",): _is_json_shapes,
    ("json_array",): _json_array_shapes,
    ("abstention",): _refusal_shapes,
    ("consistency",): _consistency_shapes,
    ("unscored",): _unscored_shapes,
    **{
        graders: _word_list_shapes(*graders)
        for graders in (
            ("required_words",),
            ("forbidden_words",),
            ("required_words", "contains"),
            ("required_words", "forbidden_words"),
            ("contains", "forbidden_words"),
            ("required_words", "contains", "forbidden_words"),
        )
    },
}
