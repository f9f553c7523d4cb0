"""AgentV's rubrics to the items of grader `rubrics`: texts, weighted items, and ranges of points.

A text is short for an object with that outcome, so it has weight 1 and is not required. The grader decides
which judge answers, and how its answer counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from proctor.dialects.agentv.read.assertion_fields import GATE, NOT_NEGATIVE, AssertionFields
from proctor.errors import suggestion
from proctor.model import Assertion
from proctor.protocols import Source
from proctor.validation import Notes, kind_of, shown

PASS_AT: Final = 0.8
"""The lowest score that passes, for graders that can give a fraction, unless `min_score` is set."""
POINTS: Final = 10
"""The highest number of points of an item with ranges."""

_OPERATORS: Final = ("correctness", "contradiction")
"""How an item compares the answer; the first is the default."""

_EXPECTED: Final = "a list of texts or of objects with `outcome`"
_ITEM: Final = (
    "id",
    "outcome",
    "weight",
    "required",
    "min_score",
    "required_min_score",
    "score_ranges",
    "operator",
)
_RANGE: Final = ("score_range", "outcome")
_RANGES_WANTED: Final = "a list of objects with `score_range` and `outcome`, or an object of least points"


def lower_rubrics(items: Any, field: str, notes: Notes, source: Source) -> tuple[Assertion, ...]:
    """Parses a test's own `rubrics` into one assertion.

    Args:
        items: the value of the field, as it was read.
        field: its name in messages.
        notes: takes the problems.
        source: the variables for `${{ NAME }}`.
    """
    outer = AssertionFields({field: items}, notes, "", source, ())
    return (of_items(rubric_items(outer, field)),)


def of_items(items: list[dict[str, Any]]) -> Assertion:
    """Returns an assertion with these rubric items and every other field at its default."""
    return Assertion(grader="rubrics", params={"items": items}, pass_at=PASS_AT, label="rubrics")


def text_item(number: int, outcome: str) -> dict[str, Any]:
    """Returns the rubric item for a text; `number` counts from 1."""
    return {"id": f"rubric-{number}", "outcome": outcome}


def rubric_items(fields: AssertionFields, name: str) -> list[dict[str, Any]]:
    """Returns the items of a field, as the grader `rubrics` takes them."""
    items: list[dict[str, Any]] = []
    for number, (place, row) in enumerate(fields.rows(name, _EXPECTED), 1):
        if isinstance(row, str):
            if not row.strip():
                fields.error("empty-value", place, "is blank; write what the answer must do, or remove it.")
            items.append(text_item(number, row))
        elif isinstance(row, dict):
            items.append(
                _item(
                    AssertionFields(row, fields.notes, fields.place(place) + ".", fields.source, _ITEM),
                    number,
                )
            )
        else:
            fields.wrong(place, row, "text or an object with `outcome`")
    _check_ids(fields, name, items)
    if items and all(item.get("weight", 1) == 0 for item in items):
        fields.error("bad-number", name, "has only items of weight 0; give one of them a weight.")
    return items


def _check_ids(fields: AssertionFields, name: str, items: Iterable[dict[str, Any]]) -> None:
    ids: set[str] = set()
    for item in items:
        if item["id"] in ids:
            fields.error(
                "duplicate-id", name, f"has the id {item['id']!r} twice; give each item an id of its own."
            )
        ids.add(item["id"])


def _item(fields: AssertionFields, number: int) -> dict[str, Any]:
    """Parses an item that is an object; fields at their defaults are left out."""
    item: dict[str, Any] = {"id": fields.named("id") or f"rubric-{number}"}
    ranged = "score_ranges" in fields
    outcome = fields.named("outcome") if ranged else fields.required_text("outcome")
    if outcome is not None:
        item["outcome"] = outcome
    weight = fields.limited("weight", NOT_NEGATIVE)
    if weight not in (None, 1):
        item["weight"] = float(weight or 0)
    if fields.truth("required", False):
        item["required"] = True
    if "operator" in fields and fields.choice("operator", _OPERATORS) == "contradiction":
        item["operator"] = "contradiction"
    least = _least(fields)
    if least is not None:
        item["min_score"] = least
    if ranged:
        item["score_ranges"] = _ranges(fields)
    fields.close()
    return item


def _least(fields: AssertionFields) -> float | None:
    """Returns an item's minimum score; `required_min_score` is its older spelling, in points."""
    least = fields.limited("min_score", GATE)
    if "required_min_score" not in fields:
        return least
    points = fields.limited(
        "required_min_score", (f"a whole number from 0 to {POINTS}", lambda value: value in range(POINTS + 1))
    )
    if points is None:
        return least
    fields.warn(
        "deprecated", "required_min_score", f"is an older spelling; write `min_score: {points / POINTS}`."
    )
    return least if least is not None else points / POINTS or None


# --- ranges of points --------------------------------------------------------------------------------------


def _ranges(fields: AssertionFields) -> list[dict[str, Any]]:
    value = fields.take("score_ranges")
    if isinstance(value, dict):
        candidates = _from_bounds(fields, value)
    elif isinstance(value, list):
        outer = AssertionFields({"score_ranges": value}, fields.notes, fields.place(""), fields.source, ())
        candidates = [_from_pair(entry) for entry in outer.children("score_ranges", _RANGES_WANTED, _RANGE)]
    else:
        fields.wrong("score_ranges", value, _RANGES_WANTED)
        return []
    ranges = [entry for entry in candidates if entry is not None]
    if len(ranges) == len(candidates) and not fields.notes.noted(fields.place("score_ranges")):
        _check_cover(fields, ranges)
    return sorted(ranges, key=lambda entry: entry["low"])


def _from_pair(fields: AssertionFields) -> dict[str, Any] | None:
    """Parses `{score_range: [low, high], outcome}`."""
    pair = fields.take("score_range")
    outcome = fields.required_text("outcome")
    fields.close()
    if not (isinstance(pair, list) and len(pair) == 2 and all(type(end) is int for end in pair)):
        actual = f"{shown(pair)}, {kind_of(pair)}" if pair is not None else "missing"
        fields.error("wrong-type", "score_range", f"is {actual}; it must be a list of two whole numbers.")
        return None
    low, high = pair
    if not 0 <= low <= high <= POINTS:
        fields.error(
            "bad-range",
            "score_range",
            f"is [{low}, {high}]; write the lower end first, within 0 and {POINTS}.",
        )
        return None
    return {"low": low, "high": high, "outcome": outcome}


def _from_bounds(fields: AssertionFields, bounds: dict[str, Any]) -> list[dict[str, Any] | None]:
    """Parses `{0: …, 5: …}`; each range ends where the next one begins."""
    names = [str(points) for points in range(POINTS + 1)]
    inner = AssertionFields(bounds, fields.notes, fields.place("score_ranges."), fields.source, names)
    lows = [points for points in range(POINTS + 1) if str(points) in inner]
    outcomes = [inner.required_text(str(low)) for low in lows]
    for name in inner.names():
        inner.error("bad-range", name, f"is no number of points. {suggestion(name[:60], names)}")
    if not bounds:
        fields.error("bad-range", "score_ranges", f"is empty; it must be {_RANGES_WANTED}.")
    ends = [*(low - 1 for low in lows[1:]), POINTS]
    return [
        {"low": low, "high": high, "outcome": text}
        for low, high, text in zip(lows, ends, outcomes, strict=False)
    ]


def _check_cover(fields: AssertionFields, ranges: list[dict[str, Any]]) -> None:
    """Notes the first number of points that no range covers, or that two ranges cover."""
    nexts = 0
    for score_range in sorted(ranges, key=lambda score_range: (score_range["low"], score_range["high"])):
        if score_range["low"] < nexts:
            fields.error(
                "bad-range",
                "score_ranges",
                f"overlap: {score_range['low']} points are in two ranges; part them.",
            )
            return
        if score_range["low"] > nexts:
            break
        nexts = score_range["high"] + 1
    if nexts <= POINTS:
        fields.error(
            "bad-range", "score_ranges", f"lack a range for {nexts} points; cover all from 0 to {POINTS}."
        )
