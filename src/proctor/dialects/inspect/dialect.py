"""Dialect inspect: samples of an Inspect dataset, as JSON Lines, a JSON array or CSV."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from proctor.dialects.shared.signatures import is_inspect
from proctor.model import Problem, Suite
from proctor.protocols import CaseAtLine, Dialect, DialectSetting, FileHead, SuiteSource


class Inspect(Dialect):
    """Reads samples of an Inspect dataset."""

    endings = (".jsonl", ".ndjson", ".json", ".csv")

    def recognises(self, head: FileHead) -> str | None:
        """Recognises rows or columns with an `input` and its `target` or `choices`."""
        return "it has `input` and `target` or `choices`" if is_inspect(head) else None

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        from proctor.dialects.inspect.samples import parse_suite  # most runs use another dialect

        yield from parse_suite(source)

    def assertion_types(self) -> Collection[str]:
        """Returns the types of the format's assertions."""
        from proctor.dialects.inspect.samples import TYPES  # most runs use another dialect

        return TYPES

    def settings(self) -> tuple[DialectSetting, ...]:
        """How answers are compared with the target."""
        from proctor.dialects.inspect.samples import SCORERS  # most runs are of another dialect

        return (DialectSetting("inspect-scorer", tuple(SCORERS)),)


DIALECT = Inspect()
