"""Shared parts of the lint rules: findings, locations, and helpers that read cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

from msgspec import Struct, ValidationError, convert

from proctor.model import Assertion, Case

PassesAssertion = Callable[[Assertion, str], bool | None]
"""Returns whether an answer passes an assertion; None if that needs a call."""

_MAX_QUOTE_LENGTH: Final = 60


class GraderTraits(Struct, frozen=True):
    """What the rules know about a grader."""

    reads: Literal["text", "more", "other"] = "more"
    """What it grades: the answer's text alone, the text and more such as the case, or something else."""
    param: str = ""
    """The parameter with the text, or the texts, that it looks for."""
    all: bool = False
    """Whether an answer needs all of these texts."""
    contained: bool = False
    """Whether a passing answer contains the text, or one of the texts."""
    literal: bool = False
    """Whether it compares letter by letter."""


_UNKNOWN: Final = GraderTraits()
_TEXT: Final = GraderTraits("text")
_OTHER: Final = GraderTraits("other")
GRADER_TRAITS: Final = {
    "exact": GraderTraits("text", "value", literal=True),
    "contains": GraderTraits("text", "value", contained=True, literal=True),
    "contains_any": GraderTraits("text", "values", contained=True, literal=True),
    "contains_all": GraderTraits("text", "values", all=True, contained=True, literal=True),
    "starts_with": GraderTraits("text", "value", contained=True),
    "ends_with": GraderTraits("text", "value", contained=True),
    "required_words": GraderTraits("text", "words", all=True, contained=True),
    **dict.fromkeys(("numeric_equal", "numeric_match"), GraderTraits("text", "value")),
    **dict.fromkeys(("forbidden_words", "regex", "length", "number", "abstention", "refusal"), _TEXT),
    **dict.fromkeys(("is_json", "json_schema", "json_keys", "json_array"), _TEXT),
    "semantic_similarity": GraderTraits(param="value"),
    "consistency": GraderTraits(param="expected"),
    **dict.fromkeys(("latency", "cost", "token_usage", "execution_metrics"), _OTHER),
    **dict.fromkeys(("tool_trajectory", "skill_trigger", "program", "ttft", "tokens_per_second"), _OTHER),
}
"""The graders of which the rules know something."""


def get_traits(assertion: Assertion) -> GraderTraits:
    """Returns what the rules know about the grader of an assertion."""
    return GRADER_TRAITS.get(assertion.grader, _UNKNOWN)


class Finding(Struct, frozen=True, gc=False):
    """One finding of a rule in a case or a suite."""

    code: str
    message: str
    """A full sentence that names the case and says what to do."""
    field: str | None = None


class CaseLocation(Struct, frozen=True, gc=False):
    """The location of a case."""

    case: str
    path: str
    line: int

    def relative_to(self, other: CaseLocation) -> str:
        """Returns the location for a message about another case: `line 3`, with the file if it differs."""
        return f"line {self.line}" if self.path == other.path else f"{self.path}:{self.line}"


def case_label(case: Case) -> str:
    """Returns the name of a case in messages: `Test 'math_1'`."""
    return f"Test {quote_text(case.id)}"


def quote_text(text: str) -> str:
    """Quotes a text, cut at 60 characters; backslashes are not doubled, so that patterns can be copied."""
    text = text if len(text) <= _MAX_QUOTE_LENGTH else text[: _MAX_QUOTE_LENGTH - 1] + "…"
    return repr(text).replace("\\\\", "\\")


def counting_assertions(case: Case) -> Sequence[Assertion]:
    """Returns the assertions that count and are about the answer, with the members of composites instead."""
    for assertion in case.assertions:
        if assertion.weight <= 0 or assertion.on != "answer" or assertion.grader == "composite":
            return list(_iter_counting(case))
    return case.assertions


def _iter_counting(case: Case) -> Iterator[Assertion]:
    for assertion in case.assertions:
        if (assertion.weight <= 0 and assertion.required is None) or assertion.on != "answer":
            continue
        if assertion.grader == "composite":
            yield from (member for member in _members(assertion) if member.on == "answer")
        else:
            yield assertion


def _members(assertion: Assertion) -> Iterator[Assertion]:
    members: Any = assertion.params.get("members")
    for member in members if isinstance(members, list | tuple) and not assertion.negated else ():
        try:
            yield convert(member["assertion"], Assertion)
        except (ValidationError, KeyError, TypeError):  # reported already, where the composite was checked
            continue


def expected_texts(assertion: Assertion) -> tuple[str, ...]:
    """Returns the texts that an assertion looks for, as far as the rules know them."""
    value = assertion.params.get(get_traits(assertion).param)
    if isinstance(value, list | tuple):
        return tuple(text for text in value if isinstance(text, str))
    return (value,) if isinstance(value, str) else ()


def text_param(assertion: Assertion, name: str) -> str | None:
    """Returns a parameter if it is a text, else None."""
    value = assertion.params.get(name)
    return value if isinstance(value, str) else None


def texts_param(assertion: Assertion, name: str) -> tuple[str, ...]:
    """Returns the texts of a parameter that is a list; empty if it is not."""
    value = assertion.params.get(name)
    if not isinstance(value, list | tuple):
        return ()
    return tuple(text for text in value if isinstance(text, str))
