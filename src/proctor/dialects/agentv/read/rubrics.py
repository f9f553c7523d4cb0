"""AgentV's rubrics to the items of grader `rubrics`: texts, weighted items, and ranges of points.

A text is short for an object with that outcome, so it has weight 1 and is not required. The grader decides
which judge answers, and how its answer counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from proctor import field_schemas as schemas
from proctor.dialects.agentv.read.assertion_fields import GATE, NOT_NEGATIVE, AssertionFields
from proctor.errors import suggestion
from proctor.field_schemas import Fields, accepts
from proctor.model import Assertion
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, FieldSpec, NumberLimit, ProblemLog, json_type, quote_value

DEFAULT_PASS_AT: Final = 0.8
"""The lowest score that passes, for graders that can give a fraction, unless `min_score` is set."""
MAX_POINTS: Final = 10
"""The highest number of points of an item with ranges."""
_POINTS: Final = NumberLimit(
    f"a whole number from 0 to {MAX_POINTS}", minimum=0, maximum=MAX_POINTS, is_whole=True
)

_OPERATORS: Final = ("correctness", "contradiction")
"""How an item compares the answer; the first is the default."""

_EXPECTED_ITEMS: Final = "a list of texts or of objects with `outcome`"
_RANGE_FIELDS: Final[Fields] = {
    "score_range": schemas.list_of(
        schemas.of_type("integer", minimum=0, maximum=MAX_POINTS),
        "The lowest and the highest number of points.",
        minItems=2,
        maxItems=2,
    ),
    "outcome": schemas.words("Describes an answer that earns these points."),
}
_RANGES: Final = schemas.either(
    schemas.list_of(schemas.object_of(_RANGE_FIELDS, _RANGE_FIELDS), minItems=1),
    schemas.object_of(dict.fromkeys(map(str, range(MAX_POINTS + 1)), schemas.words()), minProperties=1),
)
_EXPECTED_RANGES: Final = (
    "a list of objects with `score_range` and `outcome`, or an object with the lowest points of each level"
)


def parse_test_rubrics(
    items: Any, field: str, notes: ProblemLog, source: SuiteSource
) -> tuple[Assertion, ...]:
    """Parses a test's own `rubrics` into one assertion.

    Args:
        items: the value of the field, as it was read.
        field: its name in messages.
        notes: takes the problems.
        source: the variables for `${{ NAME }}`.
    """
    outer = AssertionFields({field: items}, notes, "", source, ())
    return (make_rubrics_assertion(parse_rubric_items(outer, field)),)


def make_rubrics_assertion(items: list[dict[str, Any]]) -> Assertion:
    """Returns an assertion with these rubric items and every other field at its default."""
    return Assertion(grader="rubrics", params={"items": items}, pass_at=DEFAULT_PASS_AT, label="rubrics")


def make_text_item(number: int, outcome: str) -> dict[str, Any]:
    """Returns the rubric item for a text; `number` counts from 1."""
    return {"id": f"rubric-{number}", "outcome": outcome}


def parse_rubric_items(fields: AssertionFields, name: str) -> list[dict[str, Any]]:
    """Returns the items of a field, as the grader `rubrics` takes them."""
    items: list[dict[str, Any]] = []
    for number, (place, row) in enumerate(fields.rows(name, _EXPECTED_ITEMS), 1):
        if isinstance(row, str):
            if not row.strip():
                fields.error(
                    "empty-value", place, "is blank; describe what the answer must do, or remove it."
                )
            items.append(make_text_item(number, row))
        elif isinstance(row, dict):
            items.append(_parse_item(fields.within(place, row, ITEM_FIELDS), number))
        else:
            fields.report_wrong_type(place, row, "text or an object with `outcome`")
    _check_ids(fields, name, items)
    if items and all(item.get("weight", 1) == 0 for item in items):
        fields.error("bad-number", name, "has only items with weight 0; give at least one of them a weight.")
    return items


def _check_ids(fields: AssertionFields, name: str, items: Iterable[dict[str, Any]]) -> None:
    ids: set[str] = set()
    for item in items:
        if item["id"] in ids:
            fields.error("duplicate-id", name, f"has the id {item['id']!r} twice; give each item its own id.")
        ids.add(item["id"])


def _parse_item(fields: AssertionFields, number: int) -> dict[str, Any]:
    """Parses an item that is an object; fields at their defaults are left out."""
    return {"id": f"rubric-{number}", **fields.all_values(_ITEM_FIELDS)}


@accepts(schemas.words(), required=False)
def _read_outcome(fields: AssertionFields, name: str) -> str | None:
    """Returns the outcome of an item, which only an item with ranges may lack."""
    return fields.non_blank_text(name) if "score_ranges" in fields else fields.required_text(name)


@accepts(schemas.limit_rules(GATE), required=False)
def _read_min_score(fields: AssertionFields, name: str) -> float | None:
    """Returns an item's minimum score; `required_min_score` is its older spelling, in points."""
    least = fields.limited_number(name, GATE)
    points = fields.limited_number("required_min_score", _POINTS)
    if points is None:
        return least
    message = f"is an old spelling; write `{name}: {points / MAX_POINTS}`."
    fields.warn("deprecated", "required_min_score", message)
    return least if least is not None else points / MAX_POINTS or None


# --- ranges of points --------------------------------------------------------------------------------------


@accepts(_RANGES)
def _read_ranges(fields: AssertionFields, name: str) -> list[dict[str, Any]]:
    value = fields.peek(name)
    if isinstance(value, dict):
        candidates = _parse_range_bounds(fields, name, fields.pop(name))
    elif isinstance(value, list):
        entries = fields.children(name, _EXPECTED_RANGES, _RANGE_FIELDS)
        candidates = [_parse_range_pair(entry) for entry in entries]
    else:
        fields.report_wrong_type(name, fields.pop(name), _EXPECTED_RANGES)
        return []
    ranges = [entry for entry in candidates if entry is not None]
    if len(ranges) == len(candidates) and not fields.problem_log.has_error_at(fields.path_to(name)):
        _check_coverage(fields, name, ranges)
    return sorted(ranges, key=lambda entry: entry["low"])


def _parse_range_pair(fields: AssertionFields) -> dict[str, Any] | None:
    """Parses `{score_range: [low, high], outcome}`."""
    pair = fields.pop("score_range")
    outcome = fields.required_text("outcome")
    fields.close()
    if not (isinstance(pair, list) and len(pair) == 2 and all(type(end) is int for end in pair)):
        actual = f"{quote_value(pair)}, {json_type(pair)}" if pair is not None else "missing"
        fields.error("wrong-type", "score_range", f"is {actual}; it must be a list of two whole numbers.")
        return None
    low, high = pair
    if not 0 <= low <= high <= MAX_POINTS:
        fields.error(
            "bad-range",
            "score_range",
            f"is [{low}, {high}]; write the lower number first, both from 0 to {MAX_POINTS}.",
        )
        return None
    return {"low": low, "high": high, "outcome": outcome}


def _parse_range_bounds(
    fields: AssertionFields, place: str, bounds: dict[str, Any]
) -> list[dict[str, Any] | None]:
    """Parses `{0: …, 5: …}`; each range ends where the next one begins."""
    names = [str(points) for points in range(MAX_POINTS + 1)]
    inner = fields.within(place, bounds, names)
    lows = [points for points in range(MAX_POINTS + 1) if str(points) in inner]
    outcomes = [inner.required_text(str(low)) for low in lows]
    for name in inner.remaining_names():
        inner.error("bad-range", name, f"is not a number of points. {suggestion(name[:60], names)}")
    if not bounds:
        fields.error("bad-range", place, f"is empty; it must be {_EXPECTED_RANGES}.")
    ends = [*(low - 1 for low in lows[1:]), MAX_POINTS]
    return [
        {"low": low, "high": high, "outcome": text}
        for low, high, text in zip(lows, ends, outcomes, strict=False)
    ]


def _check_coverage(fields: AssertionFields, name: str, ranges: list[dict[str, Any]]) -> None:
    """Notes the first number of points that no range covers, or that two ranges cover."""
    nexts = 0
    for score_range in sorted(ranges, key=lambda score_range: (score_range["low"], score_range["high"])):
        low = score_range["low"]
        if low < nexts:
            fields.error("bad-range", name, f"overlap: {low} points are in two ranges; separate the ranges.")
            return
        if low > nexts:
            break
        nexts = score_range["high"] + 1
    if nexts <= MAX_POINTS:
        message = f"have no range for {nexts} points; cover all from 0 to {MAX_POINTS}."
        fields.error("bad-range", name, message)


_ITEM_FIELDS: Final = (
    FieldSpec("id", FieldReader.non_blank_text, about="The name of the item."),
    FieldSpec("outcome", _read_outcome, required=True, about="What the answer must do."),
    FieldSpec("weight", FieldReader.limited_number, NOT_NEGATIVE, default=1, about="The weight of the item."),
    FieldSpec(
        "required",
        FieldReader.boolean,
        False,
        default=False,
        about="Whether an answer that does not satisfy the item fails.",
    ),
    FieldSpec(
        "operator",
        FieldReader.choice,
        _OPERATORS,
        default=_OPERATORS[0],
        about="Whether the answer must state the item or only not contradict it.",
    ),
    FieldSpec("min_score", _read_min_score, required=True, about="The minimum score for the item."),
    FieldSpec("score_ranges", _read_ranges, about="Describes the answer for each number of points."),
)
ITEM_FIELDS: Final[Fields] = {
    **schemas.spec_fields(_ITEM_FIELDS),
    "required_min_score": {**schemas.limit_rules(_POINTS), "deprecated": True},
}
"""The fields of a rubric item that is an object; one without `score_ranges` needs `outcome`."""
