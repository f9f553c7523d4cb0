"""What every rule of the linter says and is given: a finding, and whether a text passes an assertion.

Also what rules read cases with: how a case is named in a message, and its assertions without the composites
around them. Knows no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct, ValidationError, convert

from proctor.model import Assertion, Case

Passes = Callable[[Assertion, str], bool | None]
"""Whether an answer of that text passes the assertion; None where that cannot be said without asking."""

_MAX_QUOTE_LENGTH: Final = 60


class Finding(Struct, frozen=True, gc=False):
    """One thing that a rule found in a case, or in a suite."""

    code: str
    message: str
    """A full sentence that names the case and says what to do."""
    field: str | None = None


class Spot(Struct, frozen=True, gc=False):
    """Where a case stands."""

    case: str
    path: str
    line: int

    def seen_from(self, other: Spot) -> str:
        """The place for a message about another case: `line 3`, with the file where that is another one."""
        return f"line {self.line}" if self.path == other.path else f"{self.path}:{self.line}"


def test_of(case: Case) -> str:
    """How messages name a case: `Test 'math_1'`."""
    return f"Test {quoted(case.id)}"


def quoted(text: str) -> str:
    """A text in quotes, cut at 60 characters; a backslash stays one, so that a pattern can be copied."""
    return repr(text if len(text) <= _MAX_QUOTE_LENGTH else text[: _MAX_QUOTE_LENGTH - 1] + "…").replace(
        "\\\\", "\\"
    )


def assertions_of(case: Case) -> Iterator[Assertion]:
    """The assertions of a case that count; the members of a composite in its place."""
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
    """A parameter that is a text, or None."""
    value = assertion.params.get(name)
    return value if isinstance(value, str) else None


def texts_param(assertion: Assertion, name: str) -> tuple[str, ...]:
    """The texts of a parameter that is a list of them; empty where it is none."""
    value = assertion.params.get(name)
    if not isinstance(value, list | tuple):
        return ()
    return tuple(text for text in value if isinstance(text, str))
