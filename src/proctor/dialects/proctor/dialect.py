"""Dialect proctor: JSON Lines that say whatever any dialect can, in the form of the nouns themselves.

The first line is the header, each other line a case as `codec.encode` writes it. Nothing is lowered and
nothing forgiven: a field that is unknown or of the wrong type is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from proctor.model import Problem, Suite
from proctor.protocols import Head, Placed, Source

KEY: Final = "proctor"
"""The field by which a header is known; its value is the version of the form."""
FROM: Final = "from"
ASIDE: Final = (FROM, "suite_hash")
"""Fields of the header that say what the suite was before it was written so; they have no effect."""


class Proctor:
    """The dialect; holds nothing."""

    def recognises(self, head: Head) -> str | None:
        """A first line with the key `proctor`."""
        return f"its first line has `{KEY}`" if head.rows and KEY in head.rows[0] else None

    def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
        """The header, the cases in file order, and every problem where it is met."""
        from proctor.dialects.proctor.reader import suite_of  # most runs are of another dialect

        return suite_of(source)


DIALECT = Proctor()
