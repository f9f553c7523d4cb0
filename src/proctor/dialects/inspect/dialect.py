"""Dialect inspect: samples of an Inspect dataset, as JSON Lines, a JSON array or CSV."""

from __future__ import annotations

from proctor.dialects.shared.signatures import is_inspect
from proctor.protocols import Dialect, DialectSetting, FileHead


class Inspect(Dialect):
    """Reads samples of an Inspect dataset."""

    endings = (".jsonl", ".ndjson", ".json", ".csv")
    reader = "proctor.dialects.inspect.samples:parse_suite"
    types = "proctor.dialects.inspect.samples:TYPES"

    def recognises(self, head: FileHead) -> str | None:
        """Recognises rows or columns with an `input` and its `target` or `choices`."""
        return "it has `input` and `target` or `choices`" if is_inspect(head) else None

    def settings(self) -> tuple[DialectSetting, ...]:
        """How answers are compared with the target."""
        from proctor.dialects.inspect.samples import SCORERS  # most runs are of another dialect

        return (
            DialectSetting("inspect-scorer", tuple(SCORERS), "How answers to Inspect samples are compared."),
        )


DIALECT = Inspect()
