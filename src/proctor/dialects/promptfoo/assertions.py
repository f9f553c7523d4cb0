"""promptfoo's assertions to assertions: a table with one line for each type, and what all types share.

`not-` before a type negates it. A type that runs code, calls a service or has no grader here is refused by
name. Graders are known here by name only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from proctor.dialects.promptfoo import assertion_types as kinds
from proctor.dialects.promptfoo.assertion_types import Asked, Lowered
from proctor.errors import suggestion
from proctor.model import Assertion
from proctor.protocols import Source
from proctor.validation import Fields, Notes, kind_of, shown

COMMON: Final = ("type", "value", "threshold", "weight", "metric")
UNUSED: Final = ("provider", "rubricPrompt", "config")
"""Known fields that have no effect here."""
REFUSED: Final = ("transform", "contextTransform")
"""Fields with code."""
CODE: Final = ("javascript", "python", "ruby", "webhook")
UNMEASURED: Final = (
    *("answer-relevance", "bleu", "classifier", "contains-html", "contains-sql", "contains-xml"),
    *("context-faithfulness", "context-recall", "context-relevance", "conversation-relevance"),
    *("finish-reason", "gleu", "guardrails", "is-html", "is-sql", "is-valid-function-call"),
    *("is-valid-openai-function-call", "is-valid-openai-tools-call", "is-xml", "levenshtein"),
    *("max-score", "meteor", "moderation", "perplexity", "perplexity-score", "pi", "rouge-n"),
    *("search-rubric", "select-best", "skill-used", "tool-call-f1", "trace-error-spans"),
    *("trace-span-count", "trace-span-duration", "trajectory:step-count", "trajectory:tool-args-match"),
    *("trajectory:tool-sequence", "trajectory:tool-used", "agent-rubric", "human"),
)
SET: Final = "assert-set"

_NOT: Final = "not-"
_REFERENCE: Final = "#/assertionTemplates/"
_RED_TEAM: Final = "promptfoo:redteam:"


class Context(NamedTuple):
    """What the assertions of a test may refer to."""

    values: dict[str, Any]
    """The test's vars."""
    templates: dict[str, Any]
    """`assertionTemplates` of the configuration."""
    source: Source


def lower(items: Any, field: str, notes: Notes, context: Context) -> list[Assertion]:
    """Parses a list of assertions; problems go to `notes`."""
    if items is None:
        return []
    if not isinstance(items, list):
        message = f"`{field}` is {shown(items)}, {kind_of(items)}; it must be a list of assertions."
        notes.error("wrong-type", message, field)
        return []
    lines = getattr(items, "lines", [None] * len(items))
    assertions = (
        _read_assertion(item, f"{field}[{place}]", lines[place], notes, context, inside=False)
        for place, item in enumerate(items)
    )
    return [assertion for assertion in assertions if assertion is not None]


def _read_assertion(
    item: Any, field: str, line: int | None, notes: Notes, context: Context, *, inside: bool
) -> Assertion | None:
    row = _row(item, field, line, notes, context)
    if row is None:
        return None
    fields = Fields(row, notes, field + ".")
    fields.forgive_null(*fields.names())
    type_name = fields.required_text("type")
    negated = type_name.startswith(_NOT)
    kind = type_name.removeprefix(_NOT)
    if not type_name or not _is_known(kind, negated, fields, inside=inside):
        return None
    reader = Asked(fields=fields, kind=kind, values=context.values, source=context.source)
    if kind == SET:
        call: Lowered = _read_set(reader, context)
    else:
        call = _KINDS[kind](reader)
    weight = fields.number("weight")
    if weight is not None and weight < 0:
        fields.error("bad-number", "weight", f"is {weight}; it must be 0 or more.")
    metric = reader.filled("metric", fields.text("metric") or "")
    _warn_unread(fields, kind)
    # A set of weight 0 adds nothing to the score, but can still fail its test.
    gate = 1.0 if call.pass_at is None else call.pass_at
    return Assertion(
        grader=call.grader,
        params=call.params,
        weight=1.0 if weight is None else float(weight),
        required=gate if kind == SET and weight == 0 else None,
        negated=negated,
        pass_at=call.pass_at,
        label=metric or type_name,
    )


def _row(item: Any, field: str, line: int | None, notes: Notes, context: Context) -> dict[str, Any] | None:
    """Returns an assertion as written, inline or under `assertionTemplates`."""
    reference = item.get("$ref") if isinstance(item, dict) else None
    if isinstance(reference, str):
        name = reference.removeprefix(_REFERENCE)
        item = context.templates.get(name)
        if item is None:
            hint = suggestion(name[:60], tuple(context.templates))
            message = f"`{field}` is {shown(reference)}, and `assertionTemplates` has no such name. {hint}"
            notes.error("unknown-reference", message, field, line=line)
            return None
    if isinstance(item, dict):
        return item
    message = f"`{field}` is {shown(item)}, {kind_of(item)}; it must be an object with `type`."
    notes.error("wrong-type", message, field, line=line)
    return None


def _is_known(kind: str, negated: bool, fields: Fields, *, inside: bool) -> bool:
    """Whether a type is supported; notes an error if it is not."""
    if kind in CODE:
        fields.error(
            "code",
            "type",
            f"is {kind!r}, and no code of a suite is run. Put the check into a program and name it as a "
            "`code-grader` in a suite of dialect agentv.",
        )
    elif kind in UNMEASURED or kind.startswith(_RED_TEAM):
        fields.error(
            "unsupported-type",
            "type",
            f"is {kind!r}, which nothing here measures. Remove it, or let a judge decide with `llm-rubric`.",
        )
    elif kind == SET and (negated or inside):
        where = "with `not-` before it" if negated else "inside another one"
        fields.error("unsupported-type", "type", f"is {SET!r} {where}, which is not known.")
    elif kind in _KINDS or kind == SET:
        return True
    else:
        known_kinds = (*_KINDS, SET)
        fields.error("unknown-type", "type", f"is {shown(kind)}. {suggestion(kind[:60], known_kinds)}")
    return False


def _warn_unread(fields: Fields, kind: str) -> None:
    """Reports the fields of an assertion that its type did not read."""
    for name in REFUSED:
        if name in fields:
            fields.take(name)
            fields.error("code", name, "is code, and no code of a suite is run. Remove it.")
    for name in ("threshold", "value", *UNUSED):
        if name in fields:
            fields.take(name)
            fields.warn("no-effect", name, f"has no effect here on {kind!r}.")
    fields.finish((*COMMON, *UNUSED))


def _read_set(reader: Asked, context: Context) -> Lowered:
    """Combines several assertions: all must pass, or their weighted mean must reach the threshold."""
    fields = reader.fields
    place = fields.place("assert")
    items: Any = fields.take("assert")
    if not isinstance(items, list) or not items:
        fields.missing("assert", "a list of assertions")
        items = []
    lines = getattr(items, "lines", [None] * len(items))
    members: list[dict[str, Any]] = []
    for number, item in enumerate(items):
        assertion = _read_assertion(
            item, f"{place}[{number}]", lines[number], fields.notes, context, inside=True
        )
        if assertion is not None:
            members.append(_member(assertion, number + 1))
    threshold = reader.share()
    if members and not threshold and not any(member["assertion"].get("weight", 1.0) for member in members):
        # Members of weight 0 pass in any case, and so does the set.
        for member in members:
            member["assertion"].pop("weight")
        return Lowered("composite", _composite(members, {"type": "threshold", "threshold": 1.0}), 0.0)
    if threshold is None:
        return Lowered("composite", _composite(members, {"type": "threshold", "threshold": 1.0}))
    return Lowered("composite", _composite(members, {"type": "weighted_average"}), threshold)


def _composite(members: list[dict[str, Any]], aggregator: dict[str, Any]) -> dict[str, Any]:
    return {"members": members, "aggregator": aggregator}


def _member(read_assertion: Assertion, number: int) -> dict[str, Any]:
    assertion: dict[str, Any] = {"grader": read_assertion.grader, "params": read_assertion.params}
    for name, usual in (("weight", 1.0), ("negated", False), ("pass_at", None)):
        value = getattr(read_assertion, name)
        if value != usual:
            assertion[name] = value
    return {"name": f"{number} {read_assertion.label}", "assertion": assertion}


_KINDS: Final[dict[str, Callable[[Asked], Lowered]]] = {
    "contains": kinds.one_text("contains"),
    "contains-all": kinds.texts("contains_all"),
    "contains-any": kinds.texts("contains_any"),
    "contains-json": kinds.contains_json,
    "cost": kinds.limit("cost", "budget_usd", "the most that an answer may cost, in US dollars"),
    "ends-with": kinds.one_text("ends_with", trim=False),
    "equals": kinds.equals,
    "factuality": kinds.question(kinds.FACTS),
    "g-eval": kinds.g_eval,
    "icontains": kinds.one_text("contains", ignore_case=True),
    "icontains-all": kinds.texts("contains_all", ignore_case=True),
    "icontains-any": kinds.texts("contains_any", ignore_case=True),
    "is-json": kinds.is_json,
    "is-refusal": kinds.refusal,
    "latency": kinds.limit("latency", "threshold_ms", "the most that an answer may take, in milliseconds"),
    "llm-rubric": kinds.llm_rubric,
    "model-graded-closedqa": kinds.question(kinds.CRITERION),
    "model-graded-factuality": kinds.question(kinds.FACTS),
    "numeric-equal": kinds.number("numeric_equal"),
    "numeric-match": kinds.number("numeric_match"),
    "regex": kinds.regex,
    "similar": kinds.similar,
    "similar:cosine": kinds.similar,
    "starts-with": kinds.one_text("starts_with", trim=False),
    "word-count": kinds.word_count,
}
TYPES: Final = (*_KINDS, SET)
