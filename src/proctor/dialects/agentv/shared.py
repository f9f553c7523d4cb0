"""Helpers for reading agentv suites: old field names, `${{ NAME }}` references, and folders of files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from posixpath import join, normpath
from typing import Any, Final

from msgspec.structs import replace

from proctor.codec import decode
from proctor.env_substitution import REFERENCE
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import FieldReader, ProblemLog
from proctor.yaml12 import YamlMap, empty_like, map_strings

_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,15})?")
_SCALAR_FIELDS: Final = frozenset(
    (
        *("workers", "threshold", "count", "cache", "skip_defaults", "skipDefaults", "enabled"),
        *("budget_usd", "budgetUsd", "total_budget_usd", "totalBudgetUsd", "timeout_ms", "ancestor", "depth"),
    )
)
"""Fields that hold a number or a boolean."""
_REINSTATED_NAMES: Final = frozenset(("assert",))
"""Old names that a later version reintroduced."""
PROSE_FIELDS: Final = frozenset(("description",))
"""Fields of any object that are only for readers: they are not sent, and use no variables."""
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


# --- fields ------------------------------------------------------------------------------------------------


def resolve_alias(fields: FieldReader, name: str, *aliases: str) -> str:
    """Returns the name under which a field is written. Warns about an old name; two names are an error."""
    spellings = [spelling for spelling in (name, *aliases) if spelling in fields]
    for other in spellings[1:]:
        fields.pop(other)
        fields.error(
            "conflicting-fields", other, f"and `{spellings[0]}` mean the same; keep `{spellings[0]}` only."
        )
    if not spellings or spellings[0] == name:
        return name
    if spellings[0] in _REINSTATED_NAMES:
        return spellings[0]
    fields.warn("deprecated", spellings[0], f"is an old name; write `{name}`.")
    return spellings[0]


def finish(fields: FieldReader, allowed: Sequence[str]) -> None:
    """Notes the remaining fields as unknown, except `description`, which is ignored."""
    fields.drop_null("description")
    fields.text("description")
    fields.finish(allowed)


def read_object(fields: FieldReader, name: str) -> FieldReader:
    """Returns the fields of a nested object without nulls, in snake case; no fields if it is absent."""
    row = to_snake_case(fields.instance(name, dict) or {})
    inner = FieldReader(row, fields.problem_log, f"{fields.path_to(name)}.")
    inner.drop_null()
    return inner


def read_texts(fields: FieldReader, name: str) -> tuple[str, ...]:
    """Reads a list of texts; other items are errors and left out."""
    return tuple([text for text in fields.texts(name) if isinstance(text, str)])


# --- `${{ NAME }}` -----------------------------------------------------------------------------------------


def resolve_references(
    value: Any, source: SuiteSource, notes: ProblemLog, field: str, keep: Collection[str] = ()
) -> Any:
    """Fills in the references in a value, except in the fields to keep; an unset variable is an error.

    In a field for a number or boolean, a text that is a single reference becomes one.
    """
    if not _has_reference(value):
        return value

    def fill(text: str, name: str) -> Any:
        if "${{" not in text:
            return text
        for variable in REFERENCE.findall(text):
            if variable not in source.environ:
                note_unset_variable(
                    variable, notes, *(find_reference(value, variable, field) or (field, None))
                )
        resolved_text = REFERENCE.sub(lambda match: source.environ.get(match[1], match[0]), text)
        is_scalar = name in _SCALAR_FIELDS and REFERENCE.fullmatch(text)
        return parse_scalar(resolved_text) if is_scalar else resolved_text

    return map_strings(value, fill, keep)


def resolve_row(
    row: dict[str, Any], names: Iterable[str], source: SuiteSource, notes: ProblemLog
) -> dict[str, Any]:
    """Returns the object with the references in these fields filled in."""
    referring = [name for name in names if _has_reference(row.get(name))]
    if not referring:
        return row
    return with_fields(
        row, {name: resolve_references(row[name], source, notes, name, PROSE_FIELDS) for name in referring}
    )


def note_unset_variable(name: str, notes: ProblemLog, field: str, line: int | None = None) -> None:
    """Notes that an environment variable is not set."""
    notes.error(
        "unset-variable",
        f"`{field}` uses the environment variable {name}, which is not set. Set it (export {name}=…) and run "
        f"again.",
        field,
        line=line,
    )


# --- files -------------------------------------------------------------------------------------------------


def search_in_folder(source: SuiteSource, folder: str) -> SuiteSource:
    """Returns the suite with files looked for in the given folder first, a path relative to the suite's."""
    find = source.find_file

    def nearest(reference: str) -> SourceFile | None:
        return find(normpath(join(folder, reference))) or find(reference)

    return replace(source, find_file=nearest) if folder else source


# --- raw values --------------------------------------------------------------------------------------------


def parse_scalar(text: str) -> Any:
    """Returns the boolean or number that a text is in JSON, or the text itself."""
    if text in ("true", "false") or _NUMBER.fullmatch(text):
        return decode(text, object)
    return text


def with_fields(row: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Returns the object with these fields set; its line numbers stay."""
    copy = empty_like(row)
    copy.update({**row, **values})
    return copy


def to_snake_case(row: dict[str, Any]) -> dict[str, Any]:
    """Renames fields such as `skipDefaults` to `skip_defaults`, unless the new name is present."""
    if not any(_CAPITAL.search(name) for name in row):
        return row
    new_names = {name: _CAPITAL.sub(r"_\1", name).lower() for name in row}
    new_names = {old: old if new != old and new in row else new for old, new in new_names.items()}
    snake_row = empty_like(row)
    snake_row.update({new_names[name]: value for name, value in row.items()})
    if isinstance(snake_row, YamlMap):
        snake_row.lines = {new_names.get(name, name): line for name, line in snake_row.lines.items()}
    return snake_row


def find_reference(
    value: Any, variable: str, field: str = "", line: int | None = None
) -> tuple[str, int | None] | None:
    """Returns the first field that uses an environment variable, and its line if known."""
    if isinstance(value, str):
        return (field, line) if variable in REFERENCE.findall(value) else None
    children: Iterable[tuple[str, Any, int | None]] = ()
    if isinstance(value, dict):
        lines = getattr(value, "lines", {})
        dot = "." if field else ""
        children = ((f"{field}{dot}{name}", item, lines.get(name)) for name, item in value.items())
    elif isinstance(value, list):
        places = getattr(value, "lines", None) or [None] * len(value)
        children = ((f"{field}[{at}]", item, places[at]) for at, item in enumerate(value))
    for name, item, at in children:
        place = find_reference(item, variable, name, at or line)
        if place is not None:
            return place
    return None


def _has_reference(value: Any) -> bool:
    if isinstance(value, str):
        return "${{" in value
    if isinstance(value, dict):
        return any(_has_reference(item) for item in value.values())
    return isinstance(value, list) and any(_has_reference(item) for item in value)
