"""Each type of promptfoo's assertions, as a grader and its parameters.

The documented meaning counts: texts are compared as they are, with white space at the ends, and `icontains`
ignores case. The questions to judges are here, too.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct

from proctor.dialects.promptfoo.files import SCHEME, value_of
from proctor.dialects.promptfoo.templates import BadTemplate, as_text, filled
from proctor.dialects.shared.js_regex import NoPattern, to_python, wrong_with
from proctor.protocols import Source
from proctor.validation import Fields, shown
from proctor.yaml12 import plain, rewritten

RUBRIC: Final = "Does the answer do all that this rubric asks of it?\n\n"
CRITERION: Final = "Does the answer meet this criterion in full?\n\n"
FACTS: Final = (
    "Does the answer agree with this reference in every fact that both of them state? It may say less or "
    "more than the reference and use other words, but nothing in it may contradict the reference.\n\n"
)
SIMILAR_AT: Final = 0.75
GOOD_AT: Final = 0.7
"""The lowest passing score of `g-eval`."""
_SCALE: Final = 10
"""The best score that a judge can give where a threshold applies."""


class Lowered(NamedTuple):
    """A grader, its parameters, and the lowest passing score if the grader does not set it."""

    grader: str
    params: dict[str, Any]
    pass_at: float | None = None


class Asked(Struct, frozen=True, kw_only=True):
    """Reads one assertion."""

    fields: Fields
    kind: str
    values: Mapping[str, Any]
    source: Source

    def filled(self, name: str, text: str) -> str:
        """Returns a text with its names filled in."""
        try:
            return filled(text, self.values)
        except BadTemplate as error:
            self.fields.error(error.code, name, str(error))
            return text

    def value(self, expected: str) -> Any:
        """Returns the required `value`, filled in and read from its file; None and an error without it."""
        value = self.optional()
        if value is None and not self.fields.notes.noted(self.fields.place("value")):
            self.fields.missing("value", expected)
        return value

    def optional(self) -> Any:
        """Returns `value`, filled in and read from its file, or None."""
        fields = self.fields
        line = fields.line_of("value")
        value = rewritten(fields.take("value"), lambda text, _name: self.filled("value", text))
        if isinstance(value, str) and value.startswith(SCHEME):
            value = value_of(value, self.source, fields.notes, fields.place("value"), line)
        return plain(value)

    def text(self, expected: str = "the text to look for") -> str:
        """Returns `value` as a non-empty text."""
        value = self.value(expected)
        if isinstance(value, dict | list):
            self.fields.wrong("value", value, "text")
        elif value is not None and not as_text(value):
            self.fields.error("empty-value", "value", f"is empty; it must be {expected}.")
        elif value is not None:
            return as_text(value)
        return ""

    def share(self) -> float | None:
        """Returns `threshold` as a number from 0 to 1, or None."""
        threshold = self.fields.number("threshold")
        if threshold is not None and not 0 <= threshold <= 1:
            self.fields.error("bad-threshold", "threshold", f"is {threshold}; it must be from 0 to 1.")
        return None if threshold is None else float(threshold)


# --- texts -------------------------------------------------------------------------------------------------


def one_text(grader: str, **more: Any) -> Callable[[Asked], Lowered]:
    """Returns a parser for a type that looks for one text."""
    return lambda reader: Lowered(grader, {"value": reader.text(), **more})


def texts(grader: str, **more: Any) -> Callable[[Asked], Lowered]:
    """Returns a parser for a type that looks for several texts: a list, or a text with commas."""

    def to_call(reader: Asked) -> Lowered:
        value = reader.value("a list of texts")
        if isinstance(value, str):
            cells = next(csv.reader([value.replace("\n", " ")], skipinitialspace=True), [])
            value = [cell.strip() for cell in cells]
        if value is not None and not isinstance(value, list):
            reader.fields.wrong("value", value, "a list of texts")
        items = [as_text(item) for item in value] if isinstance(value, list) else []
        if isinstance(value, list) and not all(items):
            reader.fields.error("empty-value", "value", "has an empty text; remove it.")
        elif value == []:
            reader.fields.error("empty-value", "value", "is empty; give at least one text.")
        return Lowered(grader, {"values": items, **more})

    return to_call


def equals(reader: Asked) -> Lowered:
    """Parses `equals`: the text itself, or the same JSON."""
    value = reader.value("what the answer must be")
    if isinstance(value, dict | list):
        return Lowered("json_schema", {"schema": {"const": value}, "strip_fences": False})
    return Lowered("exact", {"value": as_text(value), "trim": False})


def regex(reader: Asked) -> Lowered:
    """Parses `regex`: a pattern of JavaScript's."""
    regex_text = reader.text("a regular expression")
    try:
        pattern, _ = to_python(regex_text, "")
        wrong = wrong_with(pattern)
    except NoPattern as error:
        pattern, wrong = regex_text, str(error)
    if wrong is not None:
        reader.fields.error(
            "bad-pattern", "value", f"is {shown(regex_text)}, no regular expression: {wrong}. Correct it."
        )
    return Lowered("regex", {"pattern": pattern})


def number(grader: str) -> Callable[[Asked], Lowered]:
    """Returns a parser for a type that compares numbers; `threshold` is the relative tolerance."""

    def to_call(reader: Asked) -> Lowered:
        value = reader.text("the right answer, which has a number")
        threshold = reader.share()
        return Lowered(grader, {"value": value} | ({} if threshold is None else {"rel_tolerance": threshold}))

    return to_call


def word_count(reader: Asked) -> Lowered:
    """Parses `word-count`: a number, or an object with `min` and `max`."""
    value = reader.value("a number of words, or an object with `min` and `max`")
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    limits = value if isinstance(value, dict) else {"min": value, "max": value}
    unknown = [name for name in limits if name not in ("min", "max")]
    if value is None:
        return Lowered("length", {})
    if unknown or not limits or not all(type(limit) is int and limit >= 0 for limit in limits.values()):
        reader.fields.wrong("value", value, "a whole number of words, or an object with `min` and `max`")
    return Lowered("length", {f"{name}_words": limit for name, limit in limits.items()})


def refusal(_reader: Asked) -> Lowered:
    """Parses `is-refusal`: the answer declines."""
    return Lowered("refusal", {})


# --- JSON --------------------------------------------------------------------------------------------------


def is_json(reader: Asked) -> Lowered:
    """Parses `is-json`: the whole answer is JSON, and matches the schema if there is one."""
    schema = _schema(reader)
    if schema is None:
        return Lowered("is_json", {"strip_fences": False})
    return Lowered("json_schema", {"schema": schema, "strip_fences": False, **_formats(schema)})


def contains_json(reader: Asked) -> Lowered:
    """Parses `contains-json`: the answer contains a JSON object, which matches the schema if there is one."""
    schema = _schema(reader)
    return Lowered("contains_json", {} if schema is None else {"schema": schema, **_formats(schema)})


def _formats(schema: Any) -> dict[str, Any]:
    """Returns the parameter that turns on format checks, if a schema uses formats."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    own = isinstance(schema, dict) and isinstance(schema.get("format"), str)
    return {"formats": True} if own or any(map(_formats, parts)) else {}


def _schema(reader: Asked) -> Any:
    """Returns the schema in `value`: an object, or JSON or YAML text; None if there is none."""
    from proctor.yaml12 import BadYaml, load

    schema = reader.optional()
    if isinstance(schema, str) and schema.strip():
        try:
            schema = plain(load(schema))
        except BadYaml as error:
            reader.fields.error("bad-schema", "value", f"is no JSON schema: {error}")
            return None
    if schema is None or schema == "":
        return None
    if not isinstance(schema, dict | bool):
        reader.fields.wrong("value", schema, "a JSON schema")
    return schema


# --- figures -----------------------------------------------------------------------------------------------


def limit(grader: str, param: str, expected: str) -> Callable[[Asked], Lowered]:
    """Returns a parser for a type whose `threshold` is a maximum."""

    def to_call(reader: Asked) -> Lowered:
        fields = reader.fields
        if "threshold" not in fields:
            fields.missing("threshold", expected)
        threshold = fields.number("threshold") or 0
        if threshold < 0:
            fields.error("bad-threshold", "threshold", f"is {threshold}; it must be 0 or more.")
        return Lowered(grader, {param: float(threshold)})

    return to_call


# --- meaning -----------------------------------------------------------------------------------------------


def similar(reader: Asked) -> Lowered:
    """Parses `similar`: close enough in meaning to one of the texts."""
    value = reader.value("a text, or a list of texts")
    threshold = reader.share()
    references = [as_text(item) for item in value] if isinstance(value, list) else [as_text(value)]
    if isinstance(value, dict):
        reader.fields.wrong("value", value, "text or a list of texts")
    elif value is not None and not (references and all(text.strip() for text in references)):
        reader.fields.error("empty-value", "value", "is empty, or has an empty text; write what is meant.")
    reference: Any = references if isinstance(value, list) else references[0]
    at = SIMILAR_AT if threshold is None else threshold
    return Lowered("semantic_similarity", {"value": reference, "threshold": at})


def question(before: str) -> Callable[[Asked], Lowered]:
    """Returns a parser for a type that asks a judge for yes or no, with this text before the value."""

    def to_call(reader: Asked) -> Lowered:
        value = reader.text("what the judge goes by")
        return Lowered("llm_judge", {"prompt": before + value})

    return to_call


def llm_rubric(reader: Asked) -> Lowered:
    """Parses `llm-rubric`: yes or no, or a score if there is a threshold."""
    threshold = reader.share()
    if threshold is None:
        return question(RUBRIC)(reader)
    return Lowered("rubric", _scored(reader.text("the rubric"), threshold))


def g_eval(reader: Asked) -> Lowered:
    """Parses `g-eval`: a score for one criterion, or the mean score for several."""
    share = reader.share()
    threshold = GOOD_AT if share is None else share
    value = reader.value("a criterion, or a list of criteria")
    criteria = [as_text(item) for item in value] if isinstance(value, list) else [as_text(value)]
    if value is not None and not (criteria and all(text.strip() for text in criteria)):
        reader.fields.error("empty-value", "value", "is empty, or has an empty text; write a criterion.")
    if len(criteria) == 1:
        return Lowered("rubric", _scored(criteria[0], threshold))
    members = [
        {"name": str(number), "assertion": {"grader": "rubric", "params": _scored(criterion, threshold)}}
        for number, criterion in enumerate(criteria, 1)
    ]
    return Lowered("composite", {"members": members, "aggregator": {"type": "weighted_average"}}, threshold)


def _scored(rubric: str, threshold: float) -> dict[str, Any]:
    """Returns the parameters of a rubric whose score must reach a share of the scale."""
    return {"rubric": rubric, "lowest": 0, "highest": _SCALE, "min_score": round(threshold * _SCALE, 9)}
