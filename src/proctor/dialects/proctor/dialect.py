"""Dialect proctor: JSON Lines that can express whatever any dialect can, as Proctor's own records.

The first line is the header, each other line a case as `codec.encode` writes it. Nothing is translated, and
an unknown field or one of the wrong type is an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from proctor.dialects.proctor.syntax import HEADER_KEY
from proctor.model import Problem, Suite
from proctor.protocols import CaseAtLine, Dialect, FileHead, SuiteSource


class Proctor(Dialect):
    """Reads and writes Proctor's own format."""

    keeps_origin = True
    renderer = "proctor.dialects.proctor.writer:render"
    output_format = "JSONL"

    def recognises(self, head: FileHead) -> str | None:
        """Recognises a first line with the key `proctor`."""
        return f"its first line has `{HEADER_KEY}`" if head.rows and HEADER_KEY in head.rows[0] else None

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        from proctor.dialects.proctor.reader import parse_suite  # most runs use another dialect

        return parse_suite(source)


DIALECT = Proctor()
