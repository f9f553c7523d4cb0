"""Dialect proctor: JSON Lines that can express whatever any dialect can, as Proctor's own records.

The first line is the header, each other line a case as `codec.encode` writes it. Nothing is translated, and
an unknown field or one of the wrong type is an error.
"""

from __future__ import annotations

from typing import Final

from proctor.protocols import Dialect, FileHead

HEADER_KEY: Final = "proctor"
"""The field that marks a header; its value is the version of the format."""


class Proctor(Dialect):
    """Reads and writes Proctor's own format."""

    keeps_origin = True
    keeps_prompts = True
    renderer = "proctor.dialects.proctor.writer:render"
    output_format = "JSONL"
    reader = "proctor.dialects.proctor.reader:parse_suite"

    def recognises(self, head: FileHead) -> str | None:
        """Recognises a first line with the key `proctor`."""
        return f"its first line has `{HEADER_KEY}`" if head.rows and HEADER_KEY in head.rows[0] else None


DIALECT = Proctor()
