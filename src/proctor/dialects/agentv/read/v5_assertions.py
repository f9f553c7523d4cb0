"""The types of assertions that came with AgentV 5, to graders with their parameters.

One function for each type, as in `graders.py`. Types that are not supported here are in `REFUSED`, with what
to write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from proctor.dialects.agentv.read.assertion_fields import SHARE, AssertionFields
from proctor.dialects.agentv.read.composite import member_row
from proctor.dialects.agentv.read.graders import Lowered, code_grader, llm_grader
from proctor.dialects.agentv.read.rubrics import rubric_items
from proctor.model import Assertion
from proctor.protocols import Source
from proctor.validation import Notes, shown
from proctor.yaml12 import plain

LowerAll = Callable[[Any, str, Notes, Source], tuple[Assertion, ...]]
"""Parses a list of assertions, given the list and the name of its field in messages."""

PREFIX: Final = "not-"
"""The prefix of a negated assertion's type."""
_PROGRAM: Final = "Put the check into a program and name it as `script`."
REFUSED: Final = {
    **dict.fromkeys(("javascript", "python", "webhook"), _PROGRAM),
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
_PATTERN: Final = frozenset("*?")


def note_refused(fields: AssertionFields) -> None:
    """Notes an error for each AgentV 5 field that would change what an assertion means."""
    for name, instead in REFUSED_FIELDS.items():
        if name in fields and name not in fields.known:
            fields.take(name)
            refuse(fields, name, instead)


def refuse(fields: AssertionFields, name: str, instead: str) -> None:
    """Notes an error for a field, or a value, that only AgentV 5 supports."""
    fields.error("not-supported", name, f"is of AgentV 5 and is not read here. {instead}")


# --- judges and programs -----------------------------------------------------------------------------------


def llm_rubric(fields: AssertionFields) -> Lowered:
    """Parses `llm-rubric`: a checklist or one text in `value`, or a judge with its own prompt."""
    threshold = fields.limited("threshold", SHARE)
    if threshold is not None:
        fields.warn("no-effect", "threshold", "has no effect here: a test passes by its weighted mean.")
    if "value" not in fields:
        return llm_grader(fields)
    if "prompt" in fields:
        fields.take("prompt")
        refuse(fields, "prompt", "Beside `value` write none, or write the items of `value` into the prompt.")
    value = fields.peek("value")
    if isinstance(value, str):
        fields.take("value")
        if not value.strip():
            fields.error("empty-value", "value", "is blank; write what the answer must do.")
        items: list[dict[str, Any]] = [{"id": "rubric-1", "outcome": value}]
    else:
        items = rubric_items(fields, "value")
    params: dict[str, Any] = {"items": items}
    judge = fields.named("target")
    if judge is not None:
        params["judge"] = judge
    return "rubrics", params, ""


def script(fields: AssertionFields) -> Lowered:
    """Parses `script`: a program like `code-grader`, which gets the answer as `output`."""
    grader, params, suffix = code_grader(fields)
    return grader, params | {"output": "text"}, suffix


# --- several as one ----------------------------------------------------------------------------------------


def assert_set(fields: AssertionFields, lower: LowerAll) -> Lowered:
    """Parses `assert-set`: the weighted mean of its members."""
    if "config" in fields:
        fields.take("config")
        refuse(fields, "config", "Write it into each of the assertions that need it.")
    value = fields.peek("assert")
    if not isinstance(value, list) or not value:
        fields.rows("assert", "a list of assertions")
        return "composite", {"members": [], "aggregator": {"type": "weighted_average"}}, ""
    assertions = lower(fields.take("assert"), fields.place("assert"), fields.notes, fields.source)
    members: dict[str, Assertion] = {}
    for number, assertion in enumerate(assertions, 1):
        name = assertion.label or assertion.grader
        members[f"{name}-{number}" if name in members else name] = assertion
    weights = {name: assertion.weight for name, assertion in members.items()}
    if not any(weights.values()) and not fields.notes.noted(fields.place("assert")):
        fields.error("bad-number", "assert", "has only members of weight 0; give one of them a weight.")
    aggregator: dict[str, Any] = {"type": "weighted_average"}
    if any(weight != 1 for weight in weights.values()):
        aggregator["weights"] = weights
    rows = [{"name": name, "assertion": member_row(assertion)} for name, assertion in members.items()]
    return "composite", {"members": rows, "aggregator": aggregator}, ""


# --- what an agent did -------------------------------------------------------------------------------------


def skill_used(fields: AssertionFields) -> Lowered:
    """Parses `skill-used`: the name of one skill."""
    if "value" in fields and not isinstance(fields.peek("value"), str):
        fields.take("value")
        refuse(fields, "value", "Write the name of one skill, and an assertion for each.")
        return "skill_trigger", {"skill": ""}, ""
    skill = fields.required_text("value").strip()
    return "skill_trigger", {"skill": skill}, skill


def tool_used(fields: AssertionFields) -> Lowered:
    """Parses `trajectory:tool-used`: names of tools, or one tool with `min`."""
    value = fields.peek("value")
    minimums: dict[str, int] = {}
    if isinstance(value, dict):
        inner = fields.child("value", ("name", "min"))
        assert inner is not None
        name = _tool(inner)
        if "max" in inner:
            inner.take("max")
            refuse(inner, "max", "Leave it out, or count the calls with a `script`.")
        minimums[name] = inner.integer("min", least=1) or 1
        inner.close()
    elif isinstance(value, str):
        minimums[_plain(fields, "value", fields.required_text("value"))] = 1
    else:
        for place, item in fields.rows("value", "the name of a tool, a list of names, or an object"):
            if isinstance(item, str) and item.strip():
                minimums[_plain(fields, place, item)] = 1
            else:
                fields.wrong(place, item, "the name of a tool")
        if len(minimums) > 1 and fields.negated:
            refuse(fields, "value", "Where several tools are forbidden, write an assertion for each.")
    return _trajectory(mode="any_order", minimums=minimums)


def tool_sequence(fields: AssertionFields) -> Lowered:
    """Parses `trajectory:tool-sequence`: tools in order, with or without others between them."""
    if isinstance(fields.peek("value"), list):
        outer = AssertionFields(
            {"steps": fields.take("value")}, fields.notes, fields.place(""), fields.source, ()
        )
    else:
        inner = fields.child("value", ("mode", "steps"))
        if inner is None:
            fields.missing("value", "a list of tools, or an object with `steps`")
            return _trajectory(mode="in_order", expected=[])
        outer = inner
    mode = outer.choice("mode", ("in_order", "exact")) if "mode" in outer else "in_order"
    expected: list[dict[str, Any]] = []
    for place, item in outer.rows("steps", "a list of tools"):
        if isinstance(item, dict):
            step = AssertionFields(item, fields.notes, outer.place(place) + ".", fields.source, ("name",))
            expected.append({"tool": _tool(step)})
            step.close()
        elif isinstance(item, str) and item.strip():
            expected.append({"tool": _plain(outer, place, item)})
        else:
            outer.wrong(place, item, "the name of a tool")
    outer.close()
    return _trajectory(mode=mode, expected=expected)


def tool_args_match(fields: AssertionFields) -> Lowered:
    """Parses `trajectory:tool-args-match`: one call of a tool with these arguments."""
    inner = fields.child("value", ("name", "args", "mode"))
    if inner is None:
        if "value" not in fields and not fields.notes.noted(fields.place("value")):
            fields.missing("value", "an object with `name` and `args`")
        return _trajectory(mode="superset", expected=[])
    name = _tool(inner)
    if "arguments" in inner:
        inner.rename("arguments", "args")
    for other in ("defaults", "ignore"):
        if other in inner:
            inner.take(other)
            refuse(inner, other, "Leave it out, and name in `args` what counts.")
    args = plain(inner.take("args"))
    if not isinstance(args, dict):
        inner.wrong("args", args, "an object with the arguments")
        args = {}
    exact = "mode" in inner and inner.choice("mode", ("partial", "exact")) == "exact"
    if not exact and any(isinstance(value, dict | list) for value in args.values()):
        refuse(inner, "args", "Objects and lists inside are compared as a whole here; write `mode: exact`.")
    inner.close()
    step = {"tool": name, "args": args, "args_match": "exact" if exact else "superset"}
    return _trajectory(mode="superset", expected=[step])


def _trajectory(**params: Any) -> Lowered:
    return "tool_trajectory", params | {"partial_credit": False}, ""


def _tool(fields: AssertionFields) -> str:
    """Returns the tool named by `name`, or by a `pattern` without wildcards."""
    if "pattern" in fields and "name" not in fields:
        fields.rename("pattern", "name")
    if "type" in fields and fields.peek("type") == "tool":
        fields.take("type")
    return _plain(fields, "name", fields.required_text("name"))


def _plain(fields: AssertionFields, place: str, name: str) -> str:
    if _PATTERN.intersection(name):
        refuse(fields, place, f"Write the tool's whole name for the pattern {shown(name)}.")
    return name.strip()
