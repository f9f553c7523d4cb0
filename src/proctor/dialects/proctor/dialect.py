"""Dialect proctor: JSON Lines that can express whatever any dialect can, as Proctor's own records.

The first line is the header, each other line a case as `codec.encode` writes it. Nothing is translated, and
an unknown field or one of the wrong type is an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from proctor.dialects.proctor.syntax import KEY
from proctor.model import Problem, Suite
from proctor.protocols import Dialect, Head, Placed, Source


class Proctor(Dialect):
    """Reads and writes Proctor's own format."""

    keeps_origin = True
    renderer = "proctor.dialects.proctor.writer:render"
    written_form = "JSONL"

    def recognises(self, head: Head) -> str | None:
        """Recognises a first line with the key `proctor`."""
        return f"its first line has `{KEY}`" if head.rows and KEY in head.rows[0] else None

    def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        from proctor.dialects.proctor.reader import suite_of  # most runs use another dialect

        return suite_of(source)


DIALECT = Proctor()
