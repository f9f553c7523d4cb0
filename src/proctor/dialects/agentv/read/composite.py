"""AgentV's `composite` to the grader of that name: named members, and how their scores are combined."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Final

from proctor.dialects.agentv.read.assertion_fields import NOT_NEGATIVE, SHARE, AssertionFields
from proctor.dialects.agentv.read.graders import OLD_TYPES, GraderSpec, parse_program, read_prompt
from proctor.errors import suggestion
from proctor.model import Assertion
from proctor.protocols import SuiteSource
from proctor.validation import ProblemLog, quote_value

ParseAssertion = Callable[[dict[str, Any], str, ProblemLog, SuiteSource], Assertion]
"""Parses one assertion from its row and the prefix of its fields in messages."""

MEMBER_LIST_NAMES: Final = ("assertions", "assert", "evaluators")
"""The names that the list of members may have."""

_EXPECTED_MEMBERS: Final = "a list of assertions, each with a `name`"
_UNUSED_MEMBER_MESSAGE: Final = (
    "has no effect on a member of a composite; put it into the aggregator's `weights`."
)
_AGGREGATOR_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "weighted_average": ("type", "weights"),
    "threshold": ("type", "threshold"),
    "code-grader": ("type", "path", "command", "cwd", "timeout_seconds"),
    "llm-grader": ("type", "prompt", "target", "model"),
}


def parse_composite(fields: AssertionFields, lower_one: ParseAssertion) -> GraderSpec:
    """Parses `composite`: several graders combined into one score."""
    spellings = [name for name in MEMBER_LIST_NAMES if name in fields] or [MEMBER_LIST_NAMES[0]]
    for name in spellings[1:]:
        fields.pop(name)
        fields.error("conflicting-fields", name, f"and `{spellings[0]}` mean the same; keep one of them.")
    members: list[dict[str, Any]] = []
    for place, row in fields.rows(spellings[0], _EXPECTED_MEMBERS):
        if isinstance(row, dict):
            members.append(_parse_member(fields, place, row, lower_one))
        else:
            fields.report_wrong_type(place, row, "an object with `name` and `type`")
    names = [member["name"] for member in members]
    for number, name in enumerate(names):
        if name and name in names[:number]:
            fields.error(
                "duplicate-name",
                f"{spellings[0]}[{number}]",
                f"has the name {name!r}, as a member before it; give each a name of its own.",
            )
    return "composite", {"members": members, "aggregator": _parse_aggregator(fields, names)}, ""


def _parse_member(
    fields: AssertionFields, place: str, row: dict[str, Any], lower_one: ParseAssertion
) -> dict[str, Any]:
    prefix = fields.path_to(place) + "."
    outer = AssertionFields(row, fields.problem_log, prefix, fields.source, ())
    outer.ignore_fields(("weight",), _UNUSED_MEMBER_MESSAGE)
    if "name" not in outer:
        outer.report_missing("name", "a text that no other member has")
    row = copy(row)  # with its line numbers
    row.pop("weight", None)
    assertion = lower_one(row, prefix, fields.problem_log, fields.source)
    return {"name": assertion.label or "", "assertion": to_member_row(assertion)}


def to_member_row(assertion: Assertion) -> dict[str, Any]:
    """Returns a member's assertion as the grader takes it, without fields at their defaults."""
    row: dict[str, Any] = {"grader": assertion.grader, "params": assertion.params}
    for name in ("required", "negated", "pass_at"):
        value = getattr(assertion, name)
        if value is not None and value is not False:
            row[name] = value
    return row


def _parse_aggregator(fields: AssertionFields, names: list[str]) -> dict[str, Any]:
    expected = f"an object whose `type` is one of {', '.join(_AGGREGATOR_FIELDS)}"
    if "aggregator" not in fields:
        fields.report_missing("aggregator", expected)
        return {}
    row = fields.peek("aggregator")
    type_name = row.get("type") if isinstance(row, dict) else None
    kind = type_name.replace("_", "-") if isinstance(type_name, str) else ""
    if kind == "weighted-average":
        kind = "weighted_average"
    inner = fields.child("aggregator", _AGGREGATOR_FIELDS.get(kind, ("type",)))
    if inner is None:
        return {}
    if kind not in _AGGREGATOR_FIELDS:
        if kind in OLD_TYPES:
            inner.error("old-type", "type", f"is {type_name!r}, an old word; write {OLD_TYPES[kind]!r}.")
        elif isinstance(type_name, str):
            inner.error(
                "unknown-type",
                "type",
                f"is {quote_value(type_name)}. {suggestion(type_name, tuple(_AGGREGATOR_FIELDS))}",
            )
        else:
            inner.error(
                "missing-field", "type", f"is no text; it must be one of {', '.join(_AGGREGATOR_FIELDS)}."
            )
        return {}
    inner.pop("type")
    aggregator = _parse_aggregator_params(kind, inner, names)
    inner.close()
    return aggregator


def _parse_aggregator_params(kind: str, inner: AssertionFields, names: list[str]) -> dict[str, Any]:
    if kind == "weighted_average":
        weights = _parse_weights(inner, names)
        return {"type": kind, "weights": weights} if weights else {"type": kind}
    if kind == "threshold":
        if "threshold" not in inner:
            inner.report_missing("threshold", "the share of members that must pass, from 0 to 1")
        return {"type": kind, "threshold": float(inner.limited_number("threshold", SHARE) or 0)}
    if kind == "code-grader":
        return {"type": "program", **parse_program(inner, "path")}
    inner.ignore_fields(("model",))
    if "prompt" not in inner:
        inner.report_missing("prompt", "what the judge is asked, or a file with it")
    aggregator: dict[str, Any] = {"type": "llm_grader", "prompt": read_prompt(inner) or ""}
    judge = inner.non_blank_text("target")
    return aggregator if judge is None else aggregator | {"judge": judge}


def _parse_weights(inner: AssertionFields, names: list[str]) -> dict[str, float]:
    weight_fields = inner.child("weights", names)
    if weight_fields is None:
        return {}
    weights = {
        name: weight_fields.limited_number(name, NOT_NEGATIVE) for name in names if name in weight_fields
    }
    weight_fields.close()
    numbers = {name: float(weight) for name, weight in weights.items() if weight is not None}
    if names and len(numbers) == len(set(names)) and not any(numbers.values()):
        inner.error("bad-number", "weights", "are all 0; give one member a weight.")
    return numbers
