"""Shared parts of the lint rules: findings, locations, and helpers that read cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct, ValidationError, convert

from proctor.model import Assertion, Case

PassesAssertion = Callable[[Assertion, str], bool | None]
"""Returns whether an answer passes an assertion; None if that needs a call."""

_MAX_QUOTE_LENGTH: Final = 60


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


def counting_assertions(case: Case) -> Iterator[Assertion]:
    """Yields the assertions of a case that count, with the members of composites in their place."""
    for assertion in case.assertions:
        if assertion.weight <= 0 and assertion.required is None:
            continue
        if assertion.grader == "composite":
            yield from _members(assertion)
        else:
            yield assertion


def _members(assertion: Assertion) -> Iterator[Assertion]:
    members: Any = assertion.params.get("members")
    for member in members if isinstance(members, list | tuple) and not assertion.negated else ():
        try:
            yield convert(member["assertion"], Assertion)
        except (ValidationError, KeyError, TypeError):  # reported already, where the composite was checked
            continue


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
