"""Replacements of the dialect ai_tester: values for `{{name}}` in texts. Pure.

A map gives every combination of its values, its first key slowest; a list gives those of each of its maps,
one after the other. A value may use other keys. All errors are found before anything is expanded, so that
expanding cannot fail.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from itertools import product
from math import prod
from typing import Any, Final

from msgspec import Struct

from proctor.errors import suggestion
from proctor.validation import FieldReader, ProblemLog, quote_value

MAX_VERSIONS: Final = 10_000
"""The maximum number of versions of one file."""
MAX_CHARACTERS: Final = 50_000_000
"""The maximum length of all versions of one file together."""
MAX_BRACKET_LENGTH: Final = 60
"""The maximum length of an id's bracket; a longer one is replaced by a digest."""

_PLACEHOLDER: Final = re.compile(r"`\{\{([^{}\n]+)\}\}`|\{\{([^{}\n]+)\}\}")
_LEADING_ZEROS: Final = re.compile(r"(?<=e[+-])0+")

Values = Mapping[str, str]


class ReplacementGroup(Struct, frozen=True):
    """One map of replacements: the values of each key in file order, and its line."""

    values: dict[str, tuple[str, ...]] = {}
    lines: dict[str, int] = {}


# --- texts -------------------------------------------------------------------------------------------------


def iter_placeholders(text: str) -> Iterator[tuple[str, int]]:
    """Yields the name and offset of each placeholder in a text."""
    if "{{" in text:
        for match in _PLACEHOLDER.finditer(text):
            name = (match[1] or match[2]).strip()
            if name:
                yield name, match.start()


def fill(text: str, values: Values) -> str:
    """Replaces each placeholder that has a value, with the backticks directly around it.

    Inserted values are not searched again.
    """
    if not values or "{{" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        return values.get((match[1] or match[2]).strip(), match[0])

    return _PLACEHOLDER.sub(value, text)


# --- reading -----------------------------------------------------------------------------------------------


def parse_groups(fields: FieldReader, name: str) -> tuple[ReplacementGroup, ...]:
    """Parses a field with replacements; returns one empty group if it is absent."""
    if name not in fields:
        return (ReplacementGroup(),)
    value: Any = fields.pop(name)
    if isinstance(value, dict):
        return (_parse_group(value, fields, f"{name}."),)
    if not isinstance(value, list):
        fields.report_wrong_type(
            name, value, "an object with a value or a list of values for each name, or a list of such objects"
        )
        return (ReplacementGroup(),)
    if not value:
        fields.error("empty-list", name, "is an empty list, so the file would have no versions. Remove it.")
    groups: list[ReplacementGroup] = []
    for place, item in enumerate(value):
        if isinstance(item, dict):
            groups.append(_parse_group(item, fields, f"{name}[{place}]."))
        else:
            fields.report_wrong_type(f"{name}[{place}]", item, "an object with a value for each name")
    return tuple(groups)


def _parse_group(row: dict[str, Any], outer: FieldReader, prefix: str) -> ReplacementGroup:
    fields = FieldReader(row, outer.problem_log, outer.path_to(prefix))
    values: dict[str, tuple[str, ...]] = {}
    for key in fields.remaining_names():
        _check_key(key, fields)
        value: Any = fields.pop(key)
        if value == []:
            fields.error(
                "empty-list", key, "is an empty list, so the file would have no versions. Add a value."
            )
        texts = [
            _to_text(item, fields, f"{key}[{place}]" if isinstance(value, list) else key)
            for place, item in enumerate(value if isinstance(value, list) else [value])
        ]
        values[key] = tuple(texts)
    return ReplacementGroup(values, {key: fields.line_for(key) or outer.problem_log.line for key in values})


def _check_key(key: str, fields: FieldReader) -> None:
    if key.startswith("_"):
        fields.error("reserved-name", key, "begins with `_`; such names are reserved for Proctor. Rename it.")
    elif not key.strip() or key != key.strip() or set(key) & set("{}\n"):
        message = "cannot be written between `{{` and `}}`. Use a name without braces and surrounding spaces."
        fields.error("bad-name", key, message)


def _to_text(value: Any, fields: FieldReader, place: str) -> str:
    if isinstance(value, str):
        return value.strip()
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return format_number(value)
    fields.report_wrong_type(place, value, "text, a number, true, false or null")
    return ""


def format_number(number: float) -> str:
    """Formats a number as JavaScript does: `440.0` is 440; integers keep every digit."""
    if isinstance(number, int):
        return str(number)
    if number == 0:
        return "0"
    if not 1e-6 <= abs(number) < 1e21:
        return _LEADING_ZEROS.sub("", repr(number))
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def get_first_line(groups: Iterable[ReplacementGroup]) -> int | None:
    """Returns the line of the first replacement; None if there is none."""
    return min((line for group in groups for line in group.lines.values()), default=None)


# --- checking ----------------------------------------------------------------------------------------------


def check_replacements(
    groups: Sequence[ReplacementGroup],
    uses: Mapping[str, int],
    length: int,
    notes: ProblemLog,
    possible: Collection[str] = (),
) -> None:
    """Notes placeholders without a value, values without a placeholder, and loops.

    Args:
        groups: the replacements.
        uses: the names in the texts, each with the line of its first placeholder.
        length: the total length of the texts.
        notes: takes the problems.
        possible: names that need no value.
    """
    references = [_find_references(group) for group in groups]
    reported_places: set[tuple[str, int]] = set()
    unused: dict[str, int] = {}
    used_anywhere: set[str] = set()
    for place, (group, edges) in enumerate(zip(groups, references, strict=True)):
        needed = dict(uses)
        for key, names in edges.items():
            for name in names:
                needed.setdefault(name, group.lines[key])
        for name, line in needed.items():
            if (
                name in group.values
                or name in possible
                or name.startswith("_file:")
                or (name, line) in reported_places
            ):
                continue
            reported_places.add((name, line))
            _note_unresolved(name, line, group, place if len(groups) > 1 else None, notes, possible)
        reachable = _find_reachable(uses, edges)
        used_anywhere |= reachable
        for key in [key for key in group.values if key not in reachable]:
            if not _note_duplicate_versions(key, group, notes):
                unused.setdefault(key, group.lines[key])
        _check_loops(edges, group, notes)
    for key, line in unused.items():
        if key not in used_anywhere:
            message = f"The replacement {quote_value(key)} is never used. Write `{{{{{key}}}}}` or remove it."
            notes.warn("unused-replacement", message, f"replacements.{key}", line=line)
    if not notes.has_errors:
        _check_size(groups, references, length, notes)


def _note_unresolved(
    name: str,
    line: int,
    group: ReplacementGroup,
    place: int | None,
    notes: ProblemLog,
    possible: Collection[str],
) -> None:
    shown_name = f"`{{{{{name[:60]}}}}}`"
    if name.startswith("_"):
        hint = suggestion(name[:60], list(possible)) if possible else "A test can use only `{{_file:PATH}}`."
        message = f"The placeholder {shown_name} begins with `_`, which is reserved for Proctor. {hint}"
        notes.error("reserved-name", message, line=line)
        return
    where = "" if place is None else f" in item {place + 1} of `replacements`"
    names = [*group.values, *possible]
    hint = suggestion(name[:60], names) if names else "There are no replacements."
    notes.error("unresolved-placeholder", f"{shown_name} has no value{where}. {hint}", line=line)


def _find_references(group: ReplacementGroup) -> dict[str, list[str]]:
    """Returns the names used in the values of each key."""
    return {
        key: list(
            dict.fromkeys(name for value in values if "{{" in value for name, _ in iter_placeholders(value))
        )
        for key, values in group.values.items()
    }


def _find_reachable(starts: Iterable[str], edges: Mapping[str, list[str]]) -> set[str]:
    reachable: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in reachable:
            reachable.add(name)
            waiting.extend(edges.get(name, ()))
    return reachable


def _note_duplicate_versions(key: str, group: ReplacementGroup, notes: ProblemLog) -> bool:
    """Notes an error if an unused key has several values. Returns whether it has."""
    count = len(group.values[key])
    if count > 1:
        message = (
            f"The replacement {quote_value(key)} has {count} values and is never used, so {count} versions "
            f"would be the same. Write `{{{{{key}}}}}` or remove it."
        )
        notes.error("duplicate-version", message, f"replacements.{key}", line=group.lines[key])
    return count > 1


def _check_loops(edges: Mapping[str, list[str]], group: ReplacementGroup, notes: ProblemLog) -> None:
    """Notes keys that refer to each other in a loop. All combinations are used, so they always meet."""
    if not any(edges.values()):
        return
    loop_free = set(_sort_names(edges))
    for key in edges:
        if key not in loop_free and key in _find_reachable(edges[key], edges):
            message = f"The replacement {quote_value(key)} refers to itself through the names in its values."
            notes.error("replacement-loop", message, f"replacements.{key}", line=group.lines[key])


def _sort_names(edges: Mapping[str, list[str]]) -> list[str]:
    """Sorts keys so that each comes after the keys its values use; leaves out keys in loops."""
    missing = {key: sum(name in edges for name in names) for key, names in edges.items()}
    users: dict[str, list[str]] = {}
    for key, names in edges.items():
        for name in names:
            users.setdefault(name, []).append(key)
    ready = [key for key, count in missing.items() if not count]
    for key in ready:
        for user in users.get(key, ()):
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    return ready


def _check_size(
    groups: Sequence[ReplacementGroup],
    references: Sequence[Mapping[str, list[str]]],
    length: int,
    notes: ProblemLog,
) -> None:
    counts = [prod(map(len, group.values.values())) for group in groups]
    if sum(counts) > MAX_VERSIONS:
        message = (
            f"The replacements make {sum(counts):,} versions of the file; at most {MAX_VERSIONS:,} "
            f"are allowed."
        )
        notes.error("too-many-versions", message, "replacements", line=get_first_line(groups))
        return
    triples = zip(groups, references, counts, strict=True)
    characters = sum(count * (length + _max_length(group, edges)) for group, edges, count in triples)
    if characters > MAX_CHARACTERS:
        message = (
            f"The versions of the file have more than {MAX_CHARACTERS:,} characters in total; shorten "
            f"the file."
        )
        notes.error("too-long", message, "replacements", line=get_first_line(groups))


def _max_length(group: ReplacementGroup, edges: Mapping[str, list[str]]) -> int:
    """Returns the total length of the longest values, with the values that they use filled in."""
    longest: dict[str, int] = {}
    for key in _sort_names(edges):
        longest[key] = max(map(len, group.values[key]))
        if edges[key]:
            times = Counter(name for value in group.values[key] for name, _ in iter_placeholders(value))
            longest[key] += sum(count * longest.get(name, 0) for name, count in times.items())
    return sum(longest.values())


# --- expanding ---------------------------------------------------------------------------------------------


def expand_versions(groups: Iterable[ReplacementGroup]) -> Iterator[dict[str, str]]:
    """Yields the values of each version, in file order. The groups must have been checked."""
    for group in groups:
        edges = _find_references(group)
        nested = [key for key in _sort_names(edges) if edges[key]] if any(edges.values()) else []
        for combination in product(*group.values.values()):
            values = dict(zip(group.values, combination, strict=True))
            for key in nested:
                values[key] = fill(values[key], values).strip()
            yield values


def make_brackets(rows: Sequence[Values]) -> list[str]:
    """Returns the bracket in each version's id: `[key=value,…]`, or a digest if that is long or not unique.

    A version without replacements has an empty one.
    """
    short = [_make_bracket(values) for values in rows]
    times = Counter(short)
    return [
        _make_digest_bracket(values) if len(name) > MAX_BRACKET_LENGTH or times[name] > 1 else name
        for name, values in zip(short, rows, strict=True)
    ]


def _make_bracket(values: Values) -> str:
    inner = ",".join(f"{key}={' '.join(value.split())}" for key, value in values.items())
    return f"[{inner}]" if values else ""


def _make_digest_bracket(values: Values) -> str:
    if not values:
        return ""
    text = ",".join(f"{key}={value}" for key, value in values.items())
    return f"[{sha256(text.encode()).hexdigest()[:12]}]"
