"""AgentV's `assertions` to assertions: a table with one line for each type, and what all types share.

Types are written with hyphens or underscores. Texts in the list become one rubric. Problems are noted with
the path of their field; nothing is dropped silently. Graders are known here by name only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from proctor.dialects.agentv.read import graders as graders
from proctor.dialects.agentv.read import v5_assertions as v5
from proctor.dialects.agentv.read.assertion_fields import GATE, NOT_NEGATIVE, AssertionFields, as_text
from proctor.dialects.agentv.read.composite import MEMBERS, composite
from proctor.dialects.agentv.read.graders import OLD_TYPES, Lowered
from proctor.dialects.agentv.read.includes import Item, flat
from proctor.dialects.agentv.read.rubrics import PASS_AT, of_items, text_item
from proctor.dialects.agentv.read.rubrics import lower_rubrics as lower_rubrics
from proctor.dialects.shared.js_regex import NoPattern, to_python, wrong_with
from proctor.errors import UsageError, suggestion
from proctor.model import Assertion
from proctor.protocols import Source
from proctor.validation import Notes, shown

DEFAULT: Final = Assertion(grader="llm_grader", pass_at=PASS_AT, label="llm-grader")
"""Grades a test that has no assertion."""
DEFAULT_GATE: Final = 0.8
"""The gate that `required: true` stands for."""

_COMMON: Final = ("type", "name", "weight", "required", "min_score", "negate")
_CRITERIA: Final = frozenset(("llm_grader", "rubrics", "program"))
_LONGEST_NAME_OF_PATTERN: Final = 30


def lower(items: Any, field: str, notes: Notes, source: Source) -> tuple[Assertion, ...]:
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
    for item in flat(items, field, notes, source):
        if isinstance(item.raw, str):
            first = first if texts else len(assertions)
            texts.append(_text(item, len(texts) + 1))
        else:
            assertions.append(_read_assertion(item.raw, item.place + ".", item.notes, item.source))
    if texts:
        assertions.insert(first, of_items(texts))
    return tuple(assertions)


def reads_criteria(assertions: Iterable[Assertion]) -> bool:
    """Whether any of the graders is given the `criteria` of its test."""
    return any(_reads(assertion.grader, assertion.params) for assertion in assertions)


def _reads(grader: str, params: dict[str, Any]) -> bool:
    if grader != "composite":
        return grader in _CRITERIA
    inside = [(member["assertion"]["grader"], member["assertion"]["params"]) for member in params["members"]]
    return params["aggregator"].get("type") in _CRITERIA or any(
        _reads(*inside_member) for inside_member in inside
    )


def _text(item: Item, number: int) -> dict[str, Any]:
    if not item.raw.strip():
        message = f"`{item.place}` is blank; write what the answer must do, or remove it."
        item.notes.error("empty-value", message, item.place, line=item.line)
    return text_item(number, item.raw)


# --- one assertion -----------------------------------------------------------------------------------------


_NAMES: Final = (("metric", "name"), ("id", "name"))
"""Other names of `name`, for types that pass no field on to a grader."""


class _Kind(NamedTuple):
    """How an assertion type is parsed into a grader and its parameters."""

    lower: Callable[[AssertionFields], Lowered]
    own: tuple[str, ...] = ()
    """The fields of this type, besides those that all types share."""
    unused: tuple[str, ...] = ()
    """Known fields that have no effect."""
    wrong: tuple[tuple[str, str], ...] = ()
    """Common misspellings of fields, each with the right name."""
    pass_at: float | None = None
    """The lowest score that passes, for graders that can give a fraction."""
    same: tuple[tuple[str, str], ...] = _NAMES
    """Other names of fields, each with the name that is used here."""

    @property
    def field_names(self) -> tuple[str, ...]:
        """All fields that the type may have."""
        return (*_COMMON, *self.own, *self.unused)


def _read_assertion(row: dict[str, Any], prefix: str, notes: Notes, source: Source) -> Assertion:
    type_name = row.get("type")
    plain = type_name.removeprefix(v5.PREFIX) if isinstance(type_name, str) else ""
    entry = _BY_SPELLING.get(plain) or _find_own_grader(row, prefix, notes, source)
    if entry is None:
        return Assertion(grader="")
    kind, names = entry
    fields = AssertionFields(row, notes, prefix, source, names)
    fields.take("type")
    for other, replacement in kind.same:
        if other in fields:
            fields.rename(other, replacement)
    if kind.same:
        v5.note_refused(fields)
    name = fields.named("name")
    weight = fields.limited("weight", NOT_NEGATIVE)
    required, least = _gate(fields)
    fields.negated = fields.truth("negate", False) or (plain != type_name and plain in _BY_SPELLING)
    for wrong, right in kind.wrong:
        fields.corrected(wrong, right)
    if kind.unused:
        fields.without_effect(kind.unused)
    grader, params, suffix = kind.lower(fields)
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


def _gate(fields: AssertionFields) -> tuple[float | None, float | None]:
    """Returns the gate and the lowest passing score, each None if it is not set."""
    least = fields.limited("min_score", GATE)
    least = None if least is None else float(least)
    if "required" not in fields:
        return None, least
    if isinstance(fields.peek("required"), bool):
        gate = DEFAULT_GATE if fields.take("required") else None
    elif isinstance(fields.peek("required"), int | float):
        gate = fields.limited("required", GATE)
    else:
        fields.wrong("required", fields.take("required"), "true, false, or a number above 0 and at most 1")
        gate = None
    if gate is None:
        return None, least
    return (float(gate) if least is None else least), least


def _find_own_grader(
    row: dict[str, Any], prefix: str, notes: Notes, source: Source
) -> tuple[_Kind, tuple[str, ...]] | None:
    """Returns the type of a custom grader, or None and an error if there is no such grader."""
    fields = AssertionFields(row, notes, prefix, source, ())
    type_name = fields.required_text("type")
    if not type_name:
        return None
    kebab = type_name.replace("_", "-")
    for name in dict.fromkeys((type_name, kebab, type_name.replace("-", "_"))):
        try:
            command = source.program(name) if name.replace("-", "").replace("_", "").isalnum() else None
        except UsageError as error:
            fields.error("unknown-type", "type", f"is {shown(type_name)}. {error}")
            return None
        if command is not None:
            kind = _Kind(_own_program(command), ("timeout_seconds", "config"), pass_at=PASS_AT, same=())
            return kind, kind.field_names
    if kebab.removeprefix(v5.PREFIX) in v5.REFUSED:
        instead = v5.REFUSED[kebab.removeprefix(v5.PREFIX)]
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
        f"is {shown(type_name)}, which is not known. {suggestion(type_name[:60], TYPES)} "
        "A grader of your own goes into a file such as "
        f"`.proctor/assertions/{repr(type_name[:60])[1:-1]}.py`.",
    )
    return None


def _own_program(command: Sequence[str]) -> Callable[[AssertionFields], Lowered]:
    def read(fields: AssertionFields) -> Lowered:
        params: dict[str, Any] = {"command": list(command)}
        graders.timed(fields, params)
        config = fields.config()
        return "program", params | {"config": config} if config else params, ""

    return read


# --- types that look at the text ---------------------------------------------------------------------------


def _value(fields: AssertionFields) -> str:
    """Returns the text in `value`; an empty or missing text is an error."""
    if "value" not in fields:
        fields.missing("value", "the text to look for")
        return ""
    value = fields.take("value")
    text = as_text(value)
    if text:
        return text
    if text is not None:
        fields.error("empty-value", "value", "is empty; write the text to look for.")
    elif isinstance(value, list):
        fields.wrong("value", value, "one text; for several use a type that ends in `-any` or `-all`")
    else:
        fields.wrong("value", value, "text")
    return ""


def _one_text(grader: str, *, trimmed: bool = False, **more: Any) -> Callable[[AssertionFields], Lowered]:
    def read(fields: AssertionFields) -> Lowered:
        value = _value(fields)
        if trimmed and value and not value.strip():
            fields.error("empty-value", "value", "is blank; write the text to look for.")
        return grader, {"value": value, **more}, value

    return read


def _texts(grader: str, **more: Any) -> Callable[[AssertionFields], Lowered]:
    def read(fields: AssertionFields) -> Lowered:
        values: list[str] = []
        for place, item in fields.rows("value", "a list of texts"):
            text = as_text(item)
            if text is None:
                fields.wrong(place, item, "text")
            elif not text:
                fields.error("empty-value", place, "is empty; write the text to look for.")
            values.append(text or "")
        return grader, {"values": values, **more}, str(len(values))

    return read


def _text_kind(read: Callable[[AssertionFields], Lowered]) -> _Kind:
    return _Kind(read, ("value",), unused=("flags",))


def _regex(fields: AssertionFields) -> Lowered:
    flags = fields.text("flags") or ""
    value = _value(fields)
    pattern, wrong = value, None
    try:
        pattern, flags = to_python(value, flags)
        wrong = wrong_with(pattern)
    except NoPattern as error:
        wrong = str(error)
    except ValueError as error:
        fields.error("bad-flag", "flags", f"{error}.")
        flags = ""
    if wrong is not None:
        fields.error("bad-regex", "value", f"is {shown(value)}, no regular expression: {wrong}. Correct it.")
    params = {"pattern": pattern, "flags": flags} if flags else {"pattern": pattern}
    return "regex", params, value[:_LONGEST_NAME_OF_PATTERN]


def _number(grader: str) -> Callable[[AssertionFields], Lowered]:
    def read(fields: AssertionFields) -> Lowered:
        value = _value(fields)
        tolerance = fields.limited("rel_tolerance", NOT_NEGATIVE)
        more = {} if tolerance is None else {"rel_tolerance": float(tolerance)}
        return grader, {"value": value, **more}, value

    return read


def _is_json(_fields: AssertionFields) -> Lowered:
    return "is_json", {"strip_fences": False}, ""


def _composite(fields: AssertionFields) -> Lowered:
    return composite(fields, _read_assertion)


def _assert_set(fields: AssertionFields) -> Lowered:
    return v5.assert_set(fields, lower)


_JUDGE: Final = ("target", "temperature")
_NO_JUDGE: Final = ("model", "max_steps", "preprocessors")
_PROGRAM: Final = ("command", "cwd", "timeout_seconds", "config")
_TOKEN_LIMITS: Final = tuple((f"max_{what}_tokens", f"max_{what}") for what in ("total", "input", "output"))
_RUBRICS: Final = _Kind(graders.rubrics, ("criteria", "rubrics", *_JUDGE), _NO_JUDGE, pass_at=PASS_AT)

_KINDS: Final[dict[str, _Kind]] = {
    "contains": _text_kind(_one_text("contains")),
    "contains-any": _text_kind(_texts("contains_any")),
    "contains-all": _text_kind(_texts("contains_all")),
    "icontains": _text_kind(_one_text("contains", ignore_case=True)),
    "icontains-any": _text_kind(_texts("contains_any", ignore_case=True)),
    "icontains-all": _text_kind(_texts("contains_all", ignore_case=True)),
    "starts-with": _text_kind(_one_text("starts_with", trimmed=True)),
    "ends-with": _text_kind(_one_text("ends_with", trimmed=True)),
    "equals": _text_kind(_one_text("exact", trimmed=True)),
    "regex": _Kind(_regex, ("value", "flags")),
    "numeric-match": _Kind(_number("numeric_match"), ("value", "rel_tolerance")),
    "numeric-equal": _Kind(_number("numeric_equal"), ("value", "rel_tolerance")),
    "is-json": _Kind(_is_json, unused=("value", "flags")),
    "llm-grader": _Kind(
        graders.llm_grader, ("prompt", "rubrics", "config", *_JUDGE), _NO_JUDGE, pass_at=PASS_AT, same=()
    ),
    "rubrics": _RUBRICS,
    "rubric": _RUBRICS,
    "code-grader": _Kind(
        graders.code_grader, (*_PROGRAM, "script", "target"), ("preprocessors",), pass_at=PASS_AT, same=()
    ),
    "composite": _Kind(_composite, (*MEMBERS, "aggregator"), pass_at=PASS_AT),
    "tool-trajectory": _Kind(
        graders.tool_trajectory,
        ("mode", "minimums", "expected", "args_match", "partial_credit"),
        pass_at=PASS_AT,
    ),
    "field-accuracy": _Kind(graders.field_accuracy, ("fields", "aggregation"), pass_at=PASS_AT),
    "latency": _Kind(graders.latency, ("threshold",), wrong=(("max_ms", "threshold"),)),
    "cost": _Kind(graders.cost, ("budget",), wrong=(("max_usd", "budget"),)),
    "token-usage": _Kind(graders.token_usage, graders.TOKENS, wrong=_TOKEN_LIMITS),
    "execution-metrics": _Kind(
        graders.execution_metrics, (*graders.METRICS, "exploration_tolerance"), pass_at=PASS_AT
    ),
    "skill-trigger": _Kind(graders.skill_trigger, ("skill", "should_trigger")),
}
_OF_VERSION_5: Final[dict[str, _Kind]] = {
    "llm-rubric": _Kind(
        v5.llm_rubric, ("value", "prompt", "config", "threshold", *_JUDGE), _NO_JUDGE, pass_at=PASS_AT
    ),
    "script": _Kind(v5.script, (*_PROGRAM, "target"), pass_at=PASS_AT),
    "assert-set": _Kind(
        _assert_set, ("assert", "config"), pass_at=1.0, same=(*_NAMES, ("threshold", "min_score"))
    ),
    "skill-used": _Kind(v5.skill_used, ("value",)),
    "trajectory:tool-used": _Kind(v5.tool_used, ("value",), pass_at=PASS_AT),
    "trajectory:tool-sequence": _Kind(v5.tool_sequence, ("value",), pass_at=PASS_AT),
    "trajectory:tool-args-match": _Kind(v5.tool_args_match, ("value",), pass_at=PASS_AT),
}
TYPES: Final = (*_KINDS, *_OF_VERSION_5)
_BY_SPELLING: Final = {
    type_name: (kind, kind.field_names)
    for name, kind in (_KINDS | _OF_VERSION_5).items()
    for type_name in (name, name.replace("-", "_"))
}
