"""Diffs two suites: cases added, removed, renamed and changed, field by field. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from posixpath import splitext
from typing import Any

from msgspec import Struct

from proctor.codec import decode, encode, judged_digest, sent_digest
from proctor.model import Case, Suite

_DERIVED_FIELDS = ("version", "digest", "content", "case_count", "suite_hash", "folder", "no_holdout")
"""Fields of a header that follow from the cases, the suite's location or its split rule."""


class FieldChange(Struct, frozen=True):
    """A changed field; a value is None if the field is absent or has its default."""

    field: str
    """Its path, such as `input[0].content`."""
    old: Any
    new: Any


class CaseChange(Struct, frozen=True):
    """A case that is in both suites and differs."""

    case: str
    """The id in the new suite."""
    changes: tuple[FieldChange, ...]


class CaseRename(Struct, frozen=True):
    """A case with a new id that is sent and graded in the same way."""

    old: str
    new: str


class Diff(Struct, frozen=True, kw_only=True):
    """The differences between an old suite and a new one; all but `removed` in the order of the new one."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: tuple[CaseRename, ...] = ()
    changed: tuple[CaseChange, ...] = ()
    """Includes renamed cases if more changed than the id and the metadata that the id is made of."""
    header: tuple[FieldChange, ...] = ()
    moved: int = 0
    """The smallest number of cases to move to get the new order."""
    same: int = 0
    """The number of cases that are the same in every field; they may have moved."""

    @property
    def is_empty(self) -> bool:
        """Whether the two are the same."""
        return not any((self.added, self.removed, self.renamed, self.changed, self.header, self.moved))


def diff_suites(old: Suite, old_cases: Iterable[Case], new: Suite, new_cases: Iterable[Case]) -> Diff:
    """Compares two suites. Cases are held as JSON; equal cases are held once.

    Args:
        old: the header of the old suite.
        old_cases: its cases, with unique ids.
        new: the header of the new suite.
        new_cases: its cases, with unique ids.
    """
    before = {case.id: encode(case) for case in old_cases}
    after: dict[str, bytes] = {}
    for case in new_cases:
        body, was = encode(case), before.get(case.id)
        after[case.id] = was if was == body else body
    former = {id_: id_ for id_ in after if id_ in before} | _match_renames(before, after)
    pairs = [(former[id_], id_) for id_ in after if id_ in former]
    case_changes = [CaseChange(id_, _diff_cases(before[was], after[id_], was, id_)) for was, id_ in pairs]
    still_there = set(former.values())
    places = {id_: place for place, id_ in enumerate(before)}
    return Diff(
        added=tuple(id_ for id_ in after if id_ not in former),
        removed=tuple(id_ for id_ in before if id_ not in still_there),
        renamed=tuple(CaseRename(was, id_) for was, id_ in pairs if was != id_),
        changed=tuple(change for change in case_changes if change.changes),
        header=tuple(diff_values(_header_fields(old), _header_fields(new))),
        moved=len(pairs) - _longest_ascending_length(places[was] for was, _ in pairs),
        same=sum(
            was == change.case and not change.changes
            for (was, _), change in zip(pairs, case_changes, strict=True)
        ),
    )


def _match_renames(before: dict[str, bytes], after: dict[str, bytes]) -> dict[str, str]:
    """Maps new ids to old ids for new cases that are sent and graded like removed ones, in order."""
    removed_ids: dict[tuple[str, str], deque[str]] = defaultdict(deque)
    for id_, body in before.items():
        if id_ not in after:
            removed_ids[_identity(body)].append(id_)
    old_ids: dict[str, str] = {}
    for id_, body in after.items():
        if removed_ids and id_ not in before and (same := removed_ids.get(_identity(body))):
            old_ids[id_] = same.popleft()
    return old_ids


def _identity(body: bytes) -> tuple[str, str]:
    case = decode(body, Case)
    return sent_digest(case), judged_digest(case)


def _diff_cases(old: bytes, new: bytes, old_id: str, new_id: str) -> tuple[FieldChange, ...]:
    """Returns the changes of a case, without its id and the metadata that the id is made of."""
    if old == new:
        return ()
    was, is_ = decode(old, dict[str, Any]), decode(new, dict[str, Any])
    found_changes = tuple(diff_values(was | {"id": None}, is_ | {"id": None}))
    naming = _naming_changes(found_changes, old_id, new_id) if old_id != new_id else ()
    return tuple(change for change in found_changes if change not in naming)


def _naming_changes(found_changes: Iterable[FieldChange], old_id: str, new_id: str) -> list[FieldChange]:
    """Returns the metadata changes, such as a file's name, that together turn the old id into the new one."""
    naming, id_ = [], old_id
    for change in found_changes:
        old, new = change.old, change.new
        if change.field.startswith("metadata.") and old and isinstance(old, str) and isinstance(new, str):
            new_name = id_.replace(splitext(old)[0], splitext(new)[0], 1)
            if new_name != id_:
                naming.append(change)
                id_ = new_name
    return naming if id_ == new_id else []


def _header_fields(suite: Suite) -> dict[str, Any]:
    fields = decode(encode(suite), dict[str, Any])
    return {name: value for name, value in fields.items() if name not in _DERIVED_FIELDS}


def diff_values(old: Any, new: Any, field: str = "") -> Iterator[FieldChange]:
    """Yields the differences of plain data, down to single values and lists of them.

    Args:
        old: the old data; None for nothing.
        new: the new data.
        field: the path of both.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old | new:
            inner = name if name.isidentifier() else f'"{name}"'
            yield from diff_values(old.get(name), new.get(name), f"{field}.{inner}" if field else inner)
    elif (
        isinstance(old, list)
        and isinstance(new, list)
        and any(isinstance(item, dict | list) for item in (*old, *new))
    ):
        for place, (was, is_) in enumerate(zip_longest(old, new)):
            yield from diff_values(was, is_, f"{field}[{place}]")
    elif encode(old) != encode(new):  # as JSON, since 1, 1.0 and true are equal here
        yield FieldChange(field, old, new)


def _longest_ascending_length(places: Iterable[int]) -> int:
    """Returns the length of the longest ascending subsequence.

    Source: patience sorting, Aldous and Diaconis 1999.
    """
    tops: list[int] = []
    for place in places:
        at = bisect_left(tops, place)
        tops[at : at + 1] = [place]
    return len(tops)
