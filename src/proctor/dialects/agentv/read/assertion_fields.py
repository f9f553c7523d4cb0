"""What every assertion of the dialect agentv is read with: fields with their variables, lines and limits.

Fields that decide what is loaded (numbers, booleans, names, paths) have `${{ NAME }}` filled in here. Texts
that are sent, judged or run keep it as written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from typing import Any, Final

from proctor.dialects.agentv.shared import as_scalar, finish
from proctor.env_vars import filled
from proctor.errors import UsageError
from proctor.protocols import Source
from proctor.validation import Fields, Notes
from proctor.yaml12 import plain

Limit = tuple[str, Callable[[float], bool]]
"""What a number must be, as the end of a sentence, and whether one is."""

NOT_NEGATIVE: Final[Limit] = ("at least 0", lambda value: value >= 0)
POSITIVE: Final[Limit] = ("more than 0", lambda value: value > 0)
GATE: Final[Limit] = ("more than 0 and at most 1", lambda value: 0 < value <= 1)
SHARE: Final[Limit] = ("from 0 to 1", lambda value: 0 <= value <= 1)

_AS_WRITTEN: Final = frozenset(
    (
        "value",
        "prompt",
        "outcome",
        "criteria",
        "rubrics",
        "command",
        "script",
        "config",
        "args",
        "description",
    )
)
_TEXTS: Final = frozenset(
    (
        "type",
        "name",
        "id",
        "target",
        "judge",
        "cwd",
        "skill",
        "tool",
        "path",
        "mode",
        "match",
        "aggregation",
        "args_match",
    )
)


def as_text(value: Any) -> str | None:
    """A text; a number or a boolean as it is written in YAML; None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else None


class AssertionFields(Fields):
    """One object inside a list of assertions: an assertion, or a part of one.

    `known` are the names that it may have; `source` finds the files that it refers to. `negated` is whether
    the assertion passes where it would fail.
    """

    __slots__ = ("_line", "known", "negated", "source")

    def __init__(
        self, row: dict[str, Any], notes: Notes, prefix: str, source: Source, allowed: Collection[str]
    ) -> None:
        super().__init__(row, notes, prefix)
        self._line: int | None = getattr(row, "line", None)
        self.known = allowed
        self.negated = False
        self.source = source
        for name, value in row.items():
            if type(value) is str and "${{" in value and name in allowed and name not in _AS_WRITTEN:
                self._fill(name, value)

    def _fill(self, name: str, template: str) -> None:
        text = self.filled(name, template)
        if text is not None:
            self._left[name] = text if name in _TEXTS else as_scalar(text)
        elif name not in _TEXTS:
            del self._left[name]

    def filled(self, name: str, text: str) -> str | None:
        """Fills in the variables of a field's text; returns None and notes an error where one is not set."""
        try:
            return filled(text, self.source.environ)
        except UsageError as error:
            self.error("unset-variable", name, f"is {text!r}. {error}")
            return None

    def line_of(self, name: str) -> int | None:
        """The line of a field, or that of the object for one that is missing."""
        return super().line_of(name) or self._line

    def close(self) -> None:
        """Notes each field that was not taken as unknown."""
        if self._left:
            finish(self, tuple(self.known))

    def peek(self, name: str) -> Any:
        """Returns the value without taking it; None when it is absent."""
        return self._left.get(name)

    def rename(self, old: str, new: str) -> None:
        """Renames a field, unless the new name is there too."""
        self._left.setdefault(new, self._left.pop(old))

    # --- values --------------------------------------------------------------------------------------------

    def limited(self, name: str, limit: Limit) -> float | None:
        """A number within a limit, if the field is there."""
        value = self.number(name)
        if value is None or limit[1](value):
            return value
        self.error("bad-number", name, f"is {value}; it must be {limit[0]}.")
        return None

    def named(self, name: str) -> str | None:
        """A text that is not blank, if the field is there."""
        return self.required_text(name) or None if name in self else None

    def child(self, name: str, allowed: Collection[str]) -> AssertionFields | None:
        """The fields of an object inside this one, if it is there."""
        if name not in self:
            return None
        value = self.take(name)
        if isinstance(value, dict):
            return AssertionFields(value, self.notes, self.place(name) + ".", self.source, allowed)
        self.wrong(name, value, "an object")
        return None

    def rows(self, name: str, expected: str) -> list[tuple[str, Any]]:
        """The items of a list that must be there and not be empty, each with its name in messages."""
        if name not in self:
            self.missing(name, expected)
            return []
        value = self.take(name)
        if not isinstance(value, list):
            self.wrong(name, value, expected)
        elif not value:
            self.error("empty-list", name, f"is empty; it must be {expected}.")
        else:
            return [(f"{name}[{place}]", item) for place, item in enumerate(value)]
        return []

    def children(self, name: str, expected: str, allowed: Collection[str]) -> list[AssertionFields]:
        """The objects of a list that must be there and not be empty."""
        members: list[AssertionFields] = []
        for place, item in self.rows(name, expected):
            if isinstance(item, dict):
                members.append(
                    AssertionFields(item, self.notes, self.place(place) + ".", self.source, allowed)
                )
            else:
                self.wrong(place, item, "an object")
        return members

    # --- problems ------------------------------------------------------------------------------------------

    def without_effect(self, names: Sequence[str], why: str = "has no effect here; remove it.") -> None:
        """Warns about fields that are known and do nothing."""
        for name in names:
            if name in self:
                self.take(name)
                self.warn("no-effect", name, why)

    def corrected(self, wrong: str, right: str) -> None:
        """Notes that a field has a wrong name, and reads it under the right one."""
        if wrong in self:
            self.error("unknown-field", wrong, f"is not known; the field is called `{right}`.")
            self.rename(wrong, right)

    def config(self) -> dict[str, Any]:
        """Every field that is left, and those of `config`, for a grader that knows what they mean."""
        inner = self.child("config", ())
        others: dict[str, Any] = {}
        for name in self.names():
            near = get_close_matches(
                name, [candidate for candidate in self.known if candidate != "type"], n=1, cutoff=0.8
            )
            if near:
                self.warn("passed-on", name, f"is passed on to the grader. Did you mean `{near[0]}`?")
            others[name] = plain(self.take(name))
        return others if inner is None else others | {name: plain(inner.take(name)) for name in inner.names()}
