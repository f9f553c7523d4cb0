"""The types of assertions that came with AgentV 5, to graders with their parameters.

One function for each type, as in `graders.py`. Types that are not supported here are in `REFUSED_TYPES`, with
what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from proctor.dialects.agentv.read.assertion_fields import SHARE, AssertionFields
from proctor.dialects.agentv.read.composite import to_member_row
from proctor.dialects.agentv.read.graders import GraderSpec, parse_code_grader, parse_llm_grader
from proctor.dialects.agentv.read.rubrics import parse_rubric_items
from proctor.model import Assertion
from proctor.protocols import SuiteSource
from proctor.validation import ProblemLog, quote_value
from proctor.yaml12 import to_plain

ParseAssertions = Callable[[Any, str, ProblemLog, SuiteSource], tuple[Assertion, ...]]
"""Parses a list of assertions, given the list and the name of its field in messages."""

NEGATION_PREFIX: Final = "not-"
"""The prefix of a negated assertion's type."""
_PROGRAM_ADVICE: Final = "Put the check into a program and name it as `script`."
REFUSED_TYPES: Final = {
    **dict.fromkeys(("javascript", "python", "webhook"), _PROGRAM_ADVICE),
    "similar": "Write what the answer must say as a text, which a judge decides.",
    "trajectory:step-count": "Write `execution-metrics` with `max_tool_calls`.",
    "trajectory:goal-success": "Write the goal as a text, which a judge decides.",
}
"""Types that are not supported, each with what to write instead."""
REFUSED_FIELDS: Final = {
    "transform": "Let the target answer in that form, or check the answer with a `script`.",
    "provider": "Write `target` with the name of a judge.",
}
"""Fields that would change what an assertion means, each with what to write instead."""
_PATTERN_CHARACTERS: Final = frozenset("*?")


def refuse_fields(fields: AssertionFields) -> None:
    """Notes an error for each AgentV 5 field that would change what an assertion means."""
    for name, instead in REFUSED_FIELDS.items():
        if name in fields and name not in fields.allowed_names:
            fields.pop(name)
            refuse(fields, name, instead)


def refuse(fields: AssertionFields, name: str, instead: str) -> None:
    """Notes an error for a field, or a value, that only AgentV 5 supports."""
    fields.error("not-supported", name, f"is of AgentV 5 and is not read here. {instead}")


# --- judges and programs -----------------------------------------------------------------------------------


def parse_llm_rubric(fields: AssertionFields) -> GraderSpec:
    """Parses `llm-rubric`: a checklist or one text in `value`, or a judge with its own prompt."""
    threshold = fields.limited_number("threshold", SHARE)
    if threshold is not None:
        fields.warn("no-effect", "threshold", "has no effect here: a test passes by its weighted mean.")
    if "value" not in fields:
        return parse_llm_grader(fields)
    if "prompt" in fields:
        fields.pop("prompt")
        refuse(fields, "prompt", "Beside `value` write none, or write the items of `value` into the prompt.")
    value = fields.peek("value")
    if isinstance(value, str):
        fields.pop("value")
        if not value.strip():
            fields.error("empty-value", "value", "is blank; write what the answer must do.")
        items: list[dict[str, Any]] = [{"id": "rubric-1", "outcome": value}]
    else:
        items = parse_rubric_items(fields, "value")
    params: dict[str, Any] = {"items": items}
    judge = fields.non_blank_text("target")
    if judge is not None:
        params["judge"] = judge
    return "rubrics", params, ""


def parse_script(fields: AssertionFields) -> GraderSpec:
    """Parses `script`: a program like `code-grader`, which gets the answer as `output`."""
    grader, params, suffix = parse_code_grader(fields)
    return grader, params | {"output": "text"}, suffix


# --- several as one ----------------------------------------------------------------------------------------


def parse_assert_set(fields: AssertionFields, lower: ParseAssertions) -> GraderSpec:
    """Parses `assert-set`: the weighted mean of its members."""
    if "config" in fields:
        fields.pop("config")
        refuse(fields, "config", "Write it into each of the assertions that need it.")
    value = fields.peek("assert")
    if not isinstance(value, list) or not value:
        fields.rows("assert", "a list of assertions")
        return "composite", {"members": [], "aggregator": {"type": "weighted_average"}}, ""
    assertions = lower(fields.pop("assert"), fields.path_to("assert"), fields.problem_log, fields.source)
    members: dict[str, Assertion] = {}
    for number, assertion in enumerate(assertions, 1):
        name = assertion.label or assertion.grader
        members[f"{name}-{number}" if name in members else name] = assertion
    weights = {name: assertion.weight for name, assertion in members.items()}
    if not any(weights.values()) and not fields.problem_log.has_error_at(fields.path_to("assert")):
        fields.error("bad-number", "assert", "has only members of weight 0; give one of them a weight.")
    aggregator: dict[str, Any] = {"type": "weighted_average"}
    if any(weight != 1 for weight in weights.values()):
        aggregator["weights"] = weights
    rows = [{"name": name, "assertion": to_member_row(assertion)} for name, assertion in members.items()]
    return "composite", {"members": rows, "aggregator": aggregator}, ""


# --- what an agent did -------------------------------------------------------------------------------------


def parse_skill_used(fields: AssertionFields) -> GraderSpec:
    """Parses `skill-used`: the name of one skill."""
    if "value" in fields and not isinstance(fields.peek("value"), str):
        fields.pop("value")
        refuse(fields, "value", "Write the name of one skill, and an assertion for each.")
        return "skill_trigger", {"skill": ""}, ""
    skill = fields.required_text("value").strip()
    return "skill_trigger", {"skill": skill}, skill


def parse_tool_used(fields: AssertionFields) -> GraderSpec:
    """Parses `trajectory:tool-used`: names of tools, or one tool with `min`."""
    value = fields.peek("value")
    minimums: dict[str, int] = {}
    if isinstance(value, dict):
        inner = fields.child("value", ("name", "min"))
        assert inner is not None
        name = _parse_tool(inner)
        if "max" in inner:
            inner.pop("max")
            refuse(inner, "max", "Leave it out, or count the calls with a `script`.")
        minimums[name] = inner.integer("min", least=1) or 1
        inner.close()
    elif isinstance(value, str):
        minimums[_check_tool_name(fields, "value", fields.required_text("value"))] = 1
    else:
        for place, item in fields.rows("value", "the name of a tool, a list of names, or an object"):
            if isinstance(item, str) and item.strip():
                minimums[_check_tool_name(fields, place, item)] = 1
            else:
                fields.report_wrong_type(place, item, "the name of a tool")
        if len(minimums) > 1 and fields.negated:
            refuse(fields, "value", "Where several tools are forbidden, write an assertion for each.")
    return _make_trajectory(mode="any_order", minimums=minimums)


def parse_tool_sequence(fields: AssertionFields) -> GraderSpec:
    """Parses `trajectory:tool-sequence`: tools in order, with or without others between them."""
    if isinstance(fields.peek("value"), list):
        outer = AssertionFields(
            {"steps": fields.pop("value")}, fields.problem_log, fields.path_to(""), fields.source, ()
        )
    else:
        inner = fields.child("value", ("mode", "steps"))
        if inner is None:
            fields.report_missing("value", "a list of tools, or an object with `steps`")
            return _make_trajectory(mode="in_order", expected=[])
        outer = inner
    mode = outer.choice("mode", ("in_order", "exact")) if "mode" in outer else "in_order"
    expected: list[dict[str, Any]] = []
    for place, item in outer.rows("steps", "a list of tools"):
        if isinstance(item, dict):
            step = AssertionFields(
                item, fields.problem_log, outer.path_to(place) + ".", fields.source, ("name",)
            )
            expected.append({"tool": _parse_tool(step)})
            step.close()
        elif isinstance(item, str) and item.strip():
            expected.append({"tool": _check_tool_name(outer, place, item)})
        else:
            outer.report_wrong_type(place, item, "the name of a tool")
    outer.close()
    return _make_trajectory(mode=mode, expected=expected)


def parse_tool_args_match(fields: AssertionFields) -> GraderSpec:
    """Parses `trajectory:tool-args-match`: one call of a tool with these arguments."""
    inner = fields.child("value", ("name", "args", "mode"))
    if inner is None:
        if "value" not in fields and not fields.problem_log.has_error_at(fields.path_to("value")):
            fields.report_missing("value", "an object with `name` and `args`")
        return _make_trajectory(mode="superset", expected=[])
    name = _parse_tool(inner)
    if "arguments" in inner:
        inner.rename("arguments", "args")
    for other in ("defaults", "ignore"):
        if other in inner:
            inner.pop(other)
            refuse(inner, other, "Leave it out, and name in `args` what counts.")
    args = to_plain(inner.pop("args"))
    if not isinstance(args, dict):
        inner.report_wrong_type("args", args, "an object with the arguments")
        args = {}
    exact = "mode" in inner and inner.choice("mode", ("partial", "exact")) == "exact"
    if not exact and any(isinstance(value, dict | list) for value in args.values()):
        refuse(inner, "args", "Objects and lists inside are compared as a whole here; write `mode: exact`.")
    inner.close()
    step = {"tool": name, "args": args, "args_match": "exact" if exact else "superset"}
    return _make_trajectory(mode="superset", expected=[step])


def _make_trajectory(**params: Any) -> GraderSpec:
    return "tool_trajectory", params | {"partial_credit": False}, ""


def _parse_tool(fields: AssertionFields) -> str:
    """Returns the tool named by `name`, or by a `pattern` without wildcards."""
    if "pattern" in fields and "name" not in fields:
        fields.rename("pattern", "name")
    if "type" in fields and fields.peek("type") == "tool":
        fields.pop("type")
    return _check_tool_name(fields, "name", fields.required_text("name"))


def _check_tool_name(fields: AssertionFields, place: str, name: str) -> str:
    if _PATTERN_CHARACTERS.intersection(name):
        refuse(fields, place, f"Write the tool's whole name for the pattern {quote_value(name)}.")
    return name.strip()
