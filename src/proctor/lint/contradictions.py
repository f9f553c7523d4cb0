"""The rule `contradiction`: assertions of one case that no answer can pass together.

An exact answer is graded by the other assertions. A text that the answer must contain is given, alone and
inside other text, to assertions that forbid something. Limits of length and number are compared. The rule
misses some contradictions, but everything it reports is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import combinations
from typing import Any, Final

from proctor.codec import encode
from proctor.lint.findings import (
    Finding,
    PassesAssertion,
    case_label,
    counting_assertions,
    expected_texts,
    get_traits,
    quote_text,
    text_param,
)
from proctor.model import Assertion, Case

_UNITS: Final = {"length": ("words", "sentences", "characters", "bullets"), "json_array": ("items",)}
"""What has limits, by grader."""
_EXCLUSIVE: Final = frozenset(
    ("exact", "forbidden_words", "length", "json_array", "json_keys", "starts_with", "ends_with", "number")
)
"""The graders of which an assertion, if it is not negated, may exclude another one that is not."""
_MAX_ASSERTIONS: Final = 40
"""At most this many assertions of a case are compared with each other."""


def find_contradictions(case: Case, passes: PassesAssertion) -> Iterator[Finding]:
    """Yields a finding for each pair of assertions that no answer can pass together."""
    assertions = [
        assertion for assertion in counting_assertions(case) if get_traits(assertion).reads == "text"
    ]
    if len(assertions) < 2 or not any(
        assertion.negated or assertion.grader in _EXCLUSIVE for assertion in assertions
    ):
        return
    for first, second in combinations(assertions[:_MAX_ASSERTIONS], 2):
        why = _conflict(first, second, passes)
        if why is not None:
            message = f"{case_label(case)}: no answer can pass {why}. Correct or remove one of them."
            yield Finding("contradiction", message, "assertions")


def _conflict(assertion: Assertion, counterpart: Assertion, passes: PassesAssertion) -> str | None:
    """Returns why no answer passes both, as the end of a sentence; None if an answer may."""
    if _are_opposites(assertion, counterpart):
        return f"{_describe(assertion)} and {_describe(counterpart)}"
    for first, second in ((assertion, counterpart), (counterpart, assertion)):
        why = _exact_fails(first, second, passes) or _needed_is_forbidden(first, second, passes)
        why = why or _needed_is_too_long(first, second)
        if why is not None:
            return why
    return (
        _limits_cross(assertion, counterpart)
        or _ends_differ(assertion, counterpart)
        or _numbers_differ(assertion, counterpart)
    )


def _describe(assertion: Assertion) -> str:
    """Describes an assertion for a message: its grader and what it looks for."""
    params = assertion.params
    expected: Any = next(
        (params[name] for name in ("value", "values", "words", "pattern") if name in params), None
    )
    name = f"`{assertion.grader}`" if not assertion.negated else f"not `{assertion.grader}`"
    if expected is None:
        return name
    text = quote_text(expected) if isinstance(expected, str) else quote_data(expected)
    return f"{name} {text}"


def quote_data(value: Any) -> str:
    """Formats a list or number for a message, cut at 60 characters."""
    text = ", ".join(map(repr, value)) if isinstance(value, list | tuple) else repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _are_opposites(first: Assertion, second: Assertion) -> bool:
    if first.grader == second.grader and first.negated != second.negated:
        return encode(first.params) == encode(second.params)
    kinds = {first.grader, second.grader}
    return kinds == {"json_array", "json_keys"} and not first.negated and not second.negated


def _variants(assertion: Assertion, text: str) -> list[str]:
    """Returns the text, and other spellings that may pass the assertion."""
    if not assertion.params.get("ignore_case", assertion.grader == "required_words"):
        return [text]
    return list(dict.fromkeys((text, text.lower(), text.upper(), text.title(), text.capitalize())))


def _fails_all(assertion: Assertion, texts: Sequence[str], passes: PassesAssertion) -> bool:
    return all(passes(assertion, text) is False for text in texts)


def _exact_fails(first: Assertion, second: Assertion, passes: PassesAssertion) -> str | None:
    value = text_param(first, "value") if first.grader == "exact" and not first.negated else None
    if value is None or not _fails_all(second, _variants(first, value), passes):
        return None
    return f"{_describe(first)} and {_describe(second)}: the answer {quote_text(value)} fails the second"


def _needed_is_forbidden(first: Assertion, second: Assertion, passes: PassesAssertion) -> str | None:
    if not (second.negated or second.grader == "forbidden_words") or first.negated:
        return None
    if second.negated and second.grader not in ("contains", "contains_any", "regex"):
        return None
    if second.negated and second.grader == "regex" and second.params.get("full"):
        return None
    for text in _needed_texts(first):
        texts = [
            around.replace("\0", variant) for variant in _variants(first, text) for around in _contexts(first)
        ]
        if _fails_all(second, texts, passes):
            return (
                f"{_describe(first)} and {_describe(second)}: {quote_text(text)} must be present and "
                f"must be absent"
            )
    return None


def _needed_texts(assertion: Assertion) -> tuple[str, ...]:
    """Returns texts that every passing answer contains."""
    traits, texts = get_traits(assertion), expected_texts(assertion)
    return texts if traits.contained and (traits.all or len(texts) == 1) else ()


def _contexts(assertion: Assertion) -> tuple[str, ...]:
    """Returns answers around a needed text, which replaces the null character."""
    if assertion.grader == "starts_with":
        return ("\0", "\0 thus", "\0q")
    if assertion.grader == "ends_with":
        return ("\0", "Thus \0", "q\0")
    if assertion.grader == "required_words":
        return ("\0", "Thus \0 thus")
    return ("\0", "Thus \0 thus", "q\0q")


def _needed_is_too_long(first: Assertion, second: Assertion) -> str | None:
    if first.negated or second.negated or second.grader != "length":
        return None
    for text in _needed_texts(first):
        for unit, count in (("words", len(text.split())), ("characters", len(text.strip()))):
            maximum = second.params.get(f"max_{unit}")
            if isinstance(maximum, int) and count > maximum:
                limit = f"`length` with at most {maximum} {unit}"
                return f"{_describe(first)} and {limit}: {quote_text(text)} alone is longer"
    return None


def _limits_cross(first: Assertion, second: Assertion) -> str | None:
    """Compares limits of two assertions that leave no possible count."""
    grader = first.grader
    if grader != second.grader or first.negated or second.negated:
        return None
    for unit in _UNITS.get(grader, ()):
        minimum = max(_decimal_param(assertion, f"min_{unit}", "0") for assertion in (first, second))
        maximum = min(_decimal_param(assertion, f"max_{unit}", "inf") for assertion in (first, second))
        if minimum > maximum:
            return f"`{grader}` with at least {minimum:g} and `{grader}` with at most {maximum:g} {unit}"
    return None


def _decimal_param(assertion: Assertion, name: str, default: str) -> Decimal:
    value = assertion.params.get(name)
    return Decimal(default if value is None else str(value))


def _ends_differ(left: Assertion, right: Assertion) -> str | None:
    if left.grader != right.grader or left.negated or right.negated:
        return None
    if left.grader not in ("starts_with", "ends_with"):
        return None
    first, second = ((text_param(assertion, "value") or "").strip() for assertion in (left, right))
    if left.grader == "starts_with":
        agree = first.startswith(second) or second.startswith(first)
    else:
        agree = first.endswith(second) or second.endswith(first)
    return None if agree else f"{_describe(left)} and {_describe(right)}"


def _numbers_differ(first: Assertion, second: Assertion) -> str | None:
    if {first.grader, second.grader} != {"number"} or first.negated or second.negated:
        return None
    if first.params.get("which", "stated") != second.params.get("which", "stated"):
        return None
    apart = abs(_decimal_param(first, "value", "0") - _decimal_param(second, "value", "0"))
    return (
        f"{_describe(first)} and {_describe(second)}"
        if apart > _tolerance(first) + _tolerance(second)
        else None
    )


def _tolerance(number: Assertion) -> Decimal:
    """Returns the accepted distance of a number from its value."""
    tolerance = _decimal_param(number, "tolerance", "1e-6")
    return (
        tolerance * abs(_decimal_param(number, "value", "0")) if number.params.get("relative") else tolerance
    )
