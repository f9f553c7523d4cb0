"""Fields of assertions of the dialect agentv, with their variables, lines and limits.

`${{ NAME }}` is filled in here in fields that decide what is loaded (numbers, booleans, names, paths). Texts
that are sent, judged or run keep it as written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

from proctor.dialects.agentv.shared import finish, parse_scalar
from proctor.env_substitution import substitute
from proctor.errors import UsageError
from proctor.field_schemas import accepts, list_of, object_of, of_type, required_names, spec_fields
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, FieldSchema, FieldSpec, NumberLimit, ProblemLog
from proctor.yaml12 import to_plain

NOT_NEGATIVE: Final = NumberLimit("at least 0", minimum=0)
POSITIVE: Final = NumberLimit("more than 0", exclusive_minimum=0)
GATE: Final = NumberLimit("more than 0 and at most 1", exclusive_minimum=0, maximum=1)
SHARE: Final = NumberLimit("from 0 to 1", minimum=0, maximum=1)

_UNFILLED_FIELDS: Final = frozenset(
    (
        *("value", "prompt", "outcome", "criteria", "rubrics"),
        *("command", "script", "config", "args", "description"),
    )
)
_TEXT_FIELDS: Final = frozenset(
    (
        *("type", "name", "id", "target", "judge", "cwd", "skill", "tool"),
        *("path", "mode", "match", "aggregation", "args_match"),
    )
)


def as_text(value: Any) -> str | None:
    """Returns a text as it is, a number or boolean as YAML writes it, and None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else None


def _list_of_objects(_expected: str, table: tuple[FieldSpec, ...]) -> FieldSchema:
    return list_of(object_of(spec_fields(table), required_names(table)), minItems=1)


class AssertionFields(FieldReader):
    """The fields of one object in a list of assertions: an assertion, or a part of one.

    `allowed_names` are the fields it may have; `source` finds the files that it refers to; `negated` inverts
    the verdict.
    """

    __slots__ = ("allowed_names", "negated", "source")

    def __init__(
        self,
        row: dict[str, Any],
        notes: ProblemLog,
        prefix: str,
        source: SuiteSource,
        allowed: Collection[str],
    ) -> None:
        super().__init__(row, notes, prefix)
        self.allowed_names = allowed
        self.negated = False
        self.source = source
        for name, value in row.items():
            if type(value) is str and "${{" in value and name in allowed and name not in _UNFILLED_FIELDS:
                self._fill_field(name, value)

    def _fill_field(self, name: str, template: str) -> None:
        text = self.fill(name, template)
        if text is not None:
            self._remaining[name] = text if name in _TEXT_FIELDS else parse_scalar(text)
        elif name not in _TEXT_FIELDS:
            del self._remaining[name]

    def fill(self, name: str, text: str) -> str | None:
        """Fills in the variables of a field's text. Returns None and notes an error if one is not set."""
        try:
            return substitute(text, self.source.environ)
        except UsageError as error:
            self.error("unset-variable", name, f"is {text!r}. {error}")
            return None

    def close(self) -> None:
        """Notes every field that was not read as unknown."""
        if self._remaining:
            finish(self, tuple(self.allowed_names))

    def all_values(self, table: Iterable[FieldSpec]) -> dict[str, Any]:
        """Returns the values of a table, as `values` does; every other field is unknown."""
        values = self.values(table)
        self.close()
        return values

    def rename(self, old: str, new: str) -> None:
        """Renames a field, unless the new name is there too."""
        self._remaining.setdefault(new, self._remaining.pop(old))

    # --- values --------------------------------------------------------------------------------------------

    def child(self, name: str, allowed: Collection[str]) -> AssertionFields | None:
        """Returns the fields of a nested object, or None if the field is absent."""
        value: Any = self.instance(name, dict)
        return None if value is None else self.within(name, value, allowed)

    def within(self, place: str, row: dict[str, Any], allowed: Collection[str]) -> AssertionFields:
        """Returns the fields of an object at a place inside this one."""
        return AssertionFields(row, self.problem_log, f"{self.path_to(place)}.", self.source, allowed)

    def rows(self, name: str, expected: str) -> list[tuple[str, Any]]:
        """Returns the items of a required, non-empty list, each with its name for messages."""
        if name not in self:
            self.report_missing(name, expected)
            return []
        value = self.pop(name)
        if not isinstance(value, list):
            self.report_wrong_type(name, value, expected)
        elif not value:
            self.error("empty-list", name, f"is empty; it must be {expected}.")
        else:
            return [(f"{name}[{place}]", item) for place, item in enumerate(value)]
        return []

    def children(self, name: str, expected: str, allowed: Collection[str]) -> list[AssertionFields]:
        """Returns the fields of the objects in a required, non-empty list."""
        members: list[AssertionFields] = []
        for place, item in self.rows(name, expected):
            if isinstance(item, dict):
                members.append(self.within(place, item, allowed))
            else:
                self.report_wrong_type(place, item, "an object")
        return members

    @accepts(_list_of_objects)
    def objects(self, name: str, expected: str, table: tuple[FieldSpec, ...]) -> list[dict[str, Any]]:
        """Returns the values of each object in a required, non-empty list, by the table of its fields."""
        children = self.children(name, expected, _get_names(table))
        return [inner.all_values(table) for inner in children]

    # --- problems ------------------------------------------------------------------------------------------

    def ignore_fields(self, names: Sequence[str], why: str = "has no effect here; remove it.") -> None:
        """Removes known fields that have no effect here, and warns about each."""
        for name in names:
            if name in self:
                self.pop(name)
                self.warn("no-effect", name, why)

    def correct_name(self, wrong: str, right: str) -> None:
        """Notes that a field is misnamed, and renames it."""
        if wrong in self:
            self.error("unknown-field", wrong, f"is an unknown field; did you mean `{right}`?")
            self.rename(wrong, right)

    @accepts(of_type("object"), required=False)
    def config(self, field: str) -> dict[str, Any] | None:
        """Returns the remaining fields and those of `config`, which only the grader understands."""
        inner = self.child(field, ())
        others: dict[str, Any] = {}
        for name in self.remaining_names():
            near = get_close_matches(
                name, [candidate for candidate in self.allowed_names if candidate != "type"], n=1, cutoff=0.8
            )
            if near:
                self.warn("passed-on", name, f"is passed to the grader as it is. Did you mean `{near[0]}`?")
            others[name] = to_plain(self.pop(name))
        if inner is not None:
            others |= {name: to_plain(inner.pop(name)) for name in inner.remaining_names()}
        return others or None


@cache
def _get_names(table: tuple[FieldSpec, ...]) -> tuple[str, ...]:
    return tuple(field.name for field in table)
