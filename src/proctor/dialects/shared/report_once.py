"""Leaves out problems that every test of a file would repeat."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from proctor.lazy_pattern import lazy_pattern
from proctor.model import Problem, Suite
from proctor.protocols import CaseAtLine

_LIST_INDEX: Final = lazy_pattern(r"\[\d+\]")


def report_once(
    items: Iterable[Suite | CaseAtLine | Problem], codes: Collection[str]
) -> Iterator[Suite | CaseAtLine | Problem]:
    """Yields the items; of the problems with these codes, only the first for each file and field."""
    reported_keys: set[tuple[str, str, str]] = set()
    for item in items:
        if isinstance(item, Problem) and item.code in codes:
            field = item.field or ""
            key = (item.path, item.code, _LIST_INDEX.sub("", field) if "[" in field else field)
            if key in reported_keys:
                continue
            reported_keys.add(key)
        yield item
