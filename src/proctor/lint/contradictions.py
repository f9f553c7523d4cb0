"""The rule `contradiction`: assertions of one case that no answer can pass together.

An exact answer is graded by the other assertions. A text that must be in the answer is put, alone and inside
other text, to those that forbid something. Limits of length and number are compared. What is not found this
way may still be a contradiction; what is found is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import combinations
from typing import Any, Final

from proctor.codec import encode
from proctor.lint.findings import Finding, Passes, assertions_of, quoted, test_of, text_param, texts_param
from proctor.model import Assertion, Case

_OF_TEXT: Final = frozenset(
    (
        *("exact", "contains", "contains_any", "contains_all", "starts_with", "ends_with", "required_words"),
        *(
            "forbidden_words",
            "regex",
            "length",
            "is_json",
            "json_schema",
            "json_keys",
            "json_array",
            "number",
            "numeric_equal",
            "numeric_match",
        ),
        "abstention",
        "refusal",
    )
)
"""Graders that look at nothing but the answer's text."""
_UNITS: Final = ("words", "sentences", "characters", "bullets")
_MOST: Final = 40
"""So many assertions of a case are compared with one another."""


def contradictions(case: Case, passes: Passes) -> Iterator[Finding]:
    """One finding for each pair of assertions of the case that no answer can pass together."""
    if len(case.assertions) < 2 and case.assertions[:1] and case.assertions[0].grader != "composite":
        return
    assertions = [one for one in assertions_of(case) if one.grader in _OF_TEXT][:_MOST]
    for one, other in combinations(assertions, 2):
        why = _conflict(one, other, passes)
        if why is not None:
            message = f"{test_of(case)}: no answer can pass {why}. Remove one of them, or correct it."
            yield Finding("contradiction", message, "assertions")


def _conflict(one: Assertion, other: Assertion, passes: Passes) -> str | None:
    """Why no answer passes both, as the end of a sentence; None where one may."""
    if _opposites(one, other):
        return f"{_named(one)} and {_named(other)}"
    for first, second in ((one, other), (other, one)):
        why = _exact_fails(first, second, passes) or _needed_is_forbidden(first, second, passes)
        why = why or _needed_is_too_long(first, second)
        if why is not None:
            return why
    return _limits_cross(one, other) or _ends_differ(one, other) or _numbers_differ(one, other)


def _named(assertion: Assertion) -> str:
    """An assertion for a message: its grader and what it looks for."""
    params = assertion.params
    looked: Any = next(
        (params[name] for name in ("value", "values", "words", "pattern") if name in params), None
    )
    name = f"`{assertion.grader}`" if not assertion.negated else f"not `{assertion.grader}`"
    if looked is None:
        return name
    shown = quoted(looked) if isinstance(looked, str) else quoted_data(looked)
    return f"{name} {shown}"


def quoted_data(value: Any) -> str:
    """A list or number for a message, cut at 60 characters."""
    text = ", ".join(map(repr, value)) if isinstance(value, list | tuple) else repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _opposites(one: Assertion, other: Assertion) -> bool:
    if one.grader == other.grader and one.negated != other.negated:
        return encode(one.params) == encode(other.params)
    kinds = {one.grader, other.grader}
    return kinds == {"json_array", "json_keys"} and not one.negated and not other.negated


def _variants(assertion: Assertion, text: str) -> list[str]:
    """The text, and how else it may be written to pass the assertion."""
    if not assertion.params.get("ignore_case", assertion.grader == "required_words"):
        return [text]
    return list(dict.fromkeys((text, text.lower(), text.upper(), text.title(), text.capitalize())))


def _fails_all(assertion: Assertion, texts: Sequence[str], passes: Passes) -> bool:
    return all(passes(assertion, text) is False for text in texts)


def _exact_fails(one: Assertion, other: Assertion, passes: Passes) -> str | None:
    value = text_param(one, "value") if one.grader == "exact" and not one.negated else None
    if value is None or not _fails_all(other, _variants(one, value), passes):
        return None
    return f"{_named(one)} and {_named(other)}: the answer {quoted(value)} fails the second"


def _needed_is_forbidden(one: Assertion, other: Assertion, passes: Passes) -> str | None:
    if not (other.negated or other.grader == "forbidden_words") or one.negated:
        return None
    if other.negated and other.grader not in ("contains", "contains_any", "regex"):
        return None
    if other.negated and other.grader == "regex" and other.params.get("full"):
        return None
    for text in _needed(one):
        texts = [around.replace("\0", each) for each in _variants(one, text) for around in _around(one)]
        if _fails_all(other, texts, passes):
            return f"{_named(one)} and {_named(other)}: {quoted(text)} must be there and is forbidden"
    return None


def _needed(assertion: Assertion) -> tuple[str, ...]:
    """Texts each of which every answer that passes has in it."""
    if assertion.grader in ("contains", "starts_with", "ends_with"):
        value = text_param(assertion, "value")
        return () if value is None else (value,)
    if assertion.grader == "contains_all":
        return texts_param(assertion, "values")
    if assertion.grader == "required_words":
        return texts_param(assertion, "words")
    if assertion.grader == "contains_any" and len(texts_param(assertion, "values")) == 1:
        return texts_param(assertion, "values")
    return ()


def _around(assertion: Assertion) -> tuple[str, ...]:
    """Answers that have a needed text in them, which stands at the null character."""
    if assertion.grader == "starts_with":
        return ("\0", "\0 thus", "\0q")
    if assertion.grader == "ends_with":
        return ("\0", "Thus \0", "q\0")
    if assertion.grader == "required_words":
        return ("\0", "Thus \0 thus")
    return ("\0", "Thus \0 thus", "q\0q")


def _needed_is_too_long(one: Assertion, other: Assertion) -> str | None:
    if one.negated or other.negated or other.grader != "length":
        return None
    for text in _needed(one):
        for unit, count in (("words", len(text.split())), ("characters", len(text.strip()))):
            most = other.params.get(f"max_{unit}")
            if isinstance(most, int) and count > most:
                return (
                    f"{_named(one)} and `length` with at most {most} {unit}: {quoted(text)} alone is longer"
                )
    return None


def _limits_cross(one: Assertion, other: Assertion) -> str | None:
    """Limits of two assertions that leave no count between them."""
    if {one.grader, other.grader} == {"length"} and not one.negated and not other.negated:
        for unit in _UNITS:
            least = max(_number(each, f"min_{unit}", "0") for each in (one, other))
            most = min(_number(each, f"max_{unit}", "inf") for each in (one, other))
            if least > most:
                return f"`length` with at least {least:g} and `length` with at most {most:g} {unit}"
    if {one.grader, other.grader} == {"json_array"} and not one.negated and not other.negated:
        least = max(_number(each, "min_items", "0") for each in (one, other))
        most = min(_number(each, "max_items", "inf") for each in (one, other))
        if least > most:
            return f"`json_array` with at least {least:g} and `json_array` with at most {most:g} items"
    return None


def _number(assertion: Assertion, name: str, default: str) -> Decimal:
    value = assertion.params.get(name)
    return Decimal(default if value is None else str(value))


def _ends_differ(one: Assertion, other: Assertion) -> str | None:
    if one.grader != other.grader or one.negated or other.negated:
        return None
    if one.grader not in ("starts_with", "ends_with"):
        return None
    first, second = ((text_param(each, "value") or "").strip() for each in (one, other))
    if one.grader == "starts_with":
        agree = first.startswith(second) or second.startswith(first)
    else:
        agree = first.endswith(second) or second.endswith(first)
    return None if agree else f"{_named(one)} and {_named(other)}"


def _numbers_differ(one: Assertion, other: Assertion) -> str | None:
    if {one.grader, other.grader} != {"number"} or one.negated or other.negated:
        return None
    if one.params.get("which", "stated") != other.params.get("which", "stated"):
        return None
    apart = abs(_number(one, "value", "0") - _number(other, "value", "0"))
    return f"{_named(one)} and {_named(other)}" if apart > _reach(one) + _reach(other) else None


def _reach(number: Assertion) -> Decimal:
    """How far from its value a number may be."""
    tolerance = _number(number, "tolerance", "1e-6")
    return tolerance * abs(_number(number, "value", "0")) if number.params.get("relative") else tolerance
