"""promptfoo's assertions to assertions: a table with one line for each type, and what all types share.

`not-` before a type negates it. A type that runs code, calls a service or has no grader here is refused by
name. The documented meaning counts: texts are compared as they are, with white space at the ends, and
`icontains` ignores case. Graders are known here by name only.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import Struct

from proctor.dialects.promptfoo.files import FILE_SCHEME, read_value
from proctor.dialects.shared.js_regex import BadPattern, get_compile_error, to_python
from proctor.dialects.shared.yaml_files import refuse_fields
from proctor.errors import suggestion
from proctor.model import Assertion
from proctor.prompts.templates import BadTemplate, as_text, fill_template
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, NumberLimit, ProblemLog, quote_value
from proctor.yaml12 import YamlError, load, map_strings, to_plain

COMMON_FIELDS: Final = ("type", "value", "threshold", "weight", "metric")
UNUSED_FIELDS: Final = ("provider", "rubricPrompt", "config")
"""Known fields that have no effect here."""
_CODE_FIELDS: Final = dict.fromkeys(
    ("transform", "contextTransform"), ("code", "is code, and Proctor runs no code from a suite. Remove it.")
)
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

SHARE: Final[NumberLimit] = NumberLimit("from 0 to 1", minimum=0, maximum=1)
_NOT_NEGATIVE: Final[NumberLimit] = NumberLimit("0 or more", minimum=0)
_NEGATION_PREFIX: Final = "not-"
_TEMPLATE_PREFIX: Final = "#/assertionTemplates/"
_RED_TEAM_PREFIX: Final = "promptfoo:redteam:"
_RUBRIC_QUESTION: Final = "Does the answer do all that this rubric asks of it?\n\n"
_CRITERION_QUESTION: Final = "Does the answer meet this criterion in full?\n\n"
_FACTS_QUESTION: Final = (
    "Does the answer agree with this reference in every fact that both of them state? It may say less or "
    "more than the reference and use other words, but nothing in it may contradict the reference.\n\n"
)
_DEFAULT_SIMILARITY: Final = 0.75
_DEFAULT_G_EVAL_THRESHOLD: Final = 0.7
"""The lowest passing score of `g-eval`."""
_MAX_SCORE: Final = 10
"""The best score that a judge can give where a threshold applies."""


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
        notes.report_wrong_type(field, items, "a list of assertions")
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
    fields.drop_null()
    type_name = fields.required_text("type")
    negated = type_name.startswith(_NEGATION_PREFIX)
    kind = type_name.removeprefix(_NEGATION_PREFIX)
    if not type_name or not _check_type(kind, negated, fields, inside=inside):
        return None
    reader = AssertionReader(fields, context)
    call = _parse_assert_set(reader) if kind == ASSERT_SET else _PARSERS[kind](reader)
    weight = fields.limited_number("weight", _NOT_NEGATIVE)
    metric = reader.fill("metric", fields.text("metric") or "")
    _finish_fields(fields, kind)
    # A set of weight 0 adds nothing to the score, but can still fail its test.
    gate = 1.0 if call.pass_at is None else call.pass_at
    return Assertion(
        grader=call.grader,
        params=call.params,
        weight=1.0 if weight is None else weight,
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
                f"`{field}` is {quote_value(reference)}, which `assertionTemplates` does not define. {hint}"
            )
            notes.error("unknown-reference", message, field, line=line)
            return None
    if isinstance(item, dict):
        return item
    notes.report_wrong_type(field, item, "an object with `type`", line)
    return None


def _check_type(kind: str, negated: bool, fields: FieldReader, *, inside: bool) -> bool:
    """Whether a type is supported; notes an error if it is not."""
    if kind in CODE_TYPES:
        fields.error(
            "code",
            "type",
            f"is {kind!r}, and Proctor runs no code from a suite. Move the check into a program and run it "
            f"with a `code-grader` in a suite in the format agentv.",
        )
    elif kind in UNMEASURED_TYPES or kind.startswith(_RED_TEAM_PREFIX):
        fields.error(
            "unsupported-type",
            "type",
            f"is {kind!r}, which Proctor cannot measure. Remove it, or use a judge with `llm-rubric`.",
        )
    elif kind == ASSERT_SET and (negated or inside):
        where = "with `not-` before it" if negated else "inside another one"
        fields.error("unsupported-type", "type", f"is {ASSERT_SET!r} {where}, which is not supported.")
    elif kind in _PARSERS or kind == ASSERT_SET:
        return True
    else:
        known_kinds = (*_PARSERS, ASSERT_SET)
        fields.error("unknown-type", "type", f"is {quote_value(kind)}. {suggestion(kind[:60], known_kinds)}")
    return False


def _finish_fields(fields: FieldReader, kind: str) -> None:
    """Reports the fields of an assertion that its type did not read."""
    refuse_fields(fields, _CODE_FIELDS)
    for name in ("threshold", "value", *UNUSED_FIELDS):
        if name in fields:
            fields.pop(name)
            fields.warn("no-effect", name, f"has no effect here on {kind!r}.")
    fields.finish((*COMMON_FIELDS, *UNUSED_FIELDS))


class GraderCall(NamedTuple):
    """A grader, its parameters, and the lowest passing score if the grader does not set it."""

    grader: str
    params: dict[str, Any]
    pass_at: float | None = None


class AssertionReader(Struct, frozen=True):
    """Reads one assertion."""

    fields: FieldReader
    context: AssertionContext

    def fill(self, name: str, text: str) -> str:
        """Returns a text with its names filled in."""
        try:
            return fill_template(text, self.context.values)
        except BadTemplate as error:
            self.fields.error(error.code, name, str(error))
            return text

    def required_value(self, expected: str) -> Any:
        """Returns the required `value`, filled in and read from its file; None and an error without it."""
        value = self.optional_value()
        if value is None and not self.fields.problem_log.has_error_at(self.fields.path_to("value")):
            self.fields.report_missing("value", expected)
        return value

    def optional_value(self) -> Any:
        """Returns `value`, filled in and read from its file, or None."""
        fields = self.fields
        line = fields.line_for("value")
        value = map_strings(fields.pop("value"), lambda text, _name: self.fill("value", text))
        if isinstance(value, str) and value.startswith(FILE_SCHEME):
            source = self.context.source
            value = read_value(value, source, fields.problem_log, fields.path_to("value"), line)
        return to_plain(value)

    def text(self, expected: str = "the text to search for") -> str:
        """Returns `value` as a non-empty text."""
        value = self.required_value(expected)
        if isinstance(value, dict | list):
            self.fields.report_wrong_type("value", value, "text")
        elif value is not None and not as_text(value):
            self.fields.error("empty-value", "value", f"is empty; it must be {expected}.")
        elif value is not None:
            return as_text(value)
        return ""

    def texts(self, value: Any, advice: str) -> list[str]:
        """Returns the required `value` as texts: one, or those of a list. An empty one is an error."""
        texts = [as_text(item) for item in (value if isinstance(value, list) else [value])]
        if value is not None and not (texts and all(text.strip() for text in texts)):
            self.fields.error("empty-value", "value", f"is empty or contains an empty text; {advice}.")
        return texts

    def share(self) -> float | None:
        """Returns `threshold` as a number from 0 to 1, or None."""
        return self.fields.limited_number("threshold", SHARE, "bad-threshold")


# --- texts -------------------------------------------------------------------------------------------------


def _parse_text(reader: AssertionReader, grader: str, **more: Any) -> GraderCall:
    return GraderCall(grader, {"value": reader.text(), **more})


def _parse_texts(reader: AssertionReader, grader: str, **more: Any) -> GraderCall:
    """Parses a type that looks for several texts: a list, or a text with commas."""
    value = reader.required_value("a list of texts")
    if isinstance(value, str):
        cells = next(csv.reader([value.replace("\n", " ")], skipinitialspace=True), [])
        value = [cell.strip() for cell in cells]
    if value is not None and not isinstance(value, list):
        reader.fields.report_wrong_type("value", value, "a list of texts")
    items = [as_text(item) for item in value] if isinstance(value, list) else []
    if not all(items):
        reader.fields.error("empty-value", "value", "has an empty text; remove it.")
    elif value == []:
        reader.fields.error("empty-value", "value", "is empty; write at least one text.")
    return GraderCall(grader, {"values": items, **more})


def _parse_equals(reader: AssertionReader) -> GraderCall:
    """Parses `equals`: the text itself, or the same JSON."""
    value = reader.required_value("the expected answer")
    if isinstance(value, dict | list):
        return GraderCall("json_schema", {"schema": {"const": value}, "strip_fences": False})
    return GraderCall("exact", {"value": as_text(value), "trim": False})


def _parse_regex(reader: AssertionReader) -> GraderCall:
    """Parses `regex`: a pattern of JavaScript's."""
    regex_text = reader.text("a regular expression")
    try:
        pattern, _ = to_python(regex_text, "")
        wrong = get_compile_error(pattern)
    except BadPattern as error:
        pattern, wrong = regex_text, str(error)
    if wrong is not None:
        message = (
            f"is {quote_value(regex_text)}, which is not a valid regular expression: {wrong}. Correct it."
        )
        reader.fields.error("bad-pattern", "value", message)
    return GraderCall("regex", {"pattern": pattern})


def _parse_number(reader: AssertionReader, grader: str) -> GraderCall:
    """Parses a type that compares numbers; `threshold` is the relative tolerance."""
    value, threshold = reader.text("the expected answer, which must contain a number"), reader.share()
    return GraderCall(grader, {"value": value} | ({} if threshold is None else {"rel_tolerance": threshold}))


def _parse_word_count(reader: AssertionReader) -> GraderCall:
    """Parses `word-count`: a number, or an object with `min` and `max`."""
    expected = "words, or an object with `min` and `max`"
    value = reader.required_value(f"a number of {expected}")
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    limits = value if isinstance(value, dict) else {"min": value, "max": value}
    if value is None:
        return GraderCall("length", {})
    valid = all(type(limit) is int and limit >= 0 for limit in limits.values())
    if not limits or not limits.keys() <= {"min", "max"} or not valid:
        reader.fields.report_wrong_type("value", value, f"a whole number of {expected}")
    return GraderCall("length", {f"{name}_words": limit for name, limit in limits.items()})


# --- JSON --------------------------------------------------------------------------------------------------


def _parse_is_json(reader: AssertionReader) -> GraderCall:
    """Parses `is-json`: the whole answer is JSON, and matches the schema if there is one."""
    params = _parse_schema(reader, strip_fences=False)
    return GraderCall("json_schema" if "schema" in params else "is_json", params)


def _parse_contains_json(reader: AssertionReader) -> GraderCall:
    """Parses `contains-json`: the answer contains a JSON object, which matches the schema if there is one."""
    return GraderCall("contains_json", _parse_schema(reader))


def _parse_schema(reader: AssertionReader, **more: Any) -> dict[str, Any]:
    """Returns parameters, with those for the schema in `value` if there is one: an object, JSON or YAML."""
    schema = reader.optional_value()
    if isinstance(schema, str) and schema.strip():
        try:
            schema = to_plain(load(schema))
        except YamlError as error:
            reader.fields.error("bad-schema", "value", f"is no JSON schema: {error}")
            return more
    if schema is None or schema == "":
        return more
    if not isinstance(schema, dict | bool):
        reader.fields.report_wrong_type("value", schema, "a JSON schema")
    return {"schema": schema, **more, **({"formats": True} if _has_formats(schema) else {})}


def _has_formats(schema: Any) -> bool:
    """Whether a schema uses formats, which must be turned on."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    own = isinstance(schema, dict) and isinstance(schema.get("format"), str)
    return own or any(map(_has_formats, parts))


# --- figures -----------------------------------------------------------------------------------------------


def _parse_limit(reader: AssertionReader, grader: str, param: str, expected: str) -> GraderCall:
    """Parses a type whose `threshold` is a maximum."""
    fields = reader.fields
    if "threshold" not in fields:
        fields.report_missing("threshold", expected)
    threshold = fields.limited_number("threshold", _NOT_NEGATIVE, "bad-threshold")
    return GraderCall(grader, {param: threshold or 0.0})


# --- meaning -----------------------------------------------------------------------------------------------


def _parse_similar(reader: AssertionReader) -> GraderCall:
    """Parses `similar`: close enough in meaning to one of the texts."""
    value = reader.required_value("a text, or a list of texts")
    threshold = reader.share()
    if isinstance(value, dict):
        reader.fields.report_wrong_type("value", value, "text or a list of texts")
    references = reader.texts(value, "write the text that you mean")
    reference: Any = references if isinstance(value, list) else references[0]
    at = _DEFAULT_SIMILARITY if threshold is None else threshold
    return GraderCall("semantic_similarity", {"value": reference, "threshold": at})


def _parse_question(reader: AssertionReader, question: str) -> GraderCall:
    """Parses a type for which a judge decides yes or no, with the question before the value."""
    return GraderCall("llm_judge", {"prompt": question + reader.text("the criteria for the judge")})


def _parse_llm_rubric(reader: AssertionReader) -> GraderCall:
    """Parses `llm-rubric`: yes or no, or a score if there is a threshold."""
    threshold = reader.share()
    if threshold is None:
        return _parse_question(reader, _RUBRIC_QUESTION)
    return GraderCall("rubric", _rubric_params(reader.text("the rubric"), threshold))


def _parse_g_eval(reader: AssertionReader) -> GraderCall:
    """Parses `g-eval`: a score for one criterion, or the mean score for several."""
    share = reader.share()
    threshold = _DEFAULT_G_EVAL_THRESHOLD if share is None else share
    value = reader.required_value("a criterion, or a list of criteria")
    criteria = reader.texts(value, "write a criterion")
    checks = [{"grader": "rubric", "params": _rubric_params(text, threshold)} for text in criteria]
    if len(checks) == 1:
        return GraderCall("rubric", _rubric_params(criteria[0], threshold))
    members = [{"name": str(number), "assertion": check} for number, check in enumerate(checks, 1)]
    aggregator = {"type": "weighted_average"}
    return GraderCall("composite", {"members": members, "aggregator": aggregator}, threshold)


def _rubric_params(rubric: str, threshold: float) -> dict[str, Any]:
    """Returns the parameters of a rubric whose score must reach a share of the scale."""
    return {
        "rubric": rubric,
        "lowest": 0,
        "highest": _MAX_SCORE,
        "min_score": round(threshold * _MAX_SCORE, 9),
    }


# --- the types ----------------------------------------------------------------------------------------------


def _parse_assert_set(reader: AssertionReader) -> GraderCall:
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
            item, f"{place}[{number}]", lines[number], fields.problem_log, reader.context, inside=True
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
    "contains": partial(_parse_text, grader="contains"),
    "contains-all": partial(_parse_texts, grader="contains_all"),
    "contains-any": partial(_parse_texts, grader="contains_any"),
    "contains-json": _parse_contains_json,
    "cost": partial(
        _parse_limit,
        grader="cost",
        param="budget_usd",
        expected="the maximum cost of an answer, in US dollars",
    ),
    "ends-with": partial(_parse_text, grader="ends_with", trim=False),
    "equals": _parse_equals,
    "factuality": partial(_parse_question, question=_FACTS_QUESTION),
    "g-eval": _parse_g_eval,
    "icontains": partial(_parse_text, grader="contains", ignore_case=True),
    "icontains-all": partial(_parse_texts, grader="contains_all", ignore_case=True),
    "icontains-any": partial(_parse_texts, grader="contains_any", ignore_case=True),
    "is-json": _parse_is_json,
    "is-refusal": lambda _reader: GraderCall("refusal", {}),
    "latency": partial(
        _parse_limit,
        grader="latency",
        param="threshold_ms",
        expected="the maximum duration of an answer, in milliseconds",
    ),
    "llm-rubric": _parse_llm_rubric,
    "model-graded-closedqa": partial(_parse_question, question=_CRITERION_QUESTION),
    "model-graded-factuality": partial(_parse_question, question=_FACTS_QUESTION),
    "numeric-equal": partial(_parse_number, grader="numeric_equal"),
    "numeric-match": partial(_parse_number, grader="numeric_match"),
    "regex": _parse_regex,
    "similar": _parse_similar,
    "similar:cosine": _parse_similar,
    "starts-with": partial(_parse_text, grader="starts_with", trim=False),
    "word-count": _parse_word_count,
}
TYPES: Final = (*_PARSERS, ASSERT_SET)
ASSERTION_TYPES: Final = (*TYPES, *(f"not-{name}" for name in TYPES))
"""The types with their negations."""
