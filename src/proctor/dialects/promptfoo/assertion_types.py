"""Each type of promptfoo's assertions, as a grader and its parameters.

The documented meaning counts: texts are compared as they are, with white space at the ends, and `icontains`
ignores case. The questions to judges are here, too.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct

from proctor.dialects.promptfoo.files import FILE_SCHEME, read_value
from proctor.dialects.promptfoo.templates import BadTemplate, as_text, fill_template
from proctor.dialects.shared.js_regex import BadPattern, get_compile_error, to_python
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, quote_value
from proctor.yaml12 import YamlError, load, map_strings, to_plain

RUBRIC_QUESTION: Final = "Does the answer do all that this rubric asks of it?\n\n"
CRITERION_QUESTION: Final = "Does the answer meet this criterion in full?\n\n"
FACTS_QUESTION: Final = (
    "Does the answer agree with this reference in every fact that both of them state? It may say less or "
    "more than the reference and use other words, but nothing in it may contradict the reference.\n\n"
)
DEFAULT_SIMILARITY: Final = 0.75
DEFAULT_G_EVAL_THRESHOLD: Final = 0.7
"""The lowest passing score of `g-eval`."""
_MAX_SCORE: Final = 10
"""The best score that a judge can give where a threshold applies."""


class GraderCall(NamedTuple):
    """A grader, its parameters, and the lowest passing score if the grader does not set it."""

    grader: str
    params: dict[str, Any]
    pass_at: float | None = None


class AssertionReader(Struct, frozen=True, kw_only=True):
    """Reads one assertion."""

    fields: FieldReader
    kind: str
    values: Mapping[str, Any]
    source: SuiteSource

    def fill(self, name: str, text: str) -> str:
        """Returns a text with its names filled in."""
        try:
            return fill_template(text, self.values)
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
            value = read_value(value, self.source, fields.problem_log, fields.path_to("value"), line)
        return to_plain(value)

    def text(self, expected: str = "the text to look for") -> str:
        """Returns `value` as a non-empty text."""
        value = self.required_value(expected)
        if isinstance(value, dict | list):
            self.fields.report_wrong_type("value", value, "text")
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


def single_text_parser(grader: str, **more: Any) -> Callable[[AssertionReader], GraderCall]:
    """Returns a parser for a type that looks for one text."""
    return lambda reader: GraderCall(grader, {"value": reader.text(), **more})


def text_list_parser(grader: str, **more: Any) -> Callable[[AssertionReader], GraderCall]:
    """Returns a parser for a type that looks for several texts: a list, or a text with commas."""

    def to_call(reader: AssertionReader) -> GraderCall:
        value = reader.required_value("a list of texts")
        if isinstance(value, str):
            cells = next(csv.reader([value.replace("\n", " ")], skipinitialspace=True), [])
            value = [cell.strip() for cell in cells]
        if value is not None and not isinstance(value, list):
            reader.fields.report_wrong_type("value", value, "a list of texts")
        items = [as_text(item) for item in value] if isinstance(value, list) else []
        if isinstance(value, list) and not all(items):
            reader.fields.error("empty-value", "value", "has an empty text; remove it.")
        elif value == []:
            reader.fields.error("empty-value", "value", "is empty; give at least one text.")
        return GraderCall(grader, {"values": items, **more})

    return to_call


def parse_equals(reader: AssertionReader) -> GraderCall:
    """Parses `equals`: the text itself, or the same JSON."""
    value = reader.required_value("what the answer must be")
    if isinstance(value, dict | list):
        return GraderCall("json_schema", {"schema": {"const": value}, "strip_fences": False})
    return GraderCall("exact", {"value": as_text(value), "trim": False})


def parse_regex(reader: AssertionReader) -> GraderCall:
    """Parses `regex`: a pattern of JavaScript's."""
    regex_text = reader.text("a regular expression")
    try:
        pattern, _ = to_python(regex_text, "")
        wrong = get_compile_error(pattern)
    except BadPattern as error:
        pattern, wrong = regex_text, str(error)
    if wrong is not None:
        reader.fields.error(
            "bad-pattern",
            "value",
            f"is {quote_value(regex_text)}, no regular expression: {wrong}. Correct it.",
        )
    return GraderCall("regex", {"pattern": pattern})


def number_parser(grader: str) -> Callable[[AssertionReader], GraderCall]:
    """Returns a parser for a type that compares numbers; `threshold` is the relative tolerance."""

    def to_call(reader: AssertionReader) -> GraderCall:
        value = reader.text("the right answer, which has a number")
        threshold = reader.share()
        return GraderCall(
            grader, {"value": value} | ({} if threshold is None else {"rel_tolerance": threshold})
        )

    return to_call


def parse_word_count(reader: AssertionReader) -> GraderCall:
    """Parses `word-count`: a number, or an object with `min` and `max`."""
    value = reader.required_value("a number of words, or an object with `min` and `max`")
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    limits = value if isinstance(value, dict) else {"min": value, "max": value}
    unknown = [name for name in limits if name not in ("min", "max")]
    if value is None:
        return GraderCall("length", {})
    if unknown or not limits or not all(type(limit) is int and limit >= 0 for limit in limits.values()):
        reader.fields.report_wrong_type(
            "value", value, "a whole number of words, or an object with `min` and `max`"
        )
    return GraderCall("length", {f"{name}_words": limit for name, limit in limits.items()})


# --- JSON --------------------------------------------------------------------------------------------------


def parse_is_json(reader: AssertionReader) -> GraderCall:
    """Parses `is-json`: the whole answer is JSON, and matches the schema if there is one."""
    schema = _parse_schema(reader)
    if schema is None:
        return GraderCall("is_json", {"strip_fences": False})
    return GraderCall("json_schema", {"schema": schema, "strip_fences": False, **_format_params(schema)})


def parse_contains_json(reader: AssertionReader) -> GraderCall:
    """Parses `contains-json`: the answer contains a JSON object, which matches the schema if there is one."""
    schema = _parse_schema(reader)
    return GraderCall("contains_json", {} if schema is None else {"schema": schema, **_format_params(schema)})


def _format_params(schema: Any) -> dict[str, Any]:
    """Returns the parameter that turns on format checks, if a schema uses formats."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    own = isinstance(schema, dict) and isinstance(schema.get("format"), str)
    return {"formats": True} if own or any(map(_format_params, parts)) else {}


def _parse_schema(reader: AssertionReader) -> Any:
    """Returns the schema in `value`: an object, or JSON or YAML text; None if there is none."""
    schema = reader.optional_value()
    if isinstance(schema, str) and schema.strip():
        try:
            schema = to_plain(load(schema))
        except YamlError as error:
            reader.fields.error("bad-schema", "value", f"is no JSON schema: {error}")
            return None
    if schema is None or schema == "":
        return None
    if not isinstance(schema, dict | bool):
        reader.fields.report_wrong_type("value", schema, "a JSON schema")
    return schema


# --- figures -----------------------------------------------------------------------------------------------


def limit_parser(grader: str, param: str, expected: str) -> Callable[[AssertionReader], GraderCall]:
    """Returns a parser for a type whose `threshold` is a maximum."""

    def to_call(reader: AssertionReader) -> GraderCall:
        fields = reader.fields
        if "threshold" not in fields:
            fields.report_missing("threshold", expected)
        threshold = fields.number("threshold") or 0
        if threshold < 0:
            fields.error("bad-threshold", "threshold", f"is {threshold}; it must be 0 or more.")
        return GraderCall(grader, {param: float(threshold)})

    return to_call


# --- meaning -----------------------------------------------------------------------------------------------


def parse_similar(reader: AssertionReader) -> GraderCall:
    """Parses `similar`: close enough in meaning to one of the texts."""
    value = reader.required_value("a text, or a list of texts")
    threshold = reader.share()
    references = [as_text(item) for item in value] if isinstance(value, list) else [as_text(value)]
    if isinstance(value, dict):
        reader.fields.report_wrong_type("value", value, "text or a list of texts")
    elif value is not None and not (references and all(text.strip() for text in references)):
        reader.fields.error("empty-value", "value", "is empty, or has an empty text; write what is meant.")
    reference: Any = references if isinstance(value, list) else references[0]
    at = DEFAULT_SIMILARITY if threshold is None else threshold
    return GraderCall("semantic_similarity", {"value": reference, "threshold": at})


def question_parser(before: str) -> Callable[[AssertionReader], GraderCall]:
    """Returns a parser for a type that asks a judge for yes or no, with this text before the value."""
    return lambda reader: GraderCall("llm_judge", {"prompt": before + reader.text("what the judge goes by")})


def parse_llm_rubric(reader: AssertionReader) -> GraderCall:
    """Parses `llm-rubric`: yes or no, or a score if there is a threshold."""
    threshold = reader.share()
    if threshold is None:
        return question_parser(RUBRIC_QUESTION)(reader)
    return GraderCall("rubric", _rubric_params(reader.text("the rubric"), threshold))


def parse_g_eval(reader: AssertionReader) -> GraderCall:
    """Parses `g-eval`: a score for one criterion, or the mean score for several."""
    share = reader.share()
    threshold = DEFAULT_G_EVAL_THRESHOLD if share is None else share
    value = reader.required_value("a criterion, or a list of criteria")
    criteria = [as_text(item) for item in value] if isinstance(value, list) else [as_text(value)]
    if value is not None and not (criteria and all(text.strip() for text in criteria)):
        reader.fields.error("empty-value", "value", "is empty, or has an empty text; write a criterion.")
    if len(criteria) == 1:
        return GraderCall("rubric", _rubric_params(criteria[0], threshold))
    members = [
        {
            "name": str(number),
            "assertion": {"grader": "rubric", "params": _rubric_params(criterion, threshold)},
        }
        for number, criterion in enumerate(criteria, 1)
    ]
    return GraderCall(
        "composite", {"members": members, "aggregator": {"type": "weighted_average"}}, threshold
    )


def _rubric_params(rubric: str, threshold: float) -> dict[str, Any]:
    """Returns the parameters of a rubric whose score must reach a share of the scale."""
    return {
        "rubric": rubric,
        "lowest": 0,
        "highest": _MAX_SCORE,
        "min_score": round(threshold * _MAX_SCORE, 9),
    }
