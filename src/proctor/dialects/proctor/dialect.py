"""Dialect proctor: JSON Lines that say whatever any dialect can, in the form of the nouns themselves.

The first line is the header, each other line a case as `codec.encode` writes it. Nothing is lowered and
nothing forgiven: a field that is unknown or of the wrong type is an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from proctor.dialects.proctor.syntax import KEY
from proctor.model import Problem, Suite
from proctor.protocols import Dialect, Head, Placed, Source


class Proctor(Dialect):
    """The dialect."""

    keeps_origin = True
    renderer = "proctor.dialects.proctor.writer:render"
    written_form = "JSONL"

    def recognises(self, head: Head) -> str | None:
        """A first line with the key `proctor`."""
        return f"its first line has `{KEY}`" if head.rows and KEY in head.rows[0] else None

    def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
        """The header, the cases in file order, and every problem where it is met."""
        from proctor.dialects.proctor.reader import suite_of  # most runs are of another dialect

        return suite_of(source)


DIALECT = Proctor()
