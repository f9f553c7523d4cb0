"""Assertions to AgentV's: for each grader with a type in the format, the rows that may express it.

A row is used only if reading it gives the same assertion, so nothing here needs to know what a type rejects
or adds by default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from proctor.codec import assertion_digest
from proctor.dialects.agentv.read.assertions import MEMBER_LIST_NAMES, VERSION_4_TYPES, parse_assertions
from proctor.dialects.agentv.read.rubrics import make_text_item
from proctor.model import Assertion
from proctor.protocols import SuiteSource
from proctor.validation import ProblemLog

AssertionRow = dict[str, Any]
Params = dict[str, Any]


class UnsupportedAssertion(Exception):
    """The format cannot express an assertion; the message is a sentence that says why."""


def render_assertion(assertion: Assertion, source: SuiteSource) -> tuple[AssertionRow, bool]:
    """Returns an assertion as an object of the list `assertions`, and whether that includes its label.

    Args:
        assertion: what to write.
        source: what the suite will be read with, for its variables.

    Raises:
        UnsupportedAssertion: no row is read as that assertion.
    """
    grader, params = assertion.grader, assertion.params
    if grader not in _TYPE_NAMES:
        raise UnsupportedAssertion(f"it has no assertion type for the grader `{grader}`.")
    make = _RENDERERS.get(grader)
    rows = make(params, source) if make else [_render_params(_TYPE_NAMES[grader], params)]
    common: AssertionRow = {} if assertion.weight == 1 else {"weight": assertion.weight}
    if assertion.negated:
        common["negate"] = True
    why = ""
    for row in rows:
        for gate in _iter_gate_rows(assertion):
            full_row = {**row, **common, **gate}
            read, problem = _read_back(full_row, source)
            if read is not None and assertion_digest(read) == assertion_digest(assertion):
                return _add_name(full_row, read.label, assertion.label, source)
            why = why or problem or _describe_difference(assertion, read)
    raise UnsupportedAssertion(why or f"none of its assertion types takes these parameters of `{grader}`.")


def _read_back(row: AssertionRow, source: SuiteSource) -> tuple[Assertion | None, str | None]:
    """Reads a row back. Returns the assertion, or None and what is wrong."""
    notes = ProblemLog("", 1)
    assertions = parse_assertions([row], "it", notes, source)
    if notes.has_errors or len(assertions) != 1:
        wrong = next((problem for problem in notes.problems if problem.level == "error"), None)
        if wrong is not None and wrong.code == "unknown-field":
            return None, f"its type `{row['type']}` has no `{(wrong.field or '').rpartition('.')[2]}`."
        reason = "" if wrong is None else wrong.message
        return None, f"an assertion of type `{row['type']}` would be rejected. {reason}".rstrip()
    return assertions[0], None


def _describe_difference(original: Assertion, read: Assertion | None) -> str:
    """Returns a sentence about the part of an assertion that the format cannot express."""
    if original.on != "answer":
        return f"none of its assertion types grades the {original.on}."
    if read is None or read.grader != original.grader:
        return f"none of its assertion types takes these parameters of `{original.grader}`."
    names = sorted({*read.params, *original.params})
    parting = next((name for name in names if read.params.get(name) != original.params.get(name)), None)
    if parting is None:
        gate = "none" if original.required is None else f"{original.required:g}"
        least = "none" if original.pass_at is None else f"{original.pass_at:g}"
        return (
            f"its `min_score` and `required` cannot express the gate {gate} "
            f"and the minimum passing value {least} of `{original.grader}`."
        )
    return f"none of its assertion types is `{original.grader}` with this `{parting}`."


# --- what all types share ----------------------------------------------------------------------------------


def _iter_gate_rows(assertion: Assertion) -> Iterator[AssertionRow]:
    """Yields the ways to write a gate and a lowest passing score, the shortest first."""
    gate, least = assertion.required, assertion.pass_at
    if gate is None:
        yield {}
        if least is not None:
            yield {"min_score": least}
    else:
        yield {"required": True}
        yield {"required": gate}
        yield {"required": True, "min_score": gate}


def _add_name(
    row: AssertionRow, own_name: str | None, label: str | None, source: SuiteSource
) -> tuple[AssertionRow, bool]:
    """Adds the label as the name of a row, unless the row has it by default or cannot have it."""
    if label is None or own_name == label:
        return row, True
    named_row = {"type": row["type"], "name": label, **row}
    read, _ = _read_back(named_row, source)
    return (named_row, True) if read is not None and read.label == label else (row, False)


# --- one grader --------------------------------------------------------------------------------------------


def _render_params(kind: str, params: Params) -> AssertionRow:
    """Returns an assertion of a type whose fields are the parameters, by the names of its table."""
    names = {field.to: field.name for field in VERSION_4_TYPES[kind].fields}
    return {"type": kind, **{names.get(name, name): value for name, value in params.items()}}


def _text_renderer(kind: str, name: str = "value") -> Callable[[Params, SuiteSource], Iterator[AssertionRow]]:
    """Returns a renderer for a type that looks for texts; its `i` variant ignores case."""

    def rows(params: Params, _source: SuiteSource) -> Iterator[AssertionRow]:
        for prefix in ("", "i"):
            yield {"type": f"{prefix}{kind}", "value": params.get(name)}

    return rows


_PYTHON_TOKEN: Final = re.compile(
    r"""(?P<again>\(\?P=(\w+)\))
    | (?P<group>\(\?P<)
    | \\U(?P<point>[0-9A-Fa-f]{8})
    | (?P<end>\\Z)
    | \\.
    | \(\?a:(?P<ascii>\\[bB])\)
    | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])""",
    re.DOTALL | re.VERBOSE,
)
_CODE_POINT: Final = re.compile(r"\\(?:U(?P<point>[0-9A-Fa-f]{8})|.)", re.DOTALL)
_STICKY_PATTERN: Final = re.compile(r"\\A\(\?:(.*)\)", re.DOTALL)


def _render_regex(params: Params, _source: SuiteSource) -> Iterator[AssertionRow]:
    """Yields the pattern in JavaScript's syntax, then unchanged."""
    pattern, flags = params.get("pattern"), params.get("flags", "")
    if not isinstance(pattern, str) or not isinstance(flags, str):
        return
    sticky = _STICKY_PATTERN.fullmatch(pattern)
    patterns = [(sticky[1], "y")] if sticky else []
    for python_pattern, more in (*patterns, (pattern, "")):
        js_pattern, unicode = _to_javascript(python_pattern)
        every = flags + unicode + more
        yield {"type": "regex", "value": js_pattern, **({"flags": every} if every else {})}
    yield {"type": "regex", "value": pattern, **({"flags": flags} if flags else {})}


def _to_javascript(pattern: str) -> tuple[str, str]:
    """Translates a Python pattern to JavaScript. Returns it and the flag that it needs."""
    points = 0

    def point(match: re.Match[str]) -> str:
        nonlocal points
        if not match["point"]:
            return match[0]
        points += 1
        return f"\\u{{{match['point'].lstrip('0') or '0'}}}"

    def translate(match: re.Match[str]) -> str:
        if match["again"]:
            return f"\\k<{match[2]}>"
        if match["ascii"]:
            return match["ascii"]
        if match["set"]:
            return _CODE_POINT.sub(point, match[0])
        return "(?<" if match["group"] else "$" if match["end"] else point(match)

    return _PYTHON_TOKEN.sub(translate, pattern), "u" if points else ""


def _render_rubrics(params: Params, _source: SuiteSource) -> Iterator[AssertionRow]:
    items = params.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return
    others = {name: value for name, value in params.items() if name != "items"}
    criteria = [_render_item(item, number) for number, item in enumerate(items, 1)]
    yield {**_render_params("rubrics", others), "criteria": criteria}


def _render_item(item: dict[str, Any], number: int) -> Any:
    """Returns one item of a rubric; just a text if nothing else is set."""
    outcome = item.get("outcome")
    if isinstance(outcome, str) and item == make_text_item(number, outcome):
        return outcome
    ranges = item.get("score_ranges")
    if not isinstance(ranges, list):
        return item
    rows = [
        {
            "score_range": [score_range.get("low"), score_range.get("high")],
            "outcome": score_range.get("outcome"),
        }
        for score_range in ranges
    ]
    return {**item, "score_ranges": rows}


def _render_program(params: Params, _source: SuiteSource) -> Iterator[AssertionRow]:
    row = _render_params("code-grader", params)
    if row.get("output") == "text":
        del row["output"]
        row["type"] = "script"
    calls, judge = row.pop("max_calls", None), row.pop("judge", None)
    if calls is not None:
        row["target"] = {"max_calls": calls, **({} if judge is None else {"judge": judge})}
    yield row


def _render_token_usage(params: Params, _source: SuiteSource) -> Iterator[AssertionRow]:
    yield {"type": "token-usage", **{name: value for name, value in params.items() if name != "add_cached"}}


def _render_composite(params: Params, source: SuiteSource) -> Iterator[AssertionRow]:
    aggregator = params.get("aggregator")
    if not isinstance(aggregator, dict):
        return
    kind = aggregator.get("type")
    others = {name: value for name, value in aggregator.items() if name != "type"}
    row: AssertionRow = {"type": kind, **others}
    if kind == "program":
        row = _render_params("code-grader", others)
    elif kind == "llm_grader":
        row = _render_params("llm-grader", others)
    members = [_render_member(member, source) for member in params.get("members", ())]
    yield {"type": "composite", MEMBER_LIST_NAMES[0]: members, "aggregator": row}


def _render_member(member: Any, source: SuiteSource) -> AssertionRow:
    try:
        name, assertion = member["name"], msgspec.convert(member["assertion"], Assertion)
    except (msgspec.ValidationError, KeyError, TypeError):
        raise UnsupportedAssertion("a member of a composite needs a name and an assertion.") from None
    row, _ = render_assertion(replace(assertion, label=None), source)
    return {"name": name, **row}


_RENDERERS: Final[dict[str, Callable[[Params, SuiteSource], Iterable[AssertionRow]]]] = {
    "contains": _text_renderer("contains"),
    "contains_any": _text_renderer("contains-any", "values"),
    "contains_all": _text_renderer("contains-all", "values"),
    "regex": _render_regex,
    "is_json": lambda _params, _source: [{"type": "is-json"}],
    "rubrics": _render_rubrics,
    "program": _render_program,
    "composite": _render_composite,
    "token_usage": _render_token_usage,
}
"""Makes the rows for graders that have more than one type, or parameters other than the fields."""
_TYPE_NAMES: Final = {kind.grader: name for name, kind in VERSION_4_TYPES.items()}
