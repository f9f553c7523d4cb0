"""AgentV's `assertions` to assertions: a table with one line for each type, and what all types share.

Types are written with hyphens or underscores. Texts in the list become one rubric. Problems are noted with
the path of their field; nothing is dropped silently. Graders are known here by name only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from proctor.dialects.agentv.read import graders as graders
from proctor.dialects.agentv.read import v5_assertions as v5
from proctor.dialects.agentv.read.assertion_fields import GATE, NOT_NEGATIVE, AssertionFields, as_text
from proctor.dialects.agentv.read.composite import MEMBER_LIST_NAMES, parse_composite
from proctor.dialects.agentv.read.graders import OLD_TYPES, GraderSpec
from proctor.dialects.agentv.read.includes import expand_includes
from proctor.dialects.agentv.read.rubrics import DEFAULT_PASS_AT, make_rubrics_assertion, make_text_item
from proctor.dialects.agentv.read.rubrics import parse_test_rubrics as parse_test_rubrics
from proctor.dialects.shared.js_regex import BadPattern, get_compile_error, to_python
from proctor.errors import UsageError, suggestion
from proctor.model import Assertion
from proctor.protocols import SuiteSource
from proctor.validation import ProblemLog, quote_value

DEFAULT_ASSERTION: Final = Assertion(grader="llm_grader", pass_at=DEFAULT_PASS_AT, label="llm-grader")
"""Grades a test that has no assertion."""
DEFAULT_GATE: Final = 0.8
"""The gate that `required: true` stands for."""

_COMMON_FIELDS: Final = ("type", "name", "weight", "required", "min_score", "negate")
_CRITERIA_GRADERS: Final = frozenset(("llm_grader", "rubrics", "program"))
_MAX_PATTERN_NAME_LENGTH: Final = 30


def parse_assertions(items: Any, field: str, notes: ProblemLog, source: SuiteSource) -> tuple[Assertion, ...]:
    """Parses a list of assertions.

    Args:
        items: the list: objects, and texts that together make one rubric in place of the first.
        field: its name in messages.
        notes: takes the problems; nothing is raised.
        source: finds prompts, templates and custom graders.
    """
    assertions: list[Assertion] = []
    texts: list[dict[str, Any]] = []
    first = 0
    for item in expand_includes(items, field, notes, source):
        if isinstance(item.raw, str):
            if not item.raw.strip():
                message = f"`{item.place}` is blank; write what the answer must do, or remove it."
                item.notes.error("empty-value", message, item.place, line=item.line)
            if not texts:
                first = len(assertions)
            texts.append(make_text_item(len(texts) + 1, item.raw))
        else:
            assertions.append(_parse_assertion(item.raw, item.place + ".", item.notes, item.source))
    if texts:
        assertions.insert(first, make_rubrics_assertion(texts))
    return tuple(assertions)


def reads_criteria(assertions: Iterable[Assertion]) -> bool:
    """Whether any of the graders is given the `criteria` of its test."""
    return any(_grader_reads_criteria(assertion.grader, assertion.params) for assertion in assertions)


def _grader_reads_criteria(grader: str, params: dict[str, Any]) -> bool:
    if grader != "composite":
        return grader in _CRITERIA_GRADERS
    members = [member["assertion"] for member in params["members"]]
    return params["aggregator"].get("type") in _CRITERIA_GRADERS or any(
        _grader_reads_criteria(member["grader"], member["params"]) for member in members
    )


# --- one assertion -----------------------------------------------------------------------------------------


_NAME_ALIASES: Final = (("metric", "name"), ("id", "name"))
"""Other names of `name`, for types that pass no field on to a grader."""


class _AssertionType(NamedTuple):
    """How an assertion type is parsed into a grader and its parameters."""

    parse: Callable[[AssertionFields], GraderSpec]
    own_fields: tuple[str, ...] = ()
    """The fields of this type, besides those that all types share."""
    unused_fields: tuple[str, ...] = ()
    """Known fields that have no effect."""
    misspellings: tuple[tuple[str, str], ...] = ()
    """Common misspellings of fields, each with the right name."""
    pass_at: float | None = None
    """The lowest score that passes, for graders that can give a fraction."""
    aliases: tuple[tuple[str, str], ...] = _NAME_ALIASES
    """Other names of fields, each with the name that is used here."""

    @property
    def field_names(self) -> tuple[str, ...]:
        """All fields that the type may have."""
        return (*_COMMON_FIELDS, *self.own_fields, *self.unused_fields)


def _parse_assertion(row: dict[str, Any], prefix: str, notes: ProblemLog, source: SuiteSource) -> Assertion:
    type_name = row.get("type")
    plain = type_name.removeprefix(v5.NEGATION_PREFIX) if isinstance(type_name, str) else ""
    entry = _TYPES_BY_SPELLING.get(plain) or _find_own_grader(row, prefix, notes, source)
    if entry is None:
        return Assertion(grader="")
    kind, names = entry
    fields = AssertionFields(row, notes, prefix, source, names)
    fields.pop("type")
    for other, replacement in kind.aliases:
        if other in fields:
            fields.rename(other, replacement)
    if kind.aliases:
        v5.refuse_fields(fields)
    name = fields.non_blank_text("name")
    weight = fields.limited_number("weight", NOT_NEGATIVE)
    required, least = _parse_gate(fields)
    fields.negated = fields.boolean("negate", False) or (plain != type_name and plain in _TYPES_BY_SPELLING)
    for wrong, right in kind.misspellings:
        fields.correct_name(wrong, right)
    if kind.unused_fields:
        fields.ignore_fields(kind.unused_fields)
    grader, params, suffix = kind.parse(fields)
    fields.close()
    if least is None:
        # A composite with a threshold decides itself when it passes.
        own = grader == "composite" and params["aggregator"].get("type") == "threshold"
        least = None if own else kind.pass_at
    return Assertion(
        grader=grader,
        params=params,
        weight=1.0 if weight is None else float(weight),
        required=required,
        negated=fields.negated,
        pass_at=least,
        label=name or (f"{type_name}-{suffix}" if suffix else type_name),
    )


def _parse_gate(fields: AssertionFields) -> tuple[float | None, float | None]:
    """Returns the gate and the lowest passing score, each None if it is not set."""
    least = fields.limited_number("min_score", GATE)
    least = None if least is None else float(least)
    if "required" not in fields:
        return None, least
    if isinstance(fields.peek("required"), bool):
        gate = DEFAULT_GATE if fields.pop("required") else None
    elif isinstance(fields.peek("required"), int | float):
        gate = fields.limited_number("required", GATE)
    else:
        fields.report_wrong_type(
            "required", fields.pop("required"), "true, false, or a number above 0 and at most 1"
        )
        gate = None
    if gate is None:
        return None, least
    return (float(gate) if least is None else least), least


def _find_own_grader(
    row: dict[str, Any], prefix: str, notes: ProblemLog, source: SuiteSource
) -> tuple[_AssertionType, tuple[str, ...]] | None:
    """Returns the type of a custom grader, or None and an error if there is no such grader."""
    fields = AssertionFields(row, notes, prefix, source, ())
    type_name = fields.required_text("type")
    if not type_name:
        return None
    kebab = type_name.replace("_", "-")
    for name in dict.fromkeys((type_name, kebab, type_name.replace("-", "_"))):
        try:
            command = source.find_program(name) if name.replace("-", "").replace("_", "").isalnum() else None
        except UsageError as error:
            fields.error("unknown-type", "type", f"is {quote_value(type_name)}. {error}")
            return None
        if command is not None:
            parse, own_fields = _own_program_parser(command), ("timeout_seconds", "config")
            kind = _AssertionType(parse, own_fields, pass_at=DEFAULT_PASS_AT, aliases=())
            return kind, kind.field_names
    if kebab.removeprefix(v5.NEGATION_PREFIX) in v5.REFUSED_TYPES:
        instead = v5.REFUSED_TYPES[kebab.removeprefix(v5.NEGATION_PREFIX)]
        fields.error(
            "not-supported", "type", f"is {type_name!r}, a type of AgentV 5 that is not read. {instead}"
        )
        return None
    if kebab in OLD_TYPES:
        fields.error("old-type", "type", f"is {type_name!r}, an old word; write {OLD_TYPES[kebab]!r}.")
        return None
    fields.error(
        "unknown-type",
        "type",
        f"is {quote_value(type_name)}, which is not known. {suggestion(type_name[:60], TYPES)} "
        "A grader of your own goes into a file such as "
        f"`.proctor/assertions/{repr(type_name[:60])[1:-1]}.py`.",
    )
    return None


def _own_program_parser(command: Sequence[str]) -> Callable[[AssertionFields], GraderSpec]:
    def read(fields: AssertionFields) -> GraderSpec:
        params: dict[str, Any] = {"command": list(command)}
        graders.parse_timeout(fields, params)
        config = fields.config()
        return "program", params | {"config": config} if config else params, ""

    return read


# --- types that look at the text ---------------------------------------------------------------------------


def _parse_value(fields: AssertionFields) -> str:
    """Returns the text in `value`; an empty or missing text is an error."""
    if "value" not in fields:
        fields.report_missing("value", "the text to look for")
        return ""
    value = fields.pop("value")
    text = as_text(value)
    if text:
        return text
    if text is not None:
        fields.error("empty-value", "value", "is empty; write the text to look for.")
    elif isinstance(value, list):
        fields.report_wrong_type(
            "value", value, "one text; for several use a type that ends in `-any` or `-all`"
        )
    else:
        fields.report_wrong_type("value", value, "text")
    return ""


def _single_text_parser(
    grader: str, *, trimmed: bool = False, **more: Any
) -> Callable[[AssertionFields], GraderSpec]:
    def read(fields: AssertionFields) -> GraderSpec:
        value = _parse_value(fields)
        if trimmed and value and not value.strip():
            fields.error("empty-value", "value", "is blank; write the text to look for.")
        return grader, {"value": value, **more}, value

    return read


def _text_list_parser(grader: str, **more: Any) -> Callable[[AssertionFields], GraderSpec]:
    def read(fields: AssertionFields) -> GraderSpec:
        values: list[str] = []
        for place, item in fields.rows("value", "a list of texts"):
            text = as_text(item)
            if text is None:
                fields.report_wrong_type(place, item, "text")
            elif not text:
                fields.error("empty-value", place, "is empty; write the text to look for.")
            values.append(text or "")
        return grader, {"values": values, **more}, str(len(values))

    return read


def _text_type(read: Callable[[AssertionFields], GraderSpec]) -> _AssertionType:
    return _AssertionType(read, ("value",), unused_fields=("flags",))


def _parse_regex(fields: AssertionFields) -> GraderSpec:
    flags = fields.text("flags") or ""
    value = _parse_value(fields)
    pattern, wrong = value, None
    try:
        pattern, flags = to_python(value, flags)
        wrong = get_compile_error(pattern)
    except BadPattern as error:
        wrong = str(error)
    except ValueError as error:
        fields.error("bad-flag", "flags", f"{error}.")
        flags = ""
    if wrong is not None:
        fields.error(
            "bad-regex", "value", f"is {quote_value(value)}, no regular expression: {wrong}. Correct it."
        )
    params = {"pattern": pattern, "flags": flags} if flags else {"pattern": pattern}
    return "regex", params, value[:_MAX_PATTERN_NAME_LENGTH]


def _number_parser(grader: str) -> Callable[[AssertionFields], GraderSpec]:
    def read(fields: AssertionFields) -> GraderSpec:
        value = _parse_value(fields)
        tolerance = fields.limited_number("rel_tolerance", NOT_NEGATIVE)
        more = {} if tolerance is None else {"rel_tolerance": float(tolerance)}
        return grader, {"value": value, **more}, value

    return read


_JUDGE_FIELDS: Final = ("target", "temperature")
_UNUSED_JUDGE_FIELDS: Final = ("model", "max_steps", "preprocessors")
_PROGRAM_FIELDS: Final = ("command", "cwd", "timeout_seconds", "config")
_RUBRICS_TYPE: Final = _AssertionType(
    graders.parse_rubrics,
    ("criteria", "rubrics", *_JUDGE_FIELDS),
    _UNUSED_JUDGE_FIELDS,
    pass_at=DEFAULT_PASS_AT,
)

_VERSION_4_TYPES: Final[dict[str, _AssertionType]] = {
    "contains": _text_type(_single_text_parser("contains")),
    "contains-any": _text_type(_text_list_parser("contains_any")),
    "contains-all": _text_type(_text_list_parser("contains_all")),
    "icontains": _text_type(_single_text_parser("contains", ignore_case=True)),
    "icontains-any": _text_type(_text_list_parser("contains_any", ignore_case=True)),
    "icontains-all": _text_type(_text_list_parser("contains_all", ignore_case=True)),
    "starts-with": _text_type(_single_text_parser("starts_with", trimmed=True)),
    "ends-with": _text_type(_single_text_parser("ends_with", trimmed=True)),
    "equals": _text_type(_single_text_parser("exact", trimmed=True)),
    "regex": _AssertionType(_parse_regex, ("value", "flags")),
    "numeric-match": _AssertionType(_number_parser("numeric_match"), ("value", "rel_tolerance")),
    "numeric-equal": _AssertionType(_number_parser("numeric_equal"), ("value", "rel_tolerance")),
    "is-json": _AssertionType(
        lambda _fields: ("is_json", {"strip_fences": False}, ""), unused_fields=("value", "flags")
    ),
    "llm-grader": _AssertionType(
        graders.parse_llm_grader,
        ("prompt", "rubrics", "config", *_JUDGE_FIELDS),
        _UNUSED_JUDGE_FIELDS,
        pass_at=DEFAULT_PASS_AT,
        aliases=(),
    ),
    "rubrics": _RUBRICS_TYPE,
    "rubric": _RUBRICS_TYPE,
    "code-grader": _AssertionType(
        graders.parse_code_grader,
        (*_PROGRAM_FIELDS, "script", "target"),
        ("preprocessors",),
        pass_at=DEFAULT_PASS_AT,
        aliases=(),
    ),
    "composite": _AssertionType(
        partial(parse_composite, lower_one=_parse_assertion),
        (*MEMBER_LIST_NAMES, "aggregator"),
        pass_at=DEFAULT_PASS_AT,
    ),
    "tool-trajectory": _AssertionType(
        graders.parse_tool_trajectory,
        ("mode", "minimums", "expected", "args_match", "partial_credit"),
        pass_at=DEFAULT_PASS_AT,
    ),
    "field-accuracy": _AssertionType(
        graders.parse_field_accuracy, ("fields", "aggregation"), pass_at=DEFAULT_PASS_AT
    ),
    "latency": _AssertionType(graders.parse_latency, ("threshold",), misspellings=(("max_ms", "threshold"),)),
    "cost": _AssertionType(graders.parse_cost, ("budget",), misspellings=(("max_usd", "budget"),)),
    "token-usage": _AssertionType(
        graders.parse_token_usage,
        graders.TOKEN_LIMITS,
        misspellings=tuple((f"{limit}_tokens", limit) for limit in graders.TOKEN_LIMITS),
    ),
    "execution-metrics": _AssertionType(
        graders.parse_execution_metrics,
        (*graders.METRIC_LIMITS, "exploration_tolerance"),
        pass_at=DEFAULT_PASS_AT,
    ),
    "skill-trigger": _AssertionType(graders.parse_skill_trigger, ("skill", "should_trigger")),
}
_VERSION_5_TYPES: Final[dict[str, _AssertionType]] = {
    "llm-rubric": _AssertionType(
        v5.parse_llm_rubric,
        ("value", "prompt", "config", "threshold", *_JUDGE_FIELDS),
        _UNUSED_JUDGE_FIELDS,
        pass_at=DEFAULT_PASS_AT,
    ),
    "script": _AssertionType(v5.parse_script, (*_PROGRAM_FIELDS, "target"), pass_at=DEFAULT_PASS_AT),
    "assert-set": _AssertionType(
        partial(v5.parse_assert_set, lower=parse_assertions),
        ("assert", "config"),
        pass_at=1.0,
        aliases=(*_NAME_ALIASES, ("threshold", "min_score")),
    ),
    "skill-used": _AssertionType(v5.parse_skill_used, ("value",)),
    "trajectory:tool-used": _AssertionType(v5.parse_tool_used, ("value",), pass_at=DEFAULT_PASS_AT),
    "trajectory:tool-sequence": _AssertionType(v5.parse_tool_sequence, ("value",), pass_at=DEFAULT_PASS_AT),
    "trajectory:tool-args-match": _AssertionType(
        v5.parse_tool_args_match, ("value",), pass_at=DEFAULT_PASS_AT
    ),
}
TYPES: Final = (*_VERSION_4_TYPES, *_VERSION_5_TYPES)
_TYPES_BY_SPELLING: Final = {
    type_name: (kind, kind.field_names)
    for name, kind in (_VERSION_4_TYPES | _VERSION_5_TYPES).items()
    for type_name in (name, name.replace("-", "_"))
}
