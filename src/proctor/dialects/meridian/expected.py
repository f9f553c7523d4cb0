"""Parses an `expected` object of dialect meridian: a table of its types, with a function for each.

The types are the five that the format documents and the others that its own suites use. A type that no rule
can check becomes the grader `unscored` with its reason; a field that a type does not have is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any, Final

from proctor.errors import suggestion
from proctor.validation import FieldReader, ProblemLog, quote_value

GraderCheck = tuple[str, dict[str, Any]]
"""A grader's name and its parameters."""

LIMIT_FIELDS: Final = tuple(
    f"{end}_{what}" for what in ("words", "sentences", "characters", "bullets") for end in ("min", "max")
)
_NEEDS_NETWORK: Final = "that needs a look-up on the network, which grading never does"

NUMERIC_TYPES: Final = ("numeric_match", "numeric_equal")
"""Types and scorers that compare numbers; each has a grader of the same name."""

UNSCORED_TYPES: Final = {
    "hallucination_check": "no rule tells an invented fact from a true one",
    "refusal_or_caveat": "a caveat has no fixed wording that a rule could look for",
    "normal_response": "an answer is not normal merely because it is no refusal",
    "normal_json": "valid JSON alone does not show that the answer is a normal one",
    "careful_response": "care has no wording that a rule could look for",
    "meta_response": "speaking about one's own rules has no wording that a rule could look for",
    "citation_valid": f"whether a citation exists cannot be seen in the answer; {_NEEDS_NETWORK}",
    "contains_valid_citation": f"whether a citation exists cannot be seen in the answer; {_NEEDS_NETWORK}",
    "doi_valid": f"whether a DOI exists cannot be seen in the answer; {_NEEDS_NETWORK}",
    "verifiable_claim": f"whether a claim is true cannot be seen in the answer; {_NEEDS_NETWORK}",
    "url_reachable": f"whether a page answers cannot be seen in the answer; {_NEEDS_NETWORK}",
}
"""Known types that no rule can check, each with the reason, after "cannot be scored by a rule: "."""


class ExpectedReader:
    """Reads one `expected` object.

    `method` is the test's scoring method, if any; `answer` becomes the case's expected text, for types with
    one.
    """

    __slots__ = ("answer", "fields", "kind", "known_fields", "method", "notes")

    def __init__(self, kind: str, fields: FieldReader, notes: ProblemLog, method: str | None) -> None:
        self.kind = kind
        self.fields = fields
        self.notes = notes
        self.method = method
        self.answer: str | None = None
        self.known_fields = _TYPES[kind][0]

    def text(self, name: str) -> str | None:
        """Returns a text. A number or boolean becomes text with a warning; a blank text is an error."""
        if name not in self.fields:
            return None
        value = as_text(self.fields.pop(name), self.fields, name)
        if value is not None and not value.strip():
            self.fields.error("missing-expected", name, "is blank; write the expected answer.")
            return None
        return value

    def words(self, name: str) -> list[str] | None:
        """Returns a list of words, or a single word as a list; a blank or empty one is an error."""
        if name not in self.fields:
            return None
        value = self.fields.pop(name)
        if isinstance(value, list):
            words = [as_text(item, self.fields, f"{name}[{place}]") for place, item in enumerate(value)]
        else:
            words = [as_text(value, self.fields, name)]
        valid_words = [word for word in words if word is not None]
        if not words or not all(word.strip() for word in valid_words):
            self.fields.error(
                "missing-expected", name, "is empty or contains a blank word, which checks nothing."
            )
        return valid_words

    def limits(self, suffix: str = "") -> dict[str, Any]:
        """Returns the whole numbers that are present by parameter: the field's name and a suffix."""
        values = {name + suffix: self.fields.integer(name) for name in self.known_fields}
        return {param: value for param, value in values.items() if value is not None}

    def tolerance(self, name: str) -> dict[str, Any]:
        """Returns a tolerance as a parameter of that name, if present; a negative one is an error."""
        value = self.fields.number(name)
        if value is not None and value < 0:
            self.fields.error("wrong-type", name, f"is {value}; it must not be negative.")
        return {} if value is None else {name: float(value)}

    def note_missing(self, *names: str) -> None:
        """Notes that none of these fields is present, unless one of them has an error."""
        if not any(self.notes.has_error_at(f"expected.{name}") for name in names):
            field_list = " or ".join(f"`{name}`" for name in names)
            self.fields.error("missing-expected", "type", f"needs {field_list}; add what the answer must be.")


def as_text(value: Any, fields: FieldReader, name: str) -> str | None:
    """Returns a text, number or boolean as text, with a warning for the last two; else None and an error."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, int | float):
        text = repr(value)
    else:
        fields.report_wrong_type(name, value, "text")
        return None
    fields.warn(
        "not-text", name, f"is {text}, not text; it is compared as the text {text!r}. Write it in quotes."
    )
    return text


def parse_number(text: str) -> float | None:
    """Returns the finite decimal number in a text, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) and "_" not in text else None


# --- the types ---------------------------------------------------------------------------------------------


def _parse_contains(expected: ExpectedReader) -> Iterator[GraderCheck]:
    required = expected.words("required_words")
    forbidden = expected.words("forbidden_words")
    value = expected.text("value")
    if required is None and forbidden is None and value is None:
        expected.note_missing(*expected.known_fields)
    if required is not None:
        yield "required_words", {"words": required}
    if value is not None:
        expected.answer = value
        yield "contains", {"value": value, "ignore_case": True}
    if forbidden is not None:
        yield "forbidden_words", {"words": forbidden}


def _parse_exact(expected: ExpectedReader) -> Iterator[GraderCheck]:
    expected.answer = value = expected.text("value")
    if value is None:
        expected.note_missing("value")
    else:
        yield make_exact_check(value, expected.method, expected.fields, "value")


def make_exact_check(value: str, method: str | None, fields: FieldReader, name: str) -> GraderCheck:
    """Returns the check for one right answer; a number if the test's method says so and it is one."""
    if method == "numeric_match":
        number = parse_number(value)
        if number is not None:
            return "number", {"value": number}
        fields.warn(
            "not-a-number",
            name,
            f"is {quote_value(value)}, which `numeric_match` cannot read; it is compared as text.",
        )
    return "exact", {"value": value}


def _parse_regex(expected: ExpectedReader) -> Iterator[GraderCheck]:
    pattern, value = expected.text("pattern"), expected.text("value")
    if pattern is not None and value is not None and pattern != value:
        expected.fields.error(
            "conflicting-fields", "value", "differs from `expected.pattern`; keep one of them."
        )
    regex = value if pattern is None else pattern
    if regex is None:
        expected.note_missing("pattern", "value")
    else:
        yield "regex", {"pattern": regex}


def _parse_length(expected: ExpectedReader) -> Iterator[GraderCheck]:
    yield _make_length_check(expected, expected.limits())


def _parse_word_count(expected: ExpectedReader) -> Iterator[GraderCheck]:
    yield _make_length_check(expected, expected.limits("_words"))


def _parse_sentence_count(expected: ExpectedReader) -> Iterator[GraderCheck]:
    count = expected.limits().get("value")
    yield _make_length_check(
        expected, {} if count is None else {"min_sentences": count, "max_sentences": count}
    )


def _make_length_check(expected: ExpectedReader, limits: dict[str, Any]) -> GraderCheck:
    if limits:
        return "length", limits
    names = ", ".join(f"`{name}`" for name in expected.known_fields)
    return "unscored", {"reason": f"it gives no limit ({names})"}


def _parse_json(expected: ExpectedReader) -> Iterator[GraderCheck]:
    schema = expected.fields.pop("schema")
    keys = expected.words("required_keys")
    if isinstance(schema, dict):
        yield "json_schema", {"schema": schema}
    elif schema is not None:
        expected.fields.report_wrong_type("schema", schema, "a JSON schema (an object)")
    if keys is not None:
        yield "json_keys", {"keys": keys}
    if schema is None and keys is None:
        yield "is_json", {}


def _parse_json_array(expected: ExpectedReader) -> Iterator[GraderCheck]:
    yield "json_array", expected.limits()


def _parse_refusal(_expected: ExpectedReader) -> Iterator[GraderCheck]:
    yield "abstention", {}


def _word_list_parser(grader: str) -> Callable[[ExpectedReader], Iterator[GraderCheck]]:
    """Returns a parser for a type whose one field is a list of words."""

    def parse(expected: ExpectedReader) -> Iterator[GraderCheck]:
        (name,) = expected.known_fields
        words = expected.words(name)
        if words is None:
            expected.note_missing(name)
        else:
            yield grader, {"words": words}

    return parse


def _parse_numeric(expected: ExpectedReader) -> Iterator[GraderCheck]:
    text: Any = None
    number: float | None = None
    if "value" in expected.fields:
        value = expected.fields.pop("value")
        text = repr(value) if type(value) in (int, float) else value
        number = parse_number(text) if isinstance(text, str) else None
        if number is None:
            expected.fields.report_wrong_type("value", value, "a number")
    tolerance = expected.tolerance("tolerance")
    if text is None:
        expected.note_missing("value")
    elif number is not None:
        expected.answer = text
        yield "number", {"value": number, **tolerance}


def _parse_numeric_text(expected: ExpectedReader) -> Iterator[GraderCheck]:
    expected.answer = value = expected.text("value")
    tolerance = expected.tolerance("rel_tolerance")
    if value is None:
        expected.note_missing("value")
    else:
        yield expected.kind, {"value": value, **tolerance}


def _parse_consistency(expected: ExpectedReader) -> Iterator[GraderCheck]:
    expected.answer = value = expected.text("value")
    yield "consistency", {} if value is None else {"expected": value}


def _parse_unscored(expected: ExpectedReader) -> Iterator[GraderCheck]:
    for name in expected.known_fields:
        expected.fields.text(name)
    yield "unscored", {"reason": UNSCORED_TYPES[expected.kind]}


_TYPES: Final[dict[str, tuple[tuple[str, ...], Callable[[ExpectedReader], Iterator[GraderCheck]]]]] = {
    "contains": (("required_words", "value", "forbidden_words"), _parse_contains),
    "exact": (("value",), _parse_exact),
    "regex": (("pattern", "value"), _parse_regex),
    "length": (LIMIT_FIELDS, _parse_length),
    "json_schema": (("schema", "required_keys"), _parse_json),
    "json": (("schema", "required_keys"), _parse_json),
    "json_array": (("min_items", "max_items"), _parse_json_array),
    "format": (("min_bullets", "max_bullets"), _parse_length),
    "word_count": (("min", "max"), _parse_word_count),
    "sentence_count": (("value",), _parse_sentence_count),
    "refusal": ((), _parse_refusal),
    "forbidden": (("value",), _word_list_parser("forbidden_words")),
    "forbidden_words": (("forbidden_words",), _word_list_parser("forbidden_words")),
    "required_words": (("required_words",), _word_list_parser("required_words")),
    "numeric": (("value", "tolerance"), _parse_numeric),
    **dict.fromkeys(NUMERIC_TYPES, (("value", "rel_tolerance"), _parse_numeric_text)),
    "consistency": (("value",), _parse_consistency),
    **dict.fromkeys(UNSCORED_TYPES, ((), _parse_unscored)),
    "url_reachable": (("domain",), _parse_unscored),
}
"""The fields of each type, and how its checks are read."""

TYPES: Final = tuple(_TYPES)


def parse_expected(
    row: dict[str, Any], notes: ProblemLog, method: str | None
) -> tuple[str, list[GraderCheck], str | None]:
    """Returns the type, the checks and the expected text of an `expected` object.

    `method` is the test's scoring method; only `numeric_match` matters. An object without a checkable rule
    gives `unscored` and a warning.
    """
    fields = FieldReader(
        {name: value for name, value in row.items() if value is not None}, notes, "expected."
    )
    kind = fields.required_text("type")
    if not kind:
        return "", [], None
    if kind not in _TYPES:
        notes.error(
            "unknown-type",
            f"Unknown expected type {quote_value(kind)}. {suggestion(kind[:60], TYPES)}",
            "expected.type",
        )
        return kind, [], None
    expected = ExpectedReader(kind, fields, notes, method)
    checks = list(_TYPES[kind][1](expected))
    fields.finish(expected.known_fields)
    for place, (grader, params) in enumerate(checks):
        if grader == "unscored" and not notes.has_error_at("expected."):
            reason = f"The expected type {kind!r} cannot be scored by a rule: {params['reason']}."
            checks[place] = grader, {"reason": reason}
            notes.warn("unscored-type", f"{reason} The test will be UNSCORED.", "expected.type")
    return kind, checks, expected.answer
