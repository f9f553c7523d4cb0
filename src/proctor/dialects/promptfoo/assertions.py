"""promptfoo's assertions to assertions: a table with one line for each type, and what all types share.

`not-` before a type negates it. A type that runs code, calls a service or has no grader here is refused by
name. Graders are known here by name only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from proctor.dialects.promptfoo import assertion_types as kinds
from proctor.dialects.promptfoo.assertion_types import AssertionReader, GraderCall
from proctor.errors import suggestion
from proctor.model import Assertion
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, ProblemLog, json_type, quote_value

COMMON_FIELDS: Final = ("type", "value", "threshold", "weight", "metric")
UNUSED_FIELDS: Final = ("provider", "rubricPrompt", "config")
"""Known fields that have no effect here."""
CODE_FIELDS: Final = ("transform", "contextTransform")
"""Fields with code."""
CODE_TYPES: Final = ("javascript", "python", "ruby", "webhook")
UNMEASURED_TYPES: Final = (
    *("answer-relevance", "bleu", "classifier", "contains-html", "contains-sql", "contains-xml"),
    *("context-faithfulness", "context-recall", "context-relevance", "conversation-relevance"),
    *("finish-reason", "gleu", "guardrails", "is-html", "is-sql", "is-valid-function-call"),
    *("is-valid-openai-function-call", "is-valid-openai-tools-call", "is-xml", "levenshtein"),
    *("max-score", "meteor", "moderation", "perplexity", "perplexity-score", "pi", "rouge-n"),
    *("search-rubric", "select-best", "skill-used", "tool-call-f1", "trace-error-spans"),
    *("trace-span-count", "trace-span-duration", "trajectory:step-count", "trajectory:tool-args-match"),
    *("trajectory:tool-sequence", "trajectory:tool-used", "agent-rubric", "human"),
)
ASSERT_SET: Final = "assert-set"

_NEGATION_PREFIX: Final = "not-"
_TEMPLATE_PREFIX: Final = "#/assertionTemplates/"
_RED_TEAM_PREFIX: Final = "promptfoo:redteam:"


class AssertionContext(NamedTuple):
    """What the assertions of a test may refer to."""

    values: dict[str, Any]
    """The test's vars."""
    templates: dict[str, Any]
    """`assertionTemplates` of the configuration."""
    source: SuiteSource


def parse_assertions(items: Any, field: str, notes: ProblemLog, context: AssertionContext) -> list[Assertion]:
    """Parses a list of assertions; problems go to `notes`."""
    if items is None:
        return []
    if not isinstance(items, list):
        message = f"`{field}` is {quote_value(items)}, {json_type(items)}; it must be a list of assertions."
        notes.error("wrong-type", message, field)
        return []
    lines = getattr(items, "lines", [None] * len(items))
    assertions = (
        _parse_assertion(item, f"{field}[{place}]", lines[place], notes, context, inside=False)
        for place, item in enumerate(items)
    )
    return [assertion for assertion in assertions if assertion is not None]


def _parse_assertion(
    item: Any, field: str, line: int | None, notes: ProblemLog, context: AssertionContext, *, inside: bool
) -> Assertion | None:
    row = _resolve_row(item, field, line, notes, context)
    if row is None:
        return None
    fields = FieldReader(row, notes, field + ".")
    fields.drop_null(*fields.remaining_names())
    type_name = fields.required_text("type")
    negated = type_name.startswith(_NEGATION_PREFIX)
    kind = type_name.removeprefix(_NEGATION_PREFIX)
    if not type_name or not _check_type(kind, negated, fields, inside=inside):
        return None
    reader = AssertionReader(fields=fields, kind=kind, values=context.values, source=context.source)
    call = _parse_assert_set(reader, context) if kind == ASSERT_SET else _PARSERS[kind](reader)
    weight = fields.number("weight")
    if weight is not None and weight < 0:
        fields.error("bad-number", "weight", f"is {weight}; it must be 0 or more.")
    metric = reader.fill("metric", fields.text("metric") or "")
    _finish_fields(fields, kind)
    # A set of weight 0 adds nothing to the score, but can still fail its test.
    gate = 1.0 if call.pass_at is None else call.pass_at
    return Assertion(
        grader=call.grader,
        params=call.params,
        weight=1.0 if weight is None else float(weight),
        required=gate if kind == ASSERT_SET and weight == 0 else None,
        negated=negated,
        pass_at=call.pass_at,
        label=metric or type_name,
    )


def _resolve_row(
    item: Any, field: str, line: int | None, notes: ProblemLog, context: AssertionContext
) -> dict[str, Any] | None:
    """Returns an assertion as written, inline or under `assertionTemplates`."""
    reference = item.get("$ref") if isinstance(item, dict) else None
    if isinstance(reference, str):
        name = reference.removeprefix(_TEMPLATE_PREFIX)
        item = context.templates.get(name)
        if item is None:
            hint = suggestion(name[:60], tuple(context.templates))
            message = (
                f"`{field}` is {quote_value(reference)}, and `assertionTemplates` has no such name. {hint}"
            )
            notes.error("unknown-reference", message, field, line=line)
            return None
    if isinstance(item, dict):
        return item
    message = f"`{field}` is {quote_value(item)}, {json_type(item)}; it must be an object with `type`."
    notes.error("wrong-type", message, field, line=line)
    return None


def _check_type(kind: str, negated: bool, fields: FieldReader, *, inside: bool) -> bool:
    """Whether a type is supported; notes an error if it is not."""
    if kind in CODE_TYPES:
        fields.error(
            "code",
            "type",
            f"is {kind!r}, and no code of a suite is run. Put the check into a program and name it as a "
            "`code-grader` in a suite of dialect agentv.",
        )
    elif kind in UNMEASURED_TYPES or kind.startswith(_RED_TEAM_PREFIX):
        fields.error(
            "unsupported-type",
            "type",
            f"is {kind!r}, which nothing here measures. Remove it, or let a judge decide with `llm-rubric`.",
        )
    elif kind == ASSERT_SET and (negated or inside):
        where = "with `not-` before it" if negated else "inside another one"
        fields.error("unsupported-type", "type", f"is {ASSERT_SET!r} {where}, which is not known.")
    elif kind in _PARSERS or kind == ASSERT_SET:
        return True
    else:
        known_kinds = (*_PARSERS, ASSERT_SET)
        fields.error("unknown-type", "type", f"is {quote_value(kind)}. {suggestion(kind[:60], known_kinds)}")
    return False


def _finish_fields(fields: FieldReader, kind: str) -> None:
    """Reports the fields of an assertion that its type did not read."""
    for name in CODE_FIELDS:
        if name in fields:
            fields.pop(name)
            fields.error("code", name, "is code, and no code of a suite is run. Remove it.")
    for name in ("threshold", "value", *UNUSED_FIELDS):
        if name in fields:
            fields.pop(name)
            fields.warn("no-effect", name, f"has no effect here on {kind!r}.")
    fields.finish((*COMMON_FIELDS, *UNUSED_FIELDS))


def _parse_assert_set(reader: AssertionReader, context: AssertionContext) -> GraderCall:
    """Combines several assertions: all must pass, or their weighted mean must reach the threshold."""
    fields = reader.fields
    place = fields.path_to("assert")
    items: Any = fields.pop("assert")
    if not isinstance(items, list) or not items:
        fields.report_missing("assert", "a list of assertions")
        items = []
    lines = getattr(items, "lines", [None] * len(items))
    members: list[dict[str, Any]] = []
    for number, item in enumerate(items):
        assertion = _parse_assertion(
            item, f"{place}[{number}]", lines[number], fields.problem_log, context, inside=True
        )
        if assertion is not None:
            members.append(_make_member(assertion, number + 1))
    threshold = reader.share()
    all_pass: dict[str, Any] = {"type": "threshold", "threshold": 1.0}
    aggregator = all_pass if threshold is None else {"type": "weighted_average"}
    if members and not threshold and not any(member["assertion"].get("weight", 1.0) for member in members):
        # Members of weight 0 pass in any case, and so does the set.
        for member in members:
            member["assertion"].pop("weight")
        aggregator, threshold = all_pass, 0.0
    return GraderCall("composite", {"members": members, "aggregator": aggregator}, threshold)


def _make_member(read_assertion: Assertion, number: int) -> dict[str, Any]:
    assertion: dict[str, Any] = {"grader": read_assertion.grader, "params": read_assertion.params}
    for name, usual in (("weight", 1.0), ("negated", False), ("pass_at", None)):
        value = getattr(read_assertion, name)
        if value != usual:
            assertion[name] = value
    return {"name": f"{number} {read_assertion.label}", "assertion": assertion}


_PARSERS: Final[dict[str, Callable[[AssertionReader], GraderCall]]] = {
    "contains": kinds.single_text_parser("contains"),
    "contains-all": kinds.text_list_parser("contains_all"),
    "contains-any": kinds.text_list_parser("contains_any"),
    "contains-json": kinds.parse_contains_json,
    "cost": kinds.limit_parser("cost", "budget_usd", "the most that an answer may cost, in US dollars"),
    "ends-with": kinds.single_text_parser("ends_with", trim=False),
    "equals": kinds.parse_equals,
    "factuality": kinds.question_parser(kinds.FACTS_QUESTION),
    "g-eval": kinds.parse_g_eval,
    "icontains": kinds.single_text_parser("contains", ignore_case=True),
    "icontains-all": kinds.text_list_parser("contains_all", ignore_case=True),
    "icontains-any": kinds.text_list_parser("contains_any", ignore_case=True),
    "is-json": kinds.parse_is_json,
    "is-refusal": lambda _reader: GraderCall("refusal", {}),
    "latency": kinds.limit_parser(
        "latency", "threshold_ms", "the most that an answer may take, in milliseconds"
    ),
    "llm-rubric": kinds.parse_llm_rubric,
    "model-graded-closedqa": kinds.question_parser(kinds.CRITERION_QUESTION),
    "model-graded-factuality": kinds.question_parser(kinds.FACTS_QUESTION),
    "numeric-equal": kinds.number_parser("numeric_equal"),
    "numeric-match": kinds.number_parser("numeric_match"),
    "regex": kinds.parse_regex,
    "similar": kinds.parse_similar,
    "similar:cosine": kinds.parse_similar,
    "starts-with": kinds.single_text_parser("starts_with", trim=False),
    "word-count": kinds.parse_word_count,
}
TYPES: Final = (*_PARSERS, ASSERT_SET)
